//! Plays the client's part of a scenario, one request at a time.

use std::{collections::BTreeMap, time::Duration};

use kubegc_core::{DeleteOptions, PatchType, ResourceVersion, Timestamp, deletion::DeleteOptionsSpec};
use kubegc_sim::{ApiServer, Manifest, Response};
use serde_json::{Value, json};

use super::{
    compare,
    format::{ClientCall, Step},
    scene::{Placed, Scene},
};

/// Maximum number of retries of a read and patch after conflicts.
const CONFLICTS_MAX: usize = 20;

#[derive(Clone, Default)]
pub(super) struct Client {
    step: usize,
    /// Number of completed requests of the step.
    part: usize,
    conflicts: usize,
    /// The result of the last read of the step.
    read: Option<(ResourceVersion, Vec<std::sync::Arc<str>>)>,
    /// The versions that objects had at their creation.
    versions: BTreeMap<String, ResourceVersion>,
    /// Until when the client sleeps.
    pub(super) ready_at: Timestamp,
    pub(super) calls: Vec<ClientCall>,
}

/// The operation after the last step.
pub(super) const END: &str = "end";
/// The steps that record a checkpoint: after silence, or at once.
pub(super) const CHECKPOINTS: [&str; 2] = ["wait", "snapshot"];

impl Client {
    /// The next step that affects calls in flight: a checkpoint, which waits for them if it is after silence,
    /// or a stop of the collector, which drops them.
    pub(super) fn next_barrier<'a>(&self, scene: &'a Scene<'_>) -> &'a str {
        let mut left = scene.scenario.steps.iter().skip(self.step).map(|step| &*step.op);
        left.find(|op| CHECKPOINTS.contains(op) || *op == "stop-gc")
            .unwrap_or(END)
    }

    pub(super) fn new(ready_at: Timestamp) -> Self {
        Self {
            ready_at,
            ..Self::default()
        }
    }

    /// The operation of the next step.
    pub(super) fn op<'a>(&self, scene: &'a Scene<'_>) -> &'a str {
        scene.scenario.steps.get(self.step).map_or(END, |step| &*step.op)
    }

    /// The object that the next request is on, unless it creates it.
    pub(super) fn next_alias<'a>(&self, scene: &'a Scene<'_>) -> Option<&'a str> {
        let step = scene.scenario.steps.get(self.step)?;
        Some(&*step.alias).filter(|alias| !alias.is_empty())
    }

    pub(super) fn advance(&mut self) {
        self.step += 1;
        self.part = 0;
        self.conflicts = 0;
        self.read = None;
    }

    /// Performs the next request. Returns the namespace whose deletion was requested, if any.
    pub(super) fn request(
        &mut self,
        scene: &Scene<'_>,
        server: &mut ApiServer,
        now: Timestamp,
    ) -> Option<String> {
        let step = scene.scenario.steps.get(self.step)?;
        match &*step.op {
            "create" => {
                let aliases = &step.aliases;
                let alias = aliases.get(self.part).map_or("", String::as_str);
                if let Some(placed) = scene.placed(alias) {
                    let answer = create(placed, server);
                    if let Some(object) = answer.object().filter(|_| answer.is_success()) {
                        self.versions
                            .insert(alias.to_owned(), object.meta.resource_version.clone());
                    }
                    let sent = (
                        placed.object.finalizers.as_slice(),
                        placed.object.owner_references.as_slice(),
                    );
                    self.note("create", placed, server, &answer, Some(sent));
                }
                self.part += 1;
                if self.part >= aliases.len() {
                    self.advance();
                }
            }
            "delete_namespace" => {
                let namespace = &step.namespace;
                let kind = server.catalog().mapping("v1", "Namespace")?;
                let answer = server.delete_with(kind, "", namespace, &DeleteOptions::default());
                self.calls.push(ClientCall {
                    step: self.step,
                    verb: "delete_namespace".to_owned(),
                    alias: String::new(),
                    code: answer.code,
                    response: Value::Null,
                });
                self.ready_at =
                    now.saturating_add(Duration::from_secs_f64(step.then_sleep.clamp(0.0, 3600.0)));
                self.advance();
                return Some(namespace.clone());
            }
            verb => {
                let placed = scene.placed(&step.alias)?;
                if let Some(answer) = self.change(step, placed, server) {
                    self.note(verb, placed, server, &answer, None);
                    self.advance();
                }
            }
        }
        None
    }

