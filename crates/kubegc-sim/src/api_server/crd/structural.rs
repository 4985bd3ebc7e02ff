//! Validates the schemas of CustomResourceDefinitions: that they are structural, and that their defaults are
//! valid.
//!
//! # Upstream
//! `ValidateCustomResourceDefinitionOpenAPISchema` in
//! `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`, and
//! `pkg/apiserver/schema/{validation,complete}.go` and `defaulting/validation.go`, 1.20.2.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Value, json};

use super::{
    instance::{self, is_embedded},
    openapi, section,
};
use crate::{
    go,
    status::quoted,
    types::{
        field::{At, Check},
        go_syntax::{self, go_name},
        node::{Node, prune},
    },
};

/// Keywords of JSON schemas that definitions may not use.
const UNSUPPORTED: &str = "id additionalItems patternProperties definitions dependencies $ref";
const KEYS: &str = "x-kubernetes-list-map-keys";
const PRESERVES: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

fn forbid(field: &At<'_>, is_wrong: bool, problem: &str, c: &mut Check) {
    if is_wrong {
        field.forbidden(c, problem);
    }
}

/// The problems of the schema of one or all versions.
pub(super) fn problems(schema: &At<'_>, has_status: bool, c: &mut Check) {
    let before = c.causes.len();
    if has_status {
        root_of_status(schema, c);
    }
    section("SchemaRoot", schema, c);
    let root = Place {
        is_root: true,
        ..Place::default()
    };
    if !standard(schema, root, c) {
        // Reported above.
        if c.causes.len() == before {
            schema.invalid_as(c, "\"\"", "OpenAPIV3Schema '$schema' is not supported");
        }
        return;
    }
    let found = c.causes.len();
    section("SchemaInvariants", schema, c);
    complete(schema, schema, c);
    if c.causes.len() == found {
        defaults(schema, true, false, c);
    }
}

