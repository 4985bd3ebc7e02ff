//! Compares a request with a recorded one and returns the recorded response.

use std::{fmt::Write as _, sync::Arc};

use kubegc_core::{Catalog, PatchType};
use kubegc_objects::{Operation, Request, Response};

use super::format::Action;
use crate::Failure;

/// The request as one line.
pub(super) fn text_of_request(catalog: &Catalog, request: &Request) -> String {
    let resource = &catalog[request.kind];
    let target = &request.target;
    let mut text = match &request.operation {
        Operation::Get => "get".to_owned(),
        Operation::Delete { .. } => "delete".to_owned(),
        Operation::Patch { .. } => "patch".to_owned(),
        Operation::Put { .. } => "put".to_owned(),
    };
    push_address(
        &mut text,
        (&resource.group, &resource.version, &resource.resource),
        &target.namespace,
        &target.name,
    );
    match &request.operation {
        Operation::Get => {}
        Operation::Delete { wire, propagation } => {
            let uid = wire.uid.as_ref().map(|uid| uid.text().as_str().to_owned());
            let version = wire.resource_version.as_ref().map(|version| version.as_str());
            push_delete(&mut text, propagation.as_str(), uid.as_deref(), version);
        }
        Operation::Patch { format, body, .. } => {
            let format = match format {
                PatchType::Merge => "merge",
                PatchType::Strategic => "strategic",
                PatchType::Json => "json",
            };
            push_patch(&mut text, format, &String::from_utf8_lossy(body));
        }
        Operation::Put { read_at, finalizers } => {
            push_patch(&mut text, "put", &format!("{read_at} {finalizers:?}"));
        }
    }
    text
}

/// The recorded request in the same form.
pub(super) fn text_of_action(action: &Action) -> String {
    let mut text = action.verb.clone();
    let (group, version, resource) = &action.res;
    push_address(&mut text, (group, version, resource), &action.ns, &action.name);
    match action.verb.as_str() {
        "delete" => push_delete(
            &mut text,
            action.policy.as_deref().unwrap_or_default(),
            action.precondition_uid.as_deref(),
            action.precondition_resource_version.as_deref(),
        ),
        "patch" => {
            let (format, body) = (action.r#type.as_deref(), action.body.as_deref());
            push_patch(&mut text, format.unwrap_or_default(), body.unwrap_or_default());
        }
        _ => {}
    }
    text
}

fn push_address(text: &mut String, resource: (&str, &str, &str), namespace: &str, name: &str) {
    let (group, version, resource) = resource;
    // Writing to a String does not fail.
    let _written = write!(text, " {group}/{version}/{resource} {namespace}/{name}");
}

fn push_delete(text: &mut String, policy: &str, uid: Option<&str>, version: Option<&str>) {
    let _written = write!(text, " {policy} uid={uid:?} resourceVersion={version:?}");
}

fn push_patch(text: &mut String, format: &str, body: &str) {
    let _written = write!(text, " {format} {body}");
}

/// The recorded response.
pub(super) fn response(action: &Action) -> Result<Response, Failure> {
    let meta = action
        .obj
        .as_ref()
        .map(|object| Arc::new(object.meta(&action.ns, &action.name)));
    Ok(match (action.code, action.verb.as_str()) {
        (200..=299, "get") => Response::Found(meta.ok_or_else(|| {
            Failure::unreadable(format!(
                "a successful get without an object: {}",
                text_of_action(action)
            ))
        })?),
        (200..=299, _) => Response::Applied(meta),
        (404, _) => Response::NotFound,
        (409, _) => Response::Conflict,
        (415, _) => Response::UnsupportedMediaType,
        (422, _) => Response::Invalid,
        (400 | 403 | 429, _) => Response::Refused { retry_after: None },
        _ => Response::Unknown,
    })
}

/// Recorded requests that are sent one after another.
pub(super) struct Script<'a> {
    actions: &'a [Action],
    taken: Vec<bool>,
    /// Whether requests on different objects may come in any order.
    grouped: bool,
}

impl<'a> Script<'a> {
    pub(super) fn new(actions: &'a [Action], grouped: bool) -> Self {
        Self {
            actions,
            taken: vec![false; actions.len()],
            grouped,
        }
    }

    /// Responds to a request, if it is the next one recorded (of its object, where they are grouped).
    pub(super) fn request(&mut self, catalog: &Catalog, request: &Request) -> Result<Response, Failure> {
        let got = text_of_request(catalog, request);
        let same_object = |action: &Action| {
            let resource = &catalog[request.kind];
            *action.res.2 == *resource.resource
                && *action.res.1 == *resource.version
                && *action.res.0 == *resource.group
                && *action.ns == *request.target.namespace
                && *action.name == *request.target.name
        };
        let next = self
            .actions
            .iter()
            .enumerate()
            .find(|&(at, action)| !self.taken[at] && (!self.grouped || same_object(action)));
        let Some((at, action)) = next else {
            return Err(Failure::new("actions", "no further request", got));
        };
        let expected = text_of_action(action);
        if expected != got {
            return Err(Failure::new(format!("action {at}"), expected, got));
        }
        self.taken[at] = true;
        response(action)
    }

    /// Whether every recorded request was sent.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        let left: Vec<_> = self
            .actions
            .iter()
            .zip(&self.taken)
            .filter(|(_, taken)| !**taken)
            .map(|(action, _)| text_of_action(action))
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(Failure::new("actions", left.join("\n"), "no further request"))
        }
    }
}
