//! The fields of an object other than its typed metadata, as they are in the document: those of all kinds
//! that have [`Details`](crate::Details).
//!
//! The kind of an object may follow its contents, or be known from its list only. So the fields of all kinds
//! are kept, and whether one of them is of the wrong type is judged when the kind is known: fields of the
//! same name in other kinds do not matter.

use std::sync::LazyLock;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::json::{Any, DUPLICATE, JsonType, ReadAny, Scalar, Text};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, value::MapAccessDeserializer},
};
use serde_json::{Map, Value};

use crate::{
    fields::{ANNOTATIONS, FACTS, OTHER_SOURCES},
    template,
};

/// A JSON value with the fields that facts are read from.
#[derive(Clone, Debug, Default)]
pub enum Raw<'a> {
    #[default]
    Null,
    Flag(bool),
    Number(i64),
    /// A number that is not a whole one of 64 bits.
    OtherNumber,
    Text(Text<'a>),
    List(Vec<Self>),
    Map(Vec<(Text<'a>, Self)>),
}

impl<'a> Raw<'a> {
    /// The value of a key; null if there is none. Of equal keys the last one counts, as in Go.
    pub fn get(&self, key: &str) -> &Self {
        let Self::Map(fields) = self else {
            return &Self::Null;
        };
        let found = fields.iter().rev().find(|(known, _)| known.as_str() == key);
        found.map_or(&Self::Null, |(_, value)| value)
    }

    /// Adds a field to a map or to nothing.
    pub(crate) fn put(&mut self, key: Text<'a>, value: Self) {
        if self.is_null() {
            *self = Self::Map(Vec::new());
        }
        if let Self::Map(fields) = self {
            fields.push((key, value));
        }
    }

    /// Whether it is null, which Go reads as nothing.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.as_str()),
            _ => None,
        }
    }

    pub const fn json_type(&self) -> JsonType {
        match self {
            Self::Null => JsonType::Null,
            Self::Flag(_) => JsonType::Boolean,
            Self::Number(_) | Self::OtherNumber => JsonType::Number,
            Self::Text(_) => JsonType::String,
            Self::List(_) => JsonType::List,
            Self::Map(_) => JsonType::Map,
        }
    }

    pub(crate) fn entry(key: &'static str, value: Self) -> (Text<'a>, Self) {
        (Text(key.into()), value)
    }
}

impl Serialize for Raw<'_> {
    /// A value whose content was not kept becomes one of the same type.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::OtherNumber => serializer.serialize_f64(0.5),
            Self::Text(text) => text.serialize(serializer),
            Self::List(entries) => serializer.collect_seq(entries),
            Self::Map(fields) => serializer.collect_map(fields.iter().map(|(key, value)| (key, value))),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Any(Kept::Facts).deserialize(deserializer)
    }
}

/// The annotations that facts are read from. Few objects have any of them.
#[derive(Clone, Debug, Default)]
pub struct Annotations<'a>(pub(crate) Raw<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Annotations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Any(Kept::Annotations).deserialize(deserializer).map(Self)
    }
}

/// The parts of a value that are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    /// Texts, numbers and booleans; of maps the fields in [`KEPT`].
    Facts,
    /// The same, and of a map all fields: labels, or a selector, which has labels or other facts.
    All,
    /// Of a map the annotations in [`ANNOTATIONS`].
    Annotations,
    Data,
    Template,
}

impl Kept {
    /// The parts that are kept of a field; `None` if nothing is read from fields of this name.
    pub(crate) fn of(key: &str) -> Option<Self> {
        KEPT.get(key).copied()
    }
}

impl<'de> ReadAny<'de> for Kept {
    type Value = Raw<'de>;

    fn scalar(self, scalar: Scalar<'de>) -> Raw<'de> {
        match scalar {
            Scalar::Null => Raw::Null,
            Scalar::Flag(flag) => Raw::Flag(flag),
            Scalar::Number(number) => number.map_or(Raw::OtherNumber, Raw::Number),
            Scalar::Text(text) => Raw::Text(Text(text)),
        }
    }

    fn list<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raw<'de>, A::Error> {
        let mut entries = Vec::new();
        match self {
            Self::Facts | Self::All => {
                while let Some(entry) = list.next_element_seed(Any(self))? {
                    entries.push(entry);
                }
            }
            _ => while list.next_element::<IgnoredAny>()?.is_some() {},
        }
        Ok(Raw::List(entries))
    }

    fn map<A: MapAccess<'de>>(self, map: A) -> Result<Raw<'de>, A::Error> {
        match self {
            Self::Facts => fields(map, Self::of),
            Self::All => fields(map, |key| Self::of(key).or(Some(Self::Facts))),
            Self::Annotations => annotations(map),
            Self::Data => data(map),
            Self::Template => template(map),
        }
    }
}

