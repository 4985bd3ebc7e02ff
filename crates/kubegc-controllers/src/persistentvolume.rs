//! Releases persistent volumes whose claim no longer exists, and retains, deletes or recycles them.
//!
//! | rule | behaviour |
//! |---|---|
//! | 5.3 | each sync first updates the deletion finalizers and the annotation of the migration to CSI, if any is out of date |
//! | R1, R2 | a volume without a claim, or reserved for any claim of a name, is `Available` |
//! | R3 | a volume whose claim does not exist, or has another uid, is `Released` unless it is `Failed`, and reclaimed |
//! | R4 | a claim that is not bound yet: nothing, or events where the volume modes differ |
//! | R5 | a claim that is bound to the volume: `Bound` |
//! | R6, R7 | a claim that is bound to another volume: released and reclaimed where the volume was provisioned for the claim and its policy is `Delete`, otherwise unbound |
//! | L5.1 | a claim that the cache does not have is read from the API server before the volume is `Released`; one that has another uid, always |
//! | L5.2 | `Released` never replaces `Failed`, and each sync reclaims anew |
//! | L5.3 | the volume is read again right before it is deleted or recycled, and must still be released |
//! | L5.4 | a migrated volume is left to the provisioner of its CSI driver |
//! | L5.5 | the plugin deletes the storage, the finalizer is removed after another read, the volume is deleted; a failure marks the volume `Failed` and is retried with backoff |
//! | L5.6 | a volume that pods use is not recycled; after recycling it is unbound |
//! | L5.10 | unbinding removes the claim reference where the controller has set it, otherwise only its uid |
//!
//! Binding is left out, and so is the enqueueing of claims.
//!
//! With [`Wire::Strict`](crate::Wire::Strict), storage is deleted or recycled only while the API server has the volume with the same spec,
//! phase and annotations that the decision rests on, and a finalizer is not added to a volume that is being deleted, which the API server
//! refuses. Upstream checks only that the volume is released.
//!
//! # Upstream
//! [`syncVolume`, `reclaimVolume`, `deleteVolumeOperation`, `recycleVolumeOperation` and `unbindVolume`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/persistentvolume/pv_controller.go)
//! in `pv_controller.go`;
//! [`updateVolumeMigrationAnnotationsAndFinalizers`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/persistentvolume/pv_controller_base.go)
//! in `pv_controller_base.go`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_core::{
    Behavior, DeleteOptions, KubernetesVersion, ObjectMeta, ResourceVersion, StoreError,
    record::{
        ClaimRef, ObjectId, PersistentVolume, PersistentVolumeClaim, Record, Resource, VolumeAnnotations,
    },
};

use crate::{
    Cache, Change, Context, Controller, Decision, End, EventRequest, FieldChange, Form, Found, Index, Info,
    Key, Missing, Operated, Operation, Plugin, Port, Reason, Sent, Steps, Subject, Timing, Wire, Write,
    controller::read,
    request::preconditions,
    storage::{
        BOUND_BY_CONTROLLER, FINALIZER_EXTERNAL, FINALIZER_IN_TREE, IN_TREE_PREFIX, MIGRATED_TO,
        PODS_BY_CLAIM, decide, error_text, namespace_key, require_version,
    },
};

/// The feature gate `HonorPVReclaimPolicy`: alpha and off from 1.23, beta and on from 1.31, stable from 1.33.
const HONORS_RECLAIM_POLICY: Behavior = Behavior::since(31, 0, "feature gate HonorPVReclaimPolicy is beta");
/// The error of a failed metadata update names finalizers.
const FINALIZERS_IN_ERROR: Behavior = Behavior::since(23, 0, "kubernetes #105773");
/// Volumes of external provisioners are not read before they are left to them.
const LEAVES_EXTERNAL_UNREAD: Behavior = Behavior::since(36, 0, "kubernetes #134290");

/// Volumes by the claim that they are bound to or reserved for.
static VOLUMES_BY_CLAIM: Index =
    Index::new("volumes by claim", Resource::PersistentVolumes, |record, keys| {
        let volume = record.persistent_volume();
        // A volume has no namespace; with one, its name might be that of another.
        if record.meta.namespace.is_empty()
            && let Some(Some(claim)) = volume.and_then(|volume| volume.claim_ref.known())
        {
            keys.push(claim_key(claim));
        }
    });

