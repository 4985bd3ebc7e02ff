//! Writes the timeline of a report: what happens at each instant, by whom and why, and what goes with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    time::Duration,
};

use kubegc_core::Timestamp;

use super::{Text, counted, named, place_and_name};
use crate::cleanup::{
    because::{because, changes},
    story::{End, Event, Subject},
    words::{day, later, moment, number, some_of, span, time_of_day},
};

/// Where the texts of a timeline begin.
const ACTOR_COLUMNS: usize = 37;

impl Text<'_> {
    /// Writes what happens, instant by instant.
    pub(super) fn write_timeline(&mut self, events: &[Event<'_>]) -> fmt::Result {
        let mut told = None;
        let mut instants = events.chunk_by(|a, b| a.at.truncate_to_secs() == b.at.truncate_to_secs());
        for instant in instants.by_ref().take(self.detail.instants_max) {
            let Some(first) = instant.first() else { continue };
            let at = first.at;
            if told.replace(at.utc_date()) != Some(at.utc_date()) {
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
        let gone = subjects.filter(|subject| matches!(subject.end, End::Gone(_)));
        let gone = counted(gone.map(|subject| &*subject.object.kind));
        let before = format!("and from {} to {}: ", moment(first.at), moment(last.at));
        writeln!(self.out)?;
        self.tell_items("  ", &before, &gone)
    }

    /// Writes what happens at one instant: what has the same thing to tell stands together, where the first of it stands.
    fn write_instant(&mut self, events: &[Event<'_>]) -> fmt::Result {
        let mut groups: Vec<(Telling, Vec<&Event<'_>>)> = Vec::new();
        let mut places: BTreeMap<Telling, usize> = BTreeMap::new();
        for event in events {
            let telling = Telling::of(event);
            match places.get(&telling) {
                Some(&place) => groups[place].1.push(event),
                None => {
                    places.insert(telling.clone(), groups.len());
                    groups.push((telling, vec![event]));
                }
            }
        }
        groups
            .iter()
            .try_for_each(|(telling, group)| self.write_group(telling, group))
    }

    fn write_group(&mut self, telling: &Telling, group: &[&Event<'_>]) -> fmt::Result {
        let Some(first) = group.first() else { return Ok(()) };
        let kinds: BTreeSet<&str> = group.iter().map(|event| &*event.subject.object.kind).collect();
        let lengths: BTreeSet<Option<Duration>> = group
            .iter()
            .map(|event| event.subject.end.since(event.at))
            .collect();
        let mut text = match group {
            [event] => named(event.subject.object),
            _ => counted(group.iter().map(|event| &*event.subject.object.kind)).join(", "),
        };
        let fate = telling.fate[usize::from(group.len() > 1)];
        if !fate.is_empty() {
            text.push(' ');
            text.push_str(fate);
        }
        text.push_str(": ");
        text.push_str(&telling.because);
        let is_uniform = lengths.len() == 1;
        if let Some(length) = first.subject.end.since(first.at).filter(|_| is_uniform) {
            text.push_str(&format!("; gone {} later", span(length)));
        }
        // Names of controllers are long; their common ending says nothing.
        let actor = telling.actor.trim_end_matches("-controller");
        let actor = format!("    {actor:<ACTOR_COLUMNS$}");
        self.tell(&actor, &text)?;
        let below = " ".repeat(actor.chars().count() + 2);
        if group.len() > 1 {
            let name = |event: &&Event<'_>| {
                let object = event.subject.object;
                let name = match kinds.len() {
                    1 => place_and_name(object),
                    _ => named(object),
                };
                match event.subject.end.since(event.at).filter(|_| !is_uniform) {
                    Some(length) => format!("{name} ({} later)", span(length)),
                    None => name,
                }
            };
            let names = some_of(group.iter().map(name).collect(), self.detail.objects_max);
            self.tell_items(&below, "", &names)?;
        }
        self.write_followers(group, &below)
    }

    fn write_followers(&mut self, group: &[&Event<'_>], below: &str) -> fmt::Result {
        let Some(first) = group.first() else { return Ok(()) };
        let mut kinds: BTreeMap<(&str, bool), Vec<Subject<'_>>> = BTreeMap::new();
        for follower in group.iter().flat_map(|event| &event.followers) {
            let goes = matches!(follower.end, End::Gone(_));
            kinds
                .entry((&*follower.object.kind, !goes))
                .or_default()
                .push(*follower);
        }
        if kinds.is_empty() {
            return Ok(());
        }
        let namespace = &first.subject.object.namespace;
        let name = |follower: &Subject<'_>| match follower.object.namespace == *namespace {
            true => follower.object.name.to_string(),
            false => place_and_name(follower.object),
        };
        let parts = kinds.into_iter().map(|((kind, is_held), followers)| {
            let held = if is_held { ", which something holds" } else { "" };
            let later = match followers
                .iter()
                .filter_map(|follower| follower.end.since(first.at))
                .max()
            {
                Some(length) if followers.len() == 1 => format!(" {} later", span(length)),
                Some(length) => format!(" within {}", span(length)),
                None => String::new(),
            };
            match &*followers {
                [one] => format!("{kind} {}{held}{later}", name(one)),
                several => {
                    let names = some_of(several.iter().map(name).collect(), self.detail.objects_max);
                    format!(
                        "{}{held} ({}){later}",
                        number(several.len(), kind),
                        names.join(", ")
                    )
                }
            }
        });
        let them = if group.len() == 1 {
            "and with it "
        } else {
            "and with them "
        };
        let parts: Vec<String> = parts.collect();
        self.tell_items(below, them, &parts)
    }
}

/// What is to be told of an event beside its object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Telling {
    actor: String,
    because: String,
    /// What becomes of the object, where it does not just go; and of several.
    fate: [&'static str; 2],
}

impl Telling {
    fn of(event: &Event<'_>) -> Self {
        Self {
            actor: event.step.actor.to_string(),
            because: because(&event.step.why, event.subject.object),
            fate: match event.subject.end {
                End::Gone(_) => ["", ""],
                End::Held => ["is deleted, and held", "are deleted, and held"],
                End::Changed => changes(&event.step.why),
            },
        }
    }
}

impl End {
    /// How much later the object is gone, where it is not gone at once.
    fn since(self, at: Timestamp) -> Option<Duration> {
        match self {
            Self::Gone(gone) => Some(gone.since(at)).filter(|length| length.as_secs() > 0),
            Self::Held | Self::Changed => None,
        }
    }
}
