//! Laws of images.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{
    PlanOf, Planner, RuntimeError, Timestamp,
    node_facts::{Container, FileSystem, Image},
};
use kubegc_node::{
    Inventory, Order, Semantics, Unlisted,
    image::{Action, Arithmetic, Error, FreeSpace, Reason, Record, Subject, Task, Thresholds},
};
use proptest::prelude::*;

use super::{NOW, a_release, an_order, assert_reached, reached, shuffled, variant};
use crate::world::{at, empty, file_system, gated, image, image_run, listed, seconds, user};

#[derive(Clone, Debug)]
struct Case {
    node: Inventory,
    thresholds: Thresholds,
    release: &'static str,
    per_handler: bool,
    task: Task,
    order: Order,
    arithmetic: Arithmetic,
    /// Images whose removal fails, by their numbers.
    failing: u16,
}

const HANDLERS: [&str; 3] = ["", "", "kata"];

prop_compose! {
    fn an_image()(size in 0_u64..300, pinned in prop::bool::weighted(0.15), handler in 0_usize..3) -> Image {
        Image { pinned, runtime_handler: HANDLERS[handler].into(), ..image("", size) }
    }
}

prop_compose! {
    /// Records of some images; times can be in the future.
    fn a_record()(
        of in 0_usize..12,
        handled in prop::bool::weighted(0.2),
        detected in prop::option::weighted(0.8, 0..=NOW + 1),
        used in prop::option::weighted(0.6, 0..=NOW + 1),
    ) -> Record {
        Record {
            key: if handled { format!("i{of},kata") } else { format!("i{of}") }.into(),
            first_detected: detected.map(at),
            last_used: used.map(at),
            size_bytes: 1,
            pinned: false,
            runtime_handler: if handled { "kata" } else { "" }.into(),
        }
    }
}

prop_compose! {
    fn a_user()(of in 0_usize..12, by_id in any::<bool>(), other in 0_usize..12, handler in 0_usize..3) -> Container {
        let id = if by_id { format!("i{other}") } else { String::new() };
        user("c", &format!("i{of}"), &id, HANDLERS[handler])
    }
}

fn a_disk() -> impl Strategy<Value = Option<FileSystem>> {
    prop_oneof![
        12 => (0_u64..=1_050).prop_map(|available| Some(file_system(1_000, available))),
        4 => (0_u64..=110).prop_map(|available| Some(file_system(107, available))),
        1 => Just(Some(FileSystem::default())),
        1 => Just(None),
    ]
}

prop_compose! {
    fn some_thresholds()(
        high in prop_oneof![3 => 30_i32..=90, 1 => prop::sample::select(vec![0, 1, 99, 100])],
        below in prop_oneof![3 => 0_i32..30, 1 => Just(0), 1 => Just(1)],
        age_min in 0_i64..4,
        age_max in prop_oneof![Just(0_i64), 1_i64..8],
    ) -> Thresholds {
        Thresholds { high_percent: high, low_percent: (high - below).max(0), age_min: seconds(age_min), age_max: seconds(age_max) }
    }
}

prop_compose! {
    /// Facts of any kind, except impossible ones: see the tests of bad input for those.
    fn a_case()(
        images in prop::collection::vec(an_image(), 0..10),
        nameless in prop::bool::weighted(0.1),
        ids in any::<u64>(),
        records in prop::collection::vec(a_record(), 0..14),
        users in prop::collection::vec(a_user(), 0..4),
        volumes in prop::collection::vec(0_usize..12, 0..2),
        sandbox_image in prop::option::of(0_usize..12),
        disk in a_disk(),
        since in 0..=NOW,
        thresholds in some_thresholds(),
        release in a_release(),
        per_handler in prop::bool::weighted(0.3),
        task in prop_oneof![
            6 => Just(Task::Collect), 1 => Just(Task::Detect), 1 => Just(Task::DeleteUnused),
            1 => (-10_i64..900).prop_map(|bytes| Task::Free { bytes }),
        ],
        (order, arithmetic) in (an_order(), prop_oneof![Just(Arithmetic::Checked), Just(Arithmetic::Upstream)]),
        failing in prop_oneof![Just(0_u16), any::<u16>()],
    ) -> Case {
        let names: Vec<usize> = shuffled(&(0..images.len()).collect::<Vec<_>>(), ids);
        let images = images.into_iter().zip(names).map(|(image, name)| {
            let id = if nameless && name == 0 { String::new() } else { format!("i{name}") };
            Image { id: id.into(), ..image }
        });
        let node = Inventory {
            images: listed(images),
            containers: listed(users),
            image_volumes: Ok(volumes.into_iter().map(|of| format!("i{of}").into()).collect()),
            sandbox_image: sandbox_image.map(|of| format!("i{of}").into()),
            image_file_system: disk.ok_or(Unlisted::NotRequested),
            image_records: records.into_iter().collect(),
            image_gc_began_at: at(since),
            ..empty()
        };
        Case { node, thresholds, release, per_handler, task, order, arithmetic, failing }
    }
}

