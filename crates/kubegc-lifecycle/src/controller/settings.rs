//! Says which mechanisms run, and how.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::KubernetesVersion;

use super::Mechanism;
use crate::{
    certificate::{self, pod_request},
    history, job, lease, namespace, node,
    object::Resource,
    pod, statefulset,
    token::{bootstrap, legacy},
    volume::{Migration, external, protection, reclaim},
};

/// Which mechanisms run, each with its settings; what is `None` or empty does not.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Pods.
    pub pods: Option<pod::Settings>,
    /// Finished jobs.
    pub jobs: Option<job::Settings>,
    /// Jobs of cron jobs.
    pub histories: Option<history::Settings>,
    /// Certificate signing requests.
    pub certificates: Option<certificate::Settings>,
    /// Certificate requests of pods.
    pub pod_certificates: Option<pod_request::Settings>,
    /// Volumes.
    pub volumes: Option<reclaim::Settings>,
    /// Volumes of provisioners outside Kubernetes, one entry each.
    pub external_volumes: Vec<external::Settings>,
    /// What the cluster does with the volumes of each provisioner. Default: nothing is known.
    pub storage: Storage,
    /// Finalizers of claims and volumes.
    pub protection: Option<protection::Settings>,
    /// Claims of stateful sets.
    pub stateful_sets: Option<statefulset::Settings>,
    /// Nodes.
    pub nodes: Option<node::Settings>,
    /// Leases of nodes.
    pub leases: Option<lease::Settings>,
    /// Tokens of service accounts.
    pub legacy_tokens: Option<legacy::Policy>,
    /// Bootstrap tokens.
    pub bootstrap_tokens: Option<bootstrap::Settings>,
    /// Content of deleted namespaces.
    pub namespaces: Option<namespace::Settings>,
}

/// What the cluster does with the volumes of each provisioner, by its name as in the annotation of its volumes.
///
/// What is not here is not known: volumes of a provisioner within Kubernetes are then left alone, and so are those that only a plugin could delete or
/// empty. A provisioner outside Kubernetes needs no entry.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Storage {
    /// Whether volumes are handed over to a driver.
    pub migrations: BTreeMap<Arc<str>, Migration>,
    /// Who deletes or empties what is behind volumes; under the empty name for volumes that nobody provisioned.
    pub plugins: BTreeMap<Arc<str>, reclaim::Plugin>,
}

impl Storage {
    /// Nothing is known.
    #[must_use]
    pub const fn unknown() -> Self {
        Self {
            migrations: BTreeMap::new(),
            plugins: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Nothing runs.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            pods: None,
            jobs: None,
            histories: None,
            certificates: None,
            pod_certificates: None,
            volumes: None,
            external_volumes: Vec::new(),
            storage: Storage::unknown(),
            protection: None,
            stateful_sets: None,
            nodes: None,
            leases: None,
            legacy_tokens: None,
            bootstrap_tokens: None,
            namespaces: None,
        }
    }

    /// Everything runs, with upstream's defaults in a release; external provisioners have no default and are added by their names.
    #[must_use]
    pub fn new(version: KubernetesVersion) -> Self {
        Self::only(version, Mechanism::ALL)
    }

