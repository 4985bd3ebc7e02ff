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

/// The client, and its position in its script.
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
    /// The requests and responses, in order.
    pub(super) calls: Vec<ClientCall>,
}

/// The next action of the client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    Request,
    /// To record a checkpoint, after silence or at once.
    Checkpoint {
        after_silence: bool,
    },
    StopGc,
    StartGc,
    /// The script is complete.
    End,
}

/// The next action of the client that affects calls in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Barrier {
    /// It waits until they are all done.
    Silence,
    /// It stops the collector, and with it what is in flight.
    Stop,
    /// Neither.
    None,
}

impl Client {
    /// The next barrier: a checkpoint after silence, a stop of the collector, or a checkpoint at any time.
    pub(super) fn next_barrier(&self, scene: &Scene<'_>) -> Barrier {
        let mut steps = scene.scenario.steps.iter().skip(self.step);
        steps
            .find_map(|step| match step {
                Step::Wait => Some(Barrier::Silence),
                Step::StopGc => Some(Barrier::Stop),
                Step::Snapshot => Some(Barrier::None),
                _ => None,
            })
            .unwrap_or(Barrier::None)
    }

    pub(super) fn new(ready_at: Timestamp) -> Self {
        Self {
            ready_at,
            ..Self::default()
        }
    }

    pub(super) fn wants(&self, scene: &Scene<'_>) -> Wants {
        match scene.scenario.steps.get(self.step) {
            None => Wants::End,
            Some(Step::Wait) => Wants::Checkpoint { after_silence: true },
            Some(Step::Snapshot) => Wants::Checkpoint { after_silence: false },
            Some(Step::StopGc) => Wants::StopGc,
            Some(Step::StartGc) => Wants::StartGc,
            Some(_) => Wants::Request,
        }
    }

    /// The object that the next request is on, unless it creates it.
    pub(super) fn next_alias<'a>(&self, scene: &'a Scene<'_>) -> Option<&'a str> {
        match scene.scenario.steps.get(self.step)? {
            Step::Delete { alias, .. }
            | Step::SetOwnerRefs { alias, .. }
            | Step::SetFinalizers { alias, .. }
            | Step::AddFinalizer { alias, .. }
            | Step::RemoveFinalizer { alias, .. }
            | Step::Touch { alias }
            | Step::Patch { alias, .. } => Some(alias),
            Step::Create { .. }
            | Step::DeleteNamespace { .. }
            | Step::StopGc
            | Step::StartGc
            | Step::Wait
            | Step::Snapshot => None,
        }
    }

    /// Starts the next step of the script.
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
        match step {
            Step::Create { aliases } => {
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
            Step::Delete { alias, options } => self.delete(scene, server, alias, options),
            Step::SetOwnerRefs {
                alias,
                owner_references,
            } => {
                self.merge(
                    "set_owner_refs",
                    scene,
                    server,
                    alias,
                    &json!({"ownerReferences": owner_references}),
                );
            }
            Step::SetFinalizers { alias, finalizers } => {
                self.merge(
                    "set_finalizers",
                    scene,
                    server,
                    alias,
                    &json!({"finalizers": finalizers}),
                );
            }
            Step::Touch { alias } => {
                self.merge(
                    "touch",
                    scene,
                    server,
                    alias,
                    &json!({"labels": {"touched": "yes"}}),
                );
            }
            Step::AddFinalizer { alias, finalizer } => {
                self.read_and_patch("add_finalizer", scene, server, alias, |finalizers| {
                    finalizers.push(finalizer.as_str().into())
                });
            }
            Step::RemoveFinalizer { alias, finalizer } => {
                self.read_and_patch("remove_finalizer", scene, server, alias, |finalizers| {
                    finalizers.retain(|known| **known != **finalizer);
                });
            }
            Step::Patch {
                alias,
                content_type,
                body,
            } => {
                if let Some(placed) = scene.placed(alias) {
                    let (namespace, name) = (&*placed.object.namespace, &*placed.object.name);
                    let current = server
                        .object(placed.kind, namespace, name)
                        .map(|object| object.meta.resource_version.to_string());
                    let stale = self.versions.get(alias).map(ToString::to_string);
                    let body = body
                        .to_string()
                        .replace("<rv>", &current.unwrap_or_default())
                        .replace("<stale-rv>", &stale.unwrap_or_default());
                    let answer = server.patch(placed.kind, namespace, name, content_type, body.as_bytes());
                    self.note("patch", placed, server, &answer, None);
                }
                self.advance();
            }
            Step::DeleteNamespace {
                namespace,
                then_sleep,
            } => {
                let kind = server.catalog().mapping("v1", "Namespace")?;
                let answer = server.delete_with(kind, "", namespace, &DeleteOptions::default());
                self.calls.push(ClientCall {
                    step: self.step,
                    verb: "delete_namespace".to_owned(),
                    alias: String::new(),
                    code: answer.code,
                    response: Value::Null,
                });
                self.ready_at = now.saturating_add(Duration::from_secs_f64(then_sleep.clamp(0.0, 3600.0)));
                self.advance();
                return Some(namespace.clone());
            }
            Step::StopGc | Step::StartGc | Step::Wait | Step::Snapshot => {}
        }
        None
    }

