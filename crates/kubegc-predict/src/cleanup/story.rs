//! Tells the writes of a forecast as events: what begins at an instant, and what follows from it.

use std::collections::BTreeMap;

use kubegc_core::{ObjectRef, Timestamp, Uid};
use kubegc_lifecycle::{
    controller, history,
    volume::{ClaimRef, reclaim},
};

use super::CleanupForecast;
use crate::timeline::{Act, Actor, Outcome, Step, Why};

/// Something that happens to an object of itself.
#[derive(Clone, Debug)]
pub(super) struct Event<'a> {
    /// When it begins.
    pub(super) at: Timestamp,
    /// The write that begins it.
    pub(super) step: &'a Step,
    /// What it happens to.
    pub(super) subject: Subject<'a>,
    /// What goes, or begins to go, because of that.
    pub(super) followers: Vec<Subject<'a>>,
}

/// An object, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) object: &'a ObjectRef,
    pub(super) end: End,
}

/// How it ends for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is gone at this time.
    Gone(Timestamp),
    /// It is being deleted and still there.
    Held,
    /// It stays, and is another than before.
    Changed,
}

/// The events of a forecast, in order of time. Every object that goes is in exactly one of them, once.
///
/// # Complexity
/// O(c log c) for c changes of objects in the timeline.
pub(super) fn events(forecast: &CleanupForecast) -> Vec<Event<'_>> {
    let timeline = &forecast.forecast.timeline;
    let lives = Lives::of(timeline);
    let roots = lives.roots(timeline);
    let at = |step: usize| forecast.began.saturating_add(timeline[step].at);
    let subject = |life: &Life<'_>| match (life.gone, life.began) {
        (Some(gone), _) => End::Gone(at(gone)),
        (None, Some(_)) => End::Held,
        (None, None) => End::Changed,
    };
    let mut events: BTreeMap<usize, (usize, Event<'_>)> = BTreeMap::new();
    for (root, life) in lives.all.iter().enumerate().filter(|(at, _)| roots[*at] == *at) {
        let Some(cause) = life.cause() else { continue };
        let event = Event {
            at: at(cause),
            step: &timeline[cause],
            subject: Subject {
                object: life.object,
                end: subject(life),
            },
            followers: Vec::new(),
        };
        events.insert(root, (cause, event));
    }
    for (follower, life) in lives.all.iter().enumerate() {
        let (Some(cause), Some((first, event))) = (life.cause(), events.get_mut(&roots[follower])) else {
            continue;
        };
        if roots[follower] != follower {
            // A namespace goes after what was in it.
            *first = cause.min(*first);
            event.at = event.at.min(at(cause));
            event.followers.push(Subject {
                object: life.object,
                end: subject(life),
            });
        }
    }
    let mut events: Vec<(usize, Event<'_>)> = events.into_values().collect();
    events.sort_by_key(|(first, event)| (event.at, *first));
    events.into_iter().map(|(_, event)| event).collect()
}

/// What the timeline tells of one object, by positions in it.
struct Life<'a> {
    object: &'a ObjectRef,
    /// The deletion was asked for.
    began: Option<usize>,
    /// It was gone.
    gone: Option<usize>,
    /// It was changed for its own sake.
    changed: Option<usize>,
    /// The claim whose end a volume met.
    claim: Option<&'a ClaimRef>,
}

impl Life<'_> {
    /// The write that tells why.
    fn cause(&self) -> Option<usize> {
        self.began.or(self.gone).or(self.changed)
    }
}

/// Kind, namespace, name and uid.
type Key<'a> = (&'a str, &'a str, &'a str, &'a Uid);

/// All objects that the timeline tells of.
struct Lives<'a> {
    all: Vec<Life<'a>>,
    by_key: BTreeMap<Key<'a>, usize>,
}

