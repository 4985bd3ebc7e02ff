//! Behavior by release: the first release of each behavior.

use kubegc_core::{
    KubernetesVersion,
    version::{Behavior, behavior},
};
use kubegc_objects::{Settings, settings::Semantics};

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

#[track_caller]
fn of_collector(first: &str, has: fn(Semantics) -> bool) {
    begins(first, |release| has(Semantics::of(release)));
}

#[track_caller]
fn of_server(first: &str, behavior: Behavior) {
    begins(first, |release| release.has(behavior));
}

#[test]
fn each_behavior_begins_with_its_release() {
    of_collector("1.15.0", |of| of.patch_finalizers);
    of_collector("1.16.0", |of| of.finalizer_may_appear_later);
    of_collector("1.17.0", |of| of.duplicate_references_count);
    of_collector("1.17.0", |of| of.delete_references_uid_first);
    of_collector("1.20.0", |of| of.verify_owners);
    of_collector("1.20.3", |of| of.suspect_cluster_scoped_guess);
    of_collector("1.24.0", |of| of.forget_retries);
    of_collector("1.25.0", |of| of.ignore_new_events);
    of_collector("1.26.0", |of| of.sorted_dump);
    of_collector("1.29.0", |of| of.keep_monitors_of_failed_groups);
    of_collector("1.32.0", |of| of.start_without_full_sync);
    of_collector("1.34.0", |of| of.expect_resource_version);
    of_collector("1.34.0", |of| of.omit_zero_timestamps);
    of_collector("1.36.0", |of| of.delete_not_found_is_absence);
    of_server("1.14.0", behavior::RESOURCE_VERSION_PRECONDITION);
    of_server("1.20.0", behavior::EQUAL_REFERENCES_ARE_DROPPED);
    of_server("1.22.0", behavior::NEGATIVE_GRACE_IS_ONE);
    of_server("1.33.0", behavior::ADDRESSES_ARE_OBJECTS);
    of_server("1.22.0", behavior::COLLECTION_OPTIONS_ARE_COPIED);
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
