//! The writes of a forecast as events: the first deletion or change, and the deletions that it caused, with
//! their reasons in a few words.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use kubegc_core::{ObjectRef, Timestamp, Uid};
use kubegc_objects::{
    Reason as CollectorReason,
    classify::{Class, Resolved},
};
use serde::Serialize;

use crate::{
    Forecast, Step,
    trace::{Act, Outcome, Why},
    words::Name,
};

/// The end of an event for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum End {
    Removed,
    Terminating,
    Changed,
}

/// An object of an event.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subject<'a> {
    pub(super) object: &'a ObjectRef,
    pub(super) end: End,
    pub(super) removed_at: Option<Timestamp>,
}

/// A deletion or change that no other deletion caused.
#[derive(Clone, Debug)]
pub(super) struct Event<'a> {
    pub(super) at: Timestamp,
    pub(super) step: &'a Step,
    pub(super) subject: Subject<'a>,
    /// Whether the fates of all of these objects are determined; of none of them otherwise.
    pub(super) is_certain: bool,
    pub(super) followers: Vec<Subject<'a>>,
}

impl<'a> Event<'a> {
    pub(super) fn subjects(&self) -> impl Iterator<Item = Subject<'a>> + '_ {
        std::iter::once(self.subject).chain(self.followers.iter().copied())
    }
}

/// The events of a forecast, in order of time. Every deleted object is in exactly one of them, once. Objects
/// with determined fates and others are never in one event.
///
/// # Complexity
/// O(n log n) for n changes of objects in the timeline.
pub(super) fn events(forecast: &Forecast) -> Vec<Event<'_>> {
    let timeline = &forecast.timeline;
    let histories = histories(forecast);
    let roots = roots(&histories, timeline);
    let at = |step: usize| forecast.began.saturating_add(timeline[step].at);
    let mut events: BTreeMap<usize, (usize, Event<'_>)> = BTreeMap::new();
    for (root, history) in histories.iter().enumerate().filter(|(at, _)| roots[*at] == *at) {
        let Some(first) = history.first() else { continue };
        let event = Event {
            at: at(first),
            step: &timeline[first],
            subject: history.subject(at),
            is_certain: history.is_certain,
            followers: Vec::new(),
        };
        events.insert(root, (first, event));
    }
    for (follower, history) in histories.iter().enumerate() {
        let (Some(own), Some((first, event))) = (history.first(), events.get_mut(&roots[follower])) else {
            continue;
        };
        if roots[follower] != follower {
            // A namespace is removed after its content.
            *first = own.min(*first);
            event.at = event.at.min(at(own));
            event.followers.push(history.subject(at));
        }
    }
    let mut events: Vec<(usize, Event<'_>)> = events.into_values().collect();
    events.sort_by_key(|(first, event)| (event.at, *first));
    events.into_iter().map(|(_, event)| event).collect()
}

/// The steps that affected one object, by position.
struct History<'a> {
    object: &'a ObjectRef,
    is_certain: bool,
    /// The request that began its deletion.
    deleted: Option<usize>,
    removed: Option<usize>,
    /// It was changed for a reason other than a deletion.
    changed: Option<usize>,
}

impl<'a> History<'a> {
    /// The step that explains the others.
    fn first(&self) -> Option<usize> {
        self.deleted.or(self.removed).or(self.changed)
    }

    fn subject(&self, at: impl Fn(usize) -> Timestamp) -> Subject<'a> {
        Subject {
            object: self.object,
            end: match (self.removed, self.deleted) {
                (Some(_), _) => End::Removed,
                (None, Some(_)) => End::Terminating,
                (None, None) => End::Changed,
            },
            removed_at: self.removed.map(at),
        }
    }
}

fn histories(forecast: &Forecast) -> Vec<History<'_>> {
    let mut histories: IndexMap<(Name<'_>, &Uid), History<'_>, FixedState> = IndexMap::default();
    for (at, step) in forecast.timeline.iter().enumerate() {
        for change in &step.changes {
            let object = &change.object;
            let known = histories.entry((Name::from(&**object), &object.uid));
            let history = known.or_insert_with(|| History {
                object,
                is_certain: !forecast.is_undetermined(object),
                deleted: None,
                removed: None,
                changed: None,
            });
            if change.outcome == Outcome::Removed {
                history.removed.get_or_insert(at);
            }
            if step.is_delete() && matches!(change.outcome, Outcome::Removed | Outcome::Terminating) {
                history.deleted.get_or_insert(at);
            }
            if is_reported(step) {
                history.changed.get_or_insert(at);
            }
        }
    }
    histories.into_values().collect()
}