impl Case {
    fn semantics(&self) -> Semantics {
        gated(self.release, &[("RuntimeClassInImageCriApi", self.per_handler)])
    }

    fn minor(&self) -> u16 {
        self.semantics().version.minor()
    }

    fn policy(&self) -> FreeSpace {
        let policy = FreeSpace::new(self.thresholds, self.semantics()).expect("valid thresholds");
        FreeSpace {
            task: self.task,
            order: self.order,
            arithmetic: self.arithmetic,
            ..policy
        }
    }

    fn plan(&self) -> PlanOf<FreeSpace> {
        self.policy().plan(&self.node, at(NOW))
    }

    fn images(&self) -> &[Arc<Image>] {
        self.node.images.as_deref().expect("listed")
    }

    fn key(&self, id: &str, handler: &str) -> String {
        let handled = self.per_handler && self.minor() >= 29 && !handler.is_empty();
        if handled {
            format!("{id},{handler}")
        } else {
            id.to_owned()
        }
    }

    /// Keys in use, by N3.6 to N3.9.
    fn in_use(&self) -> BTreeSet<String> {
        let containers = self
            .node
            .containers
            .iter()
            .flatten()
            .map(|container| &container.image);
        let mut used: BTreeSet<String> = containers
            .map(|image| {
                let by_id = self.minor() >= 30 && !image.id.is_empty();
                self.key(
                    if by_id { &image.id } else { &image.reference },
                    &image.runtime_handler,
                )
            })
            .collect();
        if self.minor() >= 35 {
            used.extend(self.node.image_volumes.iter().flatten().map(ToString::to_string));
        }
        if self.minor() < 29 {
            used.extend(self.node.sandbox_image.iter().map(ToString::to_string));
        }
        used
    }

    fn fails(&self, image: &Image) -> bool {
        let number = image
            .id
            .strip_prefix('i')
            .and_then(|number| number.parse::<u32>().ok());
        number.is_some_and(|number| self.failing >> number & 1 == 1)
    }

    /// Performs a run with the failing removals of the case, and returns the attempts.
    fn perform(&self, fails: bool) -> PlanOf<FreeSpace> {
        let remove = |image: &Image| {
            if fails && self.fails(image) {
                return Err(RuntimeError::refused("busy"));
            }
            Ok(())
        };
        image_run(self.policy(), &self.node, [at(NOW); 2], remove)
    }

    /// The same node after these removals: with their bytes free, and everything else unchanged.
    fn after(&self, removed: &[Action]) -> Self {
        let mut case = self.clone();
        let ids: Vec<_> = removed.iter().map(|Action { image, .. }| &image.id).collect();
        let freed: u64 = removed.iter().map(|Action { image, .. }| image.size_bytes).sum();
        case.node.images = Ok(self
            .images()
            .iter()
            .filter(|image| !ids.contains(&&image.id))
            .cloned()
            .collect());
        if let Ok(disk) = &mut case.node.image_file_system {
            let available = disk
                .available_bytes
                .unwrap_or(0)
                .min(disk.capacity_bytes.unwrap_or(0))
                + freed;
            disk.available_bytes = Some(available.min(disk.capacity_bytes.unwrap_or(0)));
        }
        case
    }
}

