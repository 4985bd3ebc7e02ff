//! Impossible or invalid facts: each gives a finding or a clear reason, never a panic, and never a removal
//! that the facts do not support.

use std::sync::Arc;

use kubegc_core::{
    Planner, Timestamp,
    node_facts::{Container, ContainerState, FileSystem, Image, LogLink, LogTarget, PodState, SandboxState},
};
use kubegc_node::{
    GoDuration, Inventory, Order, Semantics,
    container::{self, Limits},
    image::{self, Arithmetic, Record, Task, Thresholds},
    log, sandbox,
};
use proptest::prelude::*;

use crate::world::{
    at, dead, empty, file_system, gated, image, listed, pod, pods, record, release, sandbox as a_sandbox,
    seconds, user,
};

const ORDERS: [Order; 2] = [Order::Total, Order::Listing];
const EXTREMES: [i64; 7] = [i64::MIN, i64::MIN + 5, -1, 0, 1, i64::MAX - 5, i64::MAX];

fn keep_none() -> Limits {
    Limits {
        per_unit_max: Some(0),
        ..Limits::default()
    }
}

fn containers(limits: Limits) -> container::EvictUnits {
    container::EvictUnits::new(limits, release("1.36.0")).expect("valid limits")
}

/// Images of any age can be removed.
fn images(semantics: Semantics, task: Task) -> image::FreeSpace {
    let thresholds = Thresholds {
        age_min: seconds(0),
        ..Thresholds::default()
    };
    image::FreeSpace {
        task,
        ..image::FreeSpace::new(thresholds, semantics).expect("valid thresholds")
    }
}

fn as_upstream(policy: image::FreeSpace) -> image::FreeSpace {
    image::FreeSpace {
        arithmetic: Arithmetic::Upstream,
        ..policy
    }
}

#[test]
fn containers_of_any_time_at_any_time() {
    for created in EXTREMES {
        for now in EXTREMES {
            for age_min in [0, 1, 10, i64::MAX] {
                let container = Container {
                    created_at: Timestamp::from_nanos(created),
                    ..dead("c", "p", "web", 0)
                };
                let node = Inventory {
                    containers: listed([container]),
                    ..empty()
                };
                let limits = Limits {
                    age_min: GoDuration::from_nanos(age_min),
                    ..keep_none()
                };
                let plan = containers(limits).plan(&node, Timestamp::from_nanos(now));
                let old_enough = i128::from(now) - i128::from(created) >= i128::from(age_min);
                assert_eq!(
                    plan.actions.len(),
                    usize::from(old_enough),
                    "created {created}, now {now}, at least {age_min}"
                );
                assert_eq!(plan.kept.len(), usize::from(!old_enough));
                assert!(
                    plan.next_at.is_none_or(|next| next.as_nanos() > now),
                    "{created} {now} {age_min}"
                );
            }
        }
    }
}

#[test]
fn images_of_any_time_at_any_time() {
    for (detected, used) in EXTREMES.into_iter().flat_map(|a| EXTREMES.map(|b| (a, b))) {
        for now in EXTREMES {
            for age in [0, 1, 10, i64::MAX] {
                let record = Record {
                    first_detected: Some(Timestamp::from_nanos(detected)),
                    last_used: Some(Timestamp::from_nanos(used)),
                    ..record("a", None, None)
                };
                let node = Inventory {
                    images: listed([image("a", 900)]),
                    image_records: [record].into_iter().collect(),
                    image_file_system: Ok(file_system(1_000, 0)),
                    image_gc_began_at: Timestamp::from_nanos(used),
                    ..empty()
                };
                let thresholds = Thresholds {
                    age_min: GoDuration::from_nanos(age),
                    age_max: GoDuration::from_nanos(age),
                    ..Thresholds::default()
                };
                let policy = image::FreeSpace::new(thresholds, release("1.36.0")).expect("valid thresholds");
                let plan = policy.plan(&node, Timestamp::from_nanos(now));
                // A difference saturates, as Go's does.
                let since = |then: i64| now.saturating_sub(then);
                let by_age = age > 0 && since(used) > age;
                let by_space = used < now && since(detected) >= age;
                assert_eq!(
                    plan.actions.len(),
                    usize::from(by_age || by_space),
                    "{detected} {used} {now} {age}"
                );
                assert_eq!(plan.kept.len(), usize::from(plan.actions.is_empty()));
                let is_found = plan
                    .findings
                    .iter()
                    .any(|found| found.reason == image::Reason::InFuture);
                assert!(is_found || detected <= now, "{detected} {now}");
                assert!(
                    plan.next_at.is_none_or(|next| next.as_nanos() > now),
                    "{detected} {used} {now} {age}"
                );
            }
        }
    }
}

