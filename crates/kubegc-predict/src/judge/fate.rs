//! Fates of objects, missing facts and findings, and fates as parts of sentences.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use kubegc_core::{ObjectRef, OwnerReference, record::Resource};
use serde::{Serialize, Serializer};

use super::Wait;
use crate::{
    error::question,
    trace::{Actor, Refusal},
    words::{each_shown, quoted, shown, some_of, span},
};

/// The fate of an object.
///
/// # Examples
/// The example of [`Forecast`](crate::Forecast) reads the fates of two objects.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "fate", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Fate {
    /// It is deleted.
    Deleted {
        /// The actor whose write removed it.
        #[serde(serialize_with = "shown")]
        by: Actor,
    },
    /// It is kept.
    Kept,
    /// It is kept and loses owner references.
    Released {
        /// The references that it loses.
        owners: Vec<OwnerReference>,
    },
    /// It is terminating at the end.
    Terminating {
        /// The conditions that it waits for, at least one.
        waits_for: Vec<Wait>,
    },
    /// Missing data allows several fates.
    Undetermined {
        /// The possible outcomes: `deleted`, `terminating`, `released`, `kept`.
        outcomes: Outcomes,
        /// The missing facts, at least one: the first hundred.
        #[serde(serialize_with = "each_shown")]
        missing: Vec<Missing>,
    },
}

impl Fate {
    /// One word for it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Deleted { .. } => "deleted",
            Self::Kept => "kept",
            Self::Released { .. } => "released",
            Self::Terminating { .. } => "terminating",
            Self::Undetermined { .. } => "undetermined",
        }
    }

    /// The conditions that a terminating object waits for; none for other fates.
    pub fn waits_for(&self) -> &[Wait] {
        match self {
            Self::Terminating { waits_for } => waits_for,
            _ => &[],
        }
    }

    /// The missing facts that an undetermined fate depends on; none for other fates.
    pub fn missing(&self) -> &[Missing] {
        match self {
            Self::Undetermined { missing, .. } => missing,
            _ => &[],
        }
    }
}

impl From<&Fate> for Outcomes {
    fn from(fate: &Fate) -> Self {
        match fate {
            Fate::Deleted { .. } => Self::DELETED,
            Fate::Terminating { .. } => Self::TERMINATING,
            Fate::Released { .. } => Self::RELEASED,
            Fate::Kept => Self::KEPT,
            Fate::Undetermined { outcomes, .. } => *outcomes,
        }
    }
}