/// Pods that may run and whose volumes were not read, by namespace.
static RUNNING_PODS_WITH_UNREAD_VOLUMES: Index = Index::new(
    "running pods with unread volumes",
    Resource::Pods,
    |record, keys| {
        let is_unread = record
            .pod()
            .is_none_or(|pod| pod.volumes.is_unread() && pod.has_final_phase() != Some(true));
        if is_unread {
            keys.push(namespace_key(&record.meta.namespace));
        }
    },
);

/// The persistent volume controller, as far as it reclaims volumes.
#[derive(Clone, Debug)]
pub struct PersistentVolumeBinder {
    /// Whether volumes have finalizers until their storage is deleted, and are reclaimed though they are being deleted: the feature gate
    /// `HonorPVReclaimPolicy`. Off, the storage of a volume that is deleted before its claim leaks.
    pub deletion_finalizers: bool,
    /// What is known of the storage of the cluster.
    pub storage: Storage,
    leaves_external_unread: bool,
    update_error: &'static str,
}

/// What is known of the storage behind the volumes of a cluster, by provisioner, as the annotation `pv.kubernetes.io/provisioned-by` names
/// it. Nothing is decided on what is not known.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Whether volumes of a provisioner within kube-controller-manager are migrated to a CSI driver.
    pub migrations: BTreeMap<Arc<str>, Migration>,
    /// The plugin that deletes or recycles volumes. The empty name is that of volumes without a provisioner. Where there is no entry, the
    /// executor is asked, except about deletions by external provisioners.
    pub plugins: BTreeMap<Arc<str>, Plugin>,
}

/// Whether volumes of a provisioner within kube-controller-manager are migrated to a CSI driver.
#[expect(clippy::exhaustive_enums, reason = "migration is on or off")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Migration {
    /// They are not.
    Off,
    /// They are.
    On {
        /// The name of the driver, such as `ebs.csi.aws.com`.
        driver: Arc<str>,
    },
}

impl PersistentVolumeBinder {
    /// Upstream's defaults in a release. Nothing is known of the storage.
    #[must_use]
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            deletion_finalizers: version.has(HONORS_RECLAIM_POLICY),
            storage: Storage {
                migrations: BTreeMap::new(),
                plugins: BTreeMap::new(),
            },
            leaves_external_unread: version.has(LEAVES_EXTERNAL_UNREAD),
            update_error: if version.has(FINALIZERS_IN_ERROR) {
                "persistent Volume Controller can't anneal migration annotations or finalizer: "
            } else {
                "persistent Volume Controller can't anneal migration annotations: "
            },
        }
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        let volume = Volume::of(id, record)?;
        let mut claim = None;
        if let Some(claim_ref) = volume.bound_claim() {
            claim = cx
                .cache
                .get(Resource::PersistentVolumeClaims, &claim_key(claim_ref));
            if claim.is_none() {
                cx.cache.require(Resource::PersistentVolumeClaims)?;
            }
        }
        let is_recycled = {
            let policy = volume.body.reclaim_policy.known();
            policy.is_some_and(|policy| **policy == *"Recycle")
        };
        let provisioner = volume.annotations.provisioned_by.as_ref();
        let sync = Arc::new(Sync {
            deletion_finalizers: self.deletion_finalizers,
            leaves_external_unread: self.leaves_external_unread,
            update_error: self.update_error,
            wire: cx.wire,
            id: id.clone(),
            volume: record.clone(),
            claim: claim.cloned(),
            users: match volume.claim_ref.filter(|_| is_recycled) {
                Some(claim_ref) => users(cx.cache, claim_ref),
                None => Ok(Vec::new()),
            },
            migration: match provisioner {
                Some(name) if name.starts_with(IN_TREE_PREFIX) => self.storage.migrations.get(name).cloned(),
                _ => Some(Migration::Off),
            },
            plugin: self
                .storage
                .plugins
                .get(provisioner.map_or("", |name| name))
                .cloned(),
        });
        let decision = decide(Steps::new(id.clone(), move |port| {
            let sync = Arc::clone(&sync);
            async move { sync.sync_volume(&port).await.unwrap_or_else(|end| end) }
        }));
        if decision.steps.is_some() {
            require_version(id, &record.meta)?;
        }
        Ok(decision)
    }
}

