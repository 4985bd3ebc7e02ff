//! Schemas as expressions see their values: the readable fields, and the sizes that they allow.
//!
//! # Upstream
//! `SchemaDeclType` in
//! [`schemas.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/common/schemas.go),
//! `maxCardinality` in `apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go`, and `Escape` in
//! `pkg/apiserver/schema/cel/model`.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value, json};

use super::{super::instance::is_embedded, range::Range};

/// The largest request, in bytes.
const REQUEST: u64 = 3 * 1024 * 1024;
/// The longest times and durations, in bytes of JSON. The shortest ones are in [`Declared::least_bytes`].
const TIME: u64 = 32;
const DATE: u64 = 12;

/// Reserved words, which cannot select a field.
const RESERVED: &str = "true false null in as break const continue else for function if import let loop \
                        package namespace return var void while";

/// The schema of a resource that declares nothing but what every resource has.
static RESOURCE: LazyLock<Value> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let names = json!({"name": text, "generateName": text});
    json!({"kind": text, "apiVersion": text, "metadata": {"type": "object", "properties": names}})
});
/// The keys of maps have no declared size, and upstream takes them for empty.
static EMPTY: LazyLock<Value> = LazyLock::new(|| json!({"type": "boolean"}));

/// A schema, and whether its values are complete resources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared<'a> {
    pub(super) schema: &'a Value,
    pub(super) is_root: bool,
}

impl<'a> Declared<'a> {
    pub(super) fn of(schema: &'a Value) -> Self {
        Self {
            schema,
            is_root: is_embedded(schema),
        }
    }

