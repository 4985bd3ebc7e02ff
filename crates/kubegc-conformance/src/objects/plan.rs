//! The plan of a guided run: one recorded sequence of writes with its states and, for the first run, details.

use serde_json::Value;

use super::format::{self, Outcome};

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

/// The body of a recorded write in the form of [`World`](super::world::World).
pub(super) fn recorded_body(write: &format::Write) -> String {
    if write.verb == "patch" {
        let (content_type, body) = (write.content_type.as_deref(), write.body.as_deref());
        return format!(
            "{} {}",
            content_type.unwrap_or_default(),
            body.unwrap_or_default()
        );
    }
    let precondition = |key: &str| {
        let value = write
            .preconditions
            .as_ref()
            .and_then(|preconditions| preconditions.get(key));
        value.and_then(Value::as_str).map(ToOwned::to_owned)
    };
    let (uid, version) = (precondition("uid"), precondition("resourceVersion"));
    format!(
        "{} uid={uid:?} resourceVersion={version:?}",
        write.propagation_policy.as_deref().unwrap_or_default()
    )
}

/// A recorded write as `verb alias detail code`.
pub(super) fn recorded_text(write: &format::Write) -> String {
    let detail = match write.content_type.as_deref() {
        Some("application/strategic-merge-patch+json") => "smp",
        Some("application/merge-patch+json") => "jmp",
        _ => write.propagation_policy.as_deref().unwrap_or("None"),
    };
    format!(
        "{} {} {detail} {}",
        write.verb,
        write.alias.as_deref().unwrap_or("None"),
        write.code
    )
}

/// The events that were observed in the runs of an outcome, by checkpoint.
pub(super) fn event_variants(outcome: &Outcome) -> Vec<Vec<Vec<String>>> {
    if !outcome.event_variants.is_empty() {
        return outcome
            .event_variants
            .iter()
            .map(|variant| variant.events.clone())
            .collect();
    }
    let of = |checkpoint: &format::Checkpoint| {
        let mut events: Vec<String> = checkpoint
            .events
            .iter()
            .filter(|event| event.verb != "patch")
            .map(|event| format!("{} {}", event.reason, event.alias.as_deref().unwrap_or("None")))
            .collect();
        events.sort();
        events
    };
    vec![outcome.checkpoints.iter().map(of).collect()]
}
