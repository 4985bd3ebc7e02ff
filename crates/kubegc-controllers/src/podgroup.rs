//! Removes the finalizer `scheduling.k8s.io/podgroup-protection` from PodGroups that no active pod uses.
//!
//! - A PodGroup that is not being deleted, or does not have the finalizer: nothing happens; admission adds
//!   the finalizer at the creation.
//! - A PodGroup that is being deleted, and a pod that has not finished names it in
//!   `spec.schedulingGroup.podGroupName`: the finalizer stays.
//! - A PodGroup that is being deleted, and no such pod exists: an update removes the finalizer.
//!
//! Terminating pods count until they have finished or no longer exist. The controller exists from 1.36 on
//! ([#137641](https://github.com/kubernetes/kubernetes/pull/137641)) and is off by default (feature gate
//! `GenericWorkload`: alpha from 1.35, beta and off in 1.37).
//!
//! # Upstream
//! [`processPodGroup`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/controller/scheduling/podgroupprotection/podgroup_protection_controller.go)
//! in `podgroup_protection_controller.go`.

use std::sync::Arc;

use kubegc_core::{
    Behavior, KubernetesVersion,
    record::{ObjectId, Pod, Record, Resource},
};

use crate::{
    Context, Controller, Decision, Index, Info, Key, Missing,
    controller::Reads as _,
    protection::{Protection, Text},
};

const NOT_TERMINATING: (&str, &str) = (
    "NotTerminating",
    "it is not being deleted, or does not have the finalizer",
);
static PROTECTION: Protection = Protection {
    protected: NOT_TERMINATING,
    unprotected: NOT_TERMINATING,
    added: None,
    in_use,
    unused: ("Unused", "it is being deleted, and no active pod uses it"),
    ..Protection::new("scheduling.k8s.io/podgroup-protection")
};

/// The controller exists.
const CONTROLLER: Behavior = Behavior::since(36, 0, "kubernetes #137641");

/// Pods that have not finished, by their PodGroup. Those whose group was not read are found under an empty
/// name.
static ACTIVE_PODS: Index = Index::new(Resource::Pods, |record, keys| {
    let namespace = &record.meta.namespace;
    if record.pod().and_then(Pod::has_final_phase) == Some(true) {
        return;
    }
    match record.pod().map(|pod| pod.pod_group.known()) {
        Some(Some(group)) if group.is_empty() => {}
        Some(Some(group)) => keys.push(Key::new(Arc::clone(namespace), Arc::clone(group))),
        _ => keys.push(Key::new(Arc::clone(namespace), "")),
    }
});

/// The PodGroup protection controller.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct PodGroupProtection {
    /// Whether the feature gate `GenericWorkload` is on.
    pub is_enabled: bool,
}

impl PodGroupProtection {
    /// Upstream's default: off in all releases.
    pub const fn new(_version: KubernetesVersion) -> Self {
        Self { is_enabled: false }
    }

    /// The controller in a cluster that serves PodGroups, which the feature gate enables.
    pub const fn where_served(version: KubernetesVersion) -> Self {
        Self {
            is_enabled: version.has(CONTROLLER),
        }
    }
}

static INFO: Info = Info {
    name: "podgroup-protection-controller",
    summary: "removes the finalizer of PodGroups that no active pod uses",
    resources: &[Resource::PodGroups, Resource::Pods],
    indexes: &[&ACTIVE_PODS],
    affected_by: &[&ACTIVE_PODS],
    permissions: &[(Resource::PodGroups, "", &["update"])],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/controller/scheduling/podgroupprotection/podgroup_protection_controller.go",
    ..Info::BASE
};

impl Controller for PodGroupProtection {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        if !self.is_enabled {
            return id.keep("Disabled", "the feature gate GenericWorkload is off");
        }
        PROTECTION.decide(cx, id, record)
    }
}

fn in_use(cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Option<Text>, Missing> {
    let mut unread = None;
    for pod in cx.cache.indexed_records(&ACTIVE_PODS, &Key::from(&record.meta)) {
        let pod_id = pod.id(Resource::Pods);
        let phase = pod_id
            .body(pod, Record::pod)
            .and_then(|pod| pod_id.read(&pod.phase, "status.phase"));
        match phase {
            Ok(_) => return Ok(Some(("Used", "a pod that has not finished uses it"))),
            Err(missing) => unread = Some(missing),
        }
    }
    if let Some(missing) = unread {
        return Err(missing);
    }
    cx.cache.require_in(Resource::Pods, &id.namespace)?;
    let field = "spec.schedulingGroup.podGroupName";
    cx.cache.require_read(&ACTIVE_PODS, &id.namespace, field)?;
    Ok(None)
}
