//! Writes to existing objects.

use std::sync::Arc;

use kubegc_core::{ApiResource, Behavior, KindId, ObjectMeta, ResourceVersion, Timestamp, version::behavior};
use serde_json::Value;

use super::{
    ApiServer, EventType, Key, Response, Special, crd,
    create::{drop_ignored_metadata, other_namespace},
    namespace,
    write::{Part, Request, Write},
};
use crate::{
    Body, StoredObject,
    object::ManagedFields,
    status::{self, Cause, RefusedBy, Result},
    types::{facts::Facts, service::ALLOCATED_FIRST},
};

/// A write that changes nothing but the times of managed fields changes nothing: the values of an applied
/// configuration may have other forms than the stored ones.
///
/// # Upstream
/// `IgnoreManagedFieldsTimestampsTransformer` in `apiserver/pkg/endpoints/handlers/fieldmanager/equality.go`.
const TIMES_ALONE_STAY: Behavior = Behavior::since(24, 0, "kubernetes #106388");

impl ApiServer {
    /// Replaces an object (PUT).
    ///
    /// # Upstream
    /// `Store.Update` in `apiserver/pkg/registry/generic/registry/store.go`, 1.20.2.
    pub fn update(&mut self, kind: KindId, namespace: &str, name: &str, object: StoredObject) -> Response {
        self.update_part(kind, namespace, name, "", object)
    }

    /// Replaces the part of an object that a subresource such as `status` writes; empty for the complete
    /// object.
    pub fn update_part(
        &mut self,
        kind: KindId,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: StoredObject,
    ) -> Response {
        self.part(kind, subresource)
            .and_then(|part| Ok((part, self.retyped(kind, object)?)))
            .and_then(|(part, object)| self.try_update(Key::new(kind, namespace, name), object, part))
            .into()
    }

