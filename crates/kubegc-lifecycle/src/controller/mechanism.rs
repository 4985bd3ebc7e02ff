//! Names the mechanisms, and says when each looks again.

use std::{fmt, str::FromStr};

use kubegc_core::FieldError;

/// One mechanism: what upstream runs as one controller.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mechanism {
    /// Pods that have ended, lost their node, or were never scheduled.
    Pods,
    /// Finished jobs whose time is up.
    Jobs,
    /// Jobs of cron jobs beyond their limits.
    Histories,
    /// Certificate signing requests.
    Certificates,
    /// Certificate requests of pods.
    PodCertificates,
    /// Volumes whose claim is gone.
    Volumes,
    /// Volumes whose claim is gone and which a provisioner outside Kubernetes deletes.
    ExternalVolumes,
    /// Finalizers of claims and volumes in use.
    Protection,
    /// Owner references of the claims of stateful sets.
    StatefulSets,
    /// Nodes that the cloud no longer has.
    Nodes,
    /// Leases of nodes that are gone.
    Leases,
    /// Unused tokens of service accounts.
    LegacyTokens,
    /// Expired bootstrap tokens.
    BootstrapTokens,
    /// Content of deleted namespaces.
    Namespaces,
}

impl Mechanism {
    /// All of them, in the order in which they look when several are due.
    pub const ALL: [Self; 14] = [
        Self::Pods,
        Self::Jobs,
        Self::Histories,
        Self::Certificates,
        Self::PodCertificates,
        Self::Volumes,
        Self::ExternalVolumes,
        Self::Protection,
        Self::StatefulSets,
        Self::Nodes,
        Self::Leases,
        Self::LegacyTokens,
        Self::BootstrapTokens,
        Self::Namespaces,
    ];

    /// A short name, as settings and reports have it, such as `legacy-tokens`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Jobs => "jobs",
            Self::Histories => "histories",
            Self::Certificates => "certificates",
            Self::PodCertificates => "pod-certificates",
            Self::Volumes => "volumes",
            Self::ExternalVolumes => "external-volumes",
            Self::Protection => "protection",
            Self::StatefulSets => "stateful-sets",
            Self::Nodes => "nodes",
            Self::Leases => "leases",
            Self::LegacyTokens => "legacy-tokens",
            Self::BootstrapTokens => "bootstrap-tokens",
            Self::Namespaces => "namespaces",
        }
    }

    /// Who acts, as a person calls it.
    #[must_use]
    pub const fn actor(self) -> &'static str {
        match self {
            Self::Pods => "pod garbage collector",
            Self::Jobs => "TTL controller",
            Self::Histories => "cron job controller",
            Self::Certificates => "CSR cleaner",
            Self::PodCertificates => "pod certificate cleaner",
            Self::Volumes => "volume controller",
            Self::ExternalVolumes => "external provisioner",
            Self::Protection => "storage protection",
            Self::StatefulSets => "stateful set controller",
            Self::Nodes => "cloud node controller",
            Self::Leases => "lease collector",
            Self::LegacyTokens => "legacy token cleaner",
            Self::BootstrapTokens => "bootstrap token cleaner",
            Self::Namespaces => "namespace controller",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let found = Self::ALL.into_iter().find(|mechanism| mechanism.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            FieldError::invalid("mechanism", text, &format!("expected one of {names}"))
        })
    }
}
