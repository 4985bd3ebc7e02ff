//! The decision after a reclaim.

use super::*;

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
                let free = [(disk, bytes(disk_free)), (memory, bytes(memory_free))];
                Ok(measured(&free, 2))
            }
        };
        for minor in [20, 28, 36] {
            let after = after.clone().map(|measured| (measured, at(1_000)));
            let (decision, found) = setting.on(minor).decide(Layout::Single, disk, after);
            let reported = match decision {
                Decision::NoEviction => "no eviction".to_owned(),
                Decision::EvictPod { reason, still_met } => {
                    // Copies on writable layers were not measured here, so they are not met.
                    let met: Vec<String> = still_met.iter().map(ToString::to_string).collect();
                    format!("{reason:?}: {}", met.join(", ")).trim_end().to_owned()
                }
            };
            assert_eq!(reported, expected, "1.{minor}");
            let unseen = found.iter().filter(|found| found.reason == Reason::NotMeasured);
            assert_eq!(unseen.count(), if free == "nothing" { 2 } else { 0 }, "{row}");
        }
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
        (30, Some(30), 0, 90),
        (31, Some(30), 1, 90),
        (32, Some(30), 1, 30),
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
