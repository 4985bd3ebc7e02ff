//! The resources that controllers read or write.

/// Declares [`Resource`]: variant, group, plural, kind, kubectl's name of one object.
macro_rules! resources {
    ($($variant:ident: $group:literal, $plural:literal, $kind:literal, $kubectl:literal;)*) => {
        /// A resource that a controller reads or writes. The order is that of the names.
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

            /// The singular that kubectl prints, with the group where there is one: `pod`, `job.batch`.
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
    CronJobs: "batch", "cronjobs", "CronJob", "cronjob.batch";
    Jobs: "batch", "jobs", "Job", "job.batch";
    Leases: "coordination.k8s.io", "leases", "Lease", "lease.coordination.k8s.io";
    Namespaces: "", "namespaces", "Namespace", "namespace";
    Nodes: "", "nodes", "Node", "node";
    PersistentVolumeClaims: "", "persistentvolumeclaims", "PersistentVolumeClaim", "persistentvolumeclaim";
    PersistentVolumes: "", "persistentvolumes", "PersistentVolume", "persistentvolume";
    PodCertificateRequests: "certificates.k8s.io", "podcertificaterequests", "PodCertificateRequest",
        "podcertificaterequest.certificates.k8s.io";
    Pods: "", "pods", "Pod", "pod";
    Secrets: "", "secrets", "Secret", "secret";
    ServiceAccounts: "", "serviceaccounts", "ServiceAccount", "serviceaccount";
    StatefulSets: "apps", "statefulsets", "StatefulSet", "statefulset.apps";
}

impl Resource {
    /// The resource of a kind; `None` where no controller reads it.
    #[must_use]
    pub fn of_kind(group: &str, kind: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|resource| resource.kind() == kind && resource.group() == group)
    }
}
