//! Deleted objects that their controllers create again.

use std::collections::BTreeMap;

use kubegc_core::{
    ObjectMeta, ObjectRef,
    record::{Body, Deployment, Pod, Record, Resource, StatefulSet},
    version::behavior,
};

use super::{Fate, Finding, ObjectFate, fate_at, review::refused_creation};
use crate::facts::{DELETING, Facts, Owner};

/// The reaction of a controller to the deletion of a dependent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recreation {
    Certain,
    Possible,
    Never,
}

/// The findings about deleted objects whose controllers are kept.
///
/// A kind without a known controller may create any of its dependents again.
///
/// # Complexity
/// O(n log n) for n fates and dependents of their controllers.
pub(crate) fn findings(facts: &Facts, fates: &[ObjectFate]) -> Vec<Finding> {
    let recreations = Recreations { facts, fates };
    let mut deleted: BTreeMap<u32, Vec<&ObjectFate>> = BTreeMap::new();
    let is_deleted =
        |fate: &&ObjectFate| matches!(fate.fate, Fate::Deleted { .. } | Fate::Terminating { .. });
    for fate in fates.iter().filter(is_deleted) {
        let references = fate.before().owner_references();
        for (reference, owner) in references.zip(facts.edges.owners(fate.position)) {
            if let Owner::At(owner) = owner
                && reference.controller == Some(true)
                && recreations.is_kept(owner)
            {
                deleted.entry(owner).or_default().push(fate);
            }
        }
    }
    let mut servers = BTreeMap::new();
    let mut findings: Vec<Finding> = recreations.addresses().collect();
    for (owner, deleted) in deleted {
        let record = facts.record(owner);
        let [certain, possible] = recreations.pods_to_create(owner, &record);
        for (number, fate) in deleted.into_iter().enumerate() {
            let recreation = match &*record.body {
                Body::ReplicaSet(_) if number < certain => Recreation::Certain,
                Body::ReplicaSet(_) if number >= possible => Recreation::Never,
                _ => recreations.of_dependent(&record, fate),
            };
            if recreation == Recreation::Never {
                continue;
            }
            let (object, controller) = (ObjectRef::clone(&fate.object), facts.object_ref(owner));
            findings.push(match refused_creation(facts, fates, &mut servers, fate) {
                Some(refusal) => Finding::NotCreatedAgain {
                    object,
                    controller,
                    refusal,
                },
                None => Finding::CreatedAgain {
                    object,
                    controller,
                    is_certain: recreation == Recreation::Certain,
                },
            });
        }
    }
    findings
}

struct Recreations<'a> {
    facts: &'a Facts,
    fates: &'a [ObjectFate],
}

