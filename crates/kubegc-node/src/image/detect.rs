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
    /// A clone of each image's `Arc`, by index in the listing. They are made while the images are in the CPU
    /// cache.
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
}

/// Updates the records ([N3.5](crate::rules#n3-5) to [N3.13](crate::rules#n3-13)). `first_detected` is the
/// value for new records, `now` is the time after the listings were read.
///
/// # Errors
/// A required listing is missing, or a container has neither an image reference nor an image id. The records
/// are returned unchanged.
pub(super) fn detect(
    policy: &Policy,
    records: Records,
    inventory: &Inventory,
    first_detected: Option<Timestamp>,
    now: Timestamp,
    findings: &mut Vec<Kept<Subject, Reason>>,
) -> Result<Detected, (Records, Error)> {
    let (images, in_use) = match images_and_use(policy, inventory) {
        Ok(images_and_use) => images_and_use,
        Err(error) => return Err((records, error)),
    };
    let keys = Keys::new(policy, images);
    let shared = images.iter().map(|image| Some(Arc::clone(image))).collect();
    let fields = keys.fields(images, &in_use);
    let sorted = keys.sorted(&fields);
    let mut detected = Detected {
        records: Records {
            sorted: Vec::with_capacity(sorted.len()),
            detected: records.detected,
        },
        listed: Vec::with_capacity(sorted.len()),
        shared,
    };
    let mut old = records.sorted.into_iter().peekable();
    let key_of = |keyed: &Keyed| fields[keyed.at as usize].key;
    for same in sorted.chunk_by(|a, b| a.prefix == b.prefix && key_of(a) == key_of(b)) {
        let ([first, ..], [.., last]) = (same, same) else {
            continue;
        };
        let last_fields = &fields[last.at as usize];
        let key = last_fields.key;
        if same.len() > 1 {
            findings.push(Kept {
                object: Subject::Image(Arc::clone(&images[last.at as usize])),
                reason: Reason::Repeated,
            });
        }
        let is_known = |record: &Record| std::ptr::eq(&*record.key, key) || *record.key == *key;
        let known = loop {
            match old.peek() {
                Some(record) if is_known(record) => break old.next(),
                // Records of images that are no longer listed are dropped.
                Some(record) if *record.key < *key => drop(old.next()),
                Some(_) | None => break None,
            }
        };
        let mut record = known.unwrap_or_else(|| Record {
            key: keys.shared(last.at),
            first_detected,
            last_used: None,
            size_bytes: 0,
            pinned: false,
            // The handler of a record is that of its first image.
            runtime_handler: keys.handler(first.at),
        });
        if last_fields.in_use {
            record.last_used = Some(now);
        }
        record.size_bytes = last_fields.size_bytes;
        record.pinned = last_fields.pinned && policy.semantics.version.has(behavior::PINNED_IMAGES_ARE_KEPT);
        detected.records.sorted.push(record);
        detected.listed.push(Listed {
            at: last.at,
            first_at: first.at,
            in_use: last_fields.in_use,
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

/// The record keys of the listed images.
struct Keys<'a> {
    images: &'a [Arc<Image>],
    /// The keys with runtime handlers, for every image; empty if keys are ids.
    composed: Vec<Arc<str>>,
    /// The length in bytes of the common prefix of all keys.
    common: usize,
    /// Whether records contain the runtime handler.
    record_handlers: bool,
}

/// The sort key of a listed image.
#[derive(Clone, Copy)]
struct Keyed {
    /// The eight bytes after the common prefix, so that most comparisons need no text.
    prefix: u64,
    at: u32,
}

impl<'a> Keys<'a> {
    fn new(policy: &Policy, images: &'a [Arc<Image>]) -> Self {
        let composed = if policy.semantics.per_runtime_handler {
            images.iter().map(|image| key(image)).collect()
        } else {
            Vec::new()
        };
        let mut keys = Self {
            images,
            composed,
            common: 0,
            record_handlers: policy
                .semantics
                .version
                .has(behavior::RUNTIME_HANDLER_IS_RECORDED),
        };
        if let Some(first) = images.first().map(|_| keys.text(0)) {
            keys.common = (1..images.len()).fold(first.len(), |common, at| {
                let text = keys.text(index(at)).as_bytes();
                let same = first.as_bytes()[..common].iter().zip(text);
                same.take_while(|(a, b)| a == b).count()
            });
        }
        keys
    }

    fn text(&self, at: u32) -> &str {
        let at = at as usize;
        self.composed.get(at).unwrap_or(&self.images[at].id)
    }

    fn shared(&self, at: u32) -> Arc<str> {
        let at = at as usize;
        Arc::clone(self.composed.get(at).unwrap_or(&self.images[at].id))
    }

    fn handler(&self, at: u32) -> Arc<str> {
        if self.record_handlers {
            Arc::clone(&self.images[at as usize].runtime_handler)
        } else {
            Arc::default()
        }
    }

    /// The fields of each image that detection uses. They are read once, in the order of the listing, which
    /// is usually the order in memory.
    fn fields<'k>(&'k self, images: &[Arc<Image>], in_use: &InUse<'_>) -> Vec<Fields<'k>> {
        let fields = images.iter().enumerate().map(|(at, image)| {
            let key = self.text(index(at));
            Fields {
                key,
                size_bytes: image.size_bytes,
                pinned: image.pinned,
                in_use: !in_use.is_empty() && in_use.contains(key),
            }
        });
        fields.collect()
    }

    /// All images, sorted by key; duplicates keep the order of the listing.
    fn sorted(&self, fields: &[Fields<'_>]) -> Vec<Keyed> {
        let keyed = (0..).zip(fields).map(|(at, fields)| {
            let text = &fields.key.as_bytes()[self.common..];
            let mut prefix = [0; 8];
            let length = text.len().min(8);
            prefix[..length].copy_from_slice(&text[..length]);
            Keyed {
                prefix: u64::from_be_bytes(prefix),
                at,
            }
        });
        let mut keyed: Vec<Keyed> = keyed.collect();
        keyed.sort_unstable_by_key(|keyed| (keyed.prefix, keyed.at));
        let key = |keyed: &Keyed| fields[keyed.at as usize].key;
        for same in keyed.chunk_by_mut(|a, b| a.prefix == b.prefix) {
            // A stable sort, so that duplicates keep their order.
            same.sort_by(|a, b| key(a).cmp(key(b)));
        }
        keyed
    }
}

/// The fields of an image that detection uses.
struct Fields<'a> {
    key: &'a str,
    size_bytes: u64,
    pinned: bool,
    in_use: bool,
}

/// [N3.2](crate::rules#n3-2): the key of an image if records are kept per runtime handler.
fn key(image: &Image) -> Arc<str> {
    if image.runtime_handler.is_empty() {
        Arc::clone(&image.id)
    } else {
        format!("{},{}", image.id, image.runtime_handler).into()
    }
}

/// An index as 32 bits. Saturation cannot happen: four billion images do not fit into memory.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
