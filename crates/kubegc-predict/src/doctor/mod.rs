//! A diagnosis of a cluster: the causes that keep objects in deletion, and owner references that are wrong.

mod blocked;
mod find;
mod fixes;
mod references;

use std::{collections::BTreeSet, sync::Arc};

use kubegc_control_plane::{
    Refusal,
    finalizers::{self, Finalizer, Owner},
};
use kubegc_core::{ObjectRef, Timestamp};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use self::find::Finder;
use crate::{
    facts::{BrokenExtension, DELETING, Facts, deletion_requested_at},
    judge::{Fate, Forecast},
    words::{quoted, some_of},
};

pub use self::references::WrongReference;

/// The causes that keep objects in deletion, the terminating objects and the wrong owner references of a
/// dump.
///
/// # Examples
/// ```
/// use kubegc_core::KubernetesVersion;
/// use kubegc_predict::{Assumptions, Cluster};
/// use kubegc_snapshot::Reader;
///
/// let version = KubernetesVersion::LATEST;
/// let mut reader = Reader::new(version).complete("deployments").complete("replicasets");
/// reader.read("dump.yaml", &b"
/// apiVersion: apps/v1
/// kind: ReplicaSet
/// metadata:
///   namespace: shop
///   name: web-1
///   uid: u1
///   ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d1, controller: true}]
/// "[..])?;
/// let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
/// let diagnosis = cluster.doctor();
/// assert_eq!(diagnosis.references[0].problem, "OwnerMissing");
/// assert_eq!(diagnosis.references[0].fate.word(), "deleted");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The newest time in the dump.
    pub now: Timestamp,
    /// The causes that keep objects in deletion, broken extensions, and what refuses requests of controllers:
    /// the best proven first, those with equal proof in the order of the dump.
    pub causes: Vec<RootCause>,
    /// The terminating objects, in the order of the dump.
    pub terminating: Vec<Terminating>,
    /// The wrong owner references, in the order of the dump.
    pub references: Vec<WrongReference>,
}

/// A terminating object.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminating {
    pub object: ObjectRef,
    /// The time at which its deletion was requested.
    pub since: Option<Timestamp>,
    /// Its fate if nothing outside of the control plane changes.
    #[serde(flatten)]
    pub fate: Fate,
    /// The finalizers, in stored order.
    pub finalizers: Vec<Arc<str>>,
    /// A bug of this release of Kubernetes because of which it may stay terminating, with the remedy.
    pub bug: Option<&'static str>,
    /// Whether one of the causes keeps it.
    pub is_stuck: bool,
    /// The finalizers that no controller of Kubernetes removes, with the command that does and its risk.
    pub foreign_finalizers: Vec<ForeignFinalizer>,
}

/// A finalizer of a terminating object that a component outside of Kubernetes removes.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignFinalizer {
    pub name: Arc<str>,
    /// The component, if the finalizer is a well-known one.
    #[serde(rename = "component", serialize_with = "component")]
    pub known: Option<&'static Finalizer>,
    /// Workloads of the dump with a name, namespace or label like the domain of the finalizer: the component
    /// may be one of them.
    pub similar_workloads: Vec<ObjectRef>,
    /// Whether all Deployments, StatefulSets and DaemonSets are in the dump.
    pub workloads_are_complete: bool,
    /// The way to remove it by hand.
    pub fix: Fix,
}

/// Whether no controller of Kubernetes removes a finalizer.
const fn is_foreign(known: &Finalizer) -> bool {
    matches!(known.owner, Owner::External(_) | Owner::Operator(_))
}

fn component<S: Serializer>(known: &Option<&'static Finalizer>, serializer: S) -> Result<S::Ok, S::Error> {
    known.map(|known| known.owner.to_string()).serialize(serializer)
}

impl Diagnosis {
    /// The diagnosis of a dump, with the forecast without deletes.
    pub(crate) fn of(facts: &Facts, pending: &Forecast) -> Self {
        let mut finder = Finder::new(facts, pending);
        let mut diagnosis = Self {
            now: pending.began,
            causes: finder.causes(),
            terminating: Vec::new(),
            references: Vec::new(),
        };
        let stuck: BTreeSet<u32> = diagnosis.stuck().map(|one| one.position).collect();
        for (position, flags) in (0..).zip(&facts.edges.flags) {
            let is_terminating = flags & DELETING != 0;
            let is_stuck = stuck.contains(&position);
            if is_terminating {
                let terminating = facts.terminating(pending, position, is_stuck);
                diagnosis.terminating.push(terminating);
            }
            let wrong = finder.wrong_references(position, is_terminating || is_stuck);
            diagnosis.references.extend(wrong);
        }
        diagnosis
    }
}

