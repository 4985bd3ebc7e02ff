//! Converts states and responses to the recorded forms.

use std::{collections::BTreeSet, sync::LazyLock};

use kubegc_sim::{ApiServer, Response, ResponseBody};
use regex::Regex;
use serde_json::{Map, Value, json};

use super::{format::ClientCall, scene::Scene};
use crate::{Failure, failure::pattern};

/// The state of the object of each alias.
pub(super) fn state(scene: &Scene<'_>, server: &ApiServer) -> Value {
    let mut state = Map::new();
    for placed in &scene.objects {
        let (kind, namespace, name) = placed.address();
        let object = server.object(kind, namespace, name);
        let object = object.filter(|object| object.meta.uid == placed.uid);
        let value = object.map_or_else(
            || json!({"present": false}),
            |object| {
                json!({
                    "present": true,
                    "deletionTimestamp": object.meta.is_deleting(),
                    "finalizers": object.meta.finalizers,
                    "ownerReferences": object.meta.owner_references,
                })
            },
        );
        state.insert(placed.object.alias.clone(), value);
    }
    Value::Object(state)
}

/// The aliases whose states differ, as text.
pub(super) fn state_difference(expected: &Value, got: &Value) -> (String, String) {
    let states = [expected, got].into_iter().filter_map(Value::as_object);
    let aliases: BTreeSet<&String> = states.flat_map(Map::keys).collect();
    let mut sides = (String::new(), String::new());
    for alias in aliases
        .iter()
        .filter(|alias| expected.get(alias) != got.get(alias))
    {
        let text = |state: &Value| {
            state
                .get(alias)
                .map_or_else(|| "nothing".to_owned(), Value::to_string)
        };
        sides.0 += &format!("{alias}: {}\n", text(expected));
        sides.1 += &format!("{alias}: {}\n", text(got));
    }
    sides
}

/// A response in the recorded form. `sent` are the finalizers and references of a create.
pub(super) fn response(
    scene_catalog: &kubegc_core::ApiResource,
    answer: &Response,
    sent: Option<(&[Value], &[Value])>,
) -> Value {
    let mut value = match &answer.body {
        ResponseBody::Object(object) => {
            let (finalizers, owner_references) =
                (json!(object.meta.finalizers), json!(object.meta.owner_references));
            if let Some((sent_finalizers, sent_references)) = sent
                && answer.code == 201
                && answer.warnings.is_empty()
                && finalizers.as_array().is_some_and(|got| got == sent_finalizers)
                && owner_references
                    .as_array()
                    .is_some_and(|got| got == sent_references)
            {
                return json!("as sent");
            }
            let mut fields = json!({
                "apiVersion": scene_catalog.api_version(),
                "kind": &*scene_catalog.kind,
                "deletionTimestamp": object.meta.is_deleting(),
                "finalizers": finalizers,
                "ownerReferences": owner_references,
            });
            if let Some(seconds) = object.meta.deletion_grace_period_seconds {
                fields["deletionGracePeriodSeconds"] = seconds.into();
            }
            fields
        }
        ResponseBody::Status(status) => {
            let mut fields = status.to_json();
            if let Some(fields) = fields.as_object_mut() {
                for key in ["apiVersion", "metadata", "code"] {
                    fields.remove(key);
                }
                let details = if status.is_success() {
                    None
                } else {
                    fields.remove("details")
                };
                if let Some(causes) = details.as_ref().and_then(|details| details.get("causes")) {
                    fields.insert("causes".to_owned(), causes.clone());
                }
                if let Some(Value::String(message)) = fields.get_mut("message") {
                    *message = without_versions(message);
                }
            }
            fields
        }
        ResponseBody::List(_) | ResponseBody::Virtual(_) => Value::Null,
    };
    if !answer.warnings.is_empty() {
        // As the header has them: code, agent, text.
        let shown = answer.warnings.iter().map(|warning| format!("299 - {warning:?}"));
        value["warnings"] = shown.collect();
    }
    value
}

/// Compares a call of the client with the recorded one.
pub(super) fn client_call(expected: Option<&ClientCall>, got: &ClientCall) -> Result<(), Failure> {
    if expected == Some(got) {
        return Ok(());
    }
    let place = format!("call of the client in step {}", got.step);
    let expected = expected.map_or_else(|| "no further call".to_owned(), text_of_call);
    Err(Failure::new(place, expected, text_of_call(got)))
}

fn text_of_call(call: &ClientCall) -> String {
    format!("{} {} {}: {}", call.verb, call.alias, call.code, call.response)
}

/// Replaces the resourceVersion in the text of a patch.
pub(super) fn body_without_version(body: &str) -> String {
    static VERSION: LazyLock<Regex> = LazyLock::new(|| pattern(r#"("resourceVersion":")[^"]*""#));
    VERSION.replace(body, "$1<rv>\"").into_owned()
}

/// Replaces numbers between parentheses, which are how messages show resourceVersions.
fn without_versions(message: &str) -> String {
    static VERSION: LazyLock<Regex> = LazyLock::new(|| pattern(r"\([0-9]+\)"));
    VERSION.replace_all(message, "(<rv>)").into_owned()
}
