//! A forecast: the fates of objects, and the writes that lead there.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_control_plane::{Outcome, Step};
use kubegc_core::{ObjectRef, SharedMeta, Timestamp, record::ObjectId};
use kubegc_objects::collector::InvalidNamespace;
use kubegc_snapshot::{ObjectView, Snapshot};
use serde::Serialize;

use super::{Fate, Finding};
use crate::{Assumptions, words::Name};

/// The forecast of a cluster, object by object and write by write.
///
/// # Examples
/// A ConfigMap owns a Secret.
/// ```
/// # use kubegc_core::DeleteOptions;
/// # use kubegc_predict::Intent;
/// # let cluster = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/owner_and_key.in"));
/// let delete = Intent::delete("shop/ConfigMap/owner".parse()?, DeleteOptions::default());
/// let forecast = cluster.predict(&[delete])?;
/// for fate in &forecast.fates {
///     assert_eq!(fate.fate.word(), "deleted");
///     assert!(fate.after.is_none());
/// }
/// let removals = forecast.removals().map(|removal| (&*removal.object.name, removal.step.actor.to_string()));
/// assert_eq!(removals.collect::<Vec<_>>(), [("owner", "you".to_owned()), ("key", "garbage collector".to_owned())]);
/// assert!(forecast.findings.is_empty() && forecast.undetermined.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The time at which it begins.
    pub began: Timestamp,
    /// The length of the period, its end included; `None` if it lasts until nothing changes any more.
    pub horizon: Option<Duration>,
    /// The objects of the intents, in order.
    pub targets: Vec<ObjectRef>,
    /// The fates of all objects that could be affected, in the order of the dump. Any other object is kept.
    pub fates: Vec<ObjectFate>,
    /// The writes, in order. If data is missing, they are those of the run in which all owners that are
    /// missing from the dump exist.
    pub timeline: Vec<Step>,
    /// The warnings that the garbage collector publishes.
    pub warnings: Vec<InvalidNamespace>,
    /// Further findings, sorted.
    pub findings: Vec<Finding>,
    /// Objects about which a controller cannot decide because a fact is missing from the dump. Objects that
    /// are deleted anyway are not among them. Empty in forecasts of deletes alone.
    pub undetermined: Vec<Undetermined>,
    /// The time at which a controller reconciles the next key after the end.
    pub next_at: Option<Timestamp>,
    /// The assumptions about everything outside of the control plane.
    pub assumptions: Assumptions,
    /// The controllers that run in addition to the garbage collector, by name.
    pub controllers: Vec<&'static str>,
    /// The simulated time until the last change.
    pub duration: Duration,
}

/// One object and its fate.
///
/// # Examples
/// The example of [`Forecast`](crate::Forecast) reads the fates of two objects.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct ObjectFate {
    pub object: Arc<ObjectRef>,
    #[serde(flatten)]
    pub fate: Fate,
    /// Whether it has this fate without the deletes, too.
    #[serde(rename = "anyway")]
    pub is_anyway: bool,
    /// Its metadata afterwards, in the run of [`Forecast::timeline`]; `None` if it no longer exists.
    #[serde(skip)]
    pub after: Option<SharedMeta>,
    /// The position in the snapshot.
    #[serde(skip)]
    pub(crate) position: u32,
    #[serde(skip)]
    pub(crate) snapshot: Arc<Snapshot>,
}

impl ObjectFate {
    /// The object in the dump.
    pub fn before(&self) -> ObjectView<'_> {
        let view = self.snapshot.object(self.position as usize);
        // The position was read from this snapshot, which does not change.
        view.unwrap_or_else(|| unreachable!("a fate has the position of its object"))
    }
}

/// The fate of the object at a position of the dump, among fates in this order; `None` if it is not
/// affected.
pub(crate) fn fate_at(fates: &[ObjectFate], position: u32) -> Option<&ObjectFate> {
    let found = fates.binary_search_by_key(&position, |fate| fate.position);
    fates.get(found.ok()?)
}

/// An object about which a controller cannot decide.
///
/// # Examples
/// The example of [`Forecast`](crate::Forecast) reads that nothing is undetermined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Undetermined {
    pub controller: &'static str,
    pub object: ObjectId,
    pub missing: kubegc_controllers::Missing,
}

/// The removal of an object.
///
/// # Examples
/// The example of [`Forecast`](crate::Forecast) reads who removes two objects.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct Removal<'a> {
    pub at: Timestamp,
    pub object: &'a ObjectRef,
    /// The write after which it no longer exists.
    pub step: &'a Step,
}

impl Forecast {
    /// The fate of one object, by name and uid; `None` if it is not affected.
    ///
    /// # Complexity
    /// O(log f) for f fates.
    pub fn fate(&self, object: &ObjectRef) -> Option<&ObjectFate> {
        self.fate_by_key(object)
            .filter(|fate| fate.object.uid == object.uid)
    }

    /// The fate of the object of this key, with any uid.
    fn fate_by_key(&self, object: &ObjectRef) -> Option<&ObjectFate> {
        let compare = |fate: &ObjectFate| Name::from(&*fate.object).cmp(&Name::from(object));
        let found = self.fates.binary_search_by(compare);
        Some(&self.fates[found.ok()?])
    }

    /// The fate of an object, which is kept if it is not affected.
    pub(crate) fn fate_or_kept(&self, object: &ObjectRef) -> Fate {
        self.fate(object).map_or(Fate::Kept, |fate| fate.fate.clone())
    }

    /// Number of objects by fate, without those that have it anyway.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for fate in self.fates.iter().filter(|fate| !fate.is_anyway) {
            *counts.entry(fate.fate.word()).or_insert(0) += 1;
        }
        counts
    }

    /// The end of the period: after the horizon, or after the last change.
    pub fn until(&self) -> Timestamp {
        self.began.saturating_add(self.horizon.unwrap_or(self.duration))
    }

    /// The objects that are removed for certain, in order of time.
    ///
    /// An object with an undetermined [`Fate`] is not among them, although [`timeline`](Self::timeline) may
    /// remove it.
    ///
    /// # Complexity
    /// O(c log f) for c changes of objects in the timeline and f fates.
    pub fn removals(&self) -> impl Iterator<Item = Removal<'_>> {
        let steps = self.timeline.iter();
        let changes = steps.flat_map(|step| step.changes.iter().map(move |change| (step, change)));
        let removed = changes.filter(|(_, change)| {
            change.outcome == Outcome::Removed && !self.is_undetermined(&change.object)
        });
        removed.map(|(step, change)| Removal {
            at: self.began.saturating_add(step.at),
            object: &change.object,
            step,
        })
    }

    /// Whether the fate of the object of this key is undetermined.
    pub(crate) fn is_undetermined(&self, object: &ObjectRef) -> bool {
        self.fate_by_key(object)
            .is_some_and(|fate| matches!(fate.fate, Fate::Undetermined { .. }))
    }
}
