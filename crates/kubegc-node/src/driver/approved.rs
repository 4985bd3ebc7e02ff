//! A runtime wrapper that performs only approved actions, for tools that show a plan, ask the user for
//! approval, and then perform it.
//!
//! The node can change between approval and execution. A run lists again and can plan other removals.
//! Removals that were not approved are refused and reported.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use kubegc_core::{
    LogDirectory, Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, LogLink, Sandbox},
};

use super::NodeAction;
use crate::{container, image, log, sandbox};

/// A runtime and a log directory that perform only approved actions. It implements both traits: use it for
/// both fields of an [`Environment`](super::Environment).
///
/// # Guarantees
/// Other removals are refused with [`REFUSAL`](Self::REFUSAL) and not sent to the runtime. Listings are
/// unchanged. The log files of an approved container are removed only after the runtime reported their path
/// in the status of the container.
pub struct Approved<'w> {
    runtime: &'w dyn Runtime,
    logs: Option<&'w dyn LogDirectory>,
    approved: BTreeSet<Subject>,
    /// The log paths that the runtime reported for approved containers.
    log_files: Mutex<BTreeSet<Arc<str>>>,
}

/// An approved subject, by its id, path or name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Container(Arc<str>),
    Sandbox(Arc<str>),
    /// An image of one runtime handler.
    Image(Arc<str>, Arc<str>),
    LogDirectory(Arc<str>),
    Link(Arc<str>),
}

impl<'w> Approved<'w> {
    /// The error text for an action that is not approved.
    pub const REFUSAL: &'static str = "not approved";

    /// Wraps a runtime and a log directory, and approves these actions.
    pub fn new<'a>(
        runtime: &'w dyn Runtime,
        logs: Option<&'w dyn LogDirectory>,
        actions: impl IntoIterator<Item = &'a NodeAction>,
    ) -> Self {
        let approved = actions.into_iter().flat_map(subjects).collect();
        Self {
            runtime,
            logs,
            approved,
            log_files: Mutex::default(),
        }
    }

    fn check_approved(&self, subject: &Subject) -> Result<(), RuntimeError> {
        if self.approved.contains(subject) {
            Ok(())
        } else {
            Err(RuntimeError::refused(Self::REFUSAL))
        }
    }

    fn logs(&self) -> Result<&'w dyn LogDirectory, RuntimeError> {
        self.logs.ok_or(RuntimeError::NotSupported { operation: "logs" })
    }
}

/// The subjects that an action removes. For a container they include the link to its log.
fn subjects(action: &NodeAction) -> Vec<Subject> {
    match action {
        NodeAction::Container(container::Action::Remove { container, .. }) => {
            let link = log::link_path(container).map(|path| Subject::Link(path.into()));
            [Subject::Container(Arc::clone(&container.id))]
                .into_iter()
                .chain(link)
                .collect()
        }
        NodeAction::Sandbox(sandbox::Action::Remove { sandbox, .. }) => {
            vec![Subject::Sandbox(Arc::clone(&sandbox.id))]
        }
        NodeAction::Image(image::Action::Remove {
            image,
            runtime_handler,
            ..
        }) => vec![Subject::Image(Arc::clone(&image.id), Arc::clone(runtime_handler))],
        NodeAction::Log(log::Action::RemoveDirectory { entry, .. }) => {
            vec![Subject::LogDirectory(Arc::clone(entry))]
        }
        NodeAction::Log(log::Action::RemoveLink { path, .. } | log::Action::ResolveLink { path, .. }) => {
            vec![Subject::Link(Arc::clone(path))]
        }
    }
}

#[async_trait]
impl Runtime for Approved<'_> {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        self.runtime.containers().await
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        self.runtime.sandboxes().await
    }

    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        self.runtime.images().await
    }

    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        self.runtime.image_file_system().await
    }

    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        let status = self.runtime.container_status(id).await?;
        if let Some(status) = status
            .as_ref()
            .filter(|_| self.check_approved(&Subject::Container(id.into())).is_ok())
        {
            let mut files = self.log_files.lock().unwrap_or_else(PoisonError::into_inner);
            files.insert(Arc::clone(&status.log_path));
        }
        Ok(status)
    }

    async fn image_id(&self, reference: &str) -> Result<Option<Arc<str>>, RuntimeError> {
        self.runtime.image_id(reference).await
    }

    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
        self.check_approved(&Subject::Container(id.into()))?;
        self.runtime.stop_container(id, grace_seconds).await
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        self.check_approved(&Subject::Container(id.into()))?;
        self.runtime.remove_container(id).await
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.check_approved(&Subject::Sandbox(id.into()))?;
        self.runtime.stop_sandbox(id).await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.check_approved(&Subject::Sandbox(id.into()))?;
        self.runtime.remove_sandbox(id).await
    }

    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        self.check_approved(&Subject::Image(id.into(), runtime_handler.into()))?;
        self.runtime.remove_image(id, runtime_handler).await
    }
}

#[async_trait]
impl LogDirectory for Approved<'_> {
    async fn pod_entries(&self) -> Result<Vec<Arc<str>>, RuntimeError> {
        self.logs()?.pod_entries().await
    }

    async fn container_links(&self) -> Result<Vec<LogLink>, RuntimeError> {
        self.logs()?.container_links().await
    }

    async fn remove_pod_entry(&self, entry: &str) -> Result<(), RuntimeError> {
        self.check_approved(&Subject::LogDirectory(entry.into()))?;
        self.logs()?.remove_pod_entry(entry).await
    }

    async fn remove_container_link(&self, path: &str) -> Result<(), RuntimeError> {
        self.check_approved(&Subject::Link(path.into()))?;
        self.logs()?.remove_container_link(path).await
    }

    async fn remove_container_logs(&self, log_path: &str) -> Result<(), RuntimeError> {
        let is_approved = {
            let files = self.log_files.lock().unwrap_or_else(PoisonError::into_inner);
            files.contains(log_path)
        };
        if !is_approved {
            return Err(RuntimeError::refused(Self::REFUSAL));
        }
        self.logs()?.remove_container_logs(log_path).await
    }
}
