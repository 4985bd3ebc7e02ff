//! The functions of a reclaim, and its decision.

use super::*;

/// Runs a reclaim whose functions have these results, with one measurement at the end.
pub(super) fn run(
    mut reclaim: Run,
    outcomes: &[Result<(), String>],
    after: Result<Observations, String>,
) -> (Vec<Function>, Decision, Run) {
    let (mut ran, mut outcomes, mut response) = (Vec::new(), outcomes.iter().cloned(), None);
    loop {
        response = Some(match reclaim.next(response) {
            Step::Run(function) => {
                ran.push(function);
                Response::Ran(outcomes.next().unwrap_or(Ok(())))
            }
            Step::Measure => Response::Measured(after.clone().map(|measured| (measured, at(1_000)))),
            Step::Done(decision) => return (ran, decision, reclaim),
        });
    }
}

#[test]
fn a_full_node_file_system_with_dedicated_images_evicts_a_pod() {
    let thresholds = hard(&[("nodefs.available", "10%")]).on(36);
    let reclaim = Run::new(&thresholds, Layout::DedicatedImages, Signal::NodeFsAvailable);
    let recovered = Ok(measured(&[(Signal::NodeFsAvailable, 90 * GI)], 2));
    let (ran, decision, _) = run(reclaim, &[], recovered);
    assert!(ran.is_empty());
    let expected = Decision::EvictPod {
        reason: EvictionReason::NothingToCollect,
        still_met: Vec::new(),
    };
    assert_eq!(decision, expected, "n4_12: nothing is measured");
}

/// The free disk space and memory after a collection, in GiB, and the decision: N4.3, N4.13 to N4.15.
const DECISIONS: &str = r#"
50 8 => no eviction
50 0 => UnrelatedThreshold: memory.available<1Gi
5 8 => NotEnough: nodefs.available<10%, nodefs.available<20% for 1h0m0s, its grace period is ignored
15 8 => NotEnough: nodefs.available<20% for 1h0m0s, its grace period is ignored
15 0 => NotEnough: memory.available<1Gi, nodefs.available<20% for 1h0m0s, its grace period is ignored
no stats => NotMeasured { error: "no stats" }:
nothing => no eviction
"#;

#[test]
fn all_thresholds_decide_on_an_eviction() {
    let (disk, memory) = (Signal::NodeFsAvailable, Signal::MemoryAvailable);
    let setting = Setting {
        hard: &[("nodefs.available", "10%"), ("memory.available", "1Gi")],
        soft: &[("nodefs.available", "20%", 3_600)],
        ..Setting::default()
    };
    for row in DECISIONS.lines().filter(|row| !row.is_empty()) {
        let (free, expected) = row.split_once(" => ").expect("a decision");
        let after = match free {
            "no stats" => Err(free.to_owned()),
            "nothing" => Ok(Observations::default()),
            free => {
                let (disk_free, memory_free) = free.split_once(' ').expect("two numbers");
                let bytes = |text: &str| text.parse::<u64>().expect("GiB") * GI;
                Ok(measured(
                    &[(disk, bytes(disk_free)), (memory, bytes(memory_free))],
                    2,
                ))
            }
        };
        for minor in [20, 28, 36] {
            let reclaim = Run::new(&setting.on(minor), Layout::Single, disk);
            let (ran, decision, reclaim) = run(reclaim, &[], after.clone());
            assert_eq!(ran, [C, I], "{row}");
            let reported = match decision {
                Decision::NoEviction => "no eviction".to_owned(),
                Decision::EvictPod { reason, still_met } => {
                    // Copies on writable layers were not measured here, so they are not met.
                    let met: Vec<String> = still_met.iter().map(ToString::to_string).collect();
                    format!("{reason:?}: {}", met.join(", ")).trim_end().to_owned()
                }
            };
            assert_eq!(reported, expected, "1.{minor}");
            let found = reclaim.findings().iter();
            let unseen = found.filter(|found| found.reason == Reason::NotMeasured);
            assert_eq!(unseen.count(), if free == "nothing" { 2 } else { 0 }, "{row}");
        }
    }
}

