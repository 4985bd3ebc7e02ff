//! Performs plans over owner references on an API server.

use std::{collections::BTreeSet, fmt, sync::Arc};

use kubegc_core::{
    KubernetesVersion, ObjectRef, ObjectStore, PatchType, Preconditions, StoreError, Uid,
    store::{Address, Discovered},
};

use crate::{Operation, patch::Change, plan::Action};

/// Performs the actions of a plan one after another.
///
/// Each action is preceded by a live read: an object that no longer has the expected uid, or the expected
/// version if the plan did not write it before, is not touched. An action whose
/// [`depends_on`](Action::depends_on) names an object with a failed action is skipped, so a plan is performed
/// to the end or to a safe prefix of it.
#[derive(Clone, Copy)]
pub struct Executor<'s> {
    /// The API server.
    pub store: &'s dyn ObjectStore,
    /// The release whose patches are sent.
    pub version: KubernetesVersion,
    /// Whether nothing is written.
    pub dry_run: bool,
}

kubegc_core::reasons! {
    /// The result of one action.
    pub enum Performed {
        Done = "done";
        WouldBeDone = "would be done (dry run)";
        /// An action on this object, which must come first, was not performed.
        Skipped(object: Arc<ObjectRef>) = "skipped: an action on {} must come first", object.short();
        /// [`StoreError::Conflict`]: the object is no longer the one that was planned for.
        Failed(error: StoreError) = "failed: {error}";
    }
}

/// The result of each action, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Report {
    pub actions: Vec<(Action, Performed)>,
}

impl Report {
    /// Whether every action was performed.
    pub fn is_done(&self) -> bool {
        self.actions
            .iter()
            .all(|(_, performed)| *performed == Performed::Done)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (action, performed) in &self.actions {
            writeln!(f, "{action}: {performed}")?;
        }
        Ok(())
    }
}

impl Executor<'_> {
    /// Performs actions in order.
    ///
    /// # Errors
    /// Discovery failed, so nothing was performed. Failures of single actions are in the report.
    pub async fn execute(&self, actions: &[Action]) -> Result<Report, StoreError> {
        let discovered = self.store.discover().await?;
        let mut report = Report::default();
        let (mut failed, mut written) = (BTreeSet::<Uid>::new(), BTreeSet::<Uid>::new());
        for action in actions {
            let uid = &action.object.uid;
            let earlier = action.depends_on.iter().chain([&action.object]);
            let performed = match earlier.into_iter().find(|object| failed.contains(&object.uid)) {
                Some(object) => Performed::Skipped(Arc::clone(object)),
                None => match self.perform(&discovered, action, written.contains(uid)).await {
                    Ok(performed) => performed,
                    Err(error) => Performed::Failed(error),
                },
            };
            match performed {
                Performed::Done | Performed::WouldBeDone => written.insert(uid.clone()),
                Performed::Skipped(_) | Performed::Failed(_) => failed.insert(uid.clone()),
            };
            report.actions.push((action.clone(), performed));
        }
        Ok(report)
    }

    async fn perform(
        &self,
        discovered: &Discovered,
        action: &Action,
        was_written: bool,
    ) -> Result<Performed, StoreError> {
        let ObjectRef {
            api_version,
            kind,
            namespace,
            name,
            ..
        } = &*action.object;
        let catalog = &discovered.catalog;
        let id = catalog
            .mapping(api_version, kind)
            .ok_or_else(|| StoreError::NoMapping {
                api_version: api_version.to_string(),
                kind: kind.to_string(),
            })?;
        let resource = &catalog[id];
        let address = Address {
            resource,
            namespace,
            name,
        };
        let live = self.store.get(address).await?;
        let mut expect = action.expect.clone();
        if was_written {
            expect.resource_version = None;
        }
        if !expect.hold(&live) {
            let message = format!("{} has changed since it was planned for", action.object.short());
            return Err(StoreError::Conflict { message });
        }
        if self.dry_run {
            return Ok(Performed::WouldBeDone);
        }
        let read_at = live.resource_version.clone();
        let operation = match &action.operation {
            Operation::Get => return Ok(Performed::Done),
            Operation::Delete { propagation, .. } => Operation::Delete {
                wire: Preconditions {
                    uid: Some(live.uid.clone()),
                    resource_version: Some(read_at),
                },
                propagation: *propagation,
            },
            Operation::Patch { change, .. } => {
                // A finalizer is removed by a merge patch of any kind.
                let is_merge = resource.custom || matches!(change, Change::RemoveFinalizer(_));
                let format = if is_merge {
                    PatchType::Merge
                } else {
                    PatchType::Strategic
                };
                // A finalizer that is not there any more needs no patch.
                let Some(body) = change.body(self.version, format, &live) else {
                    return Ok(Performed::Done);
                };
                let change = change.clone();
                Operation::Patch { format, body, change }
            }
            Operation::Put { finalizers, .. } => Operation::Put {
                read_at,
                finalizers: finalizers.clone(),
            },
        };
        operation.send(self.store, address).await?;
        Ok(Performed::Done)
    }
}
