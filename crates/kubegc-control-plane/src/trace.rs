//! The writes of a simulation, each with its actor, response, effects, reason and causes.

use std::{fmt, sync::Arc, time::Duration};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_controllers::Operation;
use kubegc_core::{
    KindId, ObjectMeta, ObjectRef, OwnerReference, PropagationPolicy, Uid, identity::split_api_version,
};
use kubegc_objects::Reason;
use kubegc_sim::{ApiServer, RefusedBy, Response};

/// The actor of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub enum Actor {
    /// The client with the intent.
    #[display("you")]
    Client,
    #[display("garbage collector")]
    GarbageCollector,
    /// A controller inside the API server, such as the one that deletes the objects of a
    /// CustomResourceDefinition.
    #[display("API server")]
    ApiServer,
    #[display("kubelet")]
    Kubelet,
    /// The owner of a finalizer, outside of kube-controller-manager.
    #[display("finalizer owner")]
    FinalizerOwner,
    Controller(&'static str),
}

/// The verb of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Act {
    /// A DELETE, with its policy if it had one.
    #[display("delete{}", in_brackets(*propagation))]
    Delete { propagation: Option<PropagationPolicy> },
    /// A DELETE of all objects of a resource in a namespace.
    #[display("delete all")]
    DeleteCollection,
    /// A PATCH of metadata.
    #[display("patch")]
    Patch {
        /// Whether it is a JSON merge patch.
        merge: bool,
    },
    #[display("create")]
    Create,
    /// A write of another field, such as a namespace's phase or a finalizer.
    #[display("update")]
    Update,
    /// An operation of a volume plugin, outside of the API server.
    #[display("{}", match _0 {
        Operation::DeleteVolume => "delete the storage of",
        Operation::RecycleVolume => "empty",
    })]
    Storage(Operation),
}

fn in_brackets(policy: Option<PropagationPolicy>) -> String {
    policy.map_or_else(String::new, |policy| format!(" ({policy})"))
}

/// The effect of a write on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It no longer exists.
    Removed,
    /// It exists and has a deletion timestamp.
    Terminating,
    /// It changed in another way.
    Changed,
    Created,
}

/// One object that a write changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    pub object: Arc<ObjectRef>,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The intent at this position.
    Intent(usize),
    /// The reason of the garbage collector.
    Collector(Reason),
    /// The CustomResourceDefinition of its kind is terminating.
    DefinitionTerminating,
    /// The CustomResourceDefinitions of the group and version have changed.
    DefinitionsChanged,
    /// The pod's grace period has expired.
    GracePeriodExpired,
    /// The owner of this finalizer is assumed to remove it.
    FinalizerReleased(Arc<str>),
    Controller(Box<kubegc_controllers::Reason>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{message}")]
pub struct Refusal {
    pub message: Arc<str>,
    /// The extension that refused it, if it was not the API server itself.
    pub by: Option<RefusedBy>,
}

/// One write.
///
/// # Examples
/// `kubegc_predict::Forecast` has an example that reads the actors of two steps.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The time since the beginning.
    pub at: Duration,
    pub actor: Actor,
    pub act: Act,
    pub object: Arc<ObjectRef>,
    /// The HTTP status code of the response.
    pub code: u16,
    /// The refusal, if the API server refused the request. An object that no longer exists, or exists
    /// already, refuses nothing. A request that meets a new version of its object ([`RefusedBy::Conflict`])
    /// is sent again.
    pub failure: Option<Refusal>,
    /// The objects that it changed: most writes change one.
    pub changes: Vec<Change>,
    pub why: Why,
    /// The positions of the earlier steps that caused it, in order. Without any, the cause is the client's
    /// intent or the initial state of the cluster.
    pub causes: Vec<usize>,
}

impl Step {
    /// A write at the beginning, whose changes and causes are not known yet.
    pub(crate) fn new(
        actor: Actor,
        act: Act,
        object: impl Into<Arc<ObjectRef>>,
        (code, failure): Code,
        why: Why,
    ) -> Self {
        Self {
            at: Duration::ZERO,
            actor,
            act,
            object: object.into(),
            code,
            failure,
            changes: Vec::new(),
            why,
            causes: Vec::new(),
        }
    }

