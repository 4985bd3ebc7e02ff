//! A node's settings: errors with their texts, disabled loops, and findings.

use kubegc_core::{KubernetesVersion, node_facts::FileSystem};
use kubegc_node::{
    GoDuration, Policy, PolicySpec, Semantics, container, image,
    policy::{ContainerFlag, Finding, SwitchReason, Switches},
    schedule::Loop,
};
use proptest::prelude::*;

fn version(minor: u16) -> KubernetesVersion {
    KubernetesVersion::new(minor, 0).expect("a version that is known")
}

fn seconds(seconds: i64) -> GoDuration {
    GoDuration::from_secs(seconds)
}

/// Settings with these differences from upstream's defaults.
fn spec(change: impl FnOnce(&mut PolicySpec)) -> PolicySpec {
    let mut spec = PolicySpec::default();
    change(&mut spec);
    spec
}

fn with_gate(spec: &mut PolicySpec, on: bool) {
    spec.feature_gates.insert("ImageMaximumGCAge".to_owned(), on);
}

fn thresholds(spec: &mut PolicySpec, high: i32, low: i32) {
    spec.image_gc_high_threshold_percent = high;
    spec.image_gc_low_threshold_percent = low;
}

/// The error's text; empty where the settings are accepted.
fn refusal(spec: &PolicySpec, minor: u16) -> String {
    Policy::new(spec, version(minor)).map_or_else(|refused| refused.to_string(), |_| String::new())
}

#[test]
fn the_defaults_are_upstreams_and_every_version_accepts_them() {
    for minor in KubernetesVersion::MINOR_MIN..=KubernetesVersion::MINOR_MAX {
        let policy = Policy::new(&PolicySpec::default(), version(minor)).expect("valid");
        assert_eq!(policy.container().limits(), &container::Limits::default());
        assert_eq!(policy.image().thresholds(), &image::Thresholds::default());
        assert_eq!(policy.pod_logs_directory(), "/var/log/pods");
        assert_eq!(policy.semantics(), Semantics::new(version(minor)));
        let eviction: Vec<String> = policy
            .eviction()
            .configured()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            eviction,
            [
                "imagefs.available<15%",
                "imagefs.inodesFree<5%",
                "memory.available<100Mi",
                "nodefs.available<10%",
                "nodefs.inodesFree<5%",
            ]
        );
    }
}

#[test]
fn n1_21_to_n1_23_percentages_are_validated_in_every_version() {
    const HIGH: &str = "invalid configuration: imageGCHighThresholdPercent (--image-gc-high-threshold)";
    const LOW: &str = "invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold)";
    let crossed = |low: i32, high: i32| {
        format!(
            "{LOW} {low} must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) {high}"
        )
    };
    let range = "must be between 0 and 100, inclusive";
    for (high, low, expected) in [
        (85, 80, String::new()),
        (1, 0, String::new()),
        (100, 99, String::new()),
        (101, 80, format!("{HIGH} 101 {range}")),
        (85, -1, format!("{LOW} -1 {range}")),
        // Equal ones pass the constructor of the image policy alone: N1.31.
        (80, 80, crossed(80, 80)),
        (0, 0, crossed(0, 0)),
        (50, 60, crossed(60, 50)),
        (-1, 80, format!("[{HIGH} -1 {range}, {}]", crossed(80, -1))),
        (
            101,
            102,
            format!("[{HIGH} 101 {range}, {LOW} 102 {range}, {}]", crossed(102, 101)),
        ),
    ] {
        for minor in [13, 20, 28, 29, 36] {
            let spec = spec(|spec| thresholds(spec, high, low));
            assert_eq!(
                refusal(&spec, minor),
                expected,
                "high {high}, low {low}, 1.{minor}"
            );
        }
    }
}

