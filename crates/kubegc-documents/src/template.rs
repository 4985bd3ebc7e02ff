//! Pod templates: the restart policy, and a digest of all the rest.
//!
//! Two templates have the same digest if they are semantically equal: the order of keys, absent, null and
//! empty values, and the label `pod-template-hash` do not count. Nothing of a template is kept.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;
use serde_json::{Map, Value};

/// The key of the digest in a template of which only the digest is known.
pub(crate) const DIGEST: &str = "digest";

/// The label by which ReplicaSets of one Deployment differ.
const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// The digest of `spec.template` of a workload: the known one, if nothing else of the template was kept.
pub(crate) fn digest_of(template: &Map<String, Value>) -> u64 {
    let known = template.get(DIGEST).and_then(Value::as_str);
    let known = known.and_then(|digest| digest.parse().ok());
    known.unwrap_or_else(|| entries(template, At::Template))
}

/// The digest of a value that is empty: it is as good as absent.
const EMPTY: u64 = 0;

fn hash(value: impl Hash) -> u64 {
    FixedState::default().hash_one(value)
}

/// A place in a template.
#[derive(Clone, Copy)]
enum At {
    Template,
    Metadata,
    Labels,
    Other,
}

/// The digest of a value. As deep as the parser of the document allows.
fn digest(value: &Value, at: At) -> u64 {
    match value {
        Value::Null => EMPTY,
        Value::Bool(flag) => hash((5_u8, flag)),
        Value::Number(number) => match (number.as_i128(), number.as_f64()) {
            (Some(number), _) => hash((1_u8, number)),
            (None, number) => hash((7_u8, number.map(f64::to_bits))),
        },
        Value::String(text) if text.is_empty() => EMPTY,
        Value::String(text) => hash((0_u8, text.as_str())),
        Value::Array(list) => list.iter().fold(EMPTY, |before, entry| {
            hash((8_u8, before, digest(entry, At::Other)))
        }),
        Value::Object(map) => match entries(map, at) {
            EMPTY => EMPTY,
            entries => hash((2_u8, entries)),
        },
    }
}

/// The sum of the digests of the entries of a map. It does not depend on their order.
fn entries(map: &Map<String, Value>, at: At) -> u64 {
    map.iter().fold(EMPTY, |sum, (key, value)| {
        let place = match (at, key.as_str()) {
            (At::Labels, POD_TEMPLATE_HASH) => return sum,
            (At::Template, "metadata") => At::Metadata,
            (At::Metadata, "labels") => At::Labels,
            _ => At::Other,
        };
        match digest(value, place) {
            EMPTY => sum,
            value => sum.wrapping_add(hash((3_u8, key, value))),
        }
    })
}
