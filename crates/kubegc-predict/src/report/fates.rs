//! The objects of a report, grouped by fate.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
};

use kubegc_control_plane::Refusals;
use kubegc_core::{ObjectRef, OwnerReference, Uid, record::Resource};

use super::{
    events::Event,
    names::{Name, names_of_kind},
    text::Text,
    tree::{DEPTH_MAX, Relations, rows},
};
use crate::words::{moment, number, span};
use crate::{
    Fate, Forecast, ObjectFate, Outcomes,
    facts::deletion_requested_at,
    fate::{Missing, add_list, missing_fact},
    forecast::key,
};

/// The fate of an object that is not deleted, as a row of a report.
pub(super) struct FateRow<'a> {
    pub(super) word: &'static str,
    pub(super) name: Name<'a>,
    /// What it waits for, what is missing, or what it is released from; empty if there is nothing to say.
    pub(super) text: String,
}

/// The objects that are not deleted, those of the intents first, and what controllers cannot decide.
pub(super) fn fate_rows(forecast: &Forecast) -> Vec<FateRow<'_>> {
    let targets: BTreeSet<[&str; 4]> = forecast.targets.iter().map(key).collect();
    let fates = forecast.fates.iter();
    let mut fates: Vec<&ObjectFate> = fates
        .filter(|fate| !fate.is_anyway && !is_deleted(fate))
        .collect();
    fates.sort_by_key(|fate| !targets.contains(&key(&fate.object)));
    let refusals = Refusals::of(&forecast.timeline);
    let rows = fates.into_iter().map(|fate| FateRow {
        word: fate.fate.word(),
        name: Name::from(&*fate.object),
        text: row_text(forecast, &refusals, fate),
    });
    let outcomes: BTreeMap<&Uid, Outcomes> = forecast
        .fates
        .iter()
        .filter(|fate| matches!(fate.fate, Fate::Undetermined { .. }))
        .map(|fate| (&fate.object.uid, Outcomes::from(&fate.fate)))
        .collect();
    let of_controllers = forecast.undetermined.iter().map(|undetermined| {
        let object = &undetermined.object;
        let fact = missing_fact(&undetermined.missing, undetermined.missing.message_about(object));
        let outcomes = outcomes.get(&object.uid).map(|outcomes| format!("{outcomes}: "));
        FateRow {
            word: "undetermined",
            name: Name::from(object),
            text: format!(
                "{}{}: {fact}",
                outcomes.unwrap_or_default(),
                undetermined.controller
            ),
        }
    });
    rows.chain(of_controllers).collect()
}

/// The objects to which something happens without the deletes, too.
pub(super) fn anyway_rows(forecast: &Forecast) -> Vec<FateRow<'_>> {
    let fates = forecast.fates.iter().filter(|fate| fate.is_anyway);
    let refusals = Refusals::of(&forecast.timeline);
    let rows = fates.map(|fate| {
        let (word, text) = (fate.fate.word(), row_text(forecast, &refusals, fate));
        FateRow {
            word,
            name: Name::from(&*fate.object),
            text: match &fate.fate {
                _ if text.is_empty() => word.to_owned(),
                Fate::Undetermined { outcomes, .. } => {
                    let facts = text.strip_prefix(&format!("{outcomes}: ")).unwrap_or(&text);
                    format!("{word} ({outcomes}): {facts}")
                }
                _ => format!("{word}, {text}"),
            },
        }
    });
    rows.collect()
}

fn is_deleted(fate: &ObjectFate) -> bool {
    matches!(fate.fate, Fate::Deleted { .. })
}

fn row_text(forecast: &Forecast, refusals: &Refusals<'_>, fate: &ObjectFate) -> String {
    let mut text = sentence(&fate.fate);
    match &fate.fate {
        Fate::Terminating { .. } => {
            // Only objects that were terminating in the dump.
            if let Some(since) = deletion_requested_at(&fate.before().meta()) {
                text.push_str(&format!("; terminating since {}", moment(since)));
                if since < forecast.began {
                    text.push_str(&format!(" ({})", span(forecast.began.since(since))));
                }
            }
        }
        Fate::Kept => {
            let mut refused = refusals.about(&fate.object.uid);
            if let Some(step) = refused.find(|step| step.object.uid == fate.object.uid)
                && let Some(refusal) = &step.failure
            {
                let request = if step.is_delete() { "delete" } else { "change" };
                text = format!("the {} may not {request} it: {refusal}", step.actor);
            }
        }
        Fate::Undetermined { outcomes, missing } => {
            text = missing_text(missing, &fate.object);
            if text.is_empty() {
                text = own_missing_text(forecast, missing, &fate.object);
            }
            if !text.is_empty() {
                text.insert_str(0, &format!("{outcomes}: "));
            }
        }
        _ => {}
    }
    text
}

