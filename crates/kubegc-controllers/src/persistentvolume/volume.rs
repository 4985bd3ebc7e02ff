//! The fields of a volume that the binder reads, and the changes that its metadata needs.
//!
//! # Upstream
//! [`updateVolumeMigrationAnnotationsAndFinalizers`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/persistentvolume/pv_controller_base.go)
//! in `pv_controller_base.go`.

use kubegc_core::record::{ClaimRef, PersistentVolume, VolumeAnnotations};

use super::Migration;
use crate::{
    prelude::*,
    storage::{FINALIZER_EXTERNAL, FINALIZER_IN_TREE, MIGRATED_TO, is_in_tree},
};

/// A volume of which phase, claim reference and annotations are known.
pub(super) struct Volume<'a> {
    id: &'a ObjectId,
    pub(super) meta: &'a ObjectMeta,
    pub(super) body: &'a PersistentVolume,
    pub(super) phase: &'a str,
    pub(super) claim_ref: Option<&'a ClaimRef>,
    pub(super) annotations: &'a VolumeAnnotations,
}

impl<'a> Volume<'a> {
    pub(super) fn of(id: &'a ObjectId, record: &'a Record) -> Result<Self, Missing> {
        let body = id.body(record, Record::persistent_volume)?;
        Ok(Self {
            id,
            meta: &record.meta,
            body,
            phase: id.read(&body.phase, "status.phase")?,
            claim_ref: id.read(&body.claim_ref, "spec.claimRef")?.as_ref(),
            annotations: id.read(&body.annotations, "metadata.annotations")?,
        })
    }

    /// The claim that the volume is bound to, not one that it is only reserved for.
    pub(super) fn bound_claim(&self) -> Option<&'a ClaimRef> {
        self.claim_ref.filter(|claim| !claim.uid.is_empty())
    }

    /// Returns whether this is the claim that the volume is bound to, and it is bound to the volume.
    pub(super) fn is_claimed_by(&self, claim: &Record) -> bool {
        let is_meant = self
            .bound_claim()
            .is_some_and(|claim_ref| claim_ref.uid == claim.meta.uid);
        let bound_to = claim
            .persistent_volume_claim()
            .and_then(|claim| claim.volume_name.known());
        is_meant && bound_to == Some(&self.meta.name)
    }

    /// Returns whether a phase was set that reclaiming does not change.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.phase, "Released" | "Failed")
    }

    /// The provisioner that made the volume; empty if none did.
    pub(super) fn provisioner(&self) -> &'a str {
        self.annotations.provisioned_by.as_deref().unwrap_or_default()
    }

    /// Returns whether a provisioner within kube-controller-manager made the volume.
    pub(super) fn is_in_tree(&self) -> bool {
        is_in_tree(self.provisioner())
    }

    /// Returns whether a provisioner outside kube-controller-manager made the volume.
    pub(super) fn is_external(&self) -> bool {
        !self.provisioner().is_empty() && !self.is_in_tree()
    }

    /// The CSI driver that the volume was migrated to; empty if it was not.
    pub(super) fn driver(&self) -> &'a str {
        self.annotations.migrated_to.as_deref().unwrap_or_default()
    }

    pub(super) fn policy(&self) -> Result<&'a Arc<str>, Missing> {
        let Self { id, body, .. } = self;
        id.read(&body.reclaim_policy, "spec.persistentVolumeReclaimPolicy")
    }

    pub(super) fn require_migration(&self, migration: Option<&Migration>) -> Result<(), Missing> {
        let provisioner = self.provisioner();
        migration.map(|_| ()).ok_or_else(|| {
            let question = "are migrated to a CSI driver";
            Missing::outside(format!("whether volumes of provisioner {provisioner} {question}"))
        })
    }

    /// The changes that bring the deletion finalizers and the annotation of the migration up to date. None
    /// if it is not known what is out of date.
    ///
    /// # Errors
    /// It is not known whether the API server will refuse the changes, and with them the rest of the sync.
    pub(super) fn metadata_changes(
        &self,
        migration: Option<&Migration>,
        deletion_finalizers: bool,
    ) -> Result<Vec<FieldChange>, Missing> {
        let mut changes = Vec::new();
        if self.annotations.provisioned_by.is_none() {
            return Ok(changes);
        }
        let has = |finalizer| self.meta.has_finalizer(finalizer);
        let policy = self.body.reclaim_policy.known().map(|policy| &**policy);
        let has_finalizers = deletion_finalizers && self.is_in_tree();
        let needs_policy = has_finalizers && !matches!(migration, Some(Migration::On { .. }));
        let known = migration.filter(|_| !needs_policy || policy.is_some());
        let Some(migration) = known else {
            let may_be_added =
                needs_policy && !has(FINALIZER_IN_TREE) && policy.is_none_or(|policy| policy == "Delete");
            if may_be_added && self.meta.is_deleting() {
                self.require_migration(migration)?;
                self.policy()?;
            }
            return Ok(changes);
        };
        match migration {
            Migration::On { driver } if *self.driver() != **driver => {
                let (key, value) = (MIGRATED_TO, driver.to_string());
                changes.push(FieldChange::Annotation { key, value });
            }
            Migration::Off if !self.driver().is_empty() => {
                changes.push(FieldChange::RemoveAnnotation(MIGRATED_TO));
            }
            Migration::On { .. } | Migration::Off => {}
        }
        if !has_finalizers {
            return Ok(changes);
        }
        let wants = match (migration, policy) {
            (Migration::Off, Some("Delete")) => true,
            (Migration::On { .. }, _) | (Migration::Off, Some("Retain" | "Recycle")) => false,
            (Migration::Off, _) => has(FINALIZER_IN_TREE),
        };
        match (wants, has(FINALIZER_IN_TREE)) {
            (true, false) => changes.push(FieldChange::AddFinalizer(FINALIZER_IN_TREE)),
            (false, true) => changes.push(FieldChange::RemoveFinalizer(FINALIZER_IN_TREE)),
            _ => {}
        }
        if *migration == Migration::Off && has(FINALIZER_EXTERNAL) {
            changes.push(FieldChange::RemoveFinalizer(FINALIZER_EXTERNAL));
        }
        Ok(changes)
    }
}
