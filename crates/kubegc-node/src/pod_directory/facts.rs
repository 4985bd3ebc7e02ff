//! Fixes what is known of pod directories, and of the pods that may claim them.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{Uid, node_facts::Pods};

use crate::{Listing, Unlisted};

/// What a plan rests on. `Default` knows nothing, so that nothing is ever planned on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The directories in `<root>/pods`: no links, no files. Where they could not be listed, nothing is planned.
    pub directories: Listing<Vec<Directory>>,
    /// The pods that the node knows, in whatever state: a known pod keeps its directory. Nothing is planned before all sources are ready.
    pub pods: Pods,
    /// The pods that the runtime still runs, by uid. Where that is not known, nothing is planned.
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

/// A pod directory. Paths are relative to it, with `/` between names; a name that is no text makes its listing an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Directory {
    /// Its name, which is the uid of its pod.
    pub name: Arc<str>,
    /// Whether a volume of the pod is or may be mounted: as the volume manager has it, and as its volumes on disk show.
    ///
    /// Upstream: `podVolumesExist`.
    pub has_mounts: Listing<bool>,
    /// Where its volumes stand or stood: all below `volumes/`. None where there is no such directory.
    ///
    /// Upstream: `getPodVolumePathListFromDisk`.
    pub volume_paths: Listing<Vec<Arc<str>>>,
    /// What is left of its subpaths, `volume-subpaths/<volume>/<container>/<index>`. None where there is no such directory.
    ///
    /// Upstream: `getPodVolumeSubpathListFromDisk`.
    pub subpaths: Listing<Vec<Arc<str>>>,
    /// The names of all that stands in the directory, files too.
    pub entries: Listing<Vec<Arc<str>>>,
}

impl Directory {
    /// A directory of which nothing is known but its name.
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

    /// A directory that is empty, with nothing mounted.
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
