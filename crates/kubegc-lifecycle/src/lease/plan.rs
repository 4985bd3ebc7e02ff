//! What the owner-reference collector makes of every node lease.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{
    Kept, ObjectMeta, OwnerReference, Plan, PlanOf, Planner, Preconditions, PropagationPolicy, Timestamp,
    metadata,
};

use super::{Action, Facts, Nodes, Owner, OwnerState, Reason, Settings, Summary};
use crate::object::{Live, Object, Resource, by_identity, by_key, expected};

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans for all leases. Time changes nothing, so `next_at` is always `None`.
    fn plan(&self, facts: &Facts, _now: Timestamp) -> PlanOf<Self> {
        let mut plan = Plan::default();
        let leases = match &facts.leases {
            Ok(leases) => leases,
            Err(error) => {
                plan.summary = Summary {
                    error: Some(error.clone()),
                    ..Summary::default()
                };
                return plan;
            }
        };
        let nodes = Known::new(&facts.nodes);
        let mut lookups = BTreeSet::new();
        for (object, lease) in by_identity(Resource::Leases, leases, |lease| lease) {
            let verdict = lease.map_or(Err(Reason::ListedTwice), |lease| self.judge(lease, &nodes));
            match (verdict, lease) {
                (Ok(owners), Some(lease)) => self.act(object, lease, owners, &mut plan),
                (Err(reason), Some(lease)) => {
                    if matches!(reason, Reason::NodeNotLookedUp { .. }) {
                        lookups.extend(nodes.unknown_of(lease));
                    }
                    plan.kept.push(Kept { object, reason });
                }
                (_, None) => plan.kept.push(Kept {
                    object,
                    reason: Reason::ListedTwice,
                }),
            }
        }
        plan.summary.lookups = lookups.into_iter().collect();
        plan
    }
}

impl Settings {
    /// What was found of each owner, or why the lease stays as it is.
    fn judge(&self, lease: &ObjectMeta, nodes: &Known<'_>) -> Result<Vec<Owner>, Reason> {
        if lease.namespace != self.namespace {
            return Err(Reason::OtherNamespace);
        }
        if lease.is_deleting() {
            return Err(Reason::BeingDeleted);
        }
        if lease.uid.is_empty() {
            return Err(Reason::IdentityUnknown);
        }
        if lease.owner_references.is_empty() {
            return Err(Reason::NoOwners);
        }
        lease
            .owner_references
            .iter()
            .map(|reference| nodes.resolve(reference))
            .collect()
    }

    /// Plans for a lease whose owners were all found out about.
    fn act(&self, object: Object, lease: &ObjectMeta, owners: Vec<Owner>, plan: &mut PlanOf<Self>) {
        let expect = expected(lease);
        let has_solid = owners.iter().any(|owner| owner.state == OwnerState::Present);
        let uids_of = |wanted: fn(&OwnerState) -> bool| {
            let resolved = owners.iter().zip(&lease.owner_references);
            let chosen = resolved.filter(move |(owner, _)| wanted(&owner.state));
            chosen.map(|(_, reference)| reference.uid.clone())
        };
        let mut released: Vec<_> = uids_of(OwnerState::is_gone).collect();
        released.extend(uids_of(|state| *state == OwnerState::Waiting));
        let reason = Reason::Owners { owners };
        if !has_solid {
            let sent = Preconditions {
                uid: expect.uid.clone(),
                resource_version: expect
                    .resource_version
                    .clone()
                    .filter(|_| self.expects_resource_version),
            };
            plan.actions.push(Action::Delete {
                object,
                expect,
                sent,
                propagation: propagation(lease),
                reason,
            });
        } else if released.is_empty() {
            plan.kept.push(Kept { object, reason });
        } else {
            plan.actions.push(Action::Release {
                object,
                expect,
                owners: released,
                reason,
            });
        }
    }
}

/// The collector's finalizer that a lease carries already is respected.
fn propagation(lease: &ObjectMeta) -> PropagationPolicy {
    if lease.has_finalizer(metadata::FINALIZER_ORPHAN) {
        PropagationPolicy::Orphan
    } else if lease.has_finalizer(metadata::FINALIZER_FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    }
}

/// Nodes by name.
enum Known<'a> {
    /// All of them; `None` where a name was listed twice and not alike.
    All(BTreeMap<&'a str, Option<&'a ObjectMeta>>),
    Of(&'a BTreeMap<Arc<str>, Live<ObjectMeta>>),
}

impl<'a> Known<'a> {
    fn new(nodes: &'a Nodes) -> Self {
        match nodes {
            Nodes::Of(reads) => Self::Of(reads),
            Nodes::All(listed) => Self::All(by_key(listed, |node| &*node.name)),
        }
    }

    /// What was found of the owner that a reference names. Nodes are looked up without a namespace, whatever that of the lease.
    fn resolve(&self, reference: &OwnerReference) -> Result<Owner, Reason> {
        if !names_node(reference) {
            let owner = reference.to_string();
            return Err(Reason::OwnerIsNoNode { owner });
        }
        let node = Arc::clone(&reference.name);
        if reference.uid.is_empty() {
            return Err(Reason::OwnerIdentityUnknown { node });
        }
        let live = match self {
            Self::All(all) => match all.get(&*node) {
                None => None,
                Some(Some(found)) => Some(*found),
                Some(None) => return Err(Reason::NodeListedTwice { node }),
            },
            Self::Of(reads) => match reads.get(&node) {
                None | Some(Live::NotAsked) => return Err(Reason::NodeNotLookedUp { node }),
                Some(Live::Failed(message)) => {
                    let message = Arc::clone(message);
                    return Err(Reason::NodeLookupFailed { node, message });
                }
                Some(Live::NotFound) => None,
                Some(Live::Found(found)) => Some(found),
            },
        };
        let state = match live {
            None => OwnerState::Absent,
            Some(found) if found.uid.is_empty() => return Err(Reason::OwnerIdentityUnknown { node }),
            Some(found) if found.uid != reference.uid => OwnerState::Replaced {
                live: found.uid.clone(),
            },
            Some(found) if found.is_deleting() && found.has_finalizer(metadata::FINALIZER_FOREGROUND) => {
                OwnerState::Waiting
            }
            Some(_) => OwnerState::Present,
        };
        Ok(Owner { node, state })
    }

    /// The owners of a lease that were not looked up.
    fn unknown_of(&self, lease: &ObjectMeta) -> impl Iterator<Item = Arc<str>> {
        let references = lease.owner_references.iter();
        references.filter_map(|reference| match self.resolve(reference) {
            Err(Reason::NodeNotLookedUp { node }) => Some(node),
            _ => None,
        })
    }
}

/// Whether a reference names a node, in the version that the collector knows it by.
fn names_node(reference: &OwnerReference) -> bool {
    &*reference.api_version == "v1" && &*reference.kind == "Node"
}
