//! Facts of Nodes, Leases and Namespaces; and conditions, which several kinds have.

use std::sync::Arc;

use kubegc_core::{
    json::JsonType,
    record::{Condition, Lease, Namespace, Node, Taint},
};
use serde_json::Value;

use super::{
    facts::{By, Codec, Fact, Facts, Filled, Object, Plain, Seconds, UnlessZero, with_fields},
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
        time_added: "timeAdded" => Seconds,
    }
    Condition {
        condition_type: "type" => Filled,
        status: "status" => Filled,
        reason: "reason" => Filled,
        message: "message" => Filled,
        last_transition_time: "lastTransitionTime" => Seconds,
        last_update_time: "lastUpdateTime" => Seconds,
        observed_generation: "observedGeneration" => UnlessZero,
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

/// An entry of `status.conditions` with the fields of a condition in place of its own.
pub(crate) fn with_condition(entry: &Value, condition: &Condition) -> Value {
    let mut entry = with_fields(entry, condition);
    // Upstream writes a whole new condition, and never sets it.
    entry.remove("lastProbeTime");
    entry.into()
}

/// An entry of `spec.taints` with the fields of a taint in place of its own.
pub(crate) fn with_taint(entry: &Value, taint: &Taint) -> Value {
    with_fields(entry, taint).into()
}
