//! Rules L13.1 to L13.5: directories of pods that no longer exist. Tests 1 to 8 are those of the rules,
//! before volumes were removed and since.

use std::{sync::Arc, time::Duration};

use kubegc_core::{PlanOf, Planner, RuntimeError, node_facts::PodState};
use kubegc_node::{
    Unlisted,
    pod_directory::{
        Action, Directory, Error, Facts, Gauges, Means, PERIOD, Reason, RemovedBecause, Settings, Subject,
        Summary,
    },
};

use crate::world::{ENDING, EVICTED, at, pods, version};

pub(crate) mod pass;

/// Releases at both sides of each difference, and whether they remove volumes.
pub(crate) const RELEASES: [(&str, bool); 6] = [
    ("1.13.0", false),
    ("1.20.2", false),
    ("1.21.0", true),
    ("1.29.9", true),
    ("1.30.0", true),
    ("1.36.0", true),
];

const CACHE: &str = "volumes/kubernetes.io~empty-dir/cache";
const SUBPATH: &str = "volume-subpaths/config/web/0";

fn settings(release: &str) -> Settings {
    Settings::new(version(release))
}

fn texts(all: &[&str]) -> Vec<Arc<str>> {
    all.iter().map(|&text| text.into()).collect()
}

/// A directory with these volumes, subpaths and entries.
fn directory(name: &str, volumes: &[&str], subpaths: &[&str], entries: &[&str]) -> Directory {
    Directory {
        volume_paths: Ok(texts(volumes)),
        subpaths: Ok(texts(subpaths)),
        entries: Ok(texts(entries)),
        ..Directory::empty(name)
    }
}

/// Facts of a node that knows no pod and runs none.
fn orphans(directories: Vec<Directory>) -> Facts {
    Facts {
        directories: Ok(directories),
        pods: pods(&[]),
        running: Ok([].into()),
    }
}

fn refused(message: &str) -> Unlisted {
    Unlisted::Failed(RuntimeError::refused(message))
}

pub(crate) fn plan(release: &str, facts: &Facts) -> PlanOf<Settings> {
    settings(release).plan(facts, at(9))
}

/// All removals, in their order.
pub(crate) fn removals(plan: &PlanOf<Settings>) -> Vec<String> {
    let all = plan.actions.iter().flat_map(Action::removals);
    all.map(ToString::to_string).collect()
}

pub(crate) fn kept(plan: &PlanOf<Settings>) -> Vec<(&str, &Reason)> {
    let kept = plan.kept.iter().map(|kept| match &kept.object {
        Subject::Directory(name) => (&**name, &kept.reason),
        Subject::Node => ("", &kept.reason),
    });
    kept.collect()
}

pub(crate) fn gauges(summary: &Summary) -> Option<(u64, u64)> {
    let told = |gauges: Gauges| {
        (
            gauges.orphan_pod_cleaned_volumes,
            gauges.orphan_pod_cleaned_volumes_errors,
        )
    };
    summary.gauges.map(told)
}

/// Asserts that the one directory of these facts is kept for this reason, and whether it counts as a kept
/// orphan.
fn assert_kept(release: &str, facts: &Facts, reason: &Reason, is_error: bool) {
    let plan = plan(release, facts);
    assert_eq!(plan.actions, [], "{release}");
    assert_eq!(kept(&plan), [("p", reason)], "{release}");
    let count = u64::from(is_error);
    assert_eq!(gauges(&plan.summary), Some((count, count)), "{release} {reason}");
}

#[test]
fn l13_housekeeping_comes_every_two_seconds() {
    assert_eq!(PERIOD, Duration::from_secs(2));
}

#[test]
fn l13_volumes_are_removed_since_about_1_21_and_subpath_files_since_about_1_30() {
    for (release, removes_volumes) in RELEASES {
        let settings = settings(release);
        assert_eq!(settings.removes_volumes, removes_volumes, "{release}");
        let files = matches!(release, "1.30.0" | "1.36.0");
        assert_eq!(settings.removes_subpath_files, files, "{release}");
    }
    assert_eq!(Settings::default(), settings("1.36.0"));
}

#[test]
fn l13_test_1_a_known_pod_keeps_its_directory() {
    for (release, _) in RELEASES {
        for state in [
            PodState::LIVING,
            PodState::COMPLETED,
            PodState::GONE,
            ENDING,
            EVICTED,
        ] {
            let mut facts = orphans(vec![Directory::empty("p")]);
            facts.pods = pods(&[("p", state)]);
            assert_kept(release, &facts, &Reason::PodKnown, false);
        }
    }
}

