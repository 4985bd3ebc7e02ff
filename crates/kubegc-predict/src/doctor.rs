//! A diagnosis of a cluster: objects that are terminating, and owner references that are wrong.

use std::{fmt, sync::Arc};

use kubegc_control_plane::finalizers::{self, Finalizer, Owner as FinalizerOwner};
use kubegc_core::{
    ApiResource, ObjectMeta, ObjectRef, OwnerReference, Timestamp, identity::split_api_version,
};
use kubegc_snapshot::{ObjectView, SnapshotObject};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::{
    Cluster, Fate, Wait,
    cluster::{DELETING, Edges, Owner},
    run::deletion_requested_at,
};

/// The terminating objects and the wrong owner references of a dump.
///
/// # Examples
/// ```
/// use kubegc_core::KubernetesVersion;
/// use kubegc_predict::{Assumptions, Cluster, doctor::ReferenceProblem};
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
/// assert_eq!(diagnosis.references[0].problem, ReferenceProblem::OwnerMissing);
/// assert_eq!(diagnosis.references[0].fate.word(), "deleted");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The newest time in the dump.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub now: Timestamp,
    /// The terminating objects, in the order of the dump.
    pub terminating: Vec<Terminating>,
    /// The wrong owner references, in the order of the dump.
    pub references: Vec<WrongReference>,
}

/// A terminating object.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Terminating {
    /// The object.
    #[cfg_attr(feature = "schemars", schemars(with = "crate::document::ObjectSchema"))]
    pub object: ObjectRef,
    /// The time at which its deletion was requested.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub since: Option<Timestamp>,
    /// Its fate if nothing outside of the control plane changes.
    #[serde(flatten)]
    pub fate: Fate,
    /// The finalizers, in stored order.
    pub finalizers: Vec<Arc<str>>,
    /// A bug of this release of Kubernetes because of which it may stay terminating, with the remedy.
    pub bug: Option<&'static str>,
    /// The finalizers that no controller of Kubernetes removes, with the command that does and its risk.
    pub foreign_finalizers: Vec<ForeignFinalizer>,
}

/// A finalizer of a terminating object that a component outside of Kubernetes removes.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForeignFinalizer {
    /// The finalizer.
    pub name: Arc<str>,
    /// The component, if the finalizer is a well-known one.
    #[serde(rename = "component", serialize_with = "component")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub known: Option<&'static Finalizer>,
    /// Workloads of the dump with a name, namespace or label like the domain of the finalizer: the component
    /// may be one of them.
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<crate::document::ObjectSchema>"))]
    pub similar_workloads: Vec<ObjectRef>,
    /// Whether all Deployments, StatefulSets and DaemonSets are in the dump.
    pub workloads_are_complete: bool,
    /// The way to remove it by hand.
    pub fix: Fix,
}

/// An owner reference that does not mean a live object.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WrongReference {
    /// The object with the reference.
    #[cfg_attr(feature = "schemars", schemars(with = "crate::document::ObjectSchema"))]
    pub object: ObjectRef,
    /// The position of the reference in `metadata.ownerReferences`.
    pub index: usize,
    /// The reference.
    #[cfg_attr(feature = "schemars", schemars(with = "crate::document::ReferenceSchema"))]
    pub reference: OwnerReference,
    /// The problem with the reference.
    #[serde(flatten)]
    #[cfg_attr(feature = "schemars", schemars(with = "crate::document::ProblemDocument"))]
    pub problem: ReferenceProblem,
    /// The fate of the object in this version of Kubernetes.
    #[serde(flatten)]
    pub fate: Fate,
    /// The way to repair it.
    pub fix: Option<Fix>,
}

fn component<S: Serializer>(known: &Option<&'static Finalizer>, serializer: S) -> Result<S::Ok, S::Error> {
    known.map(|known| known.owner.to_string()).serialize(serializer)
}

/// A command that repairs something, and its risk.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Fix {
    /// The command for a POSIX shell.
    pub command: String,
    /// The risk of the command.
    pub risk: String,
}

