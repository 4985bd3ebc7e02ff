//! Facts about pod directories and pods.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{Uid, node_facts::Pods};

use crate::{Listing, Unlisted};

/// The input of a plan. `Default` knows nothing, so that no plan depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The directories in `<root>/pods`, without links and files. If they could not be listed, nothing is
    /// planned.
    pub directories: Listing<Vec<Directory>>,
    /// The known pods, in any state: a known pod keeps its directory. Nothing is planned before all sources
    /// are ready.
    pub pods: Pods,
    /// The pods that the runtime still runs, by uid. If unknown, nothing is planned.
    pub running: Listing<BTreeSet<Uid>>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            directories: Err(Unlisted::NotAsked),
            pods: Pods::default(),
            running: Err(Unlisted::NotAsked),
        }
    }
}

/// A pod directory. Paths are relative to it, with `/` between names; a name that is not text makes its
/// listing an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Directory {
    /// Its name, which is the uid of its pod.
    pub name: Arc<str>,
    /// Whether a volume of the pod is or may be mounted, according to the volume manager and its volumes on
    /// disk.
    ///
    /// Upstream: `podVolumesExist`.
    pub has_mounts: Listing<bool>,
    /// The places of its volumes: all below `volumes/`. None if there is no such directory.
    ///
    /// Upstream: `getPodVolumePathListFromDisk`.
    pub volume_paths: Listing<Vec<Arc<str>>>,
    /// The remains of its subpaths, `volume-subpaths/<volume>/<container>/<index>`. None if there is no such
    /// directory.
    ///
    /// Upstream: `getPodVolumeSubpathListFromDisk`.
    pub subpaths: Listing<Vec<Arc<str>>>,
    /// The names of all entries of the directory, files too.
    pub entries: Listing<Vec<Arc<str>>>,
}

impl Directory {
    /// A directory with a known name only.
    #[must_use]
    pub fn unread(name: &str) -> Self {
        Self {
            name: name.into(),
            has_mounts: Err(Unlisted::NotAsked),
            volume_paths: Err(Unlisted::NotAsked),
            subpaths: Err(Unlisted::NotAsked),
            entries: Err(Unlisted::NotAsked),
        }
    }

    /// An empty directory without mounts.
    #[must_use]
    pub fn empty(name: &str) -> Self {
        Self {
            name: name.into(),
            has_mounts: Ok(false),
            volume_paths: Ok(Vec::new()),
            subpaths: Ok(Vec::new()),
            entries: Ok(Vec::new()),
        }
    }
}
