//! The resources that controllers read or write, and the facts of their kinds.

use super::Record;

/// Declares [`Resource`] and [`Body`]: variant, group, plural, kind, kubectl's name of one object; for kinds
/// with facts, their type and the accessor of a record.
macro_rules! resources {
    ($(
        $variant:ident: $group:literal, $plural:literal, $kind:literal, $kubectl:literal
            $(=> $body:ident, $accessor:ident)?;
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

            /// The singular that kubectl prints, with the group if there is one: `pod`, `job.batch`.
            pub const fn kubectl_name(self) -> &'static str {
                match self { $(Self::$variant => $kubectl,)* }
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

resources! {
    CertificateSigningRequests: "certificates.k8s.io", "certificatesigningrequests",
        "CertificateSigningRequest", "certificatesigningrequest.certificates.k8s.io"
        => CertificateSigningRequest, certificate_signing_request;
    ConfigMaps: "", "configmaps", "ConfigMap", "configmap" => ConfigMap, config_map;
    ControllerRevisions: "apps", "controllerrevisions", "ControllerRevision", "controllerrevision.apps"
        => ControllerRevision, controller_revision;
    CronJobs: "batch", "cronjobs", "CronJob", "cronjob.batch" => CronJob, cron_job;
    DaemonSets: "apps", "daemonsets", "DaemonSet", "daemonset.apps" => DaemonSet, daemon_set;
    Deployments: "apps", "deployments", "Deployment", "deployment.apps" => Deployment, deployment;
    EndpointSlices: "discovery.k8s.io", "endpointslices", "EndpointSlice", "endpointslice.discovery.k8s.io";
    Endpoints: "", "endpoints", "Endpoints", "endpoints" => Endpoints, endpoints;
    IpAddresses: "networking.k8s.io", "ipaddresses", "IPAddress", "ipaddress.networking.k8s.io"
        => IpAddress, ip_address;
    Jobs: "batch", "jobs", "Job", "job.batch" => Job, job;
    Leases: "coordination.k8s.io", "leases", "Lease", "lease.coordination.k8s.io" => Lease, lease;
    Namespaces: "", "namespaces", "Namespace", "namespace" => Namespace, namespace;
    Nodes: "", "nodes", "Node", "node" => Node, node;
    PersistentVolumeClaims: "", "persistentvolumeclaims", "PersistentVolumeClaim", "persistentvolumeclaim"
        => PersistentVolumeClaim, persistent_volume_claim;
    PersistentVolumes: "", "persistentvolumes", "PersistentVolume", "persistentvolume"
        => PersistentVolume, persistent_volume;
    PodCertificateRequests: "certificates.k8s.io", "podcertificaterequests", "PodCertificateRequest",
        "podcertificaterequest.certificates.k8s.io";
    PodGroups: "scheduling.k8s.io", "podgroups", "PodGroup", "podgroup.scheduling.k8s.io";
    Pods: "", "pods", "Pod", "pod" => Pod, pod;
    ReplicaSets: "apps", "replicasets", "ReplicaSet", "replicaset.apps" => ReplicaSet, replica_set;
    ResourceClaims: "resource.k8s.io", "resourceclaims", "ResourceClaim", "resourceclaim.resource.k8s.io"
        => ResourceClaim, resource_claim;
    Secrets: "", "secrets", "Secret", "secret" => Secret, secret;
    ServiceAccounts: "", "serviceaccounts", "ServiceAccount", "serviceaccount"
        => ServiceAccount, service_account;
    ServiceCidrs: "networking.k8s.io", "servicecidrs", "ServiceCIDR", "servicecidr.networking.k8s.io"
        => ServiceCidr, service_cidr;
    Services: "", "services", "Service", "service" => Service, service;
    StatefulSets: "apps", "statefulsets", "StatefulSet", "statefulset.apps" => StatefulSet, stateful_set;
    VolumeAttachments: "storage.k8s.io", "volumeattachments", "VolumeAttachment",
        "volumeattachment.storage.k8s.io" => VolumeAttachment, volume_attachment;
    VolumeAttributesClasses: "storage.k8s.io", "volumeattributesclasses", "VolumeAttributesClass",
        "volumeattributesclass.storage.k8s.io";
}
