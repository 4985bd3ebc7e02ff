//! Recorded writes and the forecast's timeline, in the order of their times.

use std::fmt;

use super::{
    format::{Case, RecordedIntent, Write},
    grade::code_text,
    question::Prediction,
    reasons::resources,
};

/// The intents with their status codes, and the writes of both sides.
pub(super) fn text(case: &Case, prediction: &Prediction) -> String {
    let retried = if case.quiet {
        ""
    } else {
        " while a controller retried"
    };
    let mut out = format!(
        "{}\nat {}, read after {} s{retried}\n",
        case.title, case.at, case.observed_s
    );
    for (intent, code) in case.intent.iter().zip(&prediction.codes) {
        out += &format!(
            "{:8.3} {intent}: predicted {}, recorded {}\n",
            intent.at_seconds,
            code_text(*code),
            intent.code
        );
    }
    let recorded = case
        .writes
        .iter()
        .map(|write| (write.at_seconds, "recorded", write.to_string()));
    let predicted = prediction.timeline.iter().map(|step| {
        let text = format!("{} {} {}: {step}", step.actor, step.act, step.code);
        (step.at.as_secs_f64(), "predicted", text)
    });
    let mut lines: Vec<_> = recorded.chain(predicted).collect();
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (at, side, line) in lines {
        out += &format!("{at:8.3} {side:9} {line}\n");
    }
    out
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}/{}",
            self.by,
            self.verb,
            resources(self).join(", "),
            self.name
        )?;
        if !self.subresource.is_empty() {
            write!(f, " {}", self.subresource)?;
        }
        write!(f, " {}", self.code)?;
        if !self.reason.is_empty() {
            write!(f, " {}", self.reason)?;
        }
        if !self.message.is_empty() {
            write!(f, " ({})", self.message)?;
        }
        for (field, value) in &self.body {
            write!(f, " {field}={value}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RecordedIntent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.verb, self.api_version, self.kind)?;
        for part in [
            Some(self.namespace.as_str()),
            self.name.as_deref(),
            self.label_selector.as_deref(),
        ] {
            if let Some(part) = part.filter(|part| !part.is_empty()) {
                write!(f, " {part}")?;
            }
        }
        let Some(options) = &self.options else {
            return Ok(());
        };
        if let Some(policy) = &options.propagation_policy {
            write!(f, " propagationPolicy={policy}")?;
        }
        if let Some(orphan) = options.orphan_dependents {
            write!(f, " orphanDependents={orphan}")?;
        }
        if let Some(seconds) = options.grace_period_seconds {
            write!(f, " gracePeriodSeconds={seconds}")?;
        }
        Ok(())
    }
}
