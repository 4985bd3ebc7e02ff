//! The recorded form of a case, and the outcomes that it records.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) kubernetes: String,
    /// The case's namespace, and the beginning of the names of its cluster-scoped objects.
    pub(super) prefix: String,
    pub(super) at: String,
    pub(super) before: Vec<Value>,
    /// The objects at the end of the first run.
    #[serde(default)]
    pub(super) after: Vec<Value>,
    pub(super) intent: Vec<RecordedIntent>,
    pub(super) fates: Vec<RecordedChange>,
    /// The distinct outcomes of all runs; the first one is that of `fates`.
    pub(super) repeat_outcomes: Vec<RepeatOutcome>,
    /// Whether nothing changed any more when the outcomes were read.
    pub(super) quiet: bool,
    /// When the outcomes were read, in seconds since `at`.
    pub(super) observed_s: f64,
    pub(super) writes: Vec<Write>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedIntent {
    /// `delete` or `deletecollection`.
    pub(super) verb: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    /// Empty for a cluster-scoped object.
    pub(super) namespace: String,
    /// Empty in a `deletecollection`.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// The DeleteOptions that were sent; `None` for a request without a body.
    pub(super) options: Option<kubegc_core::deletion::DeleteOptionsSpec>,
    #[serde(default)]
    pub(super) label_selector: Option<String>,
    /// Seconds since the time of the dump.
    pub(super) at_seconds: f64,
    pub(super) code: u16,
}

/// The outcome of an object, named by its id.
#[derive(Deserialize)]
pub(super) struct RecordedChange {
    pub(super) id: String,
    /// In `fates`.
    #[serde(default)]
    uid: String,
    /// In the outcome of a run: the number of objects with this id and outcome.
    #[serde(default)]
    pub(super) count: usize,
    fate: FateWord,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    released: BTreeSet<String>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum FateWord {
    Deleted,
    Terminating,
    Present,
    Unchanged,
    Created,
}

/// The outcome of one or more runs.
#[derive(Deserialize)]
pub(super) struct RepeatOutcome {
    /// The entries that are not `unchanged`.
    pub(super) changes: Vec<RecordedChange>,
}

/// One write request about the objects of the case.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Write {
    pub(super) by: String,
    pub(super) verb: String,
    pub(super) group: String,
    pub(super) resource: String,
    /// The resources of several requests of the namespace controller.
    pub(super) resources: Vec<String>,
    /// Absent where it is the case's namespace, and for cluster-scoped objects.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) subresource: String,
    pub(super) code: u16,
    pub(super) reason: String,
    /// The API server's message, where the recording has one.
    pub(super) message: String,
    pub(super) body: Map<String, Value>,
    pub(super) at_seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Terminating,
    Present,
    Deleted,
    Undetermined,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct End {
    pub(super) state: State,
    /// The ids of the owners whose references it lost; of a deleted object none.
    pub(super) lost: BTreeSet<String>,
    /// The finalizers that a terminating object has, sorted, those of a Namespace's spec among them.
    pub(super) finalizers: Vec<String>,
}

pub(super) fn is_namespace(object: &Value) -> bool {
    object["kind"] == "Namespace" && object["apiVersion"] == "v1"
}

impl End {
    /// The outcome of an object that is not deleted.
    pub(super) fn alive(is_terminating: bool, lost: BTreeSet<String>, mut finalizers: Vec<String>) -> Self {
        finalizers.sort();
        if !is_terminating {
            finalizers.clear();
        }
        let state = if is_terminating {
            State::Terminating
        } else {
            State::Present
        };
        Self {
            state,
            lost,
            finalizers,
        }
    }

    /// An outcome without owners and finalizers.
    pub(super) const fn bare(state: State) -> Self {
        Self {
            state,
            lost: BTreeSet::new(),
            finalizers: Vec::new(),
        }
    }

    /// The same outcome, with any finalizers.
    pub(super) fn without_finalizers(&self) -> Self {
        Self {
            finalizers: Vec::new(),
            ..self.clone()
        }
    }

    /// The outcome of an object that stays as it is.
    pub(super) fn unchanged(object: &Value) -> Self {
        let names = [&object["metadata"]["finalizers"], &object["spec"]["finalizers"]];
        let names = names[..if is_namespace(object) { 2 } else { 1 }].iter();
        let names = names.filter_map(|names| names.as_array()).flatten();
        Self::alive(
            object["metadata"]["deletionTimestamp"].is_string(),
            BTreeSet::new(),
            names.filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
        )
    }
}

impl RecordedChange {
    fn is_created(&self) -> bool {
        self.fate == FateWord::Created
    }

    /// The outcome; `None` where the object is as it was, or a new one.
    pub(super) fn end(&self) -> Option<End> {
        let finalizers = self.finalizers.iter();
        let finalizers = finalizers.map(|name| name.strip_prefix("spec:").unwrap_or(name).to_owned());
        match self.fate {
            FateWord::Deleted => Some(End::bare(State::Deleted)),
            FateWord::Terminating => Some(End::alive(true, self.released.clone(), finalizers.collect())),
            FateWord::Present => Some(End::alive(false, self.released.clone(), Vec::new())),
            FateWord::Unchanged | FateWord::Created => None,
        }
    }
}

impl Case {
    /// The ids of the objects of the dump by uid.
    pub(super) fn ids(&self) -> BTreeMap<&str, &str> {
        let known = self.fates.iter().filter(|fate| !fate.is_created());
        known.map(|fate| (&*fate.uid, &*fate.id)).collect()
    }

    /// The outcomes of all objects of the dump by uid, as if nothing changed.
    pub(super) fn unchanged(&self) -> BTreeMap<String, End> {
        let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let objects = self.before.iter();
        objects
            .map(|object| (uid(object), End::unchanged(object)))
            .collect()
    }

    /// The recorded outcomes of all objects of the dump by uid.
    pub(super) fn recorded(&self) -> BTreeMap<String, End> {
        let mut ends = self.unchanged();
        for fate in &self.fates {
            if let Some(end) = fate.end() {
                ends.insert(fate.uid.clone(), end);
            }
        }
        ends
    }
}

impl Write {
    /// Its resources with their groups, as in `deployments.apps`.
    pub(super) fn resources(&self) -> Vec<String> {
        let qualified = |group: &str, resource: &str| match group {
            "" => resource.to_owned(),
            group => format!("{resource}.{group}"),
        };
        if self.resources.is_empty() {
            return vec![qualified(&self.group, &self.resource)];
        }
        let paths = self.resources.iter();
        paths
            .map(|path| path.rsplit_once('/').unwrap_or(("", path.as_str())))
            .map(|(group, resource)| qualified(group, resource))
            .collect()
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}/{}",
            self.by,
            self.verb,
            self.resources().join(", "),
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

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Deleted => "deleted",
            State::Terminating => "terminating",
            State::Present => "present",
            State::Undetermined => "undetermined",
        })?;
        if !self.lost.is_empty() {
            let lost: Vec<&str> = self.lost.iter().map(String::as_str).collect();
            write!(f, " without owner {}", lost.join(" and "))?;
        }
        if !self.finalizers.is_empty() {
            write!(f, " with finalizer {}", self.finalizers.join(" and "))?;
        }
        Ok(())
    }
}
