//! Reads the metadata of objects in JSON or YAML.
//!
//! [`MetaFields`] borrows the fields from the text. It can be read in two ways: by serde, which fails at the
//! first field of a wrong type; and by a [`FieldReader`] from a tree, which lists every such field and keeps
//! the others. [`MetaFields::to_meta`] turns the fields into [`ObjectMeta`].
//!
//! # Examples
//! ```
//! use kubegc_core::json::{FieldReader, MetaFields};
//! let text = r#"{"name": "web", "uid": "u1", "finalizers": ["orphan"], "generation": "two"}"#;
//! assert!(serde_json::from_str::<MetaFields<'_>>(text).is_err());
//!
//! let tree: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text)?;
//! let mut reader = FieldReader::default();
//! let fields: MetaFields<'_> = reader.meta(&tree);
//! assert_eq!(reader.wrong[0].to_string(), "metadata.generation: expected a whole number, found a string");
//! let meta = fields.to_meta(|text| text.into())?;
//! assert!(meta.has_finalizer("orphan"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{borrow::Cow, collections::BTreeSet, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::{FieldError, ObjectMeta, OwnerReference, ResourceVersion, Timestamp, Uid};

/// A text, borrowed if it occurs verbatim in the input.
#[expect(clippy::exhaustive_structs, reason = "a text and no more")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Text<'_> {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A map from text to text, in the order of the document. Reading it by serde fails if a key repeats.
#[expect(clippy::exhaustive_structs, reason = "a list and no more")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs<'a>(pub Vec<(Text<'a>, Text<'a>)>);

/// Beginning of serde's errors about repeated keys, here and in derived code.
pub const DUPLICATE: &str = "duplicate field";

fn has_equal_keys(pairs: &[(Text<'_>, Text<'_>)]) -> bool {
    // Most objects have few labels, for which a set costs more than it saves.
    if pairs.len() > 16 {
        let keys: BTreeSet<&str> = pairs.iter().map(|(key, _)| key.as_str()).collect();
        return keys.len() < pairs.len();
    }
    let is_repeated =
        |(at, (key, _)): (usize, &(Text<'_>, Text<'_>))| pairs[..at].iter().any(|(other, _)| other == key);
    pairs.iter().enumerate().any(is_repeated)
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
        let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(8).min(64));
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        if has_equal_keys(&pairs) {
            return Err(de::Error::custom(DUPLICATE));
        }
        Ok(Pairs(pairs))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

/// The fields of `metadata` that [`ObjectMeta`] has. Absent and null are the same, as in Go. Dates are text.
///
/// `A` is the type of the annotations, which are skipped by default.
#[expect(clippy::exhaustive_structs, reason = "its fields are those of the API")]
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound(deserialize = "A: Default + Deserialize<'de>")
)]
pub struct MetaFields<'a, A = IgnoredAny> {
    /// Namespace.
    #[serde(borrow)]
    pub namespace: Option<Text<'a>>,
    /// Name.
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
    /// Uid.
    #[serde(borrow)]
    pub uid: Option<Text<'a>>,
    /// Version of this state.
    #[serde(borrow)]
    pub resource_version: Option<Text<'a>>,
    /// Generation of the desired state.
    pub generation: Option<i64>,
    /// The creation time, in RFC 3339.
    #[serde(borrow)]
    pub creation_timestamp: Option<Text<'a>>,
    /// The time of the delete request, in RFC 3339.
    #[serde(borrow)]
    pub deletion_timestamp: Option<Text<'a>>,
    /// The grace period in seconds.
    pub deletion_grace_period_seconds: Option<i64>,
    /// The finalizers.
    #[serde(borrow)]
    pub finalizers: Option<Vec<Text<'a>>>,
    /// The owner references.
    #[serde(borrow)]
    pub owner_references: Option<Vec<OwnerFields<'a>>>,
    /// The labels.
    #[serde(borrow)]
    pub labels: Option<Pairs<'a>>,
    /// The annotations.
    pub annotations: A,
}

/// The fields of an owner reference.
#[expect(clippy::exhaustive_structs, reason = "its fields are those of the API")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerFields<'a> {
    /// Group and version of the owner's kind.
    #[serde(borrow)]
    pub api_version: Option<Text<'a>>,
    /// Kind of the owner.
    #[serde(borrow)]
    pub kind: Option<Text<'a>>,
    /// Name of the owner.
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
    /// Uid of the owner.
    #[serde(borrow)]
    pub uid: Option<Text<'a>>,
    /// Whether the owner is the managing controller.
    pub controller: Option<bool>,
    /// Whether the dependent blocks a foreground deletion of the owner.
    pub block_owner_deletion: Option<bool>,
}

