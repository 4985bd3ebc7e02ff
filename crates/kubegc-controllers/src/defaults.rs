//! The controllers that a control plane runs by default.

use std::sync::Arc;

use kubegc_core::KubernetesVersion;

use crate::{
    CloudNodeLifecycle, Controller, CronJobHistory, CsrCleaner, LegacyTokenCleaner, NamespaceController,
    NodeLifecycle, PersistentVolumeBinder, PodCertificateRequestCleaner, PodGc, PvcProtection, Rule,
    TokenCleaner, TtlAfterFinished, apiserverleases, controllerrevisions, deployment, job, nodes, protection,
    replicaset, resourceclaim, services, statefulset, tokens, volumeattachment,
};

/// The controllers without settings.
static RULES: [&Rule; 18] = [
    &apiserverleases::RULE,
    &controllerrevisions::DAEMON_SETS,
    &controllerrevisions::STATEFUL_SETS,
    &deployment::RULE,
    &job::RULE,
    &nodes::TAINT_EVICTION,
    &protection::PERSISTENT_VOLUMES,
    &protection::SERVICE_CIDRS,
    &protection::VOLUME_ATTRIBUTES_CLASSES,
    &replicaset::RULE,
    &resourceclaim::RULE,
    &services::ENDPOINTS,
    &services::ENDPOINT_SLICES,
    &services::IP_ADDRESSES,
    &services::MIRRORED_SLICES,
    &statefulset::RULE,
    &tokens::SERVICE_ACCOUNT_TOKENS,
    &volumeattachment::RULE,
];

/// Every controller of this crate that runs by default in a release, with upstream's defaults, by name.
///
/// External provisioners have no defaults: add an [`ExternalProvisioner`](crate::ExternalProvisioner) for
/// each. [`POD_GROUPS`](crate::protection::POD_GROUPS) is off in all releases.
///
/// # Examples
/// ```
/// use kubegc_controllers::default_controllers;
/// use kubegc_core::KubernetesVersion;
/// let controllers = default_controllers(KubernetesVersion::LATEST);
/// assert!(controllers.iter().any(|controller| controller.info().name == "ttl-after-finished-controller"));
/// ```
pub fn default_controllers(version: KubernetesVersion) -> Vec<Arc<dyn Controller>> {
    let mut all: Vec<Arc<dyn Controller>> = vec![
        Arc::new(CloudNodeLifecycle::new(version)),
        Arc::new(CronJobHistory::new(version)),
        Arc::new(CsrCleaner::new(version)),
        Arc::new(LegacyTokenCleaner::new(version)),
        Arc::new(NamespaceController::new(version)),
        Arc::new(NodeLifecycle::new(version)),
        Arc::new(PersistentVolumeBinder::new(version)),
        Arc::new(PodCertificateRequestCleaner::new(version)),
        Arc::new(PodGc::new(version)),
        Arc::new(PvcProtection::new(version)),
        Arc::new(TokenCleaner::new(version)),
        Arc::new(TtlAfterFinished::new(version)),
    ];
    all.extend(RULES.map(|rule| -> Arc<dyn Controller> { Arc::new(rule.at(version)) }));
    all.retain(|controller| controller.info().since.is_none_or(|since| version.has(since)));
    all.sort_by_key(|controller| controller.info().name);
    all
}
