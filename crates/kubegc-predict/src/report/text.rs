//! A forecast as text for people, in 120 columns.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use kubegc_core::ObjectRef;

use super::{
    events::{Event, events},
    fates::{FateRow, counts, fate_rows, is_deleted},
    tree::{DEPTH_MAX, Row, rows},
};
use crate::{
    Finding, Forecast, Missing, ObjectFate, Step,
    lines::{Lines, line_text},
    words::{Name, counted, moment, names_of_kind, number, span},
};

/// Size limits of a printed forecast.
///
/// # Examples
/// A ConfigMap owns a Secret.
/// ```
/// # use kubegc_core::DeleteOptions;
/// # use kubegc_predict::Intent;
/// # let cluster = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/owner_and_key.in"));
/// use kubegc_predict::Detail;
/// let delete = Intent::delete("shop/ConfigMap/owner".parse()?, DeleteOptions::default());
/// let text = cluster.predict(&[delete])?.to_text(Detail { steps: true, ..Detail::default() });
/// assert!(text.contains("secret/key"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Maximum number of objects named in a list; the others are counted. Default: 8.
    pub objects_max: usize,
    /// Maximum number of rows of the tree of deleted objects; the objects of the others are counted. Default:
    /// 200.
    pub rows_max: usize,
    /// Maximum number of times in the list of events; later events are counted. Default: 100.
    pub instants_max: usize,
    /// Whether headings have colours, for a terminal. Default: no.
    pub colours: bool,
    /// Whether to write every request. Default: no.
    pub steps: bool,
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            objects_max: 8,
            rows_max: 200,
            instants_max: 100,
            colours: false,
            steps: false,
        }
    }
}

impl Detail {
    /// Names every object and writes every event.
    pub fn everything() -> Self {
        Self {
            objects_max: usize::MAX,
            rows_max: usize::MAX,
            instants_max: usize::MAX,
            ..Self::default()
        }
    }
}

impl Forecast {
    /// Writes the forecast as text: the counts; terminating objects, with the conditions that they wait for;
    /// undetermined objects, with the missing data; deleted objects, as a tree of owners and dependents;
    /// released and kept objects; notes and assumptions.
    ///
    /// Control characters in names are written as escapes.
    ///
    /// # Complexity
    /// O(n log n) for n steps and fates.
    pub fn to_text(&self, detail: Detail) -> String {
        let out = Lines::default();
        let mut text = Text {
            forecast: self,
            detail,
            out,
        };
        text.write();
        text.out.0
    }
}

pub(super) struct Text<'a> {
    pub(super) forecast: &'a Forecast,
    pub(super) detail: Detail,
    pub(super) out: Lines,
}

