//! Actions as lines of text: those of a controller, and the recorded ones.

use kubegc_core::{DeleteOptions, deletion::Propagation, record::Resource};
use serde::Deserialize;
use serde_json::{Value, json};

use super::server::{Call, Place, Refusal, Server, full_resource, plain, text};
use crate::{Failure, failure::equal};

/// One entry of `actions`.
#[derive(Debug, Deserialize)]
pub(super) struct Recorded {
    #[serde(flatten)]
    call: Call,
    code: Option<u16>,
    answer: Option<Value>,
    #[serde(rename = "as")]
    is_partial: Option<String>,
    event: Option<Value>,
    plugin: Option<String>,
}

/// One action: its object, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    object: String,
    pub(super) text: String,
}

/// Whether the order of actions is part of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// All of it.
    Exact,
    /// The order of the actions on each object.
    WithinObject,
    /// The order of the actions on each resource, without others in between. `pods_first`: Pods are separate.
    Namespace { pods_first: bool },
}

impl Order {
    pub(super) fn sort(self, lines: &mut [Line]) {
        let resource = |line: &Line| line.object.split(' ').next().unwrap_or_default().to_owned();
        match self {
            Self::Exact => {}
            Self::WithinObject => lines.sort_by(|a, b| a.object.cmp(&b.object)),
            Self::Namespace { pods_first } => {
                let class = |line: &Line| match &*resource(line) {
                    "namespaces" => 0,
                    "pods" if pods_first => 1,
                    _ => 2,
                };
                for run in lines.chunk_by_mut(|a, b| class(a) == class(b)) {
                    run.sort_by_key(resource);
                }
            }
        }
    }
}

/// The uid of objects without one: records require one.
pub(super) const NO_UID: &str = "no uid";

/// DeleteOptions as they are sent; null if they are empty.
pub(super) fn wire_options(options: &DeleteOptions) -> Value {
    let mut wire = json!({
        "gracePeriodSeconds": options.grace_period_seconds,
        "preconditions": options.preconditions,
        "dryRun": options.dry_run.then_some("All"),
    });
    match options.propagation {
        Some(Propagation::Policy(policy)) => wire["propagationPolicy"] = policy.as_str().into(),
        Some(Propagation::OrphanDependents(orphan)) => wire["orphanDependents"] = orphan.into(),
        None => {}
    }
    if wire["preconditions"]["uid"] == NO_UID {
        wire["preconditions"]["uid"] = Value::Null;
    }
    let wire = plain(&wire);
    if wire == json!({}) { Value::Null } else { wire }
}

/// The expected uid and version of an object as text.
pub(super) fn guard_of(expected: &Value) -> String {
    let (uid, version) = (text(expected, "uid"), text(expected, "resourceVersion"));
    format!(" if uid is {uid:?} and version is {version:?}")
}

/// Performs a write on a server. Returns its line and the response.
pub(super) fn write_line(server: &mut Server, call: &Call, guard: &str) -> (Line, Result<Value, Refusal>) {
    let Call {
        verb,
        subresource,
        namespace,
        name,
        ..
    } = call;
    let detail = match &**verb {
        "update" => {
            let mut body = plain(&call.body);
            let of_interest = match &**subresource {
                "status" => &["metadata", "status"][..],
                "finalize" => &["metadata", "spec"],
                _ => &["metadata", "spec", "data", "status"],
            };
            if let Some(fields) = body.as_object_mut() {
                fields.retain(|key, _| of_interest.contains(&&**key));
            }
            body.to_string()
        }
        "patch" => {
            let stored = server
                .objects
                .get(&call.place())
                .cloned()
                .unwrap_or_else(|| json!({}));
            let mut patched = plain(&call.patched(&stored));
            if let Some(metadata) = patched["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
                metadata.remove("uid");
            }
            format!("to {patched}{guard}")
        }
        _ => call.options.to_string(),
    };
    let result = server.handle(call);
    let code = result.as_ref().map_or_else(|refusal| refusal.code, |_| 200);
    let resource = call.full_resource();
    let separator = if subresource.is_empty() { "" } else { "/" };
    let line = Line {
        object: format!("{resource} {namespace}/{name}"),
        text: format!("{verb} {resource}{separator}{subresource} {namespace}/{name} {detail} -> {code}"),
    };
    (line, result)
}

/// The line of an Event with this type, reason and message.
pub(super) fn event_line(
    (resource, namespace, name): Place,
    uid: &str,
    [event_type, reason, message]: [&str; 3],
) -> Line {
    Line {
        object: format!("{resource} {namespace}/{name}"),
        text: format!("event {event_type} {reason} for {namespace}/{name} {uid}: {message}"),
    }
}

pub(super) fn plugin_line(verb: &str) -> Line {
    Line {
        object: String::new(),
        text: format!("plugin {verb}"),
    }
}

/// The line of a recorded write, event or call of a plugin; `None` for other actions. A response that
/// differs from the recorded one is an error.
pub(super) fn recorded_line(server: &mut Server, recorded: &Recorded) -> Result<Option<Line>, Failure> {
    let call = &recorded.call;
    if let Some(event) = &recorded.event {
        let object = &event["object"];
        let resource = Resource::ALL
            .iter()
            .find(|resource| resource.kind() == text(object, "kind"));
        let resource = resource.map(|resource| full_resource(resource.group(), resource.plural()));
        let [namespace, name] = ["namespace", "name"].map(|key| text(object, key).to_owned());
        let place = (resource.unwrap_or_default(), namespace, name);
        let texts = ["type", "reason", "message"].map(|key| text(event, key));
        return Ok(Some(event_line(place, text(object, "uid"), texts)));
    }
    if let Some(verb) = &recorded.plugin {
        return Ok(Some(plugin_line(verb)));
    }
    if call.verb.is_empty() {
        return Ok(None);
    }
    let (line, result) = match &*call.verb {
        "get" | "list" => (None, server.handle(call)),
        _ => {
            let patch: Value = serde_json::from_str(&call.patch).unwrap_or_default();
            let guard = guard_of(&patch["metadata"]);
            let (line, result) = write_line(server, call, &guard);
            (Some(line), result)
        }
    };
    let got = result.as_ref().map_or_else(|refusal| refusal.code, |_| 200);
    let place = || format!("the recorder's server, {} {:?}", call.verb, call.place());
    equal(&place(), &recorded.code.unwrap_or(got), &got)?;
    if let (Some(answer), Ok(object), None) = (&recorded.answer, &result, &recorded.is_partial) {
        equal(&place(), &comparable(answer), &comparable(object))?;
    }
    Ok(line)
}

/// An object, or a list by name. Versions in a list depend on the random order of upstream's resources.
fn comparable(answer: &Value) -> Value {
    let Value::Array(objects) = answer else {
        return plain(answer);
    };
    let mut objects: Vec<Value> = objects.iter().map(plain).collect();
    for object in &mut objects {
        object["metadata"]["resourceVersion"] = Value::Null;
    }
    objects.sort_by_key(|object| text(&object["metadata"], "name").to_owned());
    Value::Array(objects)
}