/// Data that is missing from the dump and that a fate depends on.
///
/// # Examples
/// The owner of a Secret is missing from the dump, and its kind was not dumped completely.
/// ```
/// # use kubegc_core::{KubernetesVersion};
/// # use kubegc_predict::{Assumptions, Cluster};
/// # let version = KubernetesVersion::LATEST;
/// # let mut reader = kubegc_snapshot::Reader::new(version);
/// # reader.read("dump.yaml", &b"
/// # apiVersion: v1
/// # kind: Secret
/// # metadata: {namespace: shop, name: key, uid: u2, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: u1}]}
/// # "[..])?;
/// # let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
/// use kubegc_predict::{Fate, Missing};
/// let forecast = cluster.pending();
/// let Fate::Undetermined { outcomes, missing } = &forecast.fates[0].fate else { panic!("{:?}", forecast.fates) };
/// assert_eq!(outcomes.to_string(), "deleted, or kept");
/// assert!(matches!(&missing[0], Missing::Owner { resource, .. } if resource == "configmaps"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub enum Missing {
    /// An owner whose kind was not dumped completely.
    #[display("whether {} exists: {}", owner.short(), add_list(resource))]
    Owner {
        /// The owner, as the reference names it. The namespace is the one of the lookup.
        owner: ObjectRef,
        /// The resource to dump, as kubectl accepts it.
        resource: String,
    },
    /// A kind that is not a built-in one and that neither a CustomResourceDefinition nor discovery output in
    /// the dump defines.
    #[display("what {}/{} is: add the output of `kubectl api-resources`", owner.api_version, owner.kind)]
    Kind {
        /// The owner, as the reference names it, or the object itself.
        owner: ObjectRef,
    },
    /// A part of the object itself that could not be read.
    #[display("some fields of {}, which could not be read", object.short())]
    Flawed { object: ObjectRef },
    /// A fact that a controller needs to decide about the object, or about one that it depends on.
    #[display("whether {} is cleaned up: {reason}", object.short())]
    Controller {
        /// The object about which the controller cannot decide.
        object: ObjectRef,
        /// The missing fact, in words.
        reason: String,
    },
    /// The content of a namespace, or the custom resources of a CustomResourceDefinition: any object with a
    /// finalizer keeps it terminating.
    #[display(
        "whether objects with finalizers remain in {}: add the output of `{}` and declare it complete",
        object.short(),
        content_command(object, resources)
    )]
    Content {
        /// The namespace or definition.
        object: ObjectRef,
        /// The resources that are not complete in the dump, as kubectl accepts them.
        resources: Vec<String>,
    },
    /// The data that determines when a deleted pod ends, and whether a kubelet ends it.
    #[display("when {} ends: {reason}", pod.short())]
    Ending {
        pod: ObjectRef,
        /// Description of the missing data.
        reason: String,
    },
    /// Whether a ValidatingAdmissionPolicy allows a request for the object, or for one that it depends on.
    #[display(
        "whether ValidatingAdmissionPolicy {policy} allows the requests (`{expression}`): check with \
         `--dry-run=server`"
    )]
    Policy {
        policy: Arc<str>,
        /// The CEL expression that reads data of the request or the object which the forecast does not have,
        /// or that is not evaluated without the feature `cel`.
        expression: Arc<str>,
    },
}

/// The way to complete the list of a resource.
fn add_list(resource: &str) -> String {
    format!("add the output of `kubectl get {resource} -A -o json` and declare it complete")
}

/// The missing fact of a controller, with the command that supplies it. `fact` is its sentence.
pub(crate) fn missing_fact(missing: &kubegc_controllers::Missing, fact: String) -> String {
    let Some(resource) = missing.unlisted() else {
        return fact;
    };
    let list = resource.plural();
    let name = match resource.group() {
        "" => list.to_owned(),
        group => format!("{list}.{group}"),
    };
    format!("the list of {list} is not complete: {}", add_list(&name))
}

/// The number of resources up to which a command lists them.
const RESOURCES_MAX: usize = 8;

/// The command that lists the content of a namespace, or the custom resources of a CustomResourceDefinition.
pub(crate) fn content_command(object: &ObjectRef, resources: &[String]) -> String {
    let scope = match &*object.kind {
        "Namespace" => format!("-n {}", quoted(&object.name)),
        _ => "-A".to_owned(),
    };
    let quoted: Vec<String> = resources.iter().map(|resource| quoted(resource)).collect();
    let listed = match resources.len() {
        1..=RESOURCES_MAX => quoted.join(","),
        _ => "$(kubectl api-resources --namespaced --verbs=list -o name | paste -sd,)".to_owned(),
    };
    format!("kubectl get {listed} {scope} -o json")
}

