//! Drives the namespace planner against the simulated server: visits terminating namespaces, performs what a visit asks for, and comes again.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{KindId, KubernetesVersion, ObjectRef, StoreError, Timestamp, deletion::DeleteOptionsSpec};
use kubegc_lifecycle::namespace::{
    self, Action, Answer, Discovery, Ending, GroupVersionResource, Item, Namespace, Pass, Pod,
};
use kubegc_sim::{ApiServer, Response, Selector, StoredObject};

use crate::timeline::{Act, Actor, Step, Why};

/// When each terminating namespace is visited next.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceController {
    settings: namespace::Settings,
    visits: BTreeMap<Arc<str>, Visit>,
}

#[derive(Clone, Debug)]
struct Visit {
    at: Timestamp,
    failures: u32,
    /// Whether the visit will find something new for sure.
    certain: bool,
}

impl NamespaceController {
    pub(crate) fn new(version: KubernetesVersion) -> Self {
        Self {
            settings: namespace::Settings::new(version),
            visits: BTreeMap::new(),
        }
    }

    /// A namespace is being deleted since this time.
    pub(crate) fn notice_deletion(&mut self, name: &Arc<str>, deleted_at: Timestamp) {
        let at = self.settings.first_visit_at(deleted_at);
        self.visits.entry(Arc::clone(name)).or_insert(Visit {
            at,
            failures: 0,
            certain: true,
        });
    }

    /// Something in this namespace is gone: its next visit will see that.
    pub(crate) fn notice_change(&mut self, name: &Arc<str>, _now: Timestamp) {
        if let Some(visit) = self.visits.get_mut(name) {
            visit.certain = true;
        }
    }

    /// When the next visit is that is certain to find something new, or that is not.
    pub(crate) fn next_visit(&self, certain: bool) -> Option<Timestamp> {
        self.visits
            .values()
            .filter(|visit| visit.certain == certain)
            .map(|visit| visit.at)
            .min()
    }

    /// Makes one visit that is due. Answers whether there was one.
    pub(crate) fn act(
        &mut self,
        server: &mut ApiServer,
        now: Timestamp,
        steps: &mut Vec<Step>,
        began: Timestamp,
    ) -> bool {
        let due = self.visits.iter().find(|(_, visit)| visit.at <= now);
        let Some((name, failures)) = due.map(|(name, visit)| (Arc::clone(name), visit.failures)) else {
            return false;
        };
        let Some(kind) = server.catalog().mapping("v1", "Namespace") else {
            return false;
        };
        let discovery = Discovery::from(&server.discover());
        let mut pass = Pass::new(self.settings.clone(), &name, discovery, failures, now);
        let mut step = pass.next(None);
        let outcome = loop {
            let answer = match step {
                namespace::Step::GetNamespace => get(server, kind, &name),
                namespace::Step::List { resource, .. } => list(server, &resource, &name),
                namespace::Step::Perform(action) => perform(server, kind, &name, &action, steps, now, began),
                namespace::Step::Done(outcome) => break outcome,
            };
            step = pass.next(Some(answer));
        };
        let over = matches!(
            outcome.ending,
            Ending::Gone | Ending::Finalized | Ending::AlreadyFinalized | Ending::NotDeleted
        );
        match outcome.requeue_after {
            Some(after) if !over => {
                let failures = if outcome.ending == Ending::Failed {
                    failures + 1
                } else {
                    0
                };
                // Coming again is certain to help only where time is what is missing: pods that have yet to end.
                let visit = Visit {
                    at: now.saturating_add(after),
                    failures,
                    certain: false,
                };
                self.visits.insert(name, visit);
            }
            _ => {
                self.visits.remove(&name);
            }
        }
        true
    }
}

fn get(server: &ApiServer, kind: KindId, name: &str) -> Answer {
    match server.object(kind, "", name) {
        Some(object) => Answer::Namespace(facts(object)),
        None => Answer::Failed(StoreError::NotFound),
    }
}

fn facts(object: &StoredObject) -> Namespace {
    let mut facts = Namespace::new(&object.meta.name, "");
    facts.uid = object.meta.uid.clone();
    facts.resource_version = object.meta.resource_version.clone();
    facts.deletion_timestamp = object.meta.deletion_timestamp;
    facts.is_terminating = object.text_at(&["status", "phase"]) == "Terminating";
    let finalizers = object
        .at(&["spec", "finalizers"])
        .and_then(|value| value.as_array());
    facts.finalizers = finalizers
        .into_iter()
        .flatten()
        .filter_map(|value| value.as_str())
        .map(Arc::from)
        .collect();
    facts
}

