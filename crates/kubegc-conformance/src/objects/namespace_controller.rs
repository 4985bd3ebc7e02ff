//! Empties namespaces that are being deleted, one request at a time, as the namespace controller does.

use std::sync::Arc;

use kubegc_core::{KindId, PatchType, Preconditions, ResourceVersion, StoreError, Timestamp};
use kubegc_lifecycle::namespace::{
    Action, Answer, Condition, Discovery, Ending, GroupVersionResource, Item, ListPurpose, Namespace, Pass,
    Pod, Settings, Step,
};
use kubegc_sim::{ApiServer, Response, Selector, StoredObject, rng::mix};
use serde_json::{Value, json};

/// The namespaces that wait for a visit, and the visit that is under way.
#[derive(Clone)]
pub(super) struct NamespaceController {
    settings: Settings,
    due: Vec<Due>,
    visit: Option<(Due, Pass, Step)>,
    conditions: Vec<Condition>,
    /// What the order of the resources is drawn from.
    order: u64,
}

#[derive(Clone)]
struct Due {
    at: Timestamp,
    name: String,
    failures: u32,
}

impl NamespaceController {
    pub(super) const fn new(settings: Settings) -> Self {
        Self {
            settings,
            due: Vec::new(),
            visit: None,
            conditions: Vec::new(),
            order: 0,
        }
    }

    /// Draws another order in which the resources of a namespace are emptied: upstream has none, it goes through a hash map.
    pub(super) const fn shuffle(&mut self, seed: u64) {
        self.order = seed;
    }

    /// Notes that a namespace has changed.
    pub(super) fn namespace_changed(&mut self, name: &str, now: Timestamp) {
        let at = self.settings.first_visit_at(now);
        self.schedule(Due {
            at,
            name: name.to_owned(),
            failures: 0,
        });
    }

    /// When there is something to do; what is due already lies in the past.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        if self.visit.is_some() {
            Some(Timestamp::EPOCH)
        } else {
            self.due.iter().map(|due| due.at).min()
        }
    }

    /// Performs one request.
    pub(super) fn step(&mut self, server: &mut ApiServer, now: Timestamp) {
        let (due, mut pass, step) = match self.visit.take() {
            Some(visit) => visit,
            None => {
                let Some(at) = self.due.iter().position(|due| due.at <= now) else {
                    return;
                };
                let due = self.due.remove(at);
                let mut discovery = Discovery::from(server.catalog());
                for resource in &mut discovery.resources {
                    resource.id = ranked(&resource.id, self.order);
                }
                let mut pass = Pass::new(self.settings.clone(), &due.name, discovery, due.failures, now);
                let step = pass.next(None);
                (due, pass, step)
            }
        };
        let answer = match step {
            Step::GetNamespace => self.namespace(server, &due.name),
            Step::List { resource, purpose } => list(server, &resource, purpose, &due.name),
            Step::Perform(action) => {
                let answer = self.perform(server, &action, &due.name);
                let changes_namespace = matches!(
                    action,
                    Action::SetPhaseTerminating { .. } | Action::UpdateConditions { .. }
                );
                if changes_namespace && !matches!(answer, Answer::Failed(_)) {
                    self.namespace_changed(&due.name, now);
                }
                answer
            }
            Step::Done(_) => return,
        };
        match pass.next(Some(answer)) {
            Step::Done(outcome) => {
                if let Some(after) = outcome.requeue_after {
                    let failures = if outcome.ending == Ending::Failed {
                        due.failures + 1
                    } else {
                        0
                    };
                    self.schedule(Due {
                        at: now.saturating_add(after),
                        name: due.name,
                        failures,
                    });
                }
            }
            step => self.visit = Some((due, pass, step)),
        }
    }

    /// A namespace waits once, for the earliest visit asked for.
    fn schedule(&mut self, new: Due) {
        match self.due.iter_mut().find(|due| due.name == new.name) {
            Some(known) if known.at <= new.at => {}
            Some(known) => *known = new,
            None => self.due.push(new),
        }
    }

    fn namespace(&self, server: &ApiServer, name: &str) -> Answer {
        let Some(kind) = server.catalog().mapping("v1", "Namespace") else {
            return Answer::Failed(StoreError::NotFound);
        };
        let Some(object) = server.object(kind, "", name) else {
            return Answer::Failed(StoreError::NotFound);
        };
        Answer::Namespace(self.read(object))
    }

    fn read(&self, object: &StoredObject) -> Namespace {
        let mut namespace = Namespace::new(&object.meta.name, &object.meta.uid.text());
        namespace.resource_version = object.meta.resource_version.clone();
        namespace.deletion_timestamp = object.meta.deletion_timestamp;
        namespace.is_terminating = object.text_at(&["status", "phase"]) == "Terminating";
        let finalizers = object.at(&["spec", "finalizers"]).and_then(Value::as_array);
        namespace.finalizers = finalizers
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(Arc::from)
            .collect();
        namespace.conditions = self.conditions.clone();
        namespace
    }

    fn perform(&mut self, server: &mut ApiServer, action: &Action, name: &str) -> Answer {
        let options = action.delete_options().unwrap_or_default();
        match action {
            Action::DeleteCollection {
                resource, namespace, ..
            } => {
                let Some(kind) = kind_of(server, resource) else {
                    return Answer::Failed(StoreError::NotFound);
                };
                done(&server.delete_collection_with(kind, Some(namespace), &Selector::everything(), &options))
            }
            Action::Delete {
                resource,
                namespace,
                name,
                ..
            } => {
                let Some(kind) = kind_of(server, resource) else {
                    return Answer::Failed(StoreError::NotFound);
                };
                done(&server.delete_with(kind, namespace, name, &options))
            }
            Action::SetPhaseTerminating { expect, .. } => {
                match patch(
                    server,
                    name,
                    "status",
                    expect,
                    json!({"status": {"phase": "Terminating"}}),
                ) {
                    Answer::Done => self.namespace(server, name),
                    failed => failed,
                }
            }
            Action::UpdateConditions {
                expect, conditions, ..
            } => {
                let shown: Vec<Value> = conditions
                    .iter()
                    .map(|condition| json!({"type": &*condition.condition_type, "reason": &*condition.reason, "message": &*condition.message}))
                    .collect();
                let answer = patch(
                    server,
                    name,
                    "status",
                    expect,
                    json!({"status": {"conditions": shown}}),
                );
                if answer == Answer::Done {
                    self.conditions = conditions.clone();
                }
                answer
            }
            Action::Finalize {
                expect, finalizers, ..
            } => {
                let finalizers: Vec<&str> = finalizers.iter().map(|name| &**name).collect();
                patch(
                    server,
                    name,
                    "finalize",
                    expect,
                    json!({"spec": {"finalizers": finalizers}}),
                )
            }
        }
    }
}

