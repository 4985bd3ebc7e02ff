//! Says how namespaces are emptied: what goes first, which conditions are written, and when a visit is repeated.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use kubegc_core::{Behavior, KubernetesVersion, Timestamp, version::behavior};

/// The token in `spec.finalizers` that this controller owns.
pub const FINALIZER_KUBERNETES: &str = "kubernetes";

/// Conditions tell how discovery, parsing and deletion went.
const CONDITIONS_TELL_FAILURES: Behavior = Behavior::since(16, 0, "condition types of k8s.io/api 1.16");
/// Conditions tell what remains, too.
const CONDITIONS_TELL_REMAINDER: Behavior = Behavior::since(17, 0, "kubernetes #82189");

/// How namespaces are emptied. Starts from upstream's defaults for a release; each field may be changed.
///
/// # Examples
/// ```
/// use kubegc_lifecycle::namespace::Settings;
/// assert!(Settings::new("1.33".parse()?).pods_go_first);
/// assert!(!Settings::new("1.32".parse()?).pods_go_first);
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whether pods must be gone before anything else is touched. Default: since 1.33.
    ///
    /// Off, a pod that is still ending may lose its ConfigMaps, Secrets and NetworkPolicies. Upstream: feature gate
    /// `OrderedNamespaceDeletion`, also in 1.30 to 1.32 but off there.
    pub pods_go_first: bool,
    /// Whether conditions tell how discovery, parsing and deletion went. Default: since 1.16.
    pub conditions_tell_failures: bool,
    /// Whether conditions tell what remains. Default: since 1.17.
    pub conditions_tell_remainder: bool,
    /// The time between an event of a deleted namespace and its first visit. Default: 5 s.
    ///
    /// Upstream's protection against API servers that still let objects in: too low, and such objects fail the visit.
    pub delay: Duration,
    /// The wait after a first failed visit, doubled with each further failure. Default: 5 ms.
    pub retry_min: Duration,
    /// The longest wait after a failed visit. Default: 60 s.
    pub retry_max: Duration,
    /// The seconds that objects with finalizers are allowed, before the next look at half of them. Default: 15.
    ///
    /// Never zero: zero would mean that nothing remains.
    pub finalizer_estimate_seconds: NonZeroU32,
    /// The token to remove from `spec.finalizers` at the end. Default: `kubernetes`.
    pub finalizer: Arc<str>,
}

impl Settings {
    /// Upstream's defaults in a release.
    #[must_use]
    pub fn new(version: KubernetesVersion) -> Self {
        const FIFTEEN: NonZeroU32 = NonZeroU32::new(15).expect("15 is not zero");
        Self {
            pods_go_first: version.has(behavior::NAMESPACE_PODS_GO_FIRST),
            conditions_tell_failures: version.has(CONDITIONS_TELL_FAILURES),
            conditions_tell_remainder: version.has(CONDITIONS_TELL_REMAINDER),
            delay: Duration::from_secs(5),
            retry_min: Duration::from_millis(5),
            retry_max: Duration::from_secs(60),
            finalizer_estimate_seconds: FIFTEEN,
            finalizer: FINALIZER_KUBERNETES.into(),
        }
    }

    /// When a namespace is first visited after an event that shows its deletion.
    #[must_use]
    pub fn first_visit_at(&self, event_at: Timestamp) -> Timestamp {
        event_at.saturating_add(self.delay)
    }

    /// The wait after a failed visit that `failures` failed ones in a row came before.
    #[must_use]
    pub fn retry_after(&self, failures: u32) -> Duration {
        let factor = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
        self.retry_min.saturating_mul(factor).min(self.retry_max)
    }
}

impl Default for Settings {
    /// Upstream's defaults in the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_double_up_to_a_minute() {
        let settings = Settings::default();
        for (failures, millis) in [
            (0, 5),
            (1, 10),
            (2, 20),
            (13, 40_960),
            (14, 60_000),
            (u32::MAX, 60_000),
        ] {
            let expected = Duration::from_millis(millis);
            assert_eq!(settings.retry_after(failures), expected, "{failures} failures");
        }
    }

    #[test]
    fn the_first_visit_waits_for_late_writes() {
        let event = Timestamp::from_secs(100);
        assert_eq!(
            Settings::default().first_visit_at(event),
            Timestamp::from_secs(105)
        );
    }

    #[test]
    fn each_behavior_begins_with_its_release() {
        for (text, expected) in [
            ("1.15", [false, false, false]),
            ("1.16", [true, false, false]),
            ("1.17", [true, true, false]),
            ("1.32", [true, true, false]),
            ("1.33", [true, true, true]),
        ] {
            let settings = Settings::new(text.parse().expect("a release in range"));
            let got = [
                settings.conditions_tell_failures,
                settings.conditions_tell_remainder,
                settings.pods_go_first,
            ];
            assert_eq!(got, expected, "{text}");
        }
    }
}