    /// Performs a request about one existing object. Returns the last response of the step, or `None` if the
    /// step has more requests.
    fn change(&mut self, step: &Step, placed: &Placed<'_>, server: &mut ApiServer) -> Option<Response> {
        match &*step.op {
            "delete" => self.delete(placed, server, &step.options),
            "set_owner_refs" => {
                let metadata = json!({"ownerReferences": step.owner_references});
                Some(merge(placed, server, &metadata))
            }
            "set_finalizers" => Some(merge(placed, server, &json!({"finalizers": step.finalizers}))),
            "touch" => Some(merge(placed, server, &json!({"labels": {"touched": "yes"}}))),
            "add_finalizer" => self.read_and_patch(placed, server, |finalizers| {
                finalizers.push(step.finalizer.as_str().into());
            }),
            "remove_finalizer" => self.read_and_patch(placed, server, |finalizers| {
                finalizers.retain(|known| **known != *step.finalizer);
            }),
            "patch" => {
                let (kind, namespace, name) = placed.address();
                let current = server.object(kind, namespace, name);
                let current = current.map(|object| object.meta.resource_version.to_string());
                let stale = self.versions.get(&step.alias).map(ToString::to_string);
                let body = step
                    .body
                    .to_string()
                    .replace("<rv>", &current.unwrap_or_default())
                    .replace("<stale-rv>", &stale.unwrap_or_default());
                Some(server.patch(kind, namespace, name, &step.content_type, body.as_bytes()))
            }
            _ => None,
        }
    }

    fn delete(
        &mut self,
        placed: &Placed<'_>,
        server: &mut ApiServer,
        options: &serde_json::Map<String, Value>,
    ) -> Option<Response> {
        let (kind, namespace, name) = placed.address();
        let mut options = options.clone();
        if let Some(version) = options
            .get_mut("preconditions")
            .and_then(|preconditions| preconditions.get_mut("resourceVersion"))
        {
            let given = match version.as_str() {
                Some("stale") => self.versions.get(&placed.object.alias).map(ToString::to_string),
                Some("current") => {
                    if self.part == 0 {
                        let object = server.object(kind, namespace, name);
                        self.read = object.map(|object| (object.meta.resource_version.clone(), Vec::new()));
                        self.part = 1;
                        return None;
                    }
                    self.read.as_ref().map(|(version, _)| version.to_string())
                }
                other => other.map(ToOwned::to_owned),
            };
            *version = given.unwrap_or_default().into();
        }
        // No recorded options are of a wrong form.
        let spec = serde_json::from_value::<DeleteOptionsSpec>(Value::Object(options)).unwrap_or_default();
        Some(server.delete(kind, namespace, name, &spec))
    }

    fn read_and_patch(
        &mut self,
        placed: &Placed<'_>,
        server: &mut ApiServer,
        change: impl FnOnce(&mut Vec<std::sync::Arc<str>>),
    ) -> Option<Response> {
        let Some((version, mut finalizers)) = self.read.take() else {
            let (kind, namespace, name) = placed.address();
            let answer = server.read(kind, namespace, name);
            let Some(object) = answer.object() else {
                return Some(answer);
            };
            let meta = &object.meta;
            self.read = Some((meta.resource_version.clone(), meta.finalizers.clone()));
            return None;
        };
        change(&mut finalizers);
        let metadata = json!({"resourceVersion": version.as_str(), "finalizers": finalizers});
        let answer = merge(placed, server, &metadata);
        if answer.code == 409 && self.conflicts < CONFLICTS_MAX {
            self.conflicts += 1;
            return None;
        }
        Some(answer)
    }

    fn note(
        &mut self,
        verb: &str,
        placed: &Placed<'_>,
        server: &ApiServer,
        answer: &Response,
        sent: Option<(&[Value], &[Value])>,
    ) {
        self.calls.push(ClientCall {
            step: self.step,
            verb: verb.to_owned(),
            alias: placed.object.alias.clone(),
            code: answer.code,
            response: compare::response(&server.catalog()[placed.kind], answer, sent),
        });
    }
}

/// Merges metadata into an object.
fn merge(placed: &Placed<'_>, server: &mut ApiServer, metadata: &Value) -> Response {
    let body = json!({"metadata": metadata}).to_string();
    let (kind, namespace, name) = placed.address();
    let content_type = PatchType::Merge.content_type();
    server.patch(kind, namespace, name, content_type, body.as_bytes())
}

fn create(placed: &Placed<'_>, server: &mut ApiServer) -> Response {
    let object = placed.object;
    let mut body = object.extra.clone();
    body.insert("apiVersion".to_owned(), object.api_version.as_str().into());
    body.insert("kind".to_owned(), object.kind.as_str().into());
    let mut metadata = json!({
        "name": object.name, "finalizers": object.finalizers, "ownerReferences": object.owner_references,
    });
    if !object.namespace.is_empty() {
        metadata["namespace"] = object.namespace.as_str().into();
    }
    body.insert("metadata".to_owned(), metadata);
    match Manifest::read(Value::Object(body.clone())) {
        Ok(manifest) => server.create_with_uid(
            placed.kind,
            &object.namespace,
            manifest.object,
            placed.uid.clone(),
        ),
        // The server reports the problem.
        Err(_) => server.create_json(placed.kind, &object.namespace, Value::Object(body)),
    }
}
