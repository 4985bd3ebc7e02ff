//! Decides which claims and volumes may go, by finalizers that keep them while they are in use.
//!
//! A claim is in use while a scheduled pod names it, whatever has become of the pod; a volume is in use while it is bound. What is in use
//! keeps its finalizer, what is not and is being deleted loses it, and what lives gets it.
//!
//! # Guarantees
//! A claim loses its finalizer only after the pods of its namespace were read right before and none of them, nor of those listed earlier,
//! uses it. Pods that are not known keep the claim, and so does a pod of its namespace of which too little was read. One that was
//! listed so is made good by the list right before, where it is in full. What has no uid or version is not written.
//!
//! # Upstream
//! `pkg/controller/volume/pvcprotection`, `pvprotection` and `protectionutil`. A failed list of the cache is only logged upstream; here, too, the live
//! one then decides alone. Every failed update is tried again, later each time. Left out: what wakes the controllers.
//!
//! # Examples
//! ```
//! use kubegc_core::{Planner, Timestamp};
//! use kubegc_lifecycle::volume::{Claim, FINALIZER_CLAIM_PROTECTION, Pod, Source};
//! use kubegc_lifecycle::volume::protection::{Facts, LivePods, Settings};
//!
//! let mut claim = Claim::new("shop", "data", "uid-1");
//! claim.meta.finalizers = vec![FINALIZER_CLAIM_PROTECTION.into()];
//! claim.meta.resource_version = "7".into();
//! claim.meta.deletion_timestamp = Some(Timestamp::EPOCH);
//! let pod = Pod::new("shop", "web", "uid-2").with(Source::Claim("data".into()));
//! let mut facts = Facts { claims: vec![claim], pods: Ok(vec![pod]), live_pods: LivePods::AsListed, ..Facts::default() };
//!
//! let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
//! assert_eq!(plan.kept[0].reason.to_string(), "used by pod web");
//! facts.pods = Ok(Vec::new());
//! assert_eq!(Settings::default().plan(&facts, Timestamp::EPOCH).actions.len(), 1);
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use kubegc_core::{Kept, ObjectMeta, PlanOf, Planner, Preconditions, StoreError, Timestamp};

use super::{Claim, FINALIZER_CLAIM_PROTECTION, FINALIZER_VOLUME_PROTECTION, Phase, Pod, Volume};
use crate::object::{Act, Call, Change, Form, Live, Object, Resource, Wire, by_identity, expected};

/// Which of the two controllers run. Both do in every release that kubegc knows.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whether claims are protected. Default: yes.
    ///
    /// Off, claims that are being deleted keep the finalizer that they have, for ever. Upstream: controller
    /// `persistentvolumeclaim-protection-controller` of `--controllers`.
    pub claims: bool,
    /// Whether volumes are protected. Default: yes.
    ///
    /// Off, the same happens to volumes. Upstream: `persistentvolume-protection-controller`.
    pub volumes: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            claims: true,
            volumes: true,
        }
    }
}

/// What a plan rests on.
#[expect(clippy::exhaustive_structs, reason = "facts that callers build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The claims.
    pub claims: Vec<Claim>,
    /// The volumes.
    pub volumes: Vec<Volume>,
    /// The pods as they were listed, or why they were not.
    pub pods: Result<Vec<Pod>, StoreError>,
    /// The pods as they were listed right before.
    pub live_pods: LivePods,
}

impl Default for Facts {
    /// No claim, no volume, and nothing known of pods.
    fn default() -> Self {
        Self {
            claims: Vec::new(),
            volumes: Vec::new(),
            pods: Err(StoreError::Unlisted),
            live_pods: LivePods::default(),
        }
    }
}

/// The pods as they were listed right before.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LivePods {
    /// The list in the facts is as good as that.
    AsListed,
    /// The pods of each of these namespaces. Others were not listed.
    Of(BTreeMap<Arc<str>, Live<Vec<Pod>>>),
}

