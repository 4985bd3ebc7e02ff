//! Laws of plans and passes over pod directories, for all facts and failures.

mod disk;

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{
    Kept, PlanOf, RuntimeError, Uid,
    node_facts::{PodState, Pods},
};
use kubegc_node::{
    Listing, Unlisted,
    pod_directory::{
        Action, Answer, Directory, Facts, Failure, Outcome, Pass, Reason, Settings, Step, Subject,
    },
};
use proptest::prelude::*;

use super::{assert_reached, reached, shuffled, variant};
use crate::pod_directory::{RELEASES, gauges, kept, pass::carry_out, plan, removals};
use disk::{Disk, Node};

/// Names of directories. The last are no uids.
const NAMES: [&str; 7] = [
    "p",
    "q",
    "pq",
    "11111111-1111-4111-8111-111111111111",
    "volumes",
    "..",
    "p/q",
];

/// Possible entries of a directory.
const CONTENT: [(&str, Node); 17] = [
    ("volumes", Node::Directory),
    ("volumes/stray", Node::File),
    ("volumes/a", Node::Directory),
    ("volumes/a/empty", Node::Directory),
    ("volumes/a/data/file", Node::File),
    ("volumes/b/pvc/mount", Node::Directory),
    ("volumes/b/pvc/vol_data.json", Node::File),
    ("volumes/b/busy", Node::Mount),
    ("volumes/b/busy/data", Node::File),
    ("volume-subpaths", Node::Directory),
    ("volume-subpaths/v/web/0", Node::Directory),
    ("volume-subpaths/v/web/1", Node::File),
    ("volume-subpaths/v/web/2", Node::Mount),
    ("volume-subpaths/v/web/2/data", Node::File),
    ("plugins/deep/mount", Node::Mount),
    ("plugins/deep/mount/data", Node::File),
    ("etc-hosts", Node::File),
];

/// Paths that no kubelet finds.
const WRONG: [&str; 4] = ["volumes/../../q", "../q", "volumes", "volume-subpaths/v/web/0"];

#[derive(Clone, Debug)]
struct Case {
    release: &'static str,
    disk: Disk,
    facts: Facts,
}

prop_compose! {
    fn a_directory()(
        name in prop::sample::select(NAMES.to_vec()),
        content in prop::sample::subsequence(CONTENT.to_vec(), 0..6),
        has_mounts in prop::bool::weighted(0.15),
        forgotten in prop::option::weighted(0.15, 0..4_u8),
        wrong in prop::option::weighted(0.05, prop::sample::select(WRONG.to_vec())),
        twice in prop::bool::weighted(0.1),
    ) -> (&'static str, Vec<(&'static str, Node)>, bool, Option<u8>, Option<&'static str>, bool) {
        (name, content, has_mounts, forgotten, wrong, twice)
    }
}

prop_compose! {
    fn a_case()(
        release in prop::sample::select(RELEASES.map(|(release, _)| release).to_vec()),
        directories in prop::collection::vec(a_directory(), 0..6),
        known in prop::collection::btree_set(prop::sample::select(NAMES.to_vec()), 0..2),
        running in prop::collection::btree_set(prop::sample::select(NAMES.to_vec()), 0..2),
        sources_ready in prop::bool::weighted(0.95),
        runs_known in prop::bool::weighted(0.95),
    ) -> Case {
        let mut disk = Disk::default();
        let plain = |name: &str| !name.contains(['/', '.']);
        for (name, content, ..) in directories.iter().filter(|(name, ..)| plain(name)) {
            disk.put(name, Node::Directory);
            for (path, node) in content {
                disk.put(&format!("{name}/{path}"), *node);
            }
        }
        let mut told = Vec::new();
        for (name, _, has_mounts, forgotten, wrong, twice) in directories {
            let mut directory = disk.read(name);
            directory.has_mounts = Ok(has_mounts);
            match forgotten {
                None => {}
                Some(0) => directory.has_mounts = Err(Unlisted::NotAsked),
                Some(1) => directory.volume_paths = Err(Unlisted::NotAsked),
                Some(2) => directory.subpaths = Err(Unlisted::NotAsked),
                Some(_) => directory.entries = Err(Unlisted::NotAsked),
            }
            if let (Some(wrong), Ok(paths)) = (wrong, &mut directory.volume_paths) {
                paths.push(wrong.into());
            }
            told.extend(twice.then(|| directory.clone()));
            told.push(directory);
        }
        let facts = Facts {
            directories: Ok(told),
            pods: Pods {
                known: known.into_iter().map(|uid| (Uid::new(uid), PodState::LIVING)).collect(),
                sources_ready,
                synced: false,
            },
            running: if runs_known {
                Ok(running.into_iter().map(Uid::new).collect())
            } else {
                Err(Unlisted::NotAsked)
            },
        };
        Case { release, disk, facts }
    }
}

