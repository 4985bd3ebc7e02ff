//! What a kubelet of a given version does, where versions differ: every difference is named once, here.

use std::collections::BTreeMap;

use kubegc_core::KubernetesVersion;

/// The differences between kubelets of different versions, each with the release that brought it.
pub mod behavior {
    use kubegc_core::Behavior;

    /// A pod that nobody knows counts as gone only once running pods were compared with wanted ones.
    pub const UNKNOWN_PODS_AWAIT_SYNC: Behavior =
        Behavior::since_about(22, "pod workers, kubernetes #102344");
    /// The pod log directory can be configured, and its error says so.
    pub const POD_LOGS_DIRECTORY_IS_CONFIGURABLE: Behavior = Behavior::since_about(30, "kubernetes #121317");
    /// A container status without content leaves a dangling log link alone.
    pub const EMPTY_STATUS_KEEPS_LINK: Behavior = Behavior::since_about(30, "newer snapshots read");
    /// Images that the runtime has pinned are kept.
    pub const PINNED_IMAGES_STAY: Behavior = Behavior::since_about(23, "kubernetes #103299");
    /// The first look at the images counts as their first detection; before, they seem infinitely old.
    pub const FIRST_DETECTION_IS_NOW: Behavior = Behavior::since_about(29, "kubernetes #119652");
    /// The sandbox image has no protection of its own: the runtime must pin it.
    pub const SANDBOX_IMAGE_IS_ORDINARY: Behavior = Behavior::since(29, 0, "kubernetes #118544");
    /// Records keep the runtime handler that an image was pulled for, and hand it in when it is removed.
    pub const RUNTIME_HANDLER_IS_RECORDED: Behavior = Behavior::since(29, 0, "KEP-4216");
    /// Images unused for too long can be removed; images are listed before the disk is looked at.
    pub const MAXIMUM_AGE: Behavior = Behavior::since(29, 0, "KEP-4210");
    /// `imageMaximumGCAge` needs no feature gate to be set.
    pub const MAXIMUM_AGE_BY_DEFAULT: Behavior = Behavior::since(30, 0, "KEP-4210, beta");
    /// A container's image is told by its id, where the runtime gives one.
    pub const IMAGE_ID_TELLS_USE: Behavior = Behavior::since(30, 0, "CRI image_id");
    /// The error of an insufficient pass says what was asked and what was found.
    pub const ATTEMPTED_IS_TOLD: Behavior = Behavior::since_about(23, "between 1.20 and 1.28");
    /// The error of an insufficient pass speaks of the disk.
    pub const DISK_IS_TOLD: Behavior = Behavior::since_about(34, "kubernetes #132578");
    /// Pull records are pruned after room was made.
    pub const PULL_RECORDS_ARE_PRUNED: Behavior = Behavior::since(35, 0, "KEP-2535, beta");
    /// Images mounted as volumes are in use.
    pub const IMAGE_VOLUMES_ARE_USE: Behavior = Behavior::since(35, 0, "KEP-4639, on by default");
    /// A split of image and container file systems is known.
    pub const SPLIT_FILE_SYSTEM: Behavior = Behavior::since(29, 0, "KEP-4191");
    /// The split needs no feature gate to be set.
    pub const SPLIT_FILE_SYSTEM_BY_DEFAULT: Behavior = Behavior::since(31, 0, "KEP-4191, beta");
    /// The signals of the container file system are known.
    pub const CONTAINER_FS_SIGNALS: Behavior = Behavior::since(31, 0, "KEP-4191, beta");
    /// A pod that is evicted at a hard threshold gets one second instead of none.
    pub const HARD_EVICTION_HAS_GRACE: Behavior = Behavior::since_about(30, "between 1.28 and 1.32");
    /// A pod that is evicted at a soft threshold gets no more time than its own spec asks for.
    pub const SOFT_EVICTION_HEEDS_POD: Behavior = Behavior::since_about(33, "newer snapshots read");
    /// After reclaiming, thresholds count with what must be reclaimed beyond them.
    pub const RECHECK_ENFORCES_MINIMUM_RECLAIM: Behavior = Behavior::since_about(30, "between 1.28 and 1.32");
}

/// Names of feature gates.
pub mod gate {
    /// Use and records of images are kept per runtime handler. Alpha, off by default.
    pub const RUNTIME_CLASS_IN_IMAGE_CRI_API: &str = "RuntimeClassInImageCriApi";
    /// `imageMaximumGCAge` may be set.
    pub const IMAGE_MAXIMUM_GC_AGE: &str = "ImageMaximumGCAge";
    /// Images can be mounted as volumes.
    pub const IMAGE_VOLUME: &str = "ImageVolume";
    /// Pulls with secrets are recorded.
    pub const ENSURE_SECRET_PULLED_IMAGES: &str = "KubeletEnsureSecretPulledImages";
    /// Image and container file systems may be split.
    pub const SEPARATE_DISK_GC: &str = "KubeletSeparateDiskGC";
}

/// How a kubelet of one version, with its feature gates, behaves.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Semantics {
    /// The version.
    pub version: KubernetesVersion,
    /// Gate `RuntimeClassInImageCriApi`.
    pub per_runtime_handler: bool,
    /// Gate `ImageMaximumGCAge`: the maximum age may be set.
    pub maximum_age: bool,
    /// Gate `ImageVolume`: images mounted as volumes are in use.
    pub image_volumes: bool,
    /// Gate `KubeletEnsureSecretPulledImages`: pull records are pruned.
    pub pull_records: bool,
    /// Gate `KubeletSeparateDiskGC`.
    pub separate_disk: bool,
}

impl Semantics {
    /// The behaviour of a version with no gate set.
    #[must_use]
    pub fn new(version: KubernetesVersion) -> Self {
        Self::with_gates(version, &BTreeMap::new())
    }

    /// The behaviour of a version with these gates set. A gate that the version does not know changes nothing.
    #[must_use]
    pub fn with_gates(version: KubernetesVersion, gates: &BTreeMap<String, bool>) -> Self {
        let gate = |name: &str, known: u16, by_default: bool| {
            version.minor() >= known && gates.get(name).copied().unwrap_or(by_default)
        };
        Self {
            version,
            per_runtime_handler: gate(gate::RUNTIME_CLASS_IN_IMAGE_CRI_API, 29, false),
            maximum_age: gate(
                gate::IMAGE_MAXIMUM_GC_AGE,
                29,
                version.has(behavior::MAXIMUM_AGE_BY_DEFAULT),
            ),
            image_volumes: gate(
                gate::IMAGE_VOLUME,
                31,
                version.has(behavior::IMAGE_VOLUMES_ARE_USE),
            ),
            pull_records: gate(
                gate::ENSURE_SECRET_PULLED_IMAGES,
                33,
                version.has(behavior::PULL_RECORDS_ARE_PRUNED),
            ),
            separate_disk: gate(
                gate::SEPARATE_DISK_GC,
                29,
                version.has(behavior::SPLIT_FILE_SYSTEM_BY_DEFAULT),
            ),
        }
    }
}

impl Default for Semantics {
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}
