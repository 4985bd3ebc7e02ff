//! The layout of a node's file systems, and the reclaim functions of each signal ([N4.2](crate::rules#n4-2),
//! [N4.8](crate::rules#n4-8) to [N4.10](crate::rules#n4-10)).

use std::fmt;

use super::Signal;
use crate::{Semantics, semantics::behavior};

/// Known facts about the node's file systems.
///
/// Upstream determines them once in the life of a kubelet.
#[expect(clippy::exhaustive_structs, reason = "facts that adapters build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileSystems {
    /// Whether images are on another device than the node's root; an error if unknown.
    pub images_are_dedicated: Result<bool, String>,
    /// Whether writable layers are separate from images; `None` if unknown, which counts as no.
    pub containers_are_apart: Option<bool>,
}

impl FileSystems {
    /// Derives the facts from devices and mount points. The mount points are those of the first file system
    /// of each list in CRI's `ImageFsInfo`.
    #[must_use]
    pub fn of_mount_points(
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

/// The layout of a node's file systems, as eviction distinguishes them.
#[expect(clippy::exhaustive_enums, reason = "upstream's three rows")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layout {
    /// Images and writable layers are on the node's own file system.
    #[default]
    Single,
    /// Images and writable layers share a file system of their own.
    DedicatedImages,
    /// Images have a file system of their own, writable layers are on the node's.
    Split,
}

/// The reason why a round of eviction ends before it evaluates thresholds. The next round tries again.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LayoutError {
    /// It is unknown whether images have a file system of their own.
    #[error("{message}")]
    Unknown {
        /// The error.
        message: String,
    },
    /// Writable layers are separate from images, which the feature gate forbids.
    #[error("KubeletSeparateDiskGC is turned off but we still have a split filesystem")]
    SplitIsOff,
}

impl Layout {
    /// The layout of these facts. Up to 1.28 the place of writable layers is ignored.
    ///
    /// # Errors
    /// See [`LayoutError`]. As upstream, a split is refused even if images have no file system of their own;
    /// with the gate on, such a split counts as [`Single`](Self::Single).
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

/// A reclaim function of a node under pressure.
#[expect(clippy::exhaustive_enums, reason = "a driver must be able to run each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Function {
    /// Dead containers and sandboxes, those of completed pods too:
    /// [`Occasion::Forced`](crate::container::Occasion::Forced).
    DeleteAllUnusedContainers,
    /// All images that are neither in use, pinned, nor too young.
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

/// The functions of a signal, in the order in which they run. `None`: the signal has no entry, which is
/// equivalent to an empty entry.
///
/// # Upstream
/// `buildSignalToNodeReclaimFuncs` in
/// [`eviction/helpers.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/helpers.go).
/// Up to 1.28 there is no split, and
/// [`Layout::Split`] counts as [`Layout::DedicatedImages`].
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
