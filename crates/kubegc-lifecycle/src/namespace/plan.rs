//! Foresees a visit: the calls it makes if every one of them succeeds, and why the rest of the content stays.
//!
//! The world behind the calls is kept as simple as the API server makes it: an object goes at once unless it has finalizers or
//! is a pod whose grace has not passed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{Kept, Plan, PlanOf, Planner, ResourceVersion, StoreError, Timestamp, Uid};

use super::{
    Action, Answer, DiscoveryFailure, Ending, Facts, Finding, GroupVersionResource, Item, Namespace, Object,
    Outcome, Pass, Pod, Reason, Settings, Step,
};

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = Outcome;

    /// Plans one visit.
    ///
    /// A resource whose content was not listed is no proof of emptiness: the plan then ends as a failed visit and keeps the namespace.
    /// What is read after the first write of a plan has no known resourceVersion, and the later writes of the plan do not
    /// expect one. A [`Action::Finalize`] may still be answered with a conflict, as upstream's is; then plan again.
    ///
    /// A plan foresees that the namespace is empty after its deletions; it does not look. To act on a cluster, drive a [`Pass`],
    /// which does, or perform the deletions only and plan again from what is left.
    ///
    /// # Complexity
    /// O(n log n) in the number of resources and objects.
    fn plan(&self, facts: &Facts, now: Timestamp) -> PlanOf<Self> {
        let mut pass = Pass::new(
            self.clone(),
            &facts.namespace.name,
            facts.discovery.clone(),
            facts.failures,
            now,
        );
        let mut world = World::new(facts, now);
        let mut actions = Vec::new();
        let mut answer = None;
        // The world never answers with a conflict, so a visit ends within its stated number of steps.
        let outcome = loop {
            match pass.next(answer.take()) {
                Step::Done(outcome) => break outcome,
                Step::GetNamespace => answer = Some(Answer::Namespace(world.namespace.clone())),
                Step::List { resource, .. } => answer = Some(world.list(&resource)),
                Step::Perform(action) => {
                    answer = Some(world.perform(&action));
                    actions.push(action);
                }
            }
        };
        Plan {
            kept: kept(facts, &world, &outcome),
            findings: findings(facts, &outcome),
            next_at: outcome.requeue_after.map(|wait| now.saturating_add(wait)),
            summary: outcome,
            actions,
        }
    }
}

/// A namespace in which every call succeeds.
struct World {
    namespace: Namespace,
    /// By name and uid, so that plans do not depend on the order of facts.
    contents: BTreeMap<GroupVersionResource, BTreeMap<(Arc<str>, Uid), Item>>,
    now: Timestamp,
}

impl World {
    fn new(facts: &Facts, now: Timestamp) -> Self {
        let mut contents = BTreeMap::<_, BTreeMap<_, Item>>::new();
        for content in &facts.contents {
            let items = content.items.iter().cloned();
            let keyed = items.map(|item| ((Arc::clone(&item.name), item.uid.clone()), item));
            contents
                .entry(content.resource.clone())
                .or_default()
                .extend(keyed);
        }
        Self {
            namespace: facts.namespace.clone(),
            contents,
            now,
        }
    }

    fn list(&self, resource: &GroupVersionResource) -> Answer {
        self.contents
            .get(resource)
            .map_or(Answer::Failed(StoreError::Unlisted), |items| {
                Answer::Items(items.values().cloned().collect())
            })
    }

    fn perform(&mut self, action: &Action) -> Answer {
        let now = self.now;
        match action {
            Action::SetPhaseTerminating { .. } => {
                self.namespace.is_terminating = true;
                self.namespace.resource_version = ResourceVersion::default();
                return Answer::Namespace(self.namespace.clone());
            }
            Action::DeleteCollection { resource, .. } => {
                if let Some(items) = self.contents.get_mut(resource) {
                    items.retain(|_, item| outlives(item, now).is_some());
                }
            }
            Action::Delete {
                resource,
                name,
                expect,
                ..
            } => {
                let key = (
                    Arc::clone(name),
                    expect.uid.clone().unwrap_or_else(|| Uid::new("")),
                );
                if let Some(items) = self.contents.get_mut(resource)
                    && items.get(&key).is_some_and(|item| outlives(item, now).is_none())
                {
                    items.remove(&key);
                }
            }
            Action::UpdateConditions { conditions, .. } => self.namespace.conditions.clone_from(conditions),
            Action::Finalize { finalizers, .. } => self.namespace.finalizers.clone_from(finalizers),
        }
        Answer::Done
    }
}