/// The pods that may run and use a claim, as `namespace/name`, in order.
fn users(cache: &Cache, claim: &ClaimRef) -> Result<Vec<String>, Missing> {
    cache.require(Resource::Pods)?;
    let unread = cache.first_indexed(
        &RUNNING_PODS_WITH_UNREAD_VOLUMES,
        &namespace_key(&claim.namespace),
    );
    if let Some(pod) = unread {
        return Err(Missing::Field {
            object: pod.id(Resource::Pods),
            field: "spec.volumes",
        });
    }
    let pods = cache
        .indexed_records(&PODS_BY_CLAIM, &claim_key(claim))
        .into_iter();
    let may_run = pods.filter(|pod| {
        let pod = pod.pod();
        pod.and_then(kubegc_core::record::Pod::has_final_phase) != Some(true)
    });
    Ok(may_run
        .map(|pod| format!("{}/{}", pod.meta.namespace, pod.meta.name))
        .collect())
}

fn claim_key(claim: &ClaimRef) -> Key {
    Key::new(Arc::clone(&claim.namespace), Arc::clone(&claim.name))
}

/// A volume of which phase, claim reference and annotations are known.
struct Volume<'a> {
    meta: &'a ObjectMeta,
    body: &'a PersistentVolume,
    phase: &'a str,
    claim_ref: Option<&'a ClaimRef>,
    annotations: &'a VolumeAnnotations,
}

impl<'a> Volume<'a> {
    fn of(id: &ObjectId, record: &'a Record) -> Result<Self, Missing> {
        let unread = || Missing::Object { object: id.clone() };
        let body = record.persistent_volume().ok_or_else(unread)?;
        Ok(Self {
            meta: &record.meta,
            body,
            phase: read(&body.phase, id, "status.phase")?,
            claim_ref: read(&body.claim_ref, id, "spec.claimRef")?.as_ref(),
            annotations: read(&body.annotations, id, "metadata.annotations")?,
        })
    }

    /// The claim that the volume is bound to, not one that it is only reserved for.
    fn bound_claim(&self) -> Option<&'a ClaimRef> {
        self.claim_ref.filter(|claim| !claim.uid.is_empty())
    }

    /// Whether a phase was set that reclaiming does not change.
    fn is_settled(&self) -> bool {
        matches!(self.phase, "Released" | "Failed")
    }

    /// Whether a provisioner within kube-controller-manager made the volume.
    fn is_in_tree(&self) -> bool {
        let provisioner = self.annotations.provisioned_by.as_ref();
        provisioner.is_some_and(|name| name.starts_with(IN_TREE_PREFIX))
    }

    /// Whether a provisioner outside kube-controller-manager made the volume.
    fn is_external(&self) -> bool {
        let provisioner = self.annotations.provisioned_by.as_ref();
        provisioner.is_some_and(|name| !name.is_empty() && !name.starts_with(IN_TREE_PREFIX))
    }

    /// The CSI driver that the volume was migrated to; empty where it was not.
    fn driver(&self) -> &'a str {
        self.annotations.migrated_to.as_deref().unwrap_or_default()
    }
}

/// One sync of one volume.
#[derive(Debug)]
struct Sync {
    deletion_finalizers: bool,
    leaves_external_unread: bool,
    update_error: &'static str,
    wire: Wire,
    id: ObjectId,
    /// The volume in the cache.
    volume: Record,
    /// The claim of the name that the volume is bound to, in the cache.
    claim: Option<Record>,
    /// The pods that use a claim of that name, where the volume is to be recycled.
    users: Result<Vec<String>, Missing>,
    /// `None` where it is not known.
    migration: Option<Migration>,
    /// The plugin of the volume; `None` where the executor is to be asked.
    plugin: Option<Plugin>,
}

