//! A forecast as text for people, in 120 columns.

use std::fmt::{self, Write as _};

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use kubegc_core::ObjectRef;

use super::{
    events::{End, Event, events},
    fates::{counts, fate_rows},
};
use crate::words::{Name, counted, line_text, moment, names_of_kind, span, written};
use crate::{Finding, Forecast, Step, node::units::wrapped};

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
    /// Whether to write the events by time, instead of a list of deleted objects. Default: only with a
    /// horizon.
    pub events: Option<bool>,
    /// Maximum number of rows of the tree of deleted objects; the objects of the others are counted. Default:
    /// 200.
    pub rows_max: usize,
    /// Maximum number of times in the list of events; later events are counted. Default: 100.
    pub instants_max: usize,
    /// Whether the events include changes of objects that are kept. Default: yes.
    pub changes: bool,
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
            events: None,
            instants_max: 100,
            changes: true,
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
        let forecast = self;
        written(|out| {
            Text {
                forecast,
                detail,
                out,
            }
            .write()
        })
    }
}

pub(super) struct Text<'a> {
    pub(super) forecast: &'a Forecast,
    pub(super) detail: Detail,
    pub(super) out: &'a mut String,
}

impl Text<'_> {
    fn write(mut self) -> fmt::Result {
        let mut events = events(self.forecast);
        events.retain(|event| self.detail.changes || event.subject.end != End::Changed);
        let (certain, possible): (Vec<Event<'_>>, Vec<Event<'_>>) =
            events.into_iter().partition(|event| event.is_certain);
        let has_events = self.detail.events.unwrap_or(self.forecast.horizon.is_some());
        self.write_summary()?;
        let rows = fate_rows(self.forecast);
        self.write_fates("Terminating", &rows)?;
        self.write_fates("Undetermined", &rows)?;
        if has_events {
            if !certain.is_empty() {
                writeln!(self.out, "\nEvents:")?;
                self.write_timeline(&certain)?;
            }
            self.write_possible(&possible)?;
        } else {
            self.write_deleted()?;
        }
        self.write_fates("Released", &rows)?;
        if !has_events {
            self.write_fates("Kept", &rows)?;
        }
        self.write_anyway()?;
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
        let counts = counts(forecast).into_iter();
        let counts = counts.filter(|(word, _)| *word != "kept" || forecast.horizon.is_none());
        let counts: Vec<String> = counts.map(|(word, count)| format!("{count} {word}")).collect();
        let mut findings = forecast.findings.iter();
        let nothing = findings.find(|finding| matches!(finding, Finding::NothingSelected { .. }));
        match (counts.is_empty(), nothing) {
            (true, Some(nothing)) => writeln!(self.out, "{}", line_text(&nothing.to_string()))?,
            (true, None) => writeln!(self.out, "nothing changes")?,
            (false, _) => writeln!(self.out, "{}", counts.join(", "))?,
        }
        let is_anyway = |object: &ObjectRef| forecast.fate(object).is_some_and(|fate| fate.is_anyway);
        let removed = forecast.removals().filter(|removal| !is_anyway(removal.object));
        let kinds = counted(removed.map(|removal| &*removal.object.kind));
        match kinds.is_empty() {
            true => Ok(()),
            false => self.items("  ", "", &kinds),
        }
    }

    /// Writes the heading of the objects with one fate.
    pub(super) fn heading(&mut self, title: &str, count: usize) -> fmt::Result {
        let code = match title {
            "Deleted" => 31,
            "Terminating" => 33,
            "Released" => 34,
            "Kept" => 32,
            _ => 35,
        };
        match self.detail.colours {
            true => writeln!(self.out, "\n\u{1b}[1;{code}m{title}: {count}\u{1b}[0m"),
            false => writeln!(self.out, "\n{title}: {count}"),
        }
    }

    /// Writes every request.
    fn write_steps(&mut self) -> fmt::Result {
        writeln!(self.out, "\nRequests: {}", self.forecast.timeline.len())?;
        for (at, step) in self.forecast.timeline.iter().enumerate() {
            let seconds = step.at.as_secs_f64();
            let text = format!("{step}{}", response(step));
            self.line(&format!("  {:>3}. {seconds:>8.3}s  ", at + 1), &text)?;
        }
        Ok(())
    }

    /// Writes a text, in several lines if it is long. All text of a dump is written by this function or
    /// [`items`](Self::items).
    pub(super) fn line(&mut self, mark: &str, text: &str) -> fmt::Result {
        writeln!(self.out, "{}", wrapped(mark, &line_text(text)))
    }

    /// Writes a comma-separated list. Lines are broken between items, unless an item is long.
    pub(super) fn items(&mut self, mark: &str, before: &str, items: &[String]) -> fmt::Result {
        let items = items.iter().map(|item| match item.len() {
            0..WHOLE_MAX => item.replace(' ', "\u{a0}"),
            _ => item.clone(),
        });
        let text = format!("{before}{}", items.collect::<Vec<_>>().join(", "));
        let lines = wrapped(mark, &line_text(&text)).replace('\u{a0}', " ");
        writeln!(self.out, "{lines}")
    }

    /// Writes objects, grouped by kind and text, in the order of the first object of each group.
    pub(super) fn write_grouped<'o>(
        &mut self,
        objects: impl Iterator<Item = (&'o str, Name<'o>)>,
    ) -> fmt::Result {
        let mut groups: IndexMap<[&str; 3], Vec<Name<'o>>, FixedState> = IndexMap::default();
        for (text, name) in objects {
            let key = [name.group, name.kind, text];
            groups.entry(key).or_default().push(name);
        }
        groups.iter().try_for_each(|([.., text], names)| {
            let colon = if text.is_empty() { "" } else { ": " };
            let names = names_of_kind(names, self.detail.objects_max);
            self.line("  - ", &format!("{names}{colon}{text}"))
        })
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

/// Maximum length of an item that is not broken.
const WHOLE_MAX: usize = 60;
