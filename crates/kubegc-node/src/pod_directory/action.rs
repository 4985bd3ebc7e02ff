//! What is removed of an orphaned pod directory, by which means, in which order, and what must still hold then.

use std::{fmt, sync::Arc};

use kubegc_core::{PlannedAction, Uid};

use super::Subject;

/// What an executor does for a plan of pod directories. To carry one out as upstream does, drive a [`Pass`](super::Pass).
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
        /// What must still hold right before the first removal.
        expect: Expect,
        /// What is left of volumes. Comes first, each whatever became of the others. Where one of these fails, nothing else is removed.
        volumes: Vec<Removal>,
        /// All else in the directory. Comes next, each whatever became of the others.
        entries: Vec<Removal>,
        /// The directory itself. Comes last, whatever became of the entries.
        itself: Removal,
        /// Why.
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

/// What an action rests on: no source of pods knows the pod, the runtime runs nothing of it, and no volume of it is or may be mounted.
///
/// # Upstream
/// Asks for mounts and volumes as each directory's turn comes, for pods and what runs once a pass.
#[expect(clippy::exhaustive_structs, reason = "executors must look at all of it")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expect {
    /// The pod.
    pub pod: Uid,
    /// Whether there must be no volume path and no `volume-subpaths` directory either: so where the directory goes as one tree.
    pub without_volumes: bool,
}

/// One removal.
#[expect(clippy::exhaustive_structs, reason = "executors must look at all of it")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Removal {
    /// What is removed, relative to `<root>/pods`, with `/` between names.
    pub path: Arc<str>,
    /// By which means.
    pub means: Means,
}

/// By which means something is removed. None follows a link, and none enters or removes a mount point: not one of another device, and
/// not a bind mount on the same device either, which device numbers do not show. What is gone already counts as removed.
#[expect(clippy::exhaustive_enums, reason = "executors must handle each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Means {
    /// By rmdir: fails for anything but an empty directory.
    EmptyDirectory,
    /// By unlink, or by rmdir: a file, or an empty directory.
    FileOrEmptyDirectory,
    /// By rmdir of all directories below it, the deepest first, and of itself: fails at the first thing that is no directory.
    ///
    /// Upstream: `RemoveDirsOneFilesystem`.
    Directories,
    /// With all that is below it, on its file system: fails where that holds a mount point.
    ///
    /// Upstream: `RemoveAllOneFilesystem`.
    Tree,
}

/// Why a directory goes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovedBecause {
    /// No source of pods knows its pod, the runtime runs nothing of it, and nothing of it is mounted.
    Orphaned,
}

impl RemovedBecause {
    /// The reason's name, as an Event would have it.
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
            Self::Orphaned => f.write_str("its pod is not known, nothing of it runs, and nothing is mounted"),
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
            Means::Tree => write!(f, "remove {path} with all below it"),
        }
    }
}
