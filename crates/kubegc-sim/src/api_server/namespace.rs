//! Namespaces: deletion, finalization, and the refusal of new content.
//!
//! A deleted namespace is only marked. A controller outside the server removes its content and then empties
//! `spec.finalizers` through the `finalize` subresource. The server then removes the namespace.

use kubegc_core::{
    Behavior, DefaultDeletion, DeleteOptions, KindId, PropagationPolicy, Scope,
    deletion::{Propagation, finalizers_of_deletion},
};
use serde_json::Value;

use super::{ApiServer, Key, Response};
use crate::{
    StoredObject,
    status::{self, Cause, Details, Result},
};

/// An object whose namespace no longer exists can be updated.
const UPDATES_NEED_NO_NAMESPACE: Behavior = Behavior::since(37, 0, "kubernetes #140661");

/// The namespaces that the server never deletes.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl ApiServer {
    pub(super) fn namespace_object(&self, name: &str) -> Option<&StoredObject> {
        let namespace = self.table_of("namespaces")?.find("", name);
        namespace.map(|namespace| &**namespace)
    }

    /// The namespace of an object; `None` if the kind or the server has none, or it needs not exist.
    fn existing_namespace(&self, kind: KindId, name: &str) -> Result<Option<&StoredObject>> {
        if self.resource(kind).scope != Scope::Namespaced || self.shape.table_of("namespaces").is_none() {
            return Ok(None);
        }
        match self.namespace_object(name) {
            None if self.settings.namespaces_must_exist && !name.is_empty() => {
                let message = format!("namespaces {} not found", status::quoted(name));
                let details = Details::new(name, "", "namespaces");
                Err(status::refusal(404, "NotFound", message, details))
            }
            namespace => Ok(namespace),
        }
    }
}

/// Deletes a namespace.
///
/// # Upstream
/// `REST.Delete` in `pkg/registry/core/namespace/storage/storage.go`; immortal namespaces:
/// `NamespaceLifecycle`, 1.20.2.
pub(super) fn delete(server: &mut ApiServer, key: Key<'_>, options: &DeleteOptions) -> Result<Response> {
    let Key { kind, name, .. } = key;
    if IMMORTAL.contains(&name) {
        let why = "this namespace may not be deleted";
        return Err(status::forbidden(server.resource(kind), name, why, Vec::new()));
    }
    let existing = server.existing(key)?;
    server.check_preconditions(kind, &existing.meta, options, true)?;
    if !existing.meta.is_deleting() {
        return server.mark(kind, &existing, options, |object| {
            set_finalizers(object, options);
            let status = object.field_mut("status");
            status.insert("phase".to_owned(), "Terminating".into());
        });
    }
    if !spec_finalizers(&existing).is_empty() {
        return Ok(Response::ok(existing));
    }
    server.delete_object(key, &mut options.clone())
}

/// The collector's finalizers after the first deletion. Unlike on other kinds, `orphanDependents: false`
/// means foreground deletion.
fn set_finalizers(object: &mut StoredObject, options: &DeleteOptions) {
    let propagation = match options.propagation {
        None => return,
        Some(Propagation::OrphanDependents(false)) => Propagation::Policy(PropagationPolicy::Foreground),
        Some(propagation) => propagation,
    };
    let finalizers = &mut object.meta.finalizers;
    let changed = finalizers_of_deletion(finalizers, DefaultDeletion::Delete, Some(propagation));
    if let Some(changed) = changed {
        *finalizers = changed;
    }
}

/// Refuses an object whose namespace does not exist or is terminating.
///
/// # Upstream
/// `NamespaceLifecycle` in `apiserver/pkg/admission/plugin/namespace/lifecycle`, 1.20.2.
pub(super) fn refuse_content(server: &ApiServer, kind: KindId, object: &StoredObject) -> Result<()> {
    let resource = server.resource(kind);
    let name = &*object.meta.namespace;
    let Some(namespace) = server.existing_namespace(kind, name)? else {
        return Ok(());
    };
    if !is_terminating(namespace) {
        return Ok(());
    }
    let message = format!("namespace {name} is being terminated");
    let cause = Cause::new("NamespaceTerminating", "metadata.namespace", message);
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    Err(status::forbidden(resource, &object.meta.name, &why, vec![cause]))
}

/// Refuses an update of an object whose namespace does not exist, in releases that do so.
pub(super) fn refuse_update(server: &ApiServer, kind: KindId, namespace: &str) -> Result<()> {
    if server.version.has(UPDATES_NEED_NO_NAMESPACE) {
        return Ok(());
    }
    server.existing_namespace(kind, namespace).map(drop)
}

/// Whether the phase, or, where only metadata is known, the deletion timestamp says so.
fn is_terminating(namespace: &StoredObject) -> bool {
    match namespace.text_at(&["status", "phase"]) {
        "" => namespace.meta.is_deleting(),
        phase => phase == "Terminating",
    }
}

pub(super) fn spec_finalizers(namespace: &StoredObject) -> &[Value] {
    namespace.list_at(&["spec", "finalizers"])
}

/// Restores `spec.finalizers`, which a plain write does not change.
pub(super) fn keep_spec_finalizers(new: &mut StoredObject, existing: &StoredObject) {
    if spec_finalizers(new) == spec_finalizers(existing) {
        return;
    }
    let spec = new.field_mut("spec");
    match spec_finalizers(existing) {
        [] => drop(spec.remove("finalizers")),
        finalizers => drop(spec.insert("finalizers".to_owned(), finalizers.into())),
    }
}
