//! The kinds with details, and the parts of an object from which each kind's details are read.

use kubegc_core::identity::split_api_version;

/// A kind that has details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    AdmissionPolicy,
    AdmissionPolicyBinding,
    ApiService,
    CertificateSigningRequest,
    ConfigMap,
    ControllerRevision,
    CronJob,
    CustomResourceDefinition,
    DaemonSet,
    Deployment,
    EndpointSlice,
    Endpoints,
    IpAddress,
    Job,
    Lease,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    ResourceClaim,
    Secret,
    Service,
    ServiceAccount,
    ServiceCidr,
    StatefulSet,
    VolumeAttachment,
    WebhookConfiguration,
    /// Of `v1beta1`, which has other defaults.
    BetaWebhookConfiguration,
}

/// A field of an object that details are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Spec,
    Status,
    Type,
    Data,
    StringData,
    Secrets,
    Revision,
    Webhooks,
    Subsets,
    Endpoints,
}

impl Kind {
    /// The kind of this name, and its group.
    fn named(kind: &str) -> Option<(Self, &'static str)> {
        Some(match kind {
            "APIService" => (Self::ApiService, "apiregistration.k8s.io"),
            "CertificateSigningRequest" => (Self::CertificateSigningRequest, "certificates.k8s.io"),
            "ConfigMap" => (Self::ConfigMap, ""),
            "ControllerRevision" => (Self::ControllerRevision, "apps"),
            "CronJob" => (Self::CronJob, "batch"),
            "CustomResourceDefinition" => (Self::CustomResourceDefinition, "apiextensions.k8s.io"),
            "DaemonSet" => (Self::DaemonSet, "apps"),
            "Deployment" => (Self::Deployment, "apps"),
            "EndpointSlice" => (Self::EndpointSlice, "discovery.k8s.io"),
            "Endpoints" => (Self::Endpoints, ""),
            "IPAddress" => (Self::IpAddress, "networking.k8s.io"),
            "Job" => (Self::Job, "batch"),
            "Lease" => (Self::Lease, "coordination.k8s.io"),
            "Namespace" => (Self::Namespace, ""),
            "Node" => (Self::Node, ""),
            "PersistentVolume" => (Self::PersistentVolume, ""),
            "PersistentVolumeClaim" => (Self::PersistentVolumeClaim, ""),
            "Pod" => (Self::Pod, ""),
            "ReplicaSet" => (Self::ReplicaSet, "apps"),
            "ResourceClaim" => (Self::ResourceClaim, "resource.k8s.io"),
            "Secret" => (Self::Secret, ""),
            "Service" => (Self::Service, ""),
            "ServiceAccount" => (Self::ServiceAccount, ""),
            "ServiceCIDR" => (Self::ServiceCidr, "networking.k8s.io"),
            "StatefulSet" => (Self::StatefulSet, "apps"),
            "ValidatingAdmissionPolicy" => (Self::AdmissionPolicy, "admissionregistration.k8s.io"),
            "ValidatingAdmissionPolicyBinding" => {
                (Self::AdmissionPolicyBinding, "admissionregistration.k8s.io")
            }
            "VolumeAttachment" => (Self::VolumeAttachment, "storage.k8s.io"),
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
                (Self::WebhookConfiguration, "admissionregistration.k8s.io")
            }
            _ => return None,
        })
    }

    /// The kind, in any version of its group.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = split_api_version(api_version);
        match Self::in_group(group, kind) {
            Some(Self::WebhookConfiguration) if version == "v1beta1" => Some(Self::BetaWebhookConfiguration),
            found => found,
        }
    }

    pub fn in_group(group: &str, kind: &str) -> Option<Self> {
        let (found, of) = Self::named(kind)?;
        (group == of).then_some(found)
    }

    pub(super) fn has(self, part: Part) -> bool {
        match part {
            Part::Spec => !matches!(
                self,
                Self::CertificateSigningRequest
                    | Self::ConfigMap
                    | Self::ControllerRevision
                    | Self::EndpointSlice
                    | Self::Endpoints
                    | Self::Secret
                    | Self::ServiceAccount
                    | Self::WebhookConfiguration
                    | Self::BetaWebhookConfiguration
            ),
            Part::Status => !matches!(
                self,
                Self::AdmissionPolicy
                    | Self::AdmissionPolicyBinding
                    | Self::ConfigMap
                    | Self::ControllerRevision
                    | Self::CronJob
                    | Self::EndpointSlice
                    | Self::Endpoints
                    | Self::IpAddress
                    | Self::Lease
                    | Self::Secret
                    | Self::Service
                    | Self::ServiceAccount
                    | Self::ServiceCidr
                    | Self::VolumeAttachment
                    | Self::WebhookConfiguration
                    | Self::BetaWebhookConfiguration
            ),
            Part::Type | Part::StringData => self == Self::Secret,
            Part::Data => matches!(self, Self::ConfigMap | Self::Secret),
            Part::Secrets => self == Self::ServiceAccount,
            Part::Revision => self == Self::ControllerRevision,
            Part::Webhooks => matches!(self, Self::WebhookConfiguration | Self::BetaWebhookConfiguration),
            Part::Subsets => self == Self::Endpoints,
            Part::Endpoints => self == Self::EndpointSlice,
        }
    }
}

/// Whether a part holds facts that are kept, judged by the kind as far as it has been read. An empty text may
/// still become any kind.
pub fn may_read(api_version: &str, kind: &str, part: Part) -> bool {
    let group = split_api_version(api_version).0;
    match Kind::named(kind) {
        Some((kind, of)) => (api_version.is_empty() || group == of) && kind.has(part),
        None if !kind.is_empty() => false,
        None => matches!(
            group,
            "" | "admissionregistration.k8s.io"
                | "apiextensions.k8s.io"
                | "apiregistration.k8s.io"
                | "apps"
                | "batch"
                | "certificates.k8s.io"
                | "coordination.k8s.io"
                | "discovery.k8s.io"
                | "networking.k8s.io"
                | "resource.k8s.io"
                | "storage.k8s.io"
        ),
    }
}
