//! The recorded forms of scenarios, as far as a client and final states need them.

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// `stopped` where no collector ran.
    #[serde(default)]
    pub(crate) gc: String,
    pub(crate) objects: Vec<Object>,
    pub(crate) steps: Vec<Step>,
    pub(crate) outcomes: Vec<Outcome>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Object {
    pub(crate) alias: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) finalizers: Vec<Value>,
    #[serde(default)]
    pub(crate) owner_references: Vec<Value>,
    #[serde(default)]
    pub(crate) extra: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(tag = "op")]
pub(crate) enum Step {
    #[serde(rename = "create")]
    Create { aliases: Vec<String> },
    #[serde(rename = "delete")]
    Delete {
        alias: String,
        #[serde(default)]
        options: Map<String, Value>,
    },
    #[serde(rename = "set_owner_refs")]
    SetOwnerRefs {
        alias: String,
        #[serde(rename = "ownerReferences")]
        owner_references: Value,
    },
    #[serde(rename = "set_finalizers")]
    SetFinalizers { alias: String, finalizers: Value },
    #[serde(rename = "add_finalizer")]
    AddFinalizer { alias: String, finalizer: String },
    #[serde(rename = "remove_finalizer")]
    RemoveFinalizer { alias: String, finalizer: String },
    #[serde(rename = "touch")]
    Touch { alias: String },
    #[serde(rename = "patch")]
    Patch {
        alias: String,
        #[serde(rename = "contentType")]
        content_type: String,
        body: Value,
    },
    #[serde(rename = "delete_namespace")]
    DeleteNamespace {
        namespace: String,
        #[serde(default)]
        then_sleep: f64,
    },
    #[serde(rename = "stop-gc")]
    StopCollector,
    #[serde(rename = "start-gc")]
    StartCollector,
    #[serde(rename = "wait")]
    Wait,
    #[serde(rename = "snapshot")]
    Snapshot,
}

#[derive(Deserialize)]
pub(crate) struct Outcome {
    checkpoints: Vec<Checkpoint>,
}

#[derive(Deserialize)]
struct Checkpoint {
    state: Value,
}

impl Outcome {
    /// The state of each checkpoint.
    pub(crate) fn states(&self) -> Vec<&Value> {
        self.checkpoints
            .iter()
            .map(|checkpoint| &checkpoint.state)
            .collect()
    }
}
