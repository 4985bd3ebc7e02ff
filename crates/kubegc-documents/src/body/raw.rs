//! Values of a document, without the fields that nothing is read from.

use kubegc_core::json::{JsonType, Text};
use serde::{Serialize, Serializer};

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
