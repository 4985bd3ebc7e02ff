//! Fields of nodes, leases and namespaces; and conditions, which several kinds have.

use kubegc_core::json::Text;
use kubegc_core::record::{Condition, Lease, Namespace, Node, Taint};

use super::{
    NO_SPEC, SPEC, STATUS, phase_or_initial,
    reading::{Origin, Reading, Unreadable},
    spec_of, status_of,
};
use crate::body::{Body, Status};

pub(super) fn node(reading: &mut Reading<'_>, body: &Body<'_>) -> Node {
    // All fields of the spec are optional.
    let spec = match body.spec.is_absent() {
        true => Some(&*NO_SPEC),
        false => spec_of(reading, body),
    };
    let status = status_of(reading, body);
    Node {
        taints: reading.field(spec, |reading, spec| {
            reading.list(&spec.taints, SPEC.field("taints"), |reading, taint, path| {
                let key = reading.text_or_empty(&taint.key, path.field("key"));
                let effect = reading.text_or_empty(&taint.effect, path.field("effect"));
                let value = reading.text_or_empty(&taint.value, path.field("value"));
                let time_added = reading.time(&taint.time_added, path.field("timeAdded"));
                Ok(Taint {
                    key: key?,
                    effect: effect?,
                    value: value?,
                    time_added: time_added?,
                })
            })
        }),
        provider_id: field!(reading, spec.provider_id => text_or_empty("providerID")),
        conditions: reading.field(status, |reading, status| {
            conditions(reading, status, |condition_type| condition_type == "Ready")
        }),
        volumes_in_use: field!(reading, status.volumes_in_use => all_texts("volumesInUse")),
    }
}

pub(super) fn lease(reading: &mut Reading<'_>, body: &Body<'_>) -> Lease {
    let spec = spec_of(reading, body);
    Lease {
        renew_time: field!(reading, spec.renew_time => time("renewTime")),
        lease_duration_seconds: field!(
            reading, spec.lease_duration_seconds => number("leaseDurationSeconds")
        ),
    }
}

pub(super) fn namespace(reading: &mut Reading<'_>, body: &Body<'_>) -> Namespace {
    let spec = spec_of(reading, body);
    let status = status_of(reading, body);
    Namespace {
        phase: phase_or_initial(reading, body, status, "Active"),
        finalizers: reading.field(spec, |reading, spec| {
            let finalizers = reading.all_texts(&spec.finalizers, SPEC.field("finalizers"))?;
            Ok(match reading.origin {
                Origin::Manifest => vec!["kubernetes".into()],
                Origin::Whole | Origin::Dump => finalizers,
            })
        }),
        conditions: reading.field(status, |reading, status| conditions(reading, status, |_| true)),
    }
}

/// The conditions of these types, in stored order. Of the others only the type is read.
pub(super) fn conditions(
    reading: &mut Reading<'_>,
    status: &Status<'_>,
    is_kept: impl Fn(&str) -> bool,
) -> Result<Vec<Condition>, Unreadable> {
    let path = STATUS.field("conditions");
    let conditions = reading.list(&status.conditions, path, |reading, condition, path| {
        let condition_type = reading.value(&condition.condition_type, path.field("type"))?;
        let condition_type = condition_type.map_or("", Text::as_str);
        if !is_kept(condition_type) {
            return Ok(None);
        }
        let condition_type = reading.texts.share(condition_type);
        let status = reading.text_or_empty(&condition.status, path.field("status"));
        let reason = reading.text_or_empty(&condition.reason, path.field("reason"));
        let message = reading.text_or_empty(&condition.message, path.field("message"));
        let path_of = |field| path.field(field);
        let transition = reading.time(&condition.last_transition_time, path_of("lastTransitionTime"));
        let update = reading.time(&condition.last_update_time, path_of("lastUpdateTime"));
        let generation = reading.value(&condition.observed_generation, path_of("observedGeneration"));
        Ok(Some(Condition {
            condition_type,
            status: status?,
            reason: reason?,
            message: message?,
            last_transition_time: transition?,
            last_update_time: update?,
            observed_generation: generation?.copied().unwrap_or(0),
        }))
    })?;
    Ok(conditions.into_iter().flatten().collect())
}