    /// Whether it starts the deletion of its objects. The kubelet only completes one.
    pub fn is_delete(&self) -> bool {
        matches!(self.act, Act::Delete { .. } | Act::DeleteCollection) && self.actor != Actor::Kubelet
    }

    /// Whether the API server refused it because another writer changed the object first.
    pub fn is_conflict(&self) -> bool {
        let by = self.failure.as_ref().and_then(|refusal| refusal.by.as_ref());
        by == Some(&RefusedBy::Conflict)
    }
}

impl fmt::Display for Step {
    /// The write as a clause, such as "the job-controller deletes pod/a: ...".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.object.short();
        match (&self.why, self.act) {
            (Why::Intent(_), Act::Delete { propagation }) => {
                write!(f, "you delete {object}{}", in_brackets(propagation))
            }
            (Why::Intent(_), act) => write!(f, "{}: {act} {object}", self.actor),
            (Why::Collector(reason), Act::Delete { propagation }) => {
                let policy = in_brackets(propagation);
                write!(f, "the garbage collector deletes {object}{policy}: {reason}")
            }
            (Why::Collector(reason), _) => write!(f, "the garbage collector patches {object}: {reason}"),
            (Why::DefinitionTerminating, _) => {
                write!(f, "the API server deletes the custom resources of {object}")
            }
            (Why::DefinitionsChanged, Act::Delete { .. }) => write!(
                f,
                "the API server deletes {object}: no CustomResourceDefinition of its group and version is left"
            ),
            (Why::DefinitionsChanged, _) => {
                write!(
                    f,
                    "the API server writes {object} for its CustomResourceDefinitions"
                )
            }
            (Why::GracePeriodExpired, _) => write!(f, "{object} has ended"),
            (Why::FinalizerReleased(name), _) => {
                write!(f, "finalizer {name} of {object} is assumed to be released")
            }
            (Why::Controller(reason), act) => {
                let verb = match act {
                    Act::Delete { .. } => "deletes",
                    Act::DeleteCollection => "deletes the content of",
                    Act::Create => "creates",
                    Act::Patch { .. } | Act::Update => "changes",
                    Act::Storage(Operation::DeleteVolume) => "deletes the storage of",
                    Act::Storage(Operation::RecycleVolume) => "empties the storage of",
                };
                write!(f, "the {} {verb} {object}: {reason}", self.actor)
            }
        }
    }
}

/// The steps of a simulation, with an index that finds causes.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub(crate) steps: Vec<Step>,
    objects: HashMap<Uid, Touched, FixedState>,
}

/// The positions in the trace of the steps that last affected one object. 32 bits are enough for them, and
/// halve the index of a large cluster.
#[derive(Clone, Copy, Debug, Default)]
struct Touched {
    terminating: Option<u32>,
    /// It was removed: the step, and the position of the removal in its changes.
    removed: Option<(u32, u32)>,
    /// One of its dependents was removed or released.
    dependent: Option<u32>,
}

impl Touched {
    /// The end of its deletion, or the start.
    fn deleted(&self) -> Option<u32> {
        self.removed.map(|(step, _)| step).or(self.terminating)
    }
}

impl Trace {
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The steps, without the index.
    pub fn into_steps(self) -> Vec<Step> {
        self.steps
    }

    /// Whether the object of this uid became terminating.
    pub fn was_terminating(&self, uid: &Uid) -> bool {
        self.objects
            .get(uid)
            .is_some_and(|touched| touched.terminating.is_some())
    }

    /// The step that removed an object, and the object as the step names it.
    pub fn removal(&self, object: &ObjectRef) -> Option<(&Step, &Arc<ObjectRef>)> {
        let (step, change) = self.objects.get(&object.uid)?.removed?;
        let step = &self.steps[step as usize];
        Some((step, &step.changes.get(change as usize)?.object))
    }

