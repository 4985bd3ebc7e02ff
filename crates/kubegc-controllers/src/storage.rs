//! Shared parts of the controllers of persistent volumes and claims: names, indexes over pods, and texts of
//! errors.

use std::sync::Arc;

use kubegc_core::{
    ObjectMeta,
    record::{ObjectId, Record, Resource},
};

use crate::{
    Action, Context, Decision, End, FieldChange, Form, Index, Key, Missing, OnError, Reason, Sent, Step,
    Steps,
};

/// The finalizer that kube-controller-manager keeps on a volume until the storage behind it is deleted.
pub const FINALIZER_IN_TREE: &str = "kubernetes.io/pv-controller";
/// The finalizer that external provisioners keep on a volume until the storage behind it is deleted.
pub const FINALIZER_EXTERNAL: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// The annotation with the CSI driver that has taken a volume over.
pub(crate) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// The annotation of volumes that the binder has bound, as opposed to a user.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Returns whether a provisioner is one of the volume plugins of kube-controller-manager.
#[must_use]
pub fn is_in_tree(provisioner: &str) -> bool {
    provisioner.starts_with("kubernetes.io/")
}

/// Pods by the claims of their volumes, claims of ephemeral volumes included.
pub(crate) static PODS_BY_CLAIM: Index = Index::new("pods by claim", Resource::Pods, |record, keys| {
    let volumes = record.pod().and_then(|pod| pod.volumes.known());
    for volume in volumes.into_iter().flatten() {
        if let Some(claim) = volume.claim_name(&record.meta.name) {
            keys.push(Key::new(Arc::clone(&record.meta.namespace), claim));
        }
    }
});

/// The key of objects that an index finds by their namespace alone.
pub(crate) fn namespace_key(namespace: &Arc<str>) -> Key {
    Key::new(Arc::clone(namespace), "")
}

/// The work as a decision. Work that ends before its first request is decided at once.
pub(crate) fn decide(steps: Steps) -> Decision {
    let object = steps.object().clone();
    match steps.begin().next(None) {
        Step::End(End::Kept(reason)) => Decision::keep(object, reason),
        Step::End(End::Unknown(missing)) => Decision::unknown(object, missing),
        Step::End(_) | Step::Perform { .. } => Decision::steps(steps),
    }
}

/// Returns whether a write of the object can carry the version that it depends on.
///
/// # Errors
/// The resourceVersion is not known.
pub(crate) fn require_version(id: &ObjectId, meta: &ObjectMeta) -> Result<(), Missing> {
    if meta.resource_version.is_empty() {
        let (object, field) = (id.clone(), "metadata.resourceVersion");
        return Err(Missing::Field { object, field });
    }
    Ok(())
}

/// The input of a protection finalizer.
///
/// # Upstream
/// [`IsDeletionCandidate` and
/// `NeedToAddFinalizer`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/protectionutil/utils.go).
pub(crate) enum Protection {
    /// The object is being deleted and has the finalizer, which is removed once nothing uses the object.
    Candidate,
    /// The object is not being deleted and has no finalizer.
    Missing,
    /// Nothing is to be done.
    Settled(Reason),
}

impl Protection {
    /// The state of an object.
    pub(crate) fn of(meta: &ObjectMeta, finalizer: &str) -> Self {
        match (meta.is_deleting(), meta.has_finalizer(finalizer)) {
            (true, true) => Self::Candidate,
            (false, false) => Self::Missing,
            (false, true) => Self::Settled(Reason::new("Protected", "it has its protection finalizer")),
            (true, false) => Self::Settled(Reason::new(
                "Unprotected",
                "it is being deleted and has no protection finalizer",
            )),
        }
    }
}

/// Writes an object back with one finalizer more or less.
///
/// # Errors
/// The resourceVersion is not known.
pub(crate) fn write_finalizer(
    cx: &Context<'_>,
    id: &ObjectId,
    record: &Record,
    reason: Reason,
    change: FieldChange,
) -> Result<Action, Missing> {
    require_version(id, &record.meta)?;
    Ok(Action::new(id.resource, &record.meta, reason)
        .write(cx.wire, Sent::ResourceVersion, Form::Update, "", vec![change])
        .on_error(OnError::Retry))
}

/// The reason to add a finalizer.
pub(crate) fn needs_finalizer() -> Reason {
    Reason::new("FinalizerMissing", "it has no protection finalizer")
}