/// A result of a forecast that is not a fate, such as a problem.
///
/// # Examples
/// The example of [`Forecast`](crate::Forecast) reads that there are no findings.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub enum Finding {
    /// An object is deleted and its controller is kept and creates another one. Its name may differ. There is
    /// no finding for an object that its controller no longer needs.
    #[display(
        "{} {} created again {} {}, which is kept",
        object.short(),
        if *is_certain { "is" } else { "may be" },
        // The API server creates the addresses of Services.
        if *controller.kind == *"Service" { "for" } else { "by" },
        controller.short()
    )]
    CreatedAgain {
        object: ObjectRef,
        controller: ObjectRef,
        /// Whether it certainly does. Otherwise it may, because its kind is not one of Kubernetes or data is
        /// missing.
        is_certain: bool,
    },
    /// An object is deleted, and the API server refuses the request of its controller to create another one.
    #[display(
        "{} is not created again by {}: the API server refuses it: {refusal}",
        object.short(),
        controller.short()
    )]
    NotCreatedAgain {
        object: ObjectRef,
        controller: ObjectRef,
        /// The API server's message, and what refuses.
        refusal: Refusal,
    },
    /// Dependents of kinds that were not dumped completely may block the deletion of their owners, and may be
    /// deleted or kept themselves.
    #[display(
        "objects of kinds that were not dumped completely may depend on deleted objects: {}",
        first(kinds.clone())
    )]
    UnseenDependents {
        /// The kinds, as `resource.group`.
        kinds: Vec<String>,
    },
    /// A cluster-scoped object names a namespaced owner: the collector never deletes it.
    #[display(
        "{} is cluster-scoped and names a namespaced owner: the collector leaves it alone",
        object.short()
    )]
    NamespacedOwnerOfClusterScoped { object: ObjectRef },
    /// A reference names a kind that is not served: the collector retries forever and does not delete the
    /// object.
    #[display(
        "{} names an owner of {kind}, which is not served: the collector never decides about it",
        object.short()
    )]
    OwnerKindNotServed {
        object: ObjectRef,
        /// The apiVersion and kind that the reference names.
        kind: String,
    },
    /// The API server refused the delete.
    #[display("the API server refuses to delete {}: {code} {message}", object.short())]
    Refused {
        object: ObjectRef,
        /// The HTTP status.
        code: u16,
        /// The server's message.
        message: String,
    },
    /// The API server failed to perform requests of controllers or kubelets.
    #[display(
        "the API server refuses requests for {}: {message}",
        first(short_names(objects))
    )]
    RequestsFail {
        /// The server's message, such as the one that names an unreachable webhook.
        message: Arc<str>,
        /// The objects of the requests.
        objects: Vec<ObjectRef>,
    },
    /// The cloud provider was queried about a node that is missing from the dump: the response has no effect.
    #[display(
        "the cloud provider was queried about node {node}, which is missing from the dump: its response has \
         no effect"
    )]
    NodeNotDumped { node: Arc<str> },
    /// A controller, or a component outside of kube-controller-manager, is assumed not to act, because an
    /// object has waited for it much longer than it normally needs.
    #[display(
        "{component} is assumed not to act: {} has waited for it for {}",
        object.short(),
        span(*lasted)
    )]
    DoesNotAct {
        component: &'static str,
        /// The object that has waited longest.
        object: ObjectRef,
        lasted: Duration,
    },
    /// StatefulSets were not dumped completely, and claims are named like those of sets that are missing. If
    /// such a set or its pod is being deleted, the claims and their volumes may be deleted with it.
    #[display(
        "the list of statefulsets is not complete: claims named like those of a StatefulSet ({claims}) may \
         be deleted with it, and their volumes with them"
    )]
    UnseenSets { claims: usize },
    /// Terminating objects wait for each other: each is deleted in the foreground, and depends on another one
    /// with `blockOwnerDeletion`.
    #[display(
        "{} {}: a cycle of foreground deletion, which ends when blockOwnerDeletion is false in {}",
        listed(objects),
        if objects.len() == 1 { "waits for itself" } else { "wait for each other" },
        if objects.len() == 1 { "its reference to itself" } else { "one of the references" }
    )]
    Cycle { objects: Vec<ObjectRef> },
    /// The outcome of objects depends on the order in which the API server performs requests.
    #[display(
        "{}: {outcomes}; the order of requests decides ({orders} orders were tried)",
        listed(objects)
    )]
    OrderDecides {
        objects: Vec<ObjectRef>,
        outcomes: Outcomes,
        /// The number of orders that were tried.
        orders: u64,
    },
    /// A kind is declared complete, objects refer to objects of it, and the dump has none: most likely it was
    /// not dumped.
    #[display(
        "{}, and the dump has no {kind} although {resource} are declared complete: check with \
         `kubectl get {resource}{}`",
        referrers(kind, *objects),
        if *is_namespaced { " -A" } else { "" }
    )]
    KindMissing {
        kind: String,
        /// The resource, as kubectl accepts it.
        resource: String,
        is_namespaced: bool,
        /// The number of objects that refer to it.
        objects: usize,
    },
    /// No object of the dump matches the selectors of the intents.
    #[display(
        "No resources found in {}{}",
        namespace.as_ref().map_or("the dump".to_owned(), |name| format!("{name} namespace of the dump")),
        question(similar)
    )]
    NothingSelected {
        /// The namespace of all intents.
        namespace: Option<Arc<str>>,
        /// Labels and namespaces that objects of these kinds have, the most similar ones.
        similar: Vec<String>,
    },
    /// Controllers write without end, so the simulation stopped.
    #[display(
        "the simulation stopped {} s after its beginning: it made {writes} writes, and these objects are \
         written again and again: {}; fates may be wrong",
        at.as_secs(),
        first(cycle.iter().map(|(actor, object)| format!("{} (by the {actor})", object.short())).collect())
    )]
    DidNotSettle {
        /// The time of the last write since the beginning.
        at: Duration,
        writes: usize,
        /// The objects that were written in the last cycle of writes, each with its writer.
        cycle: Vec<(Actor, ObjectRef)>,
    },
}

