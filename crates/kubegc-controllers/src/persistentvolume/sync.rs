//! One sync of one volume: its requests in upstream's order.
//!
//! # Upstream
//! [`syncVolume`, `reclaimVolume`, `deleteVolumeOperation`, `recycleVolumeOperation` and
//! `unbindVolume`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/persistentvolume/pv_controller.go)
//! in `pv_controller.go`.

use kubegc_core::{
    ResourceVersion,
    record::{ClaimRef, PersistentVolumeClaim},
};

use super::{Migration, bound, claim_key, volume::Volume};
use crate::{
    Operated, Plugin,
    prelude::*,
    request::{preconditions, server_message, server_message_about},
    storage::{BOUND_BY_CONTROLLER, FINALIZER_IN_TREE},
};

const CLAIMS: Resource = Resource::PersistentVolumeClaims;

#[derive(Debug)]
pub(super) struct Sync {
    pub(super) deletion_finalizers: bool,
    pub(super) leaves_external_unread: bool,
    pub(super) update_error: &'static str,
    pub(super) wire: Wire,
    pub(super) id: ObjectId,
    pub(super) volume: Record,
    /// The required changes of its finalizers and annotations.
    pub(super) changes: Vec<FieldChange>,
    /// The claim of the name that the volume is bound to, in the cache.
    pub(super) claim: Option<Record>,
    /// The pods that use a claim of that name, if the volume is to be recycled.
    pub(super) users: Result<Vec<String>, Missing>,
    /// `None` if it is not known.
    pub(super) migration: Option<Migration>,
    /// The plugin of the volume; `None` if the executor finds it.
    pub(super) plugin: Option<Plugin>,
}

impl Sync {
    pub(super) async fn sync_volume(self: Arc<Self>, port: Port) -> Result<End, End> {
        let volume = self.volume.clone();
        let sync = self;
        Run { sync, port, volume }.sync().await
    }
}

#[derive(derive_more::Deref)]
struct Run {
    #[deref(forward)]
    sync: Arc<Sync>,
    port: Port,
    /// The volume with the writes of this sync, or as it was read last.
    volume: Record,
}

impl Run {
    async fn sync(mut self) -> Result<End, End> {
        self.update_metadata().await?;
        let Some(claim_ref) = self.view()?.bound_claim().cloned() else {
            let reason = Reason::new("NotBound", "it is bound to no claim");
            self.set_phase("Available", reason.clone()).await?;
            return Ok(End::Kept(reason));
        };
        let Some(claim) = self.find_claim(&claim_ref).await? else {
            let claim = ObjectId {
                resource: CLAIMS,
                namespace: Arc::clone(&claim_ref.namespace),
                name: Arc::clone(&claim_ref.name),
                uid: claim_ref.uid.clone(),
            };
            let reason = Reason::new("ClaimDeleted", format!("claim {claim_ref} no longer exists"));
            return self.release(reason.about(claim)).await;
        };
        let (claim_id, claim) = read_as(CLAIMS, &claim, Record::persistent_volume_claim)?;
        let bound_to = claim_id.read(&claim.volume_name, "spec.volumeName")?;
        if bound_to.is_empty() {
            return self.wait_for_claim(&claim_id, claim).await;
        }
        if *bound_to == self.id.name {
            let reason = bound();
            self.set_phase("Bound", reason.clone()).await?;
            return Ok(End::Kept(reason));
        }
        let message = format!("claim {claim_ref} is bound to persistentvolume/{bound_to}");
        let reason = Reason::new("ClaimBoundElsewhere", message);
        let view = self.view()?;
        if view.annotations.provisioned_by.is_some() && **view.policy()? == *"Delete" {
            return self.release(reason).await;
        }
        self.unbind(reason).await
    }

    /// Updates the deletion finalizers and the annotation of the migration, if any is out of date.
    async fn update_metadata(&mut self) -> Result<(), End> {
        let changes = self.changes.clone();
        if changes.is_empty() {
            return Ok(());
        }
        let adds = changes.contains(&FieldChange::AddFinalizer(FINALIZER_IN_TREE));
        if adds && self.volume.meta.is_deleting() && self.wire == Wire::Strict {
            let message = "it is being deleted, so its missing deletion finalizer cannot be added";
            return Err(End::Kept(Reason::new("FinalizerForbidden", message)));
        }
        let message = "its finalizers or annotations do not match its provisioner and reclaim policy";
        self.port.set_reason(Reason::new("MetadataOutdated", message));
        let written = self.update("", changes).await;
        written.map_err(|error| self.failed(self.update_error, error))
    }