impl Sync {
    async fn sync_volume(&self, port: &Port) -> Result<End, End> {
        let mut volume = self.volume.clone();
        self.update_metadata(port, &mut volume).await?;
        let Some(claim_ref) = self.read(&volume)?.bound_claim().cloned() else {
            let reason = Reason::new("NotBound", "it is bound to no claim");
            self.set_phase(port, &mut volume, "Available", reason.clone())
                .await?;
            return Ok(End::Kept(reason));
        };
        let Some(claim) = self.find_claim(port, &volume, &claim_ref).await? else {
            let message = format!("claim {claim_ref} no longer exists");
            return self
                .release(port, &mut volume, Reason::new("ClaimDeleted", message))
                .await;
        };
        let (claim_id, claim) = (
            claim.id(Resource::PersistentVolumeClaims),
            claim.persistent_volume_claim(),
        );
        let unread = || {
            End::Unknown(Missing::Object {
                object: claim_id.clone(),
            })
        };
        let claim = claim.ok_or_else(unread)?;
        let bound_to = read(&claim.volume_name, &claim_id, "spec.volumeName").map_err(End::Unknown)?;
        if bound_to.is_empty() {
            return self.wait_for_claim(port, &volume, &claim_id, claim).await;
        }
        if *bound_to == self.id.name {
            let reason = Reason::new("Bound", "it is bound to its claim");
            self.set_phase(port, &mut volume, "Bound", reason.clone()).await?;
            return Ok(End::Kept(reason));
        }
        let message = format!("claim {claim_ref} is bound to persistentvolume/{bound_to}");
        let reason = Reason::new("ClaimBoundElsewhere", message);
        let view = self.read(&volume)?;
        if view.annotations.provisioned_by.is_some() && **self.policy(&view)? == *"Delete" {
            return self.release(port, &mut volume, reason).await;
        }
        self.unbind(port, &mut volume, reason).await
    }

    /// Updates the deletion finalizers and the annotation of the migration, if any is out of date.
    async fn update_metadata(&self, port: &Port, volume: &mut Record) -> Result<(), End> {
        let changes = self.metadata_changes(&self.read(volume)?);
        if changes.is_empty() {
            return Ok(());
        }
        let adds = changes.contains(&FieldChange::AddFinalizer(FINALIZER_IN_TREE));
        if adds && volume.meta.is_deleting() && self.wire == Wire::Strict {
            let message = "it is being deleted, so its missing deletion finalizer cannot be added";
            return Err(End::Kept(Reason::new("FinalizerForbidden", message)));
        }
        let message = "its finalizers or annotations do not match its provisioner and reclaim policy";
        port.because(Reason::new("MetadataOutdated", message));
        let written = self.update(port, volume, "", changes).await;
        written.map_err(|error| self.failed(self.update_error, error))
    }

    fn metadata_changes(&self, volume: &Volume<'_>) -> Vec<FieldChange> {
        let mut changes = Vec::new();
        let (Some(_), Some(migration)) = (&volume.annotations.provisioned_by, &self.migration) else {
            return changes;
        };
        match migration {
            Migration::On { driver } if *volume.driver() != **driver => {
                changes.push(FieldChange::Annotation {
                    key: MIGRATED_TO,
                    value: driver.to_string(),
                });
            }
            Migration::Off if !volume.driver().is_empty() => {
                changes.push(FieldChange::RemoveAnnotation(MIGRATED_TO));
            }
            Migration::On { .. } | Migration::Off => {}
        }
        if !self.deletion_finalizers || !volume.is_in_tree() {
            return changes;
        }
        let has = |finalizer| volume.meta.has_finalizer(finalizer);
        let is_deleted = match (migration, volume.body.reclaim_policy.known()) {
            (Migration::On { .. }, _) => Some(false),
            (Migration::Off, Some(policy)) => match &**policy {
                "Delete" => Some(true),
                "Retain" | "Recycle" => Some(false),
                _ => None,
            },
            (Migration::Off, None) => return changes,
        };
        match is_deleted {
            Some(true) if !has(FINALIZER_IN_TREE) => {
                changes.push(FieldChange::AddFinalizer(FINALIZER_IN_TREE));
            }
            Some(false) if has(FINALIZER_IN_TREE) => {
                changes.push(FieldChange::RemoveFinalizer(FINALIZER_IN_TREE));
            }
            _ => {}
        }
        if *migration == Migration::Off && has(FINALIZER_EXTERNAL) {
            changes.push(FieldChange::RemoveFinalizer(FINALIZER_EXTERNAL));
        }
        changes
    }

