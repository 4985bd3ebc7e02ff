//! Laws of bytes, for any sequence of operations on a node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kubegc_core::{LogDirectory, Runtime};
use kubegc_sim::{
    ContainerSpec, ImageSpec, NodeSettings, PodSpec, SimNode,
    runtime::{FileSystemRole, Layout, pod_log_entry},
};
use proptest::{prelude::*, sample::Index};

use crate::node::{clock, now};

const LAYERS: [u64; 6] = [100, 70, 40, 25, 10, 0];

fn layer(index: usize) -> (String, u64) {
    (format!("layer-{index}"), LAYERS[index])
}

/// An image on the layers whose bits are set.
fn image(layers: u8) -> ImageSpec {
    let indices = (0..LAYERS.len()).filter(|index| layers & (1 << index) != 0);
    indices.map(layer).fold(
        ImageSpec::new(&format!("family/{layers}:1")),
        |image, (digest, bytes)| image.layer(&digest, bytes),
    )
}

/// The bytes of all layers that one of these has.
fn distinct_bytes(images: impl Iterator<Item = u8>) -> u64 {
    let union = images.fold(0, |all, layers| all | layers);
    let indices = (0..LAYERS.len()).filter(|index| union & (1 << index) != 0);
    indices.map(|index| LAYERS[index]).sum()
}

#[derive(Clone, Debug)]
enum Event {
    Pull(u8),
    RemoveImage(Index),
    RunPod(Index, u64, u64),
    Restart(Index),
    Exit(Index),
    RemoveContainer(Index),
    RemoveSandbox(Index),
    DeletePod(Index),
    RemoveEntry(Index),
    RemoveLogs(Index),
    WriteLayer(Index, u64),
    WriteLog(Index, u64),
    Rotate(Index),
    Fill(FileSystemRole, u64),
    Clear(FileSystemRole, u64),
    Advance(u64),
}

fn event() -> impl Strategy<Value = Event> {
    use Event::*;
    let index = any::<Index>;
    let role = || {
        prop::sample::select(vec![
            FileSystemRole::Node,
            FileSystemRole::Images,
            FileSystemRole::Containers,
        ])
    };
    let bytes = || 0_u64..120;
    prop_oneof![
        3 => (0_u8..64).prop_map(Pull),
        1 => index().prop_map(RemoveImage),
        3 => (index(), bytes(), bytes()).prop_map(|(image, layer, log)| RunPod(image, layer, log)),
        2 => index().prop_map(Restart),
        1 => index().prop_map(Exit),
        1 => index().prop_map(RemoveContainer),
        1 => index().prop_map(RemoveSandbox),
        1 => index().prop_map(DeletePod),
        1 => index().prop_map(RemoveEntry),
        1 => index().prop_map(RemoveLogs),
        2 => (index(), bytes()).prop_map(|(id, bytes)| WriteLayer(id, bytes)),
        2 => (index(), bytes()).prop_map(|(id, bytes)| WriteLog(id, bytes)),
        1 => index().prop_map(Rotate),
        1 => (role(), bytes()).prop_map(|(role, bytes)| Fill(role, bytes)),
        1 => (role(), bytes()).prop_map(|(role, bytes)| Clear(role, bytes)),
        1 => (0_u64..40).prop_map(Advance),
    ]
}

fn layout() -> impl Strategy<Value = Layout> {
    let capacity_bytes = 600;
    prop::sample::select(vec![
        Layout::Shared,
        Layout::DedicatedImages { capacity_bytes },
        Layout::SplitImages { capacity_bytes },
    ])
}

/// The bytes that the test itself counts.
#[derive(Default)]
struct Ledger {
    /// Layers by image id.
    images: BTreeMap<Arc<str>, u8>,
    /// By container.
    writable: BTreeMap<Arc<str>, u64>,
    /// By log path, with its rotated copies.
    logs: BTreeMap<Arc<str>, u64>,
    others: u64,
}

fn chosen<T: Clone>(index: &Index, from: &[T]) -> Option<T> {
    (!from.is_empty()).then(|| index.get(from).clone())
}

