//! The JSON form of a question: a dump, deletes, a period and assumptions. `schemas/question.json` describes
//! each field.

use std::{
    collections::BTreeMap, error::Error, fmt::Display, path::Path, str::FromStr, sync::Arc, time::Duration,
};

use kubegc_control_plane::finalizers::external_components;
use kubegc_controllers::Cloud;
use kubegc_core::{
    DeleteOptions, KubernetesVersion, PropagationPolicy, Timestamp, Uid, deletion::DeleteOptionsSpec,
};
use kubegc_snapshot::Reader;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    Assumptions, Cluster, Instance, Intent, ObjectName, PredictError, Question, Selection, Target,
    error::usage,
};

pub(super) const QUESTION_SCHEMA: &str = "kubegc-question/1";

/// A question.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct QuestionDocument<'a> {
    #[serde(rename = "schema")]
    _schema: String,
    pub(super) ask: Ask,
    kubernetes: Option<String>,
    #[serde(borrow)]
    dump: Option<&'a RawValue>,
    complete: Vec<String>,
    api_resources: Option<String>,
    lenient: bool,
    #[serde(borrow)]
    delete: Vec<DeleteDocument<'a>>,
    now: Option<Timestamp>,
    horizon_seconds: Option<u64>,
    everything: bool,
    only: Option<Vec<String>>,
    without: Vec<String>,
    assumptions: AssumptionsDocument,
}

/// The report that is wanted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Ask {
    #[default]
    Forecast,
    Diagnosis,
}

/// One or several deletes, by the arguments of `kubectl delete` or by the identity of an object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct DeleteDocument<'a> {
    arguments: Vec<String>,
    namespace: Option<Arc<str>>,
    all_namespaces: bool,
    selector: Option<String>,
    all: bool,
    #[serde(borrow)]
    filename: Option<&'a RawValue>,
    object: Option<ObjectDocument>,
    options: Option<DeleteOptionsSpec>,
    after_seconds: u64,
}

/// The identity of an object, as in answers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ObjectDocument {
    api_version: String,
    kind: String,
    #[serde(default)]
    namespace: Arc<str>,
    name: Arc<str>,
    #[serde(default)]
    uid: Uid,
}

impl<'a> QuestionDocument<'a> {
    /// Reads a question.
    pub(super) fn read(text: &'a [u8]) -> Result<Self, PredictError> {
        /// The version is read first: another one may have other fields.
        #[derive(Deserialize)]
        struct Version {
            schema: String,
        }
        let Version { schema } = read("the question", text)?;
        if schema != QUESTION_SCHEMA {
            let expected = QUESTION_SCHEMA;
            return usage(format!(
                "the question: its schema is {schema:?}, expected {expected:?}"
            ));
        }
        read("the question", text)
    }

    /// Reads the dump of the question, and these files.
    pub(super) fn cluster(&self, paths: &[&Path]) -> Result<Cluster, Box<dyn Error>> {
        let version = parsed("kubernetes", self.kubernetes.as_deref())?;
        let mut reader = Reader::new(version.unwrap_or(KubernetesVersion::LATEST))
            .detect_version(version.is_none())
            .default_namespace("default")
            .lenient(self.lenient);
        for kind in &self.complete {
            reader = reader.complete(kind);
        }
        if let Some(listing) = &self.api_resources {
            reader = reader.api_resources(listing)?;
        }
        if let Some(dump) = self.dump {
            read_into(&mut reader, "dump", dump)?;
        }
        reader.read_paths(paths)?;
        let snapshot = reader.finish_with_objects()?;
        let assumptions = self.assumptions.clone().into();
        let cluster = Cluster::new(snapshot.version(), snapshot, assumptions);
        cluster.check_assumptions()?;
        Ok(cluster)
    }

    /// The question to this cluster.
    pub(super) fn question(&self, cluster: &Cluster) -> Result<Question, Box<dyn Error>> {
        let mut question = Question::new(cluster.version());
        let known: Vec<&str> = question.controllers.iter().map(|one| one.info().name).collect();
        let names = self.only.iter().flatten().chain(&self.without);
        if let Some(name) = names.into_iter().find(|name| !known.contains(&name.as_str())) {
            let known = known.join(", ");
            return Ok(usage(format!("no controller {name:?}: expected one of {known}"))?);
        }
        if let Some(only) = &self.only {
            let only: Vec<&str> = only.iter().map(String::as_str).collect();
            question = question.only(&only);
        }
        for name in &self.without {
            question = question.without(name);
        }
        for delete in &self.delete {
            question.intents.extend(delete.intents(cluster)?);
        }
        question.intents.sort_by_key(|intent| intent.after);
        question.now = self.now;
        question.horizon = self.horizon_seconds.map(Duration::from_secs);
        question.everything = self.everything;
        Ok(question)
    }
}

