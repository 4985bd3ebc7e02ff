//! The reclaim of a node under pressure, and its decision.

use std::collections::BTreeMap;

use kubegc_core::{FieldError, Kept, KubernetesVersion, Planner, node_facts::FileSystem};
use kubegc_node::{
    EventKind, GoDuration, PolicySpec, Semantics,
    eviction::{
        Decision, EvictionReason, FileSystemRole, FileSystems, Function, Layout, NodeCondition, Observation,
        Observations, Origin, Pressure, Reason, Resource, Signal, Subject, Thresholds, pod_grace_seconds,
        reclaim_functions,
    },
};
use proptest::prelude::*;

use crate::world::at;

mod laws;
mod run;
mod sync;

const C: Function = Function::DeleteAllUnusedContainers;
const I: Function = Function::DeleteUnusedImages;
const LAYOUTS: [Layout; 3] = [Layout::Single, Layout::DedicatedImages, Layout::Split];
const GI: u64 = 1 << 30;

fn semantics(minor: u16) -> Semantics {
    Semantics::new(KubernetesVersion::new(minor, 0).expect("a version that is known"))
}

fn with_gate(minor: u16, on: bool) -> Semantics {
    let version = KubernetesVersion::new(minor, 0).expect("a version that is known");
    Semantics::with_gates(version, &[("KubeletSeparateDiskGC".to_owned(), on)].into())
}

fn texts(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries
        .iter()
        .map(|(signal, value)| ((*signal).to_owned(), (*value).to_owned()))
        .collect()
}

/// Hard thresholds, soft ones with their grace in seconds, and minimum reclaims.
#[derive(Clone, Copy, Default)]
struct Setting<'a> {
    hard: &'a [(&'a str, &'a str)],
    soft: &'a [(&'a str, &'a str, i64)],
    reclaim: &'a [(&'a str, &'a str)],
}

impl Setting<'_> {
    fn spec(self) -> PolicySpec {
        PolicySpec {
            eviction_hard: texts(self.hard),
            eviction_soft: self
                .soft
                .iter()
                .map(|(signal, value, _)| ((*signal).to_owned(), (*value).to_owned()))
                .collect(),
            eviction_soft_grace_period: self
                .soft
                .iter()
                .map(|(signal, _, grace)| ((*signal).to_owned(), GoDuration::from_secs(*grace)))
                .collect(),
            eviction_minimum_reclaim: texts(self.reclaim),
            ..PolicySpec::default()
        }
    }

    fn on(self, minor: u16) -> Thresholds {
        Thresholds::new(&self.spec(), semantics(minor)).expect("valid thresholds")
    }
}

fn hard<'a>(entries: &'a [(&'a str, &'a str)]) -> Setting<'a> {
    Setting {
        hard: entries,
        ..Setting::default()
    }
}

/// The available amount of each signal, of a capacity of 100 GiB (or as many inodes), measured at a time.
fn measured(free: &[(Signal, u64)], seconds: i64) -> Observations {
    free.iter()
        .map(|(signal, available)| {
            let observation = Observation {
                available: *available,
                capacity: 100 * GI,
                at: Some(at(seconds)),
            };
            (*signal, observation)
        })
        .collect()
}

fn pressure(layout: Layout, observations: Observations) -> Pressure {
    Pressure {
        layout,
        observations,
        ..Pressure::default()
    }
}

fn reason_of(kept: &[Kept<Subject, Reason>], signal: Signal) -> Option<&Reason> {
    kept.iter()
        .find(|kept| match &kept.object {
            Subject::Threshold(threshold) => threshold.signal == signal,
            Subject::Signal(named) => *named == signal,
        })
        .map(|kept| &kept.reason)
}

#[test]
fn n4_8_to_n4_10_functions_of_each_signal_by_release() {
    // The recordings contain the functions of 1.28 and 1.31.
    for &signal in Signal::ALL {
        let of = |minor, layout| reclaim_functions(signal, layout, semantics(minor));
        for layout in LAYOUTS {
            let before_the_split = if layout == Layout::Split {
                Layout::DedicatedImages
            } else {
                layout
            };
            for minor in [29, 36] {
                assert_eq!(of(minor, layout), of(31, layout), "{signal} {layout} 1.{minor}");
            }
            for minor in [20, 28] {
                assert_eq!(
                    of(minor, layout),
                    of(31, before_the_split),
                    "{signal} {layout} 1.{minor}"
                );
            }
        }
    }
}

