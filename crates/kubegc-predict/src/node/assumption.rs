//! The settings of a node forecast, and its assumptions for facts that are missing.

use kubegc_core::{KubernetesVersion, Timestamp};
use kubegc_node::Bytes;

use crate::words::variant_name;

/// The settings of a node forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeFrame {
    pub now: Timestamp,
    /// By how much the image file system fills in an hour; zero if nothing is known of it.
    pub growth_bytes_per_hour: u64,
}

impl NodeFrame {
    /// A forecast from now on, with an unknown growth rate.
    pub const fn at(now: Timestamp) -> Self {
        Self {
            now,
            growth_bytes_per_hour: 0,
        }
    }
}

/// Knowledge about the use of images before the forecast.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordsKnown {
    /// Records were given.
    Given,
    /// No records were given: it is assumed that the kubelet has run for long, and that unused images were
    /// never used since.
    AssumedOld,
}

/// One thing that a node forecast takes for granted.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Assumption {
    /// It is unknown when images were first detected and last used: the kubelet keeps this in memory and does
    /// not expose it. The order in which unused images are deleted is undetermined. Right after a restart,
    /// possibly none is deleted.
    #[display(
        "the last use of images is unknown: the order of {images} unused ones is undetermined, and a kubelet \
         that has just started may keep all of them"
    )]
    RecordsUnknown {
        /// Unused images whose order is open.
        images: usize,
    },
    /// Sizes of images count shared layers once for each image, so less may become free than is counted, and
    /// the next garbage collection removes more.
    #[display(
        "images share no layers: where they do, less becomes free and the next garbage collection removes more"
    )]
    SizesOverlap,
    /// The runtime frees space before it responds. Some runtimes free it later.
    #[display("the runtime frees space at once; some do later")]
    FreedAtOnce,
    /// No container mounts an image as a volume.
    #[display("no container mounts an image as a volume")]
    NoImageVolumes,
    /// The desired pods are unknown, so nothing is deleted because of a deleted pod.
    #[display("the pods of the node are unknown, so nothing is removed because its pod was deleted")]
    PodsUnknown,
    /// Not all pod sources are ready, so no container is deleted because of a deleted pod.
    #[display("not all sources of pods are ready, so containers are removed by limits alone")]
    SourcesNotReady,
    /// The log directories were not listed, so the forecast does not cover them.
    #[display("the directories of logs were not listed")]
    LogsUnknown,
    /// The sandbox image is not known. Up to 1.28 it is protected; later the runtime must pin it.
    #[display("the image of sandboxes is not known, so it is treated like any other")]
    SandboxImageUnknown,
    /// All removals succeed, and nothing is created, pulled or started meanwhile.
    #[display("every removal succeeds, and nothing is pulled or started meanwhile")]
    NothingElseHappens,
    /// The disk fills steadily.
    #[display("the disk fills by {} an hour", Bytes::from(*bytes_per_hour))]
    SteadyGrowth { bytes_per_hour: u64 },
    /// The release is newer than those that kubegc knows: a kubelet may behave otherwise.
    #[display("{}", version.warning().unwrap_or_default())]
    NewerVersion { version: KubernetesVersion },
}

impl Assumption {
    /// The assumption's name.
    pub const fn as_str(&self) -> &'static str {
        variant_name!(
            self,
            RecordsUnknown SizesOverlap FreedAtOnce NoImageVolumes PodsUnknown SourcesNotReady LogsUnknown
            SandboxImageUnknown NothingElseHappens SteadyGrowth NewerVersion
        )
    }
}