impl Ledger {
    fn apply(&mut self, node: &SimNode, event: &Event) {
        let containers = node.all_containers();
        let container = |index: &Index| chosen(index, &containers).map(|container| container.id.clone());
        let sandbox = |index: &Index| chosen(index, &node.all_sandboxes());
        match event {
            Event::Pull(layers) => {
                if let Ok(id) = node.pull(&image(*layers)) {
                    self.images.insert(id, *layers);
                }
            }
            Event::RemoveImage(index) => {
                if let Some(image) = chosen(index, &node.all_images()) {
                    now(node.remove_image(&image.id, "")).unwrap();
                }
            }
            Event::RunPod(index, writable_bytes, log_bytes) => {
                let Some(image) = chosen(index, &node.all_images()) else {
                    return;
                };
                let (writable_bytes, log_bytes) = (*writable_bytes, *log_bytes);
                let spec = ContainerSpec {
                    writable_bytes,
                    log_bytes,
                    ..ContainerSpec::new("app", &image.id)
                };
                let before = node.usage().logs_bytes;
                if let Ok(pod) = node.run_pod(&PodSpec::new("shop", "web").container(spec)) {
                    self.started(node, &pod.container_ids[0], writable_bytes, before);
                }
            }
            Event::Restart(index) => {
                let Some(id) = container(index) else { return };
                let before = node.usage();
                if let Ok(next) = node.restart_container(&id) {
                    let taken = node.usage().writable_bytes - before.writable_bytes;
                    self.started(node, &next, taken, before.logs_bytes);
                }
            }
            Event::Exit(index) => {
                if let Some(id) = container(index) {
                    let _ = node.exit_container(&id);
                }
            }
            Event::RemoveContainer(index) => {
                if let Some(id) = container(index) {
                    now(node.remove_container(&id)).unwrap();
                }
            }
            Event::RemoveSandbox(index) => {
                if let Some(sandbox) = sandbox(index) {
                    now(node.remove_sandbox(&sandbox.id)).unwrap();
                }
            }
            Event::DeletePod(index) => {
                if let Some(sandbox) = sandbox(index) {
                    node.delete_pod(&sandbox.pod.uid).unwrap();
                }
            }
            Event::RemoveEntry(index) => {
                if let Some(sandbox) = sandbox(index) {
                    let entry = pod_log_entry(&sandbox.pod);
                    now(node.remove_pod_entry(&entry)).unwrap();
                    self.logs.retain(|path, _| !path.contains(&entry));
                }
            }
            Event::RemoveLogs(index) => {
                if let Some(path) = container(index).and_then(|id| node.log_path(&id)) {
                    now(node.remove_container_logs(&path)).unwrap();
                    self.logs.remove(&path);
                }
            }
            Event::WriteLayer(index, bytes) => {
                if let Some(id) = container(index) {
                    let taken = node.write_layer(&id, *bytes).unwrap();
                    *self.writable.entry(id).or_default() += taken;
                }
            }
            Event::WriteLog(index, bytes) => {
                if let Some(id) = container(index) {
                    let taken = node.write_log(&id, *bytes).unwrap();
                    let path = node.log_path(&id).unwrap();
                    *self.logs.entry(path).or_default() += taken;
                }
            }
            Event::Rotate(index) => {
                if let Some(id) = container(index) {
                    let _ = node.rotate_log(&id);
                }
            }
            Event::Fill(role, bytes) => self.others += node.fill(*role, *bytes),
            Event::Clear(role, bytes) => self.others -= node.clear(*role, *bytes),
            Event::Advance(seconds) => node.clock().advance(Duration::from_secs(*seconds)),
        }
    }

    fn started(&mut self, node: &SimNode, id: &Arc<str>, writable_bytes: u64, logs_before: u64) {
        self.writable.insert(id.clone(), writable_bytes);
        let path = node.log_path(id).unwrap();
        *self.logs.entry(path).or_default() += node.usage().logs_bytes - logs_before;
    }