fn or_empty<'t>(text: &'t Option<Text<'_>>) -> &'t str {
    text.as_ref().map_or("", Text::as_str)
}

fn date(text: &Option<Text<'_>>, field: &str) -> Result<Option<Timestamp>, FieldError> {
    let Some(text) = text else { return Ok(None) };
    Timestamp::parse(text.as_str()).map(Some).map_err(|_| {
        FieldError::invalid(
            &format!("metadata.{field}"),
            text.as_str(),
            "must be an RFC 3339 date",
        )
    })
}

impl<A> MetaFields<'_, A> {
    /// The metadata. Absent texts are empty. `share` makes texts that many objects have in common: all but
    /// names, uids and values of labels.
    ///
    /// # Errors
    /// A date that is none.
    pub fn to_meta(&self, mut share: impl FnMut(&str) -> Arc<str>) -> Result<ObjectMeta, FieldError> {
        let owner_references = self.owner_references.iter().flatten();
        let owner_references = owner_references.map(|owner| OwnerReference {
            api_version: share(or_empty(&owner.api_version)),
            kind: share(or_empty(&owner.kind)),
            name: or_empty(&owner.name).into(),
            uid: Uid::new(or_empty(&owner.uid)),
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        });
        Ok(ObjectMeta {
            owner_references: owner_references.collect(),
            namespace: share(or_empty(&self.namespace)),
            name: or_empty(&self.name).into(),
            uid: Uid::new(or_empty(&self.uid)),
            resource_version: ResourceVersion::new(or_empty(&self.resource_version)),
            generation: self.generation.unwrap_or(0),
            creation_timestamp: date(&self.creation_timestamp, "creationTimestamp")?,
            deletion_timestamp: date(&self.deletion_timestamp, "deletionTimestamp")?,
            deletion_grace_period_seconds: self.deletion_grace_period_seconds,
            finalizers: self
                .finalizers
                .iter()
                .flatten()
                .map(|name| share(name.as_str()))
                .collect(),
            labels: self
                .labels
                .iter()
                .flat_map(|labels| &labels.0)
                .map(|(key, value)| (share(key.as_str()), value.as_str().into()))
                .collect(),
        })
    }
}

/// A field whose value has another type than the API defines.
#[expect(clippy::exhaustive_structs, reason = "all that a reading finds")]
#[derive(Clone, Debug, PartialEq)]
pub struct WrongType<'v> {
    /// Path from the object's root, such as `metadata.ownerReferences[0].uid`.
    pub field: String,
    /// The expected type, such as `a string`.
    pub expected: &'static str,
    /// The value.
    pub value: &'v Value,
}

impl WrongType<'_> {
    /// The problem, as a phrase.
    #[must_use]
    pub fn problem(&self) -> String {
        format!(
            "expected {}, found {}",
            self.expected,
            JsonType::of(self.value).name()
        )
    }
}

impl fmt::Display for WrongType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem())
    }
}

/// The type of a JSON value.
#[expect(clippy::exhaustive_enums, reason = "JSON has no other types")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// A list.
    List,
    /// A map.
    Map,
}

impl JsonType {
    /// The type of a value.
    #[must_use]
    pub const fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Map,
        }
    }

    /// The type as a phrase, such as `a string`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::List => "a list",
            Self::Map => "a map",
        }
    }
}

/// Reads fields from trees. A field of a wrong type is `None`, as if it were absent, and is listed.
#[expect(clippy::exhaustive_structs, reason = "a list and no more")]
#[derive(Clone, Debug, Default)]
pub struct FieldReader<'v> {
    /// The fields of a wrong type so far.
    pub wrong: Vec<WrongType<'v>>,
}

impl<'v> FieldReader<'v> {
    /// A field of `map`, which is at `path` in the object: a text.
    pub fn text(&mut self, map: &'v Map<String, Value>, path: &str, name: &str) -> Option<Text<'v>> {
        let value = present(map, name)?;
        self.as_text(value, || join(path, name))
    }

    /// A map.
    pub fn map(
        &mut self,
        map: &'v Map<String, Value>,
        path: &str,
        name: &str,
    ) -> Option<&'v Map<String, Value>> {
        let value = present(map, name)?;
        let found = value.as_object();
        self.or_wrong(found, || join(path, name), "a map", value)
    }

