//! The batch planner: the actions of a controller on all cached objects now, if every request succeeds.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    Kept, Plan, Planner, ResourceVersion, StoreError, Timestamp,
    record::{ObjectId, Record, Resource},
};

use crate::{
    Action, Cache, CloudResponse, Context, Controller, Deadlines, End, Key, Missing, OnError, Read, Reason,
    Request, Response, Steps, Wire,
};

/// A controller as a [`Planner`].
///
/// Steps whose requests depend on responses are simulated: writes succeed, and reads return the cached
/// objects with the simulated writes.
///
/// # Examples
/// ```
/// use kubegc_controllers::{BatchPlanner, Cache, TtlAfterFinished};
/// use kubegc_core::{KubernetesVersion, ObjectMeta, Planner, Timestamp, record::{Body, Condition, Job, Record, Resource}};
///
/// let mut complete = Condition::new("Complete", "True");
/// complete.last_transition_time = Some(Timestamp::from_secs(100));
/// let job = Job { ttl_seconds_after_finished: Some(60).into(), conditions: vec![complete].into(), ..Job::default() };
/// let mut cache = Cache::new([Resource::Jobs], []);
/// cache.set_listed(Resource::Jobs, Ok(()));
/// cache.replace(Resource::Jobs, vec![Record::new(ObjectMeta::new("shop", "report", "u-1"), Body::Job(job))]);
///
/// let planner = BatchPlanner::new(TtlAfterFinished::new(KubernetesVersion::LATEST));
/// let plan = planner.plan(&cache, Timestamp::from_secs(150));
/// assert_eq!((plan.actions.len(), plan.next_at), (0, Some(Timestamp::from_secs(160))));
/// let plan = planner.plan(&cache, Timestamp::from_secs(160));
/// assert_eq!(plan.actions[0].object.to_string(), "job.batch/report -n shop");
/// ```
#[derive(Clone, Debug)]
pub struct BatchPlanner {
    controller: Arc<dyn Controller>,
    wire: Wire,
}

impl From<Arc<dyn Controller>> for BatchPlanner {
    fn from(controller: Arc<dyn Controller>) -> Self {
        let wire = Wire::Strict;
        Self { controller, wire }
    }
}

impl BatchPlanner {
    /// A planner whose actions carry all preconditions.
    pub fn new(controller: impl Controller + 'static) -> Self {
        Self::from(Arc::new(controller) as Arc<dyn Controller>)
    }

    #[must_use]
    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// Plans with the deadlines of earlier syncs and the responses of the cloud provider, by key.
    pub fn plan_with<'a>(
        &self,
        cache: &Cache,
        now: Timestamp,
        known: impl Fn(&Key) -> (Option<&'a Deadlines>, Option<&'a CloudResponse>),
    ) -> BatchPlan {
        let mut keys = Vec::new();
        self.controller.keys(cache, &mut keys);
        keys.sort_unstable();
        keys.dedup();
        let mut plan = Plan::default();
        let none = Deadlines::default();
        for key in &keys {
            let (deadlines, cloud) = known(key);
            let cx = Context {
                cache,
                now,
                wire: self.wire,
                deadlines: deadlines.unwrap_or(&none),
                cloud,
                queries_cloud: false,
                notes_kept: true,
            };
            let decision = self.controller.reconcile(&cx, key);
            plan.actions.extend(decision.actions);
            let mut keep = |object, reason| plan.kept.push(Kept { object, reason });
            for Kept { object, reason } in decision.kept {
                keep(object, Judgement::Kept(reason));
            }
            for Kept { object, reason } in decision.unknown {
                keep(object, Judgement::Unknown(reason));
            }
            plan.next_at = plan.next_at.into_iter().chain(decision.requeue_at).min();
            if let Some(steps) = decision.steps {
                play(&steps.verify(false), cache, now, &mut plan);
            }
        }
        plan
    }
}

type BatchPlan = Plan<Action, ObjectId, Judgement, ()>;

