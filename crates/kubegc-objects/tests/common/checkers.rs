//! Checkers of traces: invariants of every run, for every cluster and every fault.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_core::{KubernetesVersion, ObjectMeta, ObjectRef, Timestamp, version::behavior};
use kubegc_objects::{
    Operation, Reason, Request, Response, WatchEvent,
    classify::{OwnerState, Resolved},
    collector::{CallId, Conclusion},
};

use super::{
    cluster::is_cluster_scoped,
    world::{Seen, World},
};

/// Law 2: no request is sent before the release's start rule allows it, and up to 1.31 no attempt starts
/// while new monitors sync.
pub(crate) fn starts_in_time(world: &World) {
    let late_start = world.settings.version.has(behavior::STARTS_WITHOUT_FULL_SYNC);
    let (mut wanted, mut synced) = (None, BTreeSet::new());
    let (mut deadline, mut started): (Option<Timestamp>, bool) = (None, false);
    for (now, seen) in &world.trace {
        match seen {
            Seen::Began => {
                (wanted, started, deadline) = (None, false, None);
                synced.clear();
            }
            Seen::Discovered(monitors) => {
                wanted = Some(monitors.clone());
                deadline.get_or_insert(now.saturating_add(world.settings.initial_sync_timeout));
            }
            Seen::Reported(monitor, WatchEvent::InitDone) => {
                synced.insert(*monitor);
            }
            Seen::Pulled(call) => {
                let complete = wanted
                    .as_ref()
                    .is_some_and(|all| all.iter().all(|monitor| synced.contains(monitor)));
                started |= complete || (late_start && deadline.is_some_and(|deadline| *now >= deadline));
                assert!(started, "requested before the start rule allows it: {call:?}");
                let begins = call.request.reason == Reason::VerifyItem;
                assert!(
                    complete || late_start || !begins,
                    "started while monitors sync: {call:?}"
                );
            }
            _ => {}
        }
    }
}

/// A call in the trace: when it was pulled, and when and with which response it ended.
struct TracedCall<'a> {
    at: usize,
    request: &'a Request,
    responded: Option<(usize, &'a Response)>,
}

/// The calls of each collector of the trace, in the order in which they were pulled.
fn lives(world: &World) -> Vec<Vec<TracedCall<'_>>> {
    let mut lives: Vec<Vec<TracedCall<'_>>> = Vec::new();
    let mut positions: BTreeMap<CallId, usize> = BTreeMap::new();
    for (at, (_, seen)) in world.trace.iter().enumerate() {
        match seen {
            Seen::Began => {
                lives.push(Vec::new());
                positions.clear();
            }
            Seen::Pulled(call) => {
                let calls = lives.last_mut().expect("a trace starts with a collector");
                positions.insert(call.id, calls.len());
                calls.push(TracedCall {
                    at,
                    request: &call.request,
                    responded: None,
                });
            }
            Seen::Responded(call, response) => {
                let calls = lives.last_mut().expect("a trace starts with a collector");
                calls[positions[call]].responded = Some((at, response));
            }
            _ => {}
        }
    }
    lives
}

impl<'a> TracedCall<'a> {
    /// The result of a read, if its response arrived before that position of the trace.
    fn found(&self, before: usize) -> Option<(usize, Option<&'a ObjectMeta>)> {
        match self.responded {
            Some((at, Response::Found(live))) if at < before => Some((at, Some(live))),
            Some((at, Response::NotFound)) if at < before => Some((at, None)),
            _ => None,
        }
    }
}

/// Law 3: a delete follows a read of its object and a lookup of each of its owners, with the release's
/// preconditions. Returns the number of deletes.
///
/// If two nodes have one identity (G-3), the trace does not show which of the reads belongs to which: one of
/// them must match.
pub(crate) fn deletes_follow_reads(world: &World) -> usize {
    let mut deletes = 0;
    for calls in lives(world) {
        for (position, delete) in calls.iter().enumerate() {
            if let Operation::Delete { wire, .. } = &delete.request.operation {
                deletes += 1;
                let earlier = &calls[..position];
                assert_eq!(wire.uid.as_ref(), Some(&delete.request.target.uid));
                let rests = earlier
                    .iter()
                    .any(|read| may_follow_from(world, earlier, read, delete));
                assert!(
                    rests,
                    "deleted without a read or a lookup of its owners: {:?}",
                    delete.request
                );
                let sent = wire.resource_version.is_some();
                let allowed = sends_version_as_allowed(world.settings.version, sent, earlier, delete);
                assert!(allowed, "preconditions of another release: {:?}", delete.request);
            }
        }
    }
    deletes
}