    /// The claim that the volume is bound to; `None` where it does not exist.
    async fn find_claim(
        &self,
        port: &Port,
        volume: &Record,
        claim_ref: &ClaimRef,
    ) -> Result<Option<Record>, End> {
        match &self.claim {
            Some(claim) if claim.meta.uid == claim_ref.uid => return Ok(Some(claim.clone())),
            None if self.read(volume)?.is_settled() => return Ok(None),
            Some(_) | None => {}
        }
        let (resource, namespace) = (Resource::PersistentVolumeClaims, &claim_ref.namespace);
        match port.get(resource, namespace, &claim_ref.name).await {
            Ok(claim) if claim.meta.uid.is_empty() => {
                let object = claim.id(resource);
                Err(End::Unknown(Missing::Metadata { object }))
            }
            Ok(claim) => Ok(Some(claim).filter(|claim| claim.meta.uid == claim_ref.uid)),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => {
                let message = error_text(&error, resource, &claim_ref.name);
                Err(reported(error, message))
            }
        }
    }

    /// The claim exists and is not bound yet. Its own sync binds it, unless the volume modes differ.
    async fn wait_for_claim(
        &self,
        port: &Port,
        volume: &Record,
        claim_id: &ObjectId,
        claim: &PersistentVolumeClaim,
    ) -> Result<End, End> {
        let waiting = || Reason::new("ClaimNotBound", "its claim is not bound to a volume yet");
        let view = self.read(volume)?;
        let modes = (view.body.volume_mode.known(), claim.volume_mode.known());
        let (Some(volume_mode), Some(claim_mode)) = modes else {
            return Ok(End::Kept(waiting()));
        };
        if mode(volume_mode.as_ref()) == mode(claim_mode.as_ref()) {
            return Ok(End::Kept(waiting()));
        }
        let reason = Reason::new("VolumeModeMismatch", "its claim requests another volumeMode");
        port.because(reason.clone());
        let (name, claim) = (&self.id.name, &claim_id.name);
        for (object, message) in [
            (
                &self.id,
                format!(
                    "Cannot bind PersistentVolume to requested PersistentVolumeClaim {claim:?} \
                     due to incompatible volumeMode."
                ),
            ),
            (
                claim_id,
                format!(
                    "Cannot bind PersistentVolume {name:?} to requested PersistentVolumeClaim \
                     due to incompatible volumeMode."
                ),
            ),
        ] {
            port.event(EventRequest {
                object: object.clone(),
                is_warning: true,
                reason: "VolumeMismatch".into(),
                message,
            })
            .await;
        }
        Ok(End::Kept(reason))
    }

    /// Marks the volume as released and reclaims it.
    async fn release(&self, port: &Port, volume: &mut Record, reason: Reason) -> Result<End, End> {
        if !self.read(volume)?.is_settled() {
            self.set_phase(port, volume, "Released", reason.clone()).await?;
        }
        let view = self.read(volume)?;
        let policy = Arc::clone(self.policy(&view)?);
        if *policy == *"Retain" {
            let message = "its claim no longer exists, and its reclaim policy is Retain";
            return Ok(End::Kept(Reason::new("Retained", message)));
        }
        if self.migration.is_none() {
            let question = format!(
                "whether volumes of provisioner {} are migrated to a CSI driver",
                view.annotations.provisioned_by.as_deref().unwrap_or_default()
            );
            return Err(outside(question));
        }
        if !view.driver().is_empty() {
            let message = "it was migrated to a CSI driver, whose provisioner deletes its storage";
            return Ok(End::Kept(Reason::new("Migrated", message)));
        }
        match &*policy {
            "Delete" => self.delete_volume(port, volume, reason).await,
            "Recycle" => self.recycle_volume(port, volume, reason).await,
            _ => {
                let reason = Reason::new(
                    "UnknownReclaimPolicy",
                    format!("its reclaim policy {policy:?} is not known"),
                );
                port.because(reason.clone());
                let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
                self.mark_failed(port, volume, "VolumeUnknownReclaimPolicy", message)
                    .await
                    .map_err(|error| self.failed("", error))?;
                Ok(End::Kept(reason))
            }
        }
    }