/// A problem with an owner reference.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceProblem {
    /// `apiVersion` is not `version` or `group/version`.
    ApiVersionInvalid,
    /// The group is `core`: the API writes the core group as `v1`.
    CoreGroup,
    /// The API server does not serve the kind in this version.
    KindNotServed {
        /// `apiVersion` and kind under which it is served, such as `apps/v1 Deployment`.
        served: Vec<String>,
    },
    /// The dump does not define the kind.
    KindUnknown,
    /// A cluster-scoped object has a namespaced owner.
    OwnerNamespaced,
    /// The object with the uid is in another namespace.
    OtherNamespace {
        /// That object.
        owner: ObjectRef,
    },
    /// The object with the uid has another name.
    OtherName {
        /// That object.
        owner: ObjectRef,
    },
    /// The object with the uid is of another kind.
    OtherKind {
        /// That object.
        owner: ObjectRef,
    },
    /// The object with the name has another uid: it was created again, or the dependent was copied or
    /// restored.
    OtherUid {
        /// That object.
        owner: ObjectRef,
    },
    /// The owner does not exist.
    OwnerMissing,
    /// The owner is not in the dump, which does not have all objects of its kind.
    OwnerUnknown {
        /// The resource to dump, as kubectl accepts it.
        resource: String,
    },
    /// More than one reference of the object is a controller reference.
    SeveralControllers,
}

impl ReferenceProblem {
    /// One word for it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::ApiVersionInvalid => "ApiVersionInvalid",
            Self::CoreGroup => "CoreGroup",
            Self::KindNotServed { .. } => "KindNotServed",
            Self::KindUnknown => "KindUnknown",
            Self::OwnerNamespaced => "OwnerNamespaced",
            Self::OtherNamespace { .. } => "OtherNamespace",
            Self::OtherName { .. } => "OtherName",
            Self::OtherKind { .. } => "OtherKind",
            Self::OtherUid { .. } => "OtherUid",
            Self::OwnerMissing => "OwnerMissing",
            Self::OwnerUnknown { .. } => "OwnerUnknown",
            Self::SeveralControllers => "SeveralControllers",
        }
    }

    /// Whether it is an error, and not only something that the dump does not show.
    #[must_use]
    pub const fn is_certain(&self) -> bool {
        !matches!(self, Self::KindUnknown | Self::OwnerUnknown { .. })
    }
}

impl fmt::Display for ReferenceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApiVersionInvalid => f.write_str("apiVersion is neither VERSION nor GROUP/VERSION"),
            Self::CoreGroup => f.write_str("the apiVersion of the core group is v1, without a group"),
            Self::KindNotServed { served } if served.is_empty() => {
                f.write_str("the API server does not serve this kind")
            }
            Self::KindNotServed { served } => {
                write!(
                    f,
                    "the API server does not serve this kind; it serves {}",
                    served.join(", ")
                )
            }
            Self::KindUnknown => {
                f.write_str("the dump does not define this kind: add the output of `kubectl api-resources`")
            }
            Self::OwnerNamespaced => f.write_str(
                "the owner is namespaced, and the owner of a cluster-scoped object must be cluster-scoped",
            ),
            Self::OtherNamespace { owner } => {
                write!(
                    f,
                    "the owner with this uid is in another namespace: {}",
                    owner.short()
                )
            }
            Self::OtherName { owner } => write!(f, "the object with this uid is {}", owner.short()),
            Self::OtherKind { owner } => {
                write!(
                    f,
                    "the object with this uid is {} ({})",
                    owner.short(),
                    owner.api_version
                )
            }
            Self::OtherUid { owner } => write!(
                f,
                "{} has the uid {}: it was created again, or the dependent was copied or restored",
                owner.short(),
                owner.uid
            ),
            Self::OwnerMissing => f.write_str("the owner does not exist"),
            Self::OwnerUnknown { resource } => {
                write!(
                    f,
                    "the owner is not in the dump: add the output of `kubectl get {resource} -A -o json`"
                )
            }
            Self::SeveralControllers => f.write_str("an object has one controller reference at most"),
        }
    }
}