#[test]
fn l13_test_2_an_unknown_empty_directory_is_removed() {
    for (release, piecemeal) in RELEASES {
        let plan = plan(release, &orphans(vec![Directory::empty("p")]));
        let expected = if piecemeal {
            "rmdir p"
        } else {
            "remove p with its content"
        };
        assert_eq!(removals(&plan), [expected], "{release}");
        let Action::Remove {
            directory,
            expect,
            itself,
            reason,
            ..
        } = &plan.actions[0];
        assert_eq!((&**directory, &*itself.path), ("p", "p"));
        assert_eq!(
            (expect.pod.to_string(), expect.without_volumes),
            ("p".to_owned(), !piecemeal)
        );
        assert_eq!(*reason, RemovedBecause::Orphaned);
        assert_eq!(gauges(&plan.summary), Some((1, 0)));
        assert_eq!((plan.kept.len(), plan.findings.len()), (0, 0));
        assert_eq!(plan.next_at, None);
    }
}

#[test]
fn l13_test_3_a_mounted_volume_keeps_the_directory() {
    for (release, _) in RELEASES {
        let mut mounted = Directory::empty("p");
        mounted.has_mounts = Ok(true);
        assert_kept(release, &orphans(vec![mounted]), &Reason::Mounted, true);
    }
}

#[test]
fn l13_test_4_a_remaining_volume_path_keeps_the_directory_up_to_about_1_20() {
    let facts = orphans(vec![directory("p", &[CACHE], &[], &["plugins", "volumes"])]);
    for (release, piecemeal) in RELEASES {
        if !piecemeal {
            assert_kept(release, &facts, &Reason::VolumesLeft { volumes: 1 }, true);
            assert_eq!(plan(release, &facts).summary.volume_errors, 1);
            continue;
        }
        assert_eq!(
            removals(&plan(release, &facts)),
            [
                "rmdir p/volumes/kubernetes.io~empty-dir/cache",
                "rmdir p/volumes and the directories below it",
                "remove p/plugins with its content",
                "rmdir p",
            ],
            "{release}"
        );
    }
}

#[test]
fn l13_test_5_what_still_runs_keeps_the_directory() {
    for (release, _) in RELEASES {
        let mut facts = orphans(vec![Directory::empty("p")]);
        facts.running = Ok(["p".into(), "other".into()].into());
        assert_kept(release, &facts, &Reason::PodRuns, false);
    }
}

#[test]
fn l13_test_7_a_listing_error_fails_the_pass() {
    for (release, _) in RELEASES {
        for why in [refused("denied"), Unlisted::NotAsked] {
            let mut facts = orphans(Vec::new());
            facts.directories = Err(why.clone());
            let plan = plan(release, &facts);
            let error = Error::Directories {
                why: why.to_string().into(),
            };
            assert!(plan.actions.is_empty() && plan.kept.is_empty());
            assert_eq!(plan.summary.error, Some(error.clone()));
            assert_eq!(plan.findings[0].object, Subject::Node);
            assert_eq!(plan.findings[0].reason, Reason::Failed(error));
            assert_eq!(gauges(&plan.summary), None);
            let (told, outcome) = pass::carry_out(plan, &[], |_| Ok(Vec::new()));
            assert!(told.is_empty());
            assert_eq!(
                outcome.error(),
                Some(format!("the pod directories are not known: {why}"))
            );
        }
    }
}

#[test]
fn l13_1_unknown_pods_decide_nothing() {
    let two = || {
        let mut facts = orphans(vec![Directory::empty("known"), Directory::empty("p")]);
        facts.pods = pods(&[("known", PodState::LIVING)]);
        facts
    };
    for (release, _) in RELEASES {
        let mut not_ready = two();
        not_ready.pods.sources_ready = false;
        let mut not_asked = two();
        not_asked.running = Err(Unlisted::NotAsked);
        let mut failed = two();
        failed.running = Err(refused("gone away"));
        let running = |why: &str| Error::Running { why: why.into() };
        for (facts, error) in [
            (not_ready, Error::SourcesNotReady),
            (not_asked, running("not listed")),
            (failed, running("gone away")),
        ] {
            let plan = plan(release, &facts);
            assert_eq!(plan.actions, []);
            assert_eq!(
                kept(&plan),
                [("known", &Reason::PodKnown), ("p", &Reason::PassFailed)]
            );
            assert_eq!(plan.findings[0].reason, Reason::Failed(error.clone()));
            assert_eq!(plan.summary.error, Some(error));
            assert_eq!(gauges(&plan.summary), None);
        }
        let plan = plan(release, &Facts::default());
        assert!(plan.actions.is_empty() && plan.summary.error.is_some());
    }
}

