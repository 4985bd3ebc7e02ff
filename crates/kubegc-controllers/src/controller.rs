//! The interface of a controller.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc, time::Duration};

use kubegc_core::{
    Behavior, DeleteOptions, Kept, ObjectMeta, Timestamp,
    backoff::doubled,
    record::{Field, ObjectId, Record, Resource},
};

use crate::{Action, Cache, Change, CloudResponse, Index, Key, Missing, OnError, Reason, Sent, Steps, Wire};

/// One controller of Kubernetes, or the part of it that deletes objects or changes finalizers and owner
/// references.
///
/// [`decide`](Self::decide) makes all decisions, and [`reconcile`](Self::reconcile) calls it for a key. The
/// batch planner, the [`Manager`](crate::Manager) under a live driver, and simulations all reconcile. It is
/// pure: the same cache, key and context give the same decision.
///
/// # Examples
/// A controller that deletes ConfigMaps named `scratch` an hour after their creation:
/// ```
/// use std::time::Duration;
/// use kubegc_controllers::{Action, Context, Controller, Decision, Info, Missing, OnError, Reason, Sent};
/// use kubegc_core::{DeleteOptions, record::{ObjectId, Record, Resource}};
///
/// #[derive(Debug)]
/// struct Scratch;
///
/// static INFO: Info = Info {
///     name: "scratch-controller",
///     summary: "deletes ConfigMaps named scratch after an hour",
///     resources: &[Resource::ConfigMaps],
///     permissions: &[(Resource::ConfigMaps, "", &["delete"])],
///     ..Info::BASE
/// };
///
/// impl Controller for Scratch {
///     fn info(&self) -> &'static Info {
///         &INFO
///     }
///
///     fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
///         let Some(created) = record.meta.creation_timestamp.filter(|_| &*id.name == "scratch") else {
///             return Ok(Decision::keep(id.clone(), Reason::new("NotScratch", "it is not named scratch")));
///         };
///         let due = created.saturating_add(Duration::from_secs(3_600));
///         if due > cx.now {
///             let young = Reason::new("Young", "it is younger than an hour");
///             return Ok(Decision::keep(id.clone(), young).requeue_at(due));
///         }
///         let action = Action::new(Resource::ConfigMaps, &record.meta, Reason::new("Old", "it is an hour old"));
///         let action = action.delete(cx.wire, Sent::Uid, DeleteOptions::default());
///         Ok(Decision::act(action.on_error(OnError::RetryUnlessNotFound)))
///     }
/// }
/// ```
pub trait Controller: fmt::Debug + Send + Sync {
    fn info(&self) -> &'static Info;

    /// When keys are reconciled, and how failures are retried. Default: [`Info::timing`].
    fn timing(&self) -> Timing {
        self.info().timing
    }

    /// Adds the keys that a change affects. The cache already contains it. Duplicates are allowed.
    ///
    /// Default: the changed object, if it is of the first resource, and the keys of
    /// [`Info::affected_by`] and [`Info::found_by`].
    fn affected(&self, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        self.info().push_affected(cache, change, keys);
    }

    /// Adds every key, when the controller starts and when a list becomes complete. Duplicates are allowed.
    ///
    /// Default: all objects of the first resource.
    fn keys(&self, cache: &Cache, keys: &mut Vec<Key>) {
        self.info().push_keys(cache, keys);
    }

    /// Decides about the object of a key, whose metadata was read in full. Controllers whose keys are not
    /// objects of the first resource override [`reconcile`](Self::reconcile) instead.
    ///
    /// Default: nothing is done.
    ///
    /// # Errors
    /// A fact that decides is missing.
    fn decide(&self, _cx: &Context<'_>, _id: &ObjectId, _record: &Record) -> Result<Decision, Missing> {
        Ok(Decision::default())
    }

    /// Reconciles one key.
    ///
    /// Default: [`decide`](Self::decide) about the object of the first resource.
    fn reconcile(&self, cx: &Context<'_>, key: &Key) -> Decision {
        self.info().reconcile(self, cx, key)
    }
}