/// Returns whether this read starts an attempt that could have led to the delete.
fn may_follow_from(
    world: &World,
    earlier: &[TracedCall<'_>],
    read: &TracedCall<'_>,
    delete: &TracedCall<'_>,
) -> bool {
    if read.request.reason != Reason::VerifyItem || read.request.target != delete.request.target {
        return false;
    }
    let Some((begun, Some(live))) = read.found(delete.at) else {
        return false;
    };
    let owners = delete.request.reason.owners();
    live.uid == delete.request.target.uid
        && owners
            .iter()
            .map(|owner| &owner.reference)
            .eq(&live.owner_references)
        && owners
            .iter()
            .all(|owner| was_looked_up(world, earlier, owner, begun, delete.at))
}

/// Returns whether an owner was looked up between two positions of the trace, or was found absent before.
fn was_looked_up(
    world: &World,
    earlier: &[TracedCall<'_>],
    owner: &Resolved,
    begun: usize,
    before: usize,
) -> bool {
    let reference = &owner.reference;
    let names = |target: &ObjectRef| target.uid == reference.uid;
    if owner.state == OwnerState::RememberedAbsent {
        let is_absent = |live: Option<&ObjectMeta>| live.is_none_or(|live| live.uid != reference.uid);
        let read = |call: &TracedCall<'_>| {
            names(&call.request.target) && call.found(before).is_some_and(|(_, live)| is_absent(live))
        };
        let reported = |(_, seen): &(Timestamp, Seen)| match seen {
            Seen::Reported(_, WatchEvent::Delete(meta)) => meta.uid == reference.uid,
            _ => false,
        };
        // A relist shows deletions by missing objects.
        return earlier.iter().any(read)
            || world.trace[..before].iter().any(reported)
            || relisted(world, before);
    }
    earlier.iter().any(|call| {
        let request = call.request;
        request.reason == Reason::LookUpOwner
            && call.at > begun
            && names(&request.target)
            && request.target.name == reference.name
            && request.target.kind == reference.kind
            && request.target.api_version == reference.api_version
            && call
                .found(before)
                .is_some_and(|(_, live)| OwnerState::of_live(reference, live) == owner.state)
    })
}

/// Returns whether a monitor listed twice before a position of the trace.
fn relisted(world: &World, before: usize) -> bool {
    let mut listed = BTreeSet::new();
    world.trace[..before].iter().any(|(_, seen)| match seen {
        Seen::Reported(monitor, WatchEvent::Init) => !listed.insert(*monitor),
        Seen::Began => {
            listed.clear();
            false
        }
        _ => false,
    })
}

/// the resourceVersion is sent if the release does so, except for the delete after a second read with
/// the same owners.
fn sends_version_as_allowed(
    version: KubernetesVersion,
    sent: bool,
    earlier: &[TracedCall<'_>],
    delete: &TracedCall<'_>,
) -> bool {
    let sends = version.has(behavior::DELETES_EXPECT_RESOURCE_VERSION);
    if !sends || sent {
        return sent == sends;
    }
    let decided = || {
        delete
            .request
            .reason
            .owners()
            .iter()
            .map(|owner| &owner.reference)
    };
    earlier.iter().any(|call| {
        call.request.reason == Reason::RecheckAfterConflict
            && call.request.target == delete.request.target
            && matches!(call.found(delete.at), Some((_, Some(now))) if decided().eq(&now.owner_references))
    })
}

/// Law 4: a node is processed by one worker at a time, the number of workers is not exceeded, and each
/// dependent is orphaned by one call at a time.
///
/// Nodes are distinguished by identity. An identity can have a second node if the graph removed the first one
/// while it was retained (G-3): after each deletion, and each lookup that found nothing, one more is allowed.
/// A cluster-scoped object can have been guessed to be in either namespace, which its calls do not show.
pub(crate) fn works_one_at_a_time(world: &World) {
    let (mut begun, mut calls) = (BTreeMap::<ObjectRef, u32>::new(), BTreeMap::new());
    let mut absences: BTreeMap<String, u32> = BTreeMap::new();
    for (_, seen) in &world.trace {
        match seen {
            Seen::Began => {
                begun.clear();
                calls.clear();
                absences.clear();
            }
            Seen::Pulled(call) => {
                if call.request.reason == Reason::VerifyItem {
                    let count = begun.entry(identity(&call.request.target)).or_default();
                    *count += 1;
                    let guesses = if is_cluster_scoped(&call.request.target.kind) {
                        2
                    } else {
                        0
                    };
                    let nodes = 1
                        + guesses
                        + absences
                            .get(&call.request.target.uid.to_string())
                            .copied()
                            .unwrap_or(0);
                    assert!(
                        *count <= nodes,
                        "processed {count} times at a time: {}",
                        call.request.target
                    );
                }
                if let Reason::OwnerOrphans(owner) = &call.request.reason {
                    calls.insert(call.id, (owner.clone(), call.request.target.clone()));
                }
                let running: u32 = begun.values().sum();
                assert!(
                    running <= world.settings.attempt_to_delete_workers,
                    "{running} workers"
                );
                let owners: BTreeSet<_> = calls.values().map(|(owner, _)| owner).collect();
                assert!(owners.len() <= world.settings.attempt_to_orphan_workers as usize);
                let released: BTreeSet<_> = calls.values().collect();
                assert_eq!(released.len(), calls.len(), "two calls for one dependent");
            }
            Seen::Responded(call, _) => {
                calls.remove(call);
            }
            Seen::Reported(_, WatchEvent::Delete(meta)) => {
                *absences.entry(meta.uid.to_string()).or_default() += 1;
            }
            Seen::Concluded(object, conclusion) => {
                if *conclusion == Conclusion::Absent {
                    *absences.entry(object.uid.to_string()).or_default() += 1;
                }
                // These two end before any request.
                if !matches!(conclusion, Conclusion::Stale | Conclusion::BeingDeleted)
                    && let Some(count) = begun.get_mut(&identity(object))
                {
                    *count = count.saturating_sub(1);
                }
            }
            _ => {}
        }
    }
}

/// The identity of a node, without a namespace if its kind has none.
fn identity(object: &ObjectRef) -> ObjectRef {
    let mut object = object.clone();
    if is_cluster_scoped(&object.kind) {
        object.namespace = "".into();
    }
    object
}

/// Law 8: after a delete with an unknown outcome or a conflict, the object is read before it is deleted
/// again.
pub(crate) fn uncertain_deletes_are_read_again(world: &World) {
    for calls in lives(world) {
        for (position, delete) in calls.iter().enumerate() {
            let rewrites = matches!(delete.request.operation, Operation::Delete { .. });
            if !rewrites {
                continue;
            }
            let same = |call: &&TracedCall<'_>| call.request.target == delete.request.target;
            let uncertain = calls[..position].iter().rev().filter(same).find(|call| {
                let own = matches!(call.request.operation, Operation::Delete { .. })
                    || matches!(call.request.reason, Reason::BreakCycle(_));
                let response = call
                    .responded
                    .filter(|&(at, _)| at < delete.at)
                    .map(|(_, response)| response);
                own && matches!(response, Some(Response::Unknown | Response::Conflict))
            });
            let Some((responded, _)) = uncertain.and_then(|call| call.responded) else {
                continue;
            };
            let read = calls[..position].iter().filter(same).any(|call| {
                call.at > responded
                    && call.request.operation == Operation::Get
                    && call.found(delete.at).is_some()
            });
            assert!(read, "deleted again without a read: {:?}", delete.request);
        }
    }
}