#[test]
fn n1_24_to_n1_27_ages_are_validated_where_a_maximum_age_exists() {
    const GATE: &str = "invalid configuration: ImageMaximumGCAge feature gate is required for Kubelet configuration option imageMaximumGCAge";
    let unknown = "imageMaximumGCAge 1h0m0s is set, but Kubernetes 1.28.0 has no such field";
    let minimum = "invalid configuration: imageMinimumGCAge -1s must not be negative";
    let maximum = "invalid configuration: imageMaximumGCAge -1s must not be negative";
    let crossed = |max: &str, min: &str| {
        format!("invalid configuration: imageMaximumGCAge {max} must be greater than imageMinimumGCAge {min}")
    };
    for (minor, gate, age_min, age_max, expected) in [
        (28, None, 120, 3_600, unknown.to_owned()),
        (28, Some(true), 120, 3_600, unknown.to_owned()),
        (29, None, 120, 3_600, GATE.to_owned()),
        (29, Some(true), 120, 3_600, String::new()),
        (29, None, 120, 0, String::new()),
        (30, None, 120, 3_600, String::new()),
        (36, None, 120, 3_600, String::new()),
        (36, Some(false), 120, 3_600, GATE.to_owned()),
        (36, None, -1, 0, minimum.to_owned()),
        (36, None, 120, -1, maximum.to_owned()),
        (36, None, 120, 120, crossed("2m0s", "2m0s")),
        (36, None, 120, 60, crossed("1m0s", "2m0s")),
        (36, None, 120, 121, String::new()),
        (36, None, -1, -1, format!("[{minimum}, {maximum}]")),
        (
            36,
            Some(false),
            120,
            60,
            format!("[{GATE}, {}]", crossed("1m0s", "2m0s")),
        ),
        // Before 1.29 a kubelet takes a negative minimum age; the image policy does not.
        (
            28,
            None,
            -1,
            0,
            "imageMinimumGCAge -1s must not be negative".to_owned(),
        ),
    ] {
        let spec = spec(|spec| {
            spec.image_minimum_gc_age = seconds(age_min);
            spec.image_maximum_gc_age = seconds(age_max);
            if let Some(on) = gate {
                with_gate(spec, on);
            }
        });
        let got = refusal(&spec, minor);
        assert_eq!(got, expected, "1.{minor} {gate:?} min {age_min} max {age_max}");
    }
}

#[test]
fn n1_18_a_negative_container_age_is_refused_and_all_problems_are_reported() {
    let negative = spec(|spec| spec.minimum_container_ttl = seconds(-1));
    let refused = "invalid minimum garbage collection age: -1s";
    assert_eq!(refusal(&negative, 36), refused);
    let all = spec(|spec| {
        thresholds(spec, 50, 60);
        spec.minimum_container_ttl = seconds(-1);
        spec.eviction_hard
            .insert("nodefs.available".to_owned(), "much".to_owned());
    });
    let expected = format!(
        "[invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold) 60 must be less than imageGCHighThresholdPercent \
         (--image-gc-high-threshold) 50, {refused}, evictionHard[nodefs.available]: Invalid value: \"much\": not a quantity such as 100Mi, \
         1.5Gi or 500k]"
    );
    assert_eq!(refusal(&all, 36), expected);
}

#[test]
fn n1_19_zero_keeps_none_and_negative_numbers_mean_no_limit() {
    for (configured, kept) in [
        (-1, None),
        (i32::MIN, None),
        (0, Some(0)),
        (1, Some(1)),
        (i32::MAX, Some(2_147_483_647)),
    ] {
        let spec = spec(|spec| {
            spec.maximum_dead_containers = configured;
            spec.maximum_dead_containers_per_container = configured;
        });
        let policy = Policy::new(&spec, KubernetesVersion::LATEST).expect("valid");
        assert_eq!(policy.container().limits().per_unit_max, kept, "{configured}");
        assert_eq!(policy.container().limits().node_max, kept, "{configured}");
    }
}

