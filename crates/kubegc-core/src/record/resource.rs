//! The resources that controllers read or write.

/// Declares [`Resource`]: variant, group, plural, kind, kubectl's name of one object.
macro_rules! resources {
    ($($variant:ident: $group:literal, $plural:literal, $kind:literal, $kubectl:literal;)*) => {
        /// A resource that a controller reads or writes. The order is that of the variant names.
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Resource {
            $(#[doc = concat!("`", $plural, "`.")] $variant,)*
        }

        impl Resource {
            /// Every resource.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The API group; empty for the core group.
            #[must_use]
            pub const fn group(self) -> &'static str {
                match self { $(Self::$variant => $group,)* }
            }

            /// The name in paths, such as `pods`.
            #[must_use]
            pub const fn plural(self) -> &'static str {
                match self { $(Self::$variant => $plural,)* }
            }

            /// The kind, such as `Pod`.
            #[must_use]
            pub const fn kind(self) -> &'static str {
                match self { $(Self::$variant => $kind,)* }
            }

            /// The resource of a kind; `None` if no controller reads it.
            #[must_use]
            pub fn of_kind(group: &str, kind: &str) -> Option<Self> {
                match (kind, group) {
                    $(($kind, $group) => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The singular that kubectl prints, with the group if there is one: `pod`, `job.batch`.
            #[must_use]
            pub const fn kubectl_name(self) -> &'static str {
                match self { $(Self::$variant => $kubectl,)* }
            }
        }
    };
}

resources! {
    CertificateSigningRequests: "certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest",
        "certificatesigningrequest.certificates.k8s.io";
    ConfigMaps: "", "configmaps", "ConfigMap", "configmap";
    ControllerRevisions: "apps", "controllerrevisions", "ControllerRevision", "controllerrevision.apps";
    CronJobs: "batch", "cronjobs", "CronJob", "cronjob.batch";
    DaemonSets: "apps", "daemonsets", "DaemonSet", "daemonset.apps";
    Deployments: "apps", "deployments", "Deployment", "deployment.apps";
    EndpointSlices: "discovery.k8s.io", "endpointslices", "EndpointSlice",
        "endpointslice.discovery.k8s.io";
    Endpoints: "", "endpoints", "Endpoints", "endpoints";
    IpAddresses: "networking.k8s.io", "ipaddresses", "IPAddress", "ipaddress.networking.k8s.io";
    Jobs: "batch", "jobs", "Job", "job.batch";
    Leases: "coordination.k8s.io", "leases", "Lease", "lease.coordination.k8s.io";
    Namespaces: "", "namespaces", "Namespace", "namespace";
    Nodes: "", "nodes", "Node", "node";
    PersistentVolumeClaims: "", "persistentvolumeclaims", "PersistentVolumeClaim", "persistentvolumeclaim";
    PersistentVolumes: "", "persistentvolumes", "PersistentVolume", "persistentvolume";
    PodCertificateRequests: "certificates.k8s.io", "podcertificaterequests", "PodCertificateRequest",
        "podcertificaterequest.certificates.k8s.io";
    PodGroups: "scheduling.k8s.io", "podgroups", "PodGroup", "podgroup.scheduling.k8s.io";
    Pods: "", "pods", "Pod", "pod";
    ReplicaSets: "apps", "replicasets", "ReplicaSet", "replicaset.apps";
    ResourceClaims: "resource.k8s.io", "resourceclaims", "ResourceClaim",
        "resourceclaim.resource.k8s.io";
    Secrets: "", "secrets", "Secret", "secret";
    ServiceAccounts: "", "serviceaccounts", "ServiceAccount", "serviceaccount";
    ServiceCidrs: "networking.k8s.io", "servicecidrs", "ServiceCIDR", "servicecidr.networking.k8s.io";
    Services: "", "services", "Service", "service";
    StatefulSets: "apps", "statefulsets", "StatefulSet", "statefulset.apps";
    VolumeAttachments: "storage.k8s.io", "volumeattachments", "VolumeAttachment",
        "volumeattachment.storage.k8s.io";
    VolumeAttributesClasses: "storage.k8s.io", "volumeattributesclasses", "VolumeAttributesClass",
        "volumeattributesclass.storage.k8s.io";
}