impl Facts {
    fn terminating(&self, pending: &Forecast, position: u32, is_stuck: bool) -> Terminating {
        let (object, meta) = (self.object_ref(position), self.view(position).meta());
        let fate = pending.fate_or_kept(&object);
        let is_deleted = matches!(fate, Fate::Deleted { .. });
        let foreign = meta.finalizers.iter().enumerate().filter_map(|(index, name)| {
            let known = finalizers::find(name);
            let is_foreign = !is_deleted && known.is_none_or(is_foreign);
            is_foreign.then(|| ForeignFinalizer {
                name: Arc::clone(name),
                known,
                similar_workloads: self.similar_workloads(name),
                workloads_are_complete: self.workloads_are_complete(),
                fix: self.fix_of_finalizer(&object, index, name),
            })
        });
        let leaks = self.leaks_job_tracking(position, &meta);
        Terminating {
            since: deletion_requested_at(&meta),
            foreign_finalizers: foreign.collect(),
            finalizers: meta.finalizers.to_vec(),
            bug: leaks.then_some(JOB_TRACKING_LEAK),
            object,
            fate,
            is_stuck,
        }
    }

    fn fix_of_finalizer(&self, object: &ObjectRef, index: usize, name: &Arc<str>) -> Fix {
        let path = format!("/metadata/finalizers/{index}");
        let patch = json!([
            { "op": "test", "path": path, "value": name },
            { "op": "remove", "path": path },
        ]);
        let known = finalizers::find(name);
        let (component, if_removed) = match known {
            Some(known) => (known.owner.name(), known.if_removed),
            None => ("its component", "what it manages for the object may remain"),
        };
        Fix {
            command: self.patch_command(object, &patch),
            risk: format!("{component} does not clean up: {if_removed}"),
        }
    }

    fn workloads_are_complete(&self) -> bool {
        let mut kinds = WORKLOADS.iter();
        kinds.all(|kind| self.snapshot.completeness.of("apps", kind).is_complete())
    }

    /// What the dump shows about the operator of a finalizer, with the workloads that it may be.
    fn similarity(&self, similar: &[ObjectRef]) -> String {
        if !similar.is_empty() {
            return format!("workloads with a similar name: {}", names(similar));
        }
        let others = match self.workloads_are_complete() {
            true => "",
            false => ", and the dump does not have all workloads",
        };
        format!("no workload of the dump has a similar name{others}")
    }

    /// Workloads with a name, namespace or label value that contains a part of the domain of a finalizer, or
    /// the name of its known owner.
    fn similar_workloads(&self, finalizer: &str) -> Vec<ObjectRef> {
        let domain = finalizer.split('/').next().unwrap_or_default();
        let mut parts: Vec<&str> = domain.split('.').collect();
        // The top-level domain.
        parts.pop();
        parts.retain(|part| part.len() >= PART_LENGTH_MIN && !GENERIC_PARTS.contains(part));
        parts.extend(finalizers::find(finalizer).map(|known| known.owner.name()));
        let is_similar = |text: &str| parts.iter().any(|part| text.contains(part));
        let mut found = Vec::new();
        for kind in WORKLOADS {
            for position in self.named("apps", kind) {
                let meta = self.view(position).meta();
                let mut texts = meta.labels.values().chain([&meta.name, &meta.namespace]);
                if texts.any(|text| is_similar(text)) {
                    found.push(self.object_ref(position));
                }
            }
        }
        found
    }

    fn patch_command(&self, object: &ObjectRef, patch: &Value) -> String {
        let patch = format!(" --type=json -p {}", quoted(&patch.to_string()));
        self.command("patch", object, &patch)
    }

    /// The command of kubectl with this verb about an object, and further arguments.
    fn command(&self, verb: &str, object: &ObjectRef, arguments: &str) -> String {
        let resource = match self.kind_id(&object.api_version, &object.kind) {
            Some(kind) => self.catalog()[kind].qualified_resource(),
            None => object.kind.to_string(),
        };
        let mut command = format!("kubectl {verb} {} {}", quoted(&resource), quoted(&object.name));
        if !object.namespace.is_empty() {
            command.push_str(&format!(" -n {}", quoted(&object.namespace)));
        }
        command.push_str(arguments);
        command
    }
}

const JOB_TRACKING_LEAK: &str = "the job-controller of 1.23.0 to 1.23.5 may leave finalizer batch.kubernetes.io/job-tracking on pods whose \
     Job no longer exists: restart kube-controller-manager, or upgrade to 1.23.6";

const WORKLOADS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];
/// The shortest part of a domain that is compared.
const PART_LENGTH_MIN: usize = 4;
/// Parts of domains that do not identify a component.
const GENERIC_PARTS: [&str; 6] = [
    "kubernetes",
    "finalizer",
    "finalizers",
    "operator",
    "controller",
    "cluster",
];

impl Diagnosis {
    /// Whether nothing keeps objects in deletion, no extension is broken, the API server refuses no request
    /// of a controller, and no reference is wrong for certain. Objects whose deletion began a moment ago are
    /// no problem.
    pub fn is_healthy(&self) -> bool {
        let mut wrong = self.references.iter();
        self.causes.iter().all(|cause| cause.is_recent) && !wrong.any(|wrong| wrong.is_certain)
    }

