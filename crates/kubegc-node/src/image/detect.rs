//! Detection: updates the records from a listing, and determines the images in use.

use std::{borrow::Cow, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use kubegc_core::{
    Kept, Timestamp,
    node_facts::{Container, Image},
};

use super::{Error, FreeSpace, Reason, Record, Records, Subject};
use crate::{Inventory, semantics::behavior};

/// The updated records, and the listed image of each.
pub(super) struct Detected {
    pub(super) records: Records,
    /// One entry for each record, in the order of the records.
    pub(super) listed: Vec<Listed>,
}

/// The listed image of one record.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    /// The image; of duplicates the last one.
    pub(super) image: Arc<Image>,
    /// The index of the first image with this key.
    pub(super) first_at: usize,
    /// Whether the key has an image id ([N3.2](crate::rules#n3-2), [N3.19](crate::rules#n3-19)).
    pub(super) has_id: bool,
    pub(super) state: ImageState,
}

/// The state of a listed image in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ImageState {
    NotConsidered,
    Removed,
    Kept(Reason),
}

impl ImageState {
    /// The state of an image before any removal ([N3.17](crate::rules#n3-17) to [N3.19](crate::rules#n3-19)).
    pub(super) const fn new(policy: &FreeSpace, in_use: bool, pinned: bool, has_id: bool) -> Self {
        if in_use {
            Self::Kept(Reason::InUse)
        } else if pinned {
            Self::Kept(Reason::Pinned)
        } else if policy.semantics.per_runtime_handler && !has_id {
            Self::Kept(Reason::InvalidId)
        } else {
            Self::NotConsidered
        }
    }
}

/// Updates the records ([N3.5](crate::rules#n3-5) to [N3.13](crate::rules#n3-13)). `first_detected` is the
/// value for new records, `now` is the time after the listings were read.
///
/// # Errors
/// A required listing is missing, or a container has neither an image reference nor an image id.
pub(super) fn detect(
    policy: &FreeSpace,
    records: &Records,
    inventory: &Inventory,
    first_detected: Option<Timestamp>,
    now: Timestamp,
    findings: &mut Vec<Kept<Subject, Reason>>,
) -> Result<Detected, Error> {
    let (images, in_use) = images_and_use(policy, inventory)?;
    let version = policy.semantics.version;
    let mut detected = Detected {
        records: Records {
            sorted: Vec::with_capacity(images.len()),
            detected: records.detected,
        },
        listed: Vec::with_capacity(images.len()),
    };
    // Sorted by key. Of duplicates the last one is used.
    let mut keyed: Vec<(Arc<str>, usize)> = images.iter().map(|image| key(policy, image)).zip(0..).collect();
    keyed.sort_unstable();
    for same in keyed.chunk_by(|(a, _), (b, _)| a == b) {
        let ((key, first_at), (_, at)) = (&same[0], &same[same.len() - 1]);
        let image = &images[*at];
        if at != first_at {
            findings.push(Subject::from(image).because(Reason::Repeated));
        }
        // Records of images that are no longer listed are dropped.
        let known = records.get(key);
        let runtime_handler = match known {
            Some(record) => Arc::clone(&record.runtime_handler),
            // The handler of a record is that of its first image.
            None if version.has(behavior::RUNTIME_HANDLER_IS_RECORDED) => {
                Arc::clone(&images[*first_at].runtime_handler)
            }
            None => Arc::default(),
        };
        let is_used = in_use.contains(&**key);
        let pinned = image.pinned && version.has(behavior::PINNED_IMAGES_ARE_KEPT);
        // The id ends at the first comma.
        let has_id = !matches!(key.as_bytes().first(), None | Some(b','));
        detected.listed.push(Listed {
            image: Arc::clone(image),
            first_at: *first_at,
            has_id,
            state: ImageState::new(policy, is_used, pinned, has_id),
        });
        detected.records.sorted.push(Record {
            key: Arc::clone(key),
            first_detected: known.map_or(first_detected, |record| record.first_detected),
            last_used: if is_used {
                Some(now)
            } else {
                known.and_then(|record| record.last_used)
            },
            size_bytes: image.size_bytes,
            pinned,
            runtime_handler,
        });
    }
    Ok(detected)
}

type InUse<'a> = HashSet<Cow<'a, str>, FixedState>;

/// The listed images, and the keys of images in use. Missing listings are reported in upstream's order.
fn images_and_use<'a>(
    policy: &FreeSpace,
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
fn image_key<'a>(policy: &FreeSpace, container: &'a Container) -> Option<Cow<'a, str>> {
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

/// [N3.2](crate::rules#n3-2): the key of an image's record.
fn key(policy: &FreeSpace, image: &Image) -> Arc<str> {
    if !policy.semantics.per_runtime_handler || image.runtime_handler.is_empty() {
        Arc::clone(&image.id)
    } else {
        format!("{},{}", image.id, image.runtime_handler).into()
    }
}