const KINDS_SHOWN: usize = 6;

/// The first of some names, and the number of the others.
fn first(names: Vec<String>) -> String {
    some_of(names, KINDS_SHOWN).join(", ")
}

/// The first objects as a part of a sentence.
fn listed(objects: &[ObjectRef]) -> String {
    let names = short_names(objects);
    match names.split_last() {
        Some((last, others)) if (1..KINDS_SHOWN).contains(&others.len()) => {
            format!("{} and {last}", others.join(", "))
        }
        _ => first(names),
    }
}

fn short_names(objects: &[ObjectRef]) -> Vec<String> {
    objects.iter().map(ObjectRef::short).collect()
}

fn referrers(kind: &str, objects: usize) -> String {
    match (kind, objects) {
        ("Node", 1) => "1 pod runs on a node".to_owned(),
        ("Node", pods) => format!("{pods} pods run on nodes"),
        (_, 1) => format!("1 object names a {kind} as its owner"),
        (_, objects) => format!("{objects} objects name a {kind} as their owner"),
    }
}

/// The outcomes that an object can have, at least one: those of the runs with and without the owners that are
/// missing from the dump, and those that the other missing facts allow.
///
/// # Examples
/// ```
/// use kubegc_predict::{Fate, Outcomes};
/// let outcomes = Outcomes::from(&Fate::Kept);
/// assert_eq!(outcomes.to_string(), "kept");
/// assert!(outcomes.words().eq(["kept"]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Outcomes(u8);

/// The words of fates, each with its bit.
const WORDS: [(Outcomes, &str); 4] = [
    (Outcomes::DELETED, "deleted"),
    (Outcomes::TERMINATING, "terminating"),
    (Outcomes::RELEASED, "released"),
    (Outcomes::KEPT, "kept"),
];

impl Outcomes {
    pub(crate) const DELETED: Self = Self(1);
    pub(crate) const TERMINATING: Self = Self(2);
    pub(crate) const RELEASED: Self = Self(4);
    pub(crate) const KEPT: Self = Self(8);

    /// The words of the fates: `deleted`, `terminating`, `released`, `kept`.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let words = WORDS.into_iter().filter(move |(outcome, _)| self.has(*outcome));
        words.map(|(_, word)| word)
    }

    /// These outcomes and others.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether one of the others is among them.
    pub(crate) const fn has(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

/// `deleted, terminating, or kept`.
impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.words().collect();
        match words.split_last() {
            Some((last, [])) => f.write_str(last),
            Some((last, others)) => write!(f, "{}, or {last}", others.join(", ")),
            None => Ok(()),
        }
    }
}

