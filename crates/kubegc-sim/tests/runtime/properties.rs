//! Laws of bytes, for any sequence of operations on a node, and drawn faults.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{LogDirectory, Runtime, RuntimeError};
use kubegc_sim::{
    ContainerSpec, FaultyRuntime, ImageSpec, NodeSettings, PodSpec, SimNode,
    runtime::{Fault, FaultPlan},
};
use proptest::{prelude::*, sample::Index};

use crate::node::{clock, free, node, now};

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
    RunPod(Index, u64),
    Restart(Index),
    RemoveContainer(Index),
    RemoveSandbox(Index),
    RemoveEntry(Index),
    RemoveLogs(Index),
    WriteLog(Index, u64),
    Fill(u64),
}

fn event() -> impl Strategy<Value = Event> {
    use Event::*;
    let index = any::<Index>;
    let bytes = || 0_u64..120;
    prop_oneof![
        3 => (0_u8..64).prop_map(Pull),
        1 => index().prop_map(RemoveImage),
        3 => (index(), bytes()).prop_map(|(image, log)| RunPod(image, log)),
        2 => index().prop_map(Restart),
        1 => index().prop_map(RemoveContainer),
        1 => index().prop_map(RemoveSandbox),
        1 => index().prop_map(RemoveEntry),
        1 => index().prop_map(RemoveLogs),
        2 => (index(), bytes()).prop_map(|(id, bytes)| WriteLog(id, bytes)),
        1 => bytes().prop_map(Fill),
    ]
}

/// The bytes that the test itself counts.
#[derive(Default)]
struct Ledger {
    /// Layers by image id.
    images: BTreeMap<Arc<str>, u8>,
    /// By log path.
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
        let before = free(node);
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
            Event::RunPod(index, log_bytes) => {
                let Some(image) = chosen(index, &node.all_images()) else {
                    return;
                };
                let spec = ContainerSpec {
                    log_bytes: *log_bytes,
                    ..ContainerSpec::new("app", &image.id)
                };
                let pod = node
                    .run_pod(&PodSpec::new("shop", "web").container(spec))
                    .unwrap();
                self.started(node, &pod.container_ids[0], before);
            }
            Event::Restart(index) => {
                let Some(id) = container(index) else { return };
                if let Ok(next) = node.restart_container(&id) {
                    self.started(node, &next, before);
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
            Event::RemoveEntry(index) => {
                if let Some(sandbox) = sandbox(index) {
                    let entry = format!("shop_web_{}", sandbox.pod.uid);
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
            Event::WriteLog(index, bytes) => {
                if let Some(id) = container(index) {
                    let taken = node.write_log(&id, *bytes).unwrap();
                    *self.logs.entry(node.log_path(&id).unwrap()).or_default() += taken;
                }
            }
            Event::Fill(bytes) => self.others += node.fill(*bytes),
        }
    }

    fn started(&mut self, node: &SimNode, id: &Arc<str>, free_before: u64) {
        let path = node.log_path(id).unwrap();
        *self.logs.entry(path).or_default() += free_before - free(node);
    }

    /// The node's bytes are those that were counted.
    fn check(&self, node: &SimNode, capacity_bytes: u64) -> Result<(), TestCaseError> {
        let (images, containers) = (node.all_images(), node.all_containers());
        let held = images.iter().map(|image| &image.id);
        let held = held.chain(containers.iter().map(|container| &container.image.reference));
        let layers = distinct_bytes(held.map(|id| self.images[id]));
        prop_assert_eq!(node.file_system().used_bytes, Some(layers));
        let all = layers + self.logs.values().sum::<u64>() + self.others;
        prop_assert_eq!(free(node), capacity_bytes - all);
        Ok(())
    }
}

proptest! {
    #[test]
    fn bytes_in_use_are_those_of_the_existing_objects(
        events in prop::collection::vec(event(), 1..60),
        seed in any::<u64>(),
    ) {
        let settings = NodeSettings { capacity_bytes: 700, seed };
        let (node, again) = (SimNode::new(clock(), settings.clone()), SimNode::new(clock(), settings));
        let (mut ledger, mut repeated) = (Ledger::default(), Ledger::default());
        for event in &events {
            ledger.apply(&node, event);
            ledger.check(&node, 700)?;
            // With equal calls another node is equal, including the order of its listings.
            repeated.apply(&again, event);
        }
        prop_assert_eq!(now(node.containers()), now(again.containers()));
        prop_assert_eq!(node.violations(), again.violations());
    }
}

#[test]
fn a_plan_draws_faults_from_its_seed() {
    let drawn = |seed| {
        let plan = FaultPlan {
            seed,
            faults_per_mille: 300,
            faults: vec![Fault::Refuse(RuntimeError::refused("device busy"))],
            ..FaultPlan::default()
        };
        let faulty = FaultyRuntime::new(node(), plan);
        let calls = (0..100).map(|_| now(faulty.images()).is_err());
        calls.collect::<Vec<bool>>()
    };
    assert_ne!(drawn(1), drawn(2));
}
