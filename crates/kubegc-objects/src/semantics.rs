//! Behaviors that differ between releases: one flag each, resolved from a Kubernetes version.
//!
//! Planners read flags, never version numbers. The [`behavior`] of a flag documents its first release and the
//! upstream change. A flag can be set alone to compare outcomes.

use kubegc_core::{KubernetesVersion, version::behavior};

/// Behaviors of the owner-reference collector that changed between releases.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each behavior changed in its own release, and callers may combine them"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Semantics {
    /// Owners are verified by their whole identity ([`behavior::OWNERS_ARE_VERIFIED`]).
    pub verify_owners: bool,
    /// A virtual owner without namespace makes a namespaced dependent suspect
    /// ([`behavior::CLUSTER_SCOPED_GUESS_IS_SUSPECT`]).
    pub suspect_cluster_scoped_guess: bool,
    /// A finalizer counts from the update that adds it ([`behavior::FINALIZER_MAY_APPEAR_LATER`]).
    pub finalizer_may_appear_later: bool,
    /// A second reference with one uid counts as added ([`behavior::DUPLICATE_REFERENCES_COUNT`]).
    pub duplicate_references_count: bool,
    /// The patch that removes references names the uid first ([`behavior::DELETE_REFERENCES_UID_FIRST`]).
    pub delete_references_uid_first: bool,
    /// Patches leave zero timestamps out ([`behavior::ZERO_TIMESTAMPS_ARE_OMITTED`]).
    pub omit_zero_timestamps: bool,
    /// Finalizers are removed by a merge patch ([`behavior::FINALIZERS_ARE_PATCHED`]).
    pub patch_finalizers: bool,
    /// Deletes expect the version that was read ([`behavior::DELETES_EXPECT_RESOURCE_VERSION`]).
    pub expect_resource_version: bool,
    /// A delete that returns 404 is a virtual delete ([`behavior::DELETE_NOT_FOUND_IS_ABSENCE`]).
    pub delete_not_found_is_absence: bool,
    /// Retry counts are reset ([`behavior::RETRIES_ARE_FORGOTTEN`]).
    pub forget_retries: bool,
    /// Workers start after 30 s in any case and never pause ([`behavior::STARTS_WITHOUT_FULL_SYNC`]).
    pub start_without_full_sync: bool,
    /// Synced monitors continue if the discovery of their group fails
    /// ([`behavior::PARTIAL_DISCOVERY_KEEPS_MONITORS`]).
    pub keep_monitors_of_failed_groups: bool,
    /// Events of `events.k8s.io` are not monitored ([`behavior::NEW_EVENTS_ARE_IGNORED`]).
    pub ignore_new_events: bool,
    /// The graph dump names nodes by uid ([`behavior::DUMP_IS_SORTED`]).
    pub sorted_dump: bool,
}

impl Semantics {
    /// The behaviors of a release.
    pub const fn of(version: KubernetesVersion) -> Self {
        Self {
            verify_owners: version.has(behavior::OWNERS_ARE_VERIFIED),
            suspect_cluster_scoped_guess: version.has(behavior::CLUSTER_SCOPED_GUESS_IS_SUSPECT),
            finalizer_may_appear_later: version.has(behavior::FINALIZER_MAY_APPEAR_LATER),
            duplicate_references_count: version.has(behavior::DUPLICATE_REFERENCES_COUNT),
            delete_references_uid_first: version.has(behavior::DELETE_REFERENCES_UID_FIRST),
            omit_zero_timestamps: version.has(behavior::ZERO_TIMESTAMPS_ARE_OMITTED),
            patch_finalizers: version.has(behavior::FINALIZERS_ARE_PATCHED),
            expect_resource_version: version.has(behavior::DELETES_EXPECT_RESOURCE_VERSION),
            delete_not_found_is_absence: version.has(behavior::DELETE_NOT_FOUND_IS_ABSENCE),
            forget_retries: version.has(behavior::RETRIES_ARE_FORGOTTEN),
            start_without_full_sync: version.has(behavior::STARTS_WITHOUT_FULL_SYNC),
            keep_monitors_of_failed_groups: version.has(behavior::PARTIAL_DISCOVERY_KEEPS_MONITORS),
            ignore_new_events: version.has(behavior::NEW_EVENTS_ARE_IGNORED),
            sorted_dump: version.has(behavior::DUMP_IS_SORTED),
        }
    }
}
