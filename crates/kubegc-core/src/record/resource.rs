//! The resources that controllers read or write, and the facts of their kinds.

use super::Record;

/// Declares [`Resource`] and [`Body`]: variant, group, plural and kind; for kinds with facts, their type and
/// the accessor of a record.
macro_rules! resources {
    ($(
        $variant:ident: $group:literal, $plural:literal, $kind:literal $(=> $body:ident, $accessor:ident)?;
    )*) => {
        /// A resource that a controller reads or writes. The order is that of the variant names.
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Resource {
            $(#[doc = concat!("`", $plural, "`.")] $variant,)*
        }

        impl Resource {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The API group; empty for the core group.
            pub const fn group(self) -> &'static str {
                match self { $(Self::$variant => $group,)* }
            }

            /// The name in paths, such as `pods`.
            pub const fn plural(self) -> &'static str {
                match self { $(Self::$variant => $plural,)* }
            }

            /// The kind, such as `Pod`.
            pub const fn kind(self) -> &'static str {
                match self { $(Self::$variant => $kind,)* }
            }

            /// The resource of a kind; `None` if no controller reads it.
            pub fn of_kind(group: &str, kind: &str) -> Option<Self> {
                match (kind, group) {
                    $(($kind, $group) => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        /// The fields of one object other than its metadata.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
        pub enum Body {
            /// Nothing was read, or the kind has no fields that a controller reads.
            #[default]
            Unread,
            $($(#[doc = concat!("`", $kind, "`.")] $body(super::$body),)?)*
        }

        impl Record {
            $($(
                #[doc = concat!("The fields of a ", $kind, "; `None` where they were not read.")]
                pub fn $accessor(&self) -> Option<&super::$body> {
                    match &*self.body {
                        Body::$body(body) => Some(body),
                        _ => None,
                    }
                }
            )?)*
        }
    };
}

impl Resource {
    /// The singular that kubectl prints, with the group if there is one: `pod`, `job.batch`.
    pub fn kubectl_name(self) -> String {
        let kind = self.kind().to_lowercase();
        match self.group() {
            "" => kind,
            group => format!("{kind}.{group}"),
        }
    }
}

resources! {
    CertificateSigningRequests: "certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest"
        => CertificateSigningRequest, certificate_signing_request;
    ConfigMaps: "", "configmaps", "ConfigMap" => ConfigMap, config_map;
    ControllerRevisions: "apps", "controllerrevisions", "ControllerRevision"
        => ControllerRevision, controller_revision;
    CronJobs: "batch", "cronjobs", "CronJob" => CronJob, cron_job;
    DaemonSets: "apps", "daemonsets", "DaemonSet" => DaemonSet, daemon_set;
    Deployments: "apps", "deployments", "Deployment" => Deployment, deployment;
    EndpointSlices: "discovery.k8s.io", "endpointslices", "EndpointSlice";
    Endpoints: "", "endpoints", "Endpoints" => Endpoints, endpoints;
    IpAddresses: "networking.k8s.io", "ipaddresses", "IPAddress" => IpAddress, ip_address;
    Jobs: "batch", "jobs", "Job" => Job, job;
    Leases: "coordination.k8s.io", "leases", "Lease" => Lease, lease;
    Namespaces: "", "namespaces", "Namespace" => Namespace, namespace;
    Nodes: "", "nodes", "Node" => Node, node;
    PersistentVolumeClaims: "", "persistentvolumeclaims", "PersistentVolumeClaim"
        => PersistentVolumeClaim, persistent_volume_claim;
    PersistentVolumes: "", "persistentvolumes", "PersistentVolume" => PersistentVolume, persistent_volume;
    PodCertificateRequests: "certificates.k8s.io", "podcertificaterequests", "PodCertificateRequest";
    PodGroups: "scheduling.k8s.io", "podgroups", "PodGroup";
    Pods: "", "pods", "Pod" => Pod, pod;
    ReplicaSets: "apps", "replicasets", "ReplicaSet" => ReplicaSet, replica_set;
    ResourceClaims: "resource.k8s.io", "resourceclaims", "ResourceClaim" => ResourceClaim, resource_claim;
    Secrets: "", "secrets", "Secret" => Secret, secret;
    ServiceAccounts: "", "serviceaccounts", "ServiceAccount" => ServiceAccount, service_account;
    ServiceCidrs: "networking.k8s.io", "servicecidrs", "ServiceCIDR" => ServiceCidr, service_cidr;
    Services: "", "services", "Service" => Service, service;
    StatefulSets: "apps", "statefulsets", "StatefulSet" => StatefulSet, stateful_set;
    VolumeAttachments: "storage.k8s.io", "volumeattachments", "VolumeAttachment"
        => VolumeAttachment, volume_attachment;
    VolumeAttributesClasses: "storage.k8s.io", "volumeattributesclasses", "VolumeAttributesClass";
}