/// An action of a restatement.
type Reported = (String, &'static str);

/// Sections 3.2 to 3.7 of the specification, restated: the attempts, in order, and the kind of error.
fn naive(case: &Case, fails: bool) -> (Vec<Reported>, &'static str) {
    let (now, used) = (at(NOW).as_nanos(), case.in_use());
    let since = |then: Option<Timestamp>| then.map_or(i64::MAX, |then| now - then.as_nanos());
    let mut tried = Vec::new();
    let collects = case.task == Task::Collect;
    if case.task == Task::Detect {
        return (tried, "");
    }
    let mut candidates: Vec<_> = case
        .images()
        .iter()
        .filter_map(|image| {
            let key = case.key(&image.id, &image.runtime_handler);
            let pinned = image.pinned && case.minor() >= 23;
            let skipped = case.per_handler && case.minor() >= 29 && image.id.is_empty();
            let record = case.node.image_records.get(&key);
            let (last, first) = record.map_or((None, Some(at(NOW))), |record| {
                (record.last_used, record.first_detected)
            });
            (!pinned && !skipped && !used.contains(&key)).then_some((last, first, key, image))
        })
        .collect();
    candidates.sort_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
    let age_max = case.thresholds.age_max.as_nanos();
    if collects && case.minor() >= 29 && age_max > 0 && since(Some(case.node.image_gc_began_at)) > age_max {
        let (old, rest): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .partition(|candidate| since(candidate.0) > age_max);
        tried.extend(old.iter().map(|(_, _, key, _)| (key.clone(), "age")));
        if fails && old.iter().any(|(_, _, _, image)| case.fails(image)) {
            return (tried, "Age");
        }
        candidates = rest;
    }
    let mut wanted = match case.task {
        Task::Free { bytes } => bytes,
        _ => i64::MAX,
    };
    if collects {
        let Ok(disk) = &case.node.image_file_system else {
            return (tried, "FileSystem");
        };
        let capacity = disk.capacity_bytes.unwrap_or(0) as i64;
        let available = (disk.available_bytes.unwrap_or(0) as i64).min(capacity);
        if capacity == 0 {
            return (tried, "InvalidCapacity");
        }
        if 100 - available * 100 / capacity < i64::from(case.thresholds.high_percent) {
            return (tried, "");
        }
        wanted = capacity * (100 - i64::from(case.thresholds.low_percent)) / 100 - available;
    }
    let (mut freed, mut failed) = (0, false);
    for (last, first, key, image) in candidates {
        if last.is_some_and(|last| last >= at(NOW)) || since(first) < case.thresholds.age_min.as_nanos() {
            continue;
        }
        tried.push((key, "space"));
        if fails && case.fails(image) {
            failed = true;
            continue;
        }
        freed += image.size_bytes as i64;
        if freed >= wanted {
            break;
        }
    }
    (
        tried,
        if failed {
            "Space"
        } else if collects && freed < wanted {
            "Insufficient"
        } else {
            ""
        },
    )
}

fn reported(case: &Case, plan: &PlanOf<FreeSpace>) -> (Vec<Reported>, String) {
    let actions = plan
        .actions
        .iter()
        .map(|Action { image, reason, .. }| (case.key(&image.id, &image.runtime_handler), reason.name()));
    (
        actions.collect(),
        plan.summary.error.as_ref().map(variant).unwrap_or_default(),
    )
}

fn ids(actions: &[Action]) -> Vec<&str> {
    actions.iter().map(|Action { image, .. }| &*image.id).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_plan_equals_a_naive_restatement(mut case in a_case()) {
        case.order = Order::Total;
        let (actions, error) = naive(&case, false);
        prop_assert_eq!(reported(&case, &case.plan()), (actions, error.to_owned()));
    }

    #[test]
    fn a_pass_with_failures_equals_a_naive_restatement(mut case in a_case()) {
        case.order = Order::Total;
        let plan = case.perform(true);
        let (tried, error) = naive(&case, true);
        prop_assert_eq!(reported(&case, &plan), (tried, error.to_owned()));
        for Action { image, .. } in &plan.actions {
            let failed = plan.kept.iter().any(|kept| matches!(
                (&kept.object, &kept.reason), (Subject::Image(kept), Reason::RemovalFailed(_)) if kept.id == image.id));
            prop_assert_eq!(failed, case.fails(image));
            let key = case.key(&image.id, &image.runtime_handler);
            prop_assert_eq!(plan.summary.records.get(&key).is_some(), failed, "records of removed images are removed");
        }
    }

    #[test]
    fn a_pass_without_failures_equals_the_plan(case in a_case()) {
        prop_assert_eq!(case.perform(false), case.plan());
    }

    #[test]
    fn the_order_of_listings_changes_nothing(mut case in a_case(), seed in any::<u64>()) {
        case.order = Order::Total;
        let plan = case.plan();
        case.node.images = Ok(shuffled(case.images(), seed));
        let containers = case.node.containers.as_deref().expect("listed");
        case.node.containers = Ok(shuffled(containers, seed));
        prop_assert_eq!(plan, case.plan());
    }

    #[test]
    fn never_a_pinned_or_used_image_and_everything_is_reported_once(case in a_case()) {
        let plan = case.plan();
        let used = case.in_use();
        for Action { image, runtime_handler, .. } in &plan.actions {
            prop_assert!(!image.pinned || case.minor() < 23);
            prop_assert!(!used.contains(&case.key(&image.id, &image.runtime_handler)));
            prop_assert!(case.minor() >= 29 || runtime_handler.is_empty());
        }
        let kept = plan.kept.iter().filter_map(|kept| match &kept.object {
            Subject::Image(image) => Some(&*image.id),
            _ => None,
        });
        let mut reported: Vec<_> = ids(&plan.actions).into_iter().chain(kept).collect();
        reported.sort_unstable();
        let mut all: Vec<_> = case.images().iter().map(|image| &*image.id).collect();
        all.sort_unstable();
        // Up to 1.28 images are listed only if the disk is too full.
        let unlisted = case.minor() < 29 && case.task == Task::Collect && plan.summary.to_free_bytes.is_none();
        prop_assert_eq!(reported, if unlisted { Vec::new() } else { all });
    }

    #[test]
    fn no_more_than_the_amount_is_freed_and_a_shortfall_is_reported(case in a_case()) {
        let plan = case.plan();
        let space: Vec<_> = plan.actions.iter().filter(|Action { reason, .. }| reason.name() == "space").collect();
        let freed = |actions: &[&Action]| actions.iter().map(|Action { image, .. }| image.size_bytes as i64).sum::<i64>();
        let wanted = match case.task {
            Task::Collect => plan.summary.to_free_bytes,
            Task::DeleteUnused => Some(i64::MAX),
            Task::Free { bytes } => Some(bytes),
            Task::Detect => None,
        };
        let Some(wanted) = wanted else {
            prop_assert!(space.is_empty() && plan.summary.freed_bytes.is_none());
            return Ok(());
        };
        prop_assert_eq!(plan.summary.freed_bytes, Some(freed(&space)));
        if let Some((_, before)) = space.split_last() {
            prop_assert!(before.is_empty() || freed(before) < wanted, "the last was not needed");
        }
        let enough = plan.summary.freed_bytes >= Some(wanted);
        if !enough {
            let left = plan.kept.iter().all(|kept| matches!(
                kept.reason, Reason::InUse | Reason::Pinned | Reason::TooYoung { .. } | Reason::UsedSince | Reason::InvalidId));
            prop_assert!(left, "all removable images were removed");
        }
        if case.task == Task::Collect {
            let insufficient = matches!(plan.summary.error, Some(Error::Insufficient { .. }));
            let reported = plan.findings.iter().any(|found| matches!(found.reason, Reason::Shortfall { .. }));
            let event = plan.summary.events.iter().any(|event| event.reason == "FreeDiskSpaceFailed");
            prop_assert_eq!([!enough; 4], [insufficient, reported, event, plan.summary.shortfall_bytes() > 0]);
        }
    }

    #[test]
    fn after_any_prefix_a_new_plan_removes_the_rest_or_less_and_after_all_nothing(mut case in a_case(), cut in any::<prop::sample::Index>()) {
        case.order = Order::Total;
        if matches!(case.task, Task::Free { .. }) {
            // It is an amount to free, not an amount that must be free: a repetition frees again.
            case.task = Task::Collect;
        }
        let plan = case.plan();
        let (done, rest) = plan.actions.split_at(cut.index(plan.actions.len() + 1));
        let again = case.after(done).plan();
        // A space step with nothing to free removes one image: N3.41.
        let quirk = again.summary.to_free_bytes.is_some_and(|bytes| bytes <= 0)
            && again.actions.iter().filter(|Action { reason, .. }| reason.name() == "space").count() == 1;
        let (rest, again) = (ids(rest), ids(&again.actions));
        prop_assert!(rest.starts_with(&again) || quirk, "{:?} instead of {:?}", again, rest);
        let all = case.after(&plan.actions).plan();
        let quirk = all.summary.to_free_bytes.is_some_and(|bytes| bytes <= 0) && all.actions.len() == 1;
        prop_assert!(all.actions.is_empty() || quirk, "{:?} go a second time", ids(&all.actions));
        let gap = case.thresholds.high_percent - case.thresholds.low_percent;
        prop_assert!(!quirk || gap <= 1 || case.thresholds.high_percent == 0, "the quirk needs thresholds that touch");
    }

    #[test]
    fn records_follow_the_listings(case in a_case()) {
        let plan = case.plan();
        let (before, after) = (&case.node.image_records, &plan.summary.records);
        let unlisted = case.minor() < 29 && case.task == Task::Collect && plan.summary.to_free_bytes.is_none();
        if unlisted {
            prop_assert_eq!(before, after);
            return Ok(());
        }
        let removed: BTreeSet<String> = reported(&case, &plan).0.into_iter().map(|(key, _)| key).collect();
        let mut stays: BTreeSet<String> = case.images().iter().map(|image| case.key(&image.id, &image.runtime_handler)).collect();
        stays.retain(|key| !removed.contains(key));
        prop_assert_eq!(after.iter().map(|record| record.key.to_string()).collect::<BTreeSet<_>>(), stays);
        let used = case.in_use();
        for record in after.iter() {
            let old = before.get(&record.key);
            if let Some(old) = old {
                prop_assert_eq!(old.first_detected, record.first_detected);
                prop_assert_eq!(&old.runtime_handler, &record.runtime_handler);
                let in_future = old.last_used > Some(at(NOW));
                prop_assert!(record.last_used >= old.last_used || in_future, "the last use never moves back");
            } else {
                // Records of the caller were detected before, so new ones are dated in every version.
                prop_assert_eq!(record.first_detected, Some(at(NOW)));
            }
            let last_used = if used.contains(&*record.key) { Some(at(NOW)) } else { old.and_then(|old| old.last_used) };
            prop_assert_eq!(record.last_used, last_used);
        }
    }

    #[test]
    fn before_next_at_time_changes_nothing(mut case in a_case(), later in 0_i64..3_000_000_000) {
        // An image without a record is dated with the plan itself, so its position among equals changes with
        // the time: all have one here.
        let detects = FreeSpace { task: Task::Detect, ..case.policy() };
        case.node.image_records = detects.plan(&case.node, at(NOW)).summary.records;
        let plan = case.plan();
        let end = plan.next_at.map_or(i64::MAX, |next| next.as_nanos() - 1);
        prop_assert!(end >= at(NOW).as_nanos(), "the next change lies ahead");
        for nanos in [at(NOW).as_nanos() + later, at(NOW + 100).as_nanos(), end] {
            let then = case.policy().plan(&case.node, Timestamp::from_nanos(nanos.min(end)));
            prop_assert_eq!(ids(&then.actions), ids(&plan.actions));
        }
    }
}

#[test]
fn the_generator_reaches_every_step_reason_and_error() {
    let names = |case: Case| {
        let plan = case.perform(true);
        let mut names: Vec<String> = plan
            .actions
            .iter()
            .map(|Action { reason, .. }| reason.name().to_owned())
            .collect();
        names.extend(plan.kept.iter().map(|kept| variant(&kept.reason)));
        names.extend(plan.findings.iter().map(|found| variant(&found.reason)));
        names.extend(plan.summary.error.as_ref().map(variant));
        names.extend(plan.summary.hook.map(|_| "hook".to_owned()));
        names.extend(
            plan.summary
                .events
                .iter()
                .map(|event| event.reason.split(' ').next().unwrap_or_default().to_owned()),
        );
        names
    };
    assert_reached(&reached(&a_case(), 2_000, names), 24);
}
