//! Events that the kubelet records.

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