/// Static information about a controller.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// Upstream's name, such as `ttl-after-finished-controller`. No two controllers of a process have the
    /// same.
    pub name: &'static str,
    /// Its purpose, as the predicate of a sentence about it: `deletes unused claims`.
    pub summary: &'static str,
    /// The resources that it lists and watches, the one that its keys belong to first.
    pub resources: &'static [Resource],
    /// The indexes over the cache that it reads.
    pub indexes: &'static [&'static Index],
    /// Those of the indexes that find objects by the keys of the controller: a change of an object affects
    /// the keys under which it is found, and all keys if one of them has an empty name.
    pub affected_by: &'static [&'static Index],
    /// The indexes over the first resource under whose keys objects of other resources are found: a change of
    /// such an object affects what is found under its own key.
    pub found_by: &'static [(Resource, &'static Index)],
    pub timing: Timing,
    /// The first release in which it runs by default; `None` if it does in all.
    pub since: Option<Behavior>,
    /// Permissions in addition to get, list and watch of `resources`: resource, subresource, upstream's
    /// verbs.
    pub permissions: &'static [(Resource, &'static str, &'static [&'static str])],
    /// The verbs that it needs on the resources of all groups, because it works on objects of any kind.
    pub verbs_on_all_resources: &'static [&'static str],
    /// The objects that it may change if it [cannot decide](Decision::unknown) about an object of the first
    /// resource.
    pub may_change: &'static [MayChange],
    /// Permalink to upstream's source at a release tag.
    pub upstream: &'static str,
}

impl Info {
    /// No resources, indexes and permissions; it may change the object that it decides about.
    pub const BASE: Self = Self {
        name: "",
        summary: "",
        resources: &[],
        indexes: &[],
        affected_by: &[],
        found_by: &[],
        timing: Timing::DEFAULT,
        since: None,
        permissions: &[],
        verbs_on_all_resources: &[],
        may_change: &[MayChange::Itself],
        upstream: "",
    };

    pub(crate) fn push_affected(&self, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        if self.resources.first() == Some(&change.resource) {
            keys.push(change.key.clone());
        }
        let indexes = self.affected_by.iter();
        for index in indexes.filter(|index| index.resource() == change.resource) {
            let found = index.keys_of_change(change);
            if found.iter().any(|key| key.name.is_empty()) {
                self.push_keys(cache, keys);
            }
            keys.extend(found.into_iter().filter(|key| !key.name.is_empty()));
        }
        let related = self.found_by.iter();
        for (_, index) in related.filter(|(resource, _)| *resource == change.resource) {
            keys.extend(cache.indexed(index, change.key));
        }
    }

    pub(crate) fn push_keys(&self, cache: &Cache, keys: &mut Vec<Key>) {
        if let Some(resource) = self.resources.first() {
            keys.extend(cache.keys(*resource));
        }
    }

    pub(crate) fn reconcile<C: Controller + ?Sized>(
        &self,
        controller: &C,
        cx: &Context<'_>,
        key: &Key,
    ) -> Decision {
        let first = self.resources.first();
        first.map_or_else(Decision::default, |resource| {
            cx.about(*resource, key, |id, record| controller.decide(cx, id, record))
        })
    }

    /// The objects that the controller may change if it [cannot decide](Decision::unknown) about an object of
    /// this resource.
    pub fn may_change(&self, undecided: Resource) -> &'static [MayChange] {
        match self.resources.first() == Some(&undecided) {
            true => self.may_change,
            false => &[MayChange::Itself],
        }
    }
}

/// Objects that a controller may change, by their relation to the object about which it cannot decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MayChange {
    Itself,
    /// Its dependents of this resource, terminating ones too.
    Dependents(Resource),
    /// Its dependents of this resource that are not terminating.
    LiveDependents(Resource),
    /// Its dependents of this resource that are not terminating, and the orphans that it may adopt by its
    /// selector.
    Adopted(Resource),
    /// The dependents of the second resource, not terminating, of the objects of the first resource that it
    /// has or may adopt.
    DependentsOfAdopted(Resource, Resource),
    /// The PersistentVolumeClaims of a StatefulSet that is deleted or whose pods are deleted.
    Claims,
    /// The pods that are bound to a node.
    BoundPods,
}