/// The first object in each object's chain of deletions; itself if no deletion caused its own.
fn roots(histories: &[History<'_>], timeline: &[Step]) -> Vec<usize> {
    // The objects whose deletion each step began or ended.
    let mut ended_by: Vec<Vec<usize>> = vec![Vec::new(); timeline.len()];
    for (at, history) in histories.iter().enumerate() {
        for step in [history.deleted, history.removed].into_iter().flatten() {
            ended_by[step].push(at);
        }
    }
    let mut roots: Vec<usize> = (0..histories.len()).collect();
    // For each step, the root of the deletion that it belongs to or that led to it, if undetermined and if
    // determined. A step is later than its causes.
    let mut of_steps: Vec<[Option<usize>; 2]> = Vec::with_capacity(timeline.len());
    for (at, step) in timeline.iter().enumerate() {
        let of_causes = [0, 1].map(|side| step.causes.iter().find_map(|cause| of_steps[*cause][side]));
        let mut of_step = [None; 2];
        for &object in &ended_by[at] {
            let (history, side) = (&histories[object], usize::from(histories[object].is_certain));
            if history.first() == Some(at) {
                roots[object] = of_causes[side].unwrap_or(object);
            }
            of_step[side].get_or_insert(roots[object]);
        }
        of_steps.push([0, 1].map(|side| of_step[side].or(of_causes[side])));
    }
    roots
}

/// Whether a change of an object is an event: not a step of its deletion, and not a change of its status.
fn is_reported(step: &Step) -> bool {
    match &step.why {
        Why::Collector(_) => matches!(step.act, Act::Patch { .. }),
        Why::Controller(reason) => !matches!(reason.code(), "StatusUpdate" | "ConditionsChanged"),
        _ => false,
    }
}

/// The reason of a step that affects this object.
pub(super) fn because(why: &Why, object: &ObjectRef) -> String {
    let kind = (object.group(), &*object.kind);
    match why {
        Why::Intent(_) => "requested".to_owned(),
        Why::Collector(CollectorReason::NoOwnerLeft(owners)) if !owners.iter().any(waits) => {
            "no owner is left".to_owned()
        }
        Why::Collector(reason) => reason.to_string(),
        Why::DefinitionTerminating if kind == ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            "it is terminating, and no object of it is left".to_owned()
        }
        Why::DefinitionTerminating => "the CustomResourceDefinition of its kind is terminating".to_owned(),
        Why::DefinitionsChanged => "the CustomResourceDefinitions of its group have changed".to_owned(),
        Why::GracePeriodExpired => "its grace period ends".to_owned(),
        Why::FinalizerReleased(name) => format!("its owner is assumed to remove finalizer {name}"),
        Why::Controller(reason) => reason.to_string(),
    }
}

/// Whether an owner is terminating and waits for its dependents.
fn waits(owner: &Resolved) -> bool {
    owner.class() == Class::Waiting
}

/// The change of an object that is kept, as the rest of a sentence that begins with the object, or with
/// several.
pub(super) fn changes(why: &Why) -> [&'static str; 2] {
    let Why::Controller(reason) = why else {
        return match why {
            Why::Collector(_) => [" loses owners", " lose owners"],
            _ => [" changes", " change"],
        };
    };
    match reason.code() {
        "Terminated" | "Orphaned" | "OutOfService" | "Unscheduled" => {
            [" is marked as failed", " are marked as failed"]
        }
        "TokenUnused" => [" is marked as invalid", " are marked as invalid"],
        "Unused" | "NotBound" => [" loses its protection", " lose their protection"],
        "ShutDown" => [" is tainted", " are tainted"],
        "ReadyAgain" => [" loses a taint", " lose a taint"],
        "Unprotected" | "FinalizerMissing" => [" is protected", " are protected"],
        "OwnersDiffer" => [" gets other owners", " get other owners"],
        "Unbound" => [" is available again", " are available again"],
        _ => [" changes", " change"],
    }
}
