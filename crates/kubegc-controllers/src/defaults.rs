//! The controllers that a control plane runs by default.

use std::sync::Arc;

use kubegc_core::KubernetesVersion;

use crate::{
    ApiServerLeases, CloudNodeLifecycle, Controller, CronJobHistory, CsrCleaner, DaemonSetHistory,
    DeploymentHistory, EndpointSliceMirroring, EndpointSlicesOfServices, EndpointsOfServices,
    IpAddressRepair, JobTracking, LegacyTokenCleaner, NamespaceController, NodeLifecycle,
    PersistentVolumeBinder, PodCertificateRequestCleaner, PodGc, PvProtection, PvcProtection, ReplicaSetPods,
    ResourceClaims, ServiceAccountTokens, ServiceCidrs, StatefulSetClaims, StatefulSetHistory, TaintEviction,
    TokenCleaner, TtlAfterFinished, VolumeAttachments, VolumeAttributesClassProtection,
};

/// Every controller of this crate that runs by default in a release, with upstream's defaults, by name.
///
/// External provisioners have no defaults: add an [`ExternalProvisioner`](crate::ExternalProvisioner) for
/// each. [`PodGroupProtection`](crate::PodGroupProtection) is off in all releases.
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
        Arc::new(ApiServerLeases::new(version)),
        Arc::new(CloudNodeLifecycle::new(version)),
        Arc::new(CronJobHistory::new(version)),
        Arc::new(CsrCleaner::new(version)),
        Arc::new(DaemonSetHistory::new(version)),
        Arc::new(DeploymentHistory::new(version)),
        Arc::new(EndpointSliceMirroring::new(version)),
        Arc::new(EndpointSlicesOfServices::new(version)),
        Arc::new(EndpointsOfServices::new(version)),
        Arc::new(IpAddressRepair::new(version)),
        Arc::new(JobTracking::new(version)),
        Arc::new(LegacyTokenCleaner::new(version)),
        Arc::new(NamespaceController::new(version)),
        Arc::new(NodeLifecycle::new(version)),
        Arc::new(PersistentVolumeBinder::new(version)),
        Arc::new(PodCertificateRequestCleaner::new(version)),
        Arc::new(PodGc::new(version)),
        Arc::new(PvProtection::new(version)),
        Arc::new(PvcProtection::new(version)),
        Arc::new(ReplicaSetPods::new(version)),
        Arc::new(ResourceClaims::new(version)),
        Arc::new(ServiceAccountTokens::new(version)),
        Arc::new(ServiceCidrs::new(version)),
        Arc::new(StatefulSetClaims::new(version)),
        Arc::new(StatefulSetHistory::new(version)),
        Arc::new(TaintEviction::new(version)),
        Arc::new(TokenCleaner::new(version)),
        Arc::new(TtlAfterFinished::new(version)),
        Arc::new(VolumeAttachments::new(version)),
        Arc::new(VolumeAttributesClassProtection::new(version)),
    ];
    all.retain(|controller| controller.info().since.is_none_or(|since| version.has(since)));
    all.sort_by_key(|controller| controller.info().name);
    all
}
