//! Which of upstream's historical behaviours the collector has: one flag each, resolved from a Kubernetes version.
//!
//! Planners read flags, never version numbers. A flag's first release and the change that brought it are with the
//! [`behavior`] that it resolves from; a flag can be set by itself to ask "what would change".

use kubegc_core::{KubernetesVersion, version::behavior};

/// The behaviours of the owner-reference collector that changed between releases.
#[expect(
    clippy::exhaustive_structs,
    clippy::struct_excessive_bools,
    reason = "each behaviour came alone, and callers may combine them to ask what one of them changes"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Semantics {
    /// Owners are verified by their whole identity ([`behavior::OWNERS_ARE_VERIFIED`]).
    pub verify_owners: bool,
    /// A virtual owner without namespace makes a namespaced dependent suspect ([`behavior::CLUSTER_SCOPED_GUESS_IS_SUSPECT`]).
    pub suspect_cluster_scoped_guess: bool,
    /// Finalizers count from when they appear ([`behavior::FINALIZER_MAY_APPEAR_LATER`]).
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
    /// A delete answered 404 is a virtual delete ([`behavior::DELETE_NOT_FOUND_IS_ABSENCE`]).
    pub delete_not_found_is_absence: bool,
    /// Retry counters are forgotten ([`behavior::RETRIES_ARE_FORGOTTEN`]).
    pub forget_retries: bool,
    /// Workers start after 30 s in any case and never pause ([`behavior::STARTS_WITHOUT_FULL_SYNC`]).
    pub start_without_full_sync: bool,
    /// Synced monitors outlive a failed discovery of their group ([`behavior::PARTIAL_DISCOVERY_KEEPS_MONITORS`]).
    pub keep_monitors_of_failed_groups: bool,
    /// Events of `events.k8s.io` are not monitored ([`behavior::NEW_EVENTS_ARE_IGNORED`]).
    pub ignore_new_events: bool,
    /// A node takes over the apiVersion and kind that its object is observed under (kubernetes #137036, not merged when last seen): off in every
    /// version.
    pub refresh_api_version: bool,
    /// The graph dump names nodes by uid ([`behavior::DUMP_IS_SORTED`]).
    pub sorted_dump: bool,
}

impl Semantics {
    /// The behaviours of a release.
    #[must_use]
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
            refresh_api_version: false,
            sorted_dump: version.has(behavior::DUMP_IS_SORTED),
        }
    }
}
