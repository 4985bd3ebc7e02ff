//! The recorded forms of scenarios, as they are on disk.

use serde::Deserialize;
use serde_json::{Map, Value};

/// A recorded scenario: objects, the steps of a client, and the outcomes.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Scenario {
    /// The release; without it 1.20.2.
    pub(super) kubernetes: Option<String>,
    /// `stopped` where no collector ran.
    pub(super) gc: String,
    pub(super) objects: Vec<Object>,
    pub(super) steps: Vec<Step>,
    pub(super) outcomes: Vec<Outcome>,
}

impl Scenario {
    /// Whether a collector ran from the beginning.
    pub fn collects(&self) -> bool {
        self.gc != "stopped"
    }

    /// The states of the checkpoints in each outcome.
    pub fn states(&self) -> impl Iterator<Item = Vec<&Value>> {
        self.outcomes.iter().map(Outcome::states)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Object {
    pub(super) alias: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) finalizers: Vec<Value>,
    pub(super) owner_references: Vec<Value>,
    pub(super) extra: Map<String, Value>,
}

/// One step of the client. Each operation has some of the fields.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Step {
    pub(super) op: String,
    pub(super) aliases: Vec<String>,
    /// The object of a request about an existing one.
    pub(super) alias: String,
    pub(super) options: Map<String, Value>,
    #[serde(rename = "ownerReferences")]
    pub(super) owner_references: Value,
    pub(super) finalizers: Value,
    pub(super) finalizer: String,
    #[serde(rename = "contentType")]
    pub(super) content_type: String,
    pub(super) body: Value,
    pub(super) namespace: String,
    pub(super) then_sleep: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Outcome {
    pub(super) write_sequences: Vec<Sequence>,
    /// In compact form, the states of the checkpoints; otherwise they are in `checkpoints`.
    states: Vec<Value>,
    pub(super) checkpoints: Vec<Checkpoint>,
    pub(super) calls_by_client: Option<Vec<ClientCall>>,
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

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    pub(super) verb: String,
    pub(super) alias: Option<String>,
    pub(super) reason: String,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(super) struct ClientCall {
    pub(super) step: usize,
    pub(super) verb: String,
    pub(super) alias: String,
    pub(super) code: u16,
    pub(super) response: Value,
}
