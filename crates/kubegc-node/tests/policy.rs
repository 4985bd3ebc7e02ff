//! A node's settings: errors with their texts, disabled loops, and findings.
//!
//! The inputs of `policy.txt` are a release and settings that differ from upstream's defaults, one node in each
//! line. The output is the refusal, or the reason of the image loop and the findings; or with `limits` those of
//! containers.

use kubegc_core::{KubernetesVersion, node_facts::FileSystem};
use kubegc_fixtures::check_transcript;
use kubegc_node::{Policy, PolicySpec, Semantics, container, image};
use proptest::prelude::*;

use crate::world::seconds;

fn version(minor: u16) -> KubernetesVersion {
    KubernetesVersion::new(minor, 0).expect("a version that is known")
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

/// The outcome of a line of `policy.txt`.
fn outcome(line: &str) -> String {
    let mut words = line.split(' ');
    let release = words.next().expect("a release").parse().expect("a known one");
    let (mut spec, mut disk) = (PolicySpec::default(), FileSystem::default());
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            continue;
        };
        let number = || value.parse::<i32>().expect("a number");
        let age = || seconds(value.parse().expect("seconds"));
        match key {
            "high" => spec.image_gc_high_threshold_percent = number(),
            "low" => spec.image_gc_low_threshold_percent = number(),
            "imageMinimumAge" => spec.image_minimum_gc_age = age(),
            "imageMaximumAge" => spec.image_maximum_gc_age = age(),
            "gate" => with_gate(&mut spec, value == "on"),
            "containerAge" => spec.minimum_container_ttl = age(),
            "containers" => spec.maximum_dead_containers = number(),
            "perContainer" => spec.maximum_dead_containers_per_container = number(),
            "capacity" => disk.capacity_bytes = Some(value.parse().expect("bytes")),
            "grace" => {
                let grace = [("imagefs.available".to_owned(), age())];
                spec.eviction_soft_grace_period = grace.into();
            }
            _ => {
                let (kind, signal) = key.split_once(':').expect("hard:SIGNAL or soft:SIGNAL");
                let thresholds = match kind {
                    "hard" => &mut spec.eviction_hard,
                    _ => &mut spec.eviction_soft,
                };
                thresholds.insert(signal.to_owned(), value.to_owned());
            }
        }
    }
    let policy = match Policy::new(&spec, release) {
        Ok(policy) => policy,
        Err(refused) => return format!("refused: {refused}"),
    };
    if line.ends_with(" limits") {
        let limits = &policy.container.limits;
        return format!(
            "per container {:?}, node {:?}",
            limits.per_unit_max, limits.node_max
        );
    }
    let images = policy.image_loop();
    let word = if images.enabled { "on" } else { "off" };
    let mut found = vec![format!("images {word}: {}", images.reason)];
    found.extend(policy.findings(Some(&disk)).iter().map(ToString::to_string));
    found.join("; ")
}

#[test]
fn settings_have_these_errors_loops_and_findings() {
    check_transcript("tests/policy.txt", |input| {
        input.lines().map(outcome).collect::<Vec<_>>().join("\n")
    });
}

#[test]
fn the_defaults_are_upstreams_and_every_version_accepts_them() {
    for minor in KubernetesVersion::MINOR_MIN..=KubernetesVersion::MINOR_MAX {
        let policy = Policy::new(&PolicySpec::default(), version(minor)).expect("valid");
        assert_eq!(policy.container.limits, container::Limits::default());
        assert_eq!(policy.image.thresholds, image::Thresholds::default());
        assert_eq!(policy.pod_logs_directory, "/var/log/pods");
        assert_eq!(policy.semantics, Semantics::new(version(minor)));
        let eviction: Vec<String> = policy
            .eviction
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
                prop_assert_eq!(policy.image.thresholds.high_percent, high);
                prop_assert_eq!(policy.image_loop().enabled, high < 100 || age_max > 0);
            }
            Err(refused) => prop_assert!(!refused.problems.is_empty() && !refused.to_string().is_empty()),
        }
    }
}
