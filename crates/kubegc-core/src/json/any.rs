//! Values of any type, as a deserializer gives them.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};

use super::JsonType;

/// A value that is neither a list nor a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar<'de> {
    Null,
    Flag(bool),
    /// A number; `None` if it is not a whole one of 64 bits.
    Number(Option<i64>),
    Text(Cow<'de, str>),
}

impl Scalar<'_> {
    pub const fn json_type(&self) -> JsonType {
        match self {
            Self::Null => JsonType::Null,
            Self::Flag(_) => JsonType::Boolean,
            Self::Number(_) => JsonType::Number,
            Self::Text(_) => JsonType::String,
        }
    }
}

/// A reader of values of any type.
pub trait ReadAny<'de>: Sized {
    type Value;

    /// The values that it reads, in words.
    const WORDS: &'static str = "any value";

    fn scalar(self, scalar: Scalar<'de>) -> Self::Value;

    /// Reads a list.
    ///
    /// # Errors
    /// The text ends, or cannot be parsed.
    fn list<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error>;

    /// Reads a map.
    ///
    /// # Errors
    /// The text ends, or cannot be parsed.
    fn map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error>;
}

/// One value for a reader.
#[derive(Clone, Copy, Debug)]
pub struct Any<R>(pub R);

impl<'de, R: ReadAny<'de>> DeserializeSeed<'de> for Any<R> {
    type Value = R::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<R::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, R: ReadAny<'de>> Visitor<'de> for Any<R> {
    type Value = R::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(R::WORDS)
    }

    fn visit_unit<E>(self) -> Result<R::Value, E> {
        Ok(self.0.scalar(Scalar::Null))
    }

    fn visit_none<E>(self) -> Result<R::Value, E> {
        Ok(self.0.scalar(Scalar::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<R::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<R::Value, E> {
        Ok(self.0.scalar(Scalar::Flag(flag)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<R::Value, E> {
        Ok(self.0.scalar(Scalar::Number(Some(number))))
    }

    fn visit_u64<E>(self, number: u64) -> Result<R::Value, E> {
        Ok(self.0.scalar(Scalar::Number(number.try_into().ok())))
    }

    fn visit_i128<E>(self, _number: i128) -> Result<R::Value, E> {
        Ok(self.0.scalar(Scalar::Number(None)))
    }

    fn visit_u128<E>(self, _number: u128) -> Result<R::Value, E> {
        Ok(self.0.scalar(Scalar::Number(None)))
    }

    fn visit_f64<E>(self, _number: f64) -> Result<R::Value, E> {
        Ok(self.0.scalar(Scalar::Number(None)))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<R::Value, E> {
        Ok(self.0.scalar(Scalar::Text(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<R::Value, E> {
        Ok(self.0.scalar(Scalar::Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_string<E>(self, text: String) -> Result<R::Value, E> {
        Ok(self.0.scalar(Scalar::Text(Cow::Owned(text))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<R::Value, A::Error> {
        self.0.list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<R::Value, A::Error> {
        self.0.map(map)
    }
}