impl Text<'_> {
    fn write(&mut self) {
        let (certain, possible): (Vec<Event<'_>>, Vec<Event<'_>>) = events(self.forecast)
            .into_iter()
            .partition(|event| event.is_certain);
        let has_events = self.forecast.horizon.is_some();
        let rows = fate_rows(self.forecast);
        let (anyway, rows): (Vec<FateRow<'_>>, Vec<FateRow<'_>>) =
            rows.into_iter().partition(|row| row.is_anyway);
        let counts = counts(&rows);
        self.write_summary(&counts);
        self.write_fates("Terminating", &rows, &counts);
        self.write_fates("Undetermined", &rows, &counts);
        if has_events {
            if !certain.is_empty() {
                self.out.plain("\nEvents:");
                self.write_timeline(&certain);
            }
            self.write_possible(&possible);
        } else {
            self.write_deleted();
        }
        self.write_fates("Released", &rows, &counts);
        if !has_events {
            self.write_fates("Kept", &rows, &counts);
        }
        if !anyway.is_empty() {
            self.heading("Happens anyway", anyway.len());
            self.write_grouped(anyway.iter());
        }
        if self.detail.steps {
            self.write_steps();
        }
        self.write_notes();
    }

    fn write_summary(&mut self, counts: &[(&str, usize)]) {
        let forecast = self.forecast;
        let counts = counts.iter();
        let counts = counts.filter(|(word, _)| *word != "kept" || forecast.horizon.is_none());
        let counts: Vec<String> = counts.map(|(word, count)| format!("{count} {word}")).collect();
        let mut findings = forecast.findings.iter();
        let nothing = findings.find(|finding| matches!(finding, Finding::NothingSelected { .. }));
        let counts = match (counts.is_empty(), nothing) {
            (true, Some(nothing)) => line_text(&nothing.to_string()),
            (true, None) => "nothing changes".to_owned(),
            (false, _) => counts.join(", "),
        };
        let (began, until) = (moment(forecast.began), moment(forecast.until()));
        self.out.plain(match forecast.horizon {
            Some(horizon) => format!("{began} UTC to {until} UTC ({}): {counts}", span(horizon)),
            None => counts,
        });
        let is_anyway = |object: &ObjectRef| forecast.fate(object).is_some_and(|fate| fate.is_anyway);
        let removed = forecast.removals().filter(|removal| !is_anyway(removal.object));
        let kinds = counted(removed.map(|removal| &*removal.object.kind));
        if !kinds.is_empty() {
            self.out.items("  ", "", &kinds);
        }
    }

    /// Writes the objects with one fate other than deleted.
    fn write_fates(&mut self, title: &str, rows: &[FateRow<'_>], counts: &[(&str, usize)]) {
        let word = title.to_lowercase();
        if let Some((_, count)) = counts.iter().find(|(counted, _)| *counted == word) {
            self.heading(title, *count);
            let of_word = rows.iter().filter(|row| row.word == word);
            // Missing data of an object without a text is listed by controller.
            self.write_grouped(of_word.filter(|row| word != "undetermined" || !row.text.is_empty()));
        }
    }

    /// Writes the events of objects whose fates are undetermined, with the condition under which they happen.
    fn write_possible(&mut self, events: &[Event<'_>]) {
        if events.is_empty() {
            return;
        }
        let shown = events.iter().flat_map(Event::subjects);
        let shown: BTreeSet<Name<'_>> = shown.map(|subject| Name::from(subject.object)).collect();
        let unknown = self.forecast.fates.iter();
        let condition = condition(unknown.filter(|fate| shown.contains(&Name::from(&*fate.object))));
        self.out.plain(format_args!("\nEvents if {condition}:"));
        self.write_timeline(events);
    }

    /// Writes the deleted objects below their owners. Owners that are not deleted are shown with their fate.
    fn write_deleted(&mut self) {
        let is_deleted = |fate: &ObjectFate| is_deleted(fate) && !fate.is_anyway;
        let count = self.forecast.fates.iter().filter(|fate| is_deleted(fate)).count();
        if count == 0 {
            return;
        }
        self.heading("Deleted", count);
        let (rows, _) = rows(self.forecast, usize::MAX, false);
        // A row is written if it is deleted or something below it is.
        let has_deleted = |row: &Row<'_>| row.objects.iter().any(|fate| is_deleted(fate));
        let mut is_written: Vec<bool> = rows.iter().map(has_deleted).collect();
        for (at, row) in rows.iter().enumerate().rev() {
            if let (true, Some((above, _))) = (is_written[at], row.parent) {
                is_written[above] = true;
            }
        }
        let written = rows.iter().zip(is_written).filter(|(_, is_written)| *is_written);
        let written = written.filter_map(|(row, _)| Some((row, row.objects.first()?)));
        let mut named = 0;
        for (row, first) in written.take(self.detail.rows_max) {
            let mut line = names_of_kind(&row.names(), self.detail.objects_max);
            match is_deleted(first) {
                true => named += row.objects.len(),
                false => line.push_str(&format!(" ({})", first.fate.word())),
            }
            let indent = "  ".repeat(row.depth.min(DEPTH_MAX));
            self.out.line(&format!("  {indent}- "), &line);
        }
        if count > named {
            self.out.line("  - ", &number(count - named, "more object"));
        }
    }

    /// Writes the heading of the objects with one fate.
    fn heading(&mut self, title: &str, count: usize) {
        let code = match title {
            "Deleted" => 31,
            "Terminating" => 33,
            "Released" => 34,
            "Kept" => 32,
            _ => 35,
        };
        self.out.plain(match self.detail.colours {
            true => format!("\n\u{1b}[1;{code}m{title}: {count}\u{1b}[0m"),
            false => format!("\n{title}: {count}"),
        });
    }

    /// Writes every request.
    fn write_steps(&mut self) {
        self.out
            .plain(format_args!("\nRequests: {}", self.forecast.timeline.len()));
        for (at, step) in self.forecast.timeline.iter().enumerate() {
            let seconds = step.at.as_secs_f64();
            let text = format!("{step}{}", response(step));
            self.out
                .line(&format!("  {:>3}. {seconds:>8.3}s  ", at + 1), &text);
        }
    }

    /// Writes objects, grouped by kind and text, in the order of the first object of each group.
    fn write_grouped<'o>(&mut self, rows: impl Iterator<Item = &'o FateRow<'o>>) {
        let mut groups: IndexMap<[&str; 3], Vec<Name<'o>>, FixedState> = IndexMap::default();
        for FateRow { name, text, .. } in rows {
            groups
                .entry([name.group, name.kind, text])
                .or_default()
                .push(*name);
        }
        for ([.., text], names) in groups {
            let colon = if text.is_empty() { "" } else { ": " };
            let names = names_of_kind(&names, self.detail.objects_max);
            self.out.line("  - ", &format!("{names}{colon}{text}"));
        }
    }
}

/// The response of a request that failed.
fn response(step: &Step) -> String {
    match &step.failure {
        Some(refusal) => format!(" (response {}: {refusal})", step.code),
        None if step.code < 300 => String::new(),
        None => format!(" (response {})", step.code),
    }
}

/// The condition under which the events of the timeline happen.
fn condition<'a>(undetermined: impl Iterator<Item = &'a ObjectFate>) -> &'static str {
    let missing = undetermined.flat_map(|fate| fate.fate.missing());
    let is_owner = |missing: &Missing| matches!(missing, Missing::Owner { .. } | Missing::Kind { .. });
    let (owners, rest): (Vec<&Missing>, Vec<&Missing>) = missing.partition(|missing| is_owner(missing));
    match (owners.is_empty(), rest.is_empty()) {
        (false, true) => "all owners that are missing from the dump exist",
        (true, _) => "no missing data matters",
        (false, false) => "all owners that are missing from the dump exist and no other missing data matters",
    }
}
