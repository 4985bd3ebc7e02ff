//! A cluster in a cache: plans, and runs of a controller until it requests nothing.

#![expect(clippy::expect_used, reason = "tests")]
use std::{collections::BTreeSet, sync::Arc};

use kubegc_controllers::{
    Action, BatchPlanner, Cache, Context, Controller, Deadlines, FieldChange, Judgement, Key, Request,
    Response, Step, Wire,
};
use kubegc_core::{
    KubernetesVersion, ObjectMeta, OwnerReference, Planner, StoreError, Timestamp, Uid,
    record::{Body, Record, Resource},
};

pub(crate) fn version(minor: u16) -> KubernetesVersion {
    KubernetesVersion::new(minor, 0).expect("a version")
}

pub(crate) fn secs(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

/// An object whose uid is `u-<name>`.
pub(crate) fn object(namespace: &str, name: &str, body: Body) -> Record {
    Record::new(ObjectMeta::new(namespace, name, &format!("u-{name}")), body)
}

pub(crate) fn owner(api_version: &str, kind: &str, name: &str) -> OwnerReference {
    OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        uid: Uid::new(&format!("u-{name}")),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

pub(crate) trait Change: Sized {
    fn change(self, change: impl FnOnce(&mut ObjectMeta)) -> Self;

    fn owned_by(self, api_version: &str, kind: &str, name: &str) -> Self {
        self.change(|meta| meta.owner_references.push(owner(api_version, kind, name)))
    }

    fn finalizer(self, finalizer: &str) -> Self {
        self.change(|meta| meta.finalizers.push(finalizer.into()))
    }

    fn terminating(self, seconds: i64) -> Self {
        self.change(|meta| meta.deletion_timestamp = Some(secs(seconds)))
    }

    fn created(self, seconds: i64) -> Self {
        self.change(|meta| meta.creation_timestamp = Some(secs(seconds)))
    }

    fn label(self, key: &str, value: &str) -> Self {
        self.change(|meta| {
            meta.labels.insert(key.into(), value.into());
        })
    }
}

impl Change for Record {
    fn change(mut self, change: impl FnOnce(&mut ObjectMeta)) -> Self {
        change(&mut self.meta);
        self
    }
}

/// A cache with these objects, in which every resource of the controller is listed.
pub(crate) fn cache(controller: &impl Controller, objects: Vec<(Resource, Record)>) -> Cache {
    let resources = controller.info().resources;
    let mut cache = Cache::new(resources.iter().copied(), controller.indexes().iter().copied());
    for resource in resources {
        cache.set_listed(*resource, Ok(()));
        let of_it = objects.iter().filter(|(of, _)| of == resource);
        cache.replace(*resource, of_it.map(|(_, record)| record.clone()).collect());
    }
    cache
}

/// The plan as lines: requests with the code of their reason, then kept and unknown objects.
pub(crate) fn plan<C: Controller + Clone>(controller: &C, cache: &Cache, now: Timestamp) -> Vec<String> {
    let plan = BatchPlanner::new(controller.clone())
        .wire(Wire::AsUpstream)
        .plan(cache, now);
    let mut lines = Vec::new();
    for Action { requests, reason, .. } in &plan.actions {
        lines.extend(
            requests
                .iter()
                .map(|request| format!("{request}: {}", reason.code())),
        );
    }
    lines.extend(plan.kept.iter().map(|kept| match &kept.reason {
        Judgement::Kept(reason) => format!("keep {}: {}", kept.object, reason.code()),
        Judgement::Unknown(missing) => format!("unknown {}: {}", kept.object, missing.code()),
    }));
    lines.extend(plan.next_at.map(|at| format!("next at {}", at.as_secs())));
    lines
}

/// Whatever fact of one object or one list is unknown, no object is deleted or written that would not be with
/// all facts.
pub(crate) fn assert_cautious<C: Controller + Clone>(
    controller: &C,
    objects: &[(Resource, Record)],
    now: Timestamp,
) {
    let requests = |cache: &Cache| -> BTreeSet<String> {
        let lines = plan(controller, cache, now).into_iter();
        let writes = lines.filter(|line| line.starts_with("delete ") || line.starts_with("patch "));
        writes
            .map(|line| line.split(": ").next().unwrap_or_default().to_owned())
            .collect()
    };
    let all = requests(&cache(controller, objects.to_vec()));
    let assert = |cache: &Cache, what: String| {
        let more: Vec<_> = requests(cache).difference(&all).cloned().collect();
        assert!(more.is_empty(), "without {what}: {more:?}");
    };
    for resource in controller.info().resources {
        let mut less = cache(controller, objects.to_vec());
        less.replace(*resource, Vec::new());
        less.set_listed(*resource, Err(StoreError::Unlisted));
        assert(&less, resource.plural().to_owned());
    }
    for (at, (_, record)) in objects.iter().enumerate() {
        for unread in [
            Record::metadata_only(record.meta.clone()),
            Record::unreadable(ObjectMeta::new(&record.meta.namespace, &record.meta.name, "")),
        ] {
            let mut objects = objects.to_vec();
            if let Some((_, record)) = objects.get_mut(at) {
                *record = unread;
            }
            assert(
                &cache(controller, objects),
                format!("fields of {}", record.meta.name),
            );
        }
    }
}

/// Runs the controller on the cache as on an API server, until it requests nothing. Returns the requests.
pub(crate) fn run(controller: &impl Controller, cache: &mut Cache, now: Timestamp) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..20 {
        let mut keys = Vec::new();
        controller.keys(cache, &mut keys);
        keys.sort();
        keys.dedup();
        let requests = run_keys(controller, cache, now, &keys);
        if requests.is_empty() {
            return all;
        }
        all.extend(requests);
    }
    all.push("it never ends".to_owned());
    all
}

/// Reconciles these keys once, and executes the decisions.
pub(crate) fn run_keys(
    controller: &impl Controller,
    cache: &mut Cache,
    now: Timestamp,
    keys: &[Key],
) -> Vec<String> {
    let mut all = Vec::new();
    for key in keys {
        let none = Deadlines::default();
        let cx = Context {
            cache,
            now,
            wire: Wire::AsUpstream,
            deadlines: &none,
            cloud: None,
            failures: 0,
        };
        let decision = controller.reconcile(&cx, key);
        let actions = decision.actions.into_iter().map(|action| action.into_steps(true));
        for steps in actions.chain(decision.steps) {
            let mut sequence = steps.begin();
            let mut response = None;
            while let Step::Perform { request, .. } = sequence.next(response.take()) {
                response = Some(respond(cache, &request, now, &mut all));
            }
        }
    }
    all
}

fn respond(cache: &mut Cache, request: &Request, now: Timestamp, all: &mut Vec<String>) -> Response {
    let not_found = Response::Failed(StoreError::NotFound);
    match request {
        Request::Get {
            resource,
            namespace,
            name,
        } => {
            let key = Key::new(Arc::clone(namespace), Arc::clone(name));
            let found = cache.get(*resource, &key).cloned();
            found.map_or(not_found, |record| Response::Object(Box::new(record)))
        }
        Request::Delete { object, .. } => {
            all.push(request.to_string());
            let key = Key::new(Arc::clone(&object.namespace), Arc::clone(&object.name));
            let Some(mut record) = cache.get(object.resource, &key).cloned() else {
                return not_found;
            };
            record.meta.deletion_timestamp = Some(now);
            let stays = !record.meta.finalizers.is_empty();
            cache.put(object.resource, &key, Some(record).filter(|_| stays));
            Response::Done
        }
        Request::Write(write) => {
            let changes: Vec<String> = write.changes.iter().map(describe).collect();
            all.push(format!("{request} {}", changes.join(", ")));
            let object = &write.object;
            let key = Key::new(Arc::clone(&object.namespace), Arc::clone(&object.name));
            let Some(mut record) = cache.get(object.resource, &key).cloned() else {
                return not_found;
            };
            for change in &write.changes {
                change.apply(&mut record);
            }
            let is_gone = record.meta.is_deleting() && record.meta.finalizers.is_empty();
            let meta = record.meta.clone();
            cache.put(object.resource, &key, Some(record).filter(|_| !is_gone));
            Response::Written(Some(meta))
        }
        _ => Response::Done,
    }
}

/// A change in a few words.
fn describe(change: &FieldChange) -> String {
    match change {
        FieldChange::JobCounts(counts) => format!(
            "{}+{} succeeded, {}+{} failed{}{}",
            counts.succeeded,
            counts.uncounted_succeeded.len(),
            counts.failed,
            counts.uncounted_failed.len(),
            if counts.completed_indexes.is_empty() {
                ""
            } else {
                ", indexes "
            },
            counts.completed_indexes,
        ),
        FieldChange::Condition(condition) => {
            format!(
                "{}={} {}",
                condition.condition_type, condition.status, condition.reason
            )
        }
        FieldChange::RemoveFinalizer(finalizer) => format!("-{finalizer}"),
        FieldChange::AddFinalizer(finalizer) => format!("+{finalizer}"),
        other => format!("{other:?}"),
    }
}
