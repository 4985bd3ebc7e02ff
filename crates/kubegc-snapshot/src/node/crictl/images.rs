//! One entry of `crictl images`.

use std::sync::Arc;

use kubegc_core::node_facts::Image;

use super::{Outcome, short};
use crate::node::{fields::Entry, finding::NodeProblem};

/// Reads an image. An unreadable one is left out: an image that is not listed is not removed.
pub(crate) fn read(entry: &mut Entry<'_, '_>) -> Outcome<Image> {
    let id = entry.peek(&["id"]).unwrap_or("?");
    let name = ["repoTags", "repoDigests"]
        .into_iter()
        .find_map(|list| entry.peek_list(list)?.first()?.as_str());
    entry.call(match name {
        Some(name) => format!("image {name}"),
        None => format!("image {}", short(id.strip_prefix("sha256:").unwrap_or(id))),
    });
    let image = Image {
        id: entry.shared(&["id"]),
        runtime_handler: entry.shared(&["spec", "runtimeHandler"]),
        size_bytes: 0,
        pinned: entry.flag(&["pinned"]).unwrap_or(false),
        tags: names(entry, "repoTags"),
        digests: names(entry, "repoDigests"),
    };
    if image.id.is_empty() {
        entry.missing(&["id"]);
    }
    let size_bytes = entry.number::<u64>(&["size"]);
    match size_bytes {
        None => entry.missing(&["size"]),
        Some(size) if i64::try_from(size).is_err() => entry.note(
            NodeProblem::Implausible,
            &["size"],
            &format!("{size} bytes are beyond 63 bits, which upstream reads as a negative size"),
        ),
        Some(_) => {}
    }
    if entry.flaw().is_some() {
        return Outcome::LeftOut;
    }
    Outcome::Sure(Image {
        size_bytes: size_bytes.unwrap_or(0),
        ..image
    })
}

/// Tags or digests, without the placeholders of old runtimes.
fn names(entry: &mut Entry<'_, '_>, field: &str) -> Vec<Arc<str>> {
    let mut names = entry.texts(&[field]);
    names.retain(|name| !name.contains("<none>"));
    names
}
