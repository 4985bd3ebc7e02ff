//! A forecast as text for people, in 120 columns.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use kubegc_core::ObjectRef;

use super::{
    events::{End, Event, events},
    fates::undetermined,
    words::{line_text, moment, number, some_of, span},
};
use crate::{Fate, Forecast, Step, explain::StepText, node::units::wrapped};

/// How much of a forecast to write.
#[expect(clippy::exhaustive_structs, reason = "callers build it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// How many objects to name where several are listed; all are counted. Default: 8.
    pub objects_max: usize,
    /// Whether to write what happens instant by instant, instead of a list of deleted objects. Default: only with a
    /// horizon.
    pub events: Option<bool>,
    /// How many instants to write; what happens later is counted. Default: 100.
    pub instants_max: usize,
    /// Whether the events include changes of objects that are kept. Default: yes.
    pub changes: bool,
    /// Whether to write every request. Default: no.
    pub steps: bool,
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            objects_max: 8,
            events: None,
            instants_max: 100,
            changes: true,
            steps: false,
        }
    }
}

impl Detail {
    /// Names every object and writes every instant.
    #[must_use]
    pub const fn everything() -> Self {
        Self {
            objects_max: usize::MAX,
            events: None,
            instants_max: usize::MAX,
            changes: true,
            steps: false,
        }
    }
}

impl Forecast {
    /// Writes the forecast for a person: the counts; what is terminating and what it waits for; what is undetermined and
    /// which data would settle it; what is deleted, released and kept; notes and assumptions.
    ///
    /// Control characters in names are written as escapes.
    ///
    /// # Complexity
    /// O(n log n) for n steps and fates.
    #[must_use]
    pub fn to_text(&self, detail: Detail) -> String {
        let mut out = String::new();
        let text = Text {
            forecast: self,
            detail,
            out: &mut out,
        };
        // Writing to a string does not fail.
        let _infallible = text.write();
        out
    }
}

pub(super) struct Text<'a> {
    pub(super) forecast: &'a Forecast,
    pub(super) detail: Detail,
    pub(super) out: &'a mut String,
}

/// The fates in the order of the summary.
const ORDER: [&str; 5] = ["deleted", "terminating", "undetermined", "released", "kept"];

