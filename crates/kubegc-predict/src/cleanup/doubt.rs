//! What is in doubt of a cleanup forecast: objects about which a mechanism cannot decide, pods of which nobody knows when they end, and what hangs on these.

use std::{collections::BTreeSet, time::Duration};

use kubegc_core::record::Resource;

use super::{
    Undecided,
    hanging::Hanging,
    times::Removal,
    world::{CleanupWorld, Touches},
};
use crate::{
    Cluster,
    cluster::{Member, Scope},
    doubt::Sources,
    fate::Missing,
    timeline::Actor,
    world::kubelets::Kubelets,
};

/// What is put in doubt by the objects about which the mechanisms of a world cannot decide, and by pods that nobody knows the end of.
pub(super) struct InDoubt {
    /// What is not known, with those objects.
    pub(super) sources: Sources,
    /// Of what hangs on them, and of them where anything does, what is not in reach.
    pub(super) out_of_reach: Vec<u32>,
    /// What may go sooner than in this world: from when on, and by whom.
    pub(super) may_go: Vec<(u32, Removal)>,
}

/// The objects about which the mechanisms of a world cannot decide, and what hangs on them.
pub(super) fn of(
    cluster: &Cluster,
    hanging: &Hanging<'_>,
    kubelets: &Kubelets,
    scope: &Scope,
    world: &CleanupWorld<'_>,
) -> (Vec<Undecided>, InDoubt) {
    let undecided = world.undecided();
    let is_in_reach = |position: &u32| scope.members.get(position) == Some(&Member::Affected);
    let mut sources = Sources::new();
    // Whether an owner exists that is not in the dump decides whether they stay.
    let hang_on_unknown: BTreeSet<u32> = scope.unknown.iter().map(|(position, _)| *position).collect();
    let mut may_go: Vec<(u32, Removal)> = Vec::new();
    let mut beginnings: Vec<u32> = Vec::new();
    for open in world.open() {
        beginnings.push(open.position);
        let put_in_doubt: Vec<(u32, Actor)> = match open.touches {
            Touches::Itself => vec![(open.position, Actor::Controller(open.controller))],
            Touches::Claims => {
                let goes = |position: u32| hang_on_unknown.contains(&position) || world.is_deleted(position);
                let set_goes = goes(open.position);
                let claims = hanging.claims_of_set(open.position).into_iter();
                let claims = claims.filter(|(_, pod)| set_goes || pod.is_some_and(goes));
                claims
                    .map(|(claim, _)| (claim, Actor::GarbageCollector))
                    .collect()
            }
            Touches::Nothing => Vec::new(),
        };
        for (position, actor) in put_in_doubt {
            may_go.push((position, (open.since, actor)));
            if is_in_reach(&position) {
                let missing = Missing::Controller {
                    object: cluster.object_ref(open.position),
                    reason: open.missing.to_string(),
                };
                sources.entry(missing).or_default().push(position);
            }
        }
    }
    let pods = cluster
        .snapshot
        .positions_of_kind(Resource::Pods.group(), Resource::Pods.kind());
    let pods = pods.start as u32..pods.end as u32;
    let pods = scope
        .members
        .range(pods)
        .filter(|(_, member)| **member == Member::Affected);
    for (&position, _) in pods {
        if let Some(pod) = cluster.snapshot.record_at(position as usize)
            && let Some(reason) = kubelets.unknown_end(&pod, cluster.assumptions.pods_end)
            && world.is_deleted(position)
        {
            let pod = cluster.object_ref(position);
            sources.insert(Missing::Ending { pod, reason }, vec![position]);
            may_go.push((position, (Duration::ZERO, Actor::Kubelet)));
            beginnings.push(position);
        }
    }
    let mut out_of_reach: Vec<u32> = hanging.all(beginnings).into_iter().collect();
    out_of_reach.retain(|position| !is_in_reach(position));
    let in_doubt = InDoubt {
        sources,
        out_of_reach,
        may_go,
    };
    (undecided, in_doubt)
}