    /// Deletes the storage behind the volume, then the volume.
    async fn delete_volume(&self, port: &Port, volume: &mut Record, reason: Reason) -> Result<End, End> {
        let is_external = self.read(volume)?.is_external();
        let plugin = self.plugin.clone();
        let plugin = plugin.or_else(|| is_external.then_some(Plugin::External));
        let message = "its external provisioner deletes it";
        let waits = || Ok(End::Kept(Reason::new("WaitsForProvisioner", message)));
        if self.leaves_external_unread && plugin == Some(Plugin::External) {
            return waits();
        }
        let live = self.read_released(port, volume).await?;
        if !self.deletion_finalizers && live.meta.is_deleting() {
            let message = "it is being deleted, and the feature gate HonorPVReclaimPolicy is off";
            return Ok(End::Kept(Reason::new("Terminating", message)));
        }
        if self.wire == Wire::Strict {
            *volume = live;
        }
        port.because(reason);
        let failure = match self.find_plugin(port, plugin, Operation::DeleteVolume).await? {
            Plugin::External | Plugin::Unknown => return waits(),
            Plugin::Missing { message } => message,
            Plugin::InTree => match port.operate(self.id.clone(), Operation::DeleteVolume).await {
                Operated::Done => match self.remove_finalizer(port, volume).await {
                    Ok(()) => return Ok(self.delete(port, &volume.meta).await),
                    Err(message) => message,
                },
                Operated::InUse { message } => {
                    self.event(port, "VolumeDelete", &message).await;
                    return Ok(retried(message));
                }
                Operated::Failed { message } => message,
            },
        };
        match self
            .mark_failed(port, volume, "VolumeFailedDelete", &failure)
            .await
        {
            Ok(()) => Ok(retried(failure)),
            Err(error) => Ok(End::failed(error)),
        }
    }

    /// Removes the deletion finalizer from the volume as the API server has it. Gives the message of an error.
    async fn remove_finalizer(&self, port: &Port, volume: &mut Record) -> Result<(), String> {
        if !self.deletion_finalizers {
            return Ok(());
        }
        let text = |error| error_text(&error, self.id.resource, &self.id.name);
        let live = port
            .get(self.id.resource, &self.id.namespace, &self.id.name)
            .await;
        let mut live = live.map_err(text)?;
        if live.meta.uid != self.id.uid {
            return Err(text(StoreError::NotFound));
        }
        if live.meta.has_finalizer(FINALIZER_IN_TREE) {
            let changes = vec![FieldChange::RemoveFinalizer(FINALIZER_IN_TREE)];
            let written = self.update(port, &mut live, "", changes).await;
            let prefix = "persistent volume controller can't update finalizer: ";
            written.map_err(|error| format!("{prefix}{}", text(error)))?;
        }
        volume.meta = live.meta;
        Ok(())
    }

    async fn delete(&self, port: &Port, meta: &ObjectMeta) -> End {
        let options = DeleteOptions {
            preconditions: self.wire.preconditions(meta, Sent::Nothing),
            ..DeleteOptions::default()
        };
        match port.delete(self.id.clone(), options).await {
            Ok(()) | Err(StoreError::NotFound) => End::Done,
            Err(error) => self.failed("", error),
        }
    }

    /// Erases the content of the storage, then makes the volume available again.
    async fn recycle_volume(&self, port: &Port, volume: &mut Record, reason: Reason) -> Result<End, End> {
        *volume = self.read_released(port, volume).await?;
        let users = self
            .users
            .as_ref()
            .map_err(|missing| End::Unknown(missing.clone()))?;
        // A claim of that name in the cache is another one, which is bound to another volume, and so are its pods.
        if !users.is_empty() && self.claim.is_none() {
            let message = format!("Volume is used by pods: {}", users.join(","));
            let reason = Reason::new("UsedByPods", format!("pods use it: {}", users.join(", ")));
            port.because(reason.clone());
            self.event(port, "VolumeFailedRecycle", &message).await;
            return Ok(End::Kept(reason));
        }
        port.because(reason.clone());
        let failure = match self
            .find_plugin(port, self.plugin.clone(), Operation::RecycleVolume)
            .await?
        {
            Plugin::InTree => match port.operate(self.id.clone(), Operation::RecycleVolume).await {
                Operated::Done => {
                    self.event(port, "VolumeRecycled", "Volume recycled").await;
                    return self.unbind(port, volume, reason).await;
                }
                Operated::InUse { message } | Operated::Failed { message } => {
                    format!("Recycle failed: {message}")
                }
            },
            Plugin::External | Plugin::Missing { .. } | Plugin::Unknown => {
                "No recycler plugin found for the volume!".to_owned()
            }
        };
        self.mark_failed(port, volume, "VolumeFailedRecycle", &failure)
            .await
            .map_err(|error| self.failed("", error))?;
        let error = StoreError::Unknown {
            message: failure.clone(),
        };
        Ok(reported(error, failure))
    }

