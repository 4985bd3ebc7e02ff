//! A forecast as text for people, in 120 columns: its objects by fate, and its events by instant, each with
//! its actor, reason and consequences.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use kubegc_core::{ObjectRef, Timestamp};

use super::{
    events::{End, Event, Subject, because, changes, events},
    rows::{DEPTH_MAX, FateRow, Row, assumptions, counts, fate_rows, is_deleted, notes, rows},
};
use crate::{
    Finding, Forecast, Missing, ObjectFate, Step,
    words::{
        Lines, Name, counted, day, later, line_text, moment, names_of_kind, number, some_of, span,
        time_of_day,
    },
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

struct Text<'a> {
    forecast: &'a Forecast,
    detail: Detail,
    out: Lines,
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

    /// Writes events, instant by instant.
    fn write_timeline(&mut self, events: &[Event<'_>]) {
        let mut printed = None;
        let mut instants = events.chunk_by(|a, b| a.at.truncate_to_secs() == b.at.truncate_to_secs());
        for instant in instants.by_ref().take(self.detail.instants_max) {
            let at = instant[0].at;
            if printed.replace(at.utc_date()) != Some(at.utc_date()) {
                self.out.plain(format_args!("\n{}", day(at)));
            }
            let later = later(at.since(self.forecast.began));
            self.out.plain(format_args!("  {}  {later}", time_of_day(at)));
            self.write_instant(instant);
        }
        let rest: Vec<&Event<'_>> = instants.flatten().collect();
        let (Some(first), Some(last)) = (rest.first(), rest.last()) else {
            return;
        };
        let subjects = rest.iter().flat_map(|event| event.subjects());
        let removed = subjects.filter(|subject| subject.end == End::Removed);
        let removed = counted(removed.map(|subject| &*subject.object.kind));
        let before = format!("and from {} to {}: ", moment(first.at), moment(last.at));
        self.out.plain("");
        self.out.items("  ", &before, &removed);
    }

    /// Writes the events of one instant. Events with the same actor and reason are grouped.
    fn write_instant(&mut self, events: &[Event<'_>]) {
        let mut groups: IndexMap<_, Vec<&Event<'_>>, FixedState> = IndexMap::default();
        for event in events {
            let because = because(&event.step.why, event.subject.object);
            // The end of one object, and of several. Empty for objects that are removed.
            let ends = match event.subject.end {
                End::Removed => ["", ""],
                End::Terminating => [" is terminating", " are terminating"],
                End::Changed => changes(&event.step.why),
            };
            let line = (event.step.actor.to_string(), because, ends);
            groups.entry(line).or_default().push(event);
        }
        for ((actor, because, ends), group) in groups {
            self.write_group(&actor, &because, ends, &group);
        }
    }

    fn write_group(&mut self, actor: &str, because: &str, ends: [&str; 2], group: &[&Event<'_>]) {
        let lengths = group.iter().map(|event| event.subject.since(event.at));
        let lengths: BTreeSet<Option<Duration>> = lengths.collect();
        let is_uniform = lengths.len() == 1;
        let objects = group.iter().map(|event| event.subject.object);
        let (named, end) = match group {
            [event] => (event.subject.object.short(), ends[0]),
            _ => (
                counted(objects.clone().map(|object| &*object.kind)).join(", "),
                ends[1],
            ),
        };
        let mut text = format!("{named}{end}: {because}");
        if let (true, Some(Some(length))) = (is_uniform, lengths.first()) {
            text.push_str(&format!("; removed {} later", span(*length)));
        }
        // Names of controllers are long, and their common ending is redundant.
        let actor = actor.trim_end_matches("-controller");
        let actor = format!("    {actor:<ACTOR_COLUMNS$}");
        self.out.line(&actor, &text);
        let below = " ".repeat(actor.chars().count() + 2);
        if group.len() > 1 {
            let first = group[0].subject.object;
            let is_one_kind = objects.map(|object| &object.kind).all(|kind| *kind == first.kind);
            let names = group.iter().map(|event| {
                let object = event.subject.object;
                let name = match is_one_kind {
                    true => Name::from(object).with_namespace(),
                    false => object.short(),
                };
                match event.subject.since(event.at).filter(|_| !is_uniform) {
                    Some(length) => format!("{name} ({} later)", span(length)),
                    None => name,
                }
            });
            let names = some_of(names.collect(), self.detail.objects_max);
            self.out.items(&below, "", &names);
        }
        self.write_followers(group, &below);
    }

    fn write_followers(&mut self, group: &[&Event<'_>], below: &str) {
        let first = group[0];
        let mut kinds: BTreeMap<(&str, bool), Vec<Subject<'_>>> = BTreeMap::new();
        for follower in group.iter().flat_map(|event| &event.followers) {
            let key = (&*follower.object.kind, follower.end != End::Removed);
            kinds.entry(key).or_default().push(*follower);
        }
        let namespace = &*first.subject.object.namespace;
        let parts = kinds.into_iter().map(|((kind, is_terminating), followers)| {
            let terminating = if is_terminating { " (terminating)" } else { "" };
            let lengths = followers.iter().filter_map(|follower| follower.since(first.at));
            let later = match lengths.max() {
                Some(length) if followers.len() == 1 => format!(" {} later", span(length)),
                Some(length) => format!(" within {}", span(length)),
                None => String::new(),
            };
            match &*followers {
                [one] => format!("{}{terminating}{later}", name_in(namespace, one).full()),
                several => {
                    let names = several.iter().map(|one| name_in(namespace, one).with_namespace());
                    let names = some_of(names.collect(), self.detail.objects_max);
                    let count = number(several.len(), &kind.to_lowercase());
                    format!("{count}{terminating} ({}){later}", names.join(", "))
                }
            }
        });
        let parts: Vec<String> = parts.collect();
        if !parts.is_empty() {
            let them = if group.len() == 1 { "it" } else { "them" };
            self.out.items(below, &format!("and with {them} "), &parts);
        }
    }

    /// Writes the next scheduled reconcile, warnings, findings and assumptions.
    fn write_notes(&mut self) {
        let forecast = self.forecast;
        if let Some(next_at) = forecast.next_at.filter(|_| forecast.horizon.is_some()) {
            let (at, later) = (moment(next_at), later(next_at.since(forecast.began)));
            self.out
                .plain(format_args!("\nNext reconcile: {at} UTC ({later})"));
        }
        let notes = notes(forecast, self.detail.objects_max);
        if !notes.is_empty() {
            self.out.plain("\nNotes:");
        }
        for note in notes {
            self.out.line("  ! ", &note);
        }
        self.out.plain("\nAssumed:");
        for assumption in assumptions(forecast) {
            self.out.line("  - ", &assumption);
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

/// Column at which the texts of a timeline begin.
const ACTOR_COLUMNS: usize = 37;

/// The name of an object, without its namespace if that is this one.
fn name_in<'a>(namespace: &str, of: &Subject<'a>) -> Name<'a> {
    let mut name = Name::from(of.object);
    if name.namespace == namespace {
        name.namespace = "";
    }
    name
}

impl Subject<'_> {
    /// Time until the object is removed, if not at once.
    fn since(self, at: Timestamp) -> Option<Duration> {
        let length = self.removed_at.map(|removed| removed.since(at));
        length.filter(|length| length.as_secs() > 0)
    }
}
