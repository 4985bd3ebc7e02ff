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
    /// Upstream's, such as `FreeDiskSpaceFailed`.
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
