//! What is read of nodes; and conditions, which several kinds have.

use kubegc_lifecycle::{
    fields::Node,
    object::{Condition, Taint},
};

use super::{
    SPEC, STATUS,
    reading::{Reading, Unreadable},
    spec_of, status_of,
};
use crate::{
    body::{Body, Status},
    item::Text,
};

pub(super) fn node(reading: &mut Reading<'_>, body: &Body<'_>) -> Node {
    let mut fields = Node::default();
    if let Ok(Some(spec)) = spec_of(reading, body) {
        let path = SPEC.field("taints");
        let taints = reading.list(&spec.taints, path, |reading, taint, path| {
            let key = reading.text_or_empty(&taint.key, path.field("key"));
            let effect = reading.text_or_empty(&taint.effect, path.field("effect"));
            Ok(Taint {
                key: key?,
                effect: effect?,
            })
        });
        let path = SPEC.field("providerID");
        fields.taints = taints.ok();
        fields.provider_id = reading.text_or_empty(&spec.provider_id, path).ok();
    }
    if let Ok(Some(status)) = status_of(reading, body) {
        fields.conditions = conditions(reading, status, |kind| kind == "Ready").ok();
    }
    fields
}

/// The conditions of these types, in stored order. Of the others nothing but the type is looked at.
pub(super) fn conditions(
    reading: &mut Reading<'_>,
    status: &Status<'_>,
    is_kept: impl Fn(&str) -> bool,
) -> Result<Vec<Condition>, Unreadable> {
    let path = STATUS.field("conditions");
    let conditions = reading.list(&status.conditions, path, |reading, condition, path| {
        let kind = reading.value(&condition.kind, path.field("type"))?;
        let kind = kind.map_or("", Text::as_str);
        if !is_kept(kind) {
            return Ok(None);
        }
        let kind = reading.texts.share(kind);
        let status = reading.text_or_empty(&condition.status, path.field("status"));
        let reason = reading.text_or_empty(&condition.reason, path.field("reason"));
        let message = reading.text_or_empty(&condition.message, path.field("message"));
        let path_of = |field| path.field(field);
        let transition = reading.time(&condition.last_transition_time, path_of("lastTransitionTime"));
        let update = reading.time(&condition.last_update_time, path_of("lastUpdateTime"));
        Ok(Some(Condition {
            kind,
            status: status?,
            reason: reason?,
            message: message?,
            last_transition_time: transition?,
            last_update_time: update?,
        }))
    })?;
    Ok(conditions.into_iter().flatten().collect())
}
