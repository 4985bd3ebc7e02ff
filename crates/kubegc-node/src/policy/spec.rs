//! The settings of a kubelet's configuration and flags, not validated.

use std::collections::BTreeMap;

use crate::GoDuration;

/// The settings of a kubelet that affect garbage collection, not validated.
/// [`Policy::new`](super::Policy::new) validates them.
///
/// `Default` is upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// Usage of the image file system, in percent, from which images are removed to free space. Default 85;
    /// 100 disables the loop (but see [`switches`](super::switches)). Field `imageGCHighThresholdPercent`,
    /// flag `--image-gc-high-threshold`.
    pub image_gc_high_threshold_percent: i32,
    /// Usage, in percent, down to which space is freed. Default 80. Field `imageGCLowThresholdPercent`, flag
    /// `--image-gc-low-threshold`.
    pub image_gc_low_threshold_percent: i32,
    /// Time since the first detection of an image for which it is not removed to free space. Default 2
    /// minutes. Field `imageMinimumGCAge`, flag `--minimum-image-ttl-duration`.
    pub image_minimum_gc_age: GoDuration,
    /// Time since its last use after which an image is removed; zero: never. Default zero. Field
    /// `imageMaximumGCAge`.
    pub image_maximum_gc_age: GoDuration,
    /// Age since creation below which a dead container is kept. Default zero. Flag
    /// `--minimum-container-ttl-duration`.
    pub minimum_container_ttl: GoDuration,
    /// Dead containers kept for each pod and container name; negative: no limit
    /// ([N1.32](crate::rules#n1-32)). Default 1. Flag `--maximum-dead-containers-per-container`.
    pub maximum_dead_containers_per_container: i32,
    /// Dead containers kept on the node; negative: no limit. Default -1. Flag `--maximum-dead-containers`.
    pub maximum_dead_containers: i32,
    /// The feature gates that are set, by name.
    pub feature_gates: BTreeMap<String, bool>,
    /// Directory of pod logs. Default `/var/log/pods`. Field `podLogsDir`.
    pub pod_logs_directory: String,
    /// Hard thresholds: pods are evicted without a grace period. For example `nodefs.available` to `10%`.
    /// Field `evictionHard`.
    pub eviction_hard: BTreeMap<String, String>,
    /// Soft thresholds: pods are evicted after a grace period. Field `evictionSoft`.
    pub eviction_soft: BTreeMap<String, String>,
    /// The grace periods of [`eviction_soft`](Self::eviction_soft). Field `evictionSoftGracePeriod`.
    pub eviction_soft_grace_period: BTreeMap<String, GoDuration>,
    /// The amount beyond a threshold that must be reclaimed. Field `evictionMinimumReclaim`.
    pub eviction_minimum_reclaim: BTreeMap<String, String>,
}

impl Default for PolicySpec {
    fn default() -> Self {
        let hard = [
            ("memory.available", "100Mi"),
            ("nodefs.available", "10%"),
            ("nodefs.inodesFree", "5%"),
            ("imagefs.available", "15%"),
            ("imagefs.inodesFree", "5%"),
        ];
        Self {
            image_gc_high_threshold_percent: 85,
            image_gc_low_threshold_percent: 80,
            image_minimum_gc_age: GoDuration::from_secs(120),
            image_maximum_gc_age: GoDuration::ZERO,
            minimum_container_ttl: GoDuration::ZERO,
            maximum_dead_containers_per_container: 1,
            maximum_dead_containers: -1,
            feature_gates: BTreeMap::new(),
            pod_logs_directory: "/var/log/pods".to_owned(),
            eviction_hard: hard
                .into_iter()
                .map(|(signal, value)| (signal.to_owned(), value.to_owned()))
                .collect(),
            eviction_soft: BTreeMap::new(),
            eviction_soft_grace_period: BTreeMap::new(),
            eviction_minimum_reclaim: BTreeMap::new(),
        }
    }
}