#[test]
fn the_minimum_reclaim_is_enforced_after_a_collection_in_newer_versions() {
    let disk = Signal::NodeFsAvailable;
    let setting = Setting {
        hard: &[(disk.as_str(), "10Gi")],
        reclaim: &[(disk.as_str(), "1Gi")],
        ..Setting::default()
    };
    for (minor, free, spared) in [
        (20, 10 * GI + GI / 2, true),
        (28, 10 * GI + GI / 2, true),
        (32, 10 * GI + GI / 2, false),
        (36, 10 * GI + GI / 2, false),
        (36, 11 * GI, true),
        (20, 10 * GI - 1, false),
    ] {
        let reclaim = Run::new(&setting.on(minor), Layout::Single, disk);
        let (_, decision, _) = run(reclaim, &[], Ok(measured(&[(disk, free)], 2)));
        assert_eq!(decision == Decision::NoEviction, spared, "1.{minor} with {free}");
        if let Decision::EvictPod { still_met, .. } = decision {
            let by_reclaim: Vec<bool> = still_met.iter().map(|met| met.by_minimum_reclaim).collect();
            assert_eq!(by_reclaim, [free >= 10 * GI]);
        }
    }
}

#[test]
fn an_error_of_one_function_does_not_stop_the_next() {
    let disk = Signal::NodeFsAvailable;
    let thresholds = hard(&[(disk.as_str(), "10%")]).on(36);
    let recovered = Ok(measured(&[(disk, 50 * GI)], 2));
    for (outcomes, failed) in [
        (
            [Err("c".to_owned()), Ok(())],
            vec!["DeleteAllUnusedContainers: c"],
        ),
        ([Ok(()), Err("i".to_owned())], vec!["DeleteUnusedImages: i"]),
        (
            [Err("c".to_owned()), Err("i".to_owned())],
            vec!["DeleteAllUnusedContainers: c", "DeleteUnusedImages: i"],
        ),
    ] {
        let reclaim = Run::new(&thresholds, Layout::Single, disk);
        let (ran, decision, reclaim) = run(reclaim, &outcomes, recovered.clone());
        assert_eq!(ran, [C, I]);
        assert_eq!(decision, Decision::NoEviction, "only what was measured counts");
        let reported: Vec<String> = reclaim.failed().iter().map(ToString::to_string).collect();
        assert_eq!(reported, failed);
    }
}

#[test]
fn n4_11_a_run_repeats_a_step_without_a_response() {
    let disk = Signal::NodeFsAvailable;
    let thresholds = hard(&[(disk.as_str(), "10%")]).on(36);
    let measured = || Some(Response::Measured(Ok((Observations::default(), at(1)))));
    let ran = || Some(Response::Ran(Ok(())));
    let mut reclaim = Run::new(&thresholds, Layout::Single, disk);
    for (response, expected) in [
        (ran(), Step::Run(C)),
        (None, Step::Run(C)),
        (measured(), Step::Run(C)),
        (ran(), Step::Run(I)),
        (ran(), Step::Measure),
        (ran(), Step::Measure),
        (measured(), Step::Done(Decision::NoEviction)),
        (ran(), Step::Done(Decision::NoEviction)),
        (None, Step::Done(Decision::NoEviction)),
    ] {
        assert_eq!(reclaim.next(response.clone()), expected, "after {response:?}");
    }
}

#[test]
fn n4_18_the_grace_period_of_an_evicted_pod() {
    let setting = Setting {
        hard: &[("nodefs.available", "10%")],
        soft: &[("nodefs.available", "20%", 60)],
        ..Setting::default()
    };
    for (minor, of_pod, at_hard, at_soft) in [
        (20, Some(30), 0, 90),
        (28, None, 0, 90),
        (32, Some(30), 1, 90),
        (36, Some(30), 1, 30),
        (36, Some(300), 1, 90),
        (36, None, 1, 90),
    ] {
        let thresholds = setting.on(minor);
        let graces: Vec<i64> = thresholds
            .configured()
            .iter()
            .map(|threshold| pod_grace_seconds(threshold, 90, of_pod, thresholds.semantics()))
            .collect();
        assert_eq!(graces, [at_hard, at_soft], "1.{minor} {of_pod:?}");
    }
}