/// The facts that are missing about the object itself. Empty if they are listed by controller.
fn own_missing_text(forecast: &Forecast, missing: &[Missing], of: &ObjectRef) -> String {
    let mut undetermined = forecast.undetermined.iter();
    if undetermined.any(|undetermined| undetermined.object.uid == of.uid) {
        return String::new();
    }
    own_reasons(missing, of)
}

/// The facts that controllers need to decide about the object itself.
fn own_reasons(missing: &[Missing], of: &ObjectRef) -> String {
    let own = missing.iter().filter_map(|missing| match missing {
        Missing::Controller { object, reason } if *object == *of => Some(&**reason),
        _ => None,
    });
    let own: Vec<&str> = own.collect::<BTreeSet<&str>>().into_iter().collect();
    own.join("; ")
}

impl Text<'_> {
    /// Writes the objects with one fate other than deleted.
    pub(super) fn write_fates(&mut self, title: &str, rows: &[FateRow<'_>]) -> fmt::Result {
        let word = title.to_lowercase();
        let counts = counts(self.forecast);
        let Some((_, count)) = counts.into_iter().find(|(counted, _)| *counted == word) else {
            return Ok(());
        };
        self.heading(title, count)?;
        let of_word = rows.iter().filter(|row| row.word == word);
        // What is missing about an object without a text is listed by controller.
        let shown = of_word.filter(|row| word != "undetermined" || !row.text.is_empty());
        self.write_grouped(shown.map(|row| (row.text.as_str(), row.name)))
    }

    /// Writes the objects to which something happens without the deletes, too.
    pub(super) fn write_anyway(&mut self) -> fmt::Result {
        let rows = anyway_rows(self.forecast);
        if rows.is_empty() {
            return Ok(());
        }
        self.heading("Happens anyway", rows.len())?;
        self.write_grouped(rows.iter().map(|row| (row.text.as_str(), row.name)))
    }

    /// Writes the events of objects whose fates are undetermined, with the condition under which they happen.
    pub(super) fn write_possible(&mut self, events: &[Event<'_>]) -> fmt::Result {
        if events.is_empty() {
            return Ok(());
        }
        let shown: BTreeSet<[&str; 4]> = events
            .iter()
            .flat_map(Event::subjects)
            .map(|subject| key(subject.object))
            .collect();
        let unknown = self.forecast.fates.iter();
        let condition = condition(unknown.filter(|fate| shown.contains(&key(&fate.object))));
        writeln!(self.out, "\nEvents if {condition}:")?;
        self.write_timeline(events)
    }

    /// Writes the deleted objects below their owners. Owners that are not deleted are shown with their fate.
    pub(super) fn write_deleted(&mut self) -> fmt::Result {
        let is_deleted = |fate: &ObjectFate| is_deleted(fate) && !fate.is_anyway;
        let count = self.forecast.fates.iter().filter(|fate| is_deleted(fate)).count();
        if count == 0 {
            return Ok(());
        }
        self.heading("Deleted", count)?;
        let (rows, _) = rows(self.forecast, usize::MAX, Relations::Together);
        // A row is written if it is deleted or something below it is.
        let mut is_written: Vec<bool> = rows
            .iter()
            .map(|row| row.objects.iter().any(|fate| is_deleted(fate)))
            .collect();
        for (at, row) in rows.iter().enumerate().rev() {
            if let (true, Some(parent)) = (is_written[at], row.parent) {
                is_written[parent.row] = true;
            }
        }
        let written = rows
            .iter()
            .zip(&is_written)
            .filter(|(_, is_written)| **is_written);
        let (mut rows_left, mut named) = (self.detail.rows_max, 0);
        for (row, _) in written {
            let Some(first) = row.objects.first() else {
                continue;
            };
            if rows_left == 0 {
                break;
            }
            rows_left -= 1;
            let mut line = names_of_kind(&row.names(), self.detail.objects_max);
            match is_deleted(first) {
                true => named += row.objects.len(),
                false => line.push_str(&format!(" ({})", first.fate.word())),
            }
            let indent = "  ".repeat(row.depth.min(DEPTH_MAX));
            self.line(&format!("  {indent}- "), &line)?;
        }
        match count - named {
            0 => Ok(()),
            more => self.line("  - ", &number(more, "more object")),
        }
    }
}

/// The number of objects with an undetermined fate or about which a controller cannot decide.
fn undetermined(forecast: &Forecast) -> usize {
    let unknown = forecast.fates.iter();
    let unknown = unknown.filter(|fate| !fate.is_anyway && matches!(fate.fate, Fate::Undetermined { .. }));
    let of_controllers = forecast.undetermined.iter().map(|undetermined| {
        let object = &undetermined.object;
        let resource = object.resource;
        [
            resource.group(),
            resource.kind(),
            &*object.namespace,
            &*object.name,
        ]
    });
    let all: BTreeSet<[&str; 4]> = unknown
        .map(|fate| key(&fate.object))
        .chain(of_controllers)
        .collect();
    all.len()
}

/// The sentence that follows the name of a fate.
pub(crate) fn sentence(fate: &Fate) -> String {
    match fate {
        Fate::Terminating { waits_for } => {
            let waits: Vec<String> = waits_for.iter().map(ToString::to_string).collect();
            format!("waiting for {}", waits.join(", and for "))
        }
        Fate::Released { owners } => {
            let names: Vec<String> = owners.iter().map(OwnerReference::short).collect();
            format!("released from {}", names.join(" and "))
        }
        _ => String::new(),
    }
}

/// The sentence about the fate of an object, with the missing facts.
pub(super) fn detail(fate: &Fate, of: &ObjectRef) -> String {
    let Fate::Undetermined { missing, .. } = fate else {
        return sentence(fate);
    };
    let text = missing_text(missing, of);
    match text.is_empty() {
        true => format!("whether it is cleaned up: {}", own_reasons(missing, of)),
        false => text,
    }
}

/// The number of objects by fate, in the order of a summary. Objects about which a controller cannot decide
/// count as undetermined.
pub(super) fn counts(forecast: &Forecast) -> Vec<(&'static str, usize)> {
    let counts = forecast.counts();
    let count = |word: &str| match word {
        "undetermined" => undetermined(forecast),
        word => counts.get(word).copied().unwrap_or(0),
    };
    let words = ["deleted", "terminating", "undetermined", "released", "kept"];
    let counts = words.into_iter().map(|word| (word, count(word)));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// The missing facts about the owners of an object and other objects that it depends on. Empty if all facts
/// are about the object itself.
fn missing_text(missing: &[Missing], of: &ObjectRef) -> String {
    let own_end = missing.iter().find_map(|missing| match missing {
        Missing::Ending { pod, reason } if *pod == *of => Some(reason),
        _ => None,
    });
    let unknown: BTreeSet<String> = missing
        .iter()
        .filter_map(|missing| match missing {
            Missing::Owner { resource, .. } => {
                Some(format!("whether an owner exists: {}", add_list(resource)))
            }
            Missing::Controller { object, .. } if *object == *of => None,
            Missing::Controller { object, reason } if *object.kind == *Resource::StatefulSets.kind() => {
                let is_claim = *of.kind == *Resource::PersistentVolumeClaims.kind();
                let claim = if is_claim {
                    "it"
                } else {
                    "the claim that it belongs to"
                };
                Some(format!(
                    "whether {claim} is deleted with a {}: {reason}",
                    object.kind
                ))
            }
            Missing::Controller { object, reason } => Some(format!(
                "whether the {} that it depends on is deleted: {reason}",
                object.kind
            )),
            Missing::Ending { pod, reason } if *pod == *of => Some(format!("when it ends: {reason}")),
            // The same reason as for the object itself.
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

/// The condition under which the events of the timeline happen.
fn condition<'a>(undetermined: impl Iterator<Item = &'a ObjectFate>) -> &'static str {
    let missing = undetermined.flat_map(|fate| match &fate.fate {
        Fate::Undetermined { missing, .. } => &**missing,
        _ => &[],
    });
    let is_owner = |missing: &Missing| matches!(missing, Missing::Owner { .. } | Missing::Kind { .. });
    let (owners, rest): (Vec<&Missing>, Vec<&Missing>) = missing.partition(|missing| is_owner(missing));
    match (owners.is_empty(), rest.is_empty()) {
        (false, true) => "all owners that are missing from the dump exist",
        (true, _) => "no missing data matters",
        (false, false) => "all owners that are missing from the dump exist and no other missing data matters",
    }
}
