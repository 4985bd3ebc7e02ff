//! Writes what a report leaves open: what is being deleted and does not go, and what cannot be said.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
};

use kubegc_controllers::{FINALIZER_CLAIM_PROTECTION, FINALIZER_VOLUME_PROTECTION};
use kubegc_core::{Timestamp, metadata, record::Resource};

use super::{Text, named};
use crate::{
    Fate, ObjectFate,
    cleanup::{
        CleanupForecast,
        story::{Event, place},
        words::some_of,
    },
    fate::Missing,
};

impl Text<'_> {
    pub(super) fn write_stuck(&mut self) -> fmt::Result {
        let stuck = fates(self.forecast, |fate| matches!(fate, Fate::Stuck { .. }));
        if stuck.is_empty() {
            return Ok(());
        }
        writeln!(
            self.out,
            "\nStuck, being deleted and still there at the end: {}",
            stuck.len()
        )?;
        let by = stuck
            .iter()
            .map(|fate| (holders(fate, self.forecast), &fate.object));
        self.write_grouped(by)
    }

    /// Writes what cannot be said, and what happens in the world of the timeline to objects of which cannot be said what becomes of them.
    pub(super) fn write_undecided(&mut self, possible: &[Event<'_>]) -> fmt::Result {
        let count = undecided(self.forecast).len();
        if count == 0 {
            return Ok(());
        }
        writeln!(self.out, "\nUndecided: {count}")?;
        let unknown = fates(self.forecast, |fate| matches!(fate, Fate::Undecided { .. }));
        let by_owner = unknown
            .iter()
            .map(|fate| (unknown_of(fate), &fate.object))
            // What a mechanism does not know of the object itself is told below.
            .filter(|(unknown, _)| !unknown.is_empty());
        self.write_grouped(by_owner)?;
        let mut groups: Vec<(String, &str, Vec<String>)> = Vec::new();
        let mut places: BTreeMap<(String, &str), usize> = BTreeMap::new();
        for one in &self.forecast.undecided {
            let text = format!("{}: {}", one.controller, one.missing.message_about(&one.object));
            let kind = one.object.resource.kind();
            let place = *places.entry((text.clone(), kind)).or_insert(groups.len());
            if place == groups.len() {
                groups.push((text, kind, Vec::new()));
            }
            groups[place].2.push(match &*one.object.namespace {
                "" => one.object.name.to_string(),
                namespace => format!("{namespace}/{}", one.object.name),
            });
        }
        for (text, kind, names) in groups {
            self.write_named(kind, names, &text)?;
        }
        if possible.is_empty() {
            return Ok(());
        }
        let told = possible.iter().flat_map(Event::subjects);
        let told: BTreeSet<[&str; 4]> = told.map(|subject| place(subject.object)).collect();
        let condition = condition(
            unknown
                .into_iter()
                .filter(|fate| told.contains(&place(&fate.object))),
        );
        writeln!(self.out, "\nWhat becomes of these if {condition}:")?;
        self.write_timeline(possible)
    }
}

/// Group, kind, namespace and name of each object of which something cannot be said.
pub(super) fn undecided(forecast: &CleanupForecast) -> BTreeSet<[&str; 4]> {
    let unknown = fates(forecast, |fate| matches!(fate, Fate::Undecided { .. }));
    let unknown = unknown.into_iter().map(|fate| place(&fate.object));
    let undecided = forecast.undecided.iter().map(|one| {
        let object = &one.object;
        let resource = object.resource;
        [
            resource.group(),
            resource.kind(),
            &*object.namespace,
            &*object.name,
        ]
    });
    undecided.chain(unknown).collect()
}

fn fates(forecast: &CleanupForecast, is_meant: fn(&Fate) -> bool) -> Vec<&ObjectFate> {
    let fates = forecast.forecast.fates.iter();
    fates.filter(|fate| is_meant(&fate.fate)).collect()
}