/// Reads the fields of a map for which `kept` returns a value.
fn fields<'de, A: MapAccess<'de>>(
    mut map: A,
    kept: impl Fn(&str) -> Option<Kept>,
) -> Result<Raw<'de>, A::Error> {
    let mut fields: Vec<(Text<'de>, Raw<'de>)> = Vec::new();
    while let Some(key) = map.next_key::<Text<'de>>()? {
        let Some(kept) = kept(key.as_str()) else {
            map.next_value::<IgnoredAny>()?;
            continue;
        };
        if fields.iter().any(|(known, _)| *known == key) {
            // The tree has the last one, and the key is reported.
            return Err(de::Error::custom(DUPLICATE));
        }
        if fields.is_empty() {
            // Conditions and containers have no more.
            fields.reserve(8);
        }
        fields.push((key, map.next_value_seed(Any(kept))?));
    }
    Ok(Raw::Map(fields))
}

fn annotations<'de, A: MapAccess<'de>>(mut map: A) -> Result<Raw<'de>, A::Error> {
    let mut annotations = Vec::new();
    while let Some(key) = map.next_key::<Text<'de>>()? {
        if ANNOTATIONS.contains(&key.as_str()) {
            let value = map.next_value_seed(Any(Kept::Facts))?;
            if !value.is_null() {
                annotations.push((key, value));
            }
        } else {
            map.next_value::<IgnoredAny>()?;
        }
    }
    Ok(Raw::Map(annotations))
}

/// Nothing but these keys is ever kept of the data of a Secret.
fn data<'de, A: MapAccess<'de>>(mut map: A) -> Result<Raw<'de>, A::Error> {
    let mut data: Vec<(Text<'de>, Raw<'de>)> = Vec::new();
    let mut has_others = false;
    while let Some(key) = map.next_key::<Text<'de>>()? {
        if matches!(key.as_str(), "since" | "expiration") {
            data.retain(|(known, _)| *known != key);
            data.push((key, map.next_value_seed(Any(Kept::Facts))?));
        } else {
            has_others = true;
            map.next_value::<IgnoredAny>()?;
        }
    }
    if has_others {
        data.push(Raw::entry("other", Raw::Text(Text::default())));
    }
    Ok(Raw::Map(data))
}

/// Reads `spec.template` of a workload: the digest, and `spec` with the restart policy only.
fn template<'de, A: MapAccess<'de>>(map: A) -> Result<Raw<'de>, A::Error> {
    let mut template = Map::deserialize(MapAccessDeserializer::new(map))?;
    let digest = template::digest_of(&template);
    let mut spec = template.remove("spec").unwrap_or_default();
    if let Value::Object(fields) = &mut spec {
        fields.retain(|key, _| key == "restartPolicy");
    }
    let spec = Any(Kept::All).deserialize(spec).map_err(de::Error::custom)?;
    let digest = Raw::Text(Text(digest.to_string().into()));
    Ok(Raw::Map(vec![
        Raw::entry(template::DIGEST, digest),
        Raw::entry("spec", spec),
    ]))
}

/// The parts that are kept of fields, by their names, wherever they occur in the fields of an object from
/// which its kind has details.
static KEPT: LazyLock<HashMap<&'static str, Kept, FixedState>> = LazyLock::new(|| {
    let special = [
        ("annotations", Kept::Annotations),
        ("data", Kept::Data),
        ("hard", Kept::All),
        ("labels", Kept::All),
        ("matchLabels", Kept::All),
        ("selector", Kept::All),
        ("stringData", Kept::Data),
        ("template", Kept::Template),
        ("used", Kept::All),
    ];
    let facts = FACTS.split_whitespace().chain(OTHER_SOURCES);
    let facts = facts.map(|name| (name, Kept::Facts));
    facts.chain(special).collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::ANNOTATION_DELETION_COST;

    fn read(text: &str) -> Raw<'_> {
        serde_json::from_str(text).expect("an object")
    }

    #[test]
    fn values_of_secrets_and_fields_that_are_not_read_are_not_kept() {
        let body =
            read(r#"{"spec": {"x": "hidden", "nodeName": 7}, "data": {"since": "a", "password": "hidden"}}"#);
        let written = serde_json::to_string(&body).expect("it can be written");
        assert_eq!(
            written,
            r#"{"spec":{"nodeName":7},"data":{"since":"a","other":""}}"#
        );
    }

    #[test]
    fn a_repeated_key_that_is_read_fails() {
        for (text, fails) in [
            (r#"{"spec": {"nodeName": "a", "nodeName": null}}"#, true),
            (r#"{"spec": {"volumes": [{"name": "a", "name": "a"}]}}"#, true),
            (r#"{"spec": {"selector": {"a": "b", "a": "b"}}}"#, true),
            (
                r#"{"spec": {"template": {"spec": {}}, "selector": {"matchLabels": {"a": "b", "a": "b"}}}}"#,
                true,
            ),
            (
                r#"{"spec": {"x": "a", "x": "b", "parallelism": {"a": 1, "a": 2}}}"#,
                false,
            ),
        ] {
            assert_eq!(serde_json::from_str::<Raw<'_>>(text).is_err(), fails, "{text}");
        }
        let key = ANNOTATION_DELETION_COST;
        let text =
            format!(r#"{{"metadata": {{"annotations": {{"{key}": "1", "{key}": "2", "{key}": null}}}}}}"#);
        let body = read(&text);
        let cost = body.get("metadata").get("annotations").get(key);
        assert_eq!(cost.as_str(), Some("2"));
    }
}