#[test]
fn unusual_names_of_log_entries_are_names() {
    for name in ["...", "..a", "a..", "~", "*", "\u{0}", "a\nb"] {
        let node = Inventory {
            log_entries: Ok(vec![name.into()]),
            ..empty()
        };
        assert_eq!(
            log::EvictLogs::default().plan(&node, at(9)).actions.len(),
            1,
            "{name:?}"
        );
    }
}

#[test]
fn disks_that_cannot_be() {
    const MAX: u64 = i64::MAX as u64;
    let node = |disk| Inventory {
        images: listed([image("a", 1)]),
        image_records: [record("a", None, None)].into_iter().collect(),
        image_file_system: Ok(disk),
        ..empty()
    };
    for (capacity, available, reason) in [
        (Some(u64::MAX), Some(u64::MAX), image::Reason::ArithmeticOverflow),
        (Some(u64::MAX), Some(0), image::Reason::ArithmeticOverflow),
        (Some(u64::MAX), None, image::Reason::ArithmeticOverflow),
        (Some(MAX), Some(MAX), image::Reason::ArithmeticOverflow),
        (Some(MAX), Some(0), image::Reason::ArithmeticOverflow),
        (Some(MAX + 1), Some(1), image::Reason::ArithmeticOverflow),
        (Some(1_000), Some(u64::MAX), image::Reason::ArithmeticOverflow),
        (Some(1_000), Some(1_001), image::Reason::AvailableAboveCapacity),
        (Some(1), Some(MAX), image::Reason::AvailableAboveCapacity),
    ] {
        let disk = FileSystem {
            capacity_bytes: capacity,
            available_bytes: available,
            ..FileSystem::default()
        };
        for version in crate::world::RELEASES {
            let policy = images(release(version), Task::Collect);
            let plan = policy.plan(&node(disk), at(9));
            assert!(plan.actions.is_empty(), "{capacity:?} {available:?} {version}");
            assert!(
                plan.findings.iter().any(|found| found.reason == reason),
                "{capacity:?} {available:?}: {:?}",
                plan.findings
            );
            // As upstream, wrapping is reported as well; its consequences are upstream's.
            let wrapped = as_upstream(policy).plan(&node(disk), at(9));
            assert!(wrapped.findings.iter().any(|found| found.reason == reason));
        }
    }
}

#[test]
fn impossible_sizes_free_no_more_than_the_wanted_amount() {
    const HUGE: u64 = i64::MAX as u64;
    for (sizes, expected) in [
        // One image that claims everything is enough.
        (&[u64::MAX, 900, 900][..], 1),
        (&[HUGE + 1, 900, 900], 1),
        (&[HUGE, 900, 900], 1),
        // A sum that overflows is enough, too.
        (&[100, HUGE, 900], 2),
        (&[100, u64::MAX, 900], 2),
    ] {
        let ids: Vec<String> = (0..sizes.len()).map(|at| format!("i{at}")).collect();
        let node = Inventory {
            images: listed(ids.iter().zip(sizes).map(|(id, &size)| image(id, size))),
            image_records: ids.iter().map(|id| record(id, None, None)).collect(),
            image_file_system: Ok(file_system(1_000, 50)),
            ..empty()
        };
        let policy = images(release("1.36.0"), Task::Collect);
        let plan = policy.plan(&node, at(9));
        assert_eq!(plan.actions.len(), expected, "{sizes:?}");
        assert!(plan.summary.error.is_none(), "{sizes:?}");
        let count = plan
            .findings
            .iter()
            .filter(|found| found.reason == image::Reason::SizeOverflow)
            .count();
        assert_eq!(count, sizes.iter().filter(|size| **size > HUGE).count());
        // Upstream's sums wrap: below the wanted amount again, so everything is removed.
        let wraps = sizes.iter().any(|size| *size > HUGE) || sizes[..2] == [100, HUGE];
        let plan = as_upstream(policy).plan(&node, at(9));
        assert_eq!(plan.actions.len() > expected, wraps, "{sizes:?}");
        // All unused images are removed without an amount.
        for task in [Task::DeleteUnused, Task::Free { bytes: i64::MAX }] {
            let plan = images(release("1.36.0"), task).plan(&node, at(9));
            assert_eq!(plan.actions.len(), sizes.len(), "{sizes:?} {task:?}");
            assert_eq!(plan.summary.error, None);
        }
    }
}

