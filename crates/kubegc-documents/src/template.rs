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
    Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::body::Raw;

/// The key of the digest in a template of which only the digest is known.
pub(crate) const DIGEST: &str = "digest";

/// The label by which ReplicaSets of one Deployment differ.
const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// Reads `spec.template` of a workload: the digest, and `spec` with the restart policy only.
pub(crate) fn read<'de, A: MapAccess<'de>>(mut map: A) -> Result<Raw<'de>, A::Error> {
    let (mut digest, mut known_digest, mut kept_spec) = (EMPTY, None, Raw::Null);
    while let Some(key) = map.next_key::<Text<'de>>()? {
        let of_value = match key.as_str() {
            "spec" => {
                let spec: Soft<TemplateSpec<'de>> = map.next_value()?;
                let of_value = of_soft(&spec, |spec| of_map(spec.digest));
                kept_spec = Raw::of_soft(spec, |spec| {
                    let restart_policy = Raw::of_soft(spec.restart_policy, Raw::Text);
                    Raw::Map(vec![Raw::entry(RESTART_POLICY, restart_policy)])
                });
                of_value
            }
            DIGEST => {
                let known: Soft<Text<'de>> = map.next_value()?;
                known_digest = known.as_str().parse().ok();
                EMPTY
            }
            "metadata" => map.next_value_seed(At::Metadata)?,
            _ => map.next_value_seed(At::Other)?,
        };
        digest = with_entry(digest, key.as_str(), of_value);
    }
    let digest: u64 = known_digest.unwrap_or(digest);
    let digest = Raw::Text(Text(digest.to_string().into()));
    Ok(Raw::Map(vec![
        Raw::entry(DIGEST, digest),
        Raw::entry("spec", kept_spec),
    ]))
}

/// `spec.template.spec`.
struct TemplateSpec<'a> {
    restart_policy: Soft<Text<'a>>,
    digest: u64,
}

impl<'de: 'a, 'a> Expected<'de> for TemplateSpec<'a> {
    const WORDS: &'static str = "a map";

    fn of_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let (mut restart_policy, mut entries) = (Soft::<Text<'de>>::Absent, EMPTY);
        while let Some(key) = map.next_key::<Text<'de>>()? {
            let digest = if key.as_str() == RESTART_POLICY {
                restart_policy = map.next_value()?;
                of_soft(&restart_policy, |policy| of_text(policy.as_str()))
            } else {
                map.next_value_seed(At::Other)?
            };
            entries = with_entry(entries, key.as_str(), digest);
        }
        Ok(Some(Self {
            restart_policy,
            digest: entries,
        }))
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
        Soft::Wrong(found) => hash((4_u8, found.name())),
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