impl Cluster {
    /// Finds terminating objects and wrong owner references, with their outcomes and repairs.
    ///
    /// A reference is right if the API server serves its kind and has an object of that kind, name and
    /// uid, in the namespace of the dependent or cluster-scoped.
    ///
    /// # Complexity
    /// O(n + r) for n objects and r references, and [`pending`](Self::pending) the first time.
    #[must_use]
    pub fn doctor(&self) -> Diagnosis {
        let mut diagnosis = Diagnosis {
            now: self.pending().began,
            terminating: Vec::new(),
            references: Vec::new(),
        };
        for (at, view) in self.snapshot.views().enumerate() {
            let position = at as u32;
            let is_terminating = self.edges.facts[at] & DELETING != 0;
            if is_terminating {
                diagnosis.terminating.extend(self.terminating(position));
            }
            let mut controllers = 0;
            let owners = self.edges.owners(position);
            for (index, (reference, owner)) in view.owner_references().zip(owners).enumerate() {
                controllers += usize::from(reference.controller == Some(true));
                let problem = self.problem(&view, &reference, owner);
                let is_second = reference.controller == Some(true) && controllers > 1;
                let Some(problem) =
                    problem.or_else(|| is_second.then_some(ReferenceProblem::SeveralControllers))
                else {
                    continue;
                };
                // An owner is usually deleted before its dependents: their deletion no longer depends on it.
                let is_absent = matches!(
                    problem,
                    ReferenceProblem::OwnerMissing | ReferenceProblem::OwnerUnknown { .. }
                );
                if is_terminating && is_absent {
                    continue;
                }
                let object = self.object_ref(position);
                let fate = self.fate_of(&object);
                let fix = match is_terminating {
                    true => None,
                    false => self.fix_of_reference(&object, index, &reference, &problem, &fate),
                };
                diagnosis.references.push(WrongReference {
                    fix,
                    fate,
                    object,
                    index,
                    reference,
                    problem,
                });
            }
        }
        diagnosis
    }

    /// The fate of an object without any delete.
    fn fate_of(&self, object: &ObjectRef) -> Fate {
        let fate = self.pending().fate(object);
        fate.map_or(Fate::Kept, |fate| fate.fate.clone())
    }

    fn terminating(&self, position: u32) -> Option<Terminating> {
        let object = self.snapshot.object(position as usize)?;
        let fate = self.fate_of(&object.object_ref());
        let mut foreign_finalizers = Vec::new();
        if !matches!(fate, Fate::Deleted { .. }) {
            for (index, name) in object.meta.finalizers.iter().enumerate() {
                let known = finalizers::find(name);
                if known.is_none_or(|known| matches!(known.owner, FinalizerOwner::External(_))) {
                    foreign_finalizers.push(self.foreign_finalizer(&object, index, name, known));
                }
            }
        }
        Some(Terminating {
            object: object.object_ref(),
            since: deletion_requested_at(&object.meta),
            fate,
            finalizers: object.meta.finalizers.to_vec(),
            bug: self
                .leaks_job_tracking(position, &object.meta)
                .then_some(JOB_TRACKING_LEAK),
            foreign_finalizers,
        })
    }

    /// Whether the job-controller of this release may never remove its finalizer from a pod. A Job could be
    /// deleted before its pods were counted, and nothing enqueued them again
    /// ([kubernetes #109020](https://github.com/kubernetes/kubernetes/pull/109020), in 1.23.6).
    fn leaks_job_tracking(&self, position: u32, meta: &ObjectMeta) -> bool {
        let has_owner = || {
            self.edges
                .owners(position)
                .any(|owner| matches!(owner, Owner::At(_)))
        };
        let mut finalizers = meta.finalizers.iter();
        matches!((self.version().minor(), self.version().patch()), (23, 0..=5))
            && finalizers.any(|name| **name == *JOB_TRACKING)
            && !has_owner()
    }

    fn foreign_finalizer(
        &self,
        object: &SnapshotObject,
        index: usize,
        name: &Arc<str>,
        known: Option<&'static Finalizer>,
    ) -> ForeignFinalizer {
        let path = format!("/metadata/finalizers/{index}");
        let patch = json!([
            { "op": "test", "path": path, "value": name },
            { "op": "remove", "path": path },
        ]);
        let component = known.map_or("its component", |known| match known.owner {
            FinalizerOwner::External(component) => component,
            _ => "its controller",
        });
        ForeignFinalizer {
            name: Arc::clone(name),
            known,
            similar_workloads: self.similar_workloads(name),
            workloads_are_complete: WORKLOADS
                .iter()
                .all(|kind| self.snapshot.completeness.of("apps", kind).is_complete()),
            fix: Fix {
                command: self.patch_command(&object.object_ref(), &patch),
                risk: format!("{component} does not clean up: what it manages for the object may remain"),
            },
        }
    }

