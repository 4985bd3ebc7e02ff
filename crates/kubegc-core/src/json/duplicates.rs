//! Fields that occur more than once in an object.

use std::collections::BTreeSet;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess};

use super::{Any, ReadAny, Scalar};

/// Fields that are named of one document.
const FIELDS_MAX: usize = 100;

/// The paths of the fields that occur more than once in an object, such as `spec.replicas`: the first 100,
/// each once, in the order of the document. Readers of Go and `serde_json` use the last value.
///
/// A document that cannot be read has those before its error. The deserializer bounds the depth.
/// O(n log n) in the size of the document.
///
/// # Examples
/// ```
/// let json = r#"{"a": 1, "b": {"c": [{"d": 1, "d": null}, {"d": "x"}]}, "a": 2, "a": 3.5}"#;
/// let found = kubegc_core::json::duplicate_fields(&mut serde_json::Deserializer::from_str(json));
/// assert_eq!(found, ["b.c[0].d", "a"]);
/// ```
pub fn duplicate_fields<'de, D: Deserializer<'de>>(document: D) -> Vec<String> {
    let mut found = Vec::new();
    let walk = Walk {
        path: "",
        found: &mut found,
    };
    let _incomplete = Any(walk).deserialize(document);
    found
}

struct Walk<'w> {
    path: &'w str,
    found: &'w mut Vec<String>,
}

impl<'de> ReadAny<'de> for Walk<'_> {
    type Value = ();

    fn scalar(self, _: Scalar<'de>) {}

    fn map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = match self.path {
                "" => key.clone(),
                path => format!("{path}.{key}"),
            };
            if !seen.insert(key) && self.found.len() < FIELDS_MAX && !self.found.contains(&path) {
                self.found.push(path.clone());
            }
            map.next_value_seed(Any(Walk {
                path: &path,
                found: self.found,
            }))?;
        }
        Ok(())
    }

    fn list<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut index = 0_u64;
        // Every iteration consumes an element.
        loop {
            let path = format!("{}[{index}]", self.path);
            let walk = Walk {
                path: &path,
                found: self.found,
            };
            if seq.next_element_seed(Any(walk))?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }
}
