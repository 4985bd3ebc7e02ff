//! Wrong owner references, with their outcomes and repairs.

use kubegc_core::{ApiResource, ObjectRef, OwnerReference, identity::split_api_version};
use kubegc_snapshot::ObjectView;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::cause::Fix;
use crate::{
    Fate, Forecast,
    facts::{Edges, Facts, Owner},
    words::variant_name,
};

/// An owner reference that does not mean a live object.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WrongReference {
    /// The object with the reference.
    pub object: ObjectRef,
    /// The position of the reference in `metadata.ownerReferences`.
    pub index: usize,
    pub reference: OwnerReference,
    #[serde(flatten)]
    pub problem: ReferenceProblem,
    /// The fate of the object in this version of Kubernetes.
    #[serde(flatten)]
    pub fate: Fate,
    /// The way to repair it.
    pub fix: Option<Fix>,
}

/// A problem with an owner reference.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub enum ReferenceProblem {
    /// `apiVersion` is not `version` or `group/version`.
    #[display("apiVersion is neither VERSION nor GROUP/VERSION")]
    ApiVersionInvalid,
    /// The group is `core`: the API writes the core group as `v1`.
    #[display("the apiVersion of the core group is v1, without a group")]
    CoreGroup,
    /// The API server does not serve the kind in this version.
    #[display(
        "the API server does not serve this kind{}",
        if served.is_empty() { String::new() } else { format!("; it serves {}", served.join(", ")) }
    )]
    KindNotServed {
        /// `apiVersion` and kind under which it is served, such as `apps/v1 Deployment`.
        served: Vec<String>,
    },
    /// The dump does not define the kind.
    #[display("the dump does not define this kind: add the output of `kubectl api-resources`")]
    KindUnknown,
    /// A cluster-scoped object has a namespaced owner.
    #[display("the owner is namespaced, and the owner of a cluster-scoped object must be cluster-scoped")]
    OwnerNamespaced,
    /// The object with the uid is in another namespace.
    #[display("the owner with this uid is in another namespace: {}", owner.short())]
    OtherNamespace { owner: ObjectRef },
    /// The object with the uid has another name.
    #[display("the object with this uid is {}", owner.short())]
    OtherName { owner: ObjectRef },
    /// The object with the uid is of another kind.
    #[display("the object with this uid is {} ({})", owner.short(), owner.api_version)]
    OtherKind { owner: ObjectRef },
    /// The object with the name has another uid: it was created again, or the dependent was copied or
    /// restored.
    #[display(
        "{} has the uid {}: it was created again, or the dependent was copied or restored",
        owner.short(),
        owner.uid
    )]
    OtherUid { owner: ObjectRef },
    /// The owner does not exist.
    #[display("the owner does not exist")]
    OwnerMissing,
    /// The owner is not in the dump, which does not have all objects of its kind.
    #[display("the owner is not in the dump: add the output of `kubectl get {resource} -A -o json`")]
    OwnerUnknown {
        /// The resource to dump, as kubectl accepts it.
        resource: String,
    },
    /// More than one reference of the object is a controller reference.
    #[display("an object has one controller reference at most")]
    SeveralControllers,
}

impl ReferenceProblem {
    /// One word for it.
    pub const fn word(&self) -> &'static str {
        variant_name!(
            self,
            ApiVersionInvalid CoreGroup KindNotServed KindUnknown OwnerNamespaced OtherNamespace OtherName
            OtherKind OtherUid OwnerMissing OwnerUnknown SeveralControllers
        )
    }

    /// Whether it is an error, and not only something that the dump does not show.
    pub const fn is_certain(&self) -> bool {
        !matches!(self, Self::KindUnknown | Self::OwnerUnknown { .. })
    }
}

impl Serialize for ReferenceProblem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (word, message, is_certain) = (self.word(), self.to_string(), self.is_certain());
        json!({ "problem": word, "message": message, "isCertain": is_certain }).serialize(serializer)
    }
}

