//! Events on the node, and the rules for failed runs that cause one ([N1.11](crate::rules#n1-11) to
//! [N1.15](crate::rules#n1-15)).

/// The type of an event.
#[expect(clippy::exhaustive_enums, reason = "Kubernetes has these two types")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

impl EventKind {
    /// The value of the event's field `type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event that a kubelet would record, on its node unless stated otherwise.
#[expect(
    clippy::exhaustive_structs,
    reason = "the fields of upstream's event of a node"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The type.
    pub kind: EventKind,
    /// The reason, one of [`reason`].
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl Event {
    /// Creates a warning.
    #[must_use]
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: EventKind::Warning,
            reason,
            message: message.into(),
        }
    }

    /// Creates a normal event.
    #[must_use]
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
    /// A container run failed.
    pub const CONTAINER_GC_FAILED: &str = "ContainerGCFailed";
    /// An image run failed for at least the second time in a row.
    pub const IMAGE_GC_FAILED: &str = "ImageGCFailed";
    /// An image run freed less than it should have.
    pub const FREE_DISK_SPACE_FAILED: &str = "FreeDiskSpaceFailed";
    /// The image file system has no capacity.
    pub const INVALID_DISK_CAPACITY: &str = "InvalidDiskCapacity";
    /// A container is being stopped. The event is about the pod.
    pub const KILLING: &str = "Killing";
    /// A node under pressure starts to reclaim.
    pub const EVICTION_THRESHOLD_MET: &str = "EvictionThresholdMet";
    /// An image record without an id was skipped; upstream does not fill in the verb.
    pub const IMAGE_ID_IS_NOT_VALID: &str = "ImageID is not valid, skipping, ImageID: %v";
}

/// The report about a finished run of a loop.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoopReport {
    /// The event to record.
    pub event: Option<Event>,
    /// The run succeeded after a failed one: upstream logs it at level 1 instead of 4.
    pub recovered: bool,
}

/// The result of the last run of each loop, which determines whether a failure causes an event.
///
/// Each failed container run causes one, a failed image run only if the previous one failed too.
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
    /// A run over containers, sandboxes and logs ended, with this error if any.
    pub fn containers_finished(&mut self, error: Option<&str>) -> LoopReport {
        let failed_before = std::mem::replace(&mut self.containers_failed, error.is_some());
        LoopReport {
            event: error.map(|error| Event::warning(reason::CONTAINER_GC_FAILED, error)),
            recovered: failed_before && error.is_none(),
        }
    }

    /// A run over images ended, with this error if any.
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