/// At the root of a schema with a status of its own, only some fields have an effect.
fn root_of_status(schema: &At<'_>, c: &mut Check) {
    const ALLOWED: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
         MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs \
         Example XPreserveUnknownFields";
    let kind = schema.get("type");
    if !kind.text().is_empty() && kind.text() != "object" {
        kind.invalid(
            c,
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        );
        return;
    }
    let fields = schema.value.as_object().into_iter().flatten();
    let mut names = fields.map(|(key, _)| go_name(key));
    // Rules were added after the releases of this list.
    if names.any(|name| ALLOWED.split(' ').all(|allowed| allowed != name) && name != "XValidations") {
        let problem = format!(
            "only [{ALLOWED}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        schema.invalid_as(c, &go::syntax(schema.value), &problem);
    }
}

/// The position of a schema in a resource.
#[derive(Clone, Copy, Default)]
struct Place {
    is_root: bool,
    in_meta: bool,
    /// The reason why defaults are forbidden.
    no_defaults: Option<&'static str>,
}

/// Validates the rules for every schema; whether it can be structural. Depth is bounded by the parser that
/// read it, here and in all following functions.
fn standard(schema: &At<'_>, place: Place, c: &mut Check) -> bool {
    section("SchemaType", schema, c);
    let default = schema.get("default");
    if let Some(reason) = place.no_defaults.filter(|_| default.is_set()) {
        default.forbidden(c, &format!("must not be set {reason}"));
    }
    section("SchemaKeywords", schema, c);
    let items = schema.get("items");
    let mut is_convertible = !schema.get("$schema").is_set()
        && UNSUPPORTED.split(' ').all(|key| !schema.get(key).is_set())
        && !items.value.is_array()
        && *schema.get(PRESERVES).value != false;
    let problem = "items must be a schema object and not an array";
    forbid(&items, items.value.is_array(), problem, c);
    let is_nested = place.in_meta && is_embedded(schema.value);
    let problem = "must not be used inside of resource meta";
    forbid(&schema.get(EMBEDDED), is_nested, problem, c);
    section("SchemaSize", schema, c);
    let (properties, additional) = (schema.get("properties"), schema.get("additionalProperties"));
    let below = Place {
        is_root: false,
        ..place
    };
    if additional.value.is_object() {
        let mut below = below;
        if place.in_meta {
            below.no_defaults = Some("inside additionalProperties applying to object metadata");
        }
        is_convertible &= standard(&additional, below, c);
    }
    for (key, property) in properties.entries() {
        let reason = match key {
            "apiVersion" => Some("in top-level apiVersion"),
            "kind" => Some("in top-level kind"),
            "metadata" => Some("in top-level metadata"),
            _ => None,
        };
        let mut below = below;
        if reason.is_some() && (place.is_root || is_embedded(schema.value)) {
            below.in_meta = true;
            below.no_defaults = reason.filter(|_| place.is_root).or(below.no_defaults);
        }
        is_convertible &= standard(&property, below, c);
    }
    for (_, nested) in nested(schema) {
        is_convertible &= standard(&nested, below, c);
    }
    if items.value.is_object() {
        is_convertible &= standard(&items, below, c);
    }
    section("SchemaExtensions", schema, c);
    is_convertible
}

/// The schemas of `not`, `allOf`, `oneOf` and `anyOf`, with the name of the list.
fn nested<'a>(schema: &At<'a>) -> Vec<(&'static str, At<'a>)> {
    let not = Some(schema.get("not")).filter(At::is_set);
    let mut found: Vec<(&str, At<'a>)> = not.into_iter().map(|not| ("not", not)).collect();
    for key in ["allOf", "oneOf", "anyOf"] {
        found.extend(schema.get(key).items().map(|nested| (key, nested)));
    }
    found
}

/// The schema of a list with keys.
pub(crate) fn map_list(list: &At<'_>, c: &mut Check) {
    let (items, keys) = (list.get("items"), list.get(KEYS));
    if !items.is_set() {
        items.required(c, "must have a schema if x-kubernetes-list-type is map");
        return;
    }
    if !items.value.is_object() {
        let problem = "must only have a single schema if x-kubernetes-list-type is map";
        items.invalid_as(c, &go::syntax(items.value), problem);
        return;
    }
    let kind = items.get("type");
    if kind.text() != "object" {
        let problem = "must be object if parent array's x-kubernetes-list-type is map";
        kind.invalid_as(c, &quoted(kind.text()), problem);
        return;
    }
    let shown = go_syntax::value(c.version, keys.value, "[]string");
    let mut seen = BTreeSet::new();
    for key in keys.items() {
        let property = items.get("properties").key(key.text());
        if !property.is_set() {
            keys.invalid_as(c, &shown, "entries must all be names of item properties");
        } else if matches!(property.get("type").text(), "array" | "object") {
            let problem = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            property.get("type").invalid_as(c, &kind.shown(), problem);
        }
        if !seen.insert(key.text()) {
            keys.invalid_as(c, &shown, "must not contain duplicate entries");
        }
    }
}

/// Every item has the keys of a map.
pub(crate) fn keys_of_map(list: &At<'_>, c: &mut Check) {
    const LISTED: &str = "this property is in x-kubernetes-list-map-keys";
    let (items, keys) = (list.get("items"), list.get(KEYS));
    if !items.value.is_object() {
        return;
    }
    for key in keys.items() {
        let property = items.get("properties").key(key.text());
        if !property.is_set() {
            continue;
        }
        let default = property.get("default");
        let is_required = items.get("required").items().any(|one| one.value == key.value);
        if !is_required && !default.is_set() {
            let must = "it must have a default or be a required property";
            default.required(c, &format!("{LISTED}, so {must}"));
        }
        let nullable = property.get("nullable");
        let problem = format!("{LISTED}, so it cannot be nullable");
        forbid(&nullable, nullable.flag(), &problem, c);
    }
}

/// The metadata in the schema of a version.
pub(crate) fn root_metadata(metadata: &At<'_>, c: &mut Check) {
    let says_more = |(key, value): (&String, &Value)| match (key.as_str(), value) {
        ("type" | "default", _) => false,
        ("properties", Value::Object(properties)) => properties
            .keys()
            .any(|key| !matches!(key.as_str(), "name" | "generateName")),
        _ => true,
    };
    let mut fields = metadata.value.as_object().into_iter().flatten();
    let problem =
        "must not specify anything other than name and generateName, but metadata is implicitly specified";
    forbid(metadata, fields.any(says_more), problem, c);
}

/// The schemas in the value validation of a schema.
pub(crate) fn value_validation(schema: &At<'_>, c: &mut Check) {
    // These say that the value is an integer or a string.
    let both_types = json!([{"type": "integer"}, {"type": "string"}]);
    let skips_any = schema.value["anyOf"] == both_types;
    let skips_all = schema.value["allOf"][0]["anyOf"] == both_types;
    validation_of(schema, skips_any, skips_all, c);
}

/// `validateValueValidation`.
fn validation_of(schema: &At<'_>, skips_any: bool, skips_all: bool, c: &mut Check) {
    let mut is_first = true;
    for (key, nested) in nested(schema) {
        let skips = skips_all && key == "allOf" && std::mem::take(&mut is_first);
        if !(key == "anyOf" && skips_any) {
            nested_validation(&nested, skips, c);
        }
    }
    let pattern = schema.get("pattern");
    if !pattern.text().is_empty()
        && let Err(problem) = Regex::new(pattern.text())
    {
        let problem = go_problem(pattern.text(), &problem);
        pattern.invalid(
            c,
            &format!("must be a valid regular expression, but isn't: error parsing regexp: {problem}"),
        );
    }
}

/// Words of the library's errors, what Go calls them, and the part of the pattern that Go shows: where it
/// begins, and its length.
const PROBLEMS_OF_PATTERNS: [(&str, &str, &str, usize); 7] = [
    ("unclosed group", "missing closing )", "", usize::MAX),
    ("unopened group", "unexpected )", "", usize::MAX),
    ("unclosed character class", "missing closing ]", "[", usize::MAX),
    (
        "repetition operator missing expression",
        "missing argument to repetition operator",
        "*+?{",
        1,
    ),
    (
        "incomplete escape sequence",
        "trailing backslash at end of expression",
        "",
        0,
    ),
    ("unrecognized escape", "invalid escape sequence", "\\", 2),
    ("look-around", "invalid or unsupported Perl syntax", "(?", 3),
];

/// The message of Go's `regexp` for an invalid pattern.
fn go_problem(pattern: &str, problem: &regex::Error) -> String {
    let said = problem.to_string();
    let mut known = PROBLEMS_OF_PATTERNS
        .iter()
        .filter(|(words, ..)| said.contains(words));
    let unknown = &("", "invalid character class range", "", usize::MAX);
    let (_, what, begin, length) = known.next().unwrap_or(unknown);
    let at = match *begin {
        "" => Some(0),
        "[" => pattern.rfind('['),
        "(?" => pattern.find("(?"),
        begin => pattern.find(|c| begin.contains(c)),
    };
    let rest = at.and_then(|at| pattern.get(at..)).unwrap_or_default();
    let place: String = rest.chars().take(*length).collect();
    format!("{what}: `{place}`")
}

/// `validateNestedValueValidation`.
fn nested_validation(schema: &At<'_>, skips_any: bool, c: &mut Check) {
    validation_of(schema, skips_any, false, c);
    let (items, properties) = (schema.get("items"), schema.get("properties"));
    if items.value.is_object() {
        nested_validation(&items, false, c);
    }
    for (_, property) in properties.entries() {
        nested_validation(&property, false, c);
    }
    section("SchemaNested", schema, c);
}

/// `validateStructuralCompleteness`: fields of nested schemas are also specified outside of them.
fn complete(of: &At<'_>, outside: &At<'_>, c: &mut Check) {
    for (_, nested) in nested(of) {
        complete_nested(&nested, outside, c);
    }
}

fn complete_nested(of: &At<'_>, outside: &At<'_>, c: &mut Check) {
    if !outside.value.is_object() {
        outside.required(c, &format!("because it is defined in {}", of.path));
        return;
    }
    complete(of, outside, c);
    if of.get("items").value.is_object() {
        complete_nested(&of.get("items"), &outside.get("items"), c);
    }
    for (key, property) in of.get("properties").entries() {
        complete_nested(&property, &outside.get("properties").key(key), c);
    }
}

/// `ValidateDefaults`: defaults are pruned and valid under their schema.
fn defaults(schema: &At<'_>, is_root: bool, in_meta: bool, c: &mut Check) {
    let embedded = is_root || is_embedded(schema.value);
    let in_meta = in_meta && !embedded;
    let default = schema.get("default");
    if default.is_set() {
        let (field, found) = (default.path.to_string(), c.causes.len());
        if !in_meta {
            let mut pruned = default.value.clone();
            let node = match embedded {
                true => Node::Custom(Some(schema.value)),
                false => Node::Schema(schema.value),
            };
            if pruned.is_object() {
                prune(&mut pruned, node);
            }
            if pruned != *default.value {
                default.invalid_as(c, &go::shown(default.value), "must not have unknown fields");
            }
            instance::embedded_problems(default.clone(), schema.value, &mut c.causes);
        }
        if c.causes.len() == found {
            c.causes
                .extend(openapi::problems(&field, default.value, schema.value, c.version));
        }
    }
    let items = schema.get("items");
    if items.value.is_object() {
        defaults(&items, false, in_meta, c);
    }
    for (key, property) in schema.get("properties").entries() {
        let in_meta = in_meta || (embedded && matches!(key, "apiVersion" | "kind" | "metadata"));
        defaults(&property, false, in_meta, c);
    }
}
