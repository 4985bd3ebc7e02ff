//! Controllers whose behavior follows from the release alone, as data.

use std::fmt;

use kubegc_core::{
    Behavior, KubernetesVersion,
    record::{ObjectId, Record},
};

use crate::{Cache, Change, Context, Controller, Decision, Info, Key, Missing, Reason};

/// Adds the keys that a change affects in a release.
type Affected = fn(KubernetesVersion, &Cache, &Change<'_>, &mut Vec<Key>);
/// Decides about the object of a key in a release.
type Decide = fn(KubernetesVersion, &Context<'_>, &ObjectId, &Record) -> Result<Decision, Missing>;

/// The functions of a controller without settings. Those that are `None` are the defaults of [`Controller`].
///
/// # Examples
/// ```
/// use kubegc_controllers::{Controller, endpoints};
/// use kubegc_core::KubernetesVersion;
/// let controller = endpoints::RULE.at(KubernetesVersion::LATEST);
/// assert_eq!(controller.info().name, "endpoints-controller");
/// ```
pub struct Rule {
    pub info: Info,
    /// The release in which the feature gate is on by default, and its name. While it is off, every object is
    /// kept.
    pub(crate) gate: Option<(Behavior, &'static str)>,
    pub(crate) affected: Option<Affected>,
    pub(crate) keys: Option<fn(KubernetesVersion, &Cache, &mut Vec<Key>)>,
    pub(crate) decide: Decide,
    pub(crate) reconcile: Option<fn(KubernetesVersion, &Context<'_>, &Key) -> Decision>,
}

impl Rule {
    pub(crate) const BASE: Self = Self {
        info: Info::BASE,
        gate: None,
        affected: None,
        keys: None,
        decide: |_, _, _, _| Ok(Decision::default()),
        reconcile: None,
    };

    /// The controller with upstream's defaults in a release.
    pub const fn at(&'static self, version: KubernetesVersion) -> ByRelease {
        ByRelease { rule: self, version }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

/// A controller that follows a [`Rule`] as in one release.
#[derive(Clone, Copy, Debug)]
pub struct ByRelease {
    rule: &'static Rule,
    version: KubernetesVersion,
}

impl Controller for ByRelease {
    fn info(&self) -> &'static Info {
        &self.rule.info
    }

    fn affected(&self, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        match self.rule.affected {
            Some(affected) => affected(self.version, cache, change, keys),
            None => self.rule.info.push_affected(cache, change, keys),
        }
    }

    fn keys(&self, cache: &Cache, keys: &mut Vec<Key>) {
        match self.rule.keys {
            Some(all) => all(self.version, cache, keys),
            None => self.rule.info.push_keys(cache, keys),
        }
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        if let Some((_, gate)) = self.rule.gate.filter(|(on, _)| !self.version.has(*on)) {
            let reason = Reason::new("Disabled", format!("the feature gate {gate} is off"));
            return Ok(Decision::keep(id.clone(), reason));
        }
        (self.rule.decide)(self.version, cx, id, record)
    }

    fn reconcile(&self, cx: &Context<'_>, key: &Key) -> Decision {
        match self.rule.reconcile {
            Some(reconcile) => reconcile(self.version, cx, key),
            None => self.rule.info.reconcile(self, cx, key),
        }
    }
}