fn list(
    server: &ApiServer,
    resource: &GroupVersionResource,
    purpose: ListPurpose,
    namespace: &str,
) -> Answer {
    let Some(kind) = kind_of(server, resource) else {
        return Answer::Failed(StoreError::NotFound);
    };
    let items = server.objects(kind, Some(namespace)).into_iter().map(|object| {
        let mut item = Item::new(&object.meta.name, &object.meta.uid.text());
        item.finalizers.clone_from(&object.meta.finalizers);
        if purpose == ListPurpose::Estimate {
            item = item.as_pod(Pod {
                is_finished: matches!(object.text_at(&["status", "phase"]), "Succeeded" | "Failed"),
                grace_period_seconds: object
                    .at(&["spec", "terminationGracePeriodSeconds"])
                    .and_then(Value::as_i64),
                is_scheduled: !object.text_at(&["spec", "nodeName"]).is_empty(),
                deletion_timestamp: object.meta.deletion_timestamp,
            });
        }
        item
    });
    Answer::Items(items.collect())
}

fn patch(
    server: &mut ApiServer,
    name: &str,
    subresource: &str,
    expect: &Preconditions,
    mut body: Value,
) -> Answer {
    let Some(kind) = server.catalog().mapping("v1", "Namespace") else {
        return Answer::Failed(StoreError::NotFound);
    };
    if let Some(version) = expect.resource_version.as_ref().map(ResourceVersion::as_str) {
        body["metadata"] = json!({"resourceVersion": version});
    }
    let body = body.to_string();
    done(&server.patch_subresource(
        kind,
        "",
        name,
        subresource,
        PatchType::Merge.content_type(),
        body.as_bytes(),
    ))
}

/// What stands between a drawn rank and the group.
const RANKED: char = '|';

/// The same resource, with a rank before its group: a visit goes through resources in the order of their names.
fn ranked(resource: &GroupVersionResource, seed: u64) -> GroupVersionResource {
    let GroupVersionResource {
        group,
        version,
        resource,
        ..
    } = resource;
    let name = group.bytes().chain(resource.bytes());
    let rank = name.fold(mix(seed), |rank, byte| mix(rank ^ u64::from(byte)));
    GroupVersionResource::new(&format!("{rank:016x}{RANKED}{group}"), version, resource)
}

fn kind_of(server: &ApiServer, resource: &GroupVersionResource) -> Option<KindId> {
    let group = resource
        .group
        .split_once(RANKED)
        .map_or(&*resource.group, |(_, group)| group);
    server
        .catalog()
        .by_resource(group, &resource.version, &resource.resource)
}

fn done(answer: &Response) -> Answer {
    match answer.code {
        ..300 => Answer::Done,
        404 => Answer::Failed(StoreError::NotFound),
        409 => Answer::Failed(StoreError::Conflict {
            message: String::new(),
        }),
        code => Answer::Failed(StoreError::Refused {
            code,
            message: String::new(),
            retry_after: None,
        }),
    }
}