impl Default for LivePods {
    /// Nothing was listed.
    fn default() -> Self {
        Self::Of(BTreeMap::new())
    }
}

/// What is done to a claim or a volume.
#[expect(clippy::exhaustive_enums, reason = "an executor must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Puts the finalizer behind the others.
    AddFinalizer {
        /// The claim or volume.
        object: Object,
        /// What the decision rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
    /// Takes the finalizer away.
    RemoveFinalizer {
        /// The claim or volume.
        object: Object,
        /// What the decision rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
}

impl Act for Action {
    fn object(&self) -> &Object {
        match self {
            Self::AddFinalizer { object, .. } | Self::RemoveFinalizer { object, .. } => object,
        }
    }

    fn expect(&self) -> &Preconditions {
        match self {
            Self::AddFinalizer { expect, .. } | Self::RemoveFinalizer { expect, .. } => expect,
        }
    }

    /// One write of the whole object, which carries uid and version either way.
    fn calls(&self, _wire: Wire) -> Vec<Call> {
        let finalizer = finalizer(self.object().resource);
        vec![Call::Change {
            object: self.object().clone(),
            subresource: "",
            form: Form::Replace,
            expect: self.expect().clone(),
            changes: vec![match self {
                Self::AddFinalizer { .. } => Change::AddFinalizer(finalizer),
                Self::RemoveFinalizer { .. } => Change::RemoveFinalizer(finalizer),
            }],
        }]
    }
}

const fn finalizer(resource: Resource) -> &'static str {
    match resource {
        Resource::PersistentVolumeClaims => FINALIZER_CLAIM_PROTECTION,
        _ => FINALIZER_VOLUME_PROTECTION,
    }
}

/// Why a finalizer is added or taken away, or neither.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Added: the object lives and is not protected.
    Unprotected,
    /// Taken away: the object is being deleted, and nobody uses it.
    Unused,
    /// Kept: it lives and is protected.
    Protected,
    /// Kept: it is being deleted and has no such finalizer.
    NothingToRemove,
    /// Kept, for now: a pod uses the claim.
    UsedByPod {
        /// The first such pod, by name.
        pod: Arc<str>,
    },
    /// Kept, for now: the volume is bound.
    Bound,
    /// Kept, for now: the pods of the namespace must be listed right before.
    PodsNotRead,
    /// Kept, for now: the pods of the namespace are not known.
    PodsUnknown {
        /// Why not.
        message: Arc<str>,
    },
    /// Kept, for now: of this pod of its namespace too little was read to tell whether it uses the claim.
    PodUnread {
        /// The first such pod, by name.
        pod: Arc<str>,
    },
    /// Kept, for now: its uid or version was not read, so that a write might hit another object.
    IdentityUnknown,
    /// Kept, for now: the volume's phase was not read.
    PhaseUnknown,
    /// Kept: it is listed twice, and not alike.
    ListedTwice,
    /// Kept: the controller does not run.
    Disabled,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unprotected => f.write_str("it is not protected yet"),
            Self::Unused => f.write_str("it is being deleted and not in use"),
            Self::Protected => f.write_str("it is protected"),
            Self::NothingToRemove => f.write_str("it is being deleted without protection"),
            Self::UsedByPod { pod } => write!(f, "used by pod {pod}"),
            Self::Bound => f.write_str("it is bound"),
            Self::PodsNotRead => f.write_str("the pods of its namespace must be listed first"),
            Self::PodsUnknown { message } => write!(f, "whether pods use it is not known: {message}"),
            Self::PodUnread { pod } => write!(f, "whether pod {pod} uses it is not known"),
            Self::IdentityUnknown => f.write_str("its uid or version is not known"),
            Self::PhaseUnknown => f.write_str("its phase is not known"),
            Self::ListedTwice => f.write_str("listed twice, and not alike"),
            Self::Disabled => f.write_str("the controller does not run"),
        }
    }
}