impl Facts {
    /// The wrong references of an object. One that is being deleted needs no repair.
    ///
    /// A reference is right if the API server serves its kind and has an object of that kind, name and uid,
    /// in the namespace of the dependent or cluster-scoped.
    pub(super) fn wrong_references(
        &self,
        pending: &Forecast,
        position: u32,
        is_being_deleted: bool,
    ) -> Vec<WrongReference> {
        let mut wrong = Vec::new();
        let view = self.view(position);
        let mut controllers = 0;
        let owners = self.edges.owners(position);
        for (index, (reference, owner)) in view.owner_references().zip(owners).enumerate() {
            controllers += usize::from(reference.controller == Some(true));
            let problem = self.problem(&view, &reference, owner);
            let is_second = reference.controller == Some(true) && controllers > 1;
            let Some(problem) = problem.or_else(|| is_second.then_some(ReferenceProblem::SeveralControllers))
            else {
                continue;
            };
            // An owner is usually deleted before its dependents: their deletion no longer depends on it.
            if is_being_deleted
                && let ReferenceProblem::OwnerMissing | ReferenceProblem::OwnerUnknown { .. } = problem
            {
                continue;
            }
            let object = self.object_ref(position);
            let fate = pending.fate_or_kept(&object);
            let fix = self.fix_of_reference(&object, index, &reference, &problem, &fate);
            let fix = fix.filter(|_| !is_being_deleted);
            wrong.push(WrongReference {
                fix,
                fate,
                object,
                index,
                reference,
                problem,
            });
        }
        wrong
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
        let Some((resource, namespace)) = self.owner_kind(reference, dependent.namespace()) else {
            return Some(match self.is_unserved(api_version, &reference.kind) {
                true => ReferenceProblem::KindNotServed {
                    served: self.served(group, &reference.kind),
                },
                false => ReferenceProblem::KindUnknown,
            });
        };
        if owner == Owner::Never {
            return Some(ReferenceProblem::OwnerNamespaced);
        }
        let with_uid = self.positions_of(&reference.uid);
        let mut with_uid = with_uid.map(|at| self.view(at));
        if let Some(view) = with_uid.next().filter(|_| !reference.uid.is_empty()) {
            let owner = view.object_ref();
            let is_same_kind = Edges::is_of(&self.snapshot, &view, resource);
            return Some(match () {
                () if !is_same_kind => ReferenceProblem::OtherKind { owner },
                () if *owner.namespace != *namespace => ReferenceProblem::OtherNamespace { owner },
                () => ReferenceProblem::OtherName { owner },
            });
        }
        if let Some(at) = self.find(resource, namespace, &reference.name) {
            let owner = self.object_ref(at);
            return Some(ReferenceProblem::OtherUid { owner });
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
        let mut alike: Vec<&ApiResource> = kinds.filter(|resource| is_alike(resource)).collect();
        let is_of_group = |resource: &&ApiResource| *resource.group == *group;
        match alike.iter().any(is_of_group) {
            true => alike.retain(is_of_group),
            false => alike.retain(|resource| resource.preferred),
        }
        let names = alike.iter();
        names
            .map(|resource| format!("{} {}", resource.api_version(), resource.kind))
            .collect()
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
        let replace = |field: &str, value: Value| json!([test, { "op": "replace", "path": format!("{path}/{field}"), "value": value }]);
        let with_owner =
            |owner: &ObjectRef| format!("the object is deleted with {} from then on", owner.short());
        let (patch, risk) = match problem {
            ReferenceProblem::OwnerUnknown { .. } | ReferenceProblem::KindUnknown => return None,
            // Something else than the reference keeps it, and without the reference nothing deletes it.
            ReferenceProblem::OwnerMissing if matches!(fate, Fate::Kept) => return None,
            ReferenceProblem::OtherUid { owner } => (replace("uid", json!(owner.uid)), with_owner(owner)),
            ReferenceProblem::OtherName { owner } => (replace("name", json!(owner.name)), with_owner(owner)),
            ReferenceProblem::CoreGroup => (replace("apiVersion", json!("v1")), LATER_DELETED.to_owned()),
            ReferenceProblem::SeveralControllers => (
                replace("controller", json!(false)),
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
                json!([test, { "op": "remove", "path": path }]),
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
}

/// The risk of a reference that means its owner from then on.
const LATER_DELETED: &str =
    "the object is deleted if the owner no longer exists, and with the owner from then on";
