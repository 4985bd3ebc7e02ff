//! Events that the kubelet records, and the rules for when a failed run causes one
//! ([N1.11](crate::rules#n1-11) to [N1.15](crate::rules#n1-15)).

names! {
    /// The value of an event's field `type`.
    pub enum EventKind {
        Normal = "Normal";
        Warning = "Warning";
    }
}

/// An event that a kubelet would record, on its node unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Event {
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub kind: EventKind,
    pub reason: &'static str,
    pub message: String,
}

impl Event {
    /// Creates an event of type `Warning`.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: EventKind::Warning,
            reason,
            message: message.into(),
        }
    }

    /// Creates an event of type `Normal`.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: EventKind::Normal,
            reason,
            message: message.into(),
        }
    }
}

/// Reasons of upstream's events.
pub mod reason {
    /// A run of the container loop failed.
    pub const CONTAINER_GC_FAILED: &str = "ContainerGCFailed";
    /// A run of the image loop failed, and so did the one before.
    pub const IMAGE_GC_FAILED: &str = "ImageGCFailed";
    /// A run of the image loop freed less than required.
    pub const FREE_DISK_SPACE_FAILED: &str = "FreeDiskSpaceFailed";
    /// The capacity of the image file system is zero.
    pub const INVALID_DISK_CAPACITY: &str = "InvalidDiskCapacity";
    /// A container is stopped. The event's object is the pod.
    pub const KILLING: &str = "Killing";
    /// A node under pressure starts to reclaim resources.
    pub const EVICTION_THRESHOLD_MET: &str = "EvictionThresholdMet";
    /// An image record without an id was skipped; upstream does not fill in the verb.
    pub const IMAGE_ID_IS_NOT_VALID: &str = "ImageID is not valid, skipping, ImageID: %v";
}

/// The report of a finished run of a loop.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoopReport {
    pub event: Option<Event>,
    /// Whether the run succeeded and the one before failed. Upstream logs that at level 1 instead of 4.
    pub recovered: bool,
}

/// The result of the last run of each loop, which determines whether a failure causes an event.
///
/// Each failed run of the container loop causes an event. A failed run of the image loop causes one only if
/// the one before failed too.
///
/// # Upstream
/// `StartGarbageCollection` in
/// [`kubelet.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kubelet.go), 1.20 to
/// 1.36.
///
/// # Examples
/// ```
/// use kubegc_node::LoopHealth;
/// let mut health = LoopHealth::default();
/// assert_eq!(health.images_finished(Some("no room")).event, None);
/// let again = health.images_finished(Some("no room")).event;
/// assert_eq!(again.map(|event| event.reason), Some("ImageGCFailed"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoopHealth {
    containers_failed: bool,
    images_failed: bool,
}

impl LoopHealth {
    /// Records the end of a run of the container loop, with its error if it failed.
    pub fn containers_finished(&mut self, error: Option<&str>) -> LoopReport {
        let failed_before = std::mem::replace(&mut self.containers_failed, error.is_some());
        LoopReport {
            event: error.map(|error| Event::warning(reason::CONTAINER_GC_FAILED, error)),
            recovered: failed_before && error.is_none(),
        }
    }

    /// Records the end of a run of the image loop, with its error if it failed.
    pub fn images_finished(&mut self, error: Option<&str>) -> LoopReport {
        let failed_before = std::mem::replace(&mut self.images_failed, error.is_some());
        LoopReport {
            event: error
                .filter(|_| failed_before)
                .map(|error| Event::warning(reason::IMAGE_GC_FAILED, error)),
            recovered: failed_before && error.is_none(),
        }
    }
}
