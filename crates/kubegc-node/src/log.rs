//! Chooses which log directories of pods and which dangling links to logs are removed, and says why the others stay.
//!
//! A directory belongs to the pod whose uid follows the last `_` of its name, and goes once the content of that pod may go. A link in
//! `/var/log/containers` that leads nowhere goes, unless its container is known and has not ended: its log is being rotated.
//!
//! # Guarantees
//! Directories are looked at only where all sources of pods are ready, links always. A link that leads somewhere is never touched. Where the directory
//! cannot be read, links are left alone in that pass too. An entry that is no name of its own (`.`, `..`, empty, or with a `/`) stays: upstream trusts the listing.
//!
//! # Upstream
//! `pkg/kubelet/kuberuntime/kuberuntime_gc.go`, `evictPodLogsDirectories`; `legacy.go`, `helpers.go`.

use std::{collections::BTreeSet, fmt, sync::Arc};

use kubegc_core::{
    Kept, Plan, PlanOf, PlannedAction, Planner, RuntimeError, Timestamp, Uid,
    node_facts::{Container, ContainerState, ContainerStatus, LogLink, LogTarget},
};

use crate::{
    Inventory, Order, Semantics,
    pod::{PodGone, content_gone},
    semantics::behavior,
};

/// The shortest text that counts as a container's id.
const ID_LENGTH_MIN: usize = 6;
/// Where links to logs stand.
const LINKS: &str = "/var/log/containers";
/// How they end.
const SUFFIX: &str = ".log";

/// Chooses log directories and links to remove. See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    semantics: Semantics,
    order: Order,
}

impl Policy {
    /// The policy of a version.
    #[must_use]
    pub const fn new(semantics: Semantics) -> Self {
        Self {
            semantics,
            order: Order::Total,
        }
    }

    /// The same policy with another order of directories and links.
    #[must_use]
    pub const fn ordered(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Upstream's text where the pod log directory cannot be read.
    #[must_use]
    pub fn unreadable_text(&self, directory: &str, error: &RuntimeError) -> String {
        let what = if self
            .semantics
            .version
            .has(behavior::POD_LOGS_DIRECTORY_IS_CONFIGURABLE)
        {
            "podLogsDirectory"
        } else {
            "podLogsRootDirectory"
        };
        format!("failed to read {what} {directory:?}: {error}")
    }

    /// N2.47: what the status of its container makes of a dangling link.
    ///
    /// `status` is the runtime's answer for the id that the link names; `Ok(None)` an answer without content.
    pub fn link(&self, status: &Result<Option<ContainerStatus>, RuntimeError>) -> Result<LinkGone, Reason> {
        match status {
            Err(_) => Ok(LinkGone::NoStatus),
            Ok(Some(status)) if status.state == ContainerState::Exited => Ok(LinkGone::Exited),
            Ok(Some(status)) => Err(Reason::NotExited(status.state)),
            Ok(None) if self.semantics.version.has(behavior::EMPTY_STATUS_KEEPS_LINK) => {
                Err(Reason::EmptyStatus)
            }
            // An empty status has the state that comes first: created.
            Ok(None) => Err(Reason::NotExited(ContainerState::Created)),
        }
    }
}

/// What an executor does for a log plan.
#[expect(
    clippy::exhaustive_enums,
    reason = "a new action must break executors at compile time"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Remove an entry of the pod log directory with all below it.
    RemoveDirectory {
        /// Its name.
        entry: Arc<str>,
        /// Why the pod is gone.
        gone: PodGone,
    },
    /// Ask the runtime for the container that a dangling link names, and remove the link as [`Policy::link`] says.
    ResolveLink {
        /// Path of the link.
        path: Arc<str>,
        /// The id to ask for.
        container_id: Arc<str>,
    },
    /// Remove a dangling link that names no container.
    RemoveLink {
        /// Path of the link.
        path: Arc<str>,
        /// What is wrong with its name.
        problem: NoContainer,
    },
}

impl PlannedAction for Action {
    type Object = Subject;

    fn object(&self) -> Subject {
        match self {
            Self::RemoveDirectory { entry, .. } => Subject::Directory(Arc::clone(entry)),
            Self::ResolveLink { path, .. } | Self::RemoveLink { path, .. } => Subject::Link(Arc::clone(path)),
        }
    }

    /// A link whose container is asked for first counts as deleted.
    fn is_deletion(&self) -> bool {
        true
    }
}

/// Why a dangling link goes after its container was asked for.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkGone {
    /// The runtime has no status for its container, or failed to answer.
    NoStatus,
    /// Its container has ended.
    Exited,
}

/// Why the name of a link names no container. The texts are upstream's.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NoContainer {
    /// The last part does not end as logs do.
    #[error("{path:?} doesn't end with \".log\"")]
    NoSuffix {
        /// The path.
        path: Arc<str>,
    },
    /// The id has fewer than six bytes.
    #[error("container Id {id:?} is too short")]
    TooShort {
        /// The id.
        id: Box<str>,
    },
}