/// When keys are reconciled, and how failures are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The period of syncs over all keys; `None` if a key is reconciled as soon as something affects it. The
    /// first sync starts when all resources are listed.
    pub period: Option<Duration>,
    /// The delay between an event and the reconcile.
    pub event_delay: Duration,
    /// The period in which every key is reconciled again.
    pub resync: Option<Duration>,
    /// The first and the longest delay of a retry; it doubles with each failure of the key.
    pub backoff: [Duration; 2],
    /// Whether a failed key waits for the delay even if something changes, and is retried by the first resync
    /// after it, as operations on volumes are.
    pub blocks_on_failure: bool,
}

impl Timing {
    /// No delay, and the retries of client-go's default work queue: 5 ms to 1000 s.
    pub const DEFAULT: Self = Self {
        period: None,
        event_delay: Duration::ZERO,
        resync: None,
        backoff: [Duration::from_millis(5), Duration::from_secs(1_000)],
        blocks_on_failure: false,
    };

    /// The delay of a retry after this many earlier consecutive failures.
    pub(crate) fn retry_delay(&self, failures: u32) -> Duration {
        doubled(self.backoff, failures)
    }

    /// One sync over all keys every `period`.
    pub const fn every(period: Duration) -> Self {
        Self {
            period: Some(period),
            ..Self::DEFAULT
        }
    }
}

/// The input of a reconcile in addition to its key.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub cache: &'a Cache,
    pub now: Timestamp,
    pub wire: Wire,
    /// The deadlines that the last reconcile of this key stored in [`Decision::deadlines`]; empty before the
    /// first.
    pub deadlines: &'a Deadlines,
    /// The cloud provider's response about the object of this key; `None` if there was no query.
    pub cloud: Option<&'a CloudResponse>,
    /// Whether the cloud provider can be queried. If not, nothing is decided about a node without a response.
    pub queries_cloud: bool,
    /// Whether [`Decision::kept`] is read. If not, controllers whose keys each cover many objects, or whose
    /// reasons are formatted, leave it empty.
    pub notes_kept: bool,
}

/// Names that a controller watches, each with the time at which it acts on it, such as the quarantine of
/// podgc.
pub type Deadlines = BTreeMap<Arc<str>, Timestamp>;

impl<'a> Context<'a> {
    /// Decides about the object of a key. Without an object there is nothing to do, and nothing is decided
    /// about one without a uid, or whose metadata was not read in full.
    pub fn about(
        &self,
        resource: Resource,
        key: &Key,
        decide: impl FnOnce(&ObjectId, &'a Record) -> Result<Decision, Missing>,
    ) -> Decision {
        let Some(record) = self.cache.get(resource, key) else {
            return Decision::default();
        };
        let decided = whole(resource, record).and_then(|id| decide(&id, record));
        decided.unwrap_or_else(|missing| Decision::unknown(record.id(resource), missing))
    }

    /// The deletion of an object with upstream's preconditions and default options.
    pub(crate) fn delete(
        &self,
        id: &ObjectId,
        record: &Record,
        reason: Reason,
        sent: Sent,
        on_error: OnError,
    ) -> Action {
        Action::new(id.resource, &record.meta, reason)
            .delete(self.wire, sent, DeleteOptions::default())
            .on_error(on_error)
    }
}

/// Reads of an object that decisions depend on.
pub(crate) trait Reads {
    fn object(&self) -> &ObjectId;

    /// The fields of the object, by an accessor such as [`Record::job`]. Fails if only its metadata was read.
    fn body<'r, B>(
        &self,
        record: &'r Record,
        accessor: impl Fn(&'r Record) -> Option<&'r B>,
    ) -> Result<&'r B, Missing> {
        let object = || self.object().clone();
        accessor(record).ok_or_else(|| Missing::Object { object: object() })
    }

    /// The value of a field. Fails if it was not read. `path` names it, such as `spec.nodeName`.
    fn read<'f, T>(&self, field: &'f Field<T>, path: &'static str) -> Result<&'f T, Missing> {
        field.known().ok_or_else(|| Missing::field(self.object(), path))
    }

