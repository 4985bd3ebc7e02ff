//! Namespaces and the pods in them, as whoever empties namespaces reads and writes them.

use kubegc_core::{ObjectMeta, ResourceVersion, Timestamp, Uid};
use kubegc_lifecycle::{
    driver::DocumentError,
    namespace::{Action, Condition, ConditionStatus, Item, Namespace, Pod},
};
use serde_json::Value;

use super::{
    change::{Object, at, put},
    first_unreadable, object_of,
};
use crate::{
    PodDetails,
    details::{Reading, SPEC, STATUS, Unreadable},
    item::{self, Text},
    store::Store,
};

/// A namespace. All of it has to be readable: what it holds is deleted on it.
pub(super) fn read(
    meta: ObjectMeta,
    item: &item::Item<'_>,
    store: &mut Store,
) -> Result<Namespace, DocumentError> {
    let mut flaws = Vec::new();
    let mut reading = Reading {
        texts: &mut store.texts,
        flaws: &mut flaws,
    };
    let read = namespace(meta, item, &mut reading);
    first_unreadable(&flaws)?;
    read.map_err(|Unreadable| DocumentError::new("cannot be read"))
}

fn namespace(
    meta: ObjectMeta,
    item: &item::Item<'_>,
    reading: &mut Reading<'_>,
) -> Result<Namespace, Unreadable> {
    let mut namespace = Namespace::new(&meta.name, "");
    namespace.uid = meta.uid;
    namespace.resource_version = meta.resource_version;
    namespace.deletion_timestamp = meta.deletion_timestamp;
    namespace.finalizers.clear();
    let spec = reading.value(&item.body.spec, SPEC)?;
    if let Some(spec) = spec.and_then(|spec| spec.of_others()) {
        namespace.finalizers = reading.texts_of(&spec.finalizers, SPEC.field("finalizers"));
    }
    let Some(status) = reading.value(&item.body.status, STATUS)? else {
        return Ok(namespace);
    };
    let phase = reading.value(&status.phase, STATUS.field("phase"))?;
    namespace.is_terminating = phase.is_some_and(|phase| phase.as_str() == "Terminating");
    let path = STATUS.field("conditions");
    namespace.conditions = reading.list(&status.conditions, path, |reading, condition, path| {
        let status = reading.value(&condition.status, path.field("status"))?;
        let time = path.field("lastTransitionTime");
        Ok(Condition {
            condition_type: reading.text_or_empty(&condition.kind, path.field("type"))?,
            status: match status.map(Text::as_str) {
                Some("True") => ConditionStatus::True,
                Some("False") => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            },
            reason: reading.text_or_empty(&condition.reason, path.field("reason"))?,
            message: reading.text_or_empty(&condition.message, path.field("message"))?,
            last_transition_time: reading.time(&condition.last_transition_time, time)?,
        })
    })?;
    Ok(namespace)
}

/// A pod among the content of its namespace. Without a status it has not finished, and without a spec it is on no node.
pub(super) fn pod_item(meta: &ObjectMeta, details: &PodDetails) -> Item {
    let mut item = Item::new(&meta.name, "");
    item.uid = meta.uid.clone();
    item.finalizers.clone_from(&meta.finalizers);
    let phase = details.phase().map(|phase| &**phase);
    item.as_pod(Pod {
        is_finished: matches!(phase, Some("Succeeded" | "Failed")),
        grace_period_seconds: details.termination_grace_period_seconds,
        is_scheduled: details.node_name().is_some(),
        deletion_timestamp: meta.deletion_timestamp,
    })
}

/// The namespace as it was read, with what the action changes, and with the uid and the version that it expects.
pub(super) fn write(action: &Action, document: &[u8]) -> Result<Vec<u8>, DocumentError> {
    let mut namespace = object_of(document)?;
    let expect = match action {
        Action::SetPhaseTerminating { expect, .. } => {
            put(&mut namespace, &["status", "phase"], "Terminating".into())?;
            expect
        }
        Action::UpdateConditions {
            expect, conditions, ..
        } => {
            let before = at(&namespace, &["status", "conditions"]).and_then(Value::as_array);
            let before = before.cloned().unwrap_or_default();
            let conditions = conditions.iter().map(|condition| written(condition, &before));
            let conditions = conditions.collect();
            put(&mut namespace, &["status", "conditions"], conditions)?;
            expect
        }
        Action::Finalize {
            expect, finalizers, ..
        } => {
            let finalizers = finalizers.iter().map(|name| Value::from(&**name)).collect();
            put(&mut namespace, &["spec", "finalizers"], finalizers)?;
            expect
        }
        Action::DeleteCollection { .. } | Action::Delete { .. } => {
            return Err(DocumentError::new("the action writes no namespace"));
        }
    };
    let found = at(&namespace, &["metadata", "uid"]).and_then(Value::as_str);
    if let Some(uid) = &expect.uid
        && found.is_none_or(|found| Uid::new(found) != *uid)
    {
        let found = found.unwrap_or("none");
        return Err(DocumentError::new(format!(
            "metadata.uid: expected {uid}, found {found}"
        )));
    }
    if let Some(version) = expect.resource_version.as_ref().map(ResourceVersion::as_str) {
        put(&mut namespace, &["metadata", "resourceVersion"], version.into())?;
    }
    Ok(Value::Object(namespace).to_string().into_bytes())
}

/// A condition: as it stood there, where nothing of it has changed, else with what else stood there.
fn written(condition: &Condition, before: &[Value]) -> Value {
    let text = |entry: &Value, key| {
        entry
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let found = before
        .iter()
        .find(|entry| text(entry, "type") == *condition.condition_type);
    let mut entry = found.and_then(Value::as_object).cloned().unwrap_or_default();
    let status = match condition.status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        // Whatever else stands there is read as this.
        ConditionStatus::Unknown => match entry.get("status").and_then(Value::as_str) {
            Some("True" | "False") | None => "Unknown",
            Some(_) => "",
        },
    };
    let mut set = |key: &str, text: &str| {
        if !text.is_empty() {
            entry.insert(key.to_owned(), text.into());
        }
    };
    set("type", &condition.condition_type);
    set("status", status);
    set("reason", &condition.reason);
    set("message", &condition.message);
    let time = condition.last_transition_time.map(Timestamp::truncate_to_secs);
    set(
        "lastTransitionTime",
        &time.map_or_else(String::new, |time| time.to_string()),
    );
    Object::into(entry)
}