    /// Frees the volume of its claim, and makes it available.
    async fn unbind(&self, port: &Port, volume: &mut Record, reason: Reason) -> Result<End, End> {
        let changes = if self.read(volume)?.annotations.bound_by_controller {
            vec![
                FieldChange::RemoveClaimRef,
                FieldChange::RemoveAnnotation(BOUND_BY_CONTROLLER),
            ]
        } else {
            vec![FieldChange::RemoveClaimRefUid]
        };
        port.because(reason.clone());
        let written = self.update(port, volume, "", changes).await;
        written.map_err(|error| self.failed("", error))?;
        self.set_phase(port, volume, "Available", reason).await?;
        Ok(End::Kept(Reason::new("Unbound", "it is available again")))
    }

    /// Reads the volume from the API server, where it must still be released.
    async fn read_released(&self, port: &Port, volume: &Record) -> Result<Record, End> {
        let live = port
            .get(self.id.resource, &self.id.namespace, &self.id.name)
            .await;
        let live = live.map_err(|error| self.failed("", error))?;
        let not_released = || End::Kept(Reason::new("NotReleased", "it is no longer released"));
        let claim_ref = self.read(&live)?.bound_claim().ok_or_else(not_released)?;
        let cached_ref = self.read(volume)?.bound_claim();
        let is_same_name = cached_ref.is_some_and(|cached| claim_key(cached) == claim_key(claim_ref));
        let is_changed = self.wire == Wire::Strict && live.body != volume.body;
        if live.meta.uid != self.id.uid || !is_same_name || is_changed {
            return Err(End::Stale(vec![Found {
                resource: self.id.resource,
                namespace: Arc::clone(&self.id.namespace),
                name: Arc::clone(&self.id.name),
                record: Some(live),
            }]));
        }
        let claim = self
            .claim
            .as_ref()
            .filter(|claim| claim.meta.uid == claim_ref.uid);
        if let Some(claim) = claim {
            let id = claim.id(Resource::PersistentVolumeClaims);
            let body = claim.persistent_volume_claim();
            let unread = || End::Unknown(Missing::Object { object: id.clone() });
            let bound_to = &body.ok_or_else(unread)?.volume_name;
            let bound_to = read(bound_to, &id, "spec.volumeName").map_err(End::Unknown)?;
            if bound_to.is_empty() || *bound_to == self.id.name {
                return Err(not_released());
            }
        }
        Ok(live)
    }

    async fn find_plugin(
        &self,
        port: &Port,
        known: Option<Plugin>,
        operation: Operation,
    ) -> Result<Plugin, End> {
        let plugin = match known {
            Some(plugin) => plugin,
            None => port.find_plugin(self.id.clone(), operation).await,
        };
        if plugin == Plugin::Unknown {
            return Err(outside(format!("which plugin can {operation} {}", self.id)));
        }
        Ok(plugin)
    }

    /// Sets the phase, unless the volume has it.
    async fn set_phase(
        &self,
        port: &Port,
        volume: &mut Record,
        phase: &str,
        reason: Reason,
    ) -> Result<(), End> {
        if *self.read(volume)?.phase == *phase {
            return Ok(());
        }
        port.because(reason);
        let changes = vec![FieldChange::Phase(phase.into()), FieldChange::Message("".into())];
        let written = self.update(port, volume, "status", changes).await;
        written.map_err(|error| self.failed("", error))
    }

    /// Sets the phase `Failed` and records a Warning, unless the volume has that phase.
    async fn mark_failed(
        &self,
        port: &Port,
        volume: &mut Record,
        event: &str,
        message: &str,
    ) -> Result<(), StoreError> {
        let body = volume.persistent_volume();
        if body
            .and_then(|body| body.phase.known())
            .is_some_and(|phase| **phase == *"Failed")
        {
            return Ok(());
        }
        let changes = vec![
            FieldChange::Phase("Failed".into()),
            FieldChange::Message(message.into()),
        ];
        self.update(port, volume, "status", changes).await?;
        port.event(EventRequest {
            object: self.id.clone(),
            is_warning: true,
            reason: event.into(),
            message: message.to_owned(),
        })
        .await;
        Ok(())
    }

