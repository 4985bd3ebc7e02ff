//! A cleanup forecast as text that a person reads, in 120 columns.

mod notes;
mod open;
mod timeline;

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use kubegc_core::ObjectRef;

use super::{
    CleanupForecast,
    story::{End, Event, events},
    words::{moment, number, printable, some_of, span},
};
use crate::node::units::wrapped;

/// How much of a cleanup forecast to write.
#[expect(clippy::exhaustive_structs, reason = "callers build it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupDetail {
    /// How many objects to name wherever several have the same thing to tell; all are counted. Default: 8.
    pub objects_max: usize,
    /// How many instants to tell of; what happens after them is only counted. Default: 100.
    pub instants_max: usize,
    /// Whether to tell what happens to objects that stay, such as marks. Default: yes.
    pub changes: bool,
}

impl Default for CleanupDetail {
    fn default() -> Self {
        Self {
            objects_max: 8,
            instants_max: 100,
            changes: true,
        }
    }
}

impl CleanupDetail {
    /// Everything, each object by its name.
    #[must_use]
    pub const fn everything() -> Self {
        Self {
            objects_max: usize::MAX,
            instants_max: usize::MAX,
            changes: true,
        }
    }
}

impl CleanupForecast {
    /// Writes the forecast for a person: what goes, instant by instant, with what follows from it; what is held; what is not known; what is assumed.
    ///
    /// What happens to objects whose fate is undecided stands below what is not known. Control characters in names are written as escapes.
    ///
    /// # Complexity
    /// O(n log n) for n steps and fates of the forecast.
    #[must_use]
    pub fn to_text(&self, detail: CleanupDetail) -> String {
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

struct Text<'a> {
    forecast: &'a CleanupForecast,
    detail: CleanupDetail,
    out: &'a mut String,
}

impl Text<'_> {
    fn write(mut self) -> fmt::Result {
        let mut events = events(self.forecast);
        events.retain(|event| self.detail.changes || event.subject.end != End::Changed);
        let (certain, possible): (Vec<Event<'_>>, Vec<Event<'_>>) =
            events.into_iter().partition(|event| event.is_certain);
        self.write_summary()?;
        self.write_timeline(&certain)?;
        self.write_stuck()?;
        self.write_undecided(&possible)?;
        self.write_notes()
    }

    fn write_summary(&mut self) -> fmt::Result {
        let CleanupForecast { began, until, .. } = *self.forecast;
        let kinds: Vec<&str> = self.forecast.collected().map(|gone| &*gone.object.kind).collect();
        write!(
            self.out,
            "{} UTC, and {} on: ",
            moment(began),
            span(until.since(began))
        )?;
        match kinds.len() {
            0 => write!(self.out, "nothing goes"),
            1 => write!(self.out, "1 object goes"),
            all => write!(self.out, "{all} objects go"),
        }?;
        match open::undecided(self.forecast).len() {
            0 => writeln!(self.out),
            undecided => writeln!(self.out, ", {undecided} undecided"),
        }?;
        match kinds.len() {
            0 => Ok(()),
            _ => self.tell_items("  ", "", &counted(kinds)),
        }
    }

    /// Writes a line, or several where it is long. All that comes from a dump goes through here or [`tell_items`](Self::tell_items).
    fn tell(&mut self, mark: &str, text: &str) -> fmt::Result {
        writeln!(self.out, "{}", wrapped(mark, &printable(text)))
    }

    /// Writes things in a row, in lines that end between them unless a thing is long.
    fn tell_items(&mut self, mark: &str, before: &str, items: &[String]) -> fmt::Result {
        let items: Vec<String> = items
            .iter()
            .map(|item| match item.len() {
                0..WHOLE_MAX => item.replace(' ', "\u{a0}"),
                _ => item.clone(),
            })
            .collect();
        let text = format!("{before}{}", items.join(", "));
        let lines = wrapped(mark, &printable(&text)).replace('\u{a0}', " ");
        writeln!(self.out, "{lines}")
    }

    /// Objects by kind and by what is to be said of them, in the order in which that is first said.
    fn write_grouped<'o>(&mut self, objects: impl Iterator<Item = (String, &'o ObjectRef)>) -> fmt::Result {
        let mut groups: Vec<(&str, String, Vec<String>)> = Vec::new();
        let mut places: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for (text, object) in objects {
            let place = *places
                .entry((&*object.kind, text.clone()))
                .or_insert(groups.len());
            if place == groups.len() {
                groups.push((&*object.kind, text, Vec::new()));
            }
            groups[place].2.push(place_and_name(object));
        }
        for (kind, text, names) in groups {
            self.write_named(kind, names, &text)?;
        }
        Ok(())
    }

    fn write_named(&mut self, kind: &str, names: Vec<String>, text: &str) -> fmt::Result {
        let line = match &*names {
            [name] => format!("{kind} {name}: {text}"),
            _ => format!(
                "{} ({}): {text}",
                number(names.len(), kind),
                some_of(names, self.detail.objects_max).join(", ")
            ),
        };
        self.tell("  - ", &line)
    }
}

/// `Pod shop/web`.
fn named(object: &ObjectRef) -> String {
    format!("{} {}", object.kind, place_and_name(object))
}

/// `shop/web`.
fn place_and_name(object: &ObjectRef) -> String {
    match &*object.namespace {
        "" => object.name.to_string(),
        namespace => format!("{namespace}/{}", object.name),
    }
}

/// How many there are of each kind, most first.
fn counted<'a>(kinds: impl IntoIterator<Item = &'a str>) -> Vec<String> {
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
