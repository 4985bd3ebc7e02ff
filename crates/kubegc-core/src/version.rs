//! Kubernetes releases, and behaviours with the release of their introduction.
//!
//! Behaviours are defined once, next to the code that uses them, and are resolved here: no planner compares
//! version numbers. Behaviours that several crates use are in [`behavior`].

use std::str::FromStr;

use crate::error::FieldError;

/// A Kubernetes release from 1.13.0 on. A release after 1.37 has the behaviour of the newest one that kubegc
/// knows ([`warning`](Self::warning)).
///
/// # Examples
/// ```
/// use kubegc_core::{KubernetesVersion, version::behavior};
/// let version: KubernetesVersion = "v1.20.2".parse()?;
/// assert!(version.has(behavior::OWNERS_ARE_VERIFIED));
/// assert!(!version.has(behavior::DELETES_EXPECT_RESOURCE_VERSION));
/// assert!("1.12.9".parse::<KubernetesVersion>().is_err());
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("1.{minor}.{patch}")]
pub struct KubernetesVersion {
    minor: u16,
    patch: u16,
}

impl KubernetesVersion {
    /// The oldest minor release that kubegc supports.
    pub const MINOR_MIN: u16 = 13;
    /// The newest minor release that kubegc knows.
    pub const MINOR_MAX: u16 = 37;
    /// The newest release with recordings.
    pub const LATEST: Self = Self { minor: 36, patch: 0 };

    /// Builds release 1.`minor`.`patch`.
    ///
    /// # Errors
    /// The minor release is older than 13.
    pub fn new(minor: u16, patch: u16) -> Result<Self, FieldError> {
        if minor >= Self::MINOR_MIN {
            Ok(Self { minor, patch })
        } else {
            Err(FieldError::invalid(
                "version",
                &format!("1.{minor}.{patch}"),
                "kubegc knows 1.13 and later",
            ))
        }
    }

    /// A warning for users if the release is newer than those that kubegc knows.
    pub fn warning(self) -> Option<String> {
        (self.minor > Self::MINOR_MAX).then(|| {
            format!(
                "kubegc knows Kubernetes up to 1.{}: for {self}, behaviour of the newest known release is used",
                Self::MINOR_MAX
            )
        })
    }

    /// The minor release: 20 for 1.20.2.
    pub const fn minor(self) -> u16 {
        self.minor
    }

    /// The patch release: 2 for 1.20.2.
    pub const fn patch(self) -> u16 {
        self.patch
    }

    /// Whether this release has the behaviour.
    pub const fn has(self, behavior: Behavior) -> bool {
        let first = behavior.first;
        self.minor > first.minor || (self.minor == first.minor && self.patch >= first.patch)
    }

    /// Whether this release has a change that was picked to patch releases. `picks` has one entry for each
    /// minor release with a pick, in order, then the first minor release that has the change from its start.
    pub const fn has_change(self, mut picks: &[Behavior]) -> bool {
        while let [pick, later @ ..] = picks {
            if self.has(*pick) && (later.is_empty() || self.minor == pick.first.minor) {
                return true;
            }
            picks = later;
        }
        false
    }
}

impl FromStr for KubernetesVersion {
    type Err = FieldError;

    /// Reads `1.20`, `1.20.2` or `v1.20.2`; build suffixes such as `+k3s1` or `-gke.100` are ignored.
    fn from_str(text: &str) -> Result<Self, FieldError> {
        let bad = || FieldError::invalid("version", text, "expected 1.<minor> or 1.<minor>.<patch>");
        let plain = text.strip_prefix('v').unwrap_or(text);
        let plain = plain.split(['+', '-']).next().unwrap_or(plain);
        let mut parts = plain
            .split('.')
            .map(|part| part.parse::<u16>().map_err(|_| bad()));
        let (Some(major), Some(minor)) = (parts.next().transpose()?, parts.next().transpose()?) else {
            return Err(bad());
        };
        let patch = parts.next().transpose()?.unwrap_or(0);
        if major != 1 || parts.next().is_some() {
            return Err(bad());
        }
        Self::new(minor, patch)
    }
}

/// One behaviour of Kubernetes since a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Behavior {
    first: KubernetesVersion,
    certain: bool,
    /// The upstream change that introduced it.
    source: &'static str,
}

impl Behavior {
    /// A behaviour whose first release is known. `source` names the change upstream.
    pub const fn since(minor: u16, patch: u16, source: &'static str) -> Self {
        Self {
            first: KubernetesVersion { minor, patch },
            certain: true,
            source,
        }
    }

    /// A behaviour whose first release is the best guess.
    pub const fn since_about(minor: u16, source: &'static str) -> Self {
        Self {
            certain: false,
            ..Self::since(minor, 0, source)
        }
    }

    /// Whether the first release is known from upstream's source.
    pub const fn is_certain(self) -> bool {
        self.certain
    }
}

/// Behaviours of owner-reference collection and of the API server's deletion that changed between releases.
pub mod behavior {
    use super::Behavior;

