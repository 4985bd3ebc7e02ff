//! Fields that occur more than once in a request body. The last value is used.
//!
//! # Upstream
//! `unmarshal` in [`json.go`](https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/runtime/serializer/json/json.go),
//! and `UnmarshalStrict` of `sigs.k8s.io/json`.

use std::{collections::BTreeSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Maximum number of reported fields.
const FIELDS_MAX: usize = 100;

/// The paths of the fields that occur more than once in a JSON document, such as `spec.replicas`, in the
/// order of the document.
pub(super) fn in_json(body: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let walk = Walk {
        path: String::new(),
        found: &mut found,
    };
    // A document that cannot be read is refused elsewhere.
    let _refused_elsewhere = walk.deserialize(&mut serde_json::Deserializer::from_slice(body));
    found
}

/// The line and the key of the first key that occurs more than once in a mapping of a YAML document.
pub(super) fn in_yaml(body: &[u8]) -> Option<(usize, String)> {
    // The default options of the reader refuse such keys.
    let error = serde_saphyr::from_str::<serde_json::Value>(str::from_utf8(body).ok()?).err()?;
    let error = error.to_string();
    let (place, rest) = error.split_once(": duplicate mapping key: ")?;
    let (_, line) = place.rsplit_once("line ")?;
    let (key, _) = rest.split_once(", set DuplicateKeyPolicy")?;
    Some((line.split_once(' ')?.0.parse().ok()?, key.to_owned()))
}

struct Walk<'f> {
    path: String,
    found: &'f mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Depth is bounded by the reader.
impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
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

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { path, found } = self;
        let mut index = 0_usize;
        loop {
            let item = Walk {
                path: format!("{path}[{index}]"),
                found: &mut *found,
            };
            if items.next_element_seed(item)?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { path, found } = self;
        let mut keys = BTreeSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            if !keys.insert(key) && found.len() < FIELDS_MAX && !found.contains(&path) {
                found.push(path.clone());
            }
            entries.next_value_seed(Walk {
                path,
                found: &mut *found,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_fields_are_found_with_their_paths() {
        let json = br#"{"a": 1, "b": {"c": [{"d": 1, "d": null}, {"d": "x"}]}, "a": 2, "a": 3.5}"#;
        assert_eq!(in_json(json), ["b.c[0].d", "a"]);
        assert_eq!(in_json(br#"{"a": 1, "b": {"a": true}}"#), [""; 0]);
        let yaml = b"a: 1\nb:\n  c: 1\n  c: 2\n";
        assert_eq!(in_yaml(yaml), Some((4, "c".to_owned())));
        assert_eq!(in_yaml(b"a: 1\n"), None);
    }
}
