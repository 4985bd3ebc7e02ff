//! Finds keys that a JSON object has twice. Readers keep the last one, as `encoding/json` of Go does, and
//! name it.

use std::{collections::BTreeSet, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};

/// Keys that are named of one object.
const KEYS_MAX: usize = 10;

/// The paths of duplicate keys: the first few, in the order of the text.
pub(crate) fn of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let seed = Walk {
        path: "",
        found: &mut found,
    };
    // A text that is not JSON was refused before; duplicates before an error count all the same.
    let _walked = seed.deserialize(&mut serde_json::Deserializer::from_str(text));
    found
}

/// Walks one value. The parser bounds the depth.
struct Walk<'w> {
    path: &'w str,
    found: &'w mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = match self.path {
                "" => key.clone(),
                path => format!("{path}.{key}"),
            };
            if seen.contains(&key) && self.found.len() < KEYS_MAX {
                self.found.push(path.clone());
            }
            seen.insert(key);
            map.next_value_seed(Walk {
                path: &path,
                found: self.found,
            })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut index = 0_u64;
        // Every iteration consumes an element.
        loop {
            let path = format!("{}[{index}]", self.path);
            let walk = Walk {
                path: &path,
                found: self.found,
            };
            if seq.next_element_seed(walk)?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}