#[test]
fn l13_1_a_name_that_is_not_a_uid_is_kept() {
    for (release, _) in RELEASES {
        for name in ["", ".", "..", "a/b", "/", "../p", "a\\b", "a\0b"] {
            let plan = plan(release, &orphans(vec![Directory::empty(name)]));
            assert_eq!(plan.actions, [], "{name:?}");
            assert_eq!(kept(&plan), [(name, &Reason::NotAnEntry)]);
            assert_eq!(gauges(&plan.summary), Some((0, 0)));
        }
    }
}

#[test]
fn l13_2_to_l13_4_what_was_not_read_keeps_the_directory() {
    type Forget = fn(&mut Directory, Unlisted);
    type Tell = fn(Box<str>) -> Reason;
    let cases: [(Forget, Tell, u64); 4] = [
        (|of, why| of.has_mounts = Err(why), Reason::MountsUnknown, 0),
        (|of, why| of.volume_paths = Err(why), Reason::VolumesUnread, 1),
        (|of, why| of.subpaths = Err(why), Reason::SubpathsUnread, 1),
        (|of, why| of.entries = Err(why), Reason::EntriesUnread, 0),
    ];
    for (release, _) in RELEASES {
        for (forget, tell, volume_errors) in cases {
            for why in [Unlisted::NotAsked, refused("stale")] {
                let mut unread = Directory::empty("p");
                forget(&mut unread, why.clone());
                let facts = orphans(vec![unread]);
                assert_kept(release, &facts, &tell(why.to_string().into()), true);
                assert_eq!(plan(release, &facts).summary.volume_errors, volume_errors);
            }
        }
        let unread = orphans(vec![Directory::unread("p")]);
        assert_kept(
            release,
            &unread,
            &Reason::MountsUnknown("not listed".into()),
            true,
        );
    }
}

#[test]
fn l13_3_a_remaining_subpath_directory_keeps_the_directory_up_to_about_1_20() {
    let cases = [
        directory("p", &[], &[SUBPATH], &["volume-subpaths"]),
        directory("p", &[], &[SUBPATH], &[]),
        // Upstream checks the directory, not its content.
        directory("p", &[], &[], &["volume-subpaths"]),
    ];
    for case in cases {
        assert_kept("1.20.2", &orphans(vec![case]), &Reason::SubpathsLeft, true);
    }
    let two = directory("p", &[CACHE, "volumes/a/b", CACHE], &[SUBPATH], &[]);
    assert_kept(
        "1.20.2",
        &orphans(vec![two]),
        &Reason::VolumesLeft { volumes: 2 },
        true,
    );
    // A `volumes` directory without a volume is removed with everything else.
    let facts = orphans(vec![directory("p", &[], &[], &["volumes", "etc-hosts"])]);
    assert_eq!(removals(&plan("1.20.2", &facts)), ["remove p with its content"]);
}

#[test]
fn l13_4_volumes_are_removed_first_and_children_before_their_parents() {
    let volumes = [
        "volumes/kubernetes.io~csi/pvc-2",
        CACHE,
        "volumes/kubernetes.io~csi/pvc-1/mount",
    ];
    let subpaths = ["volume-subpaths/config/web/1", SUBPATH];
    let entries = ["volumes", "volume-subpaths", "etc-hosts", "plugins", "etc-hosts"];
    let facts = orphans(vec![directory("p", &volumes, &subpaths, &entries)]);
    for (release, by) in [
        ("1.21.0", "rmdir"),
        ("1.29.9", "rmdir"),
        ("1.30.0", "unlink or rmdir"),
    ] {
        let expected = [
            "rmdir p/volumes/kubernetes.io~csi/pvc-1/mount",
            "rmdir p/volumes/kubernetes.io~csi/pvc-2",
            "rmdir p/volumes/kubernetes.io~empty-dir/cache",
            &format!("{by} p/volume-subpaths/config/web/0"),
            &format!("{by} p/volume-subpaths/config/web/1"),
            "rmdir p/volumes and the directories below it",
            "remove p/etc-hosts with its content",
            "remove p/plugins with its content",
            "remove p/volume-subpaths with its content",
            "rmdir p",
        ];
        assert_eq!(removals(&plan(release, &facts)), expected, "{release}");
    }
}

