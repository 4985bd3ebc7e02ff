//! Controllers whose behavior follows from the release alone, as data.

use kubegc_core::{
    Behavior, KubernetesVersion,
    record::{ObjectId, Record},
};

use crate::{
    Cache, Change, Context, Controller, Deadlines, Decision, Info, Key, Missing, controller::Reads as _,
};

type AddAffected = fn(KubernetesVersion, &Cache, &Change<'_>, &mut Vec<Key>);

/// The functions of a controller without settings. Those that are `None` are the defaults of [`Controller`].
///
/// # Examples
/// ```
/// use kubegc_controllers::{Controller, services};
/// use kubegc_core::KubernetesVersion;
/// let controller = services::ENDPOINTS.at(KubernetesVersion::LATEST);
/// assert_eq!(controller.info().name, "endpoints-controller");
/// ```
#[derive(Debug)]
pub struct Rule {
    pub info: Info,
    /// The release in which the feature gate is on by default, and its name. While it is off, every object is
    /// kept.
    pub(crate) gate: Option<(Behavior, &'static str)>,
    /// Whether an object that is being deleted is kept, whatever else is known of it.
    pub(crate) keeps_terminating: bool,
    pub(crate) affected: Option<AddAffected>,
    pub(crate) keys: Option<fn(KubernetesVersion, &Cache, &mut Vec<Key>)>,
    pub(crate) decide: fn(&RuleContext<'_>, &ObjectId, &Record) -> Result<Decision, Missing>,
    pub(crate) reconcile: Option<fn(&RuleContext<'_>, &Key) -> Decision>,
}

impl Rule {
    pub(crate) const BASE: Self = Self {
        info: Info::BASE,
        gate: None,
        keeps_terminating: false,
        affected: None,
        keys: None,
        decide: |_, _, _| Ok(Decision::default()),
        reconcile: None,
    };

    /// The controller with upstream's defaults in a release.
    pub const fn at(&'static self, version: KubernetesVersion) -> ByRelease {
        ByRelease { rule: self, version }
    }
}

/// The context of a decision, with the release that it follows.
#[derive(derive_more::Deref)]
pub(crate) struct RuleContext<'a> {
    #[deref]
    context: Context<'a>,
    pub(crate) version: KubernetesVersion,
}

impl RuleContext<'_> {
    pub(crate) const fn has(&self, behavior: Behavior) -> bool {
        self.version.has(behavior)
    }

    /// The object is kept for a reason that needs no deadline: one that was noted is dropped.
    pub(crate) fn keep_without_deadline(
        &self,
        id: &ObjectId,
        code: &'static str,
        message: &'static str,
    ) -> Result<Decision, Missing> {
        let deadlines = (!self.deadlines.is_empty()).then(Deadlines::new);
        let kept = id.keep(code, message)?;
        Ok(Decision { deadlines, ..kept })
    }
}

/// A controller that follows a [`Rule`] as in one release.
#[derive(Clone, Copy, Debug)]
pub struct ByRelease {
    rule: &'static Rule,
    version: KubernetesVersion,
}

impl ByRelease {
    const fn context<'a>(&self, context: &Context<'a>) -> RuleContext<'a> {
        RuleContext {
            context: *context,
            version: self.version,
        }
    }
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
        match self.rule.gate {
            Some((on, gate)) if !self.version.has(on) => {
                id.keep("Disabled", format!("the feature gate {gate} is off"))
            }
            _ if self.rule.keeps_terminating && record.meta.is_deleting() => {
                id.keep("Terminating", "it is being deleted")
            }
            _ => (self.rule.decide)(&self.context(cx), id, record),
        }
    }

    fn reconcile(&self, cx: &Context<'_>, key: &Key) -> Decision {
        match self.rule.reconcile {
            Some(reconcile) => reconcile(&self.context(cx), key),
            None => self.rule.info.reconcile(self, cx, key),
        }
    }
}
