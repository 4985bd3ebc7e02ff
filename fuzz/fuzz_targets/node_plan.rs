//! Plans over any node, sensible or not, and checks the promises: no protected object is removed, runs
//! perform the plans, performing a plan leaves nothing to do.
#![no_main]

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{
    KubernetesVersion, Planner, Timestamp,
    node_facts::{
        Container, ContainerState, FileSystem, Image, PodIdentity, PodState, Sandbox, SandboxState,
    },
};
use kubegc_fuzz::Choices;
use kubegc_node::{
    GoDuration, Inventory, Semantics,
    container::{self, Limits, Mode},
    image::{self, Arithmetic, Response, Run, Step, Task, Thresholds},
    sandbox,
};
use libfuzzer_sys::fuzz_target;

/// Releases on both sides of each change.
const VERSIONS: [&str; 7] = ["1.20.2", "1.22", "1.28", "1.29", "1.30", "1.34", "1.36"];
/// Times that lie close together, and the farthest.
const TIMES: [i64; 8] = [i64::MIN, -1, 0, 99, 100, 101, 160, i64::MAX];
/// Sizes and capacities with all their edges.
const BYTES: [u64; 8] = [0, 1, 50, 450, 1000, 1 << 58, 1 << 63, u64::MAX];

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let version: KubernetesVersion = choices
        .of(&VERSIONS)
        .parse()
        .expect("a release that kubegc knows");
    let mut semantics = Semantics::new(version);
    semantics.per_runtime_handler = choices.flag();
    let now = Timestamp::from_nanos(*choices.of(&TIMES));
    let inventory = inventory(&mut choices);
    containers(&mut choices, &inventory, semantics, now);
    images(&mut choices, &inventory, semantics, now);
});

fn inventory(choices: &mut Choices<'_>) -> Inventory {
    let mut inventory = Inventory::default();
    inventory.pods.sources_ready = choices.flag();
    inventory.pods.synced = choices.flag();
    for uid in 0..choices.below(4) {
        let flags = choices.byte();
        let state = PodState {
            evicted: flags & 1 == 1,
            deleted: flags & 2 == 2,
            terminated: flags & 4 == 4,
        };
        inventory
            .pods
            .known
            .insert(format!("p{uid}").as_str().into(), state);
    }
    inventory.containers = Ok((0..choices.below(24))
        .map(|_| Arc::new(container(choices)))
        .collect());
    let sandbox = |choices: &mut Choices<'_>| Sandbox {
        id: format!("s{}", choices.below(6)).into(),
        pod: pod(choices),
        attempt: 0,
        state: *choices.of(&[SandboxState::Ready, SandboxState::NotReady]),
        created_at: Timestamp::from_nanos(*choices.of(&TIMES)),
        labels: [].into(),
    };
    inventory.sandboxes = Ok((0..choices.below(8))
        .map(|_| Arc::new(sandbox(choices)))
        .collect());
    let image = |choices: &mut Choices<'_>| Image {
        id: (*choices.of(&["", "i1", "i2", "i3", "i4", "i5", "i1,kata", ",x"])).into(),
        runtime_handler: (*choices.of(&["", "", "kata"])).into(),
        size_bytes: *choices.of(&BYTES),
        pinned: choices.below(4) == 0,
        ..Image::default()
    };
    inventory.images = Ok((0..choices.below(12)).map(|_| Arc::new(image(choices))).collect());
    inventory.image_volumes = Ok(Vec::new());
    inventory.image_file_system = Ok(FileSystem {
        capacity_bytes: Some(*choices.of(&BYTES)),
        available_bytes: Some(*choices.of(&BYTES)),
        ..FileSystem::default()
    });
    inventory.image_gc_began_at = Timestamp::from_nanos(*choices.of(&TIMES));
    inventory
}

fn pod(choices: &mut Choices<'_>) -> PodIdentity {
    PodIdentity {
        uid: (*choices.of(&["p0", "p1", "p2", "p3", ""])).into(),
        ..PodIdentity::default()
    }
}

fn container(choices: &mut Choices<'_>) -> Container {
    use ContainerState::{Created, Exited, Running, Unknown};
    let id = format!("c{}", choices.below(40));
    let pod = pod(choices);
    let name = *choices.of(&["a", "b"]);
    let state = *choices.of(&[Exited, Exited, Exited, Created, Running, Unknown]);
    let created_at = Timestamp::from_nanos(*choices.of(&TIMES));
    let mut container = Container::new(&id, pod, name, state, created_at);
    container.sandbox_id = format!("s{}", choices.below(6)).into();
    container.image.reference = format!("i{}", choices.below(7)).into();
    if choices.below(16) == 0 {
        container.name = None;
    }
    container
}