#[test]
fn l13_4_what_holds_a_volume_is_never_removed_as_a_tree() {
    let facts = orphans(vec![
        directory("p", &[CACHE], &[SUBPATH], &["volumes", "volume-subpaths"]),
        // Volumes are listed, but not their directory.
        directory("q", &[CACHE], &[], &[]),
    ]);
    let plan = plan("1.36.0", &facts);
    for removal in plan.actions.iter().flat_map(Action::removals) {
        let holds_volumes = ["p", "p/volumes", "q", "q/volumes"].contains(&&*removal.path)
            || removal.path.contains("/volumes/");
        assert!(!holds_volumes || removal.means != Means::Tree, "{removal}");
    }
    assert!(removals(&plan).contains(&"rmdir q/volumes and the directories below it".to_owned()));
}

#[test]
fn l13_4_a_path_out_of_the_directory_keeps_it() {
    for (volumes, subpaths, entries, away) in [
        (&["volumes"][..], &[][..], &[][..], "volumes"),
        (&["volumes/../../q"], &[], &[], "volumes/../../q"),
        (&["/volumes/a/b"], &[], &[], "/volumes/a/b"),
        (&["plugins/a"], &[], &[], "plugins/a"),
        (&[""], &[], &[], ""),
        (&[], &["volumes/a/b"], &[], "volumes/a/b"),
        (
            &[],
            &["volume-subpaths/a//0"],
            &["volumes"],
            "volume-subpaths/a//0",
        ),
        (&[CACHE], &[SUBPATH], &["etc-hosts", ".."], ".."),
        (&[], &[], &["a/b"], "a/b"),
        (&[], &[], &["", "z/"], ""),
    ] {
        let facts = orphans(vec![directory("p", volumes, subpaths, entries)]);
        assert_kept("1.36.0", &facts, &Reason::OutsideDirectory(away.into()), true);
    }
}

#[test]
fn a_directory_that_is_listed_twice_counts_once_or_is_kept() {
    let one = || directory("p", &[CACHE, "volumes/a/b"], &[], &["volumes", "a"]);
    let mut reordered = directory("p", &["volumes/a/b", CACHE], &[], &["a", "volumes"]);
    let alike = plan("1.36.0", &orphans(vec![one(), reordered.clone(), one()]));
    assert_eq!(alike.actions.len(), 1);
    assert_eq!(alike.findings.len(), 1);
    assert_eq!(alike.findings[0].reason, Reason::Repeated);
    assert_eq!(gauges(&alike.summary), Some((1, 0)));
    reordered.has_mounts = Ok(true);
    for told in [vec![one(), reordered.clone()], vec![reordered, one()]] {
        assert_kept("1.36.0", &orphans(told), &Reason::Contradiction, true);
    }
    // A known pod's directory is kept because the pod is known.
    let mut facts = orphans(vec![one(), Directory::empty("p")]);
    facts.pods = pods(&[("p", PodState::LIVING)]);
    assert_kept("1.36.0", &facts, &Reason::PodKnown, false);
}

#[test]
fn reasons_read_as_sentences_and_each_differs() {
    let all = [
        Reason::NotAnEntry,
        Reason::PodKnown,
        Reason::PodRuns,
        Reason::PassFailed,
        Reason::Contradiction,
        Reason::Mounted,
        Reason::MountsUnknown("x".into()),
        Reason::VolumesUnread("x".into()),
        Reason::SubpathsUnread("x".into()),
        Reason::EntriesUnread("x".into()),
        Reason::VolumesLeft { volumes: 2 },
        Reason::SubpathsLeft,
        Reason::OutsideDirectory("..".into()),
        Reason::RemovalFailed { failures: 1 },
        Reason::RemovalFailed { failures: 2 },
        Reason::Repeated,
        Reason::Failed(Error::SourcesNotReady),
    ];
    let texts: std::collections::BTreeSet<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), all.len());
    assert_eq!(
        Reason::VolumesLeft { volumes: 2 }.to_string(),
        "2 volumes are left on disk"
    );
    assert_eq!(
        Reason::OutsideDirectory("..".into()).to_string(),
        "\"..\" leads out of the directory"
    );
    assert_eq!(RemovedBecause::Orphaned.as_str(), "Orphaned");
    assert_eq!(
        RemovedBecause::Orphaned.to_string(),
        "its pod is unknown, nothing of it runs, and nothing is mounted"
    );
}
