//! Recorded writes and the forecast's timeline, object by object.

use std::{collections::BTreeMap, fmt};

use super::{
    format::{Case, RecordedIntent, Write},
    grade::code_text,
    question::Prediction,
    reasons::resources,
};

/// The intents with their status codes, and the writes about each object in the order of their times.
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
    let mut objects: BTreeMap<String, [Vec<String>; 2]> = BTreeMap::new();
    for write in &case.writes {
        let generated = || write.body.get("generateName")?.as_str();
        let name = match write.name.as_str() {
            "" => generated().unwrap_or_default(),
            name => name,
        };
        let resource = match resources(write).as_slice() {
            [resource] => resource.clone(),
            _ => "several resources".to_owned(),
        };
        let key = key(case, &resource, &write.namespace, name);
        objects.entry(key).or_default()[0].push(write.to_string());
    }
    for write in &prediction.writes {
        let key = key(case, &write.resource, &write.namespace, &write.name);
        let text = format!("{:8.3} {}", write.at.as_secs_f64(), write.text);
        objects.entry(key).or_default()[1].push(text);
    }
    for (key, [recorded, predicted]) in objects {
        out += &format!("{key}\n");
        for (side, lines) in [("recorded", recorded), ("predicted", predicted)] {
            for line in lines {
                out += &format!("  {side:9} {line}\n");
            }
        }
    }
    out
}

/// An object as both sides name it: the case's namespace is left out.
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