    pub(super) fn text(self, key: &str) -> &'a str {
        text(self.schema, key)
    }

    pub(super) fn is_int_or_string(self) -> bool {
        self.schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true))
            || self.text("format") == "int-or-string"
    }

    pub(super) fn items(self) -> Option<Self> {
        self.schema.get("items").map(Self::of)
    }

    /// The schema of the values of a map.
    pub(super) fn entries(self) -> Option<Self> {
        let entries = self.schema.get("additionalProperties");
        entries.filter(|schema| schema.is_object()).map(Self::of)
    }

    /// The fields that expressions can read, with their schemas.
    pub(super) fn fields(self) -> BTreeMap<&'a str, Self> {
        let own = self.schema.get("properties").and_then(Value::as_object);
        let inherited = RESOURCE
            .as_object()
            .filter(|_| self.is_root && !self.is_resource());
        let all = [own, inherited].into_iter().flatten().flat_map(Map::iter);
        let all = all.map(|(name, schema)| (name.as_str(), Self::of(schema)));
        all.collect::<BTreeMap<_, _>>()
            .into_iter()
            .filter(|(_, field)| field.is_visible())
            .collect()
    }

    /// The field that expressions select by this name.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        let mut fields = self.fields().into_iter();
        let field = fields.find(|(property, _)| escaped(property).as_deref() == Some(name));
        field.map(|(_, field)| field)
    }

    /// Whether the schema declares all that every resource has.
    fn is_resource(self) -> bool {
        let names = "kind apiVersion metadata metadata/properties/name metadata/properties/generateName";
        names.split(' ').all(|name| {
            let own = self.schema.pointer(&format!("/properties/{name}/type"));
            own == RESOURCE.pointer(&format!("/{name}/type"))
        })
    }

    /// Whether expressions can read values of this schema.
    pub(super) fn is_visible(self) -> bool {
        self.is_int_or_string()
            || match self.text("type") {
                "" => false,
                "array" => self.items().is_some_and(Self::is_visible),
                "object" => self.entries().is_none_or(Self::is_visible),
                _ => true,
            }
    }

    /// The schema of a part of the value, if the schema has it.
    pub(super) fn step(self, step: &str) -> Option<Self> {
        match step {
            "@items" => self.items(),
            "@values" => self.entries(),
            "@keys" => self.entries().map(|_| Self::of(&EMPTY)),
            name => self.field(name),
        }
    }

    /// The least bytes of a value in JSON. Depth is bounded by the parser that read the schema.
    fn least_bytes(self) -> u64 {
        match (self.text("type"), self.text("format")) {
            _ if self.is_int_or_string() => 1,
            ("string", "duration") => 3,
            ("string", "date") => DATE,
            ("string", "date-time") => 21,
            ("boolean", _) => 4,
            ("number" | "integer", _) => 1,
            ("object", _) if self.entries().is_none() => {
                let required = self.schema.get("required").and_then(Value::as_array);
                let is_required =
                    |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
                // Defaults are filled in by the server.
                let is_sent = |name: &str| {
                    is_required(name) && self.schema["properties"][name].get("default").is_none()
                };
                let sent = self.fields().into_iter().filter(|(name, _)| is_sent(name));
                2 + sent
                    .map(|(name, field)| name.len() as u64 + field.least_bytes() + 4)
                    .sum::<u64>()
            }
            _ => 2,
        }
    }

    /// The most characters, items or entries; 0 for other values.
    fn most(self) -> u64 {
        let number = |key: &str| limit(self.schema, key);
        // A length counts characters, which have up to four bytes.
        let length = || number("maxLength").map(|length| length.saturating_mul(4));
        match (self.text("type"), self.text("format")) {
            _ if self.is_int_or_string() => length().unwrap_or(REQUEST - 2),
            ("array", _) => {
                let item = self.items().map_or(0, Self::least_bytes);
                number("maxItems").unwrap_or((REQUEST - 2) / (item + 1))
            }
            ("object", _) => self.entries().map_or(0, |entry| {
                number("maxProperties").unwrap_or((REQUEST - 2) / (entry.least_bytes() + 6))
            }),
            ("string", "byte") => number("maxLength").unwrap_or(REQUEST - 2),
            ("string", "duration" | "date-time") => TIME,
            ("string", "date") => DATE,
            ("string", _) => length().or_else(|| longest(self.schema)).unwrap_or(REQUEST - 2),
            _ => 0,
        }
    }

    /// The size of a value; `None` if expressions cannot read it.
    pub(super) fn size(self) -> Option<Range> {
        self.is_visible().then(|| Range::new(0, self.most()))
    }

    /// How many values of this schema fit into a request.
    pub(super) fn cardinality(self) -> u64 {
        REQUEST / (self.least_bytes() + 1)
    }

    /// The factor by which the schema multiplies the values of the schemas below it; `None` if it has no
    /// limit.
    ///
    /// # Upstream
    /// `extractMaxElements` in
    /// [`cel_validation.go`](https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/apis/apiextensions/validation/cel_validation.go).
    pub(super) fn multiplicity(self) -> Option<u64> {
        match self.text("type") {
            "object" if self.schema.get("additionalProperties").is_some() => {
                limit(self.schema, "maxProperties")
            }
            "array" => limit(self.schema, "maxItems"),
            _ => Some(1),
        }
    }
}

pub(super) fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn limit(schema: &Value, key: &str) -> Option<u64> {
    let limit = schema.get(key)?.as_i64()?;
    Some(u64::try_from(limit).unwrap_or(0))
}

/// The longest value of an enumeration, in bytes.
fn longest(schema: &Value) -> Option<u64> {
    let values = schema
        .get("enum")?
        .as_array()
        .filter(|values| !values.is_empty())?;
    let lengths = values.iter().filter_map(Value::as_str).map(str::len);
    Some(lengths.max().unwrap_or(0) as u64)
}

/// The name by which expressions select a property; `None` where they cannot.
pub(super) fn escaped(name: &str) -> Option<String> {
    if RESERVED.split(' ').any(|word| word == name) {
        return Some(format!("__{name}__"));
    }
    let is_known = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_known) {
        return None;
    }
    let words = [
        ("__", "__underscores__"),
        (".", "__dot__"),
        ("-", "__dash__"),
        ("/", "__slash__"),
    ];
    Some(
        words
            .iter()
            .fold(name.to_owned(), |name, (from, to)| name.replace(from, to)),
    )
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_are_escaped_as_upstream_escapes_them() {
        for (name, expected) in [
            ("replicas", Some("replicas")),
            ("foo-bar", Some("foo__dash__bar")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("namespace", Some("__namespace__")),
            ("1st", None),
            ("a b", None),
        ] {
            assert_eq!(escaped(name).as_deref(), expected, "{name}");
        }
    }
}
