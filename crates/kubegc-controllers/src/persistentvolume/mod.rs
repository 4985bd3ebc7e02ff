//! Releases persistent volumes whose claim no longer exists, and retains, deletes or recycles them.
//!
//! The rules are [L5.1](crate::rules#l5-1) to [L5.6](crate::rules#l5-6), [L5.8](crate::rules#l5-8) and
//! [L5.10](crate::rules#l5-10); R1 to R7 are the states of a volume, in [the rules](crate::rules).
//!
//! Binding is left out, and so is the enqueueing of claims.
//!
//! With [`Wire::Strict`], storage is deleted or recycled only while the API server has
//! the volume with the same spec, phase and annotations that the decision depends on, and a finalizer is not
//! added to a volume that is being deleted, which the API server refuses. Upstream checks only that the
//! volume is released.
//!
//! # Upstream
//! [`syncVolume`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/persistentvolume/pv_controller.go)
//! in `pv_controller.go`.

mod plugins;
mod sync;
mod volume;

use std::collections::BTreeMap;

use kubegc_core::record::ClaimRef;

use self::{sync::Sync, volume::Volume};
use crate::{Plugin, Step, prelude::*, storage::PODS_BY_CLAIM};

/// The feature gate `HonorPVReclaimPolicy`: alpha and off from 1.23, beta and on from 1.31, stable from 1.33.
const HONORS_RECLAIM_POLICY: Behavior = Behavior::since(31, 0, "feature gate HonorPVReclaimPolicy is beta");
/// The error of a failed metadata update mentions finalizers.
const FINALIZERS_IN_ERROR: Behavior = Behavior::since(23, 0, "kubernetes #105773");
/// Volumes of external provisioners are skipped without a read.
const LEAVES_EXTERNAL_UNREAD: Behavior = Behavior::since(36, 0, "kubernetes #134290");

/// Volumes by the claim that they are bound to or reserved for.
pub(crate) static VOLUMES_BY_CLAIM: Index = Index::new(Resource::PersistentVolumes, |record, keys| {
    let volume = record.persistent_volume();
    // A volume has no namespace. One with a namespace is invalid.
    if record.meta.namespace.is_empty()
        && let Some(Some(claim)) = volume.and_then(|volume| volume.claim_ref.known())
    {
        keys.push(claim_key(claim));
    }
});

/// Pods that may run and whose volumes were not read, by namespace.
static RUNNING_PODS_WITH_UNREAD_VOLUMES: Index = Index::new(Resource::Pods, |record, keys| {
    let is_unread = record.pod().is_none_or(|pod| pod.volumes.is_unread());
    if is_unread && is_running(record) != Ok(false) {
        keys.push(namespace_key(&record.meta.namespace));
    }
});

/// The part of the persistent volume controller that reclaims volumes.
#[derive(Clone, Debug)]
pub struct PersistentVolumeBinder {
    /// Whether volumes have finalizers until their storage is deleted, and are reclaimed though they are
    /// being deleted: the feature gate `HonorPVReclaimPolicy`. Off, the storage of a volume that is deleted
    /// before its claim leaks.
    pub deletion_finalizers: bool,
    pub storage: Storage,
    version: KubernetesVersion,
}

/// Known facts about the storage behind the volumes of a cluster, by provisioner as in the annotation
/// `pv.kubernetes.io/provisioned-by`. No decision depends on unknown facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Whether volumes of a provisioner within kube-controller-manager are migrated to a CSI driver. Those of
    /// a provisioner that no release migrates need no entry.
    pub migrations: BTreeMap<Arc<str>, Migration>,
    /// The plugin that deletes or recycles volumes. The empty name is that of volumes without a provisioner.
    /// If there is no entry, the executor decides, except about deletions by external provisioners.
    pub plugins: BTreeMap<Arc<str>, Plugin>,
    /// The release of a kube-controller-manager whose volume plugins and migrations apply if there is no
    /// entry. Default: none, so that the executor decides.
    pub release: Option<KubernetesVersion>,
}

/// Whether volumes of a provisioner within kube-controller-manager are migrated to a CSI driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Migration {
    Off,
    On {
        /// The name of the driver, such as `ebs.csi.aws.com`.
        driver: Arc<str>,
    },
}

impl Storage {
    /// The defaults of the kube-controller-manager of a release: its volume plugins and migrations.
    pub fn of_release(release: KubernetesVersion) -> Self {
        Self {
            release: Some(release),
            ..Self::default()
        }
    }

    /// Returns whether volumes of a provisioner are migrated; `None` if it is not known.
    pub fn migration(&self, provisioner: &str) -> Option<Migration> {
        let known = self.migrations.get(provisioner).cloned();
        known.or_else(|| plugins::migration(self.release, provisioner))
    }

    /// The plugin that does this work on a volume; `None` if the executor finds it.
    fn plugin(&self, volume: &Volume<'_>, operation: Operation) -> Option<Plugin> {
        let known = self.plugins.get(volume.provisioner()).cloned();
        known.or_else(|| plugins::find(self.release?, volume, operation))
    }
}

impl PersistentVolumeBinder {
    /// Upstream's defaults in a release, without facts about the storage.
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            deletion_finalizers: version.has(HONORS_RECLAIM_POLICY),
            storage: Storage::default(),
            version,
        }
    }
}

