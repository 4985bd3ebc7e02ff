//! Says how long certificate signing requests stay.

use std::time::Duration;

use kubegc_core::{Behavior, KubernetesVersion, Timestamp};

use crate::period::pass_at;

/// A condition `Failed` has a deadline, and an empty certificate is none.
const FAILED_IS_CLEANED: Behavior = Behavior::since(19, 0, "certificates.k8s.io/v1");
/// A certificate that cannot be read no longer keeps its request. Also in late patches of 1.20 and 1.21, which are not told apart here.
const BAD_CERTIFICATES_ARE_TOLERATED: Behavior = Behavior::since(22, 0, "kubernetes #103823");

const HOUR: Duration = Duration::from_secs(3_600);

/// How long certificate signing requests stay. Starts from upstream's constants in a release, but for [`Self::unissued_age`]; upstream
/// has no flags for them.
///
/// Ages that are too low take requests away before somebody has read why they were denied; too high, requests pile up in clusters that
/// rotate certificates often.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The age that an approval must exceed where a certificate was issued. Default: 1 h.
    pub issued_age: Duration,
    /// The age that a denial must exceed. Default: 1 h.
    pub denied_age: Duration,
    /// The age that a failure must exceed; `None` where failures have no deadline. Default: 1 h, since 1.19.
    pub failed_age: Option<Duration>,
    /// The age that a request without any condition must exceed. Default: 24 h.
    pub pending_age: Duration,
    /// The age that an approval must exceed where no certificate was issued; `None` where such requests stay forever.
    /// Default: none, in every release.
    ///
    /// Upstream's newest releases have a deadline of 24 h (kubernetes #133116), which is not taken over unasked: a signer may be slow, or a person.
    /// Without a deadline, requests that nobody signs pile up; too low, one goes before its signer came to it.
    pub unissued_age: Option<Duration>,
    /// Whether an empty certificate, as opposed to none, counts as issued. Default: until 1.18.
    pub empty_is_issued: bool,
    /// Whether a certificate that cannot be read keeps its request, whatever the other rules say. Default: until 1.21.
    pub bad_certificate_keeps: bool,
    /// The time between two looks at all requests. Default: 1 h. No plan depends on it; see [`Self::pass_at`].
    pub pass_period: Duration,
}

impl Settings {
    /// Upstream's constants in a release.
    #[must_use]
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            issued_age: HOUR,
            denied_age: HOUR,
            failed_age: version.has(FAILED_IS_CLEANED).then_some(HOUR),
            pending_age: 24 * HOUR,
            unissued_age: None,
            empty_is_issued: !version.has(FAILED_IS_CLEANED),
            bad_certificate_keeps: !version.has(BAD_CERTIFICATES_ARE_TOLERATED),
            pass_period: HOUR,
        }
    }

    /// The look that finds what became due at `due`, if one look began at `any_pass`: the first at or after it.
    ///
    /// Looks themselves are taken to need no time. Upstream's period begins anew when a look has ended.
    #[must_use]
    pub fn pass_at(&self, any_pass: Timestamp, due: Timestamp) -> Timestamp {
        pass_at(any_pass, due, self.pass_period)
    }
}

impl Default for Settings {
    /// Upstream's constants in the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}