/// Why an object is still there after its deletion; `None` where it goes at once.
fn outlives(item: &Item, now: Timestamp) -> Option<Reason> {
    if !item.finalizers.is_empty() {
        let finalizers = item.finalizers.clone();
        return Some(Reason::HeldByFinalizers { finalizers });
    }
    let until = ends_at(item.pod.as_ref()?, now)?;
    (now < until).then_some(Reason::InGrace { until })
}

/// When a pod ends that is deleted now, or was before; `None` where it ends at once.
///
/// # Upstream
/// The API server's deletion strategy for pods: unbound and finished ones get no grace.
fn ends_at(pod: &Pod, now: Timestamp) -> Option<Timestamp> {
    if pod.deletion_timestamp.is_some() {
        return pod.deletion_timestamp;
    }
    if pod.is_finished || !pod.is_scheduled {
        return None;
    }
    let grace = pod.grace_period_seconds?.max(0);
    let nanos = grace.saturating_mul(1_000_000_000);
    Some(Timestamp::from_nanos(now.as_nanos().saturating_add(nanos)))
}

/// Everything that is still there when the visit is over, with its reason.
fn kept(facts: &Facts, world: &World, outcome: &Outcome) -> Vec<Kept<Object, Reason>> {
    let discovered: BTreeSet<&GroupVersionResource> = if facts.discovery.unparsable.is_some() {
        BTreeSet::new()
    } else {
        facts
            .discovery
            .resources
            .iter()
            .map(|resource| &resource.id)
            .collect()
    };
    let pods = GroupVersionResource::new("", "v1", "pods");
    let mut kept = Vec::new();
    for (resource, items) in &world.contents {
        for item in items.values() {
            let reason = match outcome.ending {
                Ending::NotDeleted => Reason::NamespaceNotDeleted,
                Ending::AlreadyFinalized => Reason::NamespaceFinalized,
                _ if !discovered.contains(resource) => Reason::NotDiscovered,
                _ if outcome.waits_for_pods && *resource != pods => Reason::PodsGoFirst,
                _ => outlives(item, world.now).unwrap_or(Reason::NotDeletable),
            };
            let object = Object {
                resource: resource.clone(),
                name: Arc::clone(&item.name),
            };
            kept.push(Kept { object, reason });
        }
    }
    let of_namespace = namespace_kept(&world.namespace, outcome);
    kept.extend(of_namespace.map(|reason| Kept {
        object: Object::namespace(&world.namespace.name),
        reason,
    }));
    kept
}

fn namespace_kept(namespace: &Namespace, outcome: &Outcome) -> Option<Reason> {
    match outcome.ending {
        Ending::NotDeleted => Some(Reason::NamespaceNotDeleted),
        Ending::AlreadyFinalized | Ending::Gone => None,
        Ending::Remaining { estimate_seconds } => Some(Reason::ContentRemains { estimate_seconds }),
        Ending::Failed => Some(Reason::VisitFailed {
            message: outcome.error_text().unwrap_or_default(),
        }),
        Ending::Finalized => {
            let finalizers = namespace.finalizers.clone();
            (!finalizers.is_empty()).then_some(Reason::OtherFinalizers { finalizers })
        }
    }
}

fn findings(facts: &Facts, outcome: &Outcome) -> Vec<Kept<Object, Reason>> {
    let incomplete = facts.discovery.failure.as_ref().map(DiscoveryFailure::to_string);
    let incomplete = incomplete.or_else(|| facts.discovery.unparsable.clone());
    let incomplete = incomplete.map(|message| Reason::DiscoveryIncomplete { message });
    let of_pass = outcome.findings.iter().filter_map(|finding| match finding {
        Finding::ConditionsMissPods => Some(Reason::ConditionsMissPods),
        // Every call of a plan succeeds.
        Finding::ConditionsNotWritten { .. } => None,
    });
    let reasons = incomplete.into_iter().chain(of_pass);
    reasons
        .map(|reason| Kept {
            object: Object::namespace(&facts.namespace.name),
            reason,
        })
        .collect()
}
