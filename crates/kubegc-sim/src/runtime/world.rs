//! The state of a node: its parts, the allocation and release of bytes, and the events of passing time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{
    RuntimeError, Timestamp, Uid,
    node_facts::{Container, ContainerState, Pods, Sandbox},
};

use super::{
    call::{CallRecord, Request},
    disk::{Disks, Growth, Purpose},
    error::NodeError,
    image_store::{ImageKey, Images, OnDisk},
    judge::{self, Violation},
    log::LogTree,
    settings::{ListingOrder, NodeSettings},
    spec::{ContainerSpec, Layer},
    table::{Table, beginning_with},
};
use crate::rng::{Rng, mix};

#[derive(Clone, Debug)]
pub(super) struct ContainerRow {
    pub(super) facts: Arc<Container>,
    pub(super) spec: ContainerSpec,
    pub(super) image: Option<ImageKey>,
    pub(super) image_volumes: Vec<Arc<str>>,
    /// Layers that it retains: those of its image.
    pub(super) layers: Vec<Arc<str>>,
    pub(super) writable_bytes: u64,
    pub(super) log_path: Arc<str>,
    pub(super) writable_growth: Growth,
    pub(super) log_growth: Growth,
}

#[derive(Clone, Debug)]
pub(super) struct SandboxRow {
    pub(super) facts: Arc<Sandbox>,
    pub(super) containers: BTreeSet<u64>,
}

/// Bytes that are freed later.
#[derive(Clone, Debug)]
enum Pending {
    Layer(Arc<str>),
    Writable(u64),
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) settings: NodeSettings,
    pub(super) now: Timestamp,
    pub(super) disks: Disks,
    pub(super) images: Images,
    layers: BTreeMap<Arc<str>, OnDisk>,
    pending: BTreeMap<(Timestamp, u64), Pending>,
    pendings: u64,
    pub(super) containers: Table<ContainerRow>,
    pub(super) sandboxes: Table<SandboxRow>,
    /// Sandboxes by pod.
    pub(super) sandboxes_of: BTreeMap<Uid, BTreeSet<u64>>,
    /// Containers by the path of their log.
    pub(super) writers: BTreeMap<Arc<str>, u64>,
    /// Running containers that write.
    growing: BTreeSet<u64>,
    pub(super) other_growth: Growth,
    pub(super) logs: LogTree,
    pub(super) pods: Pods,
    ids: Rng,
    shuffles: Rng,
    pub(super) calls: Vec<CallRecord>,
    pub(super) violations: Vec<Violation>,
}

impl World {
    pub(super) fn new(settings: NodeSettings, now: Timestamp) -> Self {
        let seed = settings.seed;
        Self {
            now,
            disks: Disks::new(settings.capacity_bytes, settings.layout),
            images: Images::default(),
            layers: BTreeMap::new(),
            pending: BTreeMap::new(),
            pendings: 0,
            containers: Table::default(),
            sandboxes: Table::default(),
            sandboxes_of: BTreeMap::new(),
            writers: BTreeMap::new(),
            growing: BTreeSet::new(),
            other_growth: Growth::default(),
            logs: LogTree::default(),
            pods: Pods {
                known: BTreeMap::new(),
                sources_ready: true,
                synced: true,
            },
            ids: Rng::new(seed),
            shuffles: Rng::new(mix(seed)),
            calls: Vec::new(),
            violations: Vec::new(),
            settings,
        }
    }

    // Time.

    /// Processes all events until a time, in order. One step for each release of bytes.
    pub(super) fn settle(&mut self, now: Timestamp) {
        while let Some(((due, _), _)) = self.pending.first_key_value()
            && *due <= now
        {
            self.grow_until(*due);
            if let Some((_, pending)) = self.pending.pop_first() {
                self.free(pending);
            }
        }
        self.grow_until(now);
    }

    /// Writes the bytes of running containers and other processes until a time, while there is space.
    fn grow_until(&mut self, until: Timestamp) {
        let elapsed = until.since(self.now);
        self.now = self.now.max(until);
        if elapsed.is_zero() {
            return;
        }
        let other_bytes = self.other_growth.over(elapsed);
        self.disks.take_some(Purpose::Other, other_bytes);
        for key in &self.growing {
            let Some(row) = self.containers.get_mut(*key) else {
                continue;
            };
            let bytes = row.writable_growth.over(elapsed);
            let taken = self.disks.take_some(Purpose::Writable, bytes);
            row.writable_bytes = row.writable_bytes.saturating_add(taken);
            let bytes = row.log_growth.over(elapsed);
            if self.logs.has_file(&row.log_path) {
                let taken = self.disks.take_some(Purpose::Logs, bytes);
                self.logs.add_file(Arc::clone(&row.log_path), taken);
            }
        }
    }

    // Bytes.

    fn free(&mut self, pending: Pending) {
        match pending {
            Pending::Layer(digest) => {
                if let Some(layer) = self.layers.remove(&digest) {
                    self.disks.give(Purpose::Layers, layer.size_bytes);
                }
            }
            Pending::Writable(bytes) => {
                self.disks.give(Purpose::Writable, bytes);
            }
        }
    }

    /// Frees something, now or later; returns the time.
    fn free_later(&mut self, pending: Pending) -> Option<(Timestamp, u64)> {
        if self.settings.frees_after.is_zero() {
            self.free(pending);
            return None;
        }
        self.pendings += 1;
        let due = (self.now.saturating_add(self.settings.frees_after), self.pendings);
        self.pending.insert(due, pending);
        Some(due)
    }

