//! A cleanup forecast as text that a person reads, in 120 columns.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    time::Duration,
};

use kubegc_core::{ObjectRef, Timestamp, metadata};
use kubegc_lifecycle::volume::{FINALIZER_CLAIM_PROTECTION, FINALIZER_VOLUME_PROTECTION};

use super::{
    CleanupForecast,
    because::{because, changes},
    story::{End, Event, Subject, events},
    words::{day, moment, number, some_of, span, time_of_day},
};
use crate::{
    Fate, ObjectFate,
    fate::{Finding, Missing},
    node::units::wrapped,
};

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

/// Where the texts of a timeline begin.
const ACTOR_COLUMNS: usize = 25;

struct Text<'a> {
    forecast: &'a CleanupForecast,
    detail: CleanupDetail,
    out: &'a mut String,
}

impl Text<'_> {
    fn write(mut self) -> fmt::Result {
        self.write_summary()?;
        self.write_timeline()?;
        self.write_stuck()?;
        self.write_undecided()?;
        self.write_rest()
    }

    fn write_summary(&mut self) -> fmt::Result {
        let CleanupForecast { began, until, .. } = *self.forecast;
        let kinds: Vec<&str> = self.forecast.collected().map(|gone| &*gone.object.kind).collect();
        let from = format!("{} UTC, and {} on", moment(began), span(until.since(began)));
        match kinds.len() {
            0 => writeln!(self.out, "{from}: nothing goes"),
            1 => writeln!(self.out, "{from}: 1 object goes"),
            all => writeln!(self.out, "{from}: {all} objects go"),
        }?;
        match kinds.len() {
            0 => Ok(()),
            _ => writeln!(self.out, "{}", wrapped_items("  ", "", &counted(kinds))),
        }
    }

    fn write_timeline(&mut self) -> fmt::Result {
        let mut events = events(self.forecast);
        events.retain(|event| self.detail.changes || event.subject.end != End::Changed);
        let mut told = None;
        let mut instants = events.chunk_by(|a, b| a.at.truncate_to_secs() == b.at.truncate_to_secs());
        for instant in instants.by_ref().take(self.detail.instants_max) {
            let Some(first) = instant.first() else { continue };
            let at = first.at;
            if told.replace(at.utc_date()) != Some(at.utc_date()) {
                writeln!(self.out, "\n{}", day(at))?;
            }
            let later = match span(at.since(self.forecast.began)) {
                now if now == "0s" => "now".to_owned(),
                later => format!("+{later}"),
            };
            writeln!(self.out, "  {}  {later}", time_of_day(at))?;
            self.write_instant(instant)?;
        }
        let rest: Vec<&Event<'_>> = instants.flatten().collect();
        let (Some(first), Some(last)) = (rest.first(), rest.last()) else {
            return Ok(());
        };
        let subjects = rest.iter().flat_map(|event| {
            let followers = event.followers.iter().copied();
            std::iter::once(event.subject).chain(followers)
        });
        let gone = subjects.filter(|subject| matches!(subject.end, End::Gone(_)));
        let gone = counted(gone.map(|subject| &*subject.object.kind));
        let before = format!("and from {} to {}: ", moment(first.at), moment(last.at));
        writeln!(self.out, "\n{}", wrapped_items("  ", &before, &gone))
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
        let actor = format!("    {:<ACTOR_COLUMNS$}", telling.actor);
        writeln!(self.out, "{}", wrapped(&actor, &text))?;
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
            writeln!(self.out, "{}", wrapped_items(&below, "", &names))?;
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
        writeln!(self.out, "{}", wrapped_items(below, them, &parts))
    }

    fn write_stuck(&mut self) -> fmt::Result {
        let stuck = fates(self.forecast, |fate| matches!(fate, Fate::Stuck { .. }));
        if stuck.is_empty() {
            return Ok(());
        }
        writeln!(
            self.out,
            "\nStuck, being deleted and still there at the end: {}",
            stuck.len()
        )?;
        let by = stuck.iter().map(|fate| (holders(&fate.fate), &fate.object));
        self.write_grouped(by)
    }

    fn write_undecided(&mut self) -> fmt::Result {
        let unknown = fates(self.forecast, |fate| matches!(fate, Fate::Undecided { .. }));
        let forecast = self.forecast;
        let objects: BTreeSet<(&str, &str, &str)> = forecast
            .undecided
            .iter()
            .map(|one| {
                (
                    one.object.resource.kind(),
                    &*one.object.namespace,
                    &*one.object.name,
                )
            })
            .chain(unknown.iter().map(|fate| {
                let object = &fate.object;
                (&*object.kind, &*object.namespace, &*object.name)
            }))
            .collect();
        if objects.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\nUndecided: {}", objects.len())?;
        let by_owner = unknown.iter().map(|fate| (unknown_of(&fate.fate), &fate.object));
        self.write_grouped(by_owner)?;
        let mut groups: Vec<(String, &str, Vec<String>)> = Vec::new();
        let mut places: BTreeMap<(String, &str), usize> = BTreeMap::new();
        for one in &forecast.undecided {
            let text = format!("{}: {}", one.mechanism.actor(), one.reason);
            let kind = one.object.resource.kind();
            let place = *places.entry((text.clone(), kind)).or_insert(groups.len());
            if place == groups.len() {
                groups.push((text, kind, Vec::new()));
            }
            groups[place].2.push(match &*one.object.namespace {
                "" => one.object.name.to_string(),
                namespace => format!("{namespace}/{}", one.object.name),
            });
        }
        for (text, kind, names) in groups {
            self.write_named(kind, names, &text)?;
        }
        Ok(())
    }

    fn write_rest(&mut self) -> fmt::Result {
        let CleanupForecast {
            forecast,
            frame,
            began,
            next_at,
            ..
        } = self.forecast;
        if let Some(next_at) = next_at {
            let (at, later) = (moment(*next_at), span(next_at.since(*began)));
            writeln!(self.out, "\nNext thing to look at: {at} UTC (+{later})")?;
        }
        let warnings = forecast
            .warnings
            .iter()
            .map(|warning| format!("{}: {warning}", named(&warning.dependent)));
        let findings = told_together(&forecast.findings, self.detail.objects_max);
        let worth: Vec<String> = warnings.chain(findings).collect();
        if !worth.is_empty() {
            writeln!(self.out, "\nWorth knowing:")?;
        }
        for finding in worth {
            writeln!(self.out, "{}", wrapped("  ! ", &finding))?;
        }
        writeln!(self.out, "\nAssumed:")?;
        for assumption in [forecast.assumptions.to_string(), frame.to_string()] {
            for assumption in assumption.split("; ") {
                writeln!(self.out, "{}", wrapped("  - ", assumption))?;
            }
        }
        Ok(())
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
        writeln!(self.out, "{}", wrapped("  - ", &line))
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
            because: because(&event.step.why, event.at),
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

/// Things in a row, in lines that end between them unless a thing is long.
fn wrapped_items(mark: &str, before: &str, items: &[String]) -> String {
    let items: Vec<String> = items
        .iter()
        .map(|item| match item.len() {
            0..WHOLE_MAX => item.replace(' ', "\u{a0}"),
            _ => item.clone(),
        })
        .collect();
    wrapped(mark, &format!("{before}{}", items.join(", "))).replace('\u{a0}', " ")
}

/// How long things are at most that are not broken.
const WHOLE_MAX: usize = 60;

fn fates(forecast: &CleanupForecast, is_meant: fn(&Fate) -> bool) -> Vec<&ObjectFate> {
    let fates = forecast.forecast.fates.iter();
    fates.filter(|fate| is_meant(&fate.fate)).collect()
}

/// What keeps an object that is being deleted.
fn holders(fate: &Fate) -> String {
    let Fate::Stuck {
        finalizers,
        blocked_by,
        in_grace,
    } = fate
    else {
        return String::new();
    };
    if *in_grace {
        return "its grace period has not ended".to_owned();
    }
    let blocked_by: Vec<String> = blocked_by.iter().map(named).collect();
    let holders: Vec<String> = finalizers
        .iter()
        .map(|finalizer| match &**finalizer {
            metadata::FINALIZER_FOREGROUND => format!(
                "it waits for {}",
                some_of(blocked_by.clone(), HOLDERS_MAX).join(", ")
            ),
            FINALIZER_CLAIM_PROTECTION => format!("{finalizer} holds it while pods use it"),
            FINALIZER_VOLUME_PROTECTION => format!("{finalizer} holds it while it is bound"),
            _ => format!("{finalizer} holds it"),
        })
        .collect();
    holders.join(", ")
}

/// What is not known of an object's owners.
fn unknown_of(fate: &Fate) -> String {
    let Fate::Undecided { missing } = fate else {
        return String::new();
    };
    let unknown: BTreeSet<String> = missing
        .iter()
        .map(|missing| match missing {
            Missing::Owner { resource, .. } => {
                format!("whether an owner exists: dump all {resource} and declare them complete")
            }
            other => other.to_string(),
        })
        .collect();
    let unknown: Vec<String> = unknown.into_iter().collect();
    unknown.join("; ")
}

/// Findings, with those told together of which there are many.
fn told_together(findings: &[Finding], names_max: usize) -> Vec<String> {
    let mut controllers: BTreeMap<&ObjectRef, usize> = BTreeMap::new();
    let mut told = Vec::new();
    for finding in findings {
        match finding {
            // A cron job makes jobs by its schedule, whatever becomes of former ones.
            Finding::OwnerMayRecreate { controller, .. } if *controller.kind == *"CronJob" => {}
            Finding::OwnerMayRecreate { controller, .. } => *controllers.entry(controller).or_default() += 1,
            other => told.push(other.to_string()),
        }
    }
    if !controllers.is_empty() {
        let names = controllers
            .iter()
            .map(|(controller, count)| format!("{} ({count})", named(controller)));
        let names = some_of(names.collect(), names_max).join(", ");
        told.insert(
            0,
            format!("controllers that stay may create anew what goes of theirs: {names}"),
        );
    }
    told
}

/// How many objects to name that hold up one.
const HOLDERS_MAX: usize = 5;
