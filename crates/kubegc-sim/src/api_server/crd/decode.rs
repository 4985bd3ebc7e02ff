//! Fields and defaults of CustomResourceDefinitions of `apiextensions.k8s.io/v1`.
//!
//! # Upstream
//! `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/{types,types_jsonschema,defaults}.go`, 1.20.2.

use kubegc_core::KubernetesVersion;
use serde_json::{Map, Value, json};

use crate::go;

/// The type of a field.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Text,
    /// A string that may be empty.
    TextPointer,
    Flag,
    /// A boolean that may be false.
    FlagPointer,
    Whole,
    WholePointer,
    Float,
    Texts,
    /// Any value.
    Any,
    Anys,
    Object(&'static [Field]),
    List(&'static [Field]),
    Schema,
    Schemas,
    SchemaMap,
    /// A schema or a boolean that allows any value.
    SchemaOrFlag,
    /// A schema, or a list of them.
    SchemaOrList,
    /// Schemas or lists of strings by name.
    Dependencies,
}

/// A field of a struct.
#[derive(Clone, Copy, Debug)]
struct Field {
    name: &'static str,
    shape: Shape,
    /// Whether it is written even if it is empty.
    always: bool,
    /// The first minor release that has the field by default.
    since_minor: u16,
}

const fn field(name: &'static str, shape: Shape) -> Field {
    Field {
        name,
        shape,
        always: false,
        since_minor: 0,
    }
}

const fn since(name: &'static str, shape: Shape, since_minor: u16) -> Field {
    Field {
        name,
        shape,
        always: false,
        since_minor,
    }
}

const fn always(name: &'static str, shape: Shape) -> Field {
    Field {
        name,
        shape,
        always: true,
        since_minor: 0,
    }
}

const DEFINITION: &[Field] = &[
    always("spec", Shape::Object(SPEC)),
    always("status", Shape::Object(STATUS)),
];
const SPEC: &[Field] = &[
    always("group", Shape::Text),
    always("names", Shape::Object(NAMES)),
    always("scope", Shape::Text),
    always("versions", Shape::List(VERSION)),
    field("conversion", Shape::Object(CONVERSION)),
    field("preserveUnknownFields", Shape::Flag),
];
const NAMES: &[Field] = &[
    always("plural", Shape::Text),
    field("singular", Shape::Text),
    field("shortNames", Shape::Texts),
    always("kind", Shape::Text),
    field("listKind", Shape::Text),
    field("categories", Shape::Texts),
];
const VERSION: &[Field] = &[
    always("name", Shape::Text),
    always("served", Shape::Flag),
    always("storage", Shape::Flag),
    field("deprecated", Shape::Flag),
    field("deprecationWarning", Shape::TextPointer),
    field(
        "schema",
        Shape::Object(&[field("openAPIV3Schema", Shape::Schema)]),
    ),
    field("subresources", Shape::Object(SUBRESOURCES)),
    field("additionalPrinterColumns", Shape::List(COLUMN)),
    since("selectableFields", Shape::Anys, 31),
];
const SUBRESOURCES: &[Field] = &[
    field("status", Shape::Object(&[])),
    field(
        "scale",
        Shape::Object(&[
            always("specReplicasPath", Shape::Text),
            always("statusReplicasPath", Shape::Text),
            field("labelSelectorPath", Shape::TextPointer),
        ]),
    ),
];
const COLUMN: &[Field] = &[
    always("name", Shape::Text),
    always("type", Shape::Text),
    field("format", Shape::Text),
    field("description", Shape::Text),
    field("priority", Shape::Whole),
    always("jsonPath", Shape::Text),
];
const CONVERSION: &[Field] = &[
    always("strategy", Shape::Text),
    field(
        "webhook",
        Shape::Object(&[
            field(
                "clientConfig",
                Shape::Object(&[
                    field("url", Shape::TextPointer),
                    field(
                        "service",
                        Shape::Object(&[
                            always("namespace", Shape::Text),
                            always("name", Shape::Text),
                            field("path", Shape::TextPointer),
                            field("port", Shape::WholePointer),
                        ]),
                    ),
                    field("caBundle", Shape::Text),
                ]),
            ),
            always("conversionReviewVersions", Shape::Texts),
        ]),
    ),
];
const STATUS: &[Field] = &[
    always("conditions", Shape::Anys),
    always("acceptedNames", Shape::Object(NAMES)),
    always("storedVersions", Shape::Texts),
];
const SCHEMA: &[Field] = &[
    field("id", Shape::Text),
    field("$schema", Shape::Text),
    field("$ref", Shape::TextPointer),
    field("description", Shape::Text),
    field("type", Shape::Text),
    field("format", Shape::Text),
    field("title", Shape::Text),
    field("default", Shape::Any),
    field("maximum", Shape::Float),
    field("exclusiveMaximum", Shape::Flag),
    field("minimum", Shape::Float),
    field("exclusiveMinimum", Shape::Flag),
    field("maxLength", Shape::WholePointer),
    field("minLength", Shape::WholePointer),
    field("pattern", Shape::Text),
    field("maxItems", Shape::WholePointer),
    field("minItems", Shape::WholePointer),
    field("uniqueItems", Shape::Flag),
    field("multipleOf", Shape::Float),
    field("enum", Shape::Anys),
    field("maxProperties", Shape::WholePointer),
    field("minProperties", Shape::WholePointer),
    field("required", Shape::Texts),
    field("items", Shape::SchemaOrList),
    field("allOf", Shape::Schemas),
    field("oneOf", Shape::Schemas),
    field("anyOf", Shape::Schemas),
    field("not", Shape::Schema),
    field("properties", Shape::SchemaMap),
    field("additionalProperties", Shape::SchemaOrFlag),
    field("patternProperties", Shape::SchemaMap),
    field("dependencies", Shape::Dependencies),
    field("additionalItems", Shape::SchemaOrFlag),
    field("definitions", Shape::SchemaMap),
    field(
        "externalDocs",
        Shape::Object(&[field("description", Shape::Text), field("url", Shape::Text)]),
    ),
    field("example", Shape::Any),
    field("nullable", Shape::Flag),
    field("x-kubernetes-preserve-unknown-fields", Shape::FlagPointer),
    field("x-kubernetes-embedded-resource", Shape::Flag),
    field("x-kubernetes-int-or-string", Shape::Flag),
    field("x-kubernetes-list-map-keys", Shape::Texts),
    field("x-kubernetes-list-type", Shape::TextPointer),
    field("x-kubernetes-map-type", Shape::TextPointer),
    since("x-kubernetes-validations", Shape::Anys, 25),
];

/// Reads a definition: drops empty fields and fields that the release does not have, and sets upstream's
/// defaults.
///
/// # Errors
/// Names the field with a value of the wrong type.
pub(super) fn read(definition: &mut Map<String, Value>, version: KubernetesVersion) -> Result<(), String> {
    let metadata = definition.remove("metadata");
    let sent = std::mem::take(definition);
    *definition = Reader(version.minor()).object(&sent, DEFINITION, "v1.CustomResourceDefinition")?;
    fill(definition);
    if let Some(metadata) = metadata {
        definition.insert("metadata".to_owned(), metadata);
    }
    Ok(())
}

/// Sets the default names, conversion strategy and ports.
fn fill(definition: &mut Map<String, Value>) {
    let Some(Value::Object(spec)) = definition.get_mut("spec") else {
        return;
    };
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if !kind.is_empty() {
            let singular = kind.to_lowercase();
            names.entry("singular").or_insert_with(|| singular.into());
            names
                .entry("listKind")
                .or_insert_with(|| format!("{kind}List").into());
        }
    }
    let conversion = spec
        .entry("conversion")
        .or_insert_with(|| json!({"strategy": "None"}));
    if let Some(Value::Object(service)) = conversion.pointer_mut("/webhook/clientConfig/service") {
        service.entry("port").or_insert_with(|| json!(443));
    }
}