#[test]
fn n1_6_to_n1_10_the_loops_of_each_version_and_gate() {
    let hour = seconds(3_600);
    let high = |percent| SwitchReason::HighThreshold { percent };
    for (minor, gate, percent, age_max, on, reason) in [
        (20, None, 85, GoDuration::ZERO, true, high(85)),
        (
            20,
            None,
            100,
            GoDuration::ZERO,
            false,
            SwitchReason::HighThresholdIsHundred,
        ),
        (
            28,
            None,
            100,
            GoDuration::ZERO,
            false,
            SwitchReason::HighThresholdIsHundred,
        ),
        // Even settings that no kubelet accepts have a result.
        (
            28,
            Some(true),
            100,
            hour,
            false,
            SwitchReason::HighThresholdIsHundred,
        ),
        (29, None, 99, hour, true, high(99)),
        (29, None, 100, hour, false, SwitchReason::MaximumAgeGateIsOff),
        (
            29,
            Some(true),
            100,
            hour,
            true,
            SwitchReason::MaximumAge { age: hour },
        ),
        (
            29,
            Some(true),
            100,
            GoDuration::ZERO,
            false,
            SwitchReason::NoMaximumAge,
        ),
        (30, None, 100, hour, true, SwitchReason::MaximumAge { age: hour }),
        (
            36,
            Some(false),
            100,
            hour,
            false,
            SwitchReason::MaximumAgeGateIsOff,
        ),
        (36, None, 100, GoDuration::ZERO, false, SwitchReason::NoMaximumAge),
        (36, None, 0, GoDuration::ZERO, true, high(0)),
    ] {
        let gates = gate.map(|on| ("ImageMaximumGCAge".to_owned(), on));
        let semantics = Semantics::with_gates(version(minor), &gates.into_iter().collect());
        let thresholds = image::Thresholds {
            high_percent: percent,
            age_max,
            ..image::Thresholds::default()
        };
        let switches = Switches::new(&thresholds, semantics);
        let case = format!("1.{minor} {gate:?} high {percent} max {age_max}");
        assert_eq!(
            (switches.images.enabled, switches.images.reason),
            (on, reason),
            "{case}"
        );
        for other in [switches.containers, switches.detection, switches.forced] {
            assert!(other.enabled, "{case}");
            assert_eq!(other.reason, SwitchReason::CannotBeDisabled);
        }
        let mut expected = vec![Loop::Containers, Loop::Images, Loop::Detection];
        expected.retain(|which| on || *which != Loop::Images);
        assert_eq!(switches.loops(), expected, "{case}");
    }
}