    /// Workloads with a name, namespace or label value that contains a part of the domain of a finalizer.
    fn similar_workloads(&self, finalizer: &str) -> Vec<ObjectRef> {
        let domain = finalizer.split('/').next().unwrap_or_default();
        let mut parts: Vec<&str> = domain.split('.').collect();
        // The top-level domain.
        parts.pop();
        parts.retain(|part| part.len() >= PART_LENGTH_MIN && !GENERIC_PARTS.contains(part));
        let is_similar = |text: &str| parts.iter().any(|part| text.contains(part));
        let mut found = Vec::new();
        for kind in WORKLOADS {
            for position in self.snapshot.positions_of_kind("apps", kind) {
                let Some(object) = self.snapshot.object(position) else {
                    continue;
                };
                let ObjectMeta {
                    name,
                    namespace,
                    labels,
                    ..
                } = &*object.meta;
                if is_similar(name) || is_similar(namespace) || labels.values().any(|value| is_similar(value))
                {
                    found.push(object.object_ref());
                }
            }
        }
        found
    }

    fn problem(
        &self,
        dependent: &ObjectView<'_>,
        reference: &OwnerReference,
        owner: Owner,
    ) -> Option<ReferenceProblem> {
        if let Owner::At(_) = owner {
            return None;
        }
        let api_version = &*reference.api_version;
        let (group, version) = split_api_version(api_version);
        if version.is_empty() || api_version.matches('/').count() > 1 || api_version.starts_with('/') {
            return Some(ReferenceProblem::ApiVersionInvalid);
        }
        if group == "core" {
            return Some(ReferenceProblem::CoreGroup);
        }
        let Some(kind) = self.kind_id(api_version, &reference.kind) else {
            return Some(match self.is_unserved(api_version, &reference.kind) {
                true => ReferenceProblem::KindNotServed {
                    served: self.served(group, &reference.kind),
                },
                false => ReferenceProblem::KindUnknown,
            });
        };
        let resource = &self.catalog()[kind];
        if owner == Owner::Never {
            return Some(ReferenceProblem::OwnerNamespaced);
        }
        let namespace = if resource.is_namespaced() {
            &**dependent.namespace()
        } else {
            ""
        };
        let with_uid = self.positions_of(&reference.uid);
        let mut with_uid = with_uid.filter_map(|at| self.snapshot.view(at as usize));
        if let Some(view) = with_uid.next().filter(|_| !reference.uid.is_empty()) {
            let owner = view.object_ref();
            let is_same_kind = Edges::is_of(&self.snapshot, &view, resource);
            return Some(match () {
                () if !is_same_kind => ReferenceProblem::OtherKind { owner },
                () if *owner.namespace != *namespace => ReferenceProblem::OtherNamespace { owner },
                () => ReferenceProblem::OtherName { owner },
            });
        }
        let of_name = self
            .snapshot
            .position(&resource.group, &resource.kind, namespace, &reference.name);
        if let Some(at) = of_name {
            return Some(ReferenceProblem::OtherUid {
                owner: self.object_ref(at as u32),
            });
        }
        Some(match owner {
            Owner::Unknown => ReferenceProblem::OwnerUnknown {
                resource: resource.qualified_resource(),
            },
            _ => ReferenceProblem::OwnerMissing,
        })
    }

    /// Under which names a kind is served that a reference writes in another way.
    fn served(&self, group: &str, kind: &str) -> Vec<String> {
        let is_alike = |resource: &ApiResource| {
            kind.eq_ignore_ascii_case(&resource.kind) || kind.eq_ignore_ascii_case(&resource.resource)
        };
        let kinds = self.catalog().iter().map(|(_, resource)| resource);
        let alike: Vec<&ApiResource> = kinds.filter(|resource| is_alike(resource)).collect();
        let mut of_group: Vec<&&ApiResource> = alike
            .iter()
            .filter(|resource| *resource.group == *group)
            .collect();
        if of_group.is_empty() {
            of_group = alike.iter().filter(|resource| resource.preferred).collect();
        }
        let names = of_group
            .iter()
            .map(|resource| format!("{} {}", resource.api_version(), resource.kind));
        names.collect()
    }

