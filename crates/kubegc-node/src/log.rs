//! Planner for pod log directories and dangling links to container logs.
//!
//! A directory belongs to the pod whose uid follows the last `_` of its name. It is removed if the content of
//! that pod can be removed. A dangling link in `/var/log/containers` is removed, unless its container exists
//! and has not exited: then the log is being rotated.
//!
//! # Guarantees
//! - Directories are removed only if all pod sources are ready ([N2.4](crate::rules#n2-4)). Links do not
//!   depend on that.
//! - A link whose target exists is never removed.
//! - If the directory cannot be read, that run removes no links either.
//! - An entry that is not a file name (`.`, `..`, empty, or with a `/`) is kept ([N6.2](crate::rules#n6-2)).
//!   Upstream does not check that.
//! - As upstream, a failed removal does not fail the stage ([N2.49](crate::rules#n2-49)).
//!
//! # Upstream
//! [`pkg/kubelet/kuberuntime/kuberuntime_gc.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kuberuntime/kuberuntime_gc.go),
//! `evictPodLogsDirectories`;
//! [`legacy.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kuberuntime/legacy.go),
//! [`helpers.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kuberuntime/helpers.go).

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{
    Plan, PlanOf, PlannedAction, Planner, RuntimeError, Timestamp, Uid,
    node_facts::{Container, ContainerState, ContainerStatus, LogLink, LogTarget},
};

use crate::{
    Inventory, Order, Semantics, Subject,
    container::Mode,
    pod::{RemovableState, removable},
    semantics::behavior,
};

/// The minimum length of a container id in bytes.
const ID_LENGTH_MIN: usize = 6;
/// The directory of links to container logs.
const LINKS: &str = "/var/log/containers";
/// The suffix of links to container logs.
const SUFFIX: &str = ".log";

/// Planner for pod log directories and links. See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EvictLogs {
    /// The version and its feature gates.
    pub semantics: Semantics,
    /// The order of directories and links.
    pub order: Order,
}

impl EvictLogs {
    /// Upstream's text if the pod log directory cannot be read.
    pub fn unreadable_text(&self, directory: &str, error: &RuntimeError) -> String {
        let field = if self
            .semantics
            .version
            .has(behavior::POD_LOGS_DIRECTORY_IS_CONFIGURABLE)
        {
            "podLogsDirectory"
        } else {
            "podLogsRootDirectory"
        };
        format!("failed to read {field} {directory:?}: {error}")
    }

    /// [N2.47](crate::rules#n2-47): decides whether a dangling link is removed.
    ///
    /// `status` is the runtime's response for the container id in the link; `Ok(None)` is a response without
    /// a status.
    ///
    /// # Errors
    /// The reason why the link is kept.
    pub fn link(&self, status: &Result<Option<ContainerStatus>, RuntimeError>) -> Result<(), Reason> {
        match status {
            // Also if the runtime has no such container.
            Err(_) => Ok(()),
            Ok(Some(status)) if status.state == ContainerState::Exited => Ok(()),
            Ok(Some(status)) => Err(Reason::NotExited(status.state)),
            Ok(None) if self.semantics.version.has(behavior::EMPTY_STATUS_KEEPS_LINK) => {
                Err(Reason::EmptyStatus)
            }
            // In an empty status the state has the zero value: created.
            Ok(None) => Err(Reason::NotExited(ContainerState::Created)),
        }
    }
}

/// An action of a log plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(tag = "action", rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum Action {
    /// Remove an entry of the pod log directory with its content.
    #[display("remove directory {entry}: its pod is {pod_state}")]
    RemoveDirectory {
        entry: Arc<str>,
        pod_state: RemovableState,
    },
    /// Read the status of the container of a dangling link, and remove the link if [`EvictLogs::link`] says
    /// so.
    #[display("remove link {path}, which dangles, unless container {container_id} has not exited")]
    ResolveLink { path: Arc<str>, container_id: Arc<str> },
    /// Remove a dangling link without a valid container id.
    #[display("remove link {path}, which dangles: {problem}")]
    RemoveLink { path: Arc<str>, problem: NoContainer },
}

/// Every action counts as a deletion, even if the link is kept after its container's status was read.
impl PlannedAction for Action {
    type Object = Subject;

    fn object(&self) -> Subject {
        match self {
            Self::RemoveDirectory { entry, .. } => Subject::Directory(Arc::clone(entry)),
            Self::ResolveLink { path, .. } | Self::RemoveLink { path, .. } => Subject::Link(Arc::clone(path)),
        }
    }
}

/// The reason why a link has no valid container id. The texts are upstream's.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NoContainer {
    /// The part after the last `-` does not end with `.log`.
    #[error("{path:?} doesn't end with \".log\"")]
    NoSuffix { path: Arc<str> },
    /// The id has fewer than six bytes.
    #[error("container Id {id:?} is too short")]
    TooShort { id: Box<str> },
}

kubegc_core::reasons! {
    /// The reason why a directory or link is kept, or a finding.
    pub enum Reason {
        /// Its content cannot be removed yet.
        PodExists = "its pod still exists";
        SourcesNotReady = "not all pod sources are ready";
        /// Its name is `.`, `..`, empty, or with a `/`.
        NotAnEntry = "its name is not a file name";
        LinkIsValid = "its target exists";
        LinkUnknown = "whether its target exists is unknown";
        NotExited(state: ContainerState) = "dangles, but its container is {state:?}";
        EmptyStatus = "dangles, and the status of its container is empty";
        /// The directory was not read, or reading it failed.
        Unlisted(error: Box<str>) = "the log files are unknown: {error}";
    }
}