    /// The claim that the volume is bound to; `None` if it does not exist.
    async fn find_claim(&self, claim_ref: &ClaimRef) -> Result<Option<Record>, End> {
        match &self.claim {
            Some(claim) if claim.meta.uid == claim_ref.uid => return Ok(Some(claim.clone())),
            None if self.view()?.is_settled() => return Ok(None),
            Some(_) | None => {}
        }
        match self.port.get(CLAIMS, claim_key(claim_ref)).await {
            Ok(claim) if claim.meta.uid.is_empty() => Err(End::Unknown(Missing::metadata(CLAIMS, &claim))),
            Ok(claim) => Ok(Some(claim).filter(|claim| claim.meta.uid == claim_ref.uid)),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(End::failed_with(server_message(&error), error, false)),
        }
    }

    /// The claim exists and is not bound yet. Its own sync binds it, unless the volume modes differ.
    async fn wait_for_claim(&self, claim_id: &ObjectId, claim: &PersistentVolumeClaim) -> Result<End, End> {
        let waiting = || Reason::new("ClaimNotBound", "its claim is not bound to a volume yet");
        let modes = (self.view()?.body.volume_mode.known(), claim.volume_mode.known());
        let (Some(volume_mode), Some(claim_mode)) = modes else {
            return Ok(End::Kept(waiting()));
        };
        if mode(volume_mode.as_ref()) == mode(claim_mode.as_ref()) {
            return Ok(End::Kept(waiting()));
        }
        let reason = Reason::new("VolumeModeMismatch", "its claim requests another volumeMode");
        self.port.set_reason(reason.clone());
        let (name, claim) = (&self.id.name, &claim_id.name);
        for (object, volume, claim) in [
            (&self.id, String::new(), format!(" {claim:?}")),
            (claim_id, format!(" {name:?}"), String::new()),
        ] {
            let message = format!(
                "Cannot bind PersistentVolume{volume} to requested PersistentVolumeClaim{claim} \
                 due to incompatible volumeMode."
            );
            let event = EventRequest::new(object, true, "VolumeMismatch", message);
            self.port.event(event).await;
        }
        Ok(End::Kept(reason))
    }

    async fn release(&mut self, reason: Reason) -> Result<End, End> {
        if !self.view()?.is_settled() {
            self.set_phase("Released", reason.clone()).await?;
        }
        let view = self.view()?;
        let policy = Arc::clone(view.policy()?);
        if *policy == *"Retain" {
            let message = "its claim no longer exists, and its reclaim policy is Retain";
            return Ok(End::Kept(Reason::new("Retained", message)));
        }
        view.require_migration(self.migration.as_ref())?;
        if !view.driver().is_empty() {
            let message = "it was migrated to a CSI driver, whose provisioner deletes its storage";
            return Ok(End::Kept(Reason::new("Migrated", message)));
        }
        match &*policy {
            "Delete" => self.delete_volume(reason).await,
            "Recycle" => self.recycle_volume(reason).await,
            _ => {
                let message = format!("its reclaim policy {policy:?} is not known");
                let reason = Reason::new("UnknownReclaimPolicy", message);
                self.port.set_reason(reason.clone());
                let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
                let marked = self.mark_failed("VolumeUnknownReclaimPolicy", message).await;
                marked.map_err(|error| self.failed("", error))?;
                Ok(End::Kept(reason))
            }
        }
    }

