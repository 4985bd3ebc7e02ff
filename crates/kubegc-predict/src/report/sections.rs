//! The sections of a report with the objects of each fate.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
};

use super::{
    events::Event,
    fates::{FateRow, anyway_rows, counts, is_deleted},
    text::Text,
    tree::{DEPTH_MAX, Row, rows},
};
use crate::{
    ObjectFate,
    fate::Missing,
    words::{Name, names_of_kind, number},
};

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
        // Missing data of an object without a text is listed by controller.
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
        let shown = events.iter().flat_map(Event::subjects);
        let shown: BTreeSet<Name<'_>> = shown.map(|subject| Name::from(subject.object)).collect();
        let unknown = self.forecast.fates.iter();
        let condition = condition(unknown.filter(|fate| shown.contains(&Name::from(&*fate.object))));
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
        let (rows, _) = rows(self.forecast, usize::MAX, false);
        // A row is written if it is deleted or something below it is.
        let has_deleted = |row: &Row<'_>| row.objects.iter().any(|fate| is_deleted(fate));
        let mut is_written: Vec<bool> = rows.iter().map(has_deleted).collect();
        for (at, row) in rows.iter().enumerate().rev() {
            if let (true, Some(parent)) = (is_written[at], row.parent) {
                is_written[parent.row] = true;
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
            self.line(&format!("  {indent}- "), &line)?;
        }
        match count - named {
            0 => Ok(()),
            more => self.line("  - ", &number(more, "more object")),
        }
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