    /// Writes the volume back with changes, and makes them in `volume`.
    async fn update(
        &self,
        port: &Port,
        volume: &mut Record,
        subresource: &'static str,
        changes: Vec<FieldChange>,
    ) -> Result<(), StoreError> {
        let write = Write {
            object: self.id.clone(),
            subresource,
            form: Form::Update,
            precondition: preconditions(&volume.meta),
            changes: changes.clone(),
        };
        let written = port.write(write).await?;
        changes.iter().for_each(|change| change.apply(volume));
        match written {
            Some(meta) => volume.meta = meta,
            None => volume.meta.resource_version = ResourceVersion::default(),
        }
        Ok(())
    }

    /// Records a Normal event.
    async fn event(&self, port: &Port, reason: &str, message: &str) {
        port.event(EventRequest {
            object: self.id.clone(),
            is_warning: false,
            reason: reason.into(),
            message: message.to_owned(),
        })
        .await;
    }

    fn read<'v>(&self, record: &'v Record) -> Result<Volume<'v>, End> {
        Volume::of(&self.id, record).map_err(End::Unknown)
    }

    fn policy<'v>(&self, volume: &Volume<'v>) -> Result<&'v Arc<str>, End> {
        let policy = &volume.body.reclaim_policy;
        read(policy, &self.id, "spec.persistentVolumeReclaimPolicy").map_err(End::Unknown)
    }

    /// A request about the volume failed, and upstream only logs it.
    fn failed(&self, prefix: &str, error: StoreError) -> End {
        let message = format!("{prefix}{}", error_text(&error, self.id.resource, &self.id.name));
        reported(error, message)
    }
}

fn mode(mode: Option<&Arc<str>>) -> &str {
    mode.map_or("Filesystem", |mode| mode)
}

fn outside(question: String) -> End {
    End::Unknown(Missing::Outside {
        question: question.into(),
        message: "".into(),
    })
}

const fn reported(error: StoreError, message: String) -> End {
    End::Failed {
        error,
        message,
        is_retried: false,
    }
}

/// The plugin could not delete the storage. Upstream blocks the operation for a while.
fn retried(message: String) -> End {
    End::Failed {
        error: StoreError::Unknown {
            message: message.clone(),
        },
        message,
        is_retried: true,
    }
}

static INFO: Info = Info {
    name: "persistentvolume-binder-controller",
    summary: "deletes, recycles or retains persistent volumes whose claim no longer exists",
    resources: &[
        Resource::PersistentVolumes,
        Resource::PersistentVolumeClaims,
        Resource::Pods,
    ],
    permissions: &[
        (Resource::PersistentVolumes, "", &["update", "delete"]),
        (Resource::PersistentVolumes, "status", &["update"]),
    ],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/persistentvolume/pv_controller.go",
};

impl Controller for PersistentVolumeBinder {
    fn info(&self) -> &'static Info {
        &INFO
    }

    /// The backoff is that of operations on volumes:
    /// [`exponentialbackoff`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go).
    fn timing(&self) -> Timing {
        Timing {
            resync: Some(Duration::from_secs(15)),
            backoff: [Duration::from_millis(500), Duration::from_secs(122)],
            blocks_on_failure: true,
            ..Timing::default()
        }
    }

    fn indexes(&self) -> &'static [&'static Index] {
        static INDEXES: [&Index; 3] = [
            &VOLUMES_BY_CLAIM,
            &PODS_BY_CLAIM,
            &RUNNING_PODS_WITH_UNREAD_VOLUMES,
        ];
        &INDEXES
    }

    /// Pods are seen at the next resync, as upstream.
    fn affected(&self, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        match change.resource {
            Resource::PersistentVolumes => keys.push(change.key.clone()),
            Resource::PersistentVolumeClaims => {
                let volumes = cache.indexed(&VOLUMES_BY_CLAIM, change.key);
                keys.extend(volumes.into_iter().map(Key::cluster));
            }
            _ => {}
        }
    }

    fn reconcile(&self, cx: &Context<'_>, key: &Key) -> Decision {
        match cx.subject(Resource::PersistentVolumes, key) {
            Subject::Found(id, record) => self
                .decide(cx, &id, record)
                .unwrap_or_else(|missing| Decision::unknown(id, missing)),
            Subject::Settled(decision) => decision,
        }
    }
}
