//! Tells the writes of a forecast as events: what begins at an instant, and what follows from it.
//!
//! The writes are those of one world that the dump allows. What happens in it to objects that fare otherwise in another one, or of which too little was
//! read, is not certain, and stands apart.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_core::{ObjectRef, Timestamp, Uid, record::ObjectId};

use super::CleanupForecast;
use crate::{Act, Actor, Fate, Forecast, Outcome, Step, Why};

/// Something that happens to an object of itself.
#[derive(Clone, Debug)]
pub(super) struct Event<'a> {
    /// When it begins.
    pub(super) at: Timestamp,
    /// The write that begins it.
    pub(super) step: &'a Step,
    /// What it happens to.
    pub(super) subject: Subject<'a>,
    /// Whether the fates of all of these objects are decided; of none of them otherwise.
    pub(super) is_certain: bool,
    /// What goes, or begins to go, because of that.
    pub(super) followers: Vec<Subject<'a>>,
}

impl<'a> Event<'a> {
    /// All objects that it happens to.
    pub(super) fn subjects(&self) -> impl Iterator<Item = Subject<'a>> + '_ {
        std::iter::once(self.subject).chain(self.followers.iter().copied())
    }
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

/// The events of a forecast, in order of time. Every object that goes is in exactly one of them, once. What is certain follows only from what is.
///
/// # Complexity
/// O(n log n) for n fates, findings and changes of objects in the timeline.
pub(super) fn events<'a>(forecast: &'a CleanupForecast) -> Vec<Event<'a>> {
    let timeline = &forecast.forecast.timeline;
    let lives = Lives::of(timeline, &Doubtful::of(&forecast.forecast));
    let roots = lives.roots(timeline);
    let at = |step: usize| forecast.began.saturating_add(timeline[step].at);
    let subject = |life: &Life<'a>| Subject {
        object: life.object,
        end: match (life.gone, life.began) {
            (Some(gone), _) => End::Gone(at(gone)),
            (None, Some(_)) => End::Held,
            (None, None) => End::Changed,
        },
    };
    let mut events: BTreeMap<usize, (usize, Event<'a>)> = BTreeMap::new();
    for (root, life) in lives.all.iter().enumerate().filter(|(at, _)| roots[*at] == *at) {
        let Some(cause) = life.cause() else { continue };
        let event = Event {
            at: at(cause),
            step: &timeline[cause],
            subject: subject(life),
            is_certain: life.is_certain,
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
            event.followers.push(subject(life));
        }
    }
    let mut events: Vec<(usize, Event<'a>)> = events.into_values().collect();
    events.sort_by_key(|(first, event)| (event.at, *first));
    events.into_iter().map(|(_, event)| event).collect()
}

/// The objects of which cannot be said what becomes of them.
pub(super) struct Doubtful<'a>(BTreeSet<[&'a str; 4]>);

impl<'a> Doubtful<'a> {
    pub(super) fn of(forecast: &'a Forecast) -> Self {
        let fates = forecast.fates.iter();
        let undecided = fates.filter(|fate| matches!(fate.fate, Fate::Undecided { .. }));
        Self(undecided.map(|fate| place(&fate.object)).collect())
    }

    pub(super) fn has(&self, object: &ObjectRef) -> bool {
        self.0.contains(&place(object))
    }
}

/// Group, kind, namespace and name of an object. No name is given twice within a forecast, and a dump may do without uids.
pub(super) fn place(object: &ObjectRef) -> [&str; 4] {
    [object.group(), &object.kind, &object.namespace, &object.name]
}

/// What the timeline tells of one object, by positions in it.
struct Life<'a> {
    object: &'a ObjectRef,
    /// Its fate is decided.
    is_certain: bool,
    /// The deletion was asked for.
    began: Option<usize>,
    /// It was gone.
    gone: Option<usize>,
    /// It was changed for its own sake.
    changed: Option<usize>,
    /// The claim whose end a volume met.
    claim: Option<&'a ObjectId>,
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
    fn of(timeline: &'a [Step], doubtful: &Doubtful<'_>) -> Self {
        let mut lives = Self {
            all: Vec::new(),
            by_key: BTreeMap::new(),
        };
        for (at, step) in timeline.iter().enumerate() {
            let deletes = matches!(step.act, Act::Delete { .. } | Act::DeleteCollection);
            for change in &step.changes {
                let life = lives.of_object(&change.object, doubtful);
                match change.outcome {
                    Outcome::Gone => {
                        life.gone.get_or_insert(at);
                    }
                    Outcome::Changed | Outcome::Terminating | Outcome::Created => {}
                }
                if deletes
                    && step.actor != Actor::Kubelet
                    && !matches!(change.outcome, Outcome::Changed | Outcome::Created)
                {
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

    fn of_object(&mut self, object: &'a ObjectRef, doubtful: &Doubtful<'_>) -> &mut Life<'a> {
        let key = (&*object.kind, &*object.namespace, &*object.name, &object.uid);
        let at = *self.by_key.entry(key).or_insert(self.all.len());
        if at == self.all.len() {
            self.all.push(Life {
                object,
                is_certain: !doubtful.has(object),
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

    /// The object whose end makes this one go, where one is as certain as the other.
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
            Why::Controller(reason) if reason.code() == "NamespaceTerminating" => {
                by_name.get(&("Namespace", "", &life.object.namespace)).copied()
            }
            Why::Controller(_) => life.claim.and_then(|claim| {
                let key = ("PersistentVolumeClaim", &*claim.namespace, &*claim.name);
                by_name.get(&key).copied()
            }),
            _ => None,
        };
        found.filter(|&found| {
            let cause = &self.all[found];
            found != at && ends(cause) && cause.is_certain == life.is_certain
        })
    }
}

/// Whether a write is something that happens to its object, rather than what goes with a deletion, or bookkeeping.
fn is_worth_telling(step: &Step) -> bool {
    match &step.why {
        Why::Collector(_) => matches!(step.act, Act::Patch { .. }),
        Why::Controller(reason) => !matches!(reason.code(), "StatusUpdate" | "ConditionsChanged"),
        _ => false,
    }
}

fn claim_gone(step: &Step) -> Option<&ObjectId> {
    match &step.why {
        Why::Controller(reason) => reason.object(),
        _ => None,
    }
}
