//! Decides how a node's file systems are laid out, and which collection each signal calls for.

use std::fmt;

use super::Signal;
use crate::{Semantics, semantics::behavior};

/// What is known of the node's file systems.
///
/// Upstream asks once in the life of a kubelet.
#[expect(clippy::exhaustive_structs, reason = "facts that adapters build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileSystems {
    /// Whether images lie on another device than the node's root; an error where it could not be told.
    pub images_are_dedicated: Result<bool, String>,
    /// Whether writable layers lie apart from images; `None` where it could not be told, which counts as no.
    pub containers_are_apart: Option<bool>,
}

impl FileSystems {
    /// What devices and mount points say. The mount points are those of the first file system of each list in CRI's `ImageFsInfo`.
    #[must_use]
    pub fn told_by(
        root_device: Option<&str>,
        image_device: Option<&str>,
        image_mount: Option<&str>,
        container_mount: Option<&str>,
    ) -> Self {
        let unknown = |what: &str| format!("the device of the {what} file system is unknown");
        Self {
            images_are_dedicated: match (root_device, image_device) {
                (Some(root), Some(image)) => Ok(root != image),
                (None, _) => Err(unknown("root")),
                (_, None) => Err(unknown("image")),
            },
            containers_are_apart: image_mount
                .zip(container_mount)
                .map(|(image, container)| image != container),
        }
    }
}

/// How a node's file systems are laid out, as far as eviction tells layouts apart.
#[expect(clippy::exhaustive_enums, reason = "upstream's three rows")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layout {
    /// Images and writable layers lie on the node's own file system.
    #[default]
    Single,
    /// Images and writable layers share a file system of their own.
    DedicatedImages,
    /// Images have a file system of their own, writable layers lie on the node's.
    Split,
}

/// Why a round of eviction ends before it looks at any threshold. The next round asks anew.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LayoutError {
    /// Nobody could say whether images have a file system of their own.
    #[error("{message}")]
    Unknown {
        /// What is known.
        message: String,
    },
    /// Writable layers lie apart from images, which the feature gate forbids.
    #[error("KubeletSeparateDiskGC is turned off but we still have a split filesystem")]
    SplitIsOff,
}

impl Layout {
    /// The layout that the facts amount to. Up to 1.28 nobody asks where writable layers lie.
    ///
    /// # Errors
    /// See [`LayoutError`]. As upstream, a split is refused even where images have no file system of their own; with the gate on, such a split
    /// counts as [`Single`](Self::Single).
    pub fn new(facts: &FileSystems, semantics: Semantics) -> Result<Self, LayoutError> {
        let dedicated = match &facts.images_are_dedicated {
            Ok(dedicated) => *dedicated,
            Err(message) => {
                return Err(LayoutError::Unknown {
                    message: message.clone(),
                });
            }
        };
        let apart =
            semantics.version.has(behavior::SPLIT_FILE_SYSTEM) && facts.containers_are_apart.unwrap_or(false);
        match (dedicated, apart) {
            (_, true) if !semantics.separate_disk => Err(LayoutError::SplitIsOff),
            (false, _) => Ok(Self::Single),
            (true, false) => Ok(Self::DedicatedImages),
            (true, true) => Ok(Self::Split),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "one file system",
            Self::DedicatedImages => "a file system for images and writable layers",
            Self::Split => "a file system for images alone",
        })
    }
}

/// What a node under pressure collects.
#[expect(clippy::exhaustive_enums, reason = "a driver must be able to run each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Function {
    /// Dead containers and sandboxes, those of completed pods too: [`Occasion::Forced`](crate::container::Occasion::Forced).
    DeleteAllUnusedContainers,
    /// All images that are not in use, not pinned and not too young.
    DeleteUnusedImages,
}

impl Function {
    /// Upstream's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeleteAllUnusedContainers => "DeleteAllUnusedContainers",
            Self::DeleteUnusedImages => "DeleteUnusedImages",
        }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a signal calls for, in the order in which it is run. `None`: the signal has no entry; an empty entry and none amount to the same.
///
/// # Upstream
/// `buildSignalToNodeReclaimFuncs` in `eviction/helpers.go`. Up to 1.28 there is no split, and [`Layout::Split`] counts as
/// [`Layout::DedicatedImages`].
///
/// # Examples
/// ```
/// use kubegc_node::{Semantics, eviction::{Layout, Signal, reclaim_functions}};
/// let functions = |signal| reclaim_functions(signal, Layout::DedicatedImages, Semantics::default());
/// assert_eq!(functions(Signal::NodeFsAvailable), Some(&[][..]), "an entry, and nothing to do");
/// assert_eq!(functions(Signal::MemoryAvailable), None);
/// ```
#[must_use]
pub const fn reclaim_functions(
    signal: Signal,
    layout: Layout,
    semantics: Semantics,
) -> Option<&'static [Function]> {
    use Function::{DeleteAllUnusedContainers, DeleteUnusedImages};

    const BOTH: &[Function] = &[DeleteAllUnusedContainers, DeleteUnusedImages];
    let layout = match layout {
        Layout::Split if !semantics.version.has(behavior::SPLIT_FILE_SYSTEM) => Layout::DedicatedImages,
        layout => layout,
    };
    match signal {
        Signal::NodeFsAvailable | Signal::NodeFsInodesFree => Some(match layout {
            Layout::Single => BOTH,
            Layout::DedicatedImages => &[],
            Layout::Split => &[DeleteAllUnusedContainers],
        }),
        Signal::ImageFsAvailable | Signal::ImageFsInodesFree => Some(match layout {
            Layout::Single | Layout::DedicatedImages => BOTH,
            Layout::Split => &[DeleteUnusedImages],
        }),
        Signal::MemoryAvailable
        | Signal::AllocatableMemoryAvailable
        | Signal::ContainerFsAvailable
        | Signal::ContainerFsInodesFree
        | Signal::PidAvailable => None,
    }
}
