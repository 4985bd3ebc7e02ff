//! Says how the claims of stateful sets get their owners in a release.

use kubegc_core::{Behavior, KubernetesVersion};

/// The policy is followed at all.
const FOLLOWS_POLICY: Behavior = Behavior::since(27, 0, "StatefulSetAutoDeletePVC");
/// References make their owner the controller, and other controllers are respected.
const OWNERS_ARE_CONTROLLERS: Behavior = Behavior::since_about(31, "kubernetes #122499");

/// How the claims of stateful sets get their owners. Starts from upstream's defaults for a release; each field may be changed.
///
/// # Examples
/// ```
/// use kubegc_lifecycle::statefulset::Settings;
/// let settings = Settings::new("1.30".parse()?);
/// assert!(settings.follows_policy && !settings.owners_are_controllers);
/// assert!(Settings::default().owners_are_controllers);
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whether the policy of a set is followed. Default: since 1.27.
    ///
    /// Off, claims stay when their set or pod goes. Upstream: feature gate `StatefulSetAutoDeletePVC`, also in 1.23 to 1.26 but off there.
    pub follows_policy: bool,
    /// Whether references make their owner the controller of the claim. Default: since about 1.31.
    ///
    /// Off, references are known by uid alone and are plain ones, and it does not matter who else controls a claim.
    pub owners_are_controllers: bool,
}

impl Settings {
    /// Upstream's defaults in a release.
    #[must_use]
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            follows_policy: version.has(FOLLOWS_POLICY),
            owners_are_controllers: version.has(OWNERS_ARE_CONTROLLERS),
        }
    }
}

impl Default for Settings {
    /// Upstream's defaults in the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}
