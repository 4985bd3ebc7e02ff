//! What the mechanisms read of whole objects: metadata and, by kind, the few fields beside it that decide anything.
//!
//! Readers of dumps and of a live API server make these; each mechanism takes its own facts out of them. What was not read is a value of its own
//! everywhere, so that nothing is decided on it.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::ObjectMeta;

use crate::{
    certificate::Certificate,
    history::{self, Limit},
    job::Ttl,
    object::{Condition, Resource, Taint},
    pod,
    statefulset::Retention,
    token::bootstrap::Expiration,
    volume::{Annotations, Holder, Phase, PodVolume, Policy},
};

/// One object, as far as any mechanism reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Metadata.
    pub meta: ObjectMeta,
    /// What else is known.
    pub fields: Fields,
}

impl Record {
    /// An object of which nothing but the metadata is known.
    #[must_use]
    pub const fn unread(meta: ObjectMeta) -> Self {
        Self {
            meta,
            fields: Fields::Unread,
        }
    }

    /// An object of which not even all metadata is known.
    #[must_use]
    pub const fn unread_metadata(meta: ObjectMeta) -> Self {
        Self {
            meta,
            fields: Fields::MetadataUnread,
        }
    }
}

/// What is known of an object beside its metadata.
#[expect(clippy::exhaustive_enums, reason = "facts that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fields {
    /// Nothing, and of the metadata only what it is: what else is there may be missing, owners, finalizers and times among it.
    MetadataUnread,
    /// Nothing: it was not read, could not be, or is of a kind of which nothing else matters, such as leases.
    #[default]
    Unread,
    /// Of a certificate signing request.
    CertificateSigningRequest(CertificateSigningRequest),
    /// Of the config map that tracks the uses of tokens.
    ConfigMap(ConfigMap),
    /// Of a cron job.
    CronJob(CronJob),
    /// Of a job.
    Job(Job),
    /// Of a node.
    Node(Node),
    /// Of a claim.
    PersistentVolumeClaim(PersistentVolumeClaim),
    /// Of a volume.
    PersistentVolume(PersistentVolume),
    /// Of a pod.
    Pod(Pod),
    /// Of a secret.
    Secret(Secret),
    /// Of a service account.
    ServiceAccount(ServiceAccount),
    /// Of a stateful set.
    StatefulSet(StatefulSet),
}

impl Fields {
    /// Whether objects of a resource have fields that matter.
    #[must_use]
    pub const fn matter_to(resource: Resource) -> bool {
        !matches!(
            resource,
            Resource::Leases | Resource::Namespaces | Resource::PodCertificateRequests
        )
    }
}

/// Fields of a certificate signing request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CertificateSigningRequest {
    /// `status.conditions`; `None` where they were not read.
    pub conditions: Option<Vec<Condition>>,
    /// `status.certificate`.
    pub certificate: Certificate,
}

/// Fields of a config map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConfigMap {
    /// `data.since`; `None` where there is no such key.
    pub since: Option<Arc<str>>,
}

/// Fields of a cron job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CronJob {
    /// `spec.successfulJobsHistoryLimit`.
    pub successful_limit: Limit,
    /// `spec.failedJobsHistoryLimit`.
    pub failed_limit: Limit,
    /// `spec.jobTemplate.metadata.labels`; `None` where they were not read.
    pub template_labels: Option<BTreeMap<Arc<str>, Arc<str>>>,
}

/// Fields of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Job {
    /// `spec.ttlSecondsAfterFinished`.
    pub ttl: Ttl,
    /// Conditions and start time; `None` where the status was not read.
    pub status: Option<history::Status>,
}

/// Fields of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// `status.conditions`; `None` where they were not read.
    pub conditions: Option<Vec<Condition>>,
    /// `spec.taints`; `None` where they were not read.
    pub taints: Option<Vec<Taint>>,
    /// `spec.providerID`, empty where there is none; `None` where it was not read.
    pub provider_id: Option<Arc<str>>,
}

/// Fields of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PersistentVolumeClaim {
    /// `spec.volumeName`; empty while there is none.
    pub volume_name: Arc<str>,
    /// `spec.volumeMode`; `None` means `Filesystem`.
    pub mode: Option<Arc<str>>,
}

/// Fields of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PersistentVolume {
    /// `status.phase`.
    pub phase: Phase,
    /// `spec.persistentVolumeReclaimPolicy`.
    pub policy: Policy,
    /// `spec.claimRef`.
    pub claim_ref: Holder,
    /// `spec.volumeMode`; `None` means `Filesystem`.
    pub mode: Option<Arc<str>>,
    /// What its annotations say; `None` where they were not read.
    pub annotations: Option<Annotations>,
}

/// Fields of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pod {
    /// `spec.nodeName`, empty where the pod has no node; `None` where it was not read.
    pub node_name: Option<Arc<str>>,
    /// The status; `None` where it was not read. Of its conditions only `DisruptionTarget` matters.
    pub status: Option<pod::Status>,
    /// `spec.volumes`; `None` where they were not read.
    pub volumes: Option<Vec<PodVolume>>,
    /// Every name of a secret that the pod mentions, sorted, each once; `None` where they were not read.
    pub secrets: Option<Vec<Arc<str>>>,
}

impl Pod {
    /// Whether a volume of the pod, which has this name, stands for a claim; `None` where its volumes were not read.
    #[must_use]
    pub fn mentions_claim(&self, pod: &str, claim: &str) -> Option<bool> {
        let mut volumes = self.volumes.as_ref()?.iter();
        Some(volumes.any(|volume| volume.claim(pod).is_some_and(|name| *name == *claim)))
    }
}

/// Fields of a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Secret {
    /// `type`; `None` where it was not read.
    pub secret_type: Option<Arc<str>>,
    /// The annotation `kubernetes.io/service-account.name`, empty where there is none; `None` where annotations were not read.
    pub account_name: Option<Arc<str>>,
    /// The annotation `kubernetes.io/service-account.uid`, empty where there is none; `None` where annotations were not read.
    pub account_uid: Option<Arc<str>>,
    /// `data.expiration` of a bootstrap token, decoded. Of other secrets nobody looks at it.
    pub expiration: Expiration,
}

/// Fields of a service account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServiceAccount {
    /// The names in `secrets`; `None` where they were not read.
    pub secrets: Option<Vec<Arc<str>>>,
}

/// Fields of a stateful set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StatefulSet {
    /// `spec.replicas`; `None` where it was not read.
    pub replicas: Option<i32>,
    /// `spec.ordinals.start`, 0 where unset; `None` where it was not read.
    pub first_ordinal: Option<i32>,
    /// `spec.persistentVolumeClaimRetentionPolicy.whenDeleted`; `Retain` where unset.
    pub when_deleted: Retention,
    /// `whenScaled` beside it; `Retain` where unset.
    pub when_scaled: Retention,
    /// The names in `spec.volumeClaimTemplates`, in stored order.
    pub templates: Vec<Arc<str>>,
}