impl Case {
    fn plan(&self) -> PlanOf<Settings> {
        plan(self.release, &self.facts)
    }

    fn told(&self) -> &[Directory] {
        self.facts.directories.as_deref().unwrap_or_default()
    }

    /// Executes at most this many steps of the plan, and returns the removals by step.
    fn carry_out(&mut self, steps: usize) -> (Vec<String>, Outcome) {
        let mut pass = Pass::new(self.plan());
        let mut told = Vec::new();
        let mut step = pass.next(None);
        for _ in 0..steps {
            let answer = match &step {
                Step::Done => break,
                Step::Confirm(_) => Answer::Confirmed(Ok(())),
                Step::Read { directory } => Answer::Read(Ok(self.disk.entries(directory))),
                Step::Remove(removal) => {
                    told.push(removal.to_string());
                    Answer::Removed(self.disk.remove(removal))
                }
            };
            step = pass.next(Some(answer));
        }
        (told, pass.finish())
    }

    /// The facts that a kubelet finds afterwards. Unreadable and wrong facts stay so.
    fn read_again(&mut self) {
        let mut told = self.told().to_vec();
        told.retain(|directory| {
            let is_unreal = directory.name.contains(['/', '.']);
            is_unreal || self.disk.0.contains_key(&*directory.name)
        });
        for directory in &mut told {
            let now = self.disk.read(&directory.name);
            let wrong = |path: &&Arc<str>| WRONG.contains(&&***path);
            let wrong: Vec<_> = directory
                .volume_paths
                .iter()
                .flatten()
                .filter(wrong)
                .cloned()
                .collect();
            directory.volume_paths = directory.volume_paths.clone().and(now.volume_paths);
            if let Ok(paths) = &mut directory.volume_paths {
                paths.extend(wrong);
            }
            directory.subpaths = directory.subpaths.clone().and(now.subpaths);
            directory.entries = directory.entries.clone().and(now.entries);
        }
        self.facts.directories = Ok(told);
    }

    /// A restatement of L13.1 to L13.3: whether anything of a directory can be removed.
    fn may_go(&self, name: &str) -> bool {
        let uid = Uid::new(name);
        let told: Vec<_> = self
            .told()
            .iter()
            .filter(|directory| &*directory.name == name)
            .collect();
        let is_clear = |directory: &&Directory| {
            let (Ok(false), Ok(volumes), Ok(subpaths), Ok(entries)) = (
                &directory.has_mounts,
                &directory.volume_paths,
                &directory.subpaths,
                &directory.entries,
            ) else {
                return false;
            };
            if self.release < "1.21" {
                let is_subpaths = |entry: &Arc<str>| &**entry == "volume-subpaths";
                return volumes.is_empty() && subpaths.is_empty() && !entries.iter().any(is_subpaths);
            }
            // All wrong paths lead out of the directory.
            volumes.iter().all(|path| !WRONG.contains(&&**path))
        };
        let is_unclaimed = !self.facts.pods.known.contains_key(&uid)
            && self
                .facts
                .running
                .as_ref()
                .is_ok_and(|running| !running.contains(&uid))
            && self.facts.pods.sources_ready;
        let is_name = !name.contains(['/', '.']);
        is_name && is_unclaimed && told.iter().all(is_clear) && told.windows(2).all(|two| two[0] == two[1])
    }
}

fn names(actions: &[Action]) -> Vec<&str> {
    actions.iter().map(|action| &**action.directory()).collect()
}

