//! The objects of a report, grouped by fate.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_control_plane::Refusals;
use kubegc_core::Uid;

use super::sentences::{missing_text, own_reasons, sentence};
use crate::{
    Fate, Forecast, ObjectFate, Outcomes,
    facts::deletion_requested_at,
    fate::missing_fact,
    words::{Name, moment, span},
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
    let targets: BTreeSet<Name<'_>> = forecast.targets.iter().map(Name::from).collect();
    let mut fates: Vec<&ObjectFate> = forecast.fates.iter().collect();
    fates.retain(|fate| !fate.is_anyway && !is_deleted(fate));
    fates.sort_by_key(|fate| !targets.contains(&Name::from(&*fate.object)));
    let refusals = Refusals::of(&forecast.timeline);
    let rows = fates.into_iter().map(|fate| FateRow {
        word: fate.fate.word(),
        name: Name::from(&*fate.object),
        text: row_text(forecast, &refusals, fate),
    });
    let undetermined = forecast.fates.iter().filter(|fate| is_undetermined(fate));
    let outcomes = undetermined.map(|fate| (&fate.object.uid, Outcomes::from(&fate.fate)));
    let outcomes: BTreeMap<&Uid, Outcomes> = outcomes.collect();
    let of_controllers = forecast.undetermined.iter().map(|undetermined| {
        let object = &undetermined.object;
        let fact = missing_fact(&undetermined.missing, undetermined.missing.message_about(object));
        let outcomes = outcomes.get(&object.uid).map(|outcomes| format!("{outcomes}: "));
        let outcomes = outcomes.unwrap_or_default();
        FateRow {
            word: "undetermined",
            name: Name::from(object),
            text: format!("{outcomes}{}: {fact}", undetermined.controller),
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

pub(super) fn is_deleted(fate: &ObjectFate) -> bool {
    matches!(fate.fate, Fate::Deleted { .. })
}

fn is_undetermined(fate: &ObjectFate) -> bool {
    matches!(fate.fate, Fate::Undetermined { .. })
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
            // Those are listed by controller.
            let mut of_controllers = forecast.undetermined.iter();
            if text.is_empty() && !of_controllers.any(|one| one.object.uid == fate.object.uid) {
                text = own_reasons(missing, &fate.object);
            }
            if !text.is_empty() {
                text.insert_str(0, &format!("{outcomes}: "));
            }
        }
        _ => {}
    }
    text
}

/// The number of objects by fate, in the order of a summary. Objects about which a controller cannot decide
/// count as undetermined.
pub(super) fn counts(forecast: &Forecast) -> Vec<(&'static str, usize)> {
    let mut counts = forecast.counts();
    let of_fates = forecast.fates.iter();
    let of_fates = of_fates.filter(|fate| !fate.is_anyway && is_undetermined(fate));
    let of_controllers = forecast.undetermined.iter().map(|one| Name::from(&one.object));
    let of_fates = of_fates.map(|fate| Name::from(&*fate.object));
    let undetermined: BTreeSet<Name<'_>> = of_fates.chain(of_controllers).collect();
    counts.insert("undetermined", undetermined.len());
    let words = ["deleted", "terminating", "undetermined", "released", "kept"];
    let counts = words.map(|word| (word, counts.get(word).copied().unwrap_or(0)));
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}
