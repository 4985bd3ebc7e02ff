//! When each mechanism looks: at once, or in the passes that it makes.

use std::time::Duration;

use kubegc_core::Timestamp;

use super::{Mechanism, Settings};
use crate::period::pass_at;

/// The time between two looks of the cleaner of certificate requests of pods.
const POD_CERTIFICATES: Duration = Duration::from_secs(3_600);
/// How long something that proved stale may wait for the news of the change.
pub(super) const STALE_MAX: Duration = Duration::from_secs(1);

/// When a mechanism, which began at `began`, looks at what is due at `due`: then, or in its first pass at or after that.
pub(super) fn look_at(
    settings: &Settings,
    mechanism: Mechanism,
    began: Timestamp,
    due: Timestamp,
) -> Timestamp {
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
            return policy.map_or(due, |policy| policy.pass_at(began, due));
        }
        _ => None,
    };
    period.map_or(due, |period| pass_at(began, due, period))
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