impl Serialize for Outcomes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.words())
    }
}

/// The sentence that follows the name of a fate.
pub(crate) fn sentence(fate: &Fate) -> String {
    match fate {
        Fate::Terminating { waits_for } => {
            let waits: Vec<String> = waits_for.iter().map(ToString::to_string).collect();
            format!("waiting for {}", waits.join(", and for "))
        }
        Fate::Released { owners } => {
            let names: Vec<String> = owners.iter().map(OwnerReference::short).collect();
            format!("released from {}", names.join(" and "))
        }
        _ => String::new(),
    }
}

/// The sentence about the fate of an object, with the missing facts.
pub(crate) fn detail(fate: &Fate, of: &ObjectRef) -> String {
    let Fate::Undetermined { missing, .. } = fate else {
        return sentence(fate);
    };
    let text = missing_text(missing, of);
    match text.is_empty() {
        true => format!("whether it is cleaned up: {}", own_reasons(missing, of)),
        false => text,
    }
}

/// The facts that controllers need to decide about the object itself.
pub(crate) fn own_reasons(missing: &[Missing], of: &ObjectRef) -> String {
    let own = missing.iter().filter_map(|missing| match missing {
        Missing::Controller { object, reason } if *object == *of => Some(&**reason),
        _ => None,
    });
    let own: Vec<&str> = own.collect::<BTreeSet<&str>>().into_iter().collect();
    own.join("; ")
}

/// The missing facts about the owners of an object and other objects that it depends on. Empty if all facts
/// are about the object itself.
pub(crate) fn missing_text(missing: &[Missing], of: &ObjectRef) -> String {
    let own_end = missing.iter().find_map(|missing| match missing {
        Missing::Ending { pod, reason } if *pod == *of => Some(reason),
        _ => None,
    });
    let claim = match *of.kind == *Resource::PersistentVolumeClaims.kind() {
        true => "it",
        false => "the claim that it belongs to",
    };
    let unknown = missing.iter().filter(|missing| match missing {
        Missing::Controller { object, .. } => *object != *of,
        // The same reason as for the object itself.
        Missing::Ending { pod, reason } => *pod == *of || own_end != Some(reason),
        _ => true,
    });
    let unknown = unknown.map(|missing| match missing {
        Missing::Owner { resource, .. } => format!("whether an owner exists: {}", add_list(resource)),
        Missing::Controller { object, reason } if *object.kind == *Resource::StatefulSets.kind() => {
            format!("whether {claim} is deleted with a {}: {reason}", object.kind)
        }
        Missing::Controller { object, reason } => {
            let kind = &object.kind;
            format!("whether the {kind} that it depends on is deleted: {reason}")
        }
        Missing::Ending { pod, reason } if *pod == *of => format!("when it ends: {reason}"),
        Missing::Ending { pod, reason } => {
            format!("when the {} that it waits for ends: {reason}", pod.kind)
        }
        other => other.to_string(),
    });
    let unknown: Vec<String> = unknown.collect::<BTreeSet<_>>().into_iter().collect();
    unknown.join("; ")
}

/// A fate as the end of a sentence.
pub(crate) fn fate_text(fate: &Fate) -> String {
    match fate {
        Fate::Deleted { .. } => "is deleted".to_owned(),
        Fate::Kept => "is kept".to_owned(),
        Fate::Released { .. } => format!("is kept and {}", sentence(fate)),
        Fate::Terminating { .. } => format!("is terminating, {}", sentence(fate)),
        Fate::Undetermined { outcomes, missing } => {
            let missing: Vec<String> = missing.iter().take(3).map(ToString::to_string).collect();
            format!("is undetermined ({outcomes}): unknown is {}", missing.join("; "))
        }
    }
}