#[test]
fn without_listings_or_the_image_of_a_container_no_image_counts_as_unused() {
    let node = Inventory {
        containers: listed([dead("d", "p", "web", 1), dead("c", "p", "web", 1)]),
        images: listed([image("a", 1)]),
        ..empty()
    };
    // The first one by id, so that the order of the listing is irrelevant.
    let no_image = "container c has neither an image reference nor an image id";
    for version in crate::world::RELEASES {
        for task in [
            Task::Collect,
            Task::Detect,
            Task::DeleteUnused,
            Task::Free { bytes: i64::MAX },
        ] {
            let policy = images(release(version), task);
            let plan = policy.plan(&Inventory::default(), at(9));
            assert!(plan.actions.is_empty(), "{version} {task:?}");
            assert!(plan.summary.error.is_some(), "{version} {task:?}");
            let plan = policy.plan(&node, at(9));
            assert!(plan.actions.is_empty(), "{version} {task:?}");
            // Up to 1.28 images are listed only if the disk is too full.
            if task == Task::DeleteUnused {
                let error = plan.summary.error.map(|error| error.to_string());
                assert_eq!(error.as_deref(), Some(no_image), "{version}");
            }
        }
    }
}

/// Any number, extremes often.
fn any_number() -> impl Strategy<Value = i64> {
    prop_oneof![prop::sample::select(EXTREMES.to_vec()), any::<i64>(), -3_i64..3]
}

prop_compose! {
    fn any_container()(
        id in "[ab]?", uid in "[pq]?", name in prop::option::of("[xy]?"),
        state in prop::sample::select(vec![ContainerState::Created, ContainerState::Running, ContainerState::Exited, ContainerState::Unknown]),
        created in any_number(), reference in "[ab,]{0,2}", image in "[ab,]{0,2}", sandbox in "[st]?",
    ) -> Container {
        Container {
            state, created_at: Timestamp::from_nanos(created), name: name.map(Arc::from), pod: pod(&uid), sandbox_id: sandbox.into(),
            ..user(&id, &reference, &image, "")
        }
    }
}

prop_compose! {
    fn any_image()(id in "[ab,]{0,2}", size in prop_oneof![any::<u64>(), 0_u64..5], pinned in any::<bool>(), handler in "[h]?") -> Image {
        Image { pinned, runtime_handler: handler.into(), ..image(&id, size) }
    }
}

prop_compose! {
    fn any_record()(key in "[ab,]{0,2}", detected in prop::option::of(any_number()), used in prop::option::of(any_number())) -> Record {
        let at = |nanos: Option<i64>| nanos.map(Timestamp::from_nanos);
        Record { key: key.into(), first_detected: at(detected), last_used: at(used), size_bytes: 0, pinned: false, runtime_handler: "".into() }
    }
}

