//! Says how long a token must be unused.

use std::time::Duration;

use kubegc_core::{Behavior, KubernetesVersion, Timestamp};

use crate::period::pass_at;

/// The cleaner runs without a feature gate being set.
const RUNS: Behavior = Behavior::since(29, 0, "LegacyServiceAccountTokenCleanUp became beta");

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// How long a token must be unused. Valid by construction; starts from upstream's defaults for a release.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use kubegc_lifecycle::token::legacy::Policy;
/// let month = Duration::from_secs(30 * 24 * 3_600);
/// assert_eq!(Policy::default().with_clean_up_period(month)?.clean_up_period(), month);
/// let error = Policy::default().with_clean_up_period(Duration::ZERO).unwrap_err();
/// assert_eq!(error.to_string(), "invalid CleanUpPeriod: 0s");
/// # Ok::<(), kubegc_lifecycle::token::legacy::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    enabled: bool,
    clean_up_period: Duration,
    pass_period: Duration,
}

impl Policy {
    /// Upstream's defaults in a release.
    #[must_use]
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            enabled: version.has(RUNS),
            clean_up_period: 365 * DAY,
            pass_period: DAY,
        }
    }

    /// The same policy for a controller that runs, or does not.
    ///
    /// Default: since 1.29. Upstream: alpha and off in 1.28, beta and on from 1.29. Off, no token is marked, and none deleted.
    #[must_use]
    pub const fn with_enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// The same policy with another time that a token must be unused before it is marked, and marked before it is deleted.
    ///
    /// Default: 8760 h. Upstream: `--legacy-service-account-token-clean-up-period`. Too low, a token that is used once a quarter is refused; too high,
    /// forgotten tokens stay good for whoever finds them.
    ///
    /// # Errors
    /// The period is zero. Upstream refuses negative ones, too, which a [`Duration`] cannot be.
    pub const fn with_clean_up_period(mut self, period: Duration) -> Result<Self, PolicyError> {
        if period.is_zero() {
            return Err(PolicyError::CleanUpPeriod);
        }
        self.clean_up_period = period;
        Ok(self)
    }

    /// Whether the controller runs.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The time that a token must be unused before it is marked, and marked before it is deleted.
    #[must_use]
    pub const fn clean_up_period(&self) -> Duration {
        self.clean_up_period
    }

    /// The pass that finds what became due at `due`, if one pass began at `any_pass`: upstream makes one every 24 h.
    #[must_use]
    pub fn pass_at(&self, any_pass: Timestamp, due: Timestamp) -> Timestamp {
        pass_at(any_pass, due, self.pass_period)
    }
}

impl Default for Policy {
    /// Upstream's defaults in the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}

/// Why a policy is refused. The texts are upstream's.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PolicyError {
    /// The time that a token must be unused is zero.
    #[error("invalid CleanUpPeriod: 0s")]
    CleanUpPeriod,
}
