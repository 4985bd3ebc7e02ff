//! Differences between kubelet versions: each one is named once, here.

use std::collections::BTreeMap;

use kubegc_core::KubernetesVersion;

/// The differences between versions, each with its first release.
pub mod behavior {
    use kubegc_core::Behavior;

    /// An unknown pod is garbage only after running pods were compared with desired ones.
    pub const UNKNOWN_PODS_AWAIT_SYNC: Behavior =
        Behavior::since_about(22, "pod workers, kubernetes #102344");
    /// The pod log directory can be configured, and its error text says so.
    pub const POD_LOGS_DIRECTORY_IS_CONFIGURABLE: Behavior = Behavior::since_about(30, "kubernetes #121317");
    /// An empty container status keeps a dangling log link.
    pub const EMPTY_STATUS_KEEPS_LINK: Behavior = Behavior::since_about(30, "newer snapshots read");
    /// Images that the runtime pins are kept.
    pub const PINNED_IMAGES_STAY: Behavior = Behavior::since_about(23, "kubernetes #103299");
    /// The first detection counts as the first detection of the images; before, they count as infinitely old
    /// ([N3.14](crate::rules#n3-14) to [N3.16](crate::rules#n3-16)).
    pub const FIRST_DETECTION_IS_NOW: Behavior = Behavior::since_about(29, "kubernetes #119652");
    /// The sandbox image is not protected: the runtime must pin it.
    pub const SANDBOX_IMAGE_IS_ORDINARY: Behavior = Behavior::since(29, 0, "kubernetes #118544");
    /// Records keep the runtime handler of an image, which is passed on when it is removed.
    pub const RUNTIME_HANDLER_IS_RECORDED: Behavior = Behavior::since(29, 0, "KEP-4216");
    /// Images that are unused for too long can be removed; images are listed before the disk is measured.
    pub const MAXIMUM_AGE: Behavior = Behavior::since(29, 0, "KEP-4210");
    /// `imageMaximumGCAge` needs no feature gate to be set.
    pub const MAXIMUM_AGE_BY_DEFAULT: Behavior = Behavior::since(30, 0, "KEP-4210, beta");
    /// An image id identifies the image of a container, if the runtime sets it.
    pub const IMAGE_ID_IDENTIFIES_USE: Behavior = Behavior::since(30, 0, "CRI image_id");
    /// The error of an insufficient run contains the attempted and found bytes.
    pub const REPORTS_ATTEMPTED_BYTES: Behavior = Behavior::since_about(23, "between 1.20 and 1.28");
    /// The error of an insufficient run describes the disk.
    pub const REPORTS_DISK_USAGE: Behavior = Behavior::since(35, 0, "kubernetes #132578");
    /// Pull records are pruned after the space step.
    pub const PULL_RECORDS_ARE_PRUNED: Behavior = Behavior::since(35, 0, "KEP-2535, beta");
    /// Images mounted as volumes are in use.
    pub const IMAGE_VOLUMES_ARE_USE: Behavior = Behavior::since(35, 0, "KEP-4639, on by default");
    /// A split of image and container file systems is known.
    pub const SPLIT_FILE_SYSTEM: Behavior = Behavior::since(29, 0, "KEP-4191");
    /// The split needs no feature gate to be set.
    pub const SPLIT_FILE_SYSTEM_BY_DEFAULT: Behavior = Behavior::since(31, 0, "KEP-4191, beta");
    /// The signals of the container file system exist.
    pub const CONTAINER_FS_SIGNALS: Behavior = Behavior::since(31, 0, "KEP-4191, beta");
    /// A pod that is evicted at a hard threshold gets one second of grace instead of none.
    pub const HARD_EVICTION_HAS_GRACE: Behavior = Behavior::since_about(30, "between 1.28 and 1.32");
    /// A pod that is evicted at a soft threshold gets no more grace than its own spec requests.
    pub const SOFT_EVICTION_RESPECTS_POD: Behavior = Behavior::since_about(33, "newer snapshots read");
    /// After reclaiming, thresholds include their minimum reclaim.
    pub const RECHECK_ENFORCES_MINIMUM_RECLAIM: Behavior = Behavior::since_about(30, "between 1.28 and 1.32");
}

/// Names of feature gates.
pub mod gate {
    /// Use and records of images are kept per runtime handler. Alpha, off by default.
    pub const RUNTIME_CLASS_IN_IMAGE_CRI_API: &str = "RuntimeClassInImageCriApi";
    /// `imageMaximumGCAge` can be set.
    pub const IMAGE_MAXIMUM_GC_AGE: &str = "ImageMaximumGCAge";
    /// Images can be mounted as volumes.
    pub const IMAGE_VOLUME: &str = "ImageVolume";
    /// Pulls with secrets are recorded.
    pub const ENSURE_SECRET_PULLED_IMAGES: &str = "KubeletEnsureSecretPulledImages";
    /// Image and container file systems can be split.
    pub const SEPARATE_DISK_GC: &str = "KubeletSeparateDiskGC";
}

/// The behavior of a kubelet of one version, with its feature gates.
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
    /// The behavior of a version with no gate set.
    #[must_use]
    pub fn new(version: KubernetesVersion) -> Self {
        Self::with_gates(version, &BTreeMap::new())
    }

    /// The behavior of a version with these gates set. A gate that the version does not know changes nothing.
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
