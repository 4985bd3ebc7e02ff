//! Reads a field that may be of the wrong type without failing: the field is then unknown, and the rest of
//! the object is still read.

use std::{collections::BTreeSet, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess},
};

use super::{Any, JsonType, ReadAny, Scalar, Text};

/// The value of a field that may have a wrong type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Soft<T> {
    /// Nothing, or null, which Go reads as nothing.
    #[default]
    Absent,
    /// A value of the expected type.
    Is(T),
    /// Something else.
    Wrong(JsonType),
}

impl<T> Soft<T> {
    /// The value, if it has the expected type.
    pub const fn get(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Wrong(_) => None,
        }
    }

    /// Whether there is no value.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl Soft<Text<'_>> {
    /// The text; empty if it is absent or no text.
    pub fn as_str(&self) -> &str {
        self.get().map_or("", Text::as_str)
    }
}

/// A type that fields are expected to have. A value that no function accepts has the wrong type.
pub trait Expected<'de>: Sized {
    /// The type in words.
    const WORDS: &'static str;

    /// Neither a list nor a map.
    fn of_scalar(_scalar: Scalar<'de>) -> Option<Self> {
        None
    }

    /// A list.
    ///
    /// # Errors
    /// The text ends, or cannot be parsed.
    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    /// A map.
    ///
    /// # Errors
    /// The text ends, or cannot be parsed.
    fn of_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl<'de: 'a, 'a> Expected<'de> for Text<'a> {
    const WORDS: &'static str = "a string";

    fn of_scalar(scalar: Scalar<'de>) -> Option<Self> {
        match scalar {
            Scalar::Text(text) => Some(Text(text)),
            _ => None,
        }
    }
}

impl Expected<'_> for i64 {
    const WORDS: &'static str = "a whole number";

    fn of_scalar(scalar: Scalar<'_>) -> Option<Self> {
        match scalar {
            Scalar::Number(number) => number,
            _ => None,
        }
    }
}

impl Expected<'_> for bool {
    const WORDS: &'static str = "true or false";

    fn of_scalar(scalar: Scalar<'_>) -> Option<Self> {
        match scalar {
            Scalar::Flag(flag) => Some(flag),
            _ => None,
        }
    }
}

impl<'de, T: Expected<'de>> Expected<'de> for Vec<Soft<T>> {
    const WORDS: &'static str = "a list";

    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        let mut entries = Self::new();
        while let Some(entry) = list.next_element()? {
            entries.push(entry);
        }
        Ok(Some(entries))
    }
}

/// Beginning of serde's errors about repeated keys, here and in derived code.
pub const DUPLICATE: &str = "duplicate field";

/// A map from any key to texts, in the order of the document. Reading it fails if a key repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels<'a>(pub Vec<(Text<'a>, Soft<Text<'a>>)>);

impl Labels<'_> {
    fn has_equal_keys(&self) -> bool {
        let pairs = &self.0;
        // Most objects have few labels, for which a set costs more than it saves.
        if pairs.len() > 16 {
            let keys: BTreeSet<&str> = pairs.iter().map(|(key, _)| key.as_str()).collect();
            return keys.len() < pairs.len();
        }
        (1..pairs.len()).any(|at| pairs[..at].iter().any(|(other, _)| *other == pairs[at].0))
    }
}

impl<'de: 'a, 'a> Expected<'de> for Labels<'a> {
    const WORDS: &'static str = "a map";

    fn of_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        let labels = Self(pairs);
        match labels.has_equal_keys() {
            true => Err(de::Error::custom(DUPLICATE)),
            false => Ok(Some(labels)),
        }
    }
}

struct ReadSoft<T>(PhantomData<T>);

impl<T> ReadSoft<T> {
    fn settle(value: Option<T>, found: JsonType) -> Soft<T> {
        value.map_or(Soft::Wrong(found), Soft::Is)
    }
}

impl<'de, T: Expected<'de>> ReadAny<'de> for ReadSoft<T> {
    type Value = Soft<T>;

    const WORDS: &'static str = T::WORDS;

    fn scalar(self, scalar: Scalar<'de>) -> Soft<T> {
        match scalar.json_type() {
            JsonType::Null => Soft::Absent,
            found => Self::settle(T::of_scalar(scalar), found),
        }
    }

    fn list<A: SeqAccess<'de>>(self, list: A) -> Result<Soft<T>, A::Error> {
        Ok(Self::settle(T::of_list(list)?, JsonType::List))
    }

    fn map<A: MapAccess<'de>>(self, map: A) -> Result<Soft<T>, A::Error> {
        Ok(Self::settle(T::of_map(map)?, JsonType::Map))
    }
}

impl<'de, T: Expected<'de>> Deserialize<'de> for Soft<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Any(ReadSoft(PhantomData)).deserialize(deserializer)
    }
}
