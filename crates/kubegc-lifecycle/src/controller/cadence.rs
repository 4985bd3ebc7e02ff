//! When each mechanism looks: at once, or in the passes that it makes.
//!
//! # Upstream
//! `wait.UntilWithContext` after `WaitForCacheSync`: the first pass as soon as all is listed, and each other a period after the one before. Passes are taken to
//! need no time.

use std::time::Duration;

use kubegc_core::Timestamp;

use super::{Mechanism, Settings, machine::after};
use crate::period::pass_at;

/// The time between two looks of the cleaner of certificate requests of pods.
const POD_CERTIFICATES: Duration = Duration::from_secs(3_600);
/// How long something that proved stale may wait for the news of the change.
pub(super) const STALE_MAX: Duration = Duration::from_secs(1);

/// The passes of one mechanism, as far as they were made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passes {
    /// When the last one began; before the first, from when on that one may.
    anchor: Timestamp,
    has_begun: bool,
    /// Whether all that the mechanism looks at was ever listed.
    pub(super) is_complete: bool,
}

impl Passes {
    /// None was made, and the first is due at this time.
    pub(super) const fn new(anchor: Timestamp, is_complete: bool) -> Self {
        Self {
            anchor,
            has_begun: false,
            is_complete,
        }
    }

    /// The next pass that finds what is due then.
    pub(super) fn pass_at(&self, settings: &Settings, mechanism: Mechanism, due: Timestamp) -> Timestamp {
        let earliest = if self.has_begun {
            after(self.anchor)
        } else {
            self.anchor
        };
        pass_of(settings, mechanism, self.anchor, due.max(earliest))
    }

    /// A pass begins now. The next ones count from here, however late it is.
    pub(super) const fn begin(&mut self, now: Timestamp) {
        (self.anchor, self.has_begun) = (now, true);
    }
}

/// The first pass at or after `due` of a mechanism one pass of which is at `any_pass`; `due` where it does not look in passes.
fn pass_of(settings: &Settings, mechanism: Mechanism, any_pass: Timestamp, due: Timestamp) -> Timestamp {
    let period = match mechanism {
        Mechanism::Pods => settings.pods.as_ref().map(|settings| settings.period),
        Mechanism::Certificates => settings
            .certificates
            .as_ref()
            .map(|settings| settings.pass_period),
        Mechanism::PodCertificates => Some(POD_CERTIFICATES),
        Mechanism::Nodes => settings.nodes.as_ref().map(|settings| settings.period),
        Mechanism::LegacyTokens => {
            let policy = settings.legacy_tokens.as_ref();
            return policy.map_or(due, |policy| policy.pass_at(any_pass, due));
        }
        _ => None,
    };
    period.map_or(due, |period| pass_at(any_pass, due, period))
}

/// Whether a mechanism looks in passes.
pub(super) const fn has_passes(mechanism: Mechanism) -> bool {
    matches!(
        mechanism,
        Mechanism::Pods
            | Mechanism::Certificates
            | Mechanism::PodCertificates
            | Mechanism::Nodes
            | Mechanism::LegacyTokens
    )
}
