//! Removal of an orphaned pod directory: means, order and preconditions.

use std::{fmt, sync::Arc};

use kubegc_core::{PlannedAction, Uid};

use super::Subject;

/// An action of a pod directory plan. To execute one as upstream does, drive a [`Pass`](super::Pass).
#[expect(
    clippy::exhaustive_enums,
    reason = "a new action must break executors at compile time"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Remove an orphaned directory.
    Remove {
        /// Its name.
        directory: Arc<str>,
        /// The precondition right before the first removal.
        expect: Expect,
        /// The remains of volumes. They come first, each whatever the result of the others. If one of these
        /// fails, nothing else is removed.
        volumes: Vec<Removal>,
        /// Everything else in the directory. Comes next, each whatever the result of the others.
        entries: Vec<Removal>,
        /// The directory itself. Comes last, whatever the result of the entries.
        itself: Removal,
        /// The reason.
        reason: RemovedBecause,
    },
}

impl Action {
    /// The name of the directory.
    #[must_use]
    pub const fn directory(&self) -> &Arc<str> {
        let Self::Remove { directory, .. } = self;
        directory
    }

    /// All removals, in their order.
    pub fn removals(&self) -> impl Iterator<Item = &Removal> {
        let Self::Remove {
            volumes,
            entries,
            itself,
            ..
        } = self;
        volumes.iter().chain(entries).chain([itself])
    }
}

impl PlannedAction for Action {
    type Object = Subject;

    fn object(&self) -> Subject {
        Subject::Directory(Arc::clone(self.directory()))
    }

    fn is_deletion(&self) -> bool {
        true
    }
}

/// The precondition of an action: no source of pods knows the pod, the runtime runs nothing of it, and no
/// volume of it is or may be mounted.
///
/// # Upstream
/// Upstream checks mounts and volumes for each directory, pods and running pods once for all.
#[expect(clippy::exhaustive_structs, reason = "executors must look at all of it")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expect {
    /// The pod.
    pub pod: Uid,
    /// Whether there must also be no volume path and no `volume-subpaths` directory: for a directory that is
    /// removed as one tree.
    pub without_volumes: bool,
}

/// One removal.
#[expect(clippy::exhaustive_structs, reason = "executors must look at all of it")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Removal {
    /// The path, relative to `<root>/pods`, with `/` between names.
    pub path: Arc<str>,
    /// The means.
    pub means: Means,
}

/// The means of a removal. None follows a link, and none enters or removes a mount point: neither one of
/// another device nor a bind mount on the same device, which device numbers do not show. A path that no
/// longer exists counts as removed.
#[expect(clippy::exhaustive_enums, reason = "executors must handle each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Means {
    /// rmdir: fails for anything but an empty directory.
    EmptyDirectory,
    /// unlink, or rmdir: a file, or an empty directory.
    FileOrEmptyDirectory,
    /// rmdir of all directories below it, the deepest first, and of itself: fails at the first entry that is
    /// not a directory.
    ///
    /// Upstream: `RemoveDirsOneFilesystem`.
    Directories,
    /// With its content, on its file system: fails if that contains a mount point.
    ///
    /// Upstream: `RemoveAllOneFilesystem`.
    Tree,
}

/// The reason why a directory is removed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovedBecause {
    /// No source of pods knows its pod, the runtime runs nothing of it, and no volume of it is mounted.
    Orphaned,
}

impl RemovedBecause {
    /// The reason's name, in the form of an Event's reason.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Orphaned => "Orphaned",
        }
    }
}

impl fmt::Display for RemovedBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Orphaned => f.write_str("its pod is unknown, nothing of it runs, and nothing is mounted"),
        }
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, means } = self;
        match means {
            Means::EmptyDirectory => write!(f, "rmdir {path}"),
            Means::FileOrEmptyDirectory => write!(f, "unlink or rmdir {path}"),
            Means::Directories => write!(f, "rmdir {path} and the directories below it"),
            Means::Tree => write!(f, "remove {path} with its content"),
        }
    }
}
