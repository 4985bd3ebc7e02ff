//! The timeline of a report: events by instant, each with its actor, reason and consequences.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    time::Duration,
};

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use kubegc_core::Timestamp;

use super::{
    events::{End, Event, Subject},
    reasons::{because, changes},
    text::Text,
};
use crate::words::{Name, counted, day, later, moment, number, some_of, span, time_of_day};

/// Column at which the texts of a timeline begin.
const ACTOR_COLUMNS: usize = 37;

impl Text<'_> {
    /// Writes events, instant by instant.
    pub(super) fn write_timeline(&mut self, events: &[Event<'_>]) -> fmt::Result {
        let mut printed = None;
        let mut instants = events.chunk_by(|a, b| a.at.truncate_to_secs() == b.at.truncate_to_secs());
        for instant in instants.by_ref().take(self.detail.instants_max) {
            let Some(first) = instant.first() else { continue };
            let at = first.at;
            if printed.replace(at.utc_date()) != Some(at.utc_date()) {
                writeln!(self.out, "\n{}", day(at))?;
            }
            let later = later(at.since(self.forecast.began));
            writeln!(self.out, "  {}  {later}", time_of_day(at))?;
            self.write_instant(instant)?;
        }
        let rest: Vec<&Event<'_>> = instants.flatten().collect();
        let (Some(first), Some(last)) = (rest.first(), rest.last()) else {
            return Ok(());
        };
        let subjects = rest.iter().flat_map(|event| event.subjects());
        let removed = subjects.filter(|subject| subject.end == End::Removed);
        let removed = counted(removed.map(|subject| &*subject.object.kind));
        let before = format!("and from {} to {}: ", moment(first.at), moment(last.at));
        writeln!(self.out)?;
        self.items("  ", &before, &removed)
    }

    /// Writes the events of one instant. Events with the same actor and reason are grouped.
    fn write_instant(&mut self, events: &[Event<'_>]) -> fmt::Result {
        let mut groups: IndexMap<_, Vec<&Event<'_>>, FixedState> = IndexMap::default();
        for event in events {
            let because = because(&event.step.why, event.subject.object);
            // The end of one object, and of several. Empty for objects that are removed.
            let ends = match event.subject.end {
                End::Removed => ["", ""],
                End::Terminating => ["is terminating", "are terminating"],
                End::Changed => changes(&event.step.why),
            };
            let line = (event.step.actor.to_string(), because, ends);
            groups.entry(line).or_default().push(event);
        }
        let mut groups = groups.iter();
        groups.try_for_each(|((actor, because, ends), group)| self.write_group(actor, because, *ends, group))
    }

    fn write_group(
        &mut self,
        actor: &str,
        because: &str,
        ends: [&str; 2],
        group: &[&Event<'_>],
    ) -> fmt::Result {
        let Some(first) = group.first() else { return Ok(()) };
        let kinds: BTreeSet<&str> = group.iter().map(|event| &*event.subject.object.kind).collect();
        let lengths: BTreeSet<Option<Duration>> =
            group.iter().map(|event| event.subject.since(event.at)).collect();
        let mut text = match group {
            [event] => event.subject.object.short(),
            _ => counted(group.iter().map(|event| &*event.subject.object.kind)).join(", "),
        };
        let end = ends[usize::from(group.len() > 1)];
        text.push_str(if end.is_empty() { "" } else { " " });
        text.push_str(&format!("{end}: {because}"));
        let is_uniform = lengths.len() == 1;
        if let Some(length) = first.subject.since(first.at).filter(|_| is_uniform) {
            text.push_str(&format!("; removed {} later", span(length)));
        }
        // Names of controllers are long, and their common ending is redundant.
        let actor = actor.trim_end_matches("-controller");
        let actor = format!("    {actor:<ACTOR_COLUMNS$}");
        self.line(&actor, &text)?;
        let below = " ".repeat(actor.chars().count() + 2);
        if group.len() > 1 {
            let name = |event: &&Event<'_>| {
                let object = event.subject.object;
                let name = match kinds.len() {
                    1 => Name::from(object).with_namespace(),
                    _ => object.short(),
                };
                match event.subject.since(event.at).filter(|_| !is_uniform) {
                    Some(length) => format!("{name} ({} later)", span(length)),
                    None => name,
                }
            };
            let names = some_of(group.iter().map(name).collect(), self.detail.objects_max);
            self.items(&below, "", &names)?;
        }
        self.write_followers(group, &below)
    }

    fn write_followers(&mut self, group: &[&Event<'_>], below: &str) -> fmt::Result {
        let Some(first) = group.first() else { return Ok(()) };
        let mut kinds: BTreeMap<(&str, bool), Vec<Subject<'_>>> = BTreeMap::new();
        for follower in group.iter().flat_map(|event| &event.followers) {
            let key = (&*follower.object.kind, follower.end != End::Removed);
            kinds.entry(key).or_default().push(*follower);
        }
        if kinds.is_empty() {
            return Ok(());
        }
        let namespace = &first.subject.object.namespace;
        let name = |follower: &Subject<'_>| match follower.object.namespace == *namespace {
            true => follower.object.name.to_string(),
            false => Name::from(follower.object).with_namespace(),
        };
        let parts = kinds.into_iter().map(|((kind, is_terminating), followers)| {
            let terminating = if is_terminating { " (terminating)" } else { "" };
            let lengths = followers.iter().filter_map(|follower| follower.since(first.at));
            let later = match lengths.max() {
                Some(length) if followers.len() == 1 => format!(" {} later", span(length)),
                Some(length) => format!(" within {}", span(length)),
                None => String::new(),
            };
            match &*followers {
                [one] => {
                    let mut full = Name::from(one.object);
                    if full.namespace == &**namespace {
                        full.namespace = "";
                    }
                    format!("{}{terminating}{later}", full.full())
                }
                several => {
                    let names = some_of(several.iter().map(name).collect(), self.detail.objects_max);
                    let count = number(several.len(), &kind.to_lowercase());
                    format!("{count}{terminating} ({}){later}", names.join(", "))
                }
            }
        });
        let them = match group.len() {
            1 => "and with it ",
            _ => "and with them ",
        };
        let parts: Vec<String> = parts.collect();
        self.items(below, them, &parts)
    }
}

impl Subject<'_> {
    /// Time until the object is removed, if not at once.
    fn since(self, at: Timestamp) -> Option<Duration> {
        let length = self.removed_at.map(|removed| removed.since(at));
        length.filter(|length| length.as_secs() > 0)
    }
}