    pub(super) fn pending_bytes(&self) -> u64 {
        let bytes = self.pending.values().map(|pending| match pending {
            Pending::Layer(digest) => self.layers.get(digest).map_or(0, |layer| layer.size_bytes),
            Pending::Writable(bytes) => *bytes,
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// Writes missing layers to disk and retains all layers. Changes nothing if they do not fit.
    pub(super) fn add_layers(&mut self, layers: &[Layer]) -> Result<Vec<Arc<str>>, NodeError> {
        let mut wanted_bytes: u64 = 0;
        for layer in layers {
            match self.layers.get(&layer.digest) {
                None => wanted_bytes = wanted_bytes.saturating_add(layer.size_bytes),
                Some(known) if known.size_bytes == layer.size_bytes => {}
                Some(known) => {
                    return Err(NodeError::LayerSize {
                        digest: Arc::clone(&layer.digest),
                        known_bytes: known.size_bytes,
                        given_bytes: layer.size_bytes,
                    });
                }
            }
        }
        self.disks.take(Purpose::Layers, wanted_bytes)?;
        for layer in layers {
            self.layers.entry(Arc::clone(&layer.digest)).or_insert(OnDisk {
                size_bytes: layer.size_bytes,
                holders: 0,
                due: None,
            });
        }
        let digests: Vec<_> = layers.iter().map(|layer| Arc::clone(&layer.digest)).collect();
        self.hold(&digests);
        Ok(digests)
    }

    /// Retains layers on disk, including those that were about to be freed.
    pub(super) fn hold(&mut self, digests: &[Arc<str>]) {
        for digest in digests {
            if let Some(layer) = self.layers.get_mut(digest) {
                layer.holders += 1;
                if let Some(due) = layer.due.take() {
                    self.pending.remove(&due);
                }
            }
        }
    }

    /// Releases layers; unused layers are freed.
    pub(super) fn release(&mut self, digests: &[Arc<str>]) {
        for digest in digests {
            let Some(layer) = self.layers.get_mut(digest) else {
                continue;
            };
            layer.holders = layer.holders.saturating_sub(1);
            if layer.holders == 0 {
                let due = self.free_later(Pending::Layer(Arc::clone(digest)));
                if let Some(layer) = self.layers.get_mut(digest) {
                    layer.due = due;
                }
            }
        }
    }

    pub(super) fn release_writable(&mut self, bytes: u64) {
        if bytes > 0 {
            self.free_later(Pending::Writable(bytes));
        }
    }

    // Random values.

    /// 64 lower-case hex digits.
    pub(super) fn draw_id(&mut self) -> Arc<str> {
        let lanes: [u64; 4] = std::array::from_fn(|_| self.ids.bits());
        let text: String = lanes.iter().map(|lane| format!("{lane:016x}")).collect();
        text.into()
    }

    /// A random UUID.
    pub(super) fn draw_uid(&mut self) -> Uid {
        let bits = u128::from(self.ids.bits()) << 64 | u128::from(self.ids.bits());
        let mut bytes = bits.to_be_bytes();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uid::from_uuid(bytes)
    }

    /// A listing, in the order of the settings.
    pub(super) fn listing<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        if self.settings.listing_order == ListingOrder::Shuffled {
            for last in (1..items.len()).rev() {
                let other = self.shuffles.below(last as u64 + 1) as usize;
                items.swap(last, other);
            }
        }
        items
    }

    // States.

    pub(super) fn set_container_state(&mut self, key: u64, state: ContainerState) {
        if let Some(row) = self.containers.get_mut(key) {
            Arc::make_mut(&mut row.facts).state = state;
        }
        self.note_growth(key);
    }

    /// Records whether a container writes from now on.
    pub(super) fn note_growth(&mut self, key: u64) {
        let writes = self.containers.get(key).is_some_and(|row| {
            let grows = row.writable_growth.bytes_per_hour > 0 || row.log_growth.bytes_per_hour > 0;
            grows && row.facts.state == ContainerState::Running
        });
        if writes {
            self.growing.insert(key);
        } else {
            self.growing.remove(&key);
        }
    }

    /// Containers whose log path has this prefix.
    pub(super) fn writers_below<'a>(&'a self, beginning: &'a str) -> impl Iterator<Item = &'a ContainerRow> {
        beginning_with(&self.writers, beginning)
            .filter(move |_| !beginning.is_empty())
            .filter_map(|(_, key)| self.containers.get(*key))
    }

    // Calls.

    /// Performs a call, records it, and checks it for violations.
    pub(super) fn perform<T>(
        &mut self,
        request: Request<'_>,
        work: impl FnOnce(&mut Self) -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        let harms = judge::harms(self, request);
        let result = work(self);
        let target: Arc<str> = request.target.into();
        if result.is_ok() {
            self.violations.extend(harms.into_iter().map(|harm| Violation {
                at: self.now,
                operation: request.operation,
                target: Arc::clone(&target),
                harm,
            }));
        }
        self.calls.push(CallRecord {
            at: self.now,
            operation: request.operation,
            target,
            grace_seconds: request.grace_seconds,
            runtime_handler: request.runtime_handler.into(),
            outcome: result.as_ref().map(|_| ()).map_err(Clone::clone),
        });
        result
    }
}