#[test]
fn n4_2_and_n4_9_layouts_per_version_and_gate() {
    let off = Err("KubeletSeparateDiskGC is turned off but we still have a split filesystem".to_owned());
    let (single, dedicated, split) = (Ok(Layout::Single), Ok(Layout::DedicatedImages), Ok(Layout::Split));
    for (semantics, images, containers, expected) in [
        (semantics(36), Some(false), Some(false), &single),
        (semantics(36), Some(false), None, &single),
        (semantics(36), Some(true), Some(false), &dedicated),
        (semantics(36), Some(true), None, &dedicated),
        (semantics(36), Some(true), Some(true), &split),
        (semantics(36), Some(false), Some(true), &single),
        (with_gate(36, false), Some(true), Some(true), &off),
        (with_gate(36, false), Some(false), Some(true), &off),
        (with_gate(36, false), Some(true), Some(false), &dedicated),
        (semantics(31), Some(true), Some(true), &split),
        (semantics(30), Some(true), Some(true), &off),
        (with_gate(29, true), Some(true), Some(true), &split),
        (semantics(28), Some(true), Some(true), &dedicated),
        (with_gate(28, true), Some(true), Some(true), &dedicated),
        (semantics(36), None, Some(true), &Err("no such device".to_owned())),
    ] {
        let facts = FileSystems {
            images_are_dedicated: images.ok_or_else(|| "no such device".to_owned()),
            containers_are_separate: containers,
        };
        let got = Layout::new(&facts, semantics).map_err(|error| error.to_string());
        assert_eq!(&got, expected, "{facts:?} {}", semantics.version);
    }
}

#[test]
fn n4_2_devices_and_mount_points_determine_the_layout() {
    for (devices, mounts, images, containers) in [
        ((Some("sda"), Some("sda")), (None, None), Some(false), None),
        (
            (Some("sda"), Some("sdb")),
            (Some("/images"), None),
            Some(true),
            None,
        ),
        (
            (Some("sda"), Some("sdb")),
            (Some("/images"), Some("/images")),
            Some(true),
            Some(false),
        ),
        (
            (Some("sda"), Some("sdb")),
            (Some("/images"), Some("/layers")),
            Some(true),
            Some(true),
        ),
        ((None, Some("sdb")), (None, None), None, None),
        ((Some("sda"), None), (None, None), None, None),
    ] {
        let facts = FileSystems::from_mount_points(devices.0, devices.1, mounts.0, mounts.1);
        assert_eq!(facts.images_are_dedicated.ok(), images, "{devices:?}");
        assert_eq!(facts.containers_are_separate, containers, "{mounts:?}");
    }
}

#[test]
fn signals_have_resources_and_conditions() {
    use {NodeCondition::*, Resource::*};
    for (signal, resource, condition) in [
        (Signal::MemoryAvailable, Memory, MemoryPressure),
        (Signal::AllocatableMemoryAvailable, Memory, MemoryPressure),
        (Signal::NodeFsAvailable, EphemeralStorage, DiskPressure),
        (Signal::NodeFsInodesFree, Inodes, DiskPressure),
        (Signal::ImageFsAvailable, EphemeralStorage, DiskPressure),
        (Signal::ImageFsInodesFree, Inodes, DiskPressure),
        (Signal::ContainerFsAvailable, EphemeralStorage, DiskPressure),
        (Signal::ContainerFsInodesFree, Inodes, DiskPressure),
        (Signal::PidAvailable, Pids, PidPressure),
    ] {
        for minor in [20, 28, 30, 31, 36] {
            let known = minor >= 31 || !signal.is_container_fs();
            let semantics = semantics(minor);
            assert_eq!(
                signal.resource(semantics),
                known.then_some(resource),
                "{signal} 1.{minor}"
            );
            assert_eq!(
                signal.condition(semantics),
                known.then_some(condition),
                "{signal} 1.{minor}"
            );
        }
    }
}