fn list(server: &ApiServer, resource: &GroupVersionResource, namespace: &str) -> Answer {
    let Ok(kind) = server.resolve(&resource.group, &resource.version, &resource.resource) else {
        return Answer::Failed(StoreError::NotFound);
    };
    let pods = &*resource.resource == "pods" && resource.group.is_empty();
    let items = server.objects(kind, Some(namespace)).into_iter().map(|object| {
        let mut item = Item::new(&object.meta.name, "");
        item.uid = object.meta.uid.clone();
        item.finalizers = object.meta.finalizers.clone();
        if pods {
            let mut pod = Pod::running(0);
            pod.grace_period_seconds = object
                .at(&["spec", "terminationGracePeriodSeconds"])
                .and_then(|value| value.as_i64());
            pod.is_finished = matches!(object.text_at(&["status", "phase"]), "Succeeded" | "Failed");
            pod.is_scheduled = !object.text_at(&["spec", "nodeName"]).is_empty();
            pod.deletion_timestamp = object.meta.deletion_timestamp;
            item = item.as_pod(pod);
        }
        item
    });
    Answer::Items(items.collect())
}

fn perform(
    server: &mut ApiServer,
    kind: KindId,
    name: &Arc<str>,
    action: &Action,
    steps: &mut Vec<Step>,
    now: Timestamp,
    began: Timestamp,
) -> Answer {
    let before = server.revision();
    let response = match action {
        Action::SetPhaseTerminating { .. } => {
            let Some(object) = server.object(kind, "", name) else {
                return Answer::Failed(StoreError::NotFound);
            };
            let mut changed = StoredObject::clone(object);
            let mut body = changed.body.as_deref().cloned().unwrap_or_default();
            body.insert("status".to_owned(), serde_json::json!({ "phase": "Terminating" }));
            changed.body = Some(Arc::new(body));
            server.update_status(kind, "", name, changed)
        }
        Action::DeleteCollection { resource, .. } => {
            let Ok(kind) = server.resolve(&resource.group, &resource.version, &resource.resource) else {
                return Answer::Failed(StoreError::NotFound);
            };
            let options = spec("Background");
            server.delete_collection(kind, Some(name), &Selector::everything(), &options)
        }
        Action::Delete {
            resource, name: item, ..
        } => {
            let Ok(kind) = server.resolve(&resource.group, &resource.version, &resource.resource) else {
                return Answer::Failed(StoreError::NotFound);
            };
            server.delete(kind, name, item, &spec("Background"))
        }
        // Conditions are for people; nothing in a forecast rests on them.
        Action::UpdateConditions { .. } => return Answer::Done,
        Action::Finalize { finalizers, .. } => {
            let Some(object) = server.object(kind, "", name) else {
                return Answer::Failed(StoreError::NotFound);
            };
            let mut changed = StoredObject::clone(object);
            let mut body = changed.body.as_deref().cloned().unwrap_or_default();
            body.insert("spec".to_owned(), serde_json::json!({ "finalizers": finalizers }));
            changed.body = Some(Arc::new(body));
            server.finalize_namespace(kind, name, changed)
        }
    };
    if server.revision() != before {
        let act = if matches!(action, Action::DeleteCollection { .. }) {
            Act::DeleteCollection
        } else {
            Act::Update
        };
        let object = ObjectRef::new("v1", "Namespace", "", name, "");
        let mut step = Step {
            at: now.since(began),
            actor: Actor::NamespaceController,
            act,
            object,
            code: response.code,
            changes: Vec::new(),
            why: Why::NamespaceTerminating,
        };
        super::calls::note_changes(server, before, &mut step);
        steps.push(step);
    }
    answer(&response)
}

fn spec(policy: &str) -> DeleteOptionsSpec {
    DeleteOptionsSpec {
        propagation_policy: Some(policy.to_owned()),
        ..DeleteOptionsSpec::default()
    }
}

fn answer(response: &Response) -> Answer {
    match response.code {
        200..=299 => response
            .object()
            .map_or(Answer::Done, |object| Answer::Namespace(facts(object))),
        404 => Answer::Failed(StoreError::NotFound),
        409 => Answer::Failed(StoreError::Conflict {
            message: String::new(),
        }),
        405 => Answer::Failed(StoreError::NotSupported {
            operation: "delete collection",
        }),
        code => Answer::Failed(StoreError::Refused {
            code,
            message: String::new(),
            retry_after: None,
        }),
    }
}