    /// `foregroundDeletion` and `orphan` take effect when they appear on a terminating object, not only at
    /// the start of the deletion.
    pub const FINALIZER_MAY_APPEAR_LATER: Behavior = Behavior::since(16, 0, "kubernetes #81081");
    /// The garbage collector removes finalizers by a merge patch instead of an update of the complete object.
    pub const FINALIZERS_ARE_PATCHED: Behavior = Behavior::since(15, 0, "kubernetes #75972");
    /// Owners are verified by their complete identity: cache keys, suspect references, virtual deletes,
    /// warning events.
    pub const OWNERS_ARE_VERIFIED: Behavior = Behavior::since(20, 0, "kubernetes #92743");
    /// A virtual owner without namespace makes a namespaced dependent suspect.
    pub const CLUSTER_SCOPED_GUESS_IS_SUSPECT: Behavior = Behavior::since(20, 3, "kubernetes #98068");
    /// A second reference with the same uid counts as added on every update; before, duplicates collapse.
    pub const DUPLICATE_REFERENCES_COUNT: Behavior = Behavior::since(17, 0, "graph_builder.go of 1.17");
    /// The uid precedes the references in the patch that removes references.
    pub const DELETE_REFERENCES_UID_FIRST: Behavior = Behavior::since(17, 0, "patch.go of 1.17");
    /// Retry counters are reset when an item is not retried.
    pub const RETRIES_ARE_FORGOTTEN: Behavior = Behavior::since(24, 0, "kubernetes #106029");
    /// Events of `events.k8s.io` are not monitored either.
    pub const NEW_EVENTS_ARE_IGNORED: Behavior = Behavior::since(25, 0, "kubernetes #110888");
    /// The graph dump names nodes by uid and is sorted.
    pub const DUMP_IS_SORTED: Behavior = Behavior::since(26, 0, "kubernetes #112692");
    /// A synced monitor is retained when discovery fails for its group.
    pub const PARTIAL_DISCOVERY_KEEPS_MONITORS: Behavior = Behavior::since(29, 0, "kubernetes #117992");
    /// Workers start after 30 s even if some kinds never sync, and no longer pause while monitors change.
    pub const STARTS_WITHOUT_FULL_SYNC: Behavior = Behavior::since(32, 0, "kubernetes #125796");
    /// Deletes have a resourceVersion precondition; a conflict leads to a recheck of the references.
    pub const DELETES_EXPECT_RESOURCE_VERSION: Behavior = Behavior::since(34, 0, "kubernetes #132632");
    /// Zero timestamps are omitted from patches.
    pub const ZERO_TIMESTAMPS_ARE_OMITTED: Behavior = Behavior::since(34, 0, "kubernetes #130989");
    /// A delete with response 404 counts as a virtual delete, not as an error.
    pub const DELETE_NOT_FOUND_IS_ABSENCE: Behavior = Behavior::since(36, 0, "kubernetes #136817");
    /// Errors of validation print values as JSON, before with Go's `%#v`.
    pub const VALUES_ARE_JSON: Behavior = Behavior::since(34, 0, "kubernetes #132314");
    /// Errors about long values say what they may be.
    pub const TOO_LONG_MAY_NOT_BE: Behavior = Behavior::since(32, 0, "kubernetes #128553");
    /// The API server honours a resourceVersion precondition.
    pub const RESOURCE_VERSION_PRECONDITION: Behavior = Behavior::since(14, 0, "kubernetes #74040");
    /// The API server drops references that equal an earlier one, with a warning.
    pub const EQUAL_REFERENCES_ARE_DROPPED: Behavior = Behavior::since(20, 0, "kubernetes #96185");
    /// A negative grace period counts as one second.
    pub const NEGATIVE_GRACE_IS_ONE: Behavior = Behavior::since(22, 0, "kubernetes #98866");
    /// A collection delete gives each item its own copy of the options.
    pub const COLLECTION_OPTIONS_ARE_COPIED: Behavior = Behavior::since(22, 0, "kubernetes #100101");
    /// ClusterIPs are IPAddress objects, which the API server deletes with their Service; ServiceCIDRs have a
    /// finalizer. The feature gate `MultiCIDRServiceAllocator`: alpha from 1.27, beta and off from 1.31, on
    /// from 1.33.
    pub const ADDRESSES_ARE_OBJECTS: Behavior =
        Behavior::since(33, 0, "feature gate MultiCIDRServiceAllocator is on");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_people_write_them() {
        for (text, expected) in [
            ("1.20.2", Some((20, 2))),
            ("v1.36", Some((36, 0))),
            ("v1.29.3+k3s1", Some((29, 3))),
            ("1.28.5-gke.1200", Some((28, 5))),
            ("1.12", None),
            ("v1.38.0-alpha.2", Some((38, 0))),
            ("2.20", None),
            ("1", None),
            ("1.20.2.1", None),
            ("latest", None),
        ] {
            let got = text
                .parse::<KubernetesVersion>()
                .ok()
                .map(|version| (version.minor(), version.patch()));
            assert_eq!(got, expected, "{text}");
        }
    }

    #[test]
    fn a_release_after_the_newest_known_one_has_its_behavior_and_a_warning() {
        let version = |minor| KubernetesVersion::new(minor, 0).expect("it is not too old");
        assert_eq!(version(KubernetesVersion::MINOR_MAX).warning(), None);
        let later = version(40);
        assert!(later.has(behavior::DELETE_NOT_FOUND_IS_ABSENCE));
        assert_eq!(
            later.warning().as_deref(),
            Some(
                "kubegc knows Kubernetes up to 1.37: for 1.40.0, behaviour of the newest known release is used"
            )
        );
    }
}