impl DeleteDocument<'_> {
    fn intents(&self, cluster: &Cluster) -> Result<Vec<Intent>, Box<dyn Error>> {
        let mut options = match &self.options {
            Some(options) => options.validate().or_else(|problems| {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                usage(problems.join("; "))
            })?,
            None if self.object.is_none() => DeleteOptions::policy(PropagationPolicy::Background),
            None => DeleteOptions::default(),
        };
        let targets = match &self.object {
            Some(object) => vec![self.target(cluster, object, &mut options)?],
            None => self.selection(cluster)?.targets(cluster)?,
        };
        let intents = targets.into_iter().map(|target| Intent {
            target,
            options: options.clone(),
            after: Duration::from_secs(self.after_seconds),
        });
        Ok(intents.collect())
    }

    fn target(
        &self,
        cluster: &Cluster,
        object: &ObjectDocument,
        options: &mut DeleteOptions,
    ) -> Result<Target, PredictError> {
        let has_selection = self.namespace.is_some() || self.all_namespaces || self.selector.is_some();
        if has_selection || self.all || !self.arguments.is_empty() || self.filename.is_some() {
            return usage(
                "an object is deleted alone: give no arguments, namespace, selector, all or filename",
            );
        }
        let name = ObjectName {
            namespace: Arc::clone(&object.namespace),
            kind: format!("{}/{}", object.api_version, object.kind).into(),
            name: Arc::clone(&object.name),
        };
        cluster.position(&name)?;
        if !object.uid.is_empty() {
            let uid = &mut options.preconditions.uid;
            uid.get_or_insert_with(|| object.uid.clone());
        }
        Ok(Target::Object(name))
    }

    fn selection(&self, cluster: &Cluster) -> Result<Selection, Box<dyn Error>> {
        let selector = parsed("selector", self.selector.as_deref())?;
        let mut manifests = Vec::new();
        if let Some(filename) = self.filename {
            let mut reader = Reader::new(cluster.version());
            read_into(&mut reader, "filename", filename)?;
            manifests.push(reader.finish()?);
        }
        Ok(Selection {
            arguments: self.arguments.clone(),
            namespace: self.namespace.clone(),
            all_namespaces: self.all_namespaces,
            selector,
            all: self.all,
            manifests,
        })
    }
}

/// Reads the text of a field.
fn parsed<T: FromStr<Err: Display>>(field: &str, text: Option<&str>) -> Result<Option<T>, PredictError> {
    let parsed = text.map(str::parse).transpose();
    parsed.or_else(|error| usage(format!("{field}: {error}")))
}

fn read<'a, T: Deserialize<'a>>(name: &str, text: &'a [u8]) -> Result<T, PredictError> {
    serde_json::from_slice(text).or_else(|error| usage(format!("{name}: {error}")))
}

/// Reads a dump in a question: a text, an object or list, or an array of these.
fn read_into(reader: &mut Reader, name: &str, dump: &RawValue) -> Result<(), Box<dyn Error>> {
    if !dump.get().starts_with('[') {
        return read_one(reader, name, dump);
    }
    let several: Vec<&RawValue> = read(name, dump.get().as_bytes())?;
    let mut several = several.into_iter().enumerate();
    several.try_for_each(|(index, one)| read_one(reader, &format!("{name}[{index}]"), one))
}

fn read_one(reader: &mut Reader, name: &str, dump: &RawValue) -> Result<(), Box<dyn Error>> {
    let json = dump.get().as_bytes();
    match json.starts_with(b"\"") {
        true => reader.read(name, read::<String>(name, json)?.as_bytes())?,
        false => reader.read(name, json)?,
    }
    Ok(())
}

/// Assumptions about everything outside of the control plane. `schemas/question.json` describes each field.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct AssumptionsDocument {
    pods_end: bool,
    finalizers_released: Vec<Arc<str>>,
    acting: BTreeMap<Arc<str>, bool>,
    unreachable_webhooks: Vec<Arc<str>>,
    unavailable_apis: Vec<Arc<str>>,
    storage_is_deleted: bool,
    external_controllers_run: bool,
    other_nodes_are_ready: bool,
    cloud: Vec<InstanceDocument>,
}

/// The cloud provider's responses for a node. There may be none.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InstanceDocument {
    node: Arc<str>,
    exists: Option<bool>,
    is_shutdown: Option<bool>,
}

impl Default for AssumptionsDocument {
    fn default() -> Self {
        Self::from(&Assumptions::default())
    }
}

impl From<&Assumptions> for AssumptionsDocument {
    fn from(assumptions: &Assumptions) -> Self {
        let response = |response: &Cloud| match response {
            Cloud::Yes => Some(true),
            Cloud::No => Some(false),
            Cloud::NotImplemented | Cloud::Failed(_) => None,
        };
        let cloud = assumptions.cloud.iter().map(|(node, instance)| InstanceDocument {
            node: Arc::clone(node),
            exists: response(&instance.exists),
            is_shutdown: response(&instance.is_shutdown),
        });
        Self {
            pods_end: assumptions.pods_end,
            finalizers_released: Vec::new(),
            acting: assumptions.acting.clone(),
            unreachable_webhooks: assumptions.unreachable_webhooks.clone(),
            unavailable_apis: assumptions.unavailable_apis.clone(),
            storage_is_deleted: assumptions.storage_is_deleted,
            external_controllers_run: external_components()
                .any(|component| assumptions.acting.get(component) != Some(&false)),
            other_nodes_are_ready: assumptions.other_nodes_are_ready,
            cloud: cloud.collect(),
        }
    }
}

impl From<AssumptionsDocument> for Assumptions {
    fn from(document: AssumptionsDocument) -> Self {
        let response = |response, unknown| match response {
            Some(true) => Cloud::Yes,
            Some(false) => Cloud::No,
            None => unknown,
        };
        let cloud = document.cloud.into_iter().map(|instance| {
            let unknown = Instance::default();
            let known = Instance {
                exists: response(instance.exists, unknown.exists),
                is_shutdown: response(instance.is_shutdown, unknown.is_shutdown),
            };
            (instance.node, known)
        });
        let absent = external_components().filter(|_| !document.external_controllers_run);
        let absent = absent.map(|component| (Arc::from(component), false));
        let released = document.finalizers_released.into_iter().map(|name| (name, true));
        Self {
            pods_end: document.pods_end,
            acting: absent.chain(document.acting).chain(released).collect(),
            unreachable_webhooks: document.unreachable_webhooks,
            unavailable_apis: document.unavailable_apis,
            storage_is_deleted: document.storage_is_deleted,
            other_nodes_are_ready: document.other_nodes_are_ready,
            cloud: cloud.collect(),
            ..Self::default()
        }
    }
}
