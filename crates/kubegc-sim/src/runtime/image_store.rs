//! Images of a node and their shared layers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::node_facts::Image;

use super::spec::{ImageSpec, Layer};
use crate::rng::mix;

/// The identity of an image: the same content may exist once for each handler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ImageKey {
    pub(super) id: Arc<str>,
    pub(super) handler: Arc<str>,
}

#[derive(Clone, Debug)]
pub(super) struct ImageRow {
    pub(super) facts: Arc<Image>,
    pub(super) layers: Vec<Arc<str>>,
    pub(super) arrival: u64,
}

/// Images, by key and by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Images {
    rows: BTreeMap<ImageKey, ImageRow>,
    /// By tag or digest, and handler.
    names: BTreeMap<(Arc<str>, Arc<str>), ImageKey>,
    arrivals: u64,
}

impl Images {
    pub(super) fn get(&self, key: &ImageKey) -> Option<&ImageRow> {
        self.rows.get(key)
    }

    /// In the order of their arrival.
    pub(super) fn list(&self) -> Vec<Arc<Image>> {
        let mut rows: Vec<_> = self.rows.values().collect();
        rows.sort_by_key(|row| row.arrival);
        rows.into_iter().map(|row| Arc::clone(&row.facts)).collect()
    }

    /// The image of this handler with an id, tag or digest.
    pub(super) fn find(&self, reference: &str, handler: &str) -> Option<ImageKey> {
        let (reference, handler) = (Arc::from(reference), Arc::from(handler));
        let key = ImageKey {
            id: Arc::clone(&reference),
            handler: Arc::clone(&handler),
        };
        if self.rows.contains_key(&key) {
            return Some(key);
        }
        self.names.get(&(reference, handler)).cloned()
    }

    /// The image with an id, tag or digest: that of the default handler first.
    pub(super) fn find_any(&self, reference: &str) -> Option<ImageKey> {
        let first = (Arc::from(reference), Arc::default());
        let key = ImageKey {
            id: Arc::clone(&first.0),
            handler: Arc::default(),
        };
        let by_id = self.rows.range(key..).next().map(|(key, _)| key);
        let by_name = self.names.range(first..).next();
        let by_name = by_name.filter(|((name, _), _)| **name == *reference);
        by_id
            .filter(|key| *key.id == *reference)
            .or(by_name.map(|(_, key)| key))
            .cloned()
    }

    /// Adds an image that does not exist.
    pub(super) fn insert(&mut self, key: ImageKey, facts: Image, layers: Vec<Arc<str>>) {
        for name in facts.tags.iter().chain(&facts.digests) {
            self.rename(name, &key);
        }
        self.arrivals += 1;
        let row = ImageRow {
            facts: Arc::new(facts),
            layers,
            arrival: self.arrivals,
        };
        self.rows.insert(key, row);
    }

    /// Assigns a name to an image, and removes it from its previous image.
    fn rename(&mut self, name: &Arc<str>, key: &ImageKey) {
        let index = (Arc::clone(name), Arc::clone(&key.handler));
        let before = self.names.insert(index, key.clone());
        if let Some(row) = before
            .filter(|before| before != key)
            .and_then(|before| self.rows.get_mut(&before))
        {
            let facts = Arc::make_mut(&mut row.facts);
            facts.tags.retain(|tag| tag != name);
            facts.digests.retain(|digest| digest != name);
        }
    }

    /// Adds names to an existing image, and pins it if requested.
    pub(super) fn add_names(
        &mut self,
        key: &ImageKey,
        tag: Option<&Arc<str>>,
        digest: Option<Arc<str>>,
        pinned: bool,
    ) {
        for name in tag.into_iter().chain(&digest) {
            self.rename(name, key);
        }
        let Some(row) = self.rows.get_mut(key) else {
            return;
        };
        let facts = Arc::make_mut(&mut row.facts);
        let add = |names: &mut Vec<Arc<str>>, name: &Arc<str>| {
            if !names.contains(name) {
                names.push(Arc::clone(name));
            }
        };
        if let Some(tag) = tag {
            add(&mut facts.tags, tag);
        }
        if let Some(digest) = &digest {
            add(&mut facts.digests, digest);
        }
        facts.pinned |= pinned;
    }

    /// Removes an image with all its names.
    pub(super) fn remove(&mut self, key: &ImageKey) -> Option<ImageRow> {
        let row = self.rows.remove(key)?;
        for name in row.facts.tags.iter().chain(&row.facts.digests) {
            self.names.remove(&(Arc::clone(name), Arc::clone(&key.handler)));
        }
        Some(row)
    }
}

/// A layer on disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnDisk {
    pub(super) size_bytes: u64,
    /// Number of images and containers that use it.
    pub(super) holders: u64,
}

/// Layers of an image, each digest once.
pub(super) fn distinct(layers: &[Layer]) -> Vec<Layer> {
    let mut seen = BTreeSet::new();
    let first = layers.iter().filter(|layer| seen.insert(&layer.digest));
    first.cloned().collect()
}

/// 256 bits that are derived from a seed and some strings, in lower-case hex.
fn content_hex<'a>(seed: u64, texts: impl Iterator<Item = &'a str>) -> String {
    let mut lanes: [u64; 4] = std::array::from_fn(|lane| mix(seed ^ ((lane as u64 + 1) << 56)));
    for text in texts {
        for byte in text.bytes().map(u64::from).chain([0x100]) {
            for lane in &mut lanes {
                *lane = mix(lane.wrapping_add(byte).wrapping_add(0x9e37_79b9_7f4a_7c15));
            }
        }
    }
    lanes.iter().map(|lane| format!("{lane:016x}")).collect()
}

pub(super) fn image_id(seed: u64, layers: &[Layer]) -> Arc<str> {
    let digests = layers.iter().map(|layer| &*layer.digest);
    format!("sha256:{}", content_hex(seed, digests)).into()
}

/// The digest of an image in the repository of its tag.
pub(super) fn repository_digest(seed: u64, spec: &ImageSpec, id: &str) -> Option<Arc<str>> {
    if spec.tag.is_empty() {
        return None;
    }
    let repository = match spec.tag.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => &spec.tag,
    };
    let hex = content_hex(!seed, [id].into_iter());
    Some(format!("{repository}@sha256:{hex}").into())
}
