//! Detection: updates the records from a listing, and determines the images in use.

use std::{borrow::Cow, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use kubegc_core::{
    Kept, Timestamp,
    node_facts::{Container, Image},
};

use super::{Error, Policy, Reason, Record, Records, Subject};
use crate::{Inventory, semantics::behavior};

/// The updated records, and the data of each record in the listing.
pub(super) struct Detected {
    pub(super) records: Records,
    /// One entry for each record, in the order of the records.
    pub(super) listed: Vec<Listed>,
    /// A clone of the `Arc` of each record's image. They are made while the images are in the CPU cache.
    pub(super) shared: Vec<Option<Arc<Image>>>,
}

/// The data of one record in the listing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    /// The index of the image in the listing; of duplicates the last one.
    pub(super) at: u32,
    /// The index of the first image with this key.
    pub(super) first_at: u32,
    pub(super) in_use: bool,
    /// Whether the key has an image id ([N3.2](crate::rules#n3-2), [N3.19](crate::rules#n3-19)).
    pub(super) has_id: bool,
}

/// Updates the records ([N3.5](crate::rules#n3-5) to [N3.13](crate::rules#n3-13)). `first_detected` is the
/// value for new records, `now` is the time after the listings were read.
///
/// # Errors
/// A required listing is missing, or a container has neither an image reference nor an image id.
pub(super) fn detect(
    policy: &Policy,
    records: &Records,
    inventory: &Inventory,
    first_detected: Option<Timestamp>,
    now: Timestamp,
    findings: &mut Vec<Kept<Subject, Reason>>,
) -> Result<Detected, Error> {
    let (images, in_use) = images_and_use(policy, inventory)?;
    let version = policy.semantics.version;
    let sorted = sort(fields(policy, images, &in_use));
    let mut detected = Detected {
        records: Records {
            sorted: Vec::with_capacity(sorted.len()),
            detected: records.detected,
        },
        listed: Vec::with_capacity(sorted.len()),
        shared: Vec::with_capacity(sorted.len()),
    };
    let mut old = records.sorted.iter().peekable();
    for image in sorted {
        if image.at != image.first_at {
            findings.push(Kept {
                object: Subject::Image(Arc::clone(&image.shared)),
                reason: Reason::Repeated,
            });
        }
        let known = loop {
            match old.peek() {
                // Equal pointers need no text.
                Some(record) if Arc::ptr_eq(&record.key, &image.key) || record.key == image.key => {
                    break old.next();
                }
                // Records of images that are no longer listed are dropped.
                Some(record) if record.key < image.key => old.next(),
                Some(_) | None => break None,
            };
        };
        let runtime_handler = match known {
            Some(record) => Arc::clone(&record.runtime_handler),
            // The handler of a record is that of its first image.
            None if version.has(behavior::RUNTIME_HANDLER_IS_RECORDED) => {
                Arc::clone(&images[image.first_at as usize].runtime_handler)
            }
            None => Arc::default(),
        };
        detected.shared.push(Some(image.shared));
        detected.listed.push(Listed {
            at: image.at,
            first_at: image.first_at,
            in_use: image.in_use,
            has_id: image.has_id,
        });
        detected.records.sorted.push(Record {
            key: image.key,
            first_detected: known.map_or(first_detected, |record| record.first_detected),
            last_used: if image.in_use {
                Some(now)
            } else {
                known.and_then(|record| record.last_used)
            },
            size_bytes: image.size_bytes,
            pinned: image.pinned && version.has(behavior::PINNED_IMAGES_ARE_KEPT),
            runtime_handler,
        });
    }
    Ok(detected)
}

type InUse<'a> = HashSet<Cow<'a, str>, FixedState>;

/// The listed images, and the keys of images in use. Missing listings are reported in upstream's order.
fn images_and_use<'a>(
    policy: &Policy,
    inventory: &'a Inventory,
) -> Result<(&'a [Arc<Image>], InUse<'a>), Error> {
    let semantics = &policy.semantics;
    let images = inventory
        .images
        .as_ref()
        .map_err(|error| Error::ListImages(error.clone()))?;
    let containers = inventory
        .containers
        .as_ref()
        .map_err(|error| Error::ListPods(error.clone()))?;
    let mut in_use = InUse::default();
    for container in containers {
        let Some(key) = image_key(policy, container) else {
            let unknown = containers
                .iter()
                .filter(|container| image_key(policy, container).is_none());
            // Reports the first one by id, so that the order of the listing is irrelevant.
            let first = unknown.min_by_key(|container| &container.id).unwrap_or(container);
            return Err(Error::UseUnknown(Arc::clone(first)));
        };
        in_use.insert(key);
    }
    if semantics.image_volumes {
        match &inventory.image_volumes {
            Ok(volumes) => in_use.extend(volumes.iter().map(|id| Cow::Borrowed(&**id))),
            Err(error) => return Err(Error::ImageVolumes(error.clone())),
        }
    }
    if !semantics.version.has(behavior::SANDBOX_IMAGE_IS_NOT_PROTECTED)
        && let Some(id) = inventory.sandbox_image.as_deref().filter(|id| !id.is_empty())
    {
        in_use.insert(Cow::Borrowed(id));
    }
    Ok((images, in_use))
}

