//! Behavior by release: the first release of each behavior.

use kubegc_core::{KubernetesVersion, version::behavior};
use kubegc_objects::Settings;

use crate::common::cluster::version;

/// No earlier release has it, and no later one loses it.
#[track_caller]
fn begins(first: &str, has: impl Fn(KubernetesVersion) -> bool) {
    for minor in KubernetesVersion::MINOR_MIN..=KubernetesVersion::MINOR_MAX {
        for patch in [0, 2, 3, 99] {
            let release = KubernetesVersion::new(minor, patch).expect("a release that kubegc knows");
            assert_eq!(has(release), release >= version(first), "{release}");
        }
    }
}

#[test]
fn each_behavior_begins_with_its_release() {
    for (first, behavior) in [
        ("1.15.0", behavior::FINALIZERS_ARE_PATCHED),
        ("1.16.0", behavior::FINALIZER_MAY_APPEAR_LATER),
        ("1.17.0", behavior::DUPLICATE_REFERENCES_COUNT),
        ("1.17.0", behavior::DELETE_REFERENCES_UID_FIRST),
        ("1.20.0", behavior::OWNERS_ARE_VERIFIED),
        ("1.20.3", behavior::CLUSTER_SCOPED_GUESS_IS_SUSPECT),
        ("1.24.0", behavior::RETRIES_ARE_FORGOTTEN),
        ("1.25.0", behavior::NEW_EVENTS_ARE_IGNORED),
        ("1.26.0", behavior::DUMP_IS_SORTED),
        ("1.29.0", behavior::PARTIAL_DISCOVERY_KEEPS_MONITORS),
        ("1.32.0", behavior::STARTS_WITHOUT_FULL_SYNC),
        ("1.34.0", behavior::DELETES_EXPECT_RESOURCE_VERSION),
        ("1.34.0", behavior::ZERO_TIMESTAMPS_ARE_OMITTED),
        ("1.36.0", behavior::DELETE_NOT_FOUND_IS_ABSENCE),
        ("1.14.0", behavior::RESOURCE_VERSION_PRECONDITION),
        ("1.20.0", behavior::EQUAL_REFERENCES_ARE_DROPPED),
        ("1.22.0", behavior::NEGATIVE_GRACE_IS_ONE),
        ("1.33.0", behavior::ADDRESSES_ARE_OBJECTS),
        ("1.22.0", behavior::COLLECTION_OPTIONS_ARE_COPIED),
    ] {
        begins(first, |release| release.has(behavior));
    }
}

/// G-11.
#[test]
fn events_of_either_group_are_ignored_from_1_25_on() {
    begins("1.25.0", |release| {
        let ignored = Settings::new(release).ignored_resources;
        assert!(ignored.iter().all(|(_, resource)| resource == "events"));
        ignored.len() == 2
    });
}