impl Text<'_> {
    fn write(mut self) -> fmt::Result {
        let mut events = events(self.forecast);
        events.retain(|event| self.detail.changes || event.subject.end != End::Changed);
        let (certain, possible): (Vec<Event<'_>>, Vec<Event<'_>>) =
            events.into_iter().partition(|event| event.is_certain);
        let has_events = self.detail.events.unwrap_or(self.forecast.horizon.is_some());
        self.write_summary()?;
        self.write_terminating()?;
        self.write_undetermined()?;
        if has_events {
            if !certain.is_empty() {
                writeln!(self.out, "\nEvents:")?;
                self.write_timeline(&certain)?;
            }
            self.write_possible(&possible)?;
        } else {
            self.write_fates("Deleted", |fate| matches!(fate, Fate::Deleted { .. }))?;
        }
        self.write_fates("Released", |fate| matches!(fate, Fate::Released { .. }))?;
        if !has_events {
            self.write_fates("Kept", |fate| matches!(fate, Fate::Kept))?;
        }
        if self.detail.steps {
            self.write_steps()?;
        }
        self.write_notes()
    }

    fn write_summary(&mut self) -> fmt::Result {
        let forecast = self.forecast;
        if let Some(horizon) = forecast.horizon {
            let (began, until) = (moment(forecast.began), moment(forecast.until()));
            write!(self.out, "{began} UTC to {until} UTC ({}): ", span(horizon))?;
        }
        let mut counts = forecast.counts();
        // Controllers may also be unable to decide about objects that nothing else happens to.
        match undetermined(forecast) {
            0 => counts.remove("undetermined"),
            count => counts.insert("undetermined", count),
        };
        if forecast.horizon.is_some() {
            counts.remove("kept");
        }
        let counts: Vec<String> = ORDER
            .iter()
            .filter_map(|word| counts.get(word).map(|count| format!("{count} {word}")))
            .collect();
        match counts.is_empty() {
            true => writeln!(self.out, "nothing changes")?,
            false => writeln!(self.out, "{}", counts.join(", "))?,
        }
        let kinds: Vec<&str> = forecast.removals().map(|removal| &*removal.object.kind).collect();
        match kinds.len() {
            0 => Ok(()),
            _ => self.items("  ", "", &counted(kinds)),
        }
    }

    /// Writes every request.
    fn write_steps(&mut self) -> fmt::Result {
        writeln!(self.out, "\nRequests: {}", self.forecast.timeline.len())?;
        for (at, step) in self.forecast.timeline.iter().enumerate() {
            let seconds = step.at.as_secs_f64();
            let text = format!("{}{}", StepText(step), response(step));
            self.line(&format!("  {:>3}. {seconds:>8.3}s  ", at + 1), &text)?;
        }
        Ok(())
    }

    /// Writes a line, or several where it is long. All text of a dump is written by this or [`items`](Self::items).
    pub(super) fn line(&mut self, mark: &str, text: &str) -> fmt::Result {
        writeln!(self.out, "{}", wrapped(mark, &line_text(text)))
    }

    /// Writes things in a row, in lines that end between them unless a thing is long.
    pub(super) fn items(&mut self, mark: &str, before: &str, items: &[String]) -> fmt::Result {
        let items: Vec<String> = items
            .iter()
            .map(|item| match item.len() {
                0..WHOLE_MAX => item.replace(' ', "\u{a0}"),
                _ => item.clone(),
            })
            .collect();
        let text = format!("{before}{}", items.join(", "));
        let lines = wrapped(mark, &line_text(&text)).replace('\u{a0}', " ");
        writeln!(self.out, "{lines}")
    }

    /// Writes objects by kind and text, in the order of their first.
    pub(super) fn write_grouped<'o>(
        &mut self,
        objects: impl Iterator<Item = (String, &'o ObjectRef)>,
    ) -> fmt::Result {
        let objects = objects.map(|(text, object)| {
            let name = place_and_name(&object.namespace, &object.name);
            (text, &*object.kind, name)
        });
        self.write_named_groups(objects)
    }

    /// Writes texts, kinds and names of objects as [`write_grouped`](Self::write_grouped) does.
    pub(super) fn write_named_groups<'o>(
        &mut self,
        objects: impl Iterator<Item = (String, &'o str, String)>,
    ) -> fmt::Result {
        let mut groups: Vec<(&str, String, Vec<String>)> = Vec::new();
        let mut positions: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for (text, kind, name) in objects {
            let position = *positions.entry((kind, text.clone())).or_insert(groups.len());
            if position == groups.len() {
                groups.push((kind, text, Vec::new()));
            }
            groups[position].2.push(name);
        }
        for (kind, text, names) in groups {
            self.write_named(kind, names, &text)?;
        }
        Ok(())
    }

    fn write_named(&mut self, kind: &str, names: Vec<String>, text: &str) -> fmt::Result {
        let mut line = named_group(kind, names, self.detail.objects_max);
        if !text.is_empty() {
            line.push_str(": ");
            line.push_str(text);
        }
        self.line("  - ", &line)
    }
}

/// `Pod shop/a`, or `2 Pods (shop/a, shop/b)`.
pub(super) fn named_group(kind: &str, names: Vec<String>, names_max: usize) -> String {
    match &*names {
        [name] => format!("{kind} {name}"),
        _ => {
            let count = number(names.len(), kind);
            format!("{count} ({})", some_of(names, names_max).join(", "))
        }
    }
}

/// The response of a request that failed.
fn response(step: &Step) -> String {
    match &step.failure {
        Some(message) => format!(" (response {}: {message})", step.code),
        None if step.code < 300 => String::new(),
        None => format!(" (response {})", step.code),
    }
}

/// `Pod shop/web`.
pub(super) fn named(object: &ObjectRef) -> String {
    let name = place_and_name(&object.namespace, &object.name);
    format!("{} {name}", object.kind)
}

/// `shop/web`.
pub(super) fn place_and_name(namespace: &str, name: &str) -> String {
    match namespace {
        "" => name.to_owned(),
        _ => format!("{namespace}/{name}"),
    }
}

/// How many there are of each kind, most first.
pub(super) fn counted<'a>(kinds: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for kind in kinds {
        *counts.entry(kind).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|&(kind, count)| (Reverse(count), kind));
    counts.iter().map(|&(kind, count)| number(count, kind)).collect()
}

/// How long things are at most that are not broken.
const WHOLE_MAX: usize = 60;
