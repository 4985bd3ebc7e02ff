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
        Arc::new(CloudNodeLifecycle::new(version)),
        Arc::new(CronJobHistory::new(version)),
        Arc::new(CsrCleaner::new(version)),
        Arc::new(DaemonSetHistory::new(version)),
        Arc::new(DeploymentHistory::new(version)),
        Arc::new(EndpointsOfServices::new(version)),
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
        Arc::new(ServiceAccountTokens::new(version)),
        Arc::new(StatefulSetClaims::new(version)),
        Arc::new(StatefulSetHistory::new(version)),
        Arc::new(TaintEviction::new(version)),
        Arc::new(TokenCleaner::new(version)),
        Arc::new(TtlAfterFinished::new(version)),
        Arc::new(VolumeAttachments::new(version)),
    ];
    let leases = ApiServerLeases::new(version);
    let mirroring = EndpointSliceMirroring::new(version);
    let slices = EndpointSlicesOfServices::new(version);
    let addresses = IpAddressRepair::new(version);
    let claims = ResourceClaims::new(version);
    let cidrs = ServiceCidrs::new(version);
    let classes = VolumeAttributesClassProtection::new(version);
    let gated: [(bool, Arc<dyn Controller>); 7] = [
        (leases.is_enabled, Arc::new(leases)),
        (mirroring.is_enabled, Arc::new(mirroring)),
        (slices.is_enabled, Arc::new(slices)),
        (addresses.is_enabled, Arc::new(addresses)),
        (claims.is_enabled, Arc::new(claims)),
        (cidrs.is_enabled, Arc::new(cidrs)),
        (classes.is_enabled, Arc::new(classes)),
    ];
    let enabled = gated.into_iter().filter(|(is_enabled, _)| *is_enabled);
    all.extend(enabled.map(|(_, controller)| controller));
    all.sort_by_key(|controller| controller.info().name);
    all
}