impl<'a> Lives<'a> {
    fn of(timeline: &'a [Step]) -> Self {
        let mut lives = Self {
            all: Vec::new(),
            by_key: BTreeMap::new(),
        };
        for (at, step) in timeline.iter().enumerate() {
            let deletes = matches!(step.act, Act::Delete { .. } | Act::DeleteCollection);
            for change in &step.changes {
                let life = lives.of_object(&change.object);
                match change.outcome {
                    Outcome::Gone => {
                        life.gone.get_or_insert(at);
                    }
                    Outcome::Changed | Outcome::Terminating => {}
                }
                if deletes && step.actor != Actor::Kubelet && change.outcome != Outcome::Changed {
                    life.began.get_or_insert(at);
                }
                if is_worth_telling(step) {
                    life.changed.get_or_insert(at);
                }
                if let Some(claim) = claim_gone(step) {
                    life.claim = Some(claim);
                }
            }
        }
        lives
    }

    fn of_object(&mut self, object: &'a ObjectRef) -> &mut Life<'a> {
        let key = (&*object.kind, &*object.namespace, &*object.name, &object.uid);
        let at = *self.by_key.entry(key).or_insert(self.all.len());
        if at == self.all.len() {
            self.all.push(Life {
                object,
                began: None,
                gone: None,
                changed: None,
                claim: None,
            });
        }
        &mut self.all[at]
    }

    /// The object at the end of each object's chain of causes; itself where it has none.
    fn roots(&self, timeline: &[Step]) -> Vec<usize> {
        let by_name: BTreeMap<(&str, &str, &str), usize> = self
            .by_key
            .iter()
            .map(|((kind, namespace, name, _), &at)| ((*kind, *namespace, *name), at))
            .collect();
        let mut roots: Vec<Option<usize>> = vec![None; self.all.len()];
        // From where each object was walked over last: whoever names himself as a cause, by whatever detour, is an end.
        let mut walked_from: Vec<Option<usize>> = vec![None; self.all.len()];
        for from in 0..self.all.len() {
            let mut path = Vec::new();
            let mut last = from;
            let root = loop {
                path.push(last);
                walked_from[last] = Some(from);
                if let Some(root) = roots[last] {
                    break root;
                }
                match self.cause_of(last, timeline, &by_name) {
                    Some(next) if walked_from[next] != Some(from) => last = next,
                    _ => break last,
                }
            };
            for at in path {
                roots[at] = Some(root);
            }
        }
        roots
            .into_iter()
            .enumerate()
            .map(|(at, root)| root.unwrap_or(at))
            .collect()
    }

    /// The object whose end makes this one go.
    fn cause_of(
        &self,
        at: usize,
        timeline: &[Step],
        by_name: &BTreeMap<(&str, &str, &str), usize>,
    ) -> Option<usize> {
        let life = &self.all[at];
        let ends = |life: &Life<'_>| life.began.is_some() || life.gone.is_some();
        if !ends(life) {
            return None;
        }
        let step = &timeline[life.cause()?];
        let found = match &step.why {
            Why::Collector(reason) => reason.owners().iter().find_map(|owner| {
                let reference = &owner.reference;
                // An owner stands beside its dependent, or in no namespace.
                [&*life.object.namespace, ""].into_iter().find_map(|namespace| {
                    let key = (&*reference.kind, namespace, &*reference.name, &reference.uid);
                    self.by_key.get(&key).copied()
                })
            }),
            Why::NamespaceTerminating => by_name.get(&("Namespace", "", &life.object.namespace)).copied(),
            Why::Cleaner(_) => life.claim.and_then(|claim| {
                let key = ("PersistentVolumeClaim", &*claim.namespace, &*claim.name);
                by_name.get(&key).copied()
            }),
            _ => None,
        };
        found.filter(|&found| found != at && ends(&self.all[found]))
    }
}

/// Whether a write is something that happens to its object, rather than what goes with a deletion, or bookkeeping.
fn is_worth_telling(step: &Step) -> bool {
    match &step.why {
        Why::Collector(_) => matches!(step.act, Act::Patch { .. }),
        Why::Cleaner(reason) => !matches!(
            **reason,
            controller::Reason::History(history::Reason::JobsDeleted | history::Reason::AlwaysWritten)
        ),
        _ => false,
    }
}

fn claim_gone(step: &Step) -> Option<&ClaimRef> {
    let Why::Cleaner(reason) = &step.why else {
        return None;
    };
    match &**reason {
        controller::Reason::Volume(reclaim::Reason::ClaimGone { claim }) => Some(claim),
        _ => None,
    }
}
