//! Images.

use std::sync::Arc;

use kubegc_core::node_facts::Image;

use super::{Flaw, Listed, called, required};
use crate::bindings;

impl Listed for Image {
    fn key(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.id), Arc::clone(&self.runtime_handler))
    }

    fn called(&self) -> String {
        image_called(
            self.tags.first().or(self.digests.first()).map(|name| &**name),
            &self.id,
        )
    }
}

/// Reads an image. It must have an id; placeholders of old runtimes are no names.
pub(crate) fn image(wire: bindings::Image) -> Result<Image, Flaw> {
    let tags = names(wire.repo_tags);
    let digests = names(wire.repo_digests);
    let entry = || image_called(tags.first().or(digests.first()).map(|name| &**name), "");
    let id = required(wire.id, &entry, "id")?;
    if i64::try_from(wire.size).is_err() {
        tracing::warn!(%id, size = wire.size, "a size beyond 63 bits, which upstream reads as a negative one");
    }
    Ok(Image {
        id,
        runtime_handler: wire.spec.unwrap_or_default().runtime_handler.into(),
        size_bytes: wire.size,
        pinned: wire.pinned,
        tags,
        digests,
    })
}

/// The id of a reference's image. As upstream, an image without an id is an error.
pub(crate) fn image_id(reference: &str, wire: Option<bindings::Image>) -> Result<Option<Arc<str>>, Flaw> {
    let entry = || format!("image {reference}");
    wire.map(|image| required(image.id, &entry, "id")).transpose()
}

/// Tags or digests, without placeholders.
fn names(names: Vec<String>) -> Vec<Arc<str>> {
    names
        .into_iter()
        .filter(|name| !name.contains("<none>"))
        .map(Arc::from)
        .collect()
}

fn image_called(name: Option<&str>, id: &str) -> String {
    match name {
        Some(name) => format!("image {name}"),
        None => called("image", None, id.strip_prefix("sha256:").unwrap_or(id)),
    }
}
