//! Keeps persistent volumes with a finalizer until they are no longer bound.
//!
//! The rules are [L6.1](crate::rules#l6-1) to [L6.3](crate::rules#l6-3), and [L6.8](crate::rules#l6-8).
//!
//! # Upstream
//! [`processPV` and
//! `isBeingUsed`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/pvprotection/pv_protection_controller.go)
//! in `pv_protection_controller.go`.

use kubegc_core::record::{Record, Resource};

use crate::{Info, Rule, controller::Reads as _, protection::Protection};

static PROTECTION: Protection = Protection {
    in_use: |_, id, record| {
        let volume = id.body(record, Record::persistent_volume)?;
        let is_bound = **id.read(&volume.phase, "status.phase")? == *"Bound";
        Ok(is_bound.then_some(("Bound", "it is bound")))
    },
    unused: ("NotBound", "it is being deleted and not bound"),
    ..Protection::of_storage("kubernetes.io/pv-protection")
};

/// The persistent volume protection controller.
pub static RULE: Rule = Rule {
    info: Info {
        name: "persistentvolume-protection-controller",
        summary: "keeps persistent volumes until they are no longer bound",
        resources: &[Resource::PersistentVolumes],
        permissions: &[(Resource::PersistentVolumes, "", &["update"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/pvprotection/pv_protection_controller.go",
        ..Info::BASE
    },
    decide: |cx, id, record| PROTECTION.decide(cx, id, record),
    ..Rule::BASE
};