/// What a log plan speaks of.
#[expect(clippy::exhaustive_enums, reason = "an entry, a link, or the node as a whole")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// An entry of the pod log directory.
    Directory(Arc<str>),
    /// A link to a log, by its path.
    Link(Arc<str>),
    /// The node as a whole.
    Node,
}

/// Why a directory or link stays, or what is odd about the facts.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The content of its pod is still wanted.
    PodLives,
    /// Not all sources of pods have spoken.
    SourcesNotReady,
    /// Its name leads out of the directory.
    NotAnEntry,
    /// The link leads to a file.
    LinkIsWhole,
    /// What the link leads to could not be told.
    LinkUnknown,
    /// The link dangles, but its container has not ended.
    NotExited(ContainerState),
    /// The link dangles, and the runtime answered without saying anything.
    EmptyStatus,
    /// The directory was not read, or could not be.
    Unlisted(Box<str>),
}

/// N2.41: the uid that the name of a directory ends with.
#[must_use]
pub fn uid_of(entry: &str) -> Uid {
    Uid::new(entry.rsplit_once('_').map_or(entry, |(_, uid)| uid))
}

/// N2.46: the container's id in the path of a link.
///
/// # Errors
/// The last part after a `-` does not end with `.log`, or what remains is too short.
pub fn container_id_of(path: &Arc<str>) -> Result<Arc<str>, NoContainer> {
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

/// The path of the link to a container's log, as upstream names it; `None` where the container does not say enough.
///
/// File names are cut to 255 bytes, the id last, so the link of a container with long names may name only part of its id.
#[must_use]
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

impl Planner for Policy {
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

impl Policy {
    /// N2.40 to N2.43. Says whether links are looked at in this pass.
    fn directories(&self, inventory: &Inventory, plan: &mut PlanOf<Self>) -> bool {
        let entries = match &inventory.log_entries {
            Ok(entries) => entries,
            Err(why) => {
                plan.findings.push(unlisted(&why.to_string()));
                // Where sources are missing, the directory is not read and cannot fail.
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
                match content_gone(&inventory.pods, &uid_of(entry), &self.semantics) {
                    Some(gone) => {
                        plan.actions.push(Action::RemoveDirectory {
                            entry: Arc::clone(entry),
                            gone,
                        });
                        continue;
                    }
                    None => Reason::PodLives,
                }
            };
            plan.kept.push(Kept {
                object: Subject::Directory(Arc::clone(entry)),
                reason,
            });
        }
        true
    }

    /// N2.44 to N2.48.
    fn links(&self, inventory: &Inventory, plan: &mut PlanOf<Self>) {
        let links = match &inventory.log_links {
            Ok(links) => links,
            Err(why) => return plan.findings.push(unlisted(&why.to_string())),
        };
        // A path that is told twice counts as it protects the most: as a link that does not dangle, as far as is known.
        let dangles = |link: &LogLink| link.target == LogTarget::Missing;
        let whole: BTreeSet<_> = links
            .iter()
            .filter(|link| !dangles(link))
            .map(|link| &link.path)
            .collect();
        let mut links: Vec<&LogLink> = links
            .iter()
            .filter(|link| !dangles(link) || !whole.contains(&link.path))
            .collect();
        if self.order == Order::Total {
            links.sort_by_key(|link| (&link.path, link.target));
            links.dedup_by_key(|link| &link.path);
        }
        for link in links {
            let path = Arc::clone(&link.path);
            let reason = match link.target {
                LogTarget::Exists => Reason::LinkIsWhole,
                LogTarget::Unknown => Reason::LinkUnknown,
                LogTarget::Missing => {
                    plan.actions.push(match container_id_of(&path) {
                        Ok(container_id) => Action::ResolveLink { path, container_id },
                        Err(problem) => Action::RemoveLink { path, problem },
                    });
                    continue;
                }
            };
            plan.kept.push(Kept {
                object: Subject::Link(path),
                reason,
            });
        }
    }
}

fn unlisted(why: &str) -> Kept<Subject, Reason> {
    Kept {
        object: Subject::Node,
        reason: Reason::Unlisted(why.into()),
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodLives => f.write_str("its pod is still wanted"),
            Self::SourcesNotReady => f.write_str("not all sources of pods are ready"),
            Self::NotAnEntry => f.write_str("its name leads out of the directory"),
            Self::LinkIsWhole => f.write_str("leads to a file"),
            Self::LinkUnknown => f.write_str("what it leads to could not be told"),
            Self::NotExited(state) => write!(f, "dangles, but its container is {state:?}"),
            Self::EmptyStatus => f.write_str("dangles, and the runtime said nothing of its container"),
            Self::Unlisted(why) => write!(f, "the log files are unknown: {why}"),
        }
    }
}
