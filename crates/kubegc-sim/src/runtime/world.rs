//! The state of a node: its parts, and the allocation and release of bytes.

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
    disk::{Disk, Purpose},
    error::NodeError,
    image_store::{ImageKey, Images, OnDisk},
    judge::{self, Violation},
    log::LogTree,
    settings::NodeSettings,
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
    pub(super) log_path: Arc<str>,
}

#[derive(Clone, Debug)]
pub(super) struct SandboxRow {
    pub(super) facts: Arc<Sandbox>,
    pub(super) containers: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) now: Timestamp,
    pub(super) disk: Disk,
    pub(super) images: Images,
    layers: BTreeMap<Arc<str>, OnDisk>,
    pub(super) containers: Table<ContainerRow>,
    pub(super) sandboxes: Table<SandboxRow>,
    /// Sandboxes by pod.
    pub(super) sandboxes_of: BTreeMap<Uid, BTreeSet<u64>>,
    /// Containers by the path of their log.
    pub(super) writers: BTreeMap<Arc<str>, u64>,
    pub(super) logs: LogTree,
    pub(super) pods: Pods,
    ids: Rng,
    shuffles: Rng,
    pub(super) calls: Vec<CallRecord>,
    pub(super) violations: Vec<Violation>,
}

impl World {
    pub(super) fn new(settings: &NodeSettings, now: Timestamp) -> Self {
        let seed = settings.seed;
        Self {
            now,
            disk: Disk::new(settings.capacity_bytes),
            images: Images::default(),
            layers: BTreeMap::new(),
            containers: Table::default(),
            sandboxes: Table::default(),
            sandboxes_of: BTreeMap::new(),
            writers: BTreeMap::new(),
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
            seed,
        }
    }

    // Bytes.

    /// Writes missing layers to disk and retains all layers. Changes nothing if they do not fit.
    pub(super) fn add_layers(&mut self, layers: &[Layer]) -> Result<Vec<Arc<str>>, NodeError> {
        let missing = layers
            .iter()
            .filter(|layer| !self.layers.contains_key(&layer.digest));
        let wanted_bytes = missing.map(|layer| layer.size_bytes).fold(0, u64::saturating_add);
        self.disk.take(Purpose::Layers, wanted_bytes)?;
        for layer in layers {
            self.layers.entry(Arc::clone(&layer.digest)).or_insert(OnDisk {
                size_bytes: layer.size_bytes,
                holders: 0,
            });
        }
        let digests: Vec<_> = layers.iter().map(|layer| Arc::clone(&layer.digest)).collect();
        self.hold(&digests);
        Ok(digests)
    }

    /// Retains layers on disk.
    pub(super) fn hold(&mut self, digests: &[Arc<str>]) {
        for digest in digests {
            if let Some(layer) = self.layers.get_mut(digest) {
                layer.holders += 1;
            }
        }
    }

    /// Releases layers; unused layers are freed.
    pub(super) fn release(&mut self, digests: &[Arc<str>]) {
        for digest in digests {
            let Some(layer) = self.layers.get_mut(digest) else {
                continue;
            };
            layer.holders -= 1;
            if layer.holders == 0 {
                self.disk.give(Purpose::Layers, layer.size_bytes);
                self.layers.remove(digest);
            }
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

    /// A listing in a different order each time, so that a caller cannot depend on it.
    pub(super) fn listing<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for last in (1..items.len()).rev() {
            let other = self.shuffles.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
        items
    }

    // States.

    pub(super) fn set_container_state(&mut self, key: u64, state: ContainerState) {
        if let Some(row) = self.containers.get_mut(key) {
            Arc::make_mut(&mut row.facts).state = state;
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