/// The reason why an object is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub enum Judgement {
    Kept(Reason),
    #[display("cannot decide: {_0}")]
    Unknown(Missing),
}

/// A predicate for [`Planner::protect`]: whether an object has a label with the value `true`. An object whose
/// labels are not known, because the cache does not have it in full, is protected too.
///
/// Content that is deleted together with a namespace is not checked: there the namespace needs the label.
///
/// # Examples
/// ```
/// use kubegc_controllers::{BatchPlanner, PodGc, protected_by_label};
/// use kubegc_core::{KubernetesVersion, Planner};
/// let planner = BatchPlanner::new(PodGc::new(KubernetesVersion::LATEST))
///     .protect(protected_by_label("example.com/keep"))
///     .limit_deletions(100);
/// ```
pub fn protected_by_label(label: &str) -> impl Fn(&Cache, &ObjectId) -> bool + '_ {
    move |cache, object| {
        let key = Key::from(object);
        match cache.get(object.resource, &key) {
            Some(record) if record.has_whole_meta && record.meta.uid == object.uid => {
                record.meta.labels.get(label).map(AsRef::as_ref) == Some("true")
            }
            _ => true,
        }
    }
}

impl Planner for BatchPlanner {
    type Facts = Cache;
    type Action = Action;
    type Object = ObjectId;
    type Reason = Judgement;
    type Summary = ();

    fn plan(&self, cache: &Cache, now: Timestamp) -> BatchPlan {
        self.plan_with(cache, now, |_| (None, None))
    }
}

fn play(steps: &Steps, cache: &Cache, now: Timestamp, plan: &mut BatchPlan) {
    let object = steps.object();
    let mut written = Written::new();
    let mut reads = Vec::new();
    // The object and the reason of the last request, if it was a write.
    let mut last_write: Option<(ObjectId, Option<Reason>)> = None;
    let end = steps.run(|request, reason| {
        let latest = respond(request, cache, &written);
        if request.is_write() {
            let target = request.object().unwrap_or(object).clone();
            let key = Key::from(&target);
            let before = written.get(&(target.resource, key.clone())).cloned();
            let record = before.unwrap_or_else(|| cache.get(target.resource, &key).cloned());
            let write = (target, reason);
            let (target, reason) = &write;
            let last = plan.actions.last_mut();
            match last.filter(|_| last_write.as_ref() == Some(&write)) {
                // Requests about one object in a row are one action.
                Some(action) => action.requests.push(request.clone()),
                None => {
                    let meta = record.as_ref().map(|record| &*record.meta);
                    let reason = reason.clone().unwrap_or_else(Reason::unspecified);
                    plan.actions.push(Action {
                        part_of: (target != object).then(|| Box::new(object.clone())),
                        reads: reads.clone(),
                        requests: vec![request.clone()],
                        ..Action::of(target.clone(), meta, reason).on_error(OnError::Report)
                    });
                }
            }
            if let Some(record) = record {
                written.insert((target.resource, key), after(request, record, now));
            }
            last_write = Some(write);
        } else {
            if last_write.take().is_some() {
                reads.clear();
            }
            reads.extend(read_of(request, &latest));
        }
        latest
    });
    ended(object, end, now, plan);
}

/// The read that actions depend on after this response.
fn read_of(request: &Request, response: &Response) -> Option<Read> {
    match (request, response) {
        (Request::Get { resource, .. }, Response::Object(record)) => Some(Read::unchanged(*resource, record)),
        (Request::Get { resource, key }, Response::Failed(StoreError::NotFound)) => Some(Read::Absent {
            resource: *resource,
            key: key.clone(),
        }),
        _ => None,
    }
}

/// The objects that the steps have written; `None` if they no longer exist.
type Written = BTreeMap<(Resource, Key), Option<Record>>;

/// An object after a request that succeeds. Its version is then unknown.
fn after(request: &Request, mut record: Record, now: Timestamp) -> Option<Record> {
    match request {
        Request::Write(write) => write.changes.iter().for_each(|change| change.apply(&mut record)),
        Request::Delete { .. } if record.meta.finalizers.is_empty() => return None,
        Request::Delete { .. } => {
            record.meta.deletion_timestamp.get_or_insert(now);
        }
        _ => return Some(record),
    }
    record.meta.resource_version = ResourceVersion::default();
    Some(record)
}

