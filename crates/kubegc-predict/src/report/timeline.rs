//! The timeline of a report: events by instant, each with its actor, reason and consequences.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use kubegc_core::Timestamp;

use super::{
    events::{End, Event, Subject, because, changes},
    text::Text,
};
use crate::words::{Name, counted, day, later, moment, number, some_of, span, time_of_day};

/// Column at which the texts of a timeline begin.
const ACTOR_COLUMNS: usize = 37;

impl Text<'_> {
    /// Writes events, instant by instant.
    pub(super) fn write_timeline(&mut self, events: &[Event<'_>]) {
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
}

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