/// A number of steps that no case reaches.
const ALL: usize = 10_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_plan_is_what_a_naive_restatement_says(case in a_case()) {
        let all: BTreeSet<&str> = case.told().iter().map(|directory| &*directory.name).collect();
        let goes: Vec<&str> = all.into_iter().filter(|name| case.may_go(name)).collect();
        let plan = case.plan();
        prop_assert_eq!(names(&plan.actions), goes);
    }

    #[test]
    fn each_directory_is_reported_once(case in a_case()) {
        let plan = case.plan();
        let mut told = names(&plan.actions);
        told.extend(kept(&plan).into_iter().map(|(name, _)| name));
        told.sort_unstable();
        let all: BTreeSet<&str> = case.told().iter().map(|directory| &*directory.name).collect();
        prop_assert_eq!(told, all.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn the_order_of_listings_changes_nothing(mut case in a_case(), seed in any::<u64>()) {
        let plan = case.plan();
        let again = |listing: &mut Listing<Vec<Arc<str>>>| {
            if let Ok(all) = listing {
                *all = shuffled(all, seed);
            }
        };
        let mut told = shuffled(case.told(), seed);
        for directory in &mut told {
            again(&mut directory.volume_paths);
            again(&mut directory.subpaths);
            again(&mut directory.entries);
        }
        case.facts.directories = Ok(told);
        prop_assert_eq!(plan, case.plan());
    }

    #[test]
    fn a_directory_that_is_claimed_is_never_touched(mut case in a_case()) {
        let before = case.disk.clone();
        case.carry_out(ALL);
        for name in NAMES {
            let uid = Uid::new(name);
            let runs = case.facts.running.as_ref().map_or(true, |running| running.contains(&uid));
            if runs || case.facts.pods.known.contains_key(&uid) || !case.facts.pods.sources_ready {
                prop_assert_eq!(case.disk.within(name), before.within(name));
            }
        }
    }

    #[test]
    fn nothing_mounted_is_lost_nor_a_file_of_a_volume(mut case in a_case()) {
        let before = case.disk.clone();
        case.carry_out(ALL);
        for path in before.mounted() {
            prop_assert!(case.disk.0.contains_key(path), "{} is lost", path);
        }
        for (path, node) in &before.0 {
            // Up to about 1.20 a file in the place of a driver's directory is not a volume, and is removed.
            let is_of_volume = path.contains("/volumes/") && (case.release > "1.21" || !path.ends_with("/stray"));
            if is_of_volume && *node == Node::File {
                prop_assert!(case.disk.0.contains_key(path), "{} is lost", path);
            }
        }
        prop_assert_eq!(case.disk.0.keys().filter(|path| !before.0.contains_key(*path)).count(), 0);
    }

    #[test]
    fn with_all_successes_a_pass_does_what_the_plan_says(case in a_case()) {
        let plan = case.plan();
        let entries = |name: &str| {
            let mut told = case.told().iter().filter(|directory| &*directory.name == name);
            let all = told.next().and_then(|directory| directory.entries.clone().ok()).unwrap_or_default();
            Ok(all.into_iter().filter(|entry| &**entry != "volumes").collect())
        };
        let (told, outcome) = carry_out(plan.clone(), &[], entries);
        let told: Vec<String> = told
            .into_iter()
            .filter(|step| !step.starts_with("confirm ") && !step.starts_with("read "))
            .collect();
        prop_assert_eq!(told, removals(&plan));
        let removed: Vec<&str> = outcome.removed.iter().map(|name| &**name).collect();
        prop_assert_eq!(removed, names(&plan.actions));
        prop_assert_eq!((outcome.kept, outcome.findings, outcome.summary), (plan.kept, plan.findings, plan.summary));
        prop_assert_eq!(outcome.failures, Vec::new());
    }

    #[test]
    fn a_new_plan_after_a_pass_contains_only_the_failures(mut case in a_case()) {
        let (_, outcome) = case.carry_out(ALL);
        for name in &outcome.removed {
            prop_assert!(case.disk.within(name).is_empty());
        }
        let is_failed = |kept: &Kept<Subject, Reason>| matches!(kept.reason, Reason::RemovalFailed { .. });
        let failed: Vec<_> = outcome.kept.iter().filter(|kept| is_failed(kept)).map(|kept| kept.object.clone()).collect();
        case.read_again();
        let again = case.plan();
        let left: Vec<_> = names(&again.actions).into_iter().map(|name| Subject::Directory(name.into())).collect();
        prop_assert_eq!(left, failed);
        // A second pass fails again, and changes nothing.
        let disk = case.disk.clone();
        let (_, second) = case.carry_out(ALL);
        prop_assert_eq!(second.removed, Vec::<Arc<str>>::new());
        prop_assert_eq!(case.disk, disk);
    }

    #[test]
    fn a_pass_that_stops_is_taken_up_by_the_next(mut case in a_case(), cut in 0..30_usize) {
        let mut whole = case.clone();
        whole.carry_out(ALL);
        case.carry_out(cut);
        case.read_again();
        case.carry_out(ALL);
        prop_assert_eq!(case.disk, whole.disk);
    }

    #[test]
    fn gauges_count_orphaned_and_kept_directories(mut case in a_case()) {
        let planned = case.plan();
        let counted = |kept: &[Kept<Subject, Reason>]| kept.iter().filter(|kept| kept.reason.is_error()).count() as u64;
        let orphans = planned.actions.len() as u64 + counted(&planned.kept);
        let (_, outcome) = case.carry_out(ALL);
        match (gauges(&planned.summary), gauges(&outcome.summary)) {
            (Some(before), Some(after)) => {
                prop_assert_eq!(before, (orphans, counted(&planned.kept)));
                prop_assert_eq!(after, (orphans, counted(&outcome.kept)));
                prop_assert_eq!(after.0 - after.1, outcome.removed.len() as u64);
            }
            (before, after) => {
                prop_assert_eq!(before, None);
                prop_assert_eq!(after, None);
                prop_assert!(planned.summary.error.is_some() && planned.actions.is_empty());
            }
        }
        let returned = outcome.failures.iter().any(Failure::is_returned) || planned.summary.error.is_some();
        prop_assert_eq!(outcome.error().is_some(), returned);
    }

    #[test]
    fn no_answers_make_a_pass_endless_or_panic(case in a_case(), answers in prop::collection::vec((0..4_u8, 0..4_u8), 0..200)) {
        let plan = case.plan();
        let content: usize = case.told().iter().map(|directory| directory.entries.as_ref().map_or(0, Vec::len)).sum();
        let bound = 3 * plan.actions.len() + plan.actions.iter().flat_map(Action::removals).count() + content;
        let mut answers = answers.into_iter().cycle();
        let mut pass = Pass::new(plan);
        let mut step = pass.next(None);
        let mut steps = 0;
        while step != Step::Done {
            let (ending, error) = answers.next().unwrap_or_default();
            let error = match error {
                0 => RuntimeError::NotFound,
                1 => RuntimeError::unknown("lost"),
                _ => RuntimeError::refused("busy"),
            };
            let answer = match (&step, ending) {
                (Step::Confirm(_), 0) => Answer::Confirmed(Err(Reason::Mounted)),
                (Step::Confirm(_) | Step::Done, _) => Answer::Confirmed(Ok(())),
                (Step::Read { .. }, 0) => Answer::Read(Err(error)),
                (Step::Read { directory }, _) => Answer::Read(Ok(case.disk.entries(directory))),
                (Step::Remove(_), 0) => Answer::Removed(Err(error)),
                (Step::Remove(_), _) => Answer::Removed(Ok(())),
            };
            step = pass.next(Some(answer));
            steps += 1;
            prop_assert!(steps <= bound, "{} steps, at most {}", steps, bound);
        }
        let outcome = pass.finish();
        let all: BTreeSet<&str> = case.told().iter().map(|directory| &*directory.name).collect();
        prop_assert_eq!(outcome.removed.len() + outcome.kept.len(), all.len());
    }
}

#[test]
fn the_generator_reaches_every_reason_and_every_failure() {
    let names = |mut case: Case| {
        let planned = case.plan();
        let (told, outcome) = case.carry_out(ALL);
        let mut names: Vec<String> = told
            .iter()
            .map(|step| step.split(' ').next().unwrap_or_default().to_owned())
            .collect();
        names.extend(outcome.kept.iter().map(|kept| variant(&kept.reason)));
        names.extend(planned.findings.iter().map(|found| variant(&found.reason)));
        names.extend(outcome.failures.iter().map(variant));
        names
    };
    assert_reached(
        &reached(&a_case(), 2_000, names),
        &[
            "rmdir",
            "unlink",
            "remove",
            "NotAnEntry",
            "PodKnown",
            "PodRuns",
            "PassFailed",
            "Contradiction",
            "Mounted",
            "MountsUnknown",
            "VolumesUnread",
            "SubpathsUnread",
            "EntriesUnread",
            "VolumesLeft",
            "SubpathsLeft",
            "OutsideDirectory",
            "RemovalFailed",
            "Repeated",
            "Failed",
            "Volume",
            "Entry",
            "Itself",
        ],
    );
}
