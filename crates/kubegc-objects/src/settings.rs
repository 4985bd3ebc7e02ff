//! How a collector is run: which version it behaves as, how many items it handles at a time, what its writes expect.

use std::{num::NonZeroU32, time::Duration};

use kubegc_core::{ApiResource, KubernetesVersion};

use crate::{Semantics, absent_owners};

/// What a write carries beyond what upstream sends.
#[expect(
    clippy::exhaustive_enums,
    reason = "upstream's bytes, or all that is expected"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hardening {
    /// Exactly what upstream sends in this version: for prediction, and to be compared with it.
    AsUpstream,
    /// Every precondition that the decision rests on: for collecting in earnest.
    #[default]
    Strict,
}

/// How a [`Collector`](crate::Collector) is run.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The behaviours, resolved from a version.
    pub semantics: Semantics,
    /// Items whose owners are verified at a time. Upstream: `--concurrent-gc-syncs`, 20. More is faster and asks more of the API server.
    pub attempt_to_delete_workers: u32,
    /// Owners whose dependents are released at a time. Upstream: the same flag, a second time.
    pub attempt_to_orphan_workers: u32,
    /// Requests in flight at a time; `None`: as many as the workers make. Ours: upstream limits requests a second in its client instead.
    pub calls_in_flight_max: Option<NonZeroU32>,
    /// What writes expect.
    pub hardening: Hardening,
    /// Absent owners remembered. Upstream: 500. Fewer cost lookups, more cost memory.
    pub absent_owners_max: usize,
    /// Resources, as group and name, that are not monitored. Upstream: `GCIgnoredResources`; by default events.
    pub ignored_resources: Vec<(String, String)>,
    /// How often the served kinds are asked for; `None`: once. Upstream: 30 s.
    pub discovery_period: Option<Duration>,
    /// How long to wait for monitors that do not sync before starting anyway, where the version does that. Upstream: 30 s.
    pub initial_sync_timeout: Duration,
    /// Whether to record how each attempt ended, for [`Collector::take_conclusions`](crate::Collector::take_conclusions).
    pub record_conclusions: bool,
}

impl Settings {
    /// Upstream's defaults for a version, with strict expectations.
    #[must_use]
    pub fn new(version: KubernetesVersion) -> Self {
        let semantics = Semantics::of(version);
        let mut ignored_resources = vec![(String::new(), "events".to_owned())];
        if semantics.ignore_new_events {
            ignored_resources.push(("events.k8s.io".to_owned(), "events".to_owned()));
        }
        Self {
            semantics,
            attempt_to_delete_workers: 20,
            attempt_to_orphan_workers: 20,
            calls_in_flight_max: None,
            hardening: Hardening::Strict,
            absent_owners_max: absent_owners::CAPACITY,
            ignored_resources,
            discovery_period: Some(Duration::from_secs(30)),
            initial_sync_timeout: Duration::from_secs(30),
            record_conclusions: false,
        }
    }

    /// Whether the collector monitors no objects of a resource: none of them is collected or holds up its owner.
    #[must_use]
    pub fn ignores(&self, resource: &ApiResource) -> bool {
        let mut ignored = self.ignored_resources.iter();
        ignored.any(|(group, name)| **group == *resource.group && **name == *resource.resource)
    }

    /// The same, sending exactly what upstream sends.
    #[must_use]
    pub const fn as_upstream(mut self) -> Self {
        self.hardening = Hardening::AsUpstream;
        self
    }
}