    fn keep(&self, code: &'static str, message: impl Into<Cow<'static, str>>) -> Result<Decision, Missing> {
        Ok(Decision::keep(self.object().clone(), Reason::new(code, message)))
    }
}

impl Reads for ObjectId {
    fn object(&self) -> &ObjectId {
        self
    }
}

/// The identity of an object, and its fields by an accessor such as [`Record::job`].
pub(crate) fn read_as<'r, B>(
    resource: Resource,
    record: &'r Record,
    accessor: impl Fn(&'r Record) -> Option<&'r B>,
) -> Result<(ObjectId, &'r B), Missing> {
    let id = record.id(resource);
    let body = id.body(record, accessor)?;
    Ok((id, body))
}

/// The identity of an object whose metadata was read.
pub(crate) fn whole(resource: Resource, record: &Record) -> Result<ObjectId, Missing> {
    match is_whole(record) {
        true => Ok(record.id(resource)),
        false => Err(Missing::metadata(resource, record)),
    }
}

/// Returns whether an object has a uid, and its metadata was read in full.
pub(crate) fn is_whole(record: &Record) -> bool {
    record.has_whole_meta && !record.meta.uid.is_empty()
}

/// Returns whether a write of the object can carry the version that it depends on.
pub(crate) fn require_version(id: &ObjectId, meta: &ObjectMeta) -> Result<(), Missing> {
    if meta.resource_version.is_empty() {
        return Err(Missing::field(id, "metadata.resourceVersion"));
    }
    Ok(())
}

#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// Actions, to be performed in order; an error of one does not stop the others.
    pub actions: Vec<Action>,
    /// Work whose requests depend on responses, after the actions.
    pub steps: Option<Steps>,
    pub kept: Vec<Kept<ObjectId, Reason>>,
    /// Objects about which nothing can be decided, and the fact that is missing.
    pub unknown: Vec<Kept<ObjectId, Missing>>,
    /// When the key is reconciled again without a change.
    pub requeue_at: Option<Timestamp>,
    /// Replaces [`Context::deadlines`] of the key; `None` leaves them.
    pub deadlines: Option<Deadlines>,
}

impl Decision {
    pub fn keep(object: ObjectId, reason: Reason) -> Self {
        let mut decision = Self::default();
        decision.add_kept(object, reason);
        decision
    }

    pub fn unknown(object: ObjectId, missing: Missing) -> Self {
        let mut decision = Self::default();
        decision.add_unknown(object, missing);
        decision
    }

    pub fn act(action: Action) -> Self {
        vec![action].into()
    }

    /// The same, and the key is reconciled again at this time.
    #[must_use]
    pub fn requeue_at(mut self, at: Timestamp) -> Self {
        self.requeue_at = Some(self.requeue_at.map_or(at, |earlier| earlier.min(at)));
        self
    }

    /// The same, and the key is reconciled again at a deadline, which is noted under this name.
    #[must_use]
    pub(crate) fn deadline(mut self, name: &str, at: Timestamp) -> Self {
        self.deadlines = Some(Deadlines::from([(name.into(), at)]));
        self.requeue_at(at)
    }

    /// Returns whether nothing is to be done, now or later, and nothing is unknown.
    pub const fn is_empty(&self) -> bool {
        !self.has_work() && self.unknown.is_empty() && self.requeue_at.is_none()
    }

    /// Returns whether something is to be done now.
    pub(crate) const fn has_work(&self) -> bool {
        !self.actions.is_empty() || self.steps.is_some()
    }

    pub fn add_kept(&mut self, object: ObjectId, reason: Reason) {
        self.kept.push(Kept { object, reason });
    }

    pub fn add_unknown(&mut self, object: ObjectId, reason: Missing) {
        self.unknown.push(Kept { object, reason });
    }
}

impl From<Steps> for Decision {
    fn from(steps: Steps) -> Self {
        Self {
            steps: Some(steps),
            ..Self::default()
        }
    }
}

impl From<Action> for Decision {
    fn from(action: Action) -> Self {
        Self::act(action)
    }
}

impl From<Vec<Action>> for Decision {
    fn from(actions: Vec<Action>) -> Self {
        Self {
            actions,
            ..Self::default()
        }
    }
}
