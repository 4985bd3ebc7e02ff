//! Rules L13.4 and L13.5 in execution: the next step after a failure.

use std::sync::Arc;

use kubegc_core::{PlanOf, Planner, RuntimeError};
use kubegc_node::pod_directory::{
    Answer, Directory, Failure, Outcome, Pass, Reason, Settings, Step, Subject,
};

use super::{CACHE, RELEASES, SUBPATH, directory, gauges, orphans, plan, settings, texts};
use crate::world::at;

/// Executes a plan. Preconditions hold unless stated otherwise, the given removals fail, and a directory has
/// the given entries.
pub(crate) fn carry_out(
    plan: PlanOf<Settings>,
    failing: &[&str],
    read: impl Fn(&str) -> Result<Vec<Arc<str>>, RuntimeError>,
) -> (Vec<String>, Outcome) {
    let mut pass = Pass::new(plan);
    let mut told = Vec::new();
    let mut step = pass.next(None);
    loop {
        let answer = match &step {
            Step::Done => return (told, pass.finish()),
            Step::Confirm(expect) => {
                told.push(format!("confirm {}", expect.pod));
                Answer::Confirmed(Ok(()))
            }
            Step::Read { directory } => {
                told.push(format!("read {directory}"));
                Answer::Read(read(directory))
            }
            Step::Remove(removal) => {
                told.push(removal.to_string());
                let fails = failing.contains(&&*removal.path);
                let busy = || RuntimeError::refused("busy");
                Answer::Removed(if fails { Err(busy()) } else { Ok(()) })
            }
        };
        step = pass.next(Some(answer));
    }
}

#[test]
fn l13_test_6_volumes_that_are_found_again_are_an_error_and_everything_else_is_removed() {
    let entries = ["plugins", "volumes", "containers", "volume-subpaths"];
    let facts = orphans(vec![directory("p", &[CACHE], &[], &entries)]);
    let plan = plan("1.36.0", &facts);
    let (told, outcome) = carry_out(plan, &["p"], |_| Ok(texts(&entries)));
    assert_eq!(
        told,
        [
            "confirm p",
            "rmdir p/volumes/kubernetes.io~empty-dir/cache",
            "rmdir p/volumes and the directories below it",
            "read p",
            "remove p/containers with its content",
            "remove p/plugins with its content",
            "remove p/volume-subpaths with its content",
            "rmdir p",
        ]
    );
    let told: Vec<_> = outcome.failures.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "orphaned pod \"p\": volumes subdir was found after it was removed",
            "orphaned pod \"p\": cannot rmdir p: busy"
        ]
    );
    // The first is only logged.
    assert_eq!(
        outcome.error().as_deref(),
        Some("orphaned pod \"p\": cannot rmdir p: busy")
    );
    assert_eq!(outcome.summary.volume_errors, 0);
    assert_eq!(gauges(&outcome.summary), Some((1, 1)));
    assert_eq!(outcome.kept[0].reason, Reason::RemovalFailed { failures: 2 });
    assert!(outcome.removed.is_empty());

    // Even if the directory is removed, the volumes that were found count.
    let plan = settings("1.36.0").plan(&facts, at(9));
    let (_, outcome) = carry_out(plan, &[], |_| Ok(texts(&["volumes"])));
    assert_eq!(outcome.error(), None);
    assert_eq!(gauges(&outcome.summary), Some((1, 1)));

    // Up to about 1.20 the directory is removed as one tree, and is not read again.
    let facts = orphans(vec![directory("p", &[], &[], &["volumes", "plugins"])]);
    let plan = settings("1.20.2").plan(&facts, at(9));
    let (told, outcome) = carry_out(plan, &[], |_| Ok(texts(&["volumes"])));
    assert_eq!(told, ["confirm p", "remove p with its content"]);
    assert_eq!(outcome.removed, texts(&["p"]));
}