fn ended(object: &ObjectId, end: End, now: Timestamp, plan: &mut BatchPlan) {
    let reason = match end {
        End::Done | End::Stale(_) | End::Cloud(_) | End::Failed { .. } => return,
        End::Kept(reason) => Judgement::Kept(reason),
        End::Unknown(missing) => Judgement::Unknown(missing),
        End::RequeueAfter { after, reason } => {
            let at = now.saturating_add(after);
            plan.next_at = plan.next_at.into_iter().chain([at]).min();
            Judgement::Kept(reason)
        }
    };
    plan.kept.push(Kept {
        object: object.clone(),
        reason,
    });
}

/// The response to a request if only the steps have changed objects since the cache was filled.
fn respond(request: &Request, cache: &Cache, written: &Written) -> Response {
    let all = |resource: Resource, namespace: &str| cache.require_in(resource, namespace).is_ok();
    let unlisted = || Response::Failed(StoreError::Unlisted);
    match request {
        Request::Get { resource, key } => {
            let found = cache.get(*resource, key);
            let written = written.get(&(*resource, key.clone()));
            match written.map_or(found, Option::as_ref) {
                Some(record) => Response::Object(Box::new(record.clone())),
                None if written.is_some() || all(*resource, &key.namespace) => {
                    Response::Failed(StoreError::NotFound)
                }
                None => unlisted(),
            }
        }
        Request::List { resource, namespace } if all(*resource, namespace) => {
            let records: Vec<Record> = cache.in_namespace(*resource, namespace).cloned().collect();
            Response::Objects(records)
        }
        Request::List { .. }
        | Request::QueryCloud { .. }
        | Request::Discover
        | Request::ListContent { .. } => unlisted(),
        Request::Write(_) => Response::Written(None),
        Request::FindPlugin { .. } => Response::Plugin(crate::Plugin::Unknown),
        Request::QueryGuard { .. } => Response::Guard(crate::Guard::Unknown),
        Request::Operate { .. } => Response::Operation(crate::Operated::Done),
        Request::Delete { .. }
        | Request::Event(_)
        | Request::DeleteCollection { .. }
        | Request::DeleteContent { .. } => Response::Done,
    }
}

#[cfg(test)]
mod tests {
    use kubegc_core::{
        DeleteOptions, ObjectMeta,
        record::{Body, Pod},
    };

    use super::*;

    #[test]
    fn later_steps_read_what_a_delete_leaves() {
        let (now, cache) = (Timestamp::from_secs(5), Cache::new([Resource::Pods], []));
        let get = Request::Get {
            resource: Resource::Pods,
            key: Key::new("shop", "web"),
        };
        let unlisted = respond(&get, &cache, &Written::new());
        assert!(matches!(unlisted, Response::Failed(StoreError::Unlisted)));
        for (finalizers, is_left) in [(vec![], false), (vec!["example.com/hold".into()], true)] {
            let mut meta = ObjectMeta::new("shop", "web", "u1");
            meta.resource_version = "7".into();
            meta.finalizers = finalizers;
            let record = Record::new(meta, Body::Pod(Pod::default()));
            let delete = Request::Delete {
                object: record.id(Resource::Pods),
                options: DeleteOptions::default(),
            };
            let left = after(&delete, record, now);
            let key = Key::new("shop", "web");
            let written = Written::from([((Resource::Pods, key), left)]);
            match respond(&get, &cache, &written) {
                Response::Object(pod) => {
                    assert!(is_left);
                    assert_eq!(pod.meta.deletion_timestamp, Some(now));
                    assert!(pod.meta.resource_version.is_empty(), "the new version is unknown");
                }
                response => assert!(!is_left && matches!(response, Response::Failed(StoreError::NotFound))),
            }
        }
    }
}