    /// The objects that causes keep in deletion. One that several causes keep is repeated.
    pub(crate) fn stuck(&self) -> impl Iterator<Item = &Blocked> {
        let causes = self.causes.iter().filter(|cause| !cause.is_recent);
        let blocked = causes.flat_map(|cause| &cause.blocks);
        blocked.filter(|one| one.is_in_deletion())
    }
}

/// A cause that keeps objects in deletion, with the way to repair it.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RootCause {
    /// One word for it, such as `NodeLost`.
    pub cause: &'static str,
    /// The sentence that describes it.
    pub message: String,
    /// The objects to repair or to delete. Empty if they are those that it blocks.
    pub objects: Vec<ObjectRef>,
    /// The proof of the cause. Causes are ordered by it, best proof first.
    pub proof: Proof,
    /// Since when, if the dump shows it.
    pub since: Option<Timestamp>,
    /// Whether everything that it blocks has been terminating for so short a time that nothing may be wrong.
    pub is_recent: bool,
    /// Who should act.
    pub actor: String,
    /// Conditions, messages and times that show it.
    pub evidence: Vec<String>,
    /// What it blocks, each object after one that it waits for. Empty for a broken extension that nothing
    /// waits for.
    pub blocks: Vec<Blocked>,
    /// The ways to repair it, the best one first.
    pub fixes: Vec<Fix>,
    /// What not to do, and why.
    pub warnings: Vec<String>,
}

/// A command that repairs something, and its risk.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// The command for a POSIX shell.
    pub command: String,
    pub risk: String,
}

/// The proof of a cause, from the best to the weakest.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Proof {
    /// Objects of the dump, their conditions and Events.
    Seen,
    /// A request of the forecast, which the API server refuses.
    Refused,
    /// An object that has waited for long.
    Overdue,
    /// An assumption.
    Assumed,
    /// Nothing: the dump lacks the data.
    Missing,
}

/// An object that a cause keeps in deletion.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    pub object: ObjectRef,
    /// The time at which its deletion was requested; `None` if it is not terminating yet.
    pub since: Option<Timestamp>,
    /// The number of objects between it and the cause.
    pub depth: usize,
    /// Whether it is not terminating because the API server refuses its deletion.
    pub is_refused: bool,
    /// The request that the API server refuses while nothing deletes the object: `creation of pods`.
    pub refused_request: Option<String>,
    #[serde(skip)]
    pub(crate) position: u32,
}

/// What keeps objects in deletion. Objects with the same cause are found together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Cause {
    /// An extension of the API server that cannot be reached, or a webhook that refuses.
    Extension(BrokenExtension),
    /// The API server refuses requests for another reason.
    Refused(Refusal),
    /// A controller, or a component outside of kube-controller-manager, does not act.
    Component(&'static str),
    /// The finalizer of an operator.
    Finalizer(Arc<str>),
    /// The kubelet of a node does not run.
    LostNode {
        node: Arc<str>,
        /// The node, if it exists.
        object: Option<ObjectRef>,
    },
    /// The kubelet of a node runs, and has not ended pods.
    PodNotEnded(Arc<str>),
    /// Objects that are deleted in the foreground wait for each other.
    ForegroundCycle(Vec<ObjectRef>),
    /// Pods that are not being deleted use a claim, or a volume is bound to a claim that is not.
    InUse {
        object: ObjectRef,
        users: Vec<ObjectRef>,
    },
    /// A bug of the job-controller leaves its finalizer on pods.
    JobTracking,
    /// A dependent has an owner of a kind that is not served.
    OwnerNotServed {
        object: ObjectRef,
        /// apiVersion and kind of the owner.
        kind: String,
    },
    /// A namespace or a CustomResourceDefinition has content that is not in the dump.
    UnseenContent {
        object: ObjectRef,
        /// The resources that are not complete in the dump, as kubectl accepts them.
        resources: Vec<String>,
    },
    /// Anything else, with the end of the sentence that the object is.
    Other { object: ObjectRef, wait: String },
}

/// The controllers that delete storage, which may fail without an end. Forecasts assume that they succeed.
const STORAGE_DELETERS: [&str; 2] = ["external-provisioner", "persistentvolume-binder-controller"];

const NAMED_MAX: usize = 3;

fn names(objects: &[ObjectRef]) -> String {
    some_of(objects.iter().map(ObjectRef::short).collect(), NAMED_MAX).join(", ")
}

fn is_external(component: &str) -> bool {
    finalizers::external_components().any(|external| external == component)
}

impl Blocked {
    fn is_namespace(&self) -> bool {
        *self.object.kind == *"Namespace"
    }

    /// Whether it is being deleted, or would be if the API server allowed it.
    pub(crate) const fn is_in_deletion(&self) -> bool {
        self.since.is_some() || self.is_refused
    }
}

impl RootCause {
    /// Whether it keeps nothing in deletion, and the API server refuses other requests.
    pub(crate) fn only_refuses(&self) -> bool {
        let mut blocks = self.blocks.iter();
        !self.blocks.is_empty() && blocks.all(|one| one.refused_request.is_some() && !one.is_in_deletion())
    }
}
