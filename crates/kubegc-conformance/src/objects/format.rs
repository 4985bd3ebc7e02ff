//! The recorded forms of scenarios, as they are on disk.

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
pub(super) struct Scenario {
    /// The release; without it 1.20.2.
    #[serde(default)]
    pub(super) kubernetes: Option<String>,
    /// `stopped` where no collector ran.
    #[serde(default)]
    pub(super) gc: String,
    pub(super) objects: Vec<Object>,
    pub(super) steps: Vec<Step>,
    #[serde(default)]
    pub(super) outcomes: Vec<Outcome>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Object {
    pub(super) alias: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) finalizers: Vec<Value>,
    #[serde(default)]
    pub(super) owner_references: Vec<Value>,
    #[serde(default)]
    pub(super) extra: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Step {
    Create {
        aliases: Vec<String>,
    },
    Delete {
        alias: String,
        #[serde(default)]
        options: Map<String, Value>,
    },
    SetOwnerRefs {
        alias: String,
        #[serde(rename = "ownerReferences")]
        owner_references: Value,
    },
    SetFinalizers {
        alias: String,
        finalizers: Value,
    },
    AddFinalizer {
        alias: String,
        finalizer: String,
    },
    RemoveFinalizer {
        alias: String,
        finalizer: String,
    },
    Touch {
        alias: String,
    },
    Patch {
        alias: String,
        #[serde(rename = "contentType")]
        content_type: String,
        body: Value,
    },
    DeleteNamespace {
        namespace: String,
        #[serde(default)]
        then_sleep: f64,
    },
    #[serde(rename = "stop-gc")]
    StopGc,
    #[serde(rename = "start-gc")]
    StartGc,
    Wait,
    Snapshot,
}

impl Step {
    /// The step's name in recordings, and the alias of its object, for a request about one existing object.
    pub(super) fn target(&self) -> Option<(&'static str, &str)> {
        Some(match self {
            Self::Delete { alias, .. } => ("delete", alias),
            Self::SetOwnerRefs { alias, .. } => ("set_owner_refs", alias),
            Self::SetFinalizers { alias, .. } => ("set_finalizers", alias),
            Self::AddFinalizer { alias, .. } => ("add_finalizer", alias),
            Self::RemoveFinalizer { alias, .. } => ("remove_finalizer", alias),
            Self::Touch { alias } => ("touch", alias),
            Self::Patch { alias, .. } => ("patch", alias),
            Self::Create { .. }
            | Self::DeleteNamespace { .. }
            | Self::StopGc
            | Self::StartGc
            | Self::Wait
            | Self::Snapshot => return None,
        })
    }
}

#[derive(Deserialize)]
pub(super) struct Outcome {
    pub(super) write_sequences: Vec<Sequence>,
    /// In compact form, the states of the checkpoints; otherwise they are in `checkpoints`.
    #[serde(default)]
    states: Vec<Value>,
    #[serde(default)]
    pub(super) checkpoints: Vec<Checkpoint>,
    #[serde(default)]
    pub(super) calls_by_client: Option<Vec<ClientCall>>,
    #[serde(default)]
    pub(super) event_variants: Vec<EventVariant>,
}

impl Outcome {
    pub(super) fn states(&self) -> Vec<&Value> {
        if self.checkpoints.is_empty() {
            self.states.iter().collect()
        } else {
            self.checkpoints
                .iter()
                .map(|checkpoint| &checkpoint.state)
                .collect()
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Sequence {
    /// The writes of each checkpoint, as `verb alias detail code`.
    pub(super) seq: Vec<Vec<String>>,
}

#[derive(Deserialize)]
pub(super) struct EventVariant {
    /// The events of each checkpoint, as `reason alias`, sorted.
    pub(super) events: Vec<Vec<String>>,
}

#[derive(Deserialize)]
pub(super) struct Checkpoint {
    pub(super) state: Value,
    #[serde(default)]
    pub(super) gc_writes: Vec<Write>,
    #[serde(default)]
    pub(super) events: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Write {
    pub(super) alias: Option<String>,
    pub(super) verb: String,
    pub(super) code: u16,
    #[serde(default)]
    pub(super) after_client_call: usize,
    pub(super) body: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) propagation_policy: Option<String>,
    pub(super) preconditions: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Event {
    #[serde(default)]
    pub(super) verb: String,
    pub(super) alias: Option<String>,
    #[serde(default)]
    pub(super) reason: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(super) struct ClientCall {
    pub(super) step: usize,
    pub(super) verb: String,
    #[serde(default)]
    pub(super) alias: String,
    pub(super) code: u16,
    #[serde(default)]
    pub(super) response: Value,
}