fn containers(choices: &mut Choices<'_>, inventory: &Inventory, semantics: Semantics, now: Timestamp) {
    let limit = |choices: &mut Choices<'_>| [None, Some(0), Some(1), Some(3)][choices.below(4)];
    let limits = Limits {
        age_min: GoDuration::from_nanos([0, 1, 60, i64::MAX][choices.below(4)]),
        per_unit_max: limit(choices),
        node_max: limit(choices),
    };
    let mode = *choices.of(&[Mode::Periodic, Mode::Forced]);
    let policy = container::EvictUnits {
        mode,
        ..container::EvictUnits::new(limits, semantics).expect("no age here is negative")
    };
    let plan = policy.plan(inventory, now);
    let mut shuffled = inventory.clone();
    if let Ok(containers) = &mut shuffled.containers {
        containers.reverse();
    }
    assert_eq!(
        plan,
        policy.plan(&shuffled, now),
        "the order of the listing leaves no trace"
    );
    let removed: BTreeSet<_> = plan
        .actions
        .iter()
        .map(|action| Arc::clone(&action.container.id))
        .collect();
    assert_eq!(removed.len(), plan.actions.len(), "no object is removed twice");
    let mut left = inventory.clone();
    if let Ok(containers) = &mut left.containers {
        for container in containers.iter() {
            assert!(container.state != ContainerState::Running || !removed.contains(&container.id));
        }
        containers.retain(|container| !removed.contains(&container.id));
    }
    assert!(
        policy.plan(&left, now).actions.is_empty(),
        "a plan that was performed leaves nothing to do"
    );
    let sandboxes = sandbox::EvictSandboxes {
        semantics,
        mode,
        ..Default::default()
    };
    let sandboxes = sandboxes.plan(&left, now);
    for sandbox::Action { sandbox, .. } in &sandboxes.actions {
        let holds = |container: &Arc<Container>| container.sandbox_id == sandbox.id;
        assert!(sandbox.state != SandboxState::Ready);
        assert!(!left.containers.iter().flatten().any(holds));
    }
}

fn images(choices: &mut Choices<'_>, inventory: &Inventory, semantics: Semantics, now: Timestamp) {
    let (high_percent, low_percent) = *choices.of(&[(85, 80), (0, 0), (100, 0), (50, 50)]);
    let thresholds = Thresholds {
        high_percent,
        low_percent,
        age_min: GoDuration::from_nanos([0, 1, 60][choices.below(3)]),
        age_max: GoDuration::from_nanos([0, 1, 60][choices.below(3)]),
    };
    let arithmetic = *choices.of(&[Arithmetic::Checked, Arithmetic::Upstream]);
    let bytes = *choices.of(&[i64::MIN, 0, 100, i64::MAX]);
    let task = *choices.of(&[
        Task::Collect,
        Task::DeleteUnused,
        Task::Detect,
        Task::Free { bytes },
    ]);
    let policy = image::FreeSpace {
        arithmetic,
        task,
        ..image::FreeSpace::new(thresholds, semantics).expect("thresholds in order")
    };
    let mut inventory = inventory.clone();
    let detects = image::FreeSpace {
        task: Task::Detect,
        ..policy
    };
    inventory.image_records = detects.plan(&inventory, now).summary.records;
    let plan = policy.plan(&inventory, now);
    assert_eq!(plan, policy.plan(&inventory, now));
    for image::Action { image, .. } in &plan.actions {
        let uses = |container: &Arc<Container>| container.image.reference == image.id;
        assert!(semantics.per_runtime_handler || !inventory.containers.iter().flatten().any(uses));
    }
    // The same, step by step, with removals that fail now and then.
    let records = inventory.image_records.clone();
    let mut run = Run::new(policy, records, inventory.image_gc_began_at, now);
    let mut response = None;
    let mut steps = 0;
    loop {
        response = match run.next(response) {
            Step::List => Some(Response::Listed {
                inventory: &inventory,
                at: now,
            }),
            Step::Measure => Some(Response::Measured(inventory.image_file_system.clone())),
            Step::Remove(_) if choices.flag() => {
                Some(Response::Removed(Err(kubegc_core::RuntimeError::NotFound)))
            }
            Step::Remove(_) => Some(Response::Removed(Ok(()))),
            Step::Done => break,
        };
        steps += 1;
        assert!(steps < 100, "a run ends");
    }
    let _plan = run.finish();
}
