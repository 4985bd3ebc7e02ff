//! One entry of `crictl pods`.

use kubegc_core::{
    Timestamp, Uid,
    node_facts::{PodIdentity, Sandbox, SandboxState},
};

use super::{Outcome, created_at, short};
use crate::node::{fields::Entry, finding::NodeProblem};

/// Reads a sandbox.
///
/// The pod is the one of the metadata; without metadata, the one of the labels. If a field cannot be read,
/// the sandbox is kept: it counts as ready, or is left out if it has no id.
pub(crate) fn read(entry: &mut Entry<'_, '_>, now: Option<Timestamp>) -> Outcome<Sandbox> {
    let id = short(entry.peek(&["id"]).unwrap_or("?"));
    entry.call(match entry.peek(&["metadata", "name"]) {
        Some(name) => format!("sandbox {name} ({id})"),
        None => format!("sandbox {id}"),
    });
    let id = entry.shared(&["id"]);
    let name = entry.text(&["metadata", "name"]);
    if id.is_empty() {
        entry.missing(&["id"]);
    }
    let state = state(entry);
    let created_at = created_at(entry, now);
    let labels = entry.shared_pairs(&["labels"]);
    let pod = if entry.map(&["metadata"]).is_some() {
        let uid = entry.text(&["metadata", "uid"]).unwrap_or_default();
        if uid.is_empty() {
            entry.note(NodeProblem::Nameless, &["metadata", "uid"], "missing");
        }
        PodIdentity {
            uid: Uid::new(uid),
            namespace: entry.shared(&["metadata", "namespace"]),
            name: name.unwrap_or_default().into(),
        }
    } else {
        entry.note(
            NodeProblem::Nameless,
            &["metadata"],
            "missing; the labels say the pod",
        );
        let pod = PodIdentity::from_labels(&labels);
        if pod.uid.is_empty() {
            entry.missing(&["metadata", "uid"]);
        }
        pod
    };
    let sandbox = Sandbox {
        id,
        pod,
        attempt: entry.number(&["metadata", "attempt"]).unwrap_or(0),
        state: state.unwrap_or(SandboxState::Ready),
        created_at: created_at.unwrap_or_default(),
        labels,
    };
    match entry.flaw() {
        None => Outcome::Sure(sandbox),
        Some(_) if sandbox.id.is_empty() => Outcome::LeftOut,
        Some(_) => Outcome::Held(Sandbox {
            state: SandboxState::Ready,
            ..sandbox
        }),
    }
}

/// The state; `None` if it is missing. An unknown state counts as ready: such a sandbox is kept.
fn state(entry: &mut Entry<'_, '_>) -> Option<SandboxState> {
    let states = [
        ("SANDBOX_READY", SandboxState::Ready),
        ("SANDBOX_NOTREADY", SandboxState::NotReady),
    ];
    super::state(entry, &states, SandboxState::Ready, "sandbox")
}
