//! A diagnosis as text.

use std::fmt::{self, Write as _};

use kubegc_control_plane::finalizers;
use kubegc_core::{ObjectRef, printable};

use super::{
    fates::detail,
    words::{line_text, moment, number, span},
};
use crate::{
    Diagnosis, Fate,
    doctor::{Fix, Terminating, WrongReference},
    node::units::wrapped,
};

impl Diagnosis {
    /// Writes the diagnosis as text: objects that stay terminating, terminating objects that will be removed,
    /// and wrong owner references by problem, at most `objects_max` objects of each.
    ///
    /// Control characters in names are written as escapes.
    #[must_use]
    pub fn to_text(&self, objects_max: usize) -> String {
        let mut out = String::new();
        let mut text = Text {
            diagnosis: self,
            objects_max,
            out: &mut out,
        };
        // Writing to a string does not fail.
        let _infallible = text.write();
        out
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
        let (stuck, removed): (Vec<&Terminating>, Vec<&Terminating>) =
            diagnosis.terminating.iter().partition(|item| item.is_stuck());
        let (wrong, unknown): (Vec<&WrongReference>, Vec<&WrongReference>) = diagnosis
            .references
            .iter()
            .partition(|item| item.problem.is_certain());
        writeln!(
            self.out,
            "{} stuck in deletion, {} terminating and removed soon, {} wrong, {} that the dump cannot confirm",
            number(stuck.len(), "object"),
            removed.len(),
            number(wrong.len(), "owner reference"),
            unknown.len(),
        )?;
        self.write_terminating("Stuck in deletion", &stuck)?;
        self.write_terminating("Terminating", &removed)?;
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

    fn write_terminating(&mut self, title: &str, objects: &[&Terminating]) -> fmt::Result {
        if objects.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n{title}: {}", objects.len())?;
        for item in objects.iter().take(self.objects_max) {
            let mut text = item.object.short();
            if let Some(since) = item.since {
                text.push_str(&format!(", since {} UTC", moment(since)));
                if since < self.diagnosis.now {
                    text.push_str(&format!(" ({})", span(self.diagnosis.now.since(since))));
                }
            }
            text.push_str(&format!(": {}", outcome_of_terminating(item)));
            self.line("  - ", &text)?;
            if let Some(bug) = item.bug {
                self.line("    bug: ", bug)?;
            }
            for finalizer in &item.foreign_finalizers {
                let workloads: Vec<String> =
                    finalizer.similar_workloads.iter().map(ObjectRef::short).collect();
                let text = match (workloads.is_empty(), finalizer.workloads_are_complete) {
                    (false, _) => format!("workloads with a similar name: {}", workloads.join(", ")),
                    (true, true) => "no workload of the dump has a similar name".to_owned(),
                    (true, false) => {
                        "no workload of the dump has a similar name, and the dump does not have all workloads"
                            .to_owned()
                    }
                };
                self.line("    ", &format!("{}: {text}", finalizer.name))?;
                self.command(&finalizer.fix)?;
            }
        }
        self.more(objects.len())
    }

    fn write_references(&mut self, title: &str, references: &[&WrongReference]) -> fmt::Result {
        if references.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n{title}: {}", references.len())?;
        let mut words: Vec<&str> = Vec::new();
        for item in references {
            if !words.contains(&item.problem.word()) {
                words.push(item.problem.word());
            }
        }
        for word in words {
            let of_problem: Vec<&&WrongReference> = references
                .iter()
                .filter(|item| item.problem.word() == word)
                .collect();
            for item in of_problem.iter().take(self.objects_max) {
                self.write_reference(item)?;
            }
            self.more(of_problem.len())?;
        }
        Ok(())
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
        let text = format!(
            "{}: owner {} {} {} (uid {}): {}",
            item.object.short(),
            reference.api_version,
            reference.kind,
            reference.name,
            reference.uid,
            item.problem
        );
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