#[test]
fn implausible_settings_are_findings() {
    let hour = seconds(3_600);
    let flag = |flag| Finding::DeprecatedFlag { flag };
    for (name, spec, expected) in [
        ("none", spec(|_| {}), vec![]),
        (
            "n1_9",
            spec(|spec| {
                thresholds(spec, 100, 80);
                spec.image_maximum_gc_age = hour;
            }),
            vec![Finding::HighThresholdDoesNotDisable { age: hour }],
        ),
        ("off", spec(|spec| thresholds(spec, 100, 80)), vec![]),
        (
            "n1_20",
            spec(|spec| spec.image_minimum_gc_age = GoDuration::ZERO),
            vec![Finding::MinimumAgeIsZero],
        ),
        (
            "flags",
            spec(|spec| {
                spec.minimum_container_ttl = seconds(1);
                spec.maximum_dead_containers = 0;
                spec.maximum_dead_containers_per_container = -1;
            }),
            vec![
                flag(ContainerFlag::MinimumAge),
                flag(ContainerFlag::PerUnit),
                flag(ContainerFlag::Node),
            ],
        ),
        (
            "no limit is not a limit",
            spec(|spec| spec.maximum_dead_containers = -5),
            vec![],
        ),
        (
            "threshold off",
            spec(|spec| {
                spec.eviction_hard
                    .insert("nodefs.available".to_owned(), "0%".to_owned());
            }),
            vec![Finding::ThresholdIsDisabled {
                field: "evictionHard[nodefs.available]".to_owned(),
            }],
        ),
    ] {
        let policy = Policy::new(&spec, KubernetesVersion::LATEST).expect("valid");
        let mut found = policy.findings(None);
        found.retain(|finding| !matches!(finding, Finding::EvictionComesFirst { .. }));
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn eviction_that_starts_no_later_than_collection_is_a_finding() {
    for (value, high, capacity, first) in [
        // Kubernetes #106913: the defaults meet at one point.
        ("15%", 85, None, true),
        ("14.9%", 85, None, false),
        ("10%", 85, None, false),
        ("13%", 87, None, true),
        ("12.9%", 87, None, false),
        ("20%", 85, None, true),
        ("5%", 99, None, true),
        ("50%", 100, None, false),
        ("100%", 85, None, false),
        ("15Gi", 85, None, false),
        ("15Gi", 85, Some(100 << 30), true),
        ("14Gi", 85, Some(100 << 30), false),
        ("14Gi", 85, Some(0), false),
        ("10%", 85, Some(100 << 30), false),
        ("1Ei", 0, Some(u64::MAX), false),
    ] {
        let spec = spec(|spec| {
            thresholds(spec, high, 0);
            if high == 0 {
                spec.image_gc_high_threshold_percent = 1;
            }
            spec.eviction_hard
                .insert("imagefs.available".to_owned(), value.to_owned());
        });
        let policy = Policy::new(&spec, KubernetesVersion::LATEST).expect("valid");
        let disk = capacity.map(|bytes| FileSystem {
            capacity_bytes: Some(bytes),
            ..FileSystem::default()
        });
        let found = policy
            .findings(disk.as_ref())
            .into_iter()
            .any(|finding| matches!(finding, Finding::EvictionComesFirst { .. }));
        assert_eq!(found, first, "{value} high {high} capacity {capacity:?}");
    }
}

#[test]
fn soft_thresholds_can_come_first_too() {
    let spec = spec(|spec| {
        spec.eviction_hard.clear();
        let signal = || "imagefs.available".to_owned();
        spec.eviction_soft.insert(signal(), "30%".to_owned());
        spec.eviction_soft_grace_period.insert(signal(), seconds(60));
    });
    let policy = Policy::new(&spec, KubernetesVersion::LATEST).expect("valid");
    let found: Vec<String> = policy.findings(None).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "eviction at imagefs.available<30% for 1m0s starts no later than image collection at imageGCHighThresholdPercent 85"
        ]
    );
}

proptest! {
    /// Settings that the configuration accepts are accepted by every constructor; conversely nothing is
    /// refused without a rule.
    #[test]
    fn a_policy_is_valid_by_construction(
        high in -2..=103_i32,
        low in -2..=103_i32,
        age_min in -2..=3_i64,
        age_max in -2..=3_i64,
        container_age in -1..=1_i64,
        minor in 13_u16..=37,
        gate in prop::option::of(any::<bool>()),
    ) {
        let spec = spec(|spec| {
            thresholds(spec, high, low);
            spec.image_minimum_gc_age = seconds(age_min);
            spec.image_maximum_gc_age = seconds(age_max);
            spec.minimum_container_ttl = seconds(container_age);
            if let Some(on) = gate {
                with_gate(spec, on);
            }
        });
        let may_age = minor >= 29 && gate.unwrap_or(minor >= 30);
        let valid = (0..=100).contains(&high) && (0..=100).contains(&low) && low < high
            && age_min >= 0 && container_age >= 0
            && (age_max == 0 || may_age && age_max > age_min);
        let policy = Policy::new(&spec, version(minor));
        prop_assert_eq!(policy.is_ok(), valid, "{:?}", policy);
        match policy {
            Ok(policy) => {
                prop_assert_eq!(policy.image().thresholds().high_percent, high);
                prop_assert_eq!(policy.switches().images.enabled, high < 100 || age_max > 0);
            }
            Err(refused) => prop_assert!(!refused.problems.is_empty() && !refused.to_string().is_empty()),
        }
    }
}