#[test]
fn l13_test_8_if_the_first_orphan_fails_the_second_is_handled() {
    let both = || {
        orphans(vec![
            directory("q", &[], &[], &["plugins"]),
            directory("p", &[], &[], &["plugins"]),
        ])
    };
    let entries = |_: &str| Ok(texts(&["plugins"]));
    for (release, piecemeal) in RELEASES {
        let plan = plan(release, &both());
        let (told, outcome) = carry_out(plan, &["p"], entries);
        let expected: &[&str] = if piecemeal {
            &[
                "confirm p",
                "read p",
                "remove p/plugins with its content",
                "rmdir p",
                "confirm q",
                "read q",
                "remove q/plugins with its content",
                "rmdir q",
            ]
        } else {
            &[
                "confirm p",
                "remove p with its content",
                "confirm q",
                "remove q with its content",
            ]
        };
        assert_eq!(told, expected, "{release}");
        assert_eq!(outcome.removed, texts(&["q"]));
        assert_eq!(outcome.kept[0].reason, Reason::RemovalFailed { failures: 1 });
        assert_eq!(outcome.error().is_some(), piecemeal || release < "1.21");
        assert_eq!(gauges(&outcome.summary), Some((2, 1)));
    }
    // Also where the volumes of the first fail, which is not returned.
    let mut facts = both();
    facts.directories = Ok(vec![
        directory("p", &[CACHE], &[], &["plugins", "volumes"]),
        Directory::empty("q"),
    ]);
    let plan = plan("1.36.0", &facts);
    let (_, outcome) = carry_out(plan, &["p/volumes/kubernetes.io~empty-dir/cache"], |_| {
        Ok(Vec::new())
    });
    assert_eq!(outcome.removed, texts(&["q"]));
    assert_eq!(outcome.error(), None);
    assert_eq!(outcome.summary.volume_errors, 1);
}

#[test]
fn l13_4_any_failure_with_volumes_skips_the_rest_but_all_volumes_are_tried() {
    let facts = orphans(vec![directory(
        "p",
        &["volumes/a/1", "volumes/a/2"],
        &[SUBPATH],
        &["volumes", "plugins"],
    )]);
    let stages = [
        "confirm p",
        "rmdir p/volumes/a/1",
        "rmdir p/volumes/a/2",
        "unlink or rmdir p/volume-subpaths/config/web/0",
        "rmdir p/volumes and the directories below it",
    ];
    for failing in [
        &["p/volumes/a/1"][..],
        &["p/volumes/a/2"],
        &["p/volume-subpaths/config/web/0"],
        &["p/volumes"],
        &["p/volumes/a/1", "p/volumes"],
    ] {
        let (told, outcome) = carry_out(plan("1.36.0", &facts), failing, |_| Ok(Vec::new()));
        assert_eq!(told, stages, "{failing:?}");
        let is_volume = |failure: &Failure| matches!(failure, Failure::Volume { .. });
        assert!(outcome.failures.iter().all(is_volume));
        assert_eq!(outcome.failures.len(), failing.len());
        assert_eq!(outcome.summary.volume_errors, failing.len() as u64);
        assert_eq!(outcome.error(), None, "volume errors are not returned");
        assert_eq!(gauges(&outcome.summary), Some((1, 1)));
    }
}

#[test]
fn l13_4_the_directory_is_tried_even_if_its_entries_failed() {
    let entries = ["a", "b", "c"];
    let facts = orphans(vec![directory("p", &[], &[], &entries)]);
    let (told, outcome) = carry_out(plan("1.36.0", &facts), &["p/a", "p/b", "p"], |_| {
        Ok(texts(&entries))
    });
    assert_eq!(
        told[2..],
        [
            "remove p/a with its content",
            "remove p/b with its content",
            "remove p/c with its content",
            "rmdir p",
        ]
    );
    assert_eq!(
        outcome.error().as_deref(),
        Some(
            "[orphaned pod \"p\": cannot remove p/a with its content: busy, orphaned pod \"p\": cannot remove p/b with its content: busy, \
             orphaned pod \"p\": cannot rmdir p: busy]"
        )
    );
    assert_eq!(outcome.kept[0].reason, Reason::RemovalFailed { failures: 3 });
}

#[test]
fn l13_4_entries_are_read_again_after_volumes_were_removed() {
    let facts = orphans(vec![directory("p", &[], &[], &["a", "gone"])]);
    let read_again = || plan("1.36.0", &facts);
    let (told, outcome) = carry_out(read_again(), &[], |_| Ok(texts(&["new", "..", "a", "a", "x/y"])));
    assert_eq!(
        told[1..],
        [
            "read p",
            "remove p/a with its content",
            "remove p/new with its content",
            "rmdir p",
        ]
    );
    let away = |entry: &str| Failure::OutsideDirectory {
        directory: "p".into(),
        entry: entry.into(),
    };
    assert_eq!(outcome.failures, [away(".."), away("x/y")]);
    assert!(outcome.error().is_some());

    for (error, goes_on) in [
        (RuntimeError::NotFound, true),
        (RuntimeError::refused("denied"), false),
        (RuntimeError::unknown("lost"), false),
    ] {
        let (told, outcome) = carry_out(read_again(), &[], |_| Err(error.clone()));
        assert_eq!(told.last().map(|last| &**last) == Some("rmdir p"), goes_on);
        assert_eq!(outcome.error().is_none(), goes_on);
        assert_eq!(outcome.removed.len(), usize::from(goes_on));
        assert_eq!(outcome.failures.len(), usize::from(!goes_on));
    }
}