/// [N2.41](crate::rules#n2-41) and [N2.43](crate::rules#n2-43): the uid at the end of a directory name.
fn uid_of(entry: &str) -> Uid {
    Uid::new(entry.rsplit_once('_').map_or(entry, |(_, uid)| uid))
}

/// [N2.46](crate::rules#n2-46): the container id in the path of a link.
///
/// # Errors
/// The part after the last `-` does not end with `.log`, or the id is too short.
fn container_id_of(path: &Arc<str>) -> Result<Arc<str>, NoContainer> {
    let last = path.rsplit_once('-').map_or(&**path, |(_, last)| last);
    let Some(id) = last.strip_suffix(SUFFIX) else {
        return Err(NoContainer::NoSuffix {
            path: Arc::clone(path),
        });
    };
    if id.len() < ID_LENGTH_MIN {
        return Err(NoContainer::TooShort { id: id.into() });
    }
    Ok(id.into())
}

/// The path of the link to a container's log, as upstream names it; `None` if the container lacks fields.
///
/// File names are truncated to 255 bytes. The id comes last, so it can be truncated if the other names are
/// long.
pub fn link_path(container: &Container) -> Option<String> {
    const NAME_LENGTH_MAX: usize = 255;
    let name = container.name.as_deref()?;
    let pod = &container.pod;
    if name.is_empty() || pod.name.is_empty() || pod.namespace.is_empty() {
        return None;
    }
    let mut stem = format!("{}_{}_{name}-{}", pod.name, pod.namespace, container.id);
    if stem.contains('/') {
        return None;
    }
    let mut length = stem.len().min(NAME_LENGTH_MAX - SUFFIX.len());
    while !stem.is_char_boundary(length) {
        length -= 1;
    }
    stem.truncate(length);
    Some(format!("{LINKS}/{stem}{SUFFIX}"))
}

impl Planner for EvictLogs {
    type Facts = Inventory;
    type Action = Action;
    type Object = Subject;
    type Reason = Reason;
    type Summary = ();

    fn plan(&self, inventory: &Inventory, _now: Timestamp) -> PlanOf<Self> {
        let mut plan = Plan::default();
        if self.directories(inventory, &mut plan) {
            self.links(inventory, &mut plan);
        }
        plan
    }
}

impl EvictLogs {
    /// Plans the directories ([N2.40](crate::rules#n2-40) to [N2.43](crate::rules#n2-43)). Returns whether
    /// links are considered in this run.
    fn directories(&self, inventory: &Inventory, plan: &mut PlanOf<Self>) -> bool {
        let entries = match &inventory.log_entries {
            Ok(entries) => entries,
            Err(error) => {
                plan.findings
                    .push(Subject::Node.because(Reason::Unlisted(error.to_string().into())));
                // Unless all pod sources are ready, upstream does not read the directory, so no read can
                // fail.
                return !inventory.pods.sources_ready;
            }
        };
        let mut entries: Vec<&Arc<str>> = entries.iter().collect();
        if self.order == Order::Total {
            entries.sort();
            entries.dedup();
        }
        for entry in entries {
            let reason = if matches!(&**entry, "" | "." | "..") || entry.contains('/') {
                Reason::NotAnEntry
            } else if !inventory.pods.sources_ready {
                Reason::SourcesNotReady
            } else {
                match removable(&inventory.pods, &uid_of(entry), Mode::Periodic, &self.semantics) {
                    Some(pod_state) => {
                        plan.actions.push(Action::RemoveDirectory {
                            entry: Arc::clone(entry),
                            pod_state,
                        });
                        continue;
                    }
                    None => Reason::PodExists,
                }
            };
            plan.kept
                .push(Subject::Directory(Arc::clone(entry)).because(reason));
        }
        true
    }

    /// Plans the links ([N2.44](crate::rules#n2-44) to [N2.48](crate::rules#n2-48)).
    fn links(&self, inventory: &Inventory, plan: &mut PlanOf<Self>) {
        let links = match &inventory.log_links {
            Ok(links) => links,
            Err(error) => {
                return plan
                    .findings
                    .push(Subject::Node.because(Reason::Unlisted(error.to_string().into())));
            }
        };
        // If a path is listed twice and one entry does not dangle, the link is kept.
        let dangles = |link: &LogLink| link.target == LogTarget::Missing;
        let not_dangling: BTreeSet<_> = links
            .iter()
            .filter(|link| !dangles(link))
            .map(|link| &link.path)
            .collect();
        let mut links: Vec<&LogLink> = links
            .iter()
            .filter(|link| !dangles(link) || !not_dangling.contains(&link.path))
            .collect();
        if self.order == Order::Total {
            links.sort_by_key(|link| (&link.path, link.target));
            links.dedup_by_key(|link| &link.path);
        }
        for link in links {
            let path = Arc::clone(&link.path);
            let reason = match link.target {
                LogTarget::Exists => Reason::LinkIsValid,
                LogTarget::Unknown => Reason::LinkUnknown,
                LogTarget::Missing => {
                    plan.actions.push(match container_id_of(&path) {
                        Ok(container_id) => Action::ResolveLink { path, container_id },
                        Err(problem) => Action::RemoveLink { path, problem },
                    });
                    continue;
                }
            };
            plan.kept.push(Subject::Link(path).because(reason));
        }
    }
}

serialize_text!(NoContainer);
