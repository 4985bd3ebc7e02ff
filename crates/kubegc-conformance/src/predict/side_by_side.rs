//! Recorded writes and the forecast's timeline as two columns, object by object.

use std::{collections::BTreeMap, fmt};

use super::{
    format::{Case, RecordedIntent, Write},
    grade::code_text,
    question::Prediction,
};

/// The characters of the left column.
const COLUMN: usize = 90;

/// The intents with their status codes, and the writes about each object in the order of their times. Objects
/// are listed in the order of their first recorded write.
pub(super) fn text(case: &Case, prediction: &Prediction) -> String {
    let mut out = format!(
        "{}\nat {}, read after {} s{}\n",
        case.title,
        case.at,
        case.observed_s,
        if case.quiet {
            ""
        } else {
            " while a controller retried"
        },
    );
    for (intent, code) in case.intent.iter().zip(&prediction.codes) {
        out += &format!(
            "{:8.3} {intent}: predicted {}, recorded {}\n",
            intent.at_seconds,
            code_text(*code),
            intent.code
        );
    }
    out += &format!("{:COLUMN$} | predicted\n", "recorded");
    for (key, (recorded, predicted)) in rows(case, prediction) {
        out += &format!("{key}\n");
        for at in 0..recorded.len().max(predicted.len()) {
            let [left, right] = [&recorded, &predicted].map(|lines| lines.get(at).map_or("", String::as_str));
            out += &format!("{left:COLUMN$.COLUMN$} | {right}\n");
        }
    }
    out
}

type Row = (Vec<String>, Vec<String>);

fn rows(case: &Case, prediction: &Prediction) -> Vec<(String, Row)> {
    let mut rows: Vec<(String, Row)> = Vec::new();
    let mut positions = BTreeMap::new();
    let mut row = |key: String| {
        let at = *positions.entry(key.clone()).or_insert(rows.len());
        if at == rows.len() {
            rows.push((key, Row::default()));
        }
        at
    };
    let recorded: Vec<usize> = case
        .writes
        .iter()
        .map(|write| {
            let resource = match write.group.as_str() {
                _ if !write.resources.is_empty() => "several resources".to_owned(),
                "" => write.resource.clone(),
                group => format!("{}.{group}", write.resource),
            };
            let generated = || write.body.get("generateName")?.as_str();
            let name = match write.name.as_str() {
                "" => generated().unwrap_or_default(),
                name => name,
            };
            row(key(case, &resource, &write.namespace, name))
        })
        .collect();
    let predicted: Vec<usize> = prediction
        .writes
        .iter()
        .map(|write| row(key(case, &write.resource, &write.namespace, &write.name)))
        .collect();
    for (write, at) in case.writes.iter().zip(recorded) {
        rows[at].1.0.push(write.to_string());
    }
    for (write, at) in prediction.writes.iter().zip(predicted) {
        let text = format!("{:8.3} {}", write.at.as_secs_f64(), write.text);
        rows[at].1.1.push(text);
    }
    rows
}

/// An object as both columns name it: the case's namespace is left out.
fn key(case: &Case, resource: &str, namespace: &str, name: &str) -> String {
    let separator = if name.is_empty() { "" } else { "/" };
    if namespace.is_empty() || namespace == case.prefix {
        format!("{resource}{separator}{name}")
    } else {
        format!("{resource}{separator}{name} -n {namespace}")
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:8.3} {} {}", self.at_seconds, self.by, self.verb)?;
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
        if !self.resources.is_empty() {
            write!(f, " {}", self.resources.join(", "))?;
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