/// What a plan asks for.
#[expect(clippy::exhaustive_structs, reason = "a result that callers read")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The namespaces whose pods must be listed right before a claim in them can lose its finalizer. One list serves all claims of a namespace.
    pub to_read: BTreeSet<Arc<str>>,
}

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans for all claims, then all volumes, each once acted on or kept. Time plays no part.
    ///
    /// # Complexity
    /// O(n log n) in the number of claims, volumes and volumes of pods.
    fn plan(&self, facts: &Facts, _now: Timestamp) -> PlanOf<Self> {
        let pods = Pods::new(facts);
        let mut plan = PlanOf::<Self>::default();
        let resource = Resource::PersistentVolumeClaims;
        for (object, claim) in by_identity(resource, &facts.claims, |claim| &claim.meta) {
            let decided = match claim {
                Some(claim) if self.claims => {
                    decide(&object, &claim.meta, || pods.reason_to_keep(&claim.meta))
                }
                Some(_) => Err(Reason::Disabled),
                None => Err(Reason::ListedTwice),
            };
            if decided == Err(Reason::PodsNotRead) {
                plan.summary.to_read.insert(Arc::clone(&object.namespace));
            }
            put(&mut plan, object, decided);
        }
        let resource = Resource::PersistentVolumes;
        for (object, volume) in by_identity(resource, &facts.volumes, |volume| &volume.meta) {
            let decided = match volume {
                Some(volume) if self.volumes => decide(&object, &volume.meta, || match volume.phase {
                    Phase::Bound => Some(Reason::Bound),
                    Phase::Unknown => Some(Reason::PhaseUnknown),
                    _ => None,
                }),
                Some(_) => Err(Reason::Disabled),
                None => Err(Reason::ListedTwice),
            };
            put(&mut plan, object, decided);
        }
        plan
    }
}

fn put(plan: &mut PlanOf<Settings>, object: Object, decided: Result<Action, Reason>) {
    match decided {
        Ok(action) => plan.actions.push(action),
        Err(reason) => plan.kept.push(Kept { object, reason }),
    }
}

/// What is done to one object, or why nothing is.
fn decide(
    object: &Object,
    meta: &ObjectMeta,
    reason_to_keep: impl FnOnce() -> Option<Reason>,
) -> Result<Action, Reason> {
    let (object, expect) = (object.clone(), expected(meta));
    let is_known = expect.uid.is_some() && expect.resource_version.is_some();
    match (meta.is_deleting(), meta.has_finalizer(finalizer(object.resource))) {
        (false, true) => Err(Reason::Protected),
        (true, false) => Err(Reason::NothingToRemove),
        (false, false) if !is_known => Err(Reason::IdentityUnknown),
        (false, false) => Ok(Action::AddFinalizer {
            object,
            expect,
            reason: Reason::Unprotected,
        }),
        (true, true) => match reason_to_keep() {
            Some(reason) => Err(reason),
            None if !is_known => Err(Reason::IdentityUnknown),
            None => Ok(Action::RemoveFinalizer {
                object,
                expect,
                reason: Reason::Unused,
            }),
        },
    }
}

/// The pods that may use a claim, by namespace and claim, and where they were listed.
struct Pods<'a> {
    facts: &'a Facts,
    listed: Option<Users<'a>>,
    live: Users<'a>,
    /// The first pod of each namespace of which too little was read.
    unread: BTreeMap<&'a str, &'a Arc<str>>,
}

