//! Components that the dump shows not to act: objects have waited for them much longer than they normally
//! need.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubegc_control_plane::{
    Act, Actor, CONTROLLER_MANAGER, Outcome, Step, Why,
    finalizers::{self, OVERDUE, Owner},
};
use kubegc_controllers::job::TRACKING_FINALIZER;
use kubegc_core::{
    ObjectMeta, ObjectRef, Timestamp,
    record::{Condition, Record, Resource},
};
use kubegc_objects::Reason;

use super::{Fate, Forecast};
use crate::facts::{DELETING, Facts, Silent, conditions, deletion_requested_at};

/// The time after which a controller does not act, although an object waits for nothing else in the dump. It
/// may have waited for something that ended just before the dump was made, or the controller began to run.
pub(crate) const LONG_OVERDUE: Duration = Duration::from_secs(3_600);
const TTL_AFTER_FINISHED: &str = "ttl-after-finished-controller";

/// The components outside of kube-controller-manager that do not act: an object that waits for nothing else
/// has been terminating for more than [`OVERDUE`]. Components about which something is assumed by name are
/// not among them.
///
/// # Complexity
/// O(t) for t terminating objects.
pub(crate) fn external(facts: &Facts) -> Vec<Silent> {
    let mut found = Vec::new();
    for position in facts.with(DELETING) {
        let view = facts.view(position);
        let meta = view.meta();
        let lasted = deletion_requested_at(&meta).map(|since| facts.newest_time().since(since));
        let Some(lasted) = lasted.filter(|lasted| *lasted > OVERDUE) else {
            continue;
        };
        let is_assumed = |name: &str| facts.assumptions.acting.contains_key(name);
        let components = view.finalizers();
        let components = components.filter_map(|name| component_of(name, view.kind()));
        let components = components.filter(|(one, name, _)| !is_assumed(one) && !is_assumed(name));
        for (component, name, within) in components {
            let silent = Silent {
                component,
                name,
                object: view.object_ref(),
                lasted,
                within,
            };
            add(&mut found, silent);
        }
    }
    found
}

/// Adds what shows that a component does not act, unless another object has waited longer.
fn add(found: &mut Vec<Silent>, silent: Silent) {
    match found.iter_mut().find(|known| known.name == silent.name) {
        Some(known) if known.lasted >= silent.lasted => {}
        Some(known) => *known = silent,
        None => found.push(silent),
    }
}

/// The component that removes a finalizer of an object of this kind at once, its name in assumptions, and the
/// time that it needs.
fn component_of(finalizer: &Arc<str>, kind: &str) -> Option<(&'static str, Arc<str>, Duration)> {
    let known = finalizers::find(finalizer)?;
    let external = known.external.filter(|external| external.kind == kind)?;
    let Owner::External(component) = known.owner else {
        return None;
    };
    let name = match external.is_per_finalizer {
        true => Arc::clone(finalizer),
        false => component.into(),
    };
    Some((component, name, known.owner.acts_within()?))
}

/// Whether a controller should have acted on an object long before the dump was made.
pub(crate) fn may_show_controllers(facts: &Facts) -> bool {
    let (mut terminating, mut jobs) = (facts.with(DELETING), facts.all(Resource::Jobs));
    let is_old = |at: Option<Timestamp>| at.is_some_and(|at| facts.newest_time().since(at) > OVERDUE);
    let is_a_controllers = |name: &Arc<str>| {
        let owner = finalizers::find(name).map(|known| known.owner);
        matches!(owner, Some(Owner::GarbageCollector | Owner::Controller(_)))
    };
    terminating.any(|position| {
        let view = facts.view(position);
        view.finalizers().all(is_a_controllers) && is_old(deletion_requested_at(&view.meta()))
    }) || jobs.any(|position| is_old(expiry(&facts.record(position))))
}

