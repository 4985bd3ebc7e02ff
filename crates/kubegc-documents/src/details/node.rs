//! Facts of Nodes, Leases and Namespaces; and conditions, which several kinds have.

use std::sync::Arc;

use kubegc_core::{
    Timestamp,
    json::JsonType,
    record::{Condition, Lease, Namespace, Node, Taint},
};
use serde_json::Value;

use super::{
    facts::{By, Codec, Fact, Facts, Filled, Object, Plain},
    reading::{At, Origin, Reading, Unreadable},
};

facts! {
    Lease {
        spec {
            renew_time: "renewTime" => Plain,
            lease_duration_seconds: "leaseDurationSeconds" => Plain,
        }
    }
    Namespace {
        spec {
            finalizers: "finalizers" => By(finalizers),
        }
        status {
            phase: "phase" => By(namespace_phase),
            conditions: "conditions" => Conditions(&[]),
        }
    }
    Node {
        spec {
            taints: "taints" => Plain,
            provider_id: "providerID" => Plain,
        }
        status {
            conditions: "conditions" => Conditions(&["Ready"]),
            volumes_in_use: "volumesInUse" => Plain,
        }
    }
}

map_of_facts! {
    Taint {
        key: "key" => Filled,
        effect: "effect" => Filled,
        value: "value" => Filled,
        time_added: "timeAdded" => Filled,
    }
}

fn finalizers(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Vec<Arc<str>>, Unreadable> {
    let finalizers = reading.all_texts(at)?;
    Ok(match reading.origin {
        Origin::Manifest => vec!["kubernetes".into()],
        Origin::Whole | Origin::Dump => finalizers,
    })
}

fn namespace_phase(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Arc<str>, Unreadable> {
    reading.phase_or_initial(at, "Active")
}

/// The conditions of these types, or all if there are none, in stored order. Of the others only the type is
/// read.
pub(super) struct Conditions(pub(super) &'static [&'static str]);

impl Codec<Vec<Condition>> for Conditions {
    fn read(&self, reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Vec<Condition>, Unreadable> {
        let mut conditions = Vec::new();
        reading.list(at, JsonType::Map, |reading, condition| {
            let condition_type = reading.str(condition.field("type"))?.unwrap_or_default();
            if self.0.is_empty() || self.0.contains(&condition_type) {
                conditions.push(Condition::read(reading, condition)?);
            }
            Ok(())
        })?;
        Ok(conditions)
    }
}

impl Fact for Condition {
    const TYPE: JsonType = JsonType::Map;

    fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
        all!(Self {
            condition_type: Fact::read(reading, at.field("type")),
            status: Fact::read(reading, at.field("status")),
            reason: Fact::read(reading, at.field("reason")),
            message: Fact::read(reading, at.field("message")),
            last_transition_time: Fact::read(reading, at.field("lastTransitionTime")),
            last_update_time: Fact::read(reading, at.field("lastUpdateTime")),
            observed_generation: Fact::read(reading, at.field("observedGeneration")),
        })
    }

    fn write(&self) -> Value {
        with_condition(&Value::Null, self)
    }
}

/// An entry of `status.conditions` with the fields of a condition in place of its own.
pub(crate) fn with_condition(entry: &Value, condition: &Condition) -> Value {
    with_fields(
        entry,
        [
            ("type", condition.condition_type.write()),
            ("status", condition.status.write()),
            ("reason", condition.reason.write()),
            ("message", condition.message.write()),
            ("lastTransitionTime", seconds(condition.last_transition_time)),
            ("lastUpdateTime", seconds(condition.last_update_time)),
            // Upstream writes a whole new condition, and never sets it.
            ("lastProbeTime", Value::Null),
            ("observedGeneration", condition.observed_generation.into()),
        ],
    )
}

/// An entry of `spec.taints` with the fields of a taint in place of its own.
pub(crate) fn with_taint(entry: &Value, taint: &Taint) -> Value {
    with_fields(
        entry,
        [
            ("key", taint.key.write()),
            ("value", taint.value.write()),
            ("effect", taint.effect.write()),
            ("timeAdded", seconds(taint.time_added)),
        ],
    )
}

/// An entry with these fields in place of its own. Empty ones are removed, and other fields stay.
fn with_fields<const N: usize>(entry: &Value, fields: [(&str, Value); N]) -> Value {
    let mut entry = entry.as_object().cloned().unwrap_or_default();
    for (field, value) in fields {
        if value.is_null() || value == "" || value == 0 {
            entry.remove(field);
        } else {
            entry.insert(field.to_owned(), value);
        }
    }
    entry.into()
}

/// As Kubernetes writes `metav1.Time`: whole seconds.
fn seconds(time: Option<Timestamp>) -> Value {
    time.map(Timestamp::truncate_to_secs).write()
}
