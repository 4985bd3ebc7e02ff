//! A forecast as text: what becomes of what, in which order, and what is worth knowing.

use std::fmt::{self, Write};

use crate::{
    Fate, Forecast, Step,
    explain::{Sentence, Told},
};

/// How much of a forecast to write.
#[expect(clippy::exhaustive_structs, reason = "callers build it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Whether to write every call.
    pub timeline: bool,
    /// How many objects of each fate to name.
    pub objects_max: usize,
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            timeline: false,
            objects_max: 20,
        }
    }
}

/// The order in which fates are told: what cannot be taken back first.
const ORDER: [&str; 5] = ["deleted", "stuck", "undecided", "released", "kept"];

impl Forecast {
    /// Writes the forecast for a person.
    #[must_use]
    pub fn to_text(&self, detail: Detail) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _infallible = self.write_text(&mut out, detail);
        out
    }

    fn write_text(&self, out: &mut String, detail: Detail) -> fmt::Result {
        let counts = self.counts();
        let summary: Vec<String> = ORDER
            .iter()
            .filter_map(|word| counts.get(word).map(|count| format!("{count} {word}")))
            .collect();
        let summary = if summary.is_empty() {
            "nothing happens".to_owned()
        } else {
            summary.join(", ")
        };
        writeln!(out, "{summary}")?;
        for word in ORDER {
            let mut fates = self
                .fates
                .iter()
                .filter(|fate| fate.fate.word() == word)
                .peekable();
            if fates.peek().is_none() {
                continue;
            }
            writeln!(out, "\n{word}:")?;
            let mut rest = 0;
            for (at, fate) in fates.enumerate() {
                if at >= detail.objects_max {
                    rest += 1;
                    continue;
                }
                match &fate.fate {
                    Fate::Deleted { .. } | Fate::Kept => writeln!(out, "  {}", fate.object.short())?,
                    other => writeln!(out, "  {} {}", fate.object.short(), Sentence(other))?,
                }
            }
            if rest > 0 {
                writeln!(out, "  and {rest} more")?;
            }
        }
        if detail.timeline && !self.timeline.is_empty() {
            writeln!(out, "\ntimeline:")?;
            for (at, step) in self.timeline.iter().enumerate() {
                writeln!(
                    out,
                    "  {:>3}. {:>8}  {}{}",
                    at + 1,
                    seconds(step),
                    Told(step),
                    code(step)
                )?;
            }
        }
        if !self.warnings.is_empty() {
            writeln!(out, "\nwarning events:")?;
            for warning in &self.warnings {
                writeln!(out, "  {}: {warning}", warning.dependent.short())?;
            }
        }
        if !self.findings.is_empty() {
            writeln!(out, "\nworth knowing:")?;
            for finding in &self.findings {
                writeln!(out, "  {finding}")?;
            }
        }
        writeln!(out, "\nassumed: {}", self.assumptions)
    }
}

fn seconds(step: &Step) -> String {
    format!("{:.3}s", step.at.as_secs_f64())
}

fn code(step: &Step) -> String {
    match &step.failure {
        Some(message) => format!(" (answered {}: {message})", step.code),
        None if step.code < 300 => String::new(),
        None => format!(" (answered {})", step.code),
    }
}
