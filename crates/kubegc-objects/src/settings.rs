//! Settings of a collector: emulated version, concurrency, differences from upstream.

use std::{num::NonZeroU32, time::Duration};

use kubegc_core::{ApiResource, KubernetesVersion, version::behavior};

use crate::absent_owners::AbsentOwners;

/// Whether a collector is safer than upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hardening {
    /// Exactly what upstream does in this version, for predictions and comparisons.
    AsUpstream,
    /// For use in a cluster, with three differences from upstream:
    ///
    /// - A write carries every precondition that the decision depends on.
    /// - The lookup of an owner uses the scope of the item's kind. Upstream uses the namespace that its graph
    ///   guessed, so that it can miss the owners of a cluster-scoped item, and delete the item
    ///   ([A-9](crate::rules#a-9)).
    /// - An object that took the name of another one while no watch was open counts as new, and the other one
    ///   as deleted. Upstream processes an update: dependents of the other object stay, and a deletion of the
    ///   new one can wait forever ([E-4](crate::rules#e-4)).
    #[default]
    Strict,
}

/// Settings of a [`Collector`](crate::Collector).
///
/// # Examples
/// ```
/// use std::num::NonZeroU32;
/// use kubegc_core::KubernetesVersion;
/// use kubegc_objects::{Settings, settings::Hardening};
/// let mut settings = Settings::new("1.20.2".parse::<KubernetesVersion>()?);
/// assert_eq!(settings.hardening, Hardening::Strict);
/// settings.calls_in_flight_max = NonZeroU32::new(4);
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The emulated release.
    pub version: KubernetesVersion,
    /// Concurrent attemptToDelete workers ([W-4](crate::rules#w-4)). Upstream: `--concurrent-gc-syncs`, 20.
    /// More workers cost more requests at a time.
    pub attempt_to_delete_workers: u32,
    /// Concurrent attemptToOrphan workers ([W-4](crate::rules#w-4)). Upstream: the same flag.
    pub attempt_to_orphan_workers: u32,
    /// Limit of concurrent requests; `None` for no limit. Upstream has a rate limit in its client instead.
    pub calls_in_flight_max: Option<NonZeroU32>,
    /// Whether the collector is safer than upstream.
    pub hardening: Hardening,
    /// Capacity of the cache of absent owners ([G-36](crate::rules#g-36)). Upstream: 500. A smaller cache
    /// costs lookups, a larger one memory.
    pub absent_owners_max: usize,
    /// Resources, as group and name, that are not monitored ([G-11](crate::rules#g-11)). Upstream:
    /// `GCIgnoredResources`; by default events.
    pub ignored_resources: Vec<(String, String)>,
    /// Period of discovery; `None` for a single one ([G-17](crate::rules#g-17)). Upstream: 30 s.
    pub discovery_period: Option<Duration>,
    /// Limit of the wait for monitors that do not sync, in releases that start without them
    /// ([G-16](crate::rules#g-16)). Upstream: 30 s.
    pub initial_sync_timeout: Duration,
    /// Records the conclusion of each attempt for
    /// [`Collector::take_conclusions`](crate::Collector::take_conclusions).
    pub record_conclusions: bool,
}

impl Settings {
    /// Upstream's defaults for a version, with [`Hardening::Strict`].
    pub fn new(version: KubernetesVersion) -> Self {
        let mut ignored_resources = vec![(String::new(), "events".to_owned())];
        if version.has(behavior::NEW_EVENTS_ARE_IGNORED) {
            ignored_resources.push(("events.k8s.io".to_owned(), "events".to_owned()));
        }
        Self {
            version,
            attempt_to_delete_workers: 20,
            attempt_to_orphan_workers: 20,
            calls_in_flight_max: None,
            hardening: Hardening::Strict,
            absent_owners_max: AbsentOwners::CAPACITY,
            ignored_resources,
            discovery_period: Some(Duration::from_secs(30)),
            initial_sync_timeout: Duration::from_secs(30),
            record_conclusions: false,
        }
    }

    /// Returns whether a resource is not monitored ([G-11](crate::rules#g-11)). Its objects are neither
    /// deleted nor block their owner.
    pub fn ignores(&self, resource: &ApiResource) -> bool {
        let mut ignored = self.ignored_resources.iter();
        ignored.any(|(group, name)| **group == *resource.group && **name == *resource.resource)
    }

    pub(crate) const fn is_strict(&self) -> bool {
        matches!(self.hardening, Hardening::Strict)
    }

    /// The same settings with [`Hardening::AsUpstream`].
    #[must_use]
    pub const fn as_upstream(mut self) -> Self {
        self.hardening = Hardening::AsUpstream;
        self
    }
}
