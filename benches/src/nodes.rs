//! The nodes on which upstream's figures were measured, from a fixed seed.

use std::{sync::Arc, time::Duration};

use kubegc::{
    core::{
        Timestamp,
        node_facts::{
            Container, ContainerImage, ContainerState, FileSystem, Image, PodIdentity, PodState, Pods,
        },
    },
    node::{
        Inventory,
        image::{FreeSpace, Response, Run, Step, Task},
    },
};

use crate::shapes::Random;

/// The time of the plans.
pub const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

/// Dead containers, ten per pod: two names, five attempts each. Ages are 1 to 25 hours, shuffled. Every tenth
/// pod no longer exists.
pub fn containers(count: usize) -> Inventory {
    let mut random = Random::new(count as u64);
    let mut pods = Pods {
        sources_ready: true,
        synced: true,
        ..Pods::default()
    };
    let mut containers = Vec::with_capacity(count);
    for pod in 0..count.div_ceil(10) {
        let uid = random.uid();
        let is_deleted = pod % 10 == 9;
        let state = if is_deleted {
            PodState::DELETED
        } else {
            PodState::ACTIVE
        };
        pods.known.insert(uid.clone(), state);
        for at in 0..10_u64.min((count - pod * 10) as u64) {
            let identity = PodIdentity {
                uid: uid.clone(),
                namespace: format!("team-{:03}", pod % 100).into(),
                name: format!("app-{pod:06}").into(),
            };
            let name = if at < 5 { "server" } else { "sidecar" };
            let age = Duration::from_nanos(3_600_000_000_000 + random.below(86_400_000_000_000));
            let id = hexadecimal(&mut random);
            let state = ContainerState::Exited;
            let mut container = Container::new(&id, identity, name, state, NOW.saturating_sub(age));
            container.attempt = (at % 5) as u32;
            container.image.reference = "sha256:0".into();
            containers.push(Arc::new(container));
        }
    }
    random.shuffle(&mut containers);
    Inventory {
        containers: Ok(containers),
        pods,
        ..Inventory::default()
    }
}

/// Images of random sizes, a tenth of them in use by pods with one container. Five detections with changing
/// use precede. The disk has twice the size of all images and is full.
pub fn images(count: usize, policy: FreeSpace) -> Inventory {
    let mut random = Random::new(count as u64);
    let images: Vec<Arc<Image>> = (0..count)
        .map(|_| {
            Arc::new(Image {
                id: format!("sha256:{}", hexadecimal(&mut random)).into(),
                size_bytes: 1_000_000 + random.below(1_000_000_000),
                ..Image::default()
            })
        })
        .collect();
    let total: u64 = images.iter().map(|image| image.size_bytes).sum();
    let mut inventory = Inventory {
        images: Ok(images.clone()),
        image_volumes: Ok(Vec::new()),
        image_file_system: Ok(FileSystem {
            capacity_bytes: Some(2 * total),
            available_bytes: Some(0),
            ..FileSystem::default()
        }),
        image_gc_began_at: NOW.saturating_sub(Duration::from_secs(86_400)),
        ..Inventory::default()
    };
    for iteration in 0..6 {
        inventory.containers = Ok(users(&images, &mut random));
        // The run itself detects the use of the last iteration.
        if iteration == 5 {
            break;
        }
        let now = NOW.saturating_sub(Duration::from_secs(300 * (6 - iteration)));
        let records = std::mem::take(&mut inventory.image_records);
        let policy = FreeSpace {
            task: Task::Detect,
            ..policy
        };
        let mut run = Run::new(policy, records, inventory.image_gc_began_at, now);
        assert_eq!(run.next(None), Step::List);
        let response = Response::Listed {
            inventory: &inventory,
            at: now,
        };
        assert_eq!(run.next(Some(response)), Step::Done);
        let records = run.finish().summary.records;
        inventory.image_records = records;
    }
    inventory
}

/// One container for every tenth image, at random.
fn users(images: &[Arc<Image>], random: &mut Random) -> Vec<Arc<Container>> {
    (0..images.len() / 10)
        .map(|at| {
            let image = &images[random.below(images.len() as u64) as usize];
            let pod = PodIdentity {
                uid: random.uid(),
                namespace: "team-000".into(),
                name: format!("app-{at:06}").into(),
            };
            let id = hexadecimal(random);
            let mut container = Container::new(&id, pod, "server", ContainerState::Running, NOW);
            container.image = ContainerImage {
                reference: Arc::from(&*image.id),
                id: Arc::from(&*image.id),
                ..ContainerImage::default()
            };
            Arc::new(container)
        })
        .collect()
}

/// Sixty-four hexadecimal digits.
fn hexadecimal(random: &mut Random) -> String {
    (0..4).map(|_| format!("{:016x}", random.next())).collect()
}