/// Reads as a minor release does. Depth is bounded by the parser that read the value, here and in all
/// following functions.
#[derive(Clone, Copy)]
struct Reader(u16);

impl Reader {
    fn object(
        self,
        sent: &Map<String, Value>,
        fields: &[Field],
        path: &str,
    ) -> Result<Map<String, Value>, String> {
        let mut read = Map::new();
        for field in fields.iter().filter(|field| field.since_minor <= self.0) {
            let path = format!("{path}.{}", field.name);
            let value = sent.get(field.name).unwrap_or(&Value::Null);
            let value = self.shaped(value, field.shape, &path)?;
            let value = value.filter(|value| field.always || *value != json!([]));
            if let Some(value) = value.or_else(|| field.always.then(|| self.empty(field.shape))) {
                read.insert(field.name.to_owned(), value);
            }
        }
        Ok(read)
    }

    /// The value of an empty field that is written.
    fn empty(self, shape: Shape) -> Value {
        match shape {
            Shape::Text => "".into(),
            Shape::Flag => false.into(),
            Shape::Object(fields) => self
                .object(&Map::new(), fields, "")
                .map_or(Value::Null, Value::Object),
            _ => Value::Null,
        }
    }

    /// A value in its type; `None` where it is dropped.
    fn shaped(self, value: &Value, shape: Shape, path: &str) -> Result<Option<Value>, String> {
        let wrong = |expected: &str| {
            Err(format!(
                "{path}: expects {expected}, but found {}, error found in #10 byte of ...|{value}|...",
                go::json_kind(value)
            ))
        };
        Ok(match (shape, value) {
            (_, Value::Null) => None,
            (Shape::Any, value) => Some(value.clone()),
            (Shape::Text, Value::String(text)) => (!text.is_empty()).then(|| value.clone()),
            (Shape::Flag, Value::Bool(flag)) => flag.then(|| value.clone()),
            (Shape::Whole, Value::Number(number)) if number.is_i64() => {
                (number.as_i64() != Some(0)).then(|| value.clone())
            }
            (Shape::TextPointer, Value::String(_))
            | (Shape::FlagPointer, Value::Bool(_))
            | (Shape::Float, Value::Number(_)) => Some(value.clone()),
            (Shape::WholePointer, Value::Number(number)) if number.is_i64() => Some(value.clone()),
            (Shape::Texts, Value::Array(items)) => {
                if items.iter().any(|item| !item.is_string()) {
                    return wrong("a list of texts");
                }
                Some(value.clone())
            }
            (Shape::Anys, Value::Array(_)) => Some(value.clone()),
            (Shape::Object(fields), Value::Object(sent)) => {
                Some(Value::Object(self.object(sent, fields, path)?))
            }
            (Shape::List(fields), Value::Array(items)) => {
                let mut read = Vec::with_capacity(items.len());
                for item in items {
                    let nothing = Map::new();
                    let sent = match item {
                        Value::Object(sent) => sent,
                        Value::Null => &nothing,
                        _ => return wrong("a list of objects"),
                    };
                    read.push(Value::Object(self.object(sent, fields, path)?));
                }
                Some(Value::Array(read))
            }
            (Shape::Schema, Value::Object(sent)) => Some(Value::Object(self.object(sent, SCHEMA, path)?)),
            (Shape::SchemaOrFlag, Value::Bool(_)) => Some(value.clone()),
            (Shape::SchemaOrFlag | Shape::SchemaOrList, Value::Object(_)) => {
                self.shaped(value, Shape::Schema, path)?
            }
            (Shape::Schemas | Shape::SchemaOrList, Value::Array(items)) => {
                let mut read = Vec::with_capacity(items.len());
                for item in items {
                    read.push(
                        self.shaped(item, Shape::Schema, path)?
                            .unwrap_or_else(|| json!({})),
                    );
                }
                (!read.is_empty()).then_some(Value::Array(read))
            }
            (Shape::SchemaMap | Shape::Dependencies, Value::Object(sent)) => {
                let mut read = Map::new();
                for (key, item) in sent {
                    let path = format!("{path}[{key}]");
                    let of_texts = matches!((shape, item), (Shape::Dependencies, Value::Array(_)));
                    let shape = if of_texts { Shape::Texts } else { Shape::Schema };
                    read.insert(
                        key.clone(),
                        self.shaped(item, shape, &path)?.unwrap_or_else(|| json!({})),
                    );
                }
                (!read.is_empty()).then_some(Value::Object(read))
            }
            _ => return wrong("another type"),
        })
    }
}