    fn delete(
        &mut self,
        scene: &Scene<'_>,
        server: &mut ApiServer,
        alias: &str,
        options: &serde_json::Map<String, Value>,
    ) {
        let Some(placed) = scene.placed(alias) else {
            return self.advance();
        };
        let (namespace, name) = (&*placed.object.namespace, &*placed.object.name);
        let mut options = options.clone();
        if let Some(version) = options
            .get_mut("preconditions")
            .and_then(|preconditions| preconditions.get_mut("resourceVersion"))
        {
            let given = match version.as_str() {
                Some("stale") => self.versions.get(alias).map(ToString::to_string),
                Some("current") => {
                    if self.part == 0 {
                        let object = server.object(placed.kind, namespace, name);
                        self.read = object.map(|object| (object.meta.resource_version.clone(), Vec::new()));
                        self.part = 1;
                        return;
                    }
                    self.read.as_ref().map(|(version, _)| version.to_string())
                }
                other => other.map(ToOwned::to_owned),
            };
            *version = given.unwrap_or_default().into();
        }
        let answer = match serde_json::from_value::<DeleteOptionsSpec>(Value::Object(options)) {
            Ok(spec) => server.delete(placed.kind, namespace, name, &spec),
            // No recorded options are of a wrong form.
            Err(_) => server.delete(placed.kind, namespace, name, &DeleteOptionsSpec::default()),
        };
        self.note("delete", placed, server, &answer, None);
        self.advance();
    }

    fn merge(
        &mut self,
        verb: &str,
        scene: &Scene<'_>,
        server: &mut ApiServer,
        alias: &str,
        metadata: &Value,
    ) {
        if let Some(placed) = scene.placed(alias) {
            let body = json!({"metadata": metadata}).to_string();
            let (namespace, name) = (&*placed.object.namespace, &*placed.object.name);
            let answer = server.patch(
                placed.kind,
                namespace,
                name,
                PatchType::Merge.content_type(),
                body.as_bytes(),
            );
            self.note(verb, placed, server, &answer, None);
        }
        self.advance();
    }

    fn read_and_patch(
        &mut self,
        verb: &str,
        scene: &Scene<'_>,
        server: &mut ApiServer,
        alias: &str,
        change: impl FnOnce(&mut Vec<std::sync::Arc<str>>),
    ) {
        let Some(placed) = scene.placed(alias) else {
            return self.advance();
        };
        let (namespace, name) = (&*placed.object.namespace, &*placed.object.name);
        let Some((version, mut finalizers)) = self.read.take() else {
            let answer = server.read(placed.kind, namespace, name);
            if let Some(object) = answer.object() {
                self.read = Some((
                    object.meta.resource_version.clone(),
                    object.meta.finalizers.clone(),
                ));
            } else {
                self.note(verb, placed, server, &answer, None);
                self.advance();
            }
            return;
        };
        change(&mut finalizers);
        let finalizers: Vec<&str> = finalizers.iter().map(|name| &**name).collect();
        let body =
            json!({"metadata": {"resourceVersion": version.as_str(), "finalizers": finalizers}}).to_string();
        let answer = server.patch(
            placed.kind,
            namespace,
            name,
            PatchType::Merge.content_type(),
            body.as_bytes(),
        );
        if answer.code == 409 && self.conflicts < CONFLICTS_MAX {
            self.conflicts += 1;
            return;
        }
        self.note(verb, placed, server, &answer, None);
        self.advance();
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

fn create(placed: &Placed<'_>, server: &mut ApiServer) -> Response {
    let object = placed.object;
    let mut body = object.extra.clone();
    body.insert("apiVersion".to_owned(), object.api_version.as_str().into());
    body.insert("kind".to_owned(), object.kind.as_str().into());
    let mut metadata = json!({"name": object.name, "finalizers": object.finalizers, "ownerReferences": object.owner_references});
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
