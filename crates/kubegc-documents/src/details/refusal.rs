//! Facts about refused requests: Events that quote them, and the amounts of ResourceQuotas.

use std::collections::BTreeMap;

use kubegc_core::ObjectRef;

use super::{
    EventDetails, QuotaDetails,
    reading::{At, Reading},
};

/// The parts of messages by which a refusal is recognised.
const QUOTED: [&str; 2] = ["exceeded quota: ", "the object has been modified"];

/// `None` for an Event about anything else: dumps have many.
pub(super) fn event(reading: &mut Reading<'_>, object: At<'_, '_>) -> Option<EventDetails> {
    let message = object.value.get("message").as_str()?;
    if !QUOTED.iter().any(|part| message.contains(part)) {
        return None;
    }
    let about = object.field("involvedObject");
    let mut text = |field: &str| reading.text_or_empty(about.field(field)).ok();
    let about = ObjectRef {
        api_version: text("apiVersion")?,
        kind: text("kind")?,
        namespace: text("namespace")?,
        name: text("name")?,
        uid: text("uid")?.as_ref().into(),
    };
    Some(EventDetails {
        about,
        reason: reading.text_or_empty(object.field("reason")).ok()?,
        message: reading.text_or_empty(object.field("message")).ok()?,
        count: reading.whole(object.field("count")).ok()?.unwrap_or(1),
    })
}

pub(super) fn quota(reading: &mut Reading<'_>, object: At<'_, '_>) -> Option<QuotaDetails> {
    let (spec, status) = (object.field("spec"), object.field("status"));
    let mut amounts = |part: At<'_, '_>, field: &str| -> Option<BTreeMap<_, _>> {
        reading.map(part).ok()?;
        reading.labels(part.field(field)).ok()
    };
    Some(QuotaDetails {
        hard: amounts(status, "hard")?,
        used: amounts(status, "used")?,
        is_scoped: !spec.field("scopes").is_absent() || !spec.field("scopeSelector").is_absent(),
    })
}