/// The pods that run and use a claim, as `namespace/name`, in order.
fn users(cache: &Cache, claim: &ClaimRef) -> Result<Vec<String>, Missing> {
    cache.require_in(Resource::Pods, &claim.namespace)?;
    cache.require_read(
        &RUNNING_PODS_WITH_UNREAD_VOLUMES,
        &claim.namespace,
        "spec.volumes",
    )?;
    let mut users = Vec::new();
    for pod in cache.indexed_records(&PODS_BY_CLAIM, &claim_key(claim)) {
        match is_running(pod) {
            Ok(true) => users.push(format!("{}/{}", pod.meta.namespace, pod.meta.name)),
            Ok(false) => {}
            Err(field) => return Err(Missing::field(&pod.id(Resource::Pods), field)),
        }
    }
    Ok(users)
}

/// Returns whether a pod has not ended.
///
/// # Errors
/// The field that is needed and was not read.
///
/// # Upstream
/// [`IsPodTerminated`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/volume/util/util.go).
fn is_running(record: &Record) -> Result<bool, &'static str> {
    let pod = record.pod().ok_or("status.phase")?;
    let has_stopped = if record.meta.is_deleting() {
        pod.containers_stopped.known().copied()
    } else {
        Some(false)
    };
    match (pod.has_final_phase(), has_stopped) {
        (Some(true), _) | (_, Some(true)) => Ok(false),
        (Some(false), Some(false)) => Ok(true),
        (None, _) => Err("status.phase"),
        (_, None) => Err("status.containerStatuses"),
    }
}

fn bound() -> Reason {
    Reason::new("Bound", "it is bound to its claim")
}

pub(crate) fn claim_key(claim: &ClaimRef) -> Key {
    Key::new(Arc::clone(&claim.namespace), Arc::clone(&claim.name))
}

static INFO: Info = Info {
    name: "persistentvolume-binder-controller",
    summary: "deletes, recycles or retains persistent volumes whose claim no longer exists",
    resources: &[
        Resource::PersistentVolumes,
        Resource::PersistentVolumeClaims,
        Resource::Pods,
    ],
    indexes: &[
        &VOLUMES_BY_CLAIM,
        &PODS_BY_CLAIM,
        &RUNNING_PODS_WITH_UNREAD_VOLUMES,
    ],
    // Changes of pods take effect at the next resync, as upstream.
    found_by: &[(Resource::PersistentVolumeClaims, &VOLUMES_BY_CLAIM)],
    // The backoff is that of operations on volumes:
    // https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go
    timing: Timing {
        resync: Some(Duration::from_secs(15)),
        backoff: [Duration::from_millis(500), Duration::from_secs(122)],
        blocks_on_failure: true,
        ..Timing::DEFAULT
    },
    permissions: &[
        (Resource::PersistentVolumes, "", &["update", "delete"]),
        (Resource::PersistentVolumes, "status", &["update"]),
    ],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/persistentvolume/pv_controller.go",
    ..Info::BASE
};

impl Controller for PersistentVolumeBinder {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        let volume = Volume::of(id, record)?;
        let migration = match volume.is_in_tree() {
            true => self.storage.migration(volume.provisioner()),
            false => Some(Migration::Off),
        };
        let changes = volume.metadata_changes(migration.as_ref(), self.deletion_finalizers)?;
        let claims = Resource::PersistentVolumeClaims;
        let claim = volume
            .bound_claim()
            .map(|claim| cx.cache.find(claims, &claim_key(claim)));
        let claim = claim.transpose()?.flatten();
        if changes.is_empty()
            && volume.phase == "Bound"
            && claim.is_some_and(|claim| volume.is_claimed_by(claim))
        {
            return Ok(Decision::keep(id.clone(), bound()));
        }
        let is_recycled = volume.policy().is_ok_and(|policy| **policy == *"Recycle");
        let operation = match is_recycled {
            true => Operation::RecycleVolume,
            false => Operation::DeleteVolume,
        };
        let sync = Sync {
            deletion_finalizers: self.deletion_finalizers,
            leaves_external_unread: self.version.has(LEAVES_EXTERNAL_UNREAD),
            update_error: if self.version.has(FINALIZERS_IN_ERROR) {
                "persistent Volume Controller can't anneal migration annotations or finalizer: "
            } else {
                "persistent Volume Controller can't anneal migration annotations: "
            },
            wire: cx.wire,
            id: id.clone(),
            volume: record.clone(),
            changes,
            claim: claim.cloned(),
            users: match volume.claim_ref.filter(|_| is_recycled) {
                Some(claim_ref) => users(cx.cache, claim_ref),
                None => Ok(Vec::new()),
            },
            migration,
            plugin: self.storage.plugin(&volume, operation),
        };
        let steps = Steps::of(id, sync, Sync::sync_volume);
        // Work that ends before its first request is decided at once.
        match steps.begin().next(None) {
            Step::End(End::Kept(reason)) => Ok(Decision::keep(id.clone(), reason)),
            Step::End(End::Unknown(missing)) => Err(missing),
            Step::End(_) | Step::Perform { .. } => require_version(id, &record.meta).map(|()| steps.into()),
        }
    }
}
