//! Converts images.

use std::sync::Arc;

use kubegc_core::node_facts::Image;

use super::{Keyed, entry_name, required};
use crate::bindings;

impl Keyed for Image {
    fn key(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.id), Arc::clone(&self.runtime_handler))
    }

    fn display_name(&self) -> String {
        image_name(
            self.tags.first().or(self.digests.first()).map(|name| &**name),
            &self.id,
        )
    }
}

/// Converts an image. The id is required. Placeholders such as `<none>:<none>`, which old runtimes list as
/// names, are dropped.
pub(crate) fn image(message: bindings::Image) -> Result<Image, String> {
    let tags = names(message.repo_tags);
    let digests = names(message.repo_digests);
    let entry = || image_name(tags.first().or(digests.first()).map(|name| &**name), "");
    let id = required(message.id, &entry, "id")?;
    if i64::try_from(message.size).is_err() {
        tracing::warn!(%id, size = message.size, "the size exceeds 63 bits; upstream reads it as a negative number");
    }
    Ok(Image {
        id,
        runtime_handler: message.spec.unwrap_or_default().runtime_handler.into(),
        size_bytes: message.size,
        pinned: message.pinned,
        tags,
        digests,
    })
}

/// The id of the image in the response to a reference. As upstream, an image without an id is an error.
pub(crate) fn image_id(
    reference: &str,
    message: Option<bindings::Image>,
) -> Result<Option<Arc<str>>, String> {
    let entry = || format!("image {reference}");
    message.map(|image| required(image.id, &entry, "id")).transpose()
}

/// Tags or digests, without placeholders.
fn names(names: Vec<String>) -> Vec<Arc<str>> {
    names
        .into_iter()
        .filter(|name| !name.contains("<none>"))
        .map(Arc::from)
        .collect()
}

fn image_name(name: Option<&str>, id: &str) -> String {
    match name {
        Some(name) => format!("image {name}"),
        None => entry_name("image", None, id.strip_prefix("sha256:").unwrap_or(id)),
    }
}