    /// These run, with upstream's defaults in a release. [`Mechanism::ExternalVolumes`] has none: name the provisioners in [`external_volumes`](Self::external_volumes).
    #[must_use]
    pub fn only(version: KubernetesVersion, mechanisms: impl IntoIterator<Item = Mechanism>) -> Self {
        let mut settings = Self::none();
        for mechanism in mechanisms {
            match mechanism {
                Mechanism::Pods => settings.pods = Some(pod::Settings::new(version)),
                Mechanism::Jobs => settings.jobs = Some(job::Settings::new(version)),
                Mechanism::Histories => settings.histories = Some(history::Settings::new(version)),
                Mechanism::Certificates => settings.certificates = Some(certificate::Settings::new(version)),
                Mechanism::PodCertificates => {
                    settings.pod_certificates = Some(pod_request::Settings::new(version));
                }
                Mechanism::Volumes => settings.volumes = Some(reclaim::Settings::new(version)),
                Mechanism::ExternalVolumes => {}
                Mechanism::Protection => settings.protection = Some(protection::Settings::default()),
                Mechanism::StatefulSets => settings.stateful_sets = Some(statefulset::Settings::new(version)),
                Mechanism::Nodes => settings.nodes = Some(node::Settings::new(version)),
                Mechanism::Leases => settings.leases = Some(lease::Settings::new(version)),
                Mechanism::LegacyTokens => settings.legacy_tokens = Some(legacy::Policy::new(version)),
                Mechanism::BootstrapTokens => {
                    settings.bootstrap_tokens = Some(bootstrap::Settings::new(version));
                }
                Mechanism::Namespaces => settings.namespaces = Some(namespace::Settings::new(version)),
            }
        }
        settings
    }

    /// Whether a mechanism runs.
    #[must_use]
    pub const fn runs(&self, mechanism: Mechanism) -> bool {
        match mechanism {
            Mechanism::Pods => self.pods.is_some(),
            Mechanism::Jobs => self.jobs.is_some(),
            Mechanism::Histories => self.histories.is_some(),
            Mechanism::Certificates => self.certificates.is_some(),
            Mechanism::PodCertificates => self.pod_certificates.is_some(),
            Mechanism::Volumes => self.volumes.is_some(),
            Mechanism::ExternalVolumes => !self.external_volumes.is_empty(),
            Mechanism::Protection => self.protection.is_some(),
            Mechanism::StatefulSets => self.stateful_sets.is_some(),
            Mechanism::Nodes => self.nodes.is_some(),
            Mechanism::Leases => self.leases.is_some(),
            Mechanism::LegacyTokens => self.legacy_tokens.is_some(),
            Mechanism::BootstrapTokens => self.bootstrap_tokens.is_some(),
            Mechanism::Namespaces => self.namespaces.is_some(),
        }
    }

    /// The resources that must be listed and watched for what runs.
    #[must_use]
    pub fn resources(&self) -> BTreeSet<Resource> {
        let running = Mechanism::ALL
            .into_iter()
            .filter(|mechanism| self.runs(*mechanism));
        running
            .flat_map(|mechanism| mechanism.resources())
            .copied()
            .collect()
    }
}

impl Mechanism {
    /// The resources that a mechanism looks at, those that it acts on first.
    #[must_use]
    pub const fn resources(self) -> &'static [Resource] {
        match self {
            Self::Pods => &[Resource::Pods, Resource::Nodes],
            Self::Jobs => &[Resource::Jobs],
            Self::Histories => &[Resource::Jobs, Resource::CronJobs],
            Self::Certificates => &[Resource::CertificateSigningRequests],
            Self::PodCertificates => &[Resource::PodCertificateRequests],
            Self::Volumes => &[
                Resource::PersistentVolumes,
                Resource::PersistentVolumeClaims,
                Resource::Pods,
            ],
            Self::ExternalVolumes => &[Resource::PersistentVolumes],
            Self::Protection => &[
                Resource::PersistentVolumeClaims,
                Resource::PersistentVolumes,
                Resource::Pods,
            ],
            Self::StatefulSets => &[
                Resource::PersistentVolumeClaims,
                Resource::StatefulSets,
                Resource::Pods,
            ],
            Self::Nodes => &[Resource::Nodes],
            Self::Leases => &[Resource::Leases, Resource::Nodes],
            Self::LegacyTokens => &[
                Resource::Secrets,
                Resource::ServiceAccounts,
                Resource::ConfigMaps,
                Resource::Pods,
            ],
            Self::BootstrapTokens => &[Resource::Secrets],
            Self::Namespaces => &[Resource::Namespaces],
        }
    }
}