type Users<'a> = BTreeMap<(&'a str, Arc<str>), Vec<(&'a Pod, bool)>>;

impl<'a> Pods<'a> {
    fn new(facts: &'a Facts) -> Self {
        let live: Vec<&Pod> = match &facts.live_pods {
            LivePods::AsListed => Vec::new(),
            LivePods::Of(namespaces) => {
                let lists = namespaces.values().map(|live| match live {
                    Live::Found(pods) => pods.as_slice(),
                    Live::NotAsked | Live::NotFound | Live::Failed(_) => &[],
                });
                lists.flatten().collect()
            }
        };
        Self {
            facts,
            listed: facts.pods.as_ref().ok().map(|pods| users(pods.iter())),
            unread: unread(facts.pods.as_deref().unwrap_or_default(), &live),
            live: users(live.into_iter()),
        }
    }

    /// Why a claim that is being deleted must stay.
    fn reason_to_keep(&self, claim: &ObjectMeta) -> Option<Reason> {
        let key = (&*claim.namespace, Arc::clone(&claim.name));
        let lists = self.listed.iter().chain([&self.live]);
        let may_use = lists.filter_map(|users| users.get(&key)).flatten();
        let uses = may_use.filter(|(pod, is_own)| !is_own || owns(pod, claim));
        if let Some(pod) = uses.map(|(pod, _)| &pod.meta.name).min() {
            let pod = Arc::clone(pod);
            return Some(Reason::UsedByPod { pod });
        }
        if let (false, Some(&pod)) = (self.is_not_read(claim), self.unread.get(&*claim.namespace)) {
            let pod = Arc::clone(pod);
            return Some(Reason::PodUnread { pod });
        }
        let message = match (&self.facts.live_pods, &self.facts.pods) {
            (LivePods::AsListed, Ok(_)) => return None,
            (LivePods::AsListed, Err(error)) => error.to_string().into(),
            (LivePods::Of(namespaces), _) => match namespaces.get(&claim.namespace) {
                Some(Live::Found(_)) => return None,
                Some(Live::Failed(message)) => Arc::clone(message),
                Some(Live::NotFound) => StoreError::NotFound.to_string().into(),
                Some(Live::NotAsked) | None => return Some(Reason::PodsNotRead),
            },
        };
        Some(Reason::PodsUnknown { message })
    }

    /// Whether the pods of its namespace are still to be listed right before.
    fn is_not_read(&self, claim: &ObjectMeta) -> bool {
        let LivePods::Of(namespaces) = &self.facts.live_pods else {
            return false;
        };
        matches!(namespaces.get(&claim.namespace), None | Some(Live::NotAsked))
    }
}

/// The first pod of each namespace of which too little was read. What was listed so counts only while the list right before does not
/// have it in full.
fn unread<'a>(listed: &'a [Pod], live: &[&'a Pod]) -> BTreeMap<&'a str, &'a Arc<str>> {
    let (full, bare): (Vec<&Pod>, Vec<&Pod>) = live.iter().partition(|pod| pod.tells_protected_claims());
    let full: BTreeSet<Object> = full
        .iter()
        .map(|pod| Object::new(Resource::Pods, &pod.meta))
        .collect();
    let listed = listed.iter().filter(|pod| {
        !pod.tells_protected_claims() && !full.contains(&Object::new(Resource::Pods, &pod.meta))
    });
    let mut unread = BTreeMap::<&str, &Arc<str>>::new();
    for pod in bare.into_iter().chain(listed) {
        let first = unread.entry(&*pod.meta.namespace).or_insert(&pod.meta.name);
        *first = (*first).min(&pod.meta.name);
    }
    unread
}

/// Pods that are known to be scheduled, by the claims that they name, and whether each brings the claim along.
fn users<'a>(pods: impl Iterator<Item = &'a Pod>) -> Users<'a> {
    let mut users = Users::new();
    for pod in pods.filter(|pod| pod.node_name.is_some() && !pod.is_unscheduled()) {
        for (claim, is_own) in pod.claim_names() {
            let key = (&*pod.meta.namespace, claim);
            users.entry(key).or_default().push((pod, is_own));
        }
    }
    users
}

/// Whether a claim that has the name of a pod's own claim is that, and the pod still needs it.
fn owns(pod: &Pod, claim: &ObjectMeta) -> bool {
    let is_shut_down = pod.meta.is_deleting() && pod.meta.deletion_grace_period_seconds == Some(0);
    let mut owners = claim.owner_references.iter();
    let controller = owners.find(|owner| owner.controller == Some(true));
    !is_shut_down && controller.is_some_and(|owner| owner.uid == pod.meta.uid)
}
