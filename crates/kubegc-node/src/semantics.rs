//! The differences between kubelet versions.

use std::collections::BTreeMap;

use kubegc_core::{Behavior, KubernetesVersion};

/// The differences between versions, each with its first release.
pub mod behavior {
    use kubegc_core::Behavior;

    /// An unknown pod can be removed only once the pod workers have synced.
    pub const UNKNOWN_PODS_AWAIT_SYNC: Behavior = Behavior::since(22, 0, "pod workers, kubernetes #102344");
    /// The pod log directory is configurable, and error texts name the field.
    pub const POD_LOGS_DIRECTORY_IS_CONFIGURABLE: Behavior = Behavior::since(30, 0, "kubernetes #112957");
    /// An empty container status keeps a dangling log link.
    pub const EMPTY_STATUS_KEEPS_LINK: Behavior = Behavior::since(24, 0, "kuberuntime_gc.go of 1.24");
    pub const PINNED_IMAGES_ARE_KEPT: Behavior = Behavior::since(23, 0, "kubernetes #103299");
    /// New images of the first detection get its time; up to 1.28 they get the zero time: infinitely old
    /// ([N3.14](crate::rules#n3-14) to [N3.16](crate::rules#n3-16)).
    pub const FIRST_DETECTION_IS_NOW: Behavior = Behavior::since(29, 0, "kubernetes #119652");
    /// The kubelet does not protect the sandbox image: the runtime must pin it.
    pub const SANDBOX_IMAGE_IS_NOT_PROTECTED: Behavior = Behavior::since(29, 0, "kubernetes #118544");
    /// Image records contain the runtime handler, and the request that removes an image contains it too.
    pub const RUNTIME_HANDLER_IS_RECORDED: Behavior = Behavior::since(29, 0, "KEP-4216");
    /// Images can have a maximum age without use. Images are listed before the file system is measured.
    pub const MAXIMUM_AGE: Behavior = Behavior::since(29, 0, "KEP-4210");
    /// The feature gate of `imageMaximumGCAge` is on by default.
    pub const MAXIMUM_AGE_BY_DEFAULT: Behavior = Behavior::since(30, 0, "KEP-4210, beta");
    /// The image of a container is identified by its image id, if the runtime sets it.
    pub const IMAGE_ID_IDENTIFIES_USE: Behavior = Behavior::since(30, 0, "CRI image_id");
    /// The error of a run that freed too little contains the attempted and the eligible bytes.
    pub const REPORTS_ATTEMPTED_BYTES: Behavior = Behavior::since(26, 0, "image_gc_manager.go of 1.26");
    /// The error of a run that freed too little contains the disk usage.
    pub const REPORTS_DISK_USAGE: Behavior = Behavior::since(35, 0, "kubernetes #132578");
    /// Pull records are pruned after space was freed.
    pub const PULL_RECORDS_ARE_PRUNED: Behavior = Behavior::since(35, 0, "KEP-2535, beta");
    /// Images that are mounted as volumes count as used.
    pub const IMAGE_VOLUMES_COUNT_AS_USE: Behavior = Behavior::since(35, 0, "KEP-4639, on by default");
    /// Images and writable layers can be on different file systems.
    pub const SPLIT_FILE_SYSTEM: Behavior = Behavior::since(29, 0, "KEP-4191");
    /// The feature gate of the split is on by default.
    pub const SPLIT_FILE_SYSTEM_BY_DEFAULT: Behavior = Behavior::since(31, 0, "KEP-4191, beta");
    /// The `containerfs` signals exist.
    pub const CONTAINER_FS_SIGNALS: Behavior = Behavior::since(31, 0, "KEP-4191, beta");
    /// After a reclaim, thresholds are compared with their minimum reclaim added.
    pub const RECHECK_ENFORCES_MINIMUM_RECLAIM: Behavior = Behavior::since(22, 0, "kubernetes #99095");
}

/// The behavior of a kubelet of one version, with its feature gates.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Semantics {
    pub version: KubernetesVersion,
    /// Gate `RuntimeClassInImageCriApi`: image records are kept per runtime handler.
    pub per_runtime_handler: bool,
    /// Gate `ImageMaximumGCAge`: `imageMaximumGCAge` can be set.
    pub maximum_age: bool,
    /// Gate `ImageVolume`: images that are mounted as volumes count as used.
    pub image_volumes: bool,
    /// Gate `KubeletEnsureSecretPulledImages`: pull records are pruned.
    pub pull_records: bool,
    /// Gate `KubeletSeparateDiskGC`: images and writable layers can be on different file systems.
    pub separate_disk: bool,
}

impl Semantics {
    /// Creates the behavior of a version with the default feature gates.
    pub fn new(version: KubernetesVersion) -> Self {
        Self::with_gates(version, &BTreeMap::new())
    }

    /// Creates the behavior of a version with these feature gates. Gates that the version does not have are
    /// ignored.
    pub fn with_gates(version: KubernetesVersion, gates: &BTreeMap<String, bool>) -> Self {
        let gate = |name: &str, minor_min: u16, by_default: Option<Behavior>| {
            let default = by_default.is_some_and(|behavior| version.has(behavior));
            version.minor() >= minor_min && gates.get(name).copied().unwrap_or(default)
        };
        let (age, volumes) = (
            behavior::MAXIMUM_AGE_BY_DEFAULT,
            behavior::IMAGE_VOLUMES_COUNT_AS_USE,
        );
        let (pulls, split) = (
            behavior::PULL_RECORDS_ARE_PRUNED,
            behavior::SPLIT_FILE_SYSTEM_BY_DEFAULT,
        );
        Self {
            version,
            per_runtime_handler: gate("RuntimeClassInImageCriApi", 29, None),
            maximum_age: gate("ImageMaximumGCAge", 29, Some(age)),
            image_volumes: gate("ImageVolume", 31, Some(volumes)),
            pull_records: gate("KubeletEnsureSecretPulledImages", 33, Some(pulls)),
            separate_disk: gate("KubeletSeparateDiskGC", 29, Some(split)),
        }
    }
}

impl Default for Semantics {
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}
