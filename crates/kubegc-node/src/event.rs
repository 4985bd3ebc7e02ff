//! Decides which events on the node a collector reports, and when a failed pass is worth one.

/// How serious an event is.
#[expect(clippy::exhaustive_enums, reason = "Kubernetes has these two types")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// Something happened.
    Normal,
    /// Something is wrong.
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

/// An event that a kubelet would record, on its node unless said otherwise.
#[expect(
    clippy::exhaustive_structs,
    reason = "all that upstream gives an event of a node"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// How serious it is.
    pub kind: EventKind,
    /// Why, in one word: one of [`reason`].
    pub reason: &'static str,
    /// What happened, for people.
    pub message: String,
}

impl Event {
    /// A warning.
    #[must_use]
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: EventKind::Warning,
            reason,
            message: message.into(),
        }
    }

    /// A normal event.
    #[must_use]
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: EventKind::Normal,
            reason,
            message: message.into(),
        }
    }
}

/// Upstream's reasons of events about collection.
pub mod reason {
    /// A container pass failed.
    pub const CONTAINER_GC_FAILED: &str = "ContainerGCFailed";
    /// A second image pass in a row failed.
    pub const IMAGE_GC_FAILED: &str = "ImageGCFailed";
    /// An image pass freed less than it should have.
    pub const FREE_DISK_SPACE_FAILED: &str = "FreeDiskSpaceFailed";
    /// The image file system seems to hold nothing.
    pub const INVALID_DISK_CAPACITY: &str = "InvalidDiskCapacity";
    /// A container is being stopped. An event of the pod.
    pub const KILLING: &str = "Killing";
    /// A node under pressure begins to reclaim.
    pub const EVICTION_THRESHOLD_MET: &str = "EvictionThresholdMet";
    /// An image record without an id was passed over; upstream forgot to fill in the verb.
    pub const IMAGE_ID_IS_NOT_VALID: &str = "ImageID is not valid, skipping, ImageID: %v";
}

/// What the end of a pass of a loop calls for.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoopReport {
    /// The event to record.
    pub event: Option<Event>,
    /// The pass succeeded after one that failed: upstream logs it at level 1 instead of 4.
    pub recovered: bool,
}

/// How the last pass of each loop ended: decides whether a failure is worth an event.
///
/// A container pass that failed is worth one every time, an image pass only where the one before failed too.
///
/// # Upstream
/// `StartGarbageCollection` in `kubelet.go`, 1.20 to 1.36.
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
    /// A pass over containers, sandboxes and logs ended, with this error if any.
    pub fn containers_finished(&mut self, error: Option<&str>) -> LoopReport {
        let failed_before = std::mem::replace(&mut self.containers_failed, error.is_some());
        LoopReport {
            event: error.map(|error| Event::warning(reason::CONTAINER_GC_FAILED, error)),
            recovered: failed_before && error.is_none(),
        }
    }

    /// A pass over images ended, with this error if any.
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