#[test]
fn all_invalid_thresholds_are_named() {
    let spec = PolicySpec {
        eviction_hard: texts(&[
            ("containerfs.available", "10%"),
            ("imagefs.available", "-5%"),
            ("memory.available", "0"),
            ("nodefs.available", "101%"),
            ("nodefs.inodesFree", "-1k"),
            ("pid.available", "a few"),
        ]),
        eviction_soft: texts(&[("memory.available", "1Gi"), ("nodefs.free", "1Gi")]),
        eviction_soft_grace_period: [("pid.available".to_owned(), GoDuration::from_secs(-1))].into(),
        eviction_minimum_reclaim: texts(&[
            ("disk", "1Gi"),
            ("memory.available", "-1"),
            ("nodefs.available", "0%"),
        ]),
        ..PolicySpec::default()
    };
    let refused = Thresholds::new(&spec, semantics(28)).expect_err("nothing of it is right");
    let fields: Vec<&str> = refused.iter().map(FieldError::field).collect();
    assert_eq!(
        fields,
        [
            "evictionHard",
            "evictionHard[imagefs.available]",
            "evictionHard[memory.available]",
            "evictionHard[nodefs.available]",
            "evictionHard[nodefs.inodesFree]",
            "evictionHard[pid.available]",
            "evictionSoft",
            "evictionSoftGracePeriod[pid.available]",
            "evictionSoft[memory.available]",
            "evictionMinimumReclaim",
            "evictionMinimumReclaim[memory.available]",
            "evictionMinimumReclaim[nodefs.available]",
        ]
    );
    let text = refused.first().map(ToString::to_string);
    assert_eq!(
        text.as_deref(),
        Some("evictionHard: Invalid value: \"containerfs.available\": Kubernetes 1.28.0 has no such signal")
    );
}

#[test]
fn thresholds_are_read_hard_first_and_by_name() {
    let setting = Setting {
        hard: &[
            ("nodefs.available", "10%"),
            ("memory.available", "100Mi"),
            ("pid.available", "100%"),
        ],
        soft: &[("nodefs.available", "1.5Gi", 90), ("imagefs.available", "20%", 0)],
        reclaim: &[("nodefs.available", "500Mi"), ("pid.available", "5")],
    };
    let thresholds = setting.on(36);
    let shown: Vec<String> = thresholds.configured().iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "memory.available<100Mi",
            "nodefs.available<10%",
            "imagefs.available<20%",
            "nodefs.available<1536Mi for 1m30s",
        ]
    );
    let reclaims: Vec<bool> = thresholds
        .configured()
        .iter()
        .map(|threshold| threshold.minimum_reclaim.is_some())
        .collect();
    assert_eq!(reclaims, [false, true, false, true]);
    assert_eq!(thresholds.disabled(), ["evictionHard[pid.available]"]);
}

#[test]
fn n4_3_met_is_strict_and_percentages_count_against_the_capacity() {
    let disk = Signal::NodeFsAvailable;
    for (value, available, capacity, expected) in [
        ("1000", 999, 1, Some(true)),
        ("1000", 1_000, 2_000, Some(false)),
        ("1000500m", 1_000, 2_000, Some(true)),
        ("10%", 99, 1_000, Some(true)),
        ("10%", 100, 1_000, Some(false)),
        // 99.9 is truncated to 99.
        ("10%", 99, 999, Some(false)),
        ("10%", 2_000, 1_000, Some(false)),
        ("10%", 0, 0, None),
        ("1Gi", 0, 0, None),
        ("8Ei", u64::MAX, u64::MAX, Some(false)),
    ] {
        let thresholds = hard(&[(disk.as_str(), value)]).on(36);
        let observation = Observation {
            available,
            capacity,
            at: None,
        };
        let observations: Observations = [(disk, observation)].into_iter().collect();
        let threshold = thresholds.configured().first().expect("one");
        let met = threshold.is_met(&observations, kubegc_node::eviction::MinimumReclaim::Ignored);
        assert_eq!(met, expected, "{value} of {capacity}, {available} free");
        let unmeasured = threshold.is_met(
            &Observations::default(),
            kubegc_node::eviction::MinimumReclaim::Ignored,
        );
        assert_eq!(unmeasured, None);
    }
}
