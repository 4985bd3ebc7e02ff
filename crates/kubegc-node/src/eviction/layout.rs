//! The layout of a node's file systems, and the reclaim functions of each signal ([N4.2](crate::rules#n4-2),
//! [N4.8](crate::rules#n4-8) to [N4.10](crate::rules#n4-10)).

use super::Signal;
use crate::{Semantics, semantics::behavior};

/// Known facts about the node's file systems.
///
/// Upstream determines them once, after the kubelet has started.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileSystems {
    /// Whether images are on another device than the kubelet's root directory; the error text if unknown.
    pub images_are_dedicated: Result<bool, String>,
    /// Whether writable layers are on another file system than images. `None`: unknown, treated as `false`.
    pub containers_are_separate: Option<bool>,
}

impl FileSystems {
    /// Derives the facts from devices and mount points. The mount points are those of the first entry of each
    /// list in the CRI response `ImageFsInfo`.
    pub fn from_mount_points(
        root_device: Option<&str>,
        image_device: Option<&str>,
        image_mount: Option<&str>,
        container_mount: Option<&str>,
    ) -> Self {
        let unknown = |name: &str| format!("the device of the {name} file system is unknown");
        Self {
            images_are_dedicated: match (root_device, image_device) {
                (Some(root), Some(image)) => Ok(root != image),
                (None, _) => Err(unknown("root")),
                (_, None) => Err(unknown("image")),
            },
            containers_are_separate: image_mount
                .zip(container_mount)
                .map(|(image, container)| image != container),
        }
    }
}

names! {
    /// The layout of a node's file systems, as eviction distinguishes them.
    #[derive(Default)]
    pub enum Layout {
        /// Images and writable layers are on `nodefs`.
        #[default]
        Single = "one file system";
        /// Images and writable layers share a dedicated file system.
        DedicatedImages = "a file system for images and writable layers";
        /// Images have a dedicated file system; writable layers are on `nodefs`.
        Split = "a file system for images alone";
    }

    /// A reclaim function of a node under pressure, by upstream's name.
    pub enum Function {
        /// Removes dead containers and sandboxes, including those of terminated pods:
        /// [`Mode::Forced`](crate::container::Mode::Forced).
        DeleteAllUnusedContainers = "DeleteAllUnusedContainers";
        /// Removes all images that are not in use, not pinned, and older than the minimum age.
        DeleteUnusedImages = "DeleteUnusedImages";
    }
}

/// The reason why a sync of the eviction manager ends before it evaluates thresholds. The next sync tries
/// again.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LayoutError {
    /// It is unknown whether images have a dedicated file system.
    #[error("{message}")]
    Unknown { message: String },
    /// Writable layers are separate from images, and the feature gate `KubeletSeparateDiskGC` is off.
    #[error("KubeletSeparateDiskGC is turned off but we still have a split filesystem")]
    SplitIsOff,
}

impl Layout {
    /// Determines the layout. Up to 1.28, [`containers_are_separate`](FileSystems::containers_are_separate)
    /// is ignored.
    ///
    /// # Errors
    /// See [`LayoutError`]. As upstream, a split with the gate off is an error even if images have no
    /// dedicated file system. With the gate on, such a split is [`Single`](Self::Single).
    pub fn new(facts: &FileSystems, semantics: Semantics) -> Result<Self, LayoutError> {
        let dedicated = facts.images_are_dedicated.clone();
        let dedicated = dedicated.map_err(|message| LayoutError::Unknown { message })?;
        let separate = semantics.version.has(behavior::SPLIT_FILE_SYSTEM)
            && facts.containers_are_separate.unwrap_or(false);
        match (dedicated, separate) {
            (_, true) if !semantics.separate_disk => Err(LayoutError::SplitIsOff),
            (false, _) => Ok(Self::Single),
            (true, false) => Ok(Self::DedicatedImages),
            (true, true) => Ok(Self::Split),
        }
    }
}

/// The functions of a signal, in the order in which they run. `None`: upstream's map has no entry for the
/// signal, which has the same effect as an empty list.
///
/// # Upstream
/// `buildSignalToNodeReclaimFuncs` in
/// [`eviction/helpers.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/helpers.go).
/// Up to 1.28 there is no split: [`Layout::Split`] is treated as [`Layout::DedicatedImages`].
///
/// # Examples
/// ```
/// use kubegc_node::{Semantics, eviction::{Layout, Signal, reclaim_functions}};
/// let functions = |signal| reclaim_functions(signal, Layout::DedicatedImages, Semantics::default());
/// assert_eq!(functions(Signal::NodeFsAvailable), Some(&[][..]), "an entry without functions");
/// assert_eq!(functions(Signal::MemoryAvailable), None);
/// ```
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
