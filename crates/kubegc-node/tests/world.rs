//! Building blocks of nodes for tests.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    KubernetesVersion, PlanOf, RuntimeError, Timestamp, Uid,
    node_facts::{
        Container, ContainerImage, ContainerState, FileSystem, Image, PodIdentity, PodState, Pods, Sandbox,
        SandboxState,
    },
};
use kubegc_node::{
    GoDuration, Inventory, Listing, Semantics,
    image::{FreeSpace, Record, Response, Run, Step},
};

/// Releases at both sides of the differences in the tables.
pub(crate) const RELEASES: [&str; 5] = ["1.20.2", "1.28.0", "1.29.0", "1.30.0", "1.36.0"];

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

pub(crate) fn seconds(seconds: i64) -> GoDuration {
    GoDuration::from_secs(seconds)
}

pub(crate) fn version(text: &str) -> KubernetesVersion {
    text.parse().expect("a version that is known")
}

pub(crate) fn release(text: &str) -> Semantics {
    Semantics::new(version(text))
}

pub(crate) fn gated(text: &str, gates: &[(&str, bool)]) -> Semantics {
    let gates = gates.iter().map(|&(name, on)| (name.to_owned(), on)).collect();
    Semantics::with_gates(version(text), &gates)
}

/// A pod whose name and uid are alike.
pub(crate) fn pod(uid: &str) -> PodIdentity {
    PodIdentity {
        uid: Uid::new(uid),
        namespace: "shop".into(),
        name: uid.into(),
    }
}

/// An ended container of pod `uid`.
pub(crate) fn dead(id: &str, uid: &str, name: &str, created: i64) -> Container {
    Container::new(id, pod(uid), name, ContainerState::Exited, at(created))
}

/// A container that uses an image.
pub(crate) fn user(id: &str, reference: &str, image_id: &str, handler: &str) -> Container {
    let image = ContainerImage {
        reference: reference.into(),
        id: image_id.into(),
        runtime_handler: handler.into(),
    };
    Container {
        image,
        ..dead(id, "user", id, 0)
    }
}

pub(crate) fn sandbox(id: &str, uid: &str, state: SandboxState, created: i64) -> Sandbox {
    Sandbox {
        id: id.into(),
        pod: pod(uid),
        attempt: 0,
        state,
        created_at: at(created),
        labels: BTreeMap::new(),
    }
}

pub(crate) fn image(id: &str, size_bytes: u64) -> Image {
    Image {
        id: id.into(),
        size_bytes,
        ..Image::default()
    }
}

/// A record of an image by key, second of first detection and second of last use.
pub(crate) fn record(key: &str, detected: Option<i64>, used: Option<i64>) -> Record {
    Record {
        key: key.into(),
        first_detected: detected.map(at),
        last_used: used.map(at),
        size_bytes: 0,
        pinned: false,
        runtime_handler: "".into(),
    }
}

pub(crate) fn file_system(capacity: u64, available: u64) -> FileSystem {
    FileSystem {
        capacity_bytes: Some(capacity),
        available_bytes: Some(available),
        ..FileSystem::default()
    }
}

/// Wraps the content of a listing.
#[expect(
    clippy::unnecessary_wraps,
    reason = "a listing that succeeded, next to failed ones"
)]
pub(crate) fn listed<T>(all: impl IntoIterator<Item = T>) -> Listing<Vec<Arc<T>>> {
    Ok(all.into_iter().map(Arc::new).collect())
}

/// Pods by uid, all sources ready and synced.
pub(crate) fn pods(known: &[(&str, PodState)]) -> Pods {
    Pods {
        known: known.iter().map(|&(uid, state)| (Uid::new(uid), state)).collect(),
        sources_ready: true,
        synced: true,
    }
}

/// A node on which everything was listed and nothing exists.
pub(crate) fn empty() -> Inventory {
    Inventory {
        containers: Ok(Vec::new()),
        sandboxes: Ok(Vec::new()),
        images: Ok(Vec::new()),
        image_volumes: Ok(Vec::new()),
        image_file_system: Ok(file_system(1_000, 500)),
        log_entries: Ok(Vec::new()),
        log_links: Ok(Vec::new()),
        pods: pods(&[]),
        image_gc_began_at: Timestamp::EPOCH,
        ..Inventory::default()
    }
}

/// A pod that was evicted and has not ended.
pub(crate) const EVICTED: PodState = PodState {
    evicted: true,
    deleted: false,
    terminated: false,
};

/// An image run with the listings of a node, which were read at `listed`. `remove` returns the result of each
/// removal.
pub(crate) fn image_run(
    policy: FreeSpace,
    node: &Inventory,
    [now, listed]: [Timestamp; 2],
    remove: impl Fn(&Image) -> Result<(), RuntimeError>,
) -> PlanOf<FreeSpace> {
    let records = node.image_records.clone();
    let mut run = Run::new(policy, records, node.image_gc_began_at, now);
    let mut response = None;
    loop {
        response = Some(match run.next(response) {
            Step::List => Response::Listed {
                inventory: node,
                at: listed,
            },
            Step::Measure => Response::Measured(node.image_file_system.clone()),
            Step::Remove(action) => Response::Removed(remove(&action.image)),
            Step::Done => return run.finish(),
        });
    }
}
