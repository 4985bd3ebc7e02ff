//! Wrong owner references, with their outcomes and repairs.

use std::iter;

use kubegc_core::{ApiResource, ObjectRef, OwnerReference, identity::split_api_version};
use kubegc_snapshot::ObjectView;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Fix, find::Finder};
use crate::{
    facts::{Edges, Facts, Owner},
    judge::Fate,
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
    /// One word for the problem, such as `OwnerMissing`.
    pub problem: &'static str,
    /// The sentence that describes the problem.
    pub message: String,
    /// Whether it is an error, and not only something that the dump does not show.
    pub is_certain: bool,
    /// The fate of the object in this version of Kubernetes.
    #[serde(flatten)]
    pub fate: Fate,
    /// The way to repair it.
    pub fix: Option<Fix>,
}

/// A problem with an owner reference: one word, a sentence, and the correction.
type Problem = (&'static str, String, Correction);

/// The way to correct an owner reference.
pub(super) enum Correction {
    /// The dump does not show it.
    Unknown,
    Remove,
    /// These fields of it get these values, which has this risk.
    Replace(Vec<(&'static str, Value)>, String),
}

/// The risk of a reference that means its owner from then on.
const LATER_DELETED: &str =
    "the object is deleted if the owner no longer exists, and with the owner from then on";

impl Finder<'_> {
    /// The wrong references of an object. One that is being deleted needs no repair.
    ///
    /// A reference is right if the API server serves its kind and has an object of that kind, name and uid,
    /// in the namespace of the dependent or cluster-scoped.
    pub(super) fn wrong_references(&self, position: u32, is_being_deleted: bool) -> Vec<WrongReference> {
        let facts = self.facts;
        let mut wrong = Vec::new();
        let view = facts.view(position);
        let mut controllers = 0;
        let owners = facts.edges.owners(position);
        for (index, (reference, owner)) in view.owner_references().zip(owners).enumerate() {
            controllers += usize::from(reference.controller == Some(true));
            let is_second = reference.controller == Some(true) && controllers > 1;
            let problem = facts.problem(&view, &reference, owner).or_else(|| {
                let message = "an object has one controller reference at most".to_owned();
                let risk = format!("{} no longer manages the object", reference.kind);
                let correction = Correction::Replace(vec![("controller", json!(false))], risk);
                is_second.then_some(("SeveralControllers", message, correction))
            });
            let Some((problem, message, correction)) = problem else {
                continue;
            };
            // An owner is usually deleted before its dependents: their deletion no longer depends on it.
            if is_being_deleted && matches!(problem, "OwnerMissing" | "OwnerUnknown") {
                continue;
            }
            let object = facts.object_ref(position);
            let fate = self.pending.fate_or_kept(&object);
            // Something else than a missing owner keeps it, and without the reference nothing deletes it.
            let is_kept = problem == "OwnerMissing" && fate == Fate::Kept;
            let fix = facts.fix_of_reference(&object, index, &reference, correction, &fate);
            wrong.push(WrongReference {
                fix: fix.filter(|_| !is_being_deleted && !is_kept),
                fate,
                object,
                index,
                reference,
                problem,
                message,
                is_certain: !matches!(problem, "KindUnknown" | "OwnerUnknown"),
            });
        }
        wrong
    }
}

impl Facts {
    fn problem(
        &self,
        dependent: &ObjectView<'_>,
        reference: &OwnerReference,
        owner: Owner,
    ) -> Option<Problem> {
        use Correction::{Remove, Replace, Unknown};
        if let Owner::At(_) = owner {
            return None;
        }
        let found = |word, message: &str, correction| Some((word, message.to_owned(), correction));
        let api_version = &*reference.api_version;
        let (group, version) = split_api_version(api_version);
        if version.is_empty() || api_version.matches('/').count() > 1 || api_version.starts_with('/') {
            let message = "apiVersion is neither VERSION nor GROUP/VERSION";
            return found("ApiVersionInvalid", message, Remove);
        }
        if group == "core" {
            let message = "the apiVersion of the core group is v1, without a group";
            let correction = Replace(vec![("apiVersion", json!("v1"))], LATER_DELETED.to_owned());
            return found("CoreGroup", message, correction);
        }
        let Some((resource, namespace)) = self.owner_kind(reference, dependent.namespace()) else {
            if !self.is_unserved(api_version, &reference.kind) {
                let message = "the dump does not define this kind: add the output of `kubectl api-resources`";
                return found("KindUnknown", message, Unknown);
            }
            let (word, message) = ("KindNotServed", "the API server does not serve this kind");
            let served = self.served(group, &reference.kind);
            let Some(first) = served.first() else {
                return found(word, message, Remove);
            };
            let names = served
                .iter()
                .map(|one| format!("{} {}", one.api_version(), one.kind));
            let names: Vec<String> = names.collect();
            let message = format!("{message}; it serves {}", names.join(", "));
            let fields = vec![
                ("apiVersion", json!(first.api_version())),
                ("kind", json!(first.kind)),
            ];
            return found(word, &message, Replace(fields, LATER_DELETED.to_owned()));
        };
        if owner == Owner::Never {
            let message =
                "the owner is namespaced, and the owner of a cluster-scoped object must be cluster-scoped";
            return found("OwnerNamespaced", message, Remove);
        }
        let replaced = |field, value, owner: &ObjectRef| {
            let risk = format!("the object is deleted with {} from then on", owner.short());
            Replace(vec![(field, value)], risk)
        };
        let with_uid = self.positions_of(&reference.uid);
        let mut with_uid = with_uid.map(|at| self.view(at));
        if let Some(view) = with_uid.next().filter(|_| !reference.uid.is_empty()) {
            let (owner, name) = (view.object_ref(), view.object_ref().short());
            let message = format!("the object with this uid is {name}");
            if !Edges::is_of(&self.snapshot, &view, resource) {
                return found("OtherKind", &format!("{message} ({})", owner.api_version), Remove);
            }
            if *owner.namespace != *namespace {
                let message = format!("the owner with this uid is in another namespace: {name}");
                return found("OtherNamespace", &message, Remove);
            }
            return found("OtherName", &message, replaced("name", json!(owner.name), &owner));
        }
        if let Some(at) = self.find(resource, namespace, &reference.name) {
            let owner = self.object_ref(at);
            let message = format!(
                "{} has the uid {}: it was created again, or the dependent was copied or restored",
                owner.short(),
                owner.uid
            );
            return found("OtherUid", &message, replaced("uid", json!(owner.uid), &owner));
        }
        if owner == Owner::Unknown {
            let resource = resource.qualified_resource();
            let message = format!(
                "the owner is not in the dump: add the output of `kubectl get {resource} -A -o json`"
            );
            return found("OwnerUnknown", &message, Unknown);
        }
        found("OwnerMissing", "the owner does not exist", Remove)
    }

    /// The kinds that are served and that a reference writes in another way.
    fn served(&self, group: &str, kind: &str) -> Vec<&ApiResource> {
        let is_alike = |resource: &&ApiResource| {
            kind.eq_ignore_ascii_case(&resource.kind) || kind.eq_ignore_ascii_case(&resource.resource)
        };
        let kinds = self.catalog().iter().map(|(_, resource)| resource);
        let mut alike: Vec<&ApiResource> = kinds.filter(is_alike).collect();
        let is_of_group = |resource: &&ApiResource| *resource.group == *group;
        match alike.iter().any(is_of_group) {
            true => alike.retain(is_of_group),
            false => alike.retain(|resource| resource.preferred),
        }
        alike
    }

    pub(super) fn fix_of_reference(
        &self,
        object: &ObjectRef,
        index: usize,
        reference: &OwnerReference,
        correction: Correction,
        fate: &Fate,
    ) -> Option<Fix> {
        let path = format!("/metadata/ownerReferences/{index}");
        let test = json!({ "op": "test", "path": format!("{path}/uid"), "value": reference.uid });
        let (changes, risk): (Vec<Value>, String) = match correction {
            Correction::Unknown => return None,
            Correction::Replace(fields, risk) => {
                let replace = |(field, value): (&str, Value)| json!({ "op": "replace", "path": format!("{path}/{field}"), "value": value });
                (fields.into_iter().map(replace).collect(), risk)
            }
            Correction::Remove => {
                let risk = match fate {
                    Fate::Kept => "none: the object is kept with and without the reference",
                    Fate::Deleted { .. } => {
                        "the object is kept for good instead of being deleted, unless it has another owner"
                    }
                    _ => "the object is kept for good, unless it has another owner",
                };
                (vec![json!({ "op": "remove", "path": path })], risk.to_owned())
            }
        };
        let patch: Value = iter::once(test).chain(changes).collect();
        let command = self.patch_command(object, &patch);
        Some(Fix { command, risk })
    }
}