    fn fix_of_reference(
        &self,
        object: &ObjectRef,
        index: usize,
        reference: &OwnerReference,
        problem: &ReferenceProblem,
        fate: &Fate,
    ) -> Option<Fix> {
        let path = format!("/metadata/ownerReferences/{index}");
        let test = json!({ "op": "test", "path": format!("{path}/uid"), "value": reference.uid });
        let replace = |field: &str, value: &str| json!([test, { "op": "replace", "path": format!("{path}/{field}"), "value": value }]);
        let remove = || json!([test, { "op": "remove", "path": path }]);
        let (patch, risk) = match problem {
            ReferenceProblem::OwnerUnknown { .. } | ReferenceProblem::KindUnknown => return None,
            // Something else than the reference keeps it, and without the reference nothing deletes it.
            ReferenceProblem::OwnerMissing if matches!(fate, Fate::Kept) => return None,
            ReferenceProblem::OtherUid { owner } => (
                replace("uid", &owner.uid.to_string()),
                format!("the object is deleted with {} from then on", owner.short()),
            ),
            ReferenceProblem::OtherName { owner } => (
                replace("name", &owner.name),
                format!("the object is deleted with {} from then on", owner.short()),
            ),
            ReferenceProblem::CoreGroup => (
                replace("apiVersion", "v1"),
                "the object is deleted if the owner no longer exists, and with the owner from then on"
                    .to_owned(),
            ),
            ReferenceProblem::SeveralControllers => (
                json!([test, { "op": "replace", "path": format!("{path}/controller"), "value": false }]),
                format!("{} no longer manages the object", reference.kind),
            ),
            ReferenceProblem::KindNotServed { served } if !served.is_empty() => {
                let (api_version, kind) = served[0].split_once(' ').unwrap_or((&served[0], &reference.kind));
                let patch = json!([
                    test,
                    { "op": "replace", "path": format!("{path}/apiVersion"), "value": api_version },
                    { "op": "replace", "path": format!("{path}/kind"), "value": kind },
                ]);
                (patch, LATER_DELETED.to_owned())
            }
            ReferenceProblem::ApiVersionInvalid
            | ReferenceProblem::KindNotServed { .. }
            | ReferenceProblem::OwnerNamespaced
            | ReferenceProblem::OtherNamespace { .. }
            | ReferenceProblem::OtherKind { .. }
            | ReferenceProblem::OwnerMissing => (
                remove(),
                match fate {
                    Fate::Kept => "none: the object is kept with and without the reference",
                    Fate::Deleted { .. } => {
                        "the object is kept for good instead of being deleted, unless it has another owner"
                    }
                    _ => "the object is kept for good, unless it has another owner",
                }
                .to_owned(),
            ),
        };
        Some(Fix {
            command: self.patch_command(object, &patch),
            risk,
        })
    }

    /// `kubectl patch` with a JSON patch.
    fn patch_command(&self, object: &ObjectRef, patch: &Value) -> String {
        let resource = match self.kind_id(&object.api_version, &object.kind) {
            Some(kind) => self.catalog()[kind].qualified_resource(),
            None => object.kind.to_string(),
        };
        let mut command = format!("kubectl patch {} {}", quoted(&resource), quoted(&object.name));
        if !object.namespace.is_empty() {
            command.push_str(&format!(" -n {}", quoted(&object.namespace)));
        }
        command.push_str(&format!(" --type=json -p {}", quoted(&patch.to_string())));
        command
    }
}

/// The risk of a reference that means its owner from then on.
const LATER_DELETED: &str =
    "the object is deleted if the owner no longer exists, and with the owner from then on";

/// The finalizer of the job-controller on pods.
const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";
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

/// A word of a POSIX shell.
fn quoted(word: &str) -> String {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'/' | b':');
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

impl Terminating {
    /// Whether it stays terminating, or may.
    #[must_use]
    pub const fn is_stuck(&self) -> bool {
        matches!(self.fate, Fate::Terminating { .. } | Fate::Undetermined { .. }) || self.bug.is_some()
    }

    /// The conditions that it waits for, if it stays terminating.
    #[must_use]
    pub fn waits_for(&self) -> &[Wait] {
        match &self.fate {
            Fate::Terminating { waits_for } => waits_for,
            _ => &[],
        }
    }
}

impl Diagnosis {
    /// Whether nothing stays terminating and no reference is wrong for certain.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        let mut wrong = self.references.iter();
        !self.terminating.iter().any(Terminating::is_stuck) && !wrong.any(|wrong| wrong.problem.is_certain())
    }
}
