//! A diagnosis as text, and as SARIF, the form that code scanning services read.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use kubegc_control_plane::finalizers;
use kubegc_core::{ObjectRef, Timestamp, printable};
use serde_json::{Value, json};

use crate::{
    Diagnosis, Fate,
    doctor::{Blocked, Fix, RootCause, Terminating, WrongReference},
    judge::detail,
    words::{Lines, moment, number, span},
};

impl Diagnosis {
    /// Writes the diagnosis as text: the causes that keep objects in deletion, the other terminating objects,
    /// and wrong owner references by problem, at most `objects_max` of each.
    ///
    /// Control characters in names are written as escapes.
    pub fn to_text(&self, objects_max: usize) -> String {
        let out = Lines::default();
        let mut text = Text {
            diagnosis: self,
            objects_max,
            out,
        };
        text.write();
        text.out.0
    }
}

struct Text<'a> {
    diagnosis: &'a Diagnosis,
    objects_max: usize,
    out: Lines,
}

impl Text<'_> {
    fn write(&mut self) {
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
        self.out.plain(format_args!(
            "{} {} {} in deletion; {} being deleted; {} wrong, {} that the dump cannot confirm{}",
            number(causes.len(), "cause"),
            if causes.len() == 1 { "keeps" } else { "keep" },
            number(stuck.len(), "object"),
            match others.len() {
                1 => "1 object is".to_owned(),
                count => format!("{count} objects are"),
            },
            number(wrong.len(), "owner reference"),
            unknown.len(),
            match refusing.len() {
                0 => String::new(),
                1 => "; 1 cause refuses requests".to_owned(),
                count => format!("; {count} causes refuse requests"),
            },
        ));
        self.section("Kept in deletion by", &causes, Self::write_cause);
        self.section("Requests of controllers refused by", &refusing, Self::write_cause);
        let title = "Broken extensions that nothing waits for";
        self.section(title, &idle, Self::write_cause);
        self.section("Being deleted", &others, |text, item| {
            let (object, outcome) = (item.object.short(), outcome_of_terminating(item));
            let since = text.since(item.since);
            text.out.line("  - ", &format!("{object}{since}: {outcome}"));
        });
        self.write_references("Wrong owner references", &wrong);
        self.write_references("Owner references that the dump cannot confirm", &unknown);
    }

    /// Writes a command, in one line so that it can be copied.
    fn command(&mut self, fix: &Fix) {
        self.out
            .plain(format_args!("    fix: {}", printable(&fix.command)));
        self.out.line("    risk: ", &fix.risk);
    }

    /// Writes the first of some items below a title, and the number of the others.
    fn section<T>(&mut self, title: &str, items: &[T], write: impl Fn(&mut Self, &T)) {
        if !items.is_empty() {
            self.out.plain(format_args!("\n{title}: {}", items.len()));
            self.some(items, write);
        }
    }

    fn some<T>(&mut self, items: &[T], write: impl Fn(&mut Self, &T)) {
        for item in items.iter().take(self.objects_max) {
            write(self, item);
        }
        if items.len() > self.objects_max {
            let more = items.len() - self.objects_max;
            self.out.plain(format_args!("  and {more} more"));
        }
    }

    fn write_cause(&mut self, cause: &&RootCause) {
        let text = format!("{}{}", cause.message, self.since(cause.since));
        self.out.line("  - ", &text);
        if !cause.blocks.is_empty() {
            let blocks = self.blocks(&cause.blocks);
            self.out.line("    blocks: ", &blocks);
        }
        self.out.line("    should act: ", &cause.actor);
        for evidence in &cause.evidence {
            self.out.line("    evidence: ", evidence);
        }
        cause.fixes.iter().for_each(|fix| self.command(fix));
        for warning in &cause.warnings {
            self.out.line("    do not: ", warning);
        }
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

    fn write_references(&mut self, title: &str, references: &[&WrongReference]) {
        if references.is_empty() {
            return;
        }
        self.out.plain(format_args!("\n{title}: {}", references.len()));
        let mut problems: IndexMap<&str, Vec<&WrongReference>, FixedState> = IndexMap::default();
        for item in references {
            problems.entry(item.problem).or_default().push(item);
        }
        for of_problem in problems.values() {
            self.some(of_problem, Self::write_reference);
        }
    }

    fn write_reference(&mut self, item: &&WrongReference) {
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
        self.out.line("  - ", &text);
        self.out.line("    outcome: ", &outcome);
        item.fix.iter().for_each(|fix| self.command(fix));
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

impl Diagnosis {
    /// The diagnosis as a SARIF 2.1.0 log: a result for each cause that keeps objects in deletion, for each
    /// broken extension, and for each wrong owner reference. References that the dump cannot confirm are
    /// notes. Objects are logical locations, because a dump is not a source file.
    ///
    /// See the [specification](https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html).
    pub fn to_sarif(&self) -> Value {
        let causes = self.causes.iter().filter(|cause| !cause.is_recent);
        let causes = causes.filter_map(|one| {
            let blocked = one.blocks.iter().map(|blocked| &blocked.object);
            let object = one.objects.iter().chain(blocked).next()?;
            let level = if one.blocks.is_empty() { "warning" } else { "error" };
            let fixes: Vec<&str> = one.fixes.iter().map(|fix| &*fix.command).collect();
            Some(result(one.cause, level, object, &one.message, &fixes))
        });
        let references = self.references.iter().map(|one| {
            let level = if one.is_certain { "error" } else { "note" };
            let name = one.reference.short();
            let message = format!("owner {name} (uid {}): {}", one.reference.uid, one.message);
            let fixes: Vec<&str> = one.fix.iter().map(|fix| &*fix.command).collect();
            result(one.problem, level, &one.object, &message, &fixes)
        });
        let results: Vec<Value> = causes.chain(references).collect();
        let rules = results.iter().filter_map(|result| result["ruleId"].as_str());
        let rules: BTreeSet<&str> = rules.collect();
        let rules: Vec<Value> = rules.iter().map(|id| json!({ "id": id })).collect();
        json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": {
                    "name": "kubegc",
                    "version": env!("CARGO_PKG_VERSION"),
                    "rules": rules,
                } },
                "results": results,
            }],
        })
    }
}

fn result(rule: &str, level: &str, object: &ObjectRef, message: &str, fixes: &[&str]) -> Value {
    json!({
        "ruleId": rule,
        "level": level,
        "message": { "text": format!("{}: {message}", object.short()) },
        "locations": [{ "logicalLocations": [{
            "name": object.name,
            "fullyQualifiedName": object.short(),
            "kind": "resource",
        }] }],
        "properties": { "uid": object.uid, "fixes": fixes },
    })
}