    pub(super) fn try_update(&mut self, key: Key<'_>, mut new: StoredObject, part: Part) -> Result<Response> {
        let kind = key.kind;
        self.kind(kind)?;
        let namespace = self.namespace_of(kind, key.namespace);
        self.check_names(&new.meta, key)?;
        if new.meta.namespace.is_empty() {
            new.meta.namespace = namespace.into();
        }
        let warnings = self.without_equal_references(&mut new.meta, "");
        let creates = || part == Part::Whole && Facts::of(self.resource(kind)).has("creates", self.version);
        let expects_uid = !new.meta.uid.is_empty();
        let other_uid = |stored: &str| {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {}, UID in object meta: {stored}",
                self.storage_key(key),
                new.meta.uid,
            );
            Err(status::conflict(self.resource(kind), key.name, &why))
        };
        let existing = match self.existing(key) {
            Err(refusal) if refusal.code != 404 => return Err(refusal),
            Err(_) if expects_uid && (creates() || !self.version.has(ABSENT_IS_NOT_FOUND)) => {
                return other_uid("");
            }
            Err(_) if creates() => {
                return self.try_create(kind, namespace, new, None, None);
            }
            existing => existing?,
        };
        if expects_uid && new.meta.uid != existing.meta.uid && !self.is_validated_first(kind, part) {
            return other_uid(&existing.meta.uid.text());
        }
        self.replace(kind, &existing, new, part, None, warnings)
    }

    /// Whether an object is validated before its uid and version are compared, as a service is.
    fn is_validated_first(&self, kind: KindId, part: Part) -> bool {
        part == Part::Whole
            && self.special(kind) == Special::Service
            && self.schema(kind).is_some()
            && !self.version.has(ALLOCATED_FIRST)
    }

    /// Refuses an object whose resourceVersion is not the stored one.
    fn check_version(&self, kind: KindId, new: &StoredObject, old: &StoredObject) -> Result<()> {
        if new.meta.resource_version == old.meta.resource_version {
            return Ok(());
        }
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Err(status::conflict(self.resource(kind), &old.meta.name, why).by(RefusedBy::Conflict))
    }

    /// Replaces `existing` by `new`, if the rules allow it, and adds the warnings of admission to others.
    ///
    /// If the write removes the last finalizer, the object is removed instead: the response contains it as it
    /// was submitted. `applied`: the managers of fields that an apply results in.
    ///
    /// # Upstream
    /// `Store.deleteWithoutFinalizers` in `apiserver/pkg/registry/generic/registry/store.go`, 1.20.2: it
    /// expects no version, and after a PATCH no uid either, so it removes whichever object then has the name.
    pub(super) fn replace(
        &mut self,
        kind: KindId,
        existing: &Arc<StoredObject>,
        mut new: StoredObject,
        part: Part,
        applied: Option<ManagedFields>,
        mut warnings: Vec<String>,
    ) -> Result<Response> {
        let before = existing;
        let existing = &self.shown(kind, before)?;
        let (special, resource) = (self.special(kind), self.resource(kind));
        let (name, old) = (&existing.meta.name, &existing.meta);
        if is_unset(&new.meta.resource_version) {
            if resource.custom || Facts::of(resource).has("guarded", self.version) {
                let shown = match self.version.has(behavior::VALUES_ARE_JSON) {
                    true => "0",
                    false => "0x0",
                };
                let why = "must be specified for an update";
                let cause = Cause::invalid("metadata.resourceVersion", shown, why);
                let mut named = resource.clone();
                // This error names the resource; others name the kind.
                named.kind = Arc::clone(&named.resource);
                return Err(status::invalid(self.version, &named, name, vec![cause]));
            }
            let is_service = special == Special::Service;
            if !(part == Part::Whole && is_service && !self.version.has(ALLOCATED_FIRST)) {
                new.meta.resource_version = old.resource_version.clone();
            }
        } else if let Some(problem) = unreadable(&new.meta.resource_version) {
            return Err(status::internal(&problem));
        } else if !self.is_validated_first(kind, part) {
            self.check_version(kind, &new, existing)?;
        }
        let sent = self.tracks_sent_fields();
        let tracked = |new: &StoredObject| self.tracked(kind, Some(existing), new, part);
        let early = match (&applied, part) {
            (None, _) if sent => Some(tracked(&new)),
            // The manager owns what it sent, except for fields that the server resets.
            (None, Part::Whole) if self.settings.types && new.body.is_some() => {
                let mut kept = new.clone();
                if self.shape.kinds[kind.index()].status_subresource {
                    copy_field(&mut kept, existing, "status");
                }
                Some(tracked(&kept))
            }
            // It owns metadata that is not stored.
            (None, Part::Status)
                if resource.custom && self.settings.types && !self.status_resets_metadata(resource) =>
            {
                let mut kept = new.clone();
                copy_field(&mut kept, existing, "spec");
                Some(tracked(&kept))
            }
            _ => None,
        };
        namespace::refuse_update(self, kind, &existing.meta.namespace)?;
        if part.is_reviewed() {
            let request = Request::new(kind, part, Some(existing), None);
            self.mutate(request, Some(&mut new), |_| Ok(()))?;
        }
        self.prepare(kind, existing, &mut new, part);
        // Before the server fills in what the client left out.
        new.managers = applied.or(early).unwrap_or_else(|| tracked(&new));
        if self.schema(kind).is_some() {
            self.prepare_typed(kind, &mut new, Some(existing), part)?;
        }
        drop_ignored_metadata(&mut new);
        let is_allocated_first = part == Part::Whole && self.is_allocated_first(kind);
        if is_allocated_first {
            self.allocate(kind, &mut new, Some(existing))?;
        }
        let write = Write {
            kind,
            part,
            new: &new,
            old: Some(existing),
        };
        self.refuse_invalid(kind, name, self.problems(write))?;
        self.check_version(kind, &new, existing)?;
        warnings.extend(self.admit_object(write)?);
        if self.schema(kind).is_some() && part == Part::Whole && !is_allocated_first {
            self.allocate(kind, &mut new, Some(existing))?;
        }
        if new.meta.finalizers.is_empty()
            && old.is_deleting()
            && old
                .deletion_grace_period_seconds
                .is_none_or(|seconds| seconds == 0)
            && (special != Special::Namespace || namespace::spec_finalizers(&new).is_empty())
        {
            new.tidy();
            let stored = self.object(kind, &new.meta.namespace, &new.meta.name).cloned();
            if let Some(stored) = stored {
                self.remove(kind, &stored);
            }
            return Ok(Response::ok(new.into()).with(warnings));
        }
        if self.resource(kind).custom {
            self.to_stored_version(kind, &mut new)?;
        }
        new.tidy();
        if self.version.has(TIMES_ALONE_STAY) && new.equals_but_for_times(before) {
            new.managers.clone_from(&before.managers);
        }
        if new.equals(before) && !self.stores_unchanged(kind, &new, before) {
            return Ok(Response::ok(Arc::clone(before)).with(warnings));
        }
        let written = self.commit(kind, new, EventType::Modified);
        if special == Special::CustomResourceDefinition {
            crd::follow(self, &written);
            if self.settings.types {
                self.accept_names(kind, &written);
            }
        }
        Ok(Response::ok(written).with(warnings))
    }

    /// Whether the writer of a status owns no metadata.
    ///
    /// # Upstream
    /// `GetResetFields` of the status strategies in `pkg/registry`, and
    /// [of custom resources](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/status_strategy.go).
    pub(super) fn status_resets_metadata(&self, resource: &ApiResource) -> bool {
        match resource.custom {
            true => self.version.has(CUSTOM_STATUS_OWNS_NO_METADATA),
            false => Facts::of(resource).has("unowned", self.version),
        }
    }

    /// Converts a submitted object to the form that can be stored: fields that clients cannot change are
    /// taken from the stored object.
    fn prepare(&self, kind: KindId, existing: &StoredObject, new: &mut StoredObject, part: Part) {
        let (known, old) = (&self.shape.kinds[kind.index()], &existing.meta);
        let custom = self.resource(kind).custom;
        match (part, known.special) {
            (Part::Whole, special) => {
                if special == Special::Namespace {
                    namespace::keep_spec_finalizers(new, existing);
                }
                if known.status_subresource {
                    copy_field(new, existing, "status");
                }
                if special == Special::CustomResourceDefinition && self.settings.types {
                    crd::resource::add_stored_version(new);
                }
            }
            (Part::Status, _) if custom => {
                let status = new.at(&["status"]).cloned();
                let mut meta = existing.meta.clone();
                meta.resource_version = new.meta.resource_version.clone();
                *new = StoredObject::new(meta, existing.body.clone());
                new.put(&["status"], status.as_ref());
            }
            (Part::Status, special) => {
                let (status, metadata) = (new.at(&["status"]).cloned(), new.at(&["metadata"]).cloned());
                new.body = existing.body.clone();
                new.put(&["status"], status.as_ref());
                let resource = self.resource(kind);
                if Facts::of(resource).has("keepsmeta", self.version) {
                    new.meta.labels.clone_from(&old.labels);
                    new.meta.finalizers.clone_from(&old.finalizers);
                    new.meta.owner_references.clone_from(&old.owner_references);
                } else if special != Special::CustomResourceDefinition {
                    // Other metadata is also updated.
                    new.put(&["metadata"], metadata.as_ref());
                    if &*resource.kind == "Deployment" {
                        new.meta.labels.clone_from(&old.labels);
                    }
                }
                if special == Special::Pod {
                    new.meta.owner_references.clone_from(&old.owner_references);
                }
            }
            (Part::Finalize, _) => copy_field(new, existing, "status"),
            // Built from the stored object.
            (Part::Scale | Part::Binding | Part::Eviction, _) => {}
            (Part::Approval | Part::EphemeralContainers | Part::Resize, _) => {
                keep_other_parts(new, existing, part);
            }
        }
        let meta = &mut new.meta;
        meta.generation = old.generation;
        if old.generation > 0
            && part.can_increment_generation()
            && spec_differs(&new.body, &existing.body, known)
        {
            new.meta.generation += 1;
        }
        let meta = &mut new.meta;
        if meta.uid.is_empty() {
            meta.uid = old.uid.clone();
        }
        meta.creation_timestamp = old.creation_timestamp;
        meta.deletion_timestamp = match (old.deletion_timestamp, meta.deletion_timestamp) {
            (None, sent) => sent.map(Timestamp::truncate_to_secs),
            (stored, _) => stored,
        };
        if meta.deletion_grace_period_seconds.is_none() {
            meta.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
        }
    }

    /// Drops references that equal an earlier one; returns the warnings for the client, which state the
    /// moment.
    ///
    /// # Upstream
    /// `dedupOwnerReferencesAndAddWarning` in `apiserver/pkg/endpoints/handlers/rest.go`, 1.20.2.
    pub(super) fn without_equal_references(&self, meta: &mut ObjectMeta, moment: &str) -> Vec<String> {
        if meta.owner_references.len() < 2 || !self.version.has(behavior::EQUAL_REFERENCES_ARE_DROPPED) {
            return Vec::new();
        }
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for reference in &meta.owner_references {
            if kept.contains(reference) {
                dropped.push(reference.uid.to_string());
            } else {
                kept.push(reference.clone());
            }
        }
        if dropped.is_empty() {
            return Vec::new();
        }
        meta.owner_references = kept.into();
        vec![format!(
            ".metadata.ownerReferences contains duplicate entries{moment}; API server dedups owner references in 1.20+, \
         and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            dropped.join(", ")
        )]
    }

    /// Checks that the object has the name and namespace of the URL.
    pub(super) fn check_names(&self, meta: &ObjectMeta, key: Key<'_>) -> Result<()> {
        let (name, namespace) = (key.name, self.namespace_of(key.kind, key.namespace));
        let is_elsewhere =
            !namespace.is_empty() && !meta.namespace.is_empty() && *meta.namespace != *namespace;
        if is_elsewhere && self.version.has(NAMESPACES_ARE_COMPARED_FIRST) {
            return Err(other_namespace());
        }
        if *meta.name != *name {
            return Err(status::bad_request(if meta.name.is_empty() {
                format!(
                    "the name of the object ({name} based on URL) was undeterminable: name must be provided"
                )
            } else {
                format!(
                    "the name of the object ({}) does not match the name on the URL ({name})",
                    meta.name
                )
            }));
        }
        if is_elsewhere {
            return Err(status::bad_request(format!(
                "the namespace of the object ({}) does not match the namespace on the request ({namespace})",
                meta.namespace
            )));
        }
        Ok(())
    }
}

