//! Reads the desired pods of a node, and the state of each, from `kubectl get pods`.

use std::collections::BTreeMap;

use kubegc_core::{Uid, node_facts::PodState};
use serde_json::{Map, Value};

use super::{
    fields::Entry,
    finding::{NodeProblem, Notes},
};
use crate::Place;

/// Annotations in which the API's copy of a static pod holds the uid that the node uses.
const STATIC_POD_UIDS: [&str; 2] = ["kubernetes.io/config.mirror", "kubernetes.io/config.hash"];

#[derive(Clone, Debug, Default)]
pub(crate) struct PodsSeen {
    pub(crate) known: BTreeMap<Uid, PodState>,
    /// A pod, or a list of pods only, was read.
    pub(crate) listed: bool,
    /// A pod in a list, or a list of pods only, was read.
    pub(crate) in_list: bool,
    /// The reason why pods may be missing, if known.
    pub(crate) incomplete: Option<String>,
}

impl PodsSeen {
    /// Reads the pods of a document: one pod, or a list. Objects of other kinds are skipped.
    pub(crate) fn read(&mut self, value: &Value, place: &Place, notes: &mut Notes) {
        let mut document = match Entry::of(value, place, "", notes) {
            Ok(document) => document,
            Err(why) => {
                self.incomplete.get_or_insert(why);
                return;
            }
        };
        let kind = document.text(&["kind"]);
        let is_pod = kind == Some("Pod");
        self.listed |= kind == Some("PodList");
        self.in_list |= kind == Some("PodList");
        let goes_on = document
            .text(&["metadata", "continue"])
            .is_some_and(|token| !token.is_empty());
        if goes_on {
            document.wrong(
                NodeProblem::ListContinues,
                &["metadata", "continue"],
                "the list continues",
            );
        }
        if !is_pod && value.get("items").is_none() {
            document.missing(&["items"]);
        }
        let items = document.list(&["items"]).unwrap_or_default();
        if let Some(flaw) = document.flaw() {
            self.incomplete.get_or_insert(format!("{place}: {flaw}"));
        }
        if is_pod && let Value::Object(pod) = value {
            self.pod(pod, "", place, notes);
        }
        for (index, item) in items.iter().enumerate() {
            let path = format!("items[{index}]");
            match item {
                Value::Object(pod) => self.in_list |= self.pod(pod, &path, place, notes),
                _ => {
                    notes.note(NodeProblem::BadField, Some(place), "", &path, "expected a map");
                    self.incomplete.get_or_insert(format!("{place}: {path}: no map"));
                }
            }
        }
    }

    /// Reads one pod; returns whether it is one.
    fn pod(&mut self, pod: &Map<String, Value>, path: &str, place: &Place, notes: &mut Notes) -> bool {
        let mut entry = Entry::new(pod, place, path, notes);
        // The items of a PodList have no kind.
        if entry.text(&["kind"]).is_some_and(|kind| kind != "Pod") {
            return false;
        }
        self.listed = true;
        let namespace = entry.peek(&["metadata", "namespace"]).unwrap_or("?");
        let name = entry.peek(&["metadata", "name"]).unwrap_or("?");
        entry.call(format!("pod {namespace}/{name}"));
        let uid = entry.text(&["metadata", "uid"]).unwrap_or_default();
        if uid.is_empty() {
            entry.missing(&["metadata", "uid"]);
        }
        let of_static =
            STATIC_POD_UIDS.map(|name| entry.text(&["metadata", "annotations", name]).unwrap_or_default());
        let state = state(&mut entry);
        let flaw = entry.flaw().map(str::to_owned);
        if let Some(flaw) = &flaw {
            self.incomplete.get_or_insert(format!("{place}: {flaw}"));
        }
        let state = if flaw.is_some() { PodState::ACTIVE } else { state };
        // Deleting the API's copy does not delete the static pod: the kubelet creates the copy again, and the
        // pod continues to run.
        let static_state = if state.deleted { PodState::ACTIVE } else { state };
        let of_static = of_static.into_iter().filter(|&of_static| of_static != uid);
        let uids = [(uid, state)]
            .into_iter()
            .chain(of_static.map(|uid| (uid, static_state)));
        for (uid, state) in uids.filter(|(uid, _)| !uid.is_empty()) {
            match self.known.get_mut(&Uid::new(uid)) {
                None => {
                    self.known.insert(Uid::new(uid), state);
                }
                Some(known) if *known == state => {}
                Some(known) => {
                    entry.note(
                        NodeProblem::Contradiction,
                        &["metadata", "uid"],
                        "listed twice, differently: the facts of both count",
                    );
                    *known = PodState {
                        evicted: known.evicted && state.evicted,
                        deleted: known.deleted && state.deleted,
                        terminated: known.terminated && state.terminated,
                    };
                }
            }
        }
        true
    }
}

/// The state of a pod: evicted, terminating, ended. A pod without a status, as in metadata-only listings, has
/// not ended.
///
/// # Upstream
/// `IsPodDeleted` and `IsPodTerminated` of `pkg/kubelet/kubelet_pods.go` in 1.20, where a pod with a running
/// container has not ended either.
fn state(entry: &mut Entry<'_, '_>) -> PodState {
    let phase = entry.text(&["status", "phase"]).unwrap_or_default();
    let reason = entry.text(&["status", "reason"]).unwrap_or_default();
    let deleted = entry.date(&["metadata", "deletionTimestamp"]).is_some();
    let has_status = entry.map(&["status"]).is_some();
    let ended = matches!(phase, "Succeeded" | "Failed");
    PodState {
        evicted: phase == "Failed" && reason == "Evicted",
        deleted,
        terminated: has_status && (ended || deleted) && !runs(entry),
    }
}

/// Whether some container neither waits nor has ended.
fn runs(entry: &mut Entry<'_, '_>) -> bool {
    let lists = [
        "initContainerStatuses",
        "containerStatuses",
        "ephemeralContainerStatuses",
    ];
    let mut runs = false;
    for name in lists {
        let statuses = entry.list(&["status", name]).unwrap_or_default();
        for (index, status) in statuses.iter().enumerate() {
            let state = status.get("state").filter(|state| !state.is_null());
            let is = |name: &str| {
                state
                    .and_then(|state| state.get(name))
                    .filter(|one| !one.is_null())
            };
            let (ended, waits) = (is("terminated"), is("waiting"));
            let odd = [Some(status), state, ended, waits]
                .into_iter()
                .flatten()
                .find(|value| !value.is_object());
            if let Some(odd) = odd {
                let field = format!("{name}[{index}].state");
                let detail = format!("expected maps, found {}", crate::tree::type_name(odd));
                entry.bad(&["status", &field], &detail);
            }
            runs |= ended.is_none() && waits.is_none();
        }
    }
    runs
}