#[test]
fn a_directory_is_removed_only_if_its_precondition_holds_right_before() {
    let still_orphaned = [
        (Reason::Mounted, true, 0),
        (Reason::MountsUnknown("lost".into()), true, 0),
        (Reason::VolumesLeft { volumes: 1 }, true, 1),
        (Reason::PodKnown, false, 0),
        (Reason::PodRuns, false, 0),
        (Reason::PassFailed, false, 0),
    ];
    for (release, _) in RELEASES {
        for (reason, is_error, volume_errors) in &still_orphaned {
            let facts = orphans(vec![Directory::empty("p"), Directory::empty("q")]);
            let mut pass = Pass::new(plan(release, &facts));
            assert!(matches!(pass.next(None), Step::Confirm(expect) if expect.pod == *"p"));
            let next = pass.next(Some(Answer::Confirmed(Err(reason.clone()))));
            assert!(matches!(next, Step::Confirm(expect) if expect.pod == *"q"));
            let outcome = pass.outcome();
            assert_eq!(outcome.kept[0].object, Subject::Directory("p".into()));
            assert_eq!(outcome.kept[0].reason, *reason);
            let expected = if *is_error { (2, 1) } else { (1, 0) };
            assert_eq!(gauges(&outcome.summary), Some(expected), "{reason}");
            assert_eq!(outcome.summary.volume_errors, *volume_errors);
        }
    }
}

#[test]
fn an_answer_to_another_step_changes_nothing() {
    let facts = orphans(vec![directory("p", &[CACHE], &[], &["volumes", "a"])]);
    let plan = plan("1.36.0", &facts);
    let all = || {
        [
            Answer::Confirmed(Ok(())),
            Answer::Removed(Ok(())),
            Answer::Read(Ok(texts(&["a"]))),
        ]
    };
    for early in all() {
        let mut pass = Pass::new(plan.clone());
        let first = pass.next(Some(early));
        assert!(matches!(first, Step::Confirm(_)), "nothing was asked yet");
    }
    let mut pass = Pass::new(plan);
    let mut step = pass.next(None);
    let mut steps = 0;
    while step != Step::Done {
        let right = match &step {
            Step::Confirm(_) => 0,
            Step::Remove(_) => 1,
            Step::Read { .. } => 2,
            Step::Done => break,
        };
        assert_eq!(pass.next(None), step, "without an answer the step is given again");
        for (which, wrong) in all().into_iter().enumerate() {
            if which != right {
                assert_eq!(pass.next(Some(wrong)), step);
            }
        }
        let answer = all().into_iter().nth(right);
        step = pass.next(answer);
        steps += 1;
    }
    assert_eq!(steps, 6);
    for late in all() {
        assert_eq!(pass.next(Some(late)), Step::Done);
    }
    assert_eq!(pass.finish().removed, texts(&["p"]));
}

#[test]
fn a_path_that_no_longer_exists_counts_as_removed_and_a_lost_response_does_not() {
    for (error, goes) in [
        (RuntimeError::NotFound, true),
        (RuntimeError::unknown("lost"), false),
        (RuntimeError::refused("busy"), false),
    ] {
        for (release, _) in RELEASES {
            let mut pass = Pass::new(plan(release, &orphans(vec![Directory::empty("p")])));
            let mut step = pass.next(None);
            while step != Step::Done {
                let answer = match &step {
                    Step::Remove(_) => Answer::Removed(Err(error.clone())),
                    Step::Read { .. } => Answer::Read(Ok(Vec::new())),
                    Step::Confirm(_) | Step::Done => Answer::Confirmed(Ok(())),
                };
                step = pass.next(Some(answer));
            }
            assert_eq!(
                pass.finish().removed.len(),
                usize::from(goes),
                "{release} {error}"
            );
        }
    }
}
