//! A diagnosis as text.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
};

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use kubegc_control_plane::finalizers;
use kubegc_core::{ObjectRef, Timestamp, printable};

use super::sentences::detail;
use crate::words::{line_text, moment, number, span, written};
use crate::{
    Diagnosis, Fate,
    doctor::{Blocked, Fix, RootCause, Terminating, WrongReference},
    node::units::wrapped,
};

impl Diagnosis {
    /// Writes the diagnosis as text: the causes that keep objects in deletion, the other terminating objects,
    /// and wrong owner references by problem, at most `objects_max` of each.
    ///
    /// Control characters in names are written as escapes.
    pub fn to_text(&self, objects_max: usize) -> String {
        let diagnosis = self;
        written(|out| {
            Text {
                diagnosis,
                objects_max,
                out,
            }
            .write()
        })
    }
}

struct Text<'a> {
    diagnosis: &'a Diagnosis,
    objects_max: usize,
    out: &'a mut String,
}

impl Text<'_> {
    fn write(&mut self) -> fmt::Result {
        let diagnosis = self.diagnosis;
        let causes = diagnosis.causes.iter().filter(|cause| !cause.is_recent);
        let (idle, causes): (Vec<&RootCause>, Vec<&RootCause>) =
            causes.partition(|cause| cause.blocks.is_empty());
        let (refusing, causes): (Vec<&RootCause>, Vec<&RootCause>) =
            causes.into_iter().partition(|cause| cause.only_refuses());
        let stuck: BTreeSet<u32> = diagnosis.stuck().map(|one| one.position).collect();
        let others = diagnosis.terminating.iter().filter(|item| !item.is_stuck);
        let others: Vec<&Terminating> = others.collect();
        let references = diagnosis.references.iter();
        let (wrong, unknown): (Vec<&WrongReference>, Vec<&WrongReference>) =
            references.partition(|item| item.is_certain);
        write!(
            self.out,
            "{} {} {} in deletion; {} being deleted; {} wrong, {} that the dump cannot confirm",
            number(causes.len(), "cause"),
            if causes.len() == 1 { "keeps" } else { "keep" },
            number(stuck.len(), "object"),
            match others.len() {
                1 => "1 object is".to_owned(),
                count => format!("{count} objects are"),
            },
            number(wrong.len(), "owner reference"),
            unknown.len(),
        )?;
        match refusing.len() {
            0 => writeln!(self.out)?,
            1 => writeln!(self.out, "; 1 cause refuses requests")?,
            count => writeln!(self.out, "; {count} causes refuse requests")?,
        }
        self.section("Kept in deletion by", &causes, Self::write_cause)?;
        self.section("Requests of controllers refused by", &refusing, Self::write_cause)?;
        let title = "Broken extensions that nothing waits for";
        self.section(title, &idle, Self::write_cause)?;
        self.section("Being deleted", &others, |text, item| {
            let (object, outcome) = (item.object.short(), outcome_of_terminating(item));
            text.line("  - ", &format!("{object}{}: {outcome}", text.since(item.since)))
        })?;
        self.write_references("Wrong owner references", &wrong)?;
        self.write_references("Owner references that the dump cannot confirm", &unknown)
    }

    fn line(&mut self, mark: &str, text: &str) -> fmt::Result {
        writeln!(self.out, "{}", wrapped(mark, &line_text(text)))
    }

    /// Writes a command, in one line so that it can be copied.
    fn command(&mut self, fix: &Fix) -> fmt::Result {
        writeln!(self.out, "    fix: {}", printable(&fix.command))?;
        self.line("    risk: ", &fix.risk)
    }

    fn more(&mut self, count: usize) -> fmt::Result {
        match count.checked_sub(self.objects_max) {
            None | Some(0) => Ok(()),
            Some(more) => writeln!(self.out, "  and {more} more"),
        }
    }

    /// Writes the first of some items below a title, and the number of the others.
    fn section<T>(
        &mut self,
        title: &str,
        items: &[T],
        write: impl Fn(&mut Self, &T) -> fmt::Result,
    ) -> fmt::Result {
        if items.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n{title}: {}", items.len())?;
        let mut shown = items.iter().take(self.objects_max);
        shown.try_for_each(|item| write(self, item))?;
        self.more(items.len())
    }

    fn write_cause(&mut self, cause: &&RootCause) -> fmt::Result {
        self.line("  - ", &format!("{}{}", cause.message, self.since(cause.since)))?;
        if !cause.blocks.is_empty() {
            self.line("    blocks: ", &self.blocks(&cause.blocks))?;
        }
        self.line("    should act: ", &cause.actor)?;
        let mut evidence = cause.evidence.iter();
        evidence.try_for_each(|one| self.line("    evidence: ", one))?;
        cause.fixes.iter().try_for_each(|fix| self.command(fix))?;
        let mut warnings = cause.warnings.iter();
        warnings.try_for_each(|warning| self.line("    do not: ", warning))
    }

    /// The objects that a cause blocks, in causal order.
    fn blocks(&self, blocks: &[Blocked]) -> String {
        let (mut text, mut depth) = (String::new(), 0);
        for one in blocks.iter().take(self.objects_max) {
            text.push_str(match (text.is_empty(), one.depth > depth) {
                (true, _) => "",
                (false, true) => ", then ",
                (false, false) => ", ",
            });
            depth = one.depth;
            text.push_str(&one.object.short());
            match (one.since, &one.refused_request) {
                (Some(since), _) if since < self.diagnosis.now => {
                    text.push_str(&format!(" ({})", span(self.diagnosis.now.since(since))));
                }
                (Some(_), _) => {}
                (None, _) if one.is_refused => text.push_str(" (its deletion is refused)"),
                (None, Some(request)) => text.push_str(&format!(" (its {request} is refused)")),
                (None, None) => text.push_str(" (not deleted yet)"),
            }
        }
        match blocks.len().saturating_sub(self.objects_max) {
            0 => text,
            more => format!("{text} and {more} more"),
        }
    }

    /// A time as the end of a sentence, with its age.
    fn since(&self, since: Option<Timestamp>) -> String {
        let now = self.diagnosis.now;
        match since {
            None => String::new(),
            Some(since) if since < now => {
                format!(", since {} UTC ({})", moment(since), span(now.since(since)))
            }
            Some(since) => format!(", since {} UTC", moment(since)),
        }
    }

    fn write_references(&mut self, title: &str, references: &[&WrongReference]) -> fmt::Result {
        if references.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n{title}: {}", references.len())?;
        let mut problems: IndexMap<&str, Vec<&WrongReference>, FixedState> = IndexMap::default();
        for item in references {
            problems.entry(item.problem).or_default().push(item);
        }
        problems.values().try_for_each(|of_problem| {
            let mut shown = of_problem.iter().take(self.objects_max);
            shown.try_for_each(|item| self.write_reference(item))?;
            self.more(of_problem.len())
        })
    }

    fn write_reference(&mut self, item: &WrongReference) -> fmt::Result {
        let reference = &item.reference;
        let mut terminating = self.diagnosis.terminating.iter();
        let outcome = match (terminating.find(|one| one.object == item.object), &item.fate) {
            (Some(terminating), _) => outcome_of_terminating(terminating),
            (None, Fate::Deleted { by }) => format!("deleted by the {by}"),
            (None, Fate::Kept) => "kept".to_owned(),
            (None, fate) => outcome(fate, &item.object),
        };
        let owner = format!("{} {} {}", reference.api_version, reference.kind, reference.name);
        let (object, uid) = (item.object.short(), &reference.uid);
        let text = format!("{object}: owner {owner} (uid {uid}): {}", item.message);
        self.line("  - ", &text)?;
        self.line("    outcome: ", &outcome)?;
        match &item.fix {
            Some(fix) => self.command(fix),
            None => Ok(()),
        }
    }
}

/// The fate of a terminating object: the owners of its finalizers remove them, and then it is removed.
fn outcome_of_terminating(item: &Terminating) -> String {
    let Fate::Deleted { by } = &item.fate else {
        return outcome(&item.fate, &item.object);
    };
    let finalizers = item.finalizers.iter().map(|name| match finalizers::find(name) {
        Some(known) => format!("the {} has removed finalizer {name}", known.owner),
        None => format!("finalizer {name} is removed"),
    });
    let finalizers: Vec<String> = finalizers.collect();
    match finalizers.is_empty() {
        true => format!("removed by the {by}"),
        false => format!("removed once {}", finalizers.join(" and ")),
    }
}

/// The fate of an object that is not removed for certain.
fn outcome(fate: &Fate, of: &ObjectRef) -> String {
    let detail = detail(fate, of);
    match fate {
        Fate::Undetermined { .. } => format!("undetermined; unknown is {detail}"),
        _ => detail,
    }
}
