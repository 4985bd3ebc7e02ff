//! Finds the request that made each change of the server's history.

use std::sync::Arc;

use kubegc_core::ObjectMeta;
use kubegc_sim::EventType;
use kubegc_testkit::{Audit, Entry, http::Verb};

/// One change of an object.
pub(crate) struct Change {
    pub(crate) revision: u64,
    /// Group, resource, namespace, name.
    pub(crate) place: [String; 4],
    pub(crate) event_type: EventType,
    pub(crate) previous: Option<Arc<ObjectMeta>>,
    pub(crate) object: Arc<ObjectMeta>,
}

/// The number of the request that made each change; `None` where they cannot all have been made.
///
/// Requests are performed one after another, and each makes the next changes, or none: a deletion of a
/// collection any number, others one. The object in a response restricts the choice. Of the remaining
/// choices, one is taken in which deletions of collections made as few changes as possible that a patch can
/// have made. The choice does not affect the checks, except for lost responses while another client makes
/// the same change.
pub(crate) fn makers(writes: &Audit, changes: &[Change]) -> Option<Vec<u64>> {
    let entries: Vec<&Entry> = writes.entries().collect();
    let width = changes.len() + 1;
    let is_patch = |entry: &&&Entry| matches!(entry.verb, Verb::Patch | Verb::Update);
    let can_be_patched = |change| {
        let mut patches = entries.iter().filter(is_patch);
        patches.any(|patch| can_have_made(patch, change))
    };
    let is_of_a_patch: Vec<bool> = changes.iter().map(can_be_patched).collect();
    // The least number of such changes for the writes and the changes from one on; `None` if they do not fit.
    let mut costs: Vec<Option<usize>> = vec![None; (entries.len() + 1) * width];
    costs[entries.len() * width + changes.len()] = Some(0);
    let made = |costs: &[Option<usize>], row: usize, at: usize| {
        let (entry, change) = (entries[row], changes.get(at)?);
        if !can_have_made(entry, change) {
            return None;
        }
        match entry.verb {
            Verb::DeleteCollection => Some(costs[row * width + at + 1]? + usize::from(is_of_a_patch[at])),
            _ => costs[(row + 1) * width + at + 1],
        }
    };
    for row in (0..entries.len()).rev() {
        for at in (0..width).rev() {
            let passed = costs[(row + 1) * width + at].filter(|_| !must_have_made_one(entries[row]));
            let made = made(&costs, row, at);
            costs[row * width + at] = passed.into_iter().chain(made).min();
        }
    }
    costs[0]?;
    let (mut row, mut at, mut makers) = (0, 0, Vec::new());
    while row < entries.len() {
        let made = made(&costs, row, at);
        let is_made = made.is_some() && made == costs[row * width + at];
        if is_made {
            makers.push(entries[row].number);
            at += 1;
        }
        if !is_made || entries[row].verb != Verb::DeleteCollection {
            row += 1;
        }
    }
    Some(makers)
}

fn is_about(entry: &Entry, change: &Change) -> bool {
    let [group, resource, namespace, name] = &change.place;
    entry.is_about(group, resource, namespace, name)
}

/// Whether no patch can have made the change.
fn is_only_of_deletions(change: &Change) -> bool {
    let Some(previous) = &change.previous else {
        return false;
    };
    let collecting = |name: &&Arc<str>| matches!(&***name, "orphan" | "foregroundDeletion");
    let mut finalizers = change.object.finalizers.iter().filter(collecting);
    previous.deletion_timestamp != change.object.deletion_timestamp
        || finalizers.any(|finalizer| !previous.finalizers.contains(finalizer))
}

/// Whether the response shows a change: a new object, or none any more.
fn must_have_made_one(entry: &Entry) -> bool {
    let is_removed = entry.verb == Verb::Delete && entry.resource_version.is_empty();
    entry.is_success() && (is_removed || entry.verb == Verb::Create)
}

fn can_have_made(entry: &Entry, change: &Change) -> bool {
    let is_removed = change.event_type == EventType::Deleted;
    if entry.verb == Verb::DeleteCollection {
        let [group, resource, namespace, _] = &change.place;
        let in_it = entry.is_about(group, resource, namespace, "");
        return in_it && entry.is_success() && change.event_type != EventType::Added;
    }
    let performed = entry
        .code
        .map_or(entry.fault == Some("response lost"), |code| code < 400);
    if !is_about(entry, change) || !performed {
        return false;
    }
    let same_version = entry.resource_version == change.revision.to_string();
    match entry.verb {
        Verb::Create => same_version && change.event_type == EventType::Added,
        // An entry without an object is of a deletion that is complete, or of a request whose response is
        // lost.
        Verb::Delete => {
            change.event_type != EventType::Added
                && (same_version || (is_removed && entry.resource_version.is_empty()))
        }
        // The last finalizer was removed, and with it the object: the response may have the version before or
        // that of the deletion.
        Verb::Patch | Verb::Update if is_removed => {
            let had_finalizers = change
                .previous
                .as_ref()
                .is_some_and(|object| !object.finalizers.is_empty());
            had_finalizers && !entry.resource_version.is_empty()
        }
        Verb::Patch | Verb::Update => same_version && !is_only_of_deletions(change),
        _ => false,
    }
}
