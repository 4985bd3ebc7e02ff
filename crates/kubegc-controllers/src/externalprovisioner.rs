//! Deletes released persistent volumes of one external provisioner, such as that of a CSI driver.
//!
//! The rule is [L5.9](crate::rules#l5-9).
//!
//! A volume that the provisioner's own check forbids to delete is judged again at the next resync, after 15
//! minutes.
//!
//! With [`Wire::Strict`], the volume is read right before, and must have the same spec, phase and
//! annotations.
//!
//! # Upstream
//! [`shouldDelete` and
//! `deleteVolumeOperation`](https://github.com/kubernetes-sigs/sig-storage-lib-external-provisioner/blob/v10.0.1/controller/controller.go)
//! in `controller.go` of the library that most provisioners use.

use crate::{Guard, Operated, prelude::*, storage::FINALIZER_EXTERNAL};

/// The resync of the library, `DefaultResyncPeriod`.
const RESYNC: Duration = Duration::from_secs(15 * 60);

/// The volume controller of one external provisioner.
#[derive(Clone, Debug)]
pub struct ExternalProvisioner {
    /// The name of the provisioner, as the annotations of its volumes have it.
    pub name: Arc<str>,
    /// Whether it keeps its finalizer on volumes until their storage is deleted. Off, the storage of a volume
    /// that is deleted before its claim leaks.
    pub has_finalizer: bool,
}

impl ExternalProvisioner {
    /// A provisioner of this name that uses finalizers.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            has_finalizer: true,
        }
    }
}

#[derive(Debug)]
struct Deletion {
    id: ObjectId,
    volume: Record,
    has_finalizer: bool,
    wire: Wire,
}

impl Deletion {
    async fn perform(self: Arc<Self>, port: Port) -> Result<End, End> {
        match port.query_guard(self.id.clone()).await {
            Guard::Allows => {}
            Guard::Forbids => {
                let reason = Reason::new("Guarded", "its provisioner does not allow its deletion");
                return Ok(End::RequeueAfter {
                    after: RESYNC,
                    reason,
                });
            }
            Guard::Unknown => {
                let question = format!("whether the provisioner allows the deletion of {}", self.id);
                return Ok(End::Unknown(Missing::outside(question)));
            }
        }
        let mut meta = &self.volume.meta;
        let live;
        if self.wire == Wire::Strict {
            live = port.reread(&self.id).await.map_err(|error| self.failed(error))?;
            if live.meta.uid != self.id.uid || live.body != self.volume.body {
                return Ok(End::stale(&self.id, live));
            }
            meta = &live.meta;
        }
        port.set_reason(Reason::new(
            "Released",
            "its claim no longer exists, and its reclaim policy is Delete",
        ));
        match port.operate(self.id.clone(), Operation::DeleteVolume).await {
            Operated::Done => {}
            Operated::InUse { message } | Operated::Failed { message } => {
                let event = EventRequest::new(&self.id, true, "VolumeFailedDelete", message.clone());
                port.event(event).await;
                return Ok(End::failed(StoreError::Unknown { message }));
            }
        }
        let options = self.wire.options(DeleteOptions::default(), meta, Sent::Nothing);
        match port.delete(self.id.clone(), options).await {
            Ok(()) if self.has_finalizer => self.remove_finalizer(&port).await,
            Ok(()) | Err(StoreError::NotFound) => Ok(End::Done),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Removes the finalizer. The volume may have any version after the DELETE.
    async fn remove_finalizer(&self, port: &Port) -> Result<End, End> {
        let mut precondition = self.wire.preconditions(&self.volume.meta, Sent::Nothing);
        precondition.resource_version = None;
        let change = FieldChange::RemoveFinalizer(FINALIZER_EXTERNAL);
        match port.write(Write::patch(&self.id, precondition, change)).await {
            Ok(_) | Err(StoreError::NotFound) => Ok(End::Done),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: StoreError) -> End {
        End::failed_about(&self.id, "", error, true)
    }
}

static INFO: Info = Info {
    name: "external-provisioner",
    summary: "deletes released persistent volumes of an external provisioner",
    resources: &[Resource::PersistentVolumes],
    timing: Timing {
        resync: Some(RESYNC),
        backoff: [Duration::from_secs(15), Duration::from_secs(1_000)],
        ..Timing::DEFAULT
    },
    permissions: &[(Resource::PersistentVolumes, "", &["delete", "update"])],
    upstream: "https://github.com/kubernetes-sigs/sig-storage-lib-external-provisioner/blob/v10.0.1/controller/controller.go",
    ..Info::BASE
};

impl Controller for ExternalProvisioner {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        let volume = id.body(record, Record::persistent_volume)?;
        let annotations = id.read(&volume.annotations, "metadata.annotations")?;
        let is_ours = |name: Option<&Arc<str>>| name == Some(&self.name);
        if annotations.provisioned_by.is_none()
            || !(is_ours(annotations.provisioned_by.as_ref()) || is_ours(annotations.migrated_to.as_ref()))
        {
            return id.keep("OtherProvisioner", "another provisioner made it, or none");
        }
        let has_finalizer = self.has_finalizer && record.meta.has_finalizer(FINALIZER_EXTERNAL);
        if record.meta.is_deleting() && !has_finalizer {
            return id.keep(
                "Terminating",
                "it is being deleted and has no finalizer of its provisioner",
            );
        }
        if **id.read(&volume.phase, "status.phase")? != *"Released" {
            return id.keep("NotReleased", "its phase is not Released");
        }
        let policy = id.read(&volume.reclaim_policy, "spec.persistentVolumeReclaimPolicy")?;
        if **policy != *"Delete" {
            return id.keep("NotDelete", "its reclaim policy is not Delete");
        }
        require_version(id, &record.meta)?;
        let deletion = Deletion {
            id: id.clone(),
            volume: record.clone(),
            has_finalizer,
            wire: cx.wire,
        };
        Ok(Steps::of(id, deletion, Deletion::perform).into())
    }
}
