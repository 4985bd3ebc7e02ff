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

impl Write {
    /// The body, as a write of a run has it.
    pub(super) fn shown_body(&self) -> String {
        if self.verb == "patch" {
            let (content_type, body) = (self.content_type.as_deref(), self.body.as_deref());
            return format!(
                "{} {}",
                content_type.unwrap_or_default(),
                body.unwrap_or_default()
            );
        }
        let precondition = |key: &str| {
            let value = self
                .preconditions
                .as_ref()
                .and_then(|preconditions| preconditions.get(key));
            value.and_then(Value::as_str).map(ToOwned::to_owned)
        };
        let (uid, version) = (precondition("uid"), precondition("resourceVersion"));
        format!(
            "{} uid={uid:?} resourceVersion={version:?}",
            self.propagation_policy.as_deref().unwrap_or_default()
        )
    }

    /// `verb alias detail code`.
    pub(super) fn text(&self) -> String {
        let detail = match self.content_type.as_deref() {
            Some("application/strategic-merge-patch+json") => "smp",
            Some("application/merge-patch+json") => "jmp",
            _ => self.propagation_policy.as_deref().unwrap_or("None"),
        };
        format!(
            "{} {} {detail} {}",
            self.verb,
            self.alias.as_deref().unwrap_or("None"),
            self.code
        )
    }
}

impl Outcome {
    /// The events that were observed in its runs, by checkpoint.
    pub(super) fn event_variants(&self) -> Vec<Vec<Vec<String>>> {
        if !self.event_variants.is_empty() {
            return self
                .event_variants
                .iter()
                .map(|variant| variant.events.clone())
                .collect();
        }
        let of = |checkpoint: &Checkpoint| {
            let mut events: Vec<String> = checkpoint
                .events
                .iter()
                .filter(|event| event.verb != "patch")
                .map(|event| format!("{} {}", event.reason, event.alias.as_deref().unwrap_or("None")))
                .collect();
            events.sort();
            events
        };
        vec![self.checkpoints.iter().map(of).collect()]
    }
}

/// The writes and states that a run must have.
pub(super) struct Plan<'a> {
    pub(super) sequence: &'a [Vec<String>],
    pub(super) states: Vec<&'a Value>,
    /// The run that the outcome's details are of, where this is its sequence.
    pub(super) first: Option<&'a Outcome>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(outcome: &'a Outcome, at: usize) -> Self {
        let first = (at == 0 && outcome.calls_by_client.is_some()).then_some(outcome);
        Self {
            sequence: &outcome.write_sequences[at].seq,
            states: outcome.states(),
            first,
        }
    }

    /// Number of completed calls of the client before this write, if it is known.
    pub(super) fn client_calls_before(&self, level: usize, at: usize) -> Option<usize> {
        Some(
            self.first?
                .checkpoints
                .get(level)?
                .gc_writes
                .get(at)?
                .after_client_call,
        )
    }
}
