//! The controllers that a control plane runs by default.

use std::sync::Arc;

use kubegc_core::KubernetesVersion;

use crate::{
    CloudNodeLifecycle, Controller, CronJobHistory, CsrCleaner, LegacyTokenCleaner, NamespaceController,
    PersistentVolumeBinder, PodCertificateRequestCleaner, PodGc, PvProtection, PvcProtection,
    StatefulSetClaims, TokenCleaner, TtlAfterFinished,
};

/// Every controller of this crate with upstream's defaults in a release, by name. External provisioners have no defaults: add an
/// [`ExternalProvisioner`](crate::ExternalProvisioner) for each.
///
/// # Examples
/// ```
/// use kubegc_controllers::default_controllers;
/// use kubegc_core::KubernetesVersion;
/// let controllers = default_controllers(KubernetesVersion::LATEST);
/// assert!(controllers.iter().any(|controller| controller.info().name == "ttl-after-finished-controller"));
/// ```
#[must_use]
pub fn default_controllers(version: KubernetesVersion) -> Vec<Arc<dyn Controller>> {
    let mut all: Vec<Arc<dyn Controller>> = vec![
        Arc::new(CloudNodeLifecycle::new(version)),
        Arc::new(CronJobHistory::new(version)),
        Arc::new(CsrCleaner::new(version)),
        Arc::new(LegacyTokenCleaner::new(version)),
        Arc::new(NamespaceController::new(version)),
        Arc::new(PersistentVolumeBinder::new(version)),
        Arc::new(PodCertificateRequestCleaner::new(version)),
        Arc::new(PodGc::new(version)),
        Arc::new(PvProtection::new(version)),
        Arc::new(PvcProtection::new(version)),
        Arc::new(StatefulSetClaims::new(version)),
        Arc::new(TokenCleaner::new(version)),
        Arc::new(TtlAfterFinished::new(version)),
    ];
    all.sort_by_key(|controller| controller.info().name);
    all
}