    /// The metadata without annotations, from the value of the field `metadata`.
    pub fn meta<A: Default>(&mut self, map: &'v Map<String, Value>) -> MetaFields<'v, A> {
        let path = "metadata";
        MetaFields {
            namespace: self.text(map, path, "namespace"),
            name: self.text(map, path, "name"),
            uid: self.text(map, path, "uid"),
            resource_version: self.text(map, path, "resourceVersion"),
            generation: self.number(map, path, "generation"),
            creation_timestamp: self.text(map, path, "creationTimestamp"),
            deletion_timestamp: self.text(map, path, "deletionTimestamp"),
            deletion_grace_period_seconds: self.number(map, path, "deletionGracePeriodSeconds"),
            finalizers: self.texts(map, path, "finalizers"),
            owner_references: self.owner_references(map),
            labels: self.labels(map),
            annotations: A::default(),
        }
    }

    fn or_wrong<T>(
        &mut self,
        found: Option<T>,
        field: impl FnOnce() -> String,
        expected: &'static str,
        value: &'v Value,
    ) -> Option<T> {
        if found.is_none() {
            self.wrong.push(WrongType {
                field: field(),
                expected,
                value,
            });
        }
        found
    }

    fn as_text(&mut self, value: &'v Value, field: impl FnOnce() -> String) -> Option<Text<'v>> {
        let text = value.as_str().map(|text| Text(Cow::Borrowed(text)));
        self.or_wrong(text, field, "a string", value)
    }

    fn number(&mut self, map: &'v Map<String, Value>, path: &str, name: &str) -> Option<i64> {
        let value = present(map, name)?;
        self.or_wrong(value.as_i64(), || join(path, name), "a whole number", value)
    }

    fn flag(&mut self, map: &'v Map<String, Value>, path: &str, name: &str) -> Option<bool> {
        let value = present(map, name)?;
        self.or_wrong(value.as_bool(), || join(path, name), "true or false", value)
    }

    fn list(&mut self, map: &'v Map<String, Value>, path: &str, name: &str) -> Option<&'v Vec<Value>> {
        let value = present(map, name)?;
        self.or_wrong(value.as_array(), || join(path, name), "a list", value)
    }

    fn texts(&mut self, map: &'v Map<String, Value>, path: &str, name: &str) -> Option<Vec<Text<'v>>> {
        let list = self.list(map, path, name)?;
        let read = |(index, value): (usize, &'v Value)| self.as_text(value, || at(path, name, index));
        Some(list.iter().enumerate().filter_map(read).collect())
    }

    fn owner_references(&mut self, map: &'v Map<String, Value>) -> Option<Vec<OwnerFields<'v>>> {
        let (path, name) = ("metadata", "ownerReferences");
        let list = self.list(map, path, name)?;
        let read = |(index, value): (usize, &'v Value)| {
            let path = at(path, name, index);
            let owner = self.or_wrong(value.as_object(), || path.clone(), "a map", value)?;
            Some(OwnerFields {
                api_version: self.text(owner, &path, "apiVersion"),
                kind: self.text(owner, &path, "kind"),
                name: self.text(owner, &path, "name"),
                uid: self.text(owner, &path, "uid"),
                controller: self.flag(owner, &path, "controller"),
                block_owner_deletion: self.flag(owner, &path, "blockOwnerDeletion"),
            })
        };
        Some(list.iter().enumerate().filter_map(read).collect())
    }

    fn labels(&mut self, map: &'v Map<String, Value>) -> Option<Pairs<'v>> {
        let labels = self.map(map, "metadata", "labels")?;
        let read = |(key, value): (&'v String, &'v Value)| {
            let value = match value {
                Value::Null => Text::default(),
                value => self.as_text(value, || format!("metadata.labels[{key}]"))?,
            };
            Some((Text(Cow::Borrowed(key.as_str())), value))
        };
        Some(Pairs(labels.iter().filter_map(read).collect()))
    }
}

/// A field of the map, unless it is absent or null.
fn present<'v>(map: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    map.get(name).filter(|value| !value.is_null())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn at(path: &str, name: &str, index: usize) -> String {
    format!("{path}.{name}[{index}]")
}