/// [N3.6](crate::rules#n3-6), [N3.7](crate::rules#n3-7): the key of a container's image; `None` if unknown. A
/// dead container uses its image too.
fn image_key<'a>(policy: &Policy, container: &'a Container) -> Option<Cow<'a, str>> {
    let image = &container.image;
    let by_id = policy.semantics.version.has(behavior::IMAGE_ID_IDENTIFIES_USE) && !image.id.is_empty();
    let identity = if by_id { &image.id } else { &image.reference };
    if identity.is_empty() {
        return None;
    }
    if policy.semantics.per_runtime_handler && !image.runtime_handler.is_empty() {
        return Some(Cow::Owned(format!("{identity},{}", image.runtime_handler)));
    }
    Some(Cow::Borrowed(identity))
}

/// The fields of a listed image that detection uses.
struct Fields {
    shared: Arc<Image>,
    key: Arc<str>,
    size_bytes: u64,
    at: u32,
    /// The index of the first image with this key.
    first_at: u32,
    pinned: bool,
    in_use: bool,
    has_id: bool,
}

/// The fields of each image. They are read once, in the order of the listing, which is usually the order in
/// memory.
fn fields(policy: &Policy, images: &[Arc<Image>], in_use: &InUse<'_>) -> Vec<Fields> {
    let fields = (0..).zip(images).map(|(at, image)| {
        let key = if policy.semantics.per_runtime_handler {
            key(image)
        } else {
            Arc::clone(&image.id)
        };
        Fields {
            shared: Arc::clone(image),
            in_use: !in_use.is_empty() && in_use.contains(&*key),
            // The id ends at the first comma.
            has_id: !matches!(key.as_bytes().first(), None | Some(b',')),
            key,
            size_bytes: image.size_bytes,
            at,
            first_at: at,
            pinned: image.pinned,
        }
    });
    fields.collect()
}

/// The sort key of a listed image.
struct Keyed {
    /// The eight bytes of the key after the common prefix of all keys, so that most comparisons need no text.
    prefix: u64,
    at: u32,
    first_at: u32,
}

/// Sorts by key. Of duplicates it keeps the last one.
fn sort(fields: Vec<Fields>) -> Vec<Fields> {
    let text = |at: u32| fields[at as usize].key.as_bytes();
    let common = common_prefix(&fields);
    let keyed = fields.iter().map(|image| Keyed {
        prefix: prefix(&image.key.as_bytes()[common..]),
        at: image.at,
        first_at: image.at,
    });
    let mut keyed: Vec<Keyed> = keyed.collect();
    keyed.sort_unstable_by_key(|keyed| keyed.prefix);
    for same in keyed.chunk_by_mut(|a, b| a.prefix == b.prefix) {
        same.sort_unstable_by(|a, b| text(a.at).cmp(text(b.at)).then(a.at.cmp(&b.at)));
    }
    keyed.dedup_by(|next, kept| {
        let is_duplicate = next.prefix == kept.prefix && text(next.at) == text(kept.at);
        if is_duplicate {
            kept.at = next.at;
        }
        is_duplicate
    });
    // The fields are moved once, because they are larger than the sort keys.
    let mut fields: Vec<Option<Fields>> = fields.into_iter().map(Some).collect();
    let mut sorted = Vec::with_capacity(keyed.len());
    sorted.extend(keyed.iter().filter_map(|keyed| {
        let fields = fields[keyed.at as usize].take()?;
        Some(Fields {
            first_at: keyed.first_at,
            ..fields
        })
    }));
    sorted
}

/// The length in bytes of the common prefix of all keys.
fn common_prefix(fields: &[Fields]) -> usize {
    let mut common = fields.first().map_or(&[][..], |first| first.key.as_bytes());
    for key in fields.iter().map(|image| image.key.as_bytes()) {
        if !key.starts_with(common) {
            let same = common.iter().zip(key).take_while(|(a, b)| a == b);
            common = &common[..same.count()];
        }
    }
    common.len()
}

/// The first eight bytes of a text as a number.
fn prefix(text: &[u8]) -> u64 {
    let mut prefix = [0; 8];
    let length = text.len().min(8);
    prefix[..length].copy_from_slice(&text[..length]);
    u64::from_be_bytes(prefix)
}

/// [N3.2](crate::rules#n3-2): the key of an image if records are kept per runtime handler.
fn key(image: &Image) -> Arc<str> {
    if image.runtime_handler.is_empty() {
        Arc::clone(&image.id)
    } else {
        format!("{},{}", image.id, image.runtime_handler).into()
    }
}