    /// Adds a step without changes, with its causes. `trigger` is the step that caused the reconcile of a
    /// controller.
    pub(crate) fn record(&mut self, mut step: Step, trigger: Option<usize>) {
        let touched = |uid: &Uid| self.objects.get(uid).copied().unwrap_or_default();
        let object = touched(&step.object.uid);
        let mut add =
            |causes: &mut dyn Iterator<Item = u32>| step.causes.extend(causes.map(|at| at as usize));
        match &step.why {
            Why::Intent(_) => {}
            Why::Collector(Reason::OwnerOrphans(owner)) => {
                add(&mut touched(&owner.uid).terminating.into_iter());
            }
            Why::Collector(reason) if reason.owners().is_empty() => {
                add(&mut object.terminating.into_iter().chain(object.dependent));
            }
            Why::Collector(reason) => {
                let owners = reason.owners().iter().map(|owner| &owner.reference.uid);
                add(&mut owners.filter_map(|uid| touched(uid).deleted()));
            }
            Why::Controller(_) => step.causes.extend(trigger),
            Why::DefinitionTerminating
            | Why::DefinitionsChanged
            | Why::GracePeriodExpired
            | Why::FinalizerReleased(_) => add(&mut object.deleted().into_iter()),
        }
        step.causes.sort_unstable();
        step.causes.dedup();
        self.steps.push(step);
    }

    /// Adds the changes of the last step.
    pub(crate) fn add_changes<'a>(
        &mut self,
        changes: impl Iterator<Item = (Change, &'a [OwnerReference], &'a [OwnerReference])>,
    ) {
        let Some(last) = self.steps.len().checked_sub(1) else {
            return;
        };
        let (changed, at) = (&mut self.steps[last].changes, last as u32);
        for (change, before, after) in changes {
            let touched = self.objects.entry_ref(&change.object.uid).or_default();
            let is_removed = change.outcome == Outcome::Removed;
            match change.outcome {
                Outcome::Removed => touched.removed = Some((at, changed.len() as u32)),
                Outcome::Terminating => touched.terminating = touched.terminating.or(Some(at)),
                Outcome::Changed | Outcome::Created => {}
            }
            let is_kept = |owner: &&OwnerReference| after.iter().any(|kept| kept.uid == owner.uid);
            for owner in before.iter().filter(|owner| is_removed || !is_kept(owner)) {
                self.objects.entry_ref(&owner.uid).or_default().dependent = Some(at);
            }
            changed.push(change);
        }
    }
}

/// The code of a response, and the refusal if the server refused the request.
pub(crate) type Code = (u16, Option<Refusal>);

pub(crate) fn code_of(response: &Response) -> Code {
    let refusal = response.status().and_then(|status| {
        let by = status.refused_by.clone();
        let is_refusal = match status.code {
            404 => false,
            409 => by.is_some(),
            code => code >= 400,
        };
        let message = status.message.as_str().into();
        is_refusal.then_some(Refusal { message, by })
    });
    (response.code, refusal)
}

/// The identity of a stored object.
pub fn object_ref(server: &ApiServer, kind: KindId, meta: &ObjectMeta) -> ObjectRef {
    identity(server, kind, &meta.namespace, &meta.name, &meta.uid)
}

/// Whether an object is a stored one, in the version of this kind.
pub(crate) fn is_identity(server: &ApiServer, kind: KindId, meta: &ObjectMeta, object: &ObjectRef) -> bool {
    let resource = &server.catalog()[kind];
    object.uid == meta.uid
        && object.name == meta.name
        && object.namespace == meta.namespace
        && object.kind == resource.kind
        && split_api_version(&object.api_version) == (&*resource.group, &*resource.version)
}

/// The identity of an object of a kind.
pub(crate) fn identity(
    server: &ApiServer,
    kind: KindId,
    namespace: &Arc<str>,
    name: &Arc<str>,
    uid: &Uid,
) -> ObjectRef {
    let resource = &server.catalog()[kind];
    ObjectRef {
        kind: Arc::clone(&resource.kind),
        api_version: resource.api_version().into(),
        namespace: Arc::clone(namespace),
        name: Arc::clone(name),
        uid: uid.clone(),
    }
}

#[cfg(test)]
mod tests {
    use kubegc_sim::ResponseBody;

    use super::*;

    fn object(uid: &str) -> Arc<ObjectRef> {
        Arc::new(ObjectRef::new("v1", "Secret", "shop", uid, uid))
    }

    fn step(actor: Actor, act: Act, uid: &str, why: Why) -> Step {
        Step::new(actor, act, object(uid), (200, None), why)
    }