/// The moment of the search for equal references in an object that is applied or patched.
pub(super) const AFTER_ADMISSION: &str = " after mutating admission happens";

/// An update of an object that does not exist is not found, whatever uid it expects, unless it can create the
/// object.
const ABSENT_IS_NOT_FOUND: Behavior = Behavior::since(34, 0, "kubernetes #132470");
const NAMESPACES_ARE_COMPARED_FIRST: Behavior = Behavior::since(24, 0, "kubernetes #94637");
const CUSTOM_STATUS_OWNS_NO_METADATA: Behavior = Behavior::since(36, 0, "status_strategy.go of 1.36");

/// The reason why a resourceVersion is invalid, in the words of Go's `strconv`.
fn unreadable(version: &ResourceVersion) -> Option<String> {
    let text = version.as_str();
    text.parse::<u64>().is_err().then(|| {
        format!(
            "strconv.ParseUint: parsing {}: invalid syntax",
            status::quoted(text)
        )
    })
}

fn is_unset(version: &ResourceVersion) -> bool {
    matches!(version.as_str(), "" | "0")
}

/// Whether a write increments the generation: any change other than of metadata and, if it is a subresource,
/// status.
fn spec_differs(new: &Option<Body>, old: &Option<Body>, known: &super::Kind) -> bool {
    if let (Some(new), Some(old)) = (new, old)
        && new.is_shared_with(old)
    {
        return false;
    }
    let is_counted = |key: &str| key != "metadata" && (key != "status" || !known.status_subresource);
    let [new, old] = [new, old].map(|body| {
        let fields = body.iter().flat_map(|body| body.iter());
        fields.filter(|(key, _)| is_counted(key))
    });
    !new.eq(old)
}