impl Recreations<'_> {
    /// The deleted IPAddresses of Services that are kept: the API server finds within a minute that they are
    /// missing.
    ///
    /// # Upstream
    /// [`ipallocator/controller/repairip.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/service/ipallocator/controller/repairip.go)
    fn addresses(&self) -> impl Iterator<Item = Finding> {
        let has_addresses = self.facts.version.has(behavior::ADDRESSES_ARE_OBJECTS);
        let deleted = self.fates.iter().filter(move |fate| {
            has_addresses && *fate.object.kind == *"IPAddress" && matches!(fate.fate, Fate::Deleted { .. })
        });
        deleted.filter_map(|fate| {
            let record = self.facts.record(fate.position);
            let Body::IpAddress(address) = &*record.body else {
                return None;
            };
            let parent = address.parent.known().filter(|parent| parent.is_service())?;
            let (services, namespace) = (Resource::Services, &parent.namespace);
            let service = self.facts.by_name(services, namespace, &parent.name)?;
            self.is_kept(service).then(|| Finding::CreatedAgain {
                object: ObjectRef::clone(&fate.object),
                controller: self.facts.object_ref(service),
                is_certain: true,
            })
        })
    }

    fn is_kept(&self, position: u32) -> bool {
        match fate_at(self.fates, position) {
            Some(state) => matches!(state.fate, Fate::Kept | Fate::Released { .. }),
            None => !self.facts.has(position, DELETING),
        }
    }

    /// The reaction of a controller to the deletion of one dependent.
    fn of_dependent(&self, owner: &Record, fate: &ObjectFate) -> Recreation {
        match (&*owner.body, self.facts.resource_at(fate.position)) {
            (Body::StatefulSet(set), Some(Resource::Pods)) => pod_of_stateful_set(&owner.meta, set, fate),
            (Body::StatefulSet(set), Some(Resource::ControllerRevisions)) => {
                match set.update_revision.known() {
                    Some(current) if *current != fate.object.name => Recreation::Never,
                    _ => Recreation::Possible,
                }
            }
            (Body::DaemonSet(_), Some(Resource::Pods)) => self.pod_of_daemon_set(fate.position),
            (Body::Deployment(deployment), Some(Resource::ReplicaSets)) => {
                self.replica_set_of_deployment(deployment, fate)
            }
            // It creates Jobs by its schedule, whether earlier Jobs exist or not.
            (Body::CronJob(_), _) => Recreation::Never,
            (Body::Job(job), _) if matches!(job.finished(), Some(Some(_))) => Recreation::Never,
            (Body::Job(job), _) if job.is_suspended.known() == Some(&true) => Recreation::Never,
            _ => Recreation::Possible,
        }
    }

    /// A ReplicaSet creates as many pods as are missing: the number that it certainly creates, and that it
    /// may create. Terminating and finished pods do not count.
    ///
    /// # Upstream
    /// [`manageReplicas`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/replicaset/replica_set.go).
    fn pods_to_create(&self, owner: u32, record: &Record) -> [usize; 2] {
        let replicas = record.replica_set().and_then(|set| set.replicas.known());
        let Some(&replicas) = replicas else {
            return [0, usize::MAX];
        };
        let pods = self.facts.edges.dependents(owner).iter();
        let states = pods.filter_map(|&position| self.is_active_pod(position, &record.meta));
        let (active, others): (Vec<_>, Vec<_>) = states
            .filter(|state| *state != Some(false))
            .partition(Option::is_some);
        let missing = usize::try_from(replicas)
            .unwrap_or(0)
            .saturating_sub(active.len());
        match self.facts.is_complete_in(Resource::Pods, &record.meta.namespace) {
            true => [missing.saturating_sub(others.len()), missing],
            false => [0, missing],
        }
    }

    /// Whether a dependent of a ReplicaSet counts as one of its replicas at the end; `Some(None)` if that is
    /// unknown, `None` if the dependent is not a pod of it.
    fn is_active_pod(&self, position: u32, owner: &ObjectMeta) -> Option<Option<bool>> {
        if self.facts.resource_at(position) != Some(Resource::Pods) {
            return None;
        }
        let pod = self.facts.record(position);
        pod.meta.controller().filter(|one| one.uid == owner.uid)?;
        let is_deleted = match fate_at(self.fates, position).map(|state| &state.fate) {
            Some(Fate::Deleted { .. } | Fate::Terminating { .. }) => Some(true),
            Some(Fate::Undetermined { .. }) => None,
            Some(Fate::Kept | Fate::Released { .. }) | None => Some(pod.meta.is_deleting()),
        };
        let is_finished = pod.pod().and_then(Pod::has_final_phase);
        Some(match (is_deleted, is_finished) {
            (Some(true), _) | (_, Some(true)) => Some(false),
            (Some(false), Some(false)) => Some(true),
            _ => None,
        })
    }

    /// A DaemonSet has a pod on each suitable node. The deleted pod was running on its node, which is
    /// therefore suitable unless it has changed.
    fn pod_of_daemon_set(&self, pod: u32) -> Recreation {
        let record = self.facts.record(pod);
        let node = record.pod().and_then(|pod| pod.node_name.known());
        let Some(name) = node.filter(|name| !name.is_empty()) else {
            return Recreation::Possible;
        };
        let has_no_taints = |node: u32| {
            let record = self.facts.record(node);
            let taints = record.node().and_then(|node| node.taints.known());
            taints.is_some_and(Vec::is_empty)
        };
        match self.facts.by_name(Resource::Nodes, "", name) {
            Some(node) if self.is_kept(node) && has_no_taints(node) => Recreation::Certain,
            None if self.facts.is_complete(Resource::Nodes) => Recreation::Never,
            _ => Recreation::Possible,
        }
    }

    /// A Deployment creates the ReplicaSet of its template when the earlier one is removed, unless it is
    /// paused. It creates no other ReplicaSet.
    ///
    /// # Upstream
    /// [`getNewReplicaSet`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/sync.go).
    fn replica_set_of_deployment(&self, deployment: &Deployment, fate: &ObjectFate) -> Recreation {
        if deployment.is_paused.known() == Some(&true) {
            return Recreation::Never;
        }
        let record = self.facts.record(fate.position);
        let set = record.replica_set();
        let template = set.and_then(|set| set.template_digest.known());
        let is_removed = matches!(fate.fate, Fate::Deleted { .. });
        match (deployment.template_digest.known(), template) {
            (Some(wanted), Some(template)) if wanted != template => Recreation::Never,
            (Some(_), Some(_)) if is_removed && deployment.is_paused.known().is_some() => Recreation::Certain,
            _ => Recreation::Possible,
        }
    }
}

/// A StatefulSet creates the pods of its ordinals, each when the earlier one is removed.
///
/// # Upstream
/// [`updateStatefulSet`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/statefulset/stateful_set_control.go).
fn pod_of_stateful_set(meta: &ObjectMeta, set: &StatefulSet, fate: &ObjectFate) -> Recreation {
    let ordinal = fate.object.name.strip_prefix(&*meta.name);
    let ordinal = ordinal.and_then(|rest| rest.strip_prefix('-')?.parse::<i64>().ok());
    let Some(ordinal) = ordinal else {
        return Recreation::Never;
    };
    let (Some(&replicas), Some(&first)) = (set.replicas.known(), set.first_ordinal.known()) else {
        return Recreation::Possible;
    };
    let first = i64::from(first);
    match (first..first + i64::from(replicas)).contains(&ordinal) {
        true if matches!(fate.fate, Fate::Deleted { .. }) => Recreation::Certain,
        true => Recreation::Possible,
        false => Recreation::Never,
    }
}
