//! Keeps persistent volumes with a finalizer until they are no longer bound.
//!
//! | rule | behavior |
//! |---|---|
//! | [L6.1](crate::rules#l6-1) | a volume that is not being deleted gets the finalizer; a volume that is being deleted is a candidate for its removal |
//! | [L6.2](crate::rules#l6-2) | UPDATE with or without the finalizer; the other finalizers keep their order |
//! | [L6.3](crate::rules#l6-3) | a volume is in use while `status.phase` is `Bound`, whether or not its claim exists |
//! | [L6.8](crate::rules#l6-8) | each failed update is retried with backoff |
//!
//! # Upstream
//! [`processPV` and
//! `isBeingUsed`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/pvprotection/pv_protection_controller.go)
//! in `pv_protection_controller.go`.

use kubegc_core::{
    KubernetesVersion,
    record::{ObjectId, Record, Resource},
};

use crate::{Context, Controller, Decision, Info, Missing, Reason, controller::read, protection::Protection};

const FINALIZER: &str = "kubernetes.io/pv-protection";

static PROTECTION: Protection = Protection::of_storage(FINALIZER);

/// The persistent volume protection controller. It behaves alike in every release.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct PvProtection;

impl PvProtection {
    /// Upstream's default in a release.
    #[must_use]
    pub const fn new(_version: KubernetesVersion) -> Self {
        Self
    }
}

static INFO: Info = Info {
    name: "persistentvolume-protection-controller",
    summary: "keeps persistent volumes until they are no longer bound",
    resources: &[Resource::PersistentVolumes],
    permissions: &[(Resource::PersistentVolumes, "", &["update"])],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/pvprotection/pv_protection_controller.go",
    ..Info::BASE
};

impl Controller for PvProtection {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        if let Some(settled) = PROTECTION.settled(cx, id, record)? {
            return Ok(settled);
        }
        let volume = cx.body(id, record, Record::persistent_volume)?;
        if **read(&volume.phase, id, "status.phase")? == *"Bound" {
            return Ok(Decision::keep(id.clone(), Reason::new("Bound", "it is bound")));
        }
        let reason = Reason::new("NotBound", "it is being deleted and not bound");
        PROTECTION.remove(cx, id, record, reason).map(Decision::act)
    }
}