    /// Deletes the storage behind the volume, then the volume.
    async fn delete_volume(&mut self, reason: Reason) -> Result<End, End> {
        let is_external = self.view()?.is_external();
        let plugin = self.plugin.clone();
        let plugin = plugin.or_else(|| is_external.then_some(Plugin::External));
        let message = "its external provisioner deletes it";
        let waits = || Ok(End::Kept(Reason::new("WaitsForProvisioner", message)));
        if self.leaves_external_unread && plugin == Some(Plugin::External) {
            return waits();
        }
        let live = self.read_released().await?;
        if !self.deletion_finalizers && live.meta.is_deleting() {
            let message = "it is being deleted, and the feature gate HonorPVReclaimPolicy is off";
            return Ok(End::Kept(Reason::new("Terminating", message)));
        }
        if self.wire == Wire::Strict {
            self.volume = live;
        }
        self.port.set_reason(reason);
        let operation = Operation::DeleteVolume;
        let failure = match self.find_plugin(plugin, operation).await? {
            Plugin::External | Plugin::Unknown => return waits(),
            Plugin::Missing { message } => message,
            Plugin::InTree => match self.port.operate(self.id.clone(), operation).await {
                Operated::Done => match self.remove_finalizer().await {
                    Ok(()) => return Ok(self.delete().await),
                    Err(message) => message,
                },
                Operated::InUse { message } => {
                    self.event("VolumeDelete", &message).await;
                    // Upstream blocks the operation for a while.
                    return Ok(End::failed_by(message, true));
                }
                Operated::Failed { message } => message,
            },
        };
        match self.mark_failed("VolumeFailedDelete", &failure).await {
            Ok(()) => Ok(End::failed_by(failure, true)),
            Err(error) => Ok(End::failed(error)),
        }
    }

    /// Removes the deletion finalizer from the volume as the API server has it. Returns the message of an
    /// error.
    async fn remove_finalizer(&mut self) -> Result<(), String> {
        if !self.deletion_finalizers {
            return Ok(());
        }
        let live = self.port.reread(&self.id).await;
        let live = live.map_err(|error| server_message_about(&self.id, &error))?;
        if live.meta.uid != self.id.uid {
            return Err(server_message_about(&self.id, &StoreError::NotFound));
        }
        let before = std::mem::replace(&mut self.volume.meta, live.meta);
        if self.volume.meta.has_finalizer(FINALIZER_IN_TREE) {
            let changes = vec![FieldChange::RemoveFinalizer(FINALIZER_IN_TREE)];
            if let Err(error) = self.update("", changes).await {
                self.volume.meta = before;
                let text = server_message_about(&self.id, &error);
                return Err(format!(
                    "persistent volume controller can't update finalizer: {text}"
                ));
            }
        }
        Ok(())
    }

    async fn delete(&self) -> End {
        let options = DeleteOptions::default();
        let options = self.wire.options(options, &self.volume.meta, Sent::Nothing);
        match self.port.delete(self.id.clone(), options).await {
            Ok(()) | Err(StoreError::NotFound) => End::Done,
            Err(error) => self.failed("", error),
        }
    }

    /// Erases the content of the storage, then makes the volume available again.
    async fn recycle_volume(&mut self, reason: Reason) -> Result<End, End> {
        self.volume = self.read_released().await?;
        let users = self.users.as_ref().map_err(Missing::clone)?;
        // A claim of that name in the cache is another one, which is bound to another volume, and so are its
        // pods.
        if !users.is_empty() && self.claim.is_none() {
            let message = format!("Volume is used by pods: {}", users.join(","));
            let reason = Reason::new("UsedByPods", format!("pods use it: {}", users.join(", ")));
            self.port.set_reason(reason.clone());
            self.event("VolumeFailedRecycle", &message).await;
            return Ok(End::Kept(reason));
        }
        self.port.set_reason(reason.clone());
        let operation = Operation::RecycleVolume;
        let failure = match self.find_plugin(self.plugin.clone(), operation).await? {
            Plugin::InTree => match self.port.operate(self.id.clone(), operation).await {
                Operated::Done => {
                    self.event("VolumeRecycled", "Volume recycled").await;
                    return self.unbind(reason).await;
                }
                Operated::InUse { message } | Operated::Failed { message } => {
                    format!("Recycle failed: {message}")
                }
            },
            Plugin::External | Plugin::Missing { .. } | Plugin::Unknown => {
                "No recycler plugin found for the volume!".to_owned()
            }
        };
        let marked = self.mark_failed("VolumeFailedRecycle", &failure).await;
        marked.map_err(|error| self.failed("", error))?;
        Ok(End::failed_by(failure, false))
    }

    /// Frees the volume of its claim, and makes it available.
    async fn unbind(&mut self, reason: Reason) -> Result<End, End> {
        let annotation = FieldChange::RemoveAnnotation(BOUND_BY_CONTROLLER);
        let changes = match self.view()?.annotations.bound_by_controller {
            true => vec![FieldChange::RemoveClaimRef, annotation],
            false => vec![FieldChange::RemoveClaimRefUid],
        };
        self.port.set_reason(reason.clone());
        let written = self.update("", changes).await;
        written.map_err(|error| self.failed("", error))?;
        self.set_phase("Available", reason).await?;
        Ok(End::Kept(Reason::new("Unbound", "it is available again")))
    }