/// What keeps an object that is being deleted.
fn holders(fate: &ObjectFate, forecast: &CleanupForecast) -> String {
    let Fate::Stuck {
        finalizers,
        blocked_by,
        in_grace,
    } = &fate.fate
    else {
        return String::new();
    };
    if *in_grace {
        return grace(fate, forecast.until).to_owned();
    }
    let runs = |name| forecast.frame.runs(name);
    let holders: Vec<String> = finalizers
        .iter()
        .map(|finalizer| match &**finalizer {
            metadata::FINALIZER_FOREGROUND if !blocked_by.is_empty() => {
                let names = blocked_by.iter().map(named).collect();
                format!("it waits for {}", some_of(names, HOLDERS_MAX).join(", "))
            }
            FINALIZER_CLAIM_PROTECTION if runs("persistentvolumeclaim-protection-controller") => {
                format!("{finalizer} holds it while pods use it")
            }
            FINALIZER_VOLUME_PROTECTION if runs("persistentvolume-protection-controller") => {
                format!("{finalizer} holds it while it is bound")
            }
            FINALIZER_CLAIM_PROTECTION | FINALIZER_VOLUME_PROTECTION => {
                format!("{finalizer} holds it, and nobody takes it away")
            }
            _ => format!("{finalizer} holds it"),
        })
        .collect();
    holders.join(", ")
}

/// Why an object is there that is being deleted and that no finalizer holds.
fn grace(fate: &ObjectFate, until: Timestamp) -> &'static str {
    let ObjectFate { object, after, .. } = fate;
    let (ends_at, length) = after.as_ref().map_or((None, None), |after| {
        (after.deletion_timestamp, after.deletion_grace_period_seconds)
    });
    let is_pod = *object.kind == *"Pod" && object.group().is_empty();
    if ends_at.is_some_and(|ends_at| ends_at > until) {
        "its grace period has not ended"
    } else if !is_pod {
        "nothing that was read holds it"
    } else if length.is_none() {
        "how long its grace period is was not read"
    } else {
        "its grace period is over, and no kubelet has ended it"
    }
}

/// What is not known of what an object hangs on: its owners, and what a mechanism leaves open of others.
fn unknown_of(fate: &ObjectFate) -> String {
    let Fate::Undecided { missing } = &fate.fate else {
        return String::new();
    };
    let own_end = missing.iter().find_map(|missing| match missing {
        Missing::Ending { pod, reason } if *pod == fate.object => Some(reason),
        _ => None,
    });
    let unknown: BTreeSet<String> = missing
        .iter()
        .filter_map(|missing| match missing {
            Missing::Owner { resource, .. } => Some(format!(
                "whether an owner exists: dump all {resource} and declare them complete"
            )),
            Missing::Controller { object, .. } if *object == fate.object => None,
            Missing::Controller { object, reason } if *object.kind == *Resource::StatefulSets.kind() => {
                let is_claim = *fate.object.kind == *Resource::PersistentVolumeClaims.kind();
                let what = if is_claim {
                    "it"
                } else {
                    "the claim that it hangs on"
                };
                Some(format!("whether {what} goes with a {}: {reason}", object.kind))
            }
            Missing::Controller { object, reason } => Some(format!(
                "whether the {} that it hangs on goes: {reason}",
                object.kind
            )),
            Missing::Ending { pod, reason } if *pod == fate.object => Some(format!("when it ends: {reason}")),
            // Its brothers, by the owner that waits for all of them.
            Missing::Ending { reason, .. } if own_end == Some(reason) => None,
            Missing::Ending { pod, reason } => {
                Some(format!("when the {} that it waits for ends: {reason}", pod.kind))
            }
            other => Some(other.to_string()),
        })
        .collect();
    let unknown: Vec<String> = unknown.into_iter().collect();
    unknown.join("; ")
}

/// Under which condition the world of the timeline is the one that is there.
fn condition<'a>(undecided: impl Iterator<Item = &'a ObjectFate>) -> &'static str {
    let missing = undecided.flat_map(|fate| match &fate.fate {
        Fate::Undecided { missing } => missing.as_slice(),
        _ => &[],
    });
    let is_owner = |missing: &Missing| matches!(missing, Missing::Owner { .. } | Missing::Kind { .. });
    let (owners, rest): (Vec<&Missing>, Vec<&Missing>) = missing.partition(|missing| is_owner(missing));
    match (owners.is_empty(), rest.is_empty()) {
        (false, true) => "all owners that are not known exist",
        (true, _) => "nothing that was not read matters",
        (false, false) => "all owners that are not known exist and nothing that was not read matters",
    }
}

/// How many objects to name that hold up one.
const HOLDERS_MAX: usize = 5;