/// The controllers of kube-controller-manager that do not act: they would act at once if they ran, as the
/// forecast without deletes shows, and the object has waited for more than an hour, or for more than
/// [`OVERDUE`] where it cannot have waited for anything else. If these are several, kube-controller-manager
/// does not act. Controllers about which something is assumed by name are not among them.
///
/// # Complexity
/// O(s log f) for s steps and f fates of that forecast.
pub(crate) fn controllers(facts: &Facts, forecast: &Forecast) -> Vec<Silent> {
    let mut found = Vec::new();
    let at_once = |step: &&Step| step.causes.is_empty() && step.failure.is_none() && step.at <= OVERDUE;
    for step in forecast.timeline.iter().filter(at_once) {
        let owner = match step.actor {
            Actor::GarbageCollector => Owner::GarbageCollector,
            Actor::Controller(name) => Owner::Controller(name),
            _ => continue,
        };
        let (component, Some(within)) = (owner.name(), owner.acts_within()) else {
            continue;
        };
        let mut names = [component, CONTROLLER_MANAGER].into_iter();
        if names.any(|name| facts.assumptions.acting.contains_key(name)) {
            continue;
        }
        let Some((object, since, limit)) = waited(facts, step) else {
            continue;
        };
        let fate = forecast.fate(&object).map(|fate| &fate.fate);
        let lasted = forecast.began.since(since);
        if lasted > limit.saturating_add(within) && matches!(fate, Some(Fate::Deleted { .. })) {
            let silent = Silent {
                component,
                name: component.into(),
                object,
                lasted,
                within,
            };
            add(&mut found, silent);
        }
    }
    let components: BTreeSet<&str> = found.iter().map(|silent| silent.component).collect();
    if components.len() > 1 {
        found.sort_by_key(|silent| silent.lasted);
        found.drain(..found.len() - 1);
        for silent in &mut found {
            (silent.component, silent.name) = (CONTROLLER_MANAGER, CONTROLLER_MANAGER.into());
        }
    }
    found
}

/// The object that has waited for a step, since when, and the time after which that shows something.
fn waited(facts: &Facts, step: &Step) -> Option<(ObjectRef, Timestamp, Duration)> {
    let is_expiry =
        step.actor == Actor::Controller(TTL_AFTER_FINISHED) && matches!(step.act, Act::Delete { .. });
    let (object, limit) = match (&step.why, step.act) {
        // Dependents are released before their owner is removed, and content before its namespace.
        (Why::Collector(Reason::OwnerOrphans(owner)), _) => (ObjectRef::clone(owner), OVERDUE),
        (Why::Collector(Reason::DependentsReleased), _) => (ObjectRef::clone(&step.object), OVERDUE),
        (_, Act::DeleteCollection) => (ObjectRef::clone(&step.object), LONG_OVERDUE),
        // The Job waits for its pods first.
        _ if is_expiry => (ObjectRef::clone(&step.object), LONG_OVERDUE),
        _ => {
            let mut removed = step.changes.iter().filter(|one| one.outcome == Outcome::Removed);
            (ObjectRef::clone(&removed.next()?.object), LONG_OVERDUE)
        }
    };
    let position = facts.positions_of(&object.uid).next()?;
    let record = facts.record(position);
    if is_expiry && !record.meta.is_deleting() {
        return Some((object, expiry(&record)?, LONG_OVERDUE));
    }
    // The namespace controller has seen content, or has failed, and says so.
    let explains = |one: &Condition| one.condition_type.starts_with("Namespace") && one.is_true();
    if conditions(&record).iter().any(explains) || facts.leaks_job_tracking(position, &record.meta) {
        return None;
    }
    Some((object, deletion_requested_at(&record.meta)?, limit))
}

fn expiry(job: &Record) -> Option<Timestamp> {
    let job = job.job()?;
    let ttl = (*job.ttl_seconds_after_finished.known()?)?;
    let finished = job.finished()??.last_transition_time?;
    Some(finished.saturating_add(Duration::from_secs(u64::try_from(ttl).ok()?)))
}

impl Facts {
    /// Whether the job-controller of this release may never remove its finalizer from a pod. A Job could be
    /// deleted before its pods were counted, and nothing enqueued them again
    /// ([kubernetes #109020](https://github.com/kubernetes/kubernetes/pull/109020), in 1.23.6).
    pub(crate) fn leaks_job_tracking(&self, position: u32, meta: &ObjectMeta) -> bool {
        let mut owners = self.edges.owners(position);
        let mut finalizers = meta.finalizers.iter();
        matches!((self.version.minor(), self.version.patch()), (23, 0..=5))
            && finalizers.any(|name| **name == *TRACKING_FINALIZER)
            && !owners.any(|owner| owner.position().is_some())
    }
}