    #[test]
    fn a_delete_is_not_one_that_the_kubelet_completes() {
        let delete = Act::Delete { propagation: None };
        for (actor, act, expected) in [
            (Actor::Client, delete, true),
            (Actor::GarbageCollector, Act::DeleteCollection, true),
            (Actor::Kubelet, delete, false),
            (Actor::Client, Act::Update, false),
            (Actor::Kubelet, Act::Update, false),
        ] {
            assert_eq!(
                step(actor, act, "u1", Why::Intent(0)).is_delete(),
                expected,
                "{actor} {act}"
            );
        }
    }

    #[test]
    fn a_step_is_caused_by_the_last_ones_that_affected_its_object() {
        let mut trace = Trace::default();
        let owner = |uid: &str| OwnerReference {
            api_version: "v1".into(),
            kind: "Secret".into(),
            name: uid.into(),
            uid: Uid::from(uid),
            controller: None,
            block_owner_deletion: None,
        };
        let (terminating, changed, removed) = (Outcome::Terminating, Outcome::Changed, Outcome::Removed);
        let expired = || Why::GracePeriodExpired;
        let blocked = || {
            Why::Collector(Reason::NothingBlocks {
                dependents: 0,
                unset: 0,
            })
        };
        let controller = Why::Controller(Box::new(kubegc_controllers::Reason::new("A", "b")));
        let owned: &[&str] = &["a"];
        // The object, the reason, the outcome, the owners before and after, and the causes.
        for (uid, why, outcome, before, after, causes) in [
            ("a", Why::Intent(0), terminating, &[][..], &[][..], &[][..]),
            ("b", expired(), changed, owned, owned, &[]),
            // Its reference to its owner is kept.
            ("a", blocked(), changed, &[], &[], &[0]),
            ("b", expired(), changed, owned, &[], &[]),
            // A dependent was released.
            ("a", blocked(), terminating, &[], &[], &[0, 3]),
            ("c", expired(), removed, owned, owned, &[]),
            // A dependent was removed.
            ("a", blocked(), terminating, &[], &[], &[0, 5]),
            // It became terminating once.
            ("a", expired(), removed, &[], &[], &[0]),
            // The removal comes after that.
            ("a", expired(), changed, &[], &[], &[7]),
            ("a", controller, changed, &[], &[], &[90]),
        ] {
            let [before, after] =
                [before, after].map(|uids| uids.iter().map(|uid| owner(uid)).collect::<Vec<_>>());
            trace.record(step(Actor::Client, Act::Update, uid, why), Some(90));
            let object = object(uid);
            trace.add_changes([(Change { object, outcome }, &before[..], &after[..])].into_iter());
            let step = trace.steps.last().unwrap();
            assert_eq!(
                (step.changes[0].outcome, &*step.causes),
                (outcome, causes),
                "{uid}"
            );
        }
        let was_terminating = ["a", "b", "none"].map(|uid| trace.was_terminating(&Uid::from(uid)));
        assert_eq!(was_terminating, [true, false, false]);
        let removals = ["a", "b", "c", "none"].map(|uid| {
            trace
                .removal(&object(uid))
                .map(|(step, of)| (&*step.object.name, &*of.name))
        });
        assert_eq!(removals, [Some(("a", "a")), None, Some(("c", "c")), None]);
        assert_eq!(trace.steps().len(), 10);
        assert_eq!(trace.into_steps().len(), 10);
    }

    #[test]
    fn the_message_of_a_refusal_is_kept() {
        let version = kubegc_core::KubernetesVersion::LATEST;
        let mut server = ApiServer::new(version, kubegc_core::Catalog::builtin(version));
        let kind = server.catalog().mapping("v1", "Secret").unwrap();
        let response = server.delete(kind, "shop", "none", &Default::default());
        assert_eq!(code_of(&response), (404, None));
        let mut failed = response;
        // An object that exists already, or has another uid, refuses nothing.
        for (code, by, is_refused) in [
            (399, None, false),
            (409, None, false),
            (409, Some(RefusedBy::Conflict), true),
            (422, None, true),
        ] {
            failed.code = code;
            if let ResponseBody::Status(status) = &mut failed.body {
                (status.code, status.message, status.refused_by) = (code, "why".to_owned(), by.clone());
            }
            let message = "why".into();
            let refusal = is_refused.then_some(Refusal { message, by });
            assert_eq!(code_of(&failed), (code, refusal));
        }
    }
}
