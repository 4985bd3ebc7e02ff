//! Behavior by release: the table of semantics row by row, and the first release of each behavior.

use kubegc_core::{
    KubernetesVersion,
    version::{Behavior, behavior},
};
use kubegc_objects::{Settings, settings::Semantics};

use crate::common::cluster::version;

type Flag = fn(KubernetesVersion) -> bool;

fn of(version: KubernetesVersion) -> Semantics {
    Semantics::of(version)
}

/// A behavior, its value in 1.13, 1.20.2, 1.28 and 1.36, the last release without it and the first with it.
const TABLE: [(&str, Flag, [bool; 4], &str, &str); 18] = {
    const F: bool = false;
    const T: bool = true;
    [
        (
            "owners are verified by identity",
            |v| of(v).verify_owners,
            [F, T, T, T],
            "1.19.99",
            "1.20.0",
        ),
        (
            "suspect check d3",
            |v| of(v).suspect_cluster_scoped_guess,
            [F, F, T, T],
            "1.20.2",
            "1.20.3",
        ),
        (
            "transition: finalizer appears",
            |v| of(v).finalizer_may_appear_later,
            [F, T, T, T],
            "1.15.99",
            "1.16.0",
        ),
        (
            "diff: second reference is added",
            |v| of(v).duplicate_references_count,
            [F, T, T, T],
            "1.17.99",
            "1.18.0",
        ),
        (
            "DELETE with resourceVersion",
            |v| of(v).expect_resource_version,
            [F, F, F, T],
            "1.33.99",
            "1.34.0",
        ),
        (
            "DELETE 404 is absence",
            |v| of(v).delete_not_found_is_absence,
            [F, F, F, T],
            "1.35.99",
            "1.36.0",
        ),
        (
            "Forget",
            |v| of(v).forget_retries,
            [F, F, T, T],
            "1.22.99",
            "1.23.0",
        ),
        (
            "start without full sync",
            |v| of(v).start_without_full_sync,
            [F, F, F, T],
            "1.31.99",
            "1.32.0",
        ),
        (
            "partial discovery keeps",
            |v| of(v).keep_monitors_of_failed_groups,
            [F, F, T, T],
            "1.27.99",
            "1.28.0",
        ),
        (
            "events.k8s.io is ignored",
            |v| of(v).ignore_new_events,
            [F, F, T, T],
            "1.24.99",
            "1.25.0",
        ),
        (
            "patch: uid first",
            |v| of(v).delete_references_uid_first,
            [F, T, T, T],
            "1.17.99",
            "1.18.0",
        ),
        (
            "patch: no zero timestamps",
            |v| of(v).omit_zero_timestamps,
            [F, F, F, T],
            "1.33.99",
            "1.34.0",
        ),
        (
            "finalizers by patch",
            |v| of(v).patch_finalizers,
            [F, T, T, T],
            "1.14.99",
            "1.15.0",
        ),
        (
            "dump by uid",
            |v| of(v).sorted_dump,
            [F, F, T, T],
            "1.25.99",
            "1.26.0",
        ),
        (
            "API: RV precondition",
            |v| v.has(behavior::RESOURCE_VERSION_PRECONDITION),
            [F, T, T, T],
            "1.13.99",
            "1.14.0",
        ),
        (
            "API: equal references",
            |v| v.has(behavior::EQUAL_REFERENCES_ARE_DROPPED),
            [F, T, T, T],
            "1.19.99",
            "1.20.0",
        ),
        (
            "API: negative grace",
            |v| v.has(behavior::NEGATIVE_GRACE_IS_ONE),
            [F, F, T, T],
            "1.21.99",
            "1.22.0",
        ),
        (
            "API: options are copied",
            |v| v.has(behavior::COLLECTION_OPTIONS_ARE_COPIED),
            [F, F, T, T],
            "1.27.99",
            "1.28.0",
        ),
    ]
};

#[test]
fn each_release_has_the_behaviors_of_the_table() {
    for (name, flag, expected, last_without, first_with) in TABLE {
        let got = ["1.13", "1.20.2", "1.28", "1.36"].map(|text| flag(version(text)));
        assert_eq!(got, expected, "{name}");
        assert!(!flag(version(last_without)), "{name} in {last_without}");
        assert!(flag(version(first_with)), "{name} in {first_with}");
    }
}

/// A behavior stays: no release has fewer than an earlier one.
#[test]
fn no_release_loses_a_behavior() {
    for (name, flag, ..) in TABLE {
        let mut had = false;
        for minor in KubernetesVersion::MINOR_MIN..=KubernetesVersion::MINOR_MAX {
            for patch in [0, 2, 3, 99] {
                let has = flag(KubernetesVersion::new(minor, patch).expect("a release that kubegc knows"));
                assert!(has || !had, "{name} is lost in 1.{minor}.{patch}");
                had = has;
            }
        }
        assert!(had, "{name} never begins");
    }
}

#[test]
fn guesses_are_marked_as_such() {
    const GUESSES: [Behavior; 4] = [
        behavior::DUPLICATE_REFERENCES_COUNT,
        behavior::DELETE_REFERENCES_UID_FIRST,
        behavior::RETRIES_ARE_FORGOTTEN,
        behavior::COLLECTION_OPTIONS_ARE_COPIED,
    ];
    assert!(GUESSES.iter().all(|behavior| !behavior.is_certain()));
    assert!(behavior::OWNERS_ARE_VERIFIED.is_certain() && behavior::STARTS_WITHOUT_FULL_SYNC.is_certain());
}

#[test]
fn g11_events_of_either_group_are_ignored_from_1_25_on() {
    for (release, groups) in [("1.13", 1), ("1.24", 1), ("1.25", 2), ("1.36", 2)] {
        let ignored = Settings::new(version(release)).ignored_resources;
        assert_eq!(ignored.len(), groups, "{release}");
        assert!(ignored.iter().all(|(_, resource)| resource == "events"));
    }
}