/// Copies one field from the stored object, unless it is equal.
fn copy_field(new: &mut StoredObject, existing: &StoredObject, key: &str) {
    if let (Some(a), Some(b)) = (&new.body, &existing.body)
        && a.is_shared_with(b)
    {
        return;
    }
    new.put(&[key], existing.at(&[key]));
}

/// Retains only the part of a submitted object that a subresource may change: everything else is taken from
/// the stored object.
fn keep_other_parts(new: &mut StoredObject, existing: &StoredObject, part: Part) {
    let sent = std::mem::replace(new, existing.clone());
    // The preconditions of the request.
    new.meta.uid.clone_from(&sent.meta.uid);
    new.meta.resource_version.clone_from(&sent.meta.resource_version);
    match part {
        Part::Approval => new.put(&["status", "conditions"], sent.at(&["status", "conditions"])),
        Part::EphemeralContainers => {
            let path = ["spec", "ephemeralContainers"];
            new.put(&path, sent.at(&path));
        }
        Part::Resize => {
            for list in ["containers", "initContainers"] {
                let mut containers = existing.list_at(&["spec", list]).to_vec();
                if containers.is_empty() {
                    continue;
                }
                for container in sent.list_at(&["spec", list]) {
                    let same = |other: &&mut Value| other.get("name") == container.get("name");
                    let Some(Value::Object(stored)) = containers.iter_mut().find(same) else {
                        continue;
                    };
                    for key in ["resources", "resizePolicy"] {
                        stored.remove(key);
                        stored.extend(container.get(key).map(|value| (key.to_owned(), value.clone())));
                    }
                }
                new.put(&["spec", list], Some(&containers.into()));
            }
        }
        _ => {}
    }
}