    /// Reads the volume from the API server, where it must still be released.
    async fn read_released(&self) -> Result<Record, End> {
        let live = self.port.reread(&self.id).await;
        let live = live.map_err(|error| self.failed("", error))?;
        let not_released = || End::Kept(Reason::new("NotReleased", "it is no longer released"));
        let view = Volume::of(&self.id, &live)?;
        let claim_ref = view.bound_claim().ok_or_else(not_released)?;
        let cached_ref = self.view()?.bound_claim();
        let is_same_name = cached_ref.is_some_and(|cached| claim_key(cached) == claim_key(claim_ref));
        let is_changed = self.wire == Wire::Strict && live.body != self.volume.body;
        if live.meta.uid != self.id.uid || !is_same_name || is_changed {
            return Err(End::stale(&self.id, live));
        }
        let claim = self.claim.as_ref();
        if let Some(claim) = claim.filter(|claim| claim.meta.uid == claim_ref.uid) {
            let (id, claim) = read_as(CLAIMS, claim, Record::persistent_volume_claim)?;
            let bound_to = id.read(&claim.volume_name, "spec.volumeName")?;
            if bound_to.is_empty() || *bound_to == self.id.name {
                return Err(not_released());
            }
        }
        Ok(live)
    }

    async fn find_plugin(&self, known: Option<Plugin>, operation: Operation) -> Result<Plugin, End> {
        let plugin = match known {
            Some(plugin) => plugin,
            None => self.port.find_plugin(self.id.clone(), operation).await,
        };
        if plugin == Plugin::Unknown {
            let question = format!("which plugin can {operation} {}", self.id);
            return Err(End::Unknown(Missing::outside(question)));
        }
        Ok(plugin)
    }

    /// Sets the phase, unless the volume has it.
    async fn set_phase(&mut self, phase: &str, reason: Reason) -> Result<(), End> {
        if *self.view()?.phase == *phase {
            return Ok(());
        }
        self.port.set_reason(reason);
        let changes = vec![FieldChange::Phase(phase.into()), FieldChange::Message("".into())];
        let written = self.update("status", changes).await;
        written.map_err(|error| self.failed("", error))
    }

    /// Sets the phase `Failed` and records a Warning, unless the volume has that phase.
    async fn mark_failed(&mut self, event: &str, message: &str) -> Result<(), StoreError> {
        let phase = self
            .volume
            .persistent_volume()
            .and_then(|body| body.phase.known());
        if phase.is_some_and(|phase| **phase == *"Failed") {
            return Ok(());
        }
        let changes = vec![
            FieldChange::Phase("Failed".into()),
            FieldChange::Message(message.into()),
        ];
        self.update("status", changes).await?;
        let event = EventRequest::new(&self.id, true, event, message);
        self.port.event(event).await;
        Ok(())
    }

    /// Writes the volume back with changes.
    async fn update(
        &mut self,
        subresource: &'static str,
        changes: Vec<FieldChange>,
    ) -> Result<(), StoreError> {
        let precondition = preconditions(&self.volume.meta);
        let write = Write::update(&self.id, subresource, precondition, changes.clone());
        let written = self.port.write(write).await?;
        let volume = &mut self.volume;
        changes.iter().for_each(|change| change.apply(volume));
        match written {
            Some(meta) => volume.meta = meta,
            None => volume.meta.resource_version = ResourceVersion::default(),
        }
        Ok(())
    }

    /// Records a Normal event.
    async fn event(&self, reason: &str, message: &str) {
        let event = EventRequest::new(&self.id, false, reason, message);
        self.port.event(event).await;
    }

    fn view(&self) -> Result<Volume<'_>, Missing> {
        Volume::of(&self.id, &self.volume)
    }

    /// A request about the volume failed, and upstream only logs it.
    fn failed(&self, prefix: &str, error: StoreError) -> End {
        End::failed_about(&self.id, prefix, error, false)
    }
}

fn mode(mode: Option<&Arc<str>>) -> &str {
    mode.map_or("Filesystem", |mode| mode)
}