    /// The node's bytes are those that were counted.
    fn check(&mut self, node: &SimNode, settings: &NodeSettings) -> Result<(), TestCaseError> {
        let containers = node.all_containers();
        let ids: BTreeSet<_> = containers.iter().map(|container| container.id.clone()).collect();
        self.writable.retain(|id, _| ids.contains(id));
        let present = node.all_images();
        let held = present.iter().map(|image| &image.id);
        let held = held.chain(containers.iter().map(|container| &container.image.reference));
        let layers = distinct_bytes(held.map(|id| self.images[id]));
        let writable: u64 = self.writable.values().sum();
        let usage = node.usage();

        prop_assert_eq!(
            usage.layers_bytes + usage.writable_bytes - usage.pending_bytes,
            layers + writable
        );
        prop_assert_eq!(usage.logs_bytes, self.logs.values().sum::<u64>());
        prop_assert_eq!(usage.other_bytes, self.others);
        if settings.frees_after.is_zero() {
            prop_assert_eq!((usage.pending_bytes, usage.layers_bytes), (0, layers));
        }
        for image in present {
            prop_assert_eq!(
                image.size_bytes,
                distinct_bytes([self.images[&image.id]].into_iter())
            );
        }
        let [on_node, on_images] = [FileSystemRole::Node, FileSystemRole::Images].map(|role| {
            let reported = node.file_system(role);
            (
                reported.capacity_bytes.unwrap(),
                reported.available_bytes.unwrap(),
            )
        });
        for (capacity, available) in [on_node, on_images] {
            prop_assert!(available <= capacity);
        }
        let all = usage.layers_bytes + usage.writable_bytes + usage.logs_bytes + usage.other_bytes;
        let used = on_node.0 - on_node.1;
        let used = match settings.layout {
            Layout::Shared => used,
            _ => used + on_images.0 - on_images.1,
        };
        prop_assert_eq!(used, all);
        Ok(())
    }
}

proptest! {
    #[test]
    fn bytes_in_use_are_those_of_the_existing_objects(
        events in prop::collection::vec(event(), 1..60),
        layout in layout(),
        lazy in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let frees_after = Duration::from_secs(if lazy { 30 } else { 0 });
        let settings = NodeSettings { capacity_bytes: 700, layout, frees_after, seed, ..NodeSettings::default() };
        let (node, again) = (SimNode::new(clock(), settings.clone()), SimNode::new(clock(), settings.clone()));
        let mut ledger = Ledger::default();
        for event in &events {
            ledger.apply(&node, event);
            ledger.check(&node, &settings)?;
        }
        node.clock().advance(frees_after);
        prop_assert_eq!(node.usage().pending_bytes, 0);
        ledger.check(&node, &settings)?;
        // With equal calls another node is equal, including the order of its listings.
        let mut repeated = Ledger::default();
        for event in &events {
            repeated.apply(&again, event);
        }
        again.clock().advance(frees_after);
        prop_assert_eq!(now(node.containers()), now(again.containers()));
        prop_assert_eq!(node.usage(), again.usage());
        prop_assert_eq!(node.violations(), again.violations());
    }

    #[test]
    fn images_with_common_layers_free_each_layer_once_in_any_order(
        (family, order) in prop::collection::btree_set(1_u8..64, 1..12).prop_flat_map(|family| {
            let all: Vec<_> = family.iter().copied().collect();
            (Just(family), Just(all).prop_shuffle())
        }),
    ) {
        let node = SimNode::new(clock(), NodeSettings::default());
        let available = || node.file_system(FileSystemRole::Images).available_bytes.unwrap();
        let empty = available();
        for layers in &family {
            node.pull(&image(*layers)).unwrap();
        }
        prop_assert_eq!(empty - available(), distinct_bytes(family.iter().copied()));
        let mut left: BTreeSet<u8> = family.clone();
        for layers in order {
            let before = available();
            let id = node.pull(&image(layers)).unwrap();
            let size = node.image(&id).unwrap().size_bytes;
            now(node.remove_image(&id, "")).unwrap();
            let with = distinct_bytes(left.iter().copied());
            left.remove(&layers);
            let freed = available() - before;
            prop_assert!(freed <= size);
            prop_assert_eq!(freed, with - distinct_bytes(left.iter().copied()));
        }
        prop_assert_eq!(available(), empty);
    }
}
