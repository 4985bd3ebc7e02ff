//! Images in the form of the runtime's list.

use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Image {
    /// Id in the runtime, such as `sha256:…`.
    pub id: Arc<str>,
    /// Handler of the image; empty if the runtime does not report it.
    pub runtime_handler: Arc<str>,
    /// Size that the runtime reports. Shared layers count in every image with them.
    pub size_bytes: u64,
    /// Whether the runtime reports it as pinned.
    pub pinned: bool,
    /// Tags, such as `registry.example/shop/web:1.4`.
    pub tags: Vec<Arc<str>>,
    /// Digests, such as `registry.example/shop/web@sha256:…`.
    pub digests: Vec<Arc<str>>,
}

impl Image {
    /// An image of this size without tags.
    pub fn new(id: &str, size_bytes: u64) -> Self {
        Self {
            id: id.into(),
            size_bytes,
            ..Self::default()
        }
    }

    /// The name for users: its first tag, else its first digest, else its id.
    pub fn name(&self) -> &str {
        self.tags.first().or(self.digests.first()).unwrap_or(&self.id)
    }
}
