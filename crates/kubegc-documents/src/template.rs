//! Pod templates: the restart policy, and a digest of all the rest.
//!
//! Two templates have the same digest if they are semantically equal: the order of keys, absent, null and
//! empty values, and the label `pod-template-hash` do not count. Nothing of a template is kept.

use std::{
    fmt,
    hash::{BuildHasher, Hash},
};

use foldhash::fast::FixedState;
use kubegc_core::json::{Expected, Soft, Text};
use serde::{
    Deserializer, Serialize, Serializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
    ser::SerializeMap,
};

/// The key of the digest, for a template of which only the digest is known.
pub const DIGEST: &str = "digest";

/// The label by which ReplicaSets of one Deployment differ.
const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// `spec.template` of a workload.
#[derive(Clone, Debug, Default)]
pub struct PodTemplate<'a> {
    pub digest: u64,
    pub spec: Soft<TemplateSpec<'a>>,
}

/// `spec.template.spec`.
#[derive(Clone, Debug, Default)]
pub struct TemplateSpec<'a> {
    pub restart_policy: Soft<Text<'a>>,
    digest: u64,
}

impl<'de: 'a, 'a> Expected<'de> for PodTemplate<'a> {
    const WORDS: &'static str = "a map";

    fn of_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let mut template = Self::default();
        let mut known: Soft<Text<'_>> = Soft::Absent;
        while let Some(Text(key)) = map.next_key()? {
            let digest = match &*key {
                "spec" => {
                    template.spec = map.next_value()?;
                    of_soft(&template.spec, |spec| of_map(spec.digest))
                }
                DIGEST => {
                    known = map.next_value()?;
                    0
                }
                "metadata" => map.next_value_seed(At::Metadata)?,
                _ => map.next_value_seed(At::Other)?,
            };
            template.digest = with_entry(template.digest, &key, digest);
        }
        if let Soft::Is(Text(known)) = known
            && let Ok(digest) = known.parse()
        {
            template.digest = digest;
        }
        Ok(Some(template))
    }
}

impl Serialize for PodTemplate<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry(DIGEST, &self.digest.to_string())?;
        map.serialize_entry("spec", &self.spec)?;
        map.end()
    }
}

impl<'de: 'a, 'a> Expected<'de> for TemplateSpec<'a> {
    const WORDS: &'static str = "a map";

    fn of_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let mut spec = Self::default();
        while let Some(Text(key)) = map.next_key()? {
            let digest = if key == RESTART_POLICY {
                spec.restart_policy = map.next_value()?;
                of_soft(&spec.restart_policy, |policy| of_text(policy.as_str()))
            } else {
                map.next_value_seed(At::Other)?
            };
            spec.digest = with_entry(spec.digest, &key, digest);
        }
        Ok(Some(spec))
    }
}

impl Serialize for TemplateSpec<'_> {
    /// Without the digest, which is a part of the template's.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(RESTART_POLICY, &self.restart_policy)])
    }
}

const RESTART_POLICY: &str = "restartPolicy";

/// The digest of a value that is empty: it is as good as absent.
const EMPTY: u64 = 0;

fn hash(value: impl Hash) -> u64 {
    FixedState::default().hash_one(value)
}

fn of_text(text: &str) -> u64 {
    if text.is_empty() {
        EMPTY
    } else {
        hash((0_u8, text))
    }
}

fn of_number(number: i128) -> u64 {
    hash((1_u8, number))
}

/// The digest of a map, from the sum over its entries.
fn of_map(entries: u64) -> u64 {
    if entries == EMPTY {
        EMPTY
    } else {
        hash((2_u8, entries))
    }
}

/// Adds an entry to those of a map. Sums do not depend on the order.
fn with_entry(entries: u64, key: &str, value: u64) -> u64 {
    if value == EMPTY {
        entries
    } else {
        entries.wrapping_add(hash((3_u8, key, value)))
    }
}

fn of_soft<T>(value: &Soft<T>, digest: impl FnOnce(&T) -> u64) -> u64 {
    match value {
        Soft::Absent => EMPTY,
        Soft::Is(value) => digest(value),
        Soft::Wrong(shape) => hash((4_u8, shape.name())),
    }
}

/// Takes the digest of the value at a place of a template.
#[derive(Clone, Copy)]
enum At {
    Metadata,
    Labels,
    Other,
}

impl<'de> DeserializeSeed<'de> for At {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<u64, E> {
        Ok(EMPTY)
    }

    fn visit_none<E: de::Error>(self) -> Result<u64, E> {
        Ok(EMPTY)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<u64, E> {
        Ok(hash((5_u8, flag)))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
        Ok(of_number(number.into()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        Ok(of_number(number.into()))
    }

    fn visit_i128<E: de::Error>(self, number: i128) -> Result<u64, E> {
        Ok(of_number(number))
    }

    fn visit_u128<E: de::Error>(self, number: u128) -> Result<u64, E> {
        Ok(hash((6_u8, number)))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<u64, E> {
        Ok(hash((7_u8, number.to_bits())))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        Ok(of_text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<u64, A::Error> {
        let mut digest = EMPTY;
        while let Some(entry) = list.next_element_seed(Self::Other)? {
            digest = hash((8_u8, digest, entry));
        }
        Ok(digest)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
        let mut entries = EMPTY;
        while let Some(Text(key)) = map.next_key()? {
            let place = match (self, &*key) {
                (Self::Labels, POD_TEMPLATE_HASH) => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Self::Metadata, "labels") => Self::Labels,
                _ => Self::Other,
            };
            let value = map.next_value_seed(place)?;
            entries = with_entry(entries, &key, value);
        }
        Ok(of_map(entries))
    }
}