prop_compose! {
    fn any_node()(
        containers in prop::collection::vec(any_container(), 0..6),
        sandboxes in prop::collection::vec(("[st]?", "[pq]?", any::<bool>(), any_number()), 0..5),
        images in prop::collection::vec(any_image(), 0..6),
        records in prop::collection::vec(any_record(), 0..6),
        disk in (prop::option::of(any::<u64>()), prop::option::of(any::<u64>())),
        entries in prop::collection::vec("[a/._]{0,3}", 0..4),
        links in prop::collection::vec(("[a/.-]{0,9}(\\.log)?", 0..3_usize), 0..4),
        since in any_number(),
        living in any::<bool>(),
    ) -> Inventory {
        let targets = [LogTarget::Exists, LogTarget::Missing, LogTarget::Unknown];
        let sandboxes = sandboxes.into_iter().map(|(id, uid, ready, created)| {
            let state = if ready { SandboxState::Ready } else { SandboxState::NotReady };
            let sandbox = a_sandbox(&id, &uid, state, 0);
            kubegc_core::node_facts::Sandbox { created_at: Timestamp::from_nanos(created), ..sandbox }
        });
        Inventory {
            containers: listed(containers),
            sandboxes: listed(sandboxes),
            images: listed(images),
            image_records: records.into_iter().collect(),
            image_file_system: Ok(FileSystem { capacity_bytes: disk.0, available_bytes: disk.1, ..FileSystem::default() }),
            log_entries: Ok(entries.iter().map(|entry| entry.as_str().into()).collect()),
            log_links: Ok(links.into_iter().map(|(path, target)| LogLink { path: path.into(), target: targets[target] }).collect()),
            image_gc_began_at: Timestamp::from_nanos(since),
            pods: if living { pods(&[("p", PodState::ACTIVE)]) } else { pods(&[]) },
            ..empty()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn no_facts_make_a_planner_panic_or_remove_a_protected_object(
        node in any_node(),
        now in any_number(),
        ages in (0..=i64::MAX, 0..=i64::MAX),
        (high, low) in (0_i32..=100, 0_i32..=100),
        limits in (prop::option::of(any::<u32>()), prop::option::of(0_u32..5)),
        version in prop::sample::select(crate::world::RELEASES.to_vec()),
        gate_on in any::<bool>(),
        order in prop::sample::select(ORDERS.to_vec()),
        arithmetic in prop::sample::select(vec![Arithmetic::Checked, Arithmetic::Upstream]),
        bytes in any_number(),
    ) {
        let now = Timestamp::from_nanos(now);
        let semantics = gated(version, &[("RuntimeClassInImageCriApi", gate_on)]);
        let limits = Limits { age_min: GoDuration::from_nanos(ages.0), per_unit_max: limits.0, node_max: limits.1 };
        let units = container::EvictUnits::new(limits, semantics).expect("valid limits");
        let plan = container::EvictUnits { order, ..units }.plan(&node, now);
        let listed: Vec<_> = node.containers.iter().flatten().collect();
        for action in &plan.actions {
            let same: Vec<_> = listed.iter().filter(|other| other.id == action.container.id).collect();
            prop_assert!(same.iter().all(|other| other.state != ContainerState::Running && **other == &action.container));
            prop_assert!(!action.container.id.is_empty());
        }
        let plan = sandbox::EvictSandboxes { semantics, order, ..Default::default() }.plan(&node, now);
        for sandbox::Action { sandbox, .. } in &plan.actions {
            let same = node.sandboxes.iter().flatten().filter(|other| other.id == sandbox.id);
            prop_assert!(same.into_iter().all(|other| other.state != SandboxState::Ready && other.pod == sandbox.pod));
            prop_assert!(listed.iter().all(|container| container.sandbox_id != sandbox.id));
            prop_assert!(!sandbox.id.is_empty());
        }
        let plan = log::EvictLogs { semantics, order }.plan(&node, now);
        for action in &plan.actions {
            if let log::Action::RemoveDirectory { entry, .. } = action {
                prop_assert!(!entry.contains('/') && !["", ".", ".."].contains(&&**entry));
            }
        }
        let thresholds = Thresholds {
            high_percent: high.max(low), low_percent: low,
            age_min: GoDuration::from_nanos(ages.0), age_max: GoDuration::from_nanos(ages.1),
        };
        let policy = image::FreeSpace::new(thresholds, semantics).expect("valid thresholds");
        for task in [Task::Collect, Task::Detect, Task::DeleteUnused, Task::Free { bytes }] {
            let plan = image::FreeSpace { order, arithmetic, task, ..policy }.plan(&node, now);
            let unknown = listed.iter().any(|container| container.image.reference.is_empty() && container.image.id.is_empty());
            prop_assert!(plan.actions.is_empty() || !unknown);
            for image::Action { image, .. } in &plan.actions {
                let used = listed.iter().any(|container| {
                    let by_id = semantics.version.minor() >= 30 && !container.image.id.is_empty();
                    (if by_id { &container.image.id } else { &container.image.reference }) == &image.id
                });
                let per_handler = semantics.per_runtime_handler && !image.runtime_handler.is_empty();
                prop_assert!(!used || per_handler);
                prop_assert!(!image.pinned || semantics.version.minor() < 23);
            }
            let texts = plan.kept.iter().chain(&plan.findings).map(|kept| kept.reason.to_string());
            prop_assert!(texts.into_iter().all(|text| !text.is_empty()));
        }
    }
}
