//! What the plans of this crate speak of, and what goes over the wire when they are carried out.
//!
//! Every mechanism has actions of its own, with reasons of its own. An executor, a dry run or a log needs to know no more of them than [`Act`] tells: the
//! object, what is expected of it, and the calls to make, in order, each only if the one before succeeded.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::Arc,
};

use kubegc_core::{
    DeleteOptions, ObjectMeta, OwnerReference, PatchType, Preconditions, StoreError, Timestamp, Uid,
};

/// The resources that the mechanisms of this crate act on or look at.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// Certificate signing requests.
    CertificateSigningRequests,
    /// Config maps.
    ConfigMaps,
    /// Cron jobs.
    CronJobs,
    /// Jobs.
    Jobs,
    /// Leases.
    Leases,
    /// Namespaces.
    Namespaces,
    /// Nodes.
    Nodes,
    /// Claims of volumes.
    PersistentVolumeClaims,
    /// Volumes.
    PersistentVolumes,
    /// Certificate requests of pods.
    PodCertificateRequests,
    /// Pods.
    Pods,
    /// Secrets.
    Secrets,
    /// Service accounts.
    ServiceAccounts,
    /// Stateful sets.
    StatefulSets,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::CertificateSigningRequests,
        Self::ConfigMaps,
        Self::CronJobs,
        Self::Jobs,
        Self::Leases,
        Self::Namespaces,
        Self::Nodes,
        Self::PersistentVolumeClaims,
        Self::PersistentVolumes,
        Self::PodCertificateRequests,
        Self::Pods,
        Self::Secrets,
        Self::ServiceAccounts,
        Self::StatefulSets,
    ];

    /// The resource of a kind; `None` where no mechanism looks at it.
    #[must_use]
    pub fn of_kind(group: &str, kind: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|resource| resource.kind() == kind && resource.group() == group)
    }

    /// Group, resource and kind. The version is the one that the API server prefers.
    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::CertificateSigningRequests => (
                "certificates.k8s.io",
                "certificatesigningrequests",
                "CertificateSigningRequest",
            ),
            Self::ConfigMaps => ("", "configmaps", "ConfigMap"),
            Self::CronJobs => ("batch", "cronjobs", "CronJob"),
            Self::Jobs => ("batch", "jobs", "Job"),
            Self::Leases => ("coordination.k8s.io", "leases", "Lease"),
            Self::Namespaces => ("", "namespaces", "Namespace"),
            Self::Nodes => ("", "nodes", "Node"),
            Self::PersistentVolumeClaims => ("", "persistentvolumeclaims", "PersistentVolumeClaim"),
            Self::PersistentVolumes => ("", "persistentvolumes", "PersistentVolume"),
            Self::PodCertificateRequests => (
                "certificates.k8s.io",
                "podcertificaterequests",
                "PodCertificateRequest",
            ),
            Self::Pods => ("", "pods", "Pod"),
            Self::Secrets => ("", "secrets", "Secret"),
            Self::ServiceAccounts => ("", "serviceaccounts", "ServiceAccount"),
            Self::StatefulSets => ("apps", "statefulsets", "StatefulSet"),
        }
    }

    /// The API group; empty for the core group.
    #[must_use]
    pub const fn group(self) -> &'static str {
        self.names().0
    }

    /// The name in paths, in the plural.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        self.names().1
    }

    /// The kind.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        self.names().2
    }
}

/// One object that a plan speaks of. Its text is `Job shop/report`.
#[expect(
    clippy::exhaustive_structs,
    reason = "an identity, and there will not be more of it"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// The resource.
    pub resource: Resource,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Uid.
    pub uid: Uid,
}

impl Object {
    /// The object with this metadata.
    #[must_use]
    pub fn new(resource: Resource, meta: &ObjectMeta) -> Self {
        Self {
            resource,
            namespace: Arc::clone(&meta.namespace),
            name: Arc::clone(&meta.name),
            uid: meta.uid.clone(),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.resource.kind();
        match &*self.namespace {
            "" => write!(f, "{kind} {}", self.name),
            namespace => write!(f, "{kind} {namespace}/{}", self.name),
        }
    }
}

/// All that is known of an object when it is acted on: its uid, and the version in which it was read, where one was.
///
/// Without a uid nothing guards a call against the next object of the name, so the planners keep such objects.
#[must_use]
pub fn expected(meta: &ObjectMeta) -> Preconditions {
    let version = &meta.resource_version;
    Preconditions {
        uid: (!meta.uid.is_empty()).then(|| meta.uid.clone()),
        resource_version: (!version.is_empty()).then(|| version.clone()),
    }
}

/// How much of what is expected goes over the wire.
#[expect(clippy::exhaustive_enums, reason = "as upstream, or all of it")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wire {
    /// What upstream sends: for predictions, and for exactness.
    AsUpstream,
    /// All that is expected, so that a stale plan fails instead of harming.
    #[default]
    Strict,
}

/// How much upstream sends of what an action rests on.
#[derive(Clone, Copy)]
pub(crate) enum Sent {
    Nothing,
    Uid,
    Version,
}

impl Wire {
    /// What goes over the wire of all that is expected.
    pub(crate) fn says(self, expect: &Preconditions, sent: Sent) -> Preconditions {
        let mut said = expect.clone();
        if self == Self::AsUpstream {
            said.uid.take_if(|_| !matches!(sent, Sent::Uid));
            said.resource_version.take_if(|_| !matches!(sent, Sent::Version));
        }
        said
    }
}

/// What an executor has to know of an action.
pub trait Act {
    /// What is acted on.
    fn object(&self) -> &Object;

    /// What the action rests on.
    fn expect(&self) -> &Preconditions;

    /// The calls, in order. Each is made only if the one before succeeded, but for [`Call::Event`], whose failure means nothing.
    fn calls(&self, wire: Wire) -> Vec<Call>;
}

/// One call.
#[expect(clippy::exhaustive_enums, reason = "executors must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Deletes the object.
    Delete {
        /// The object.
        object: Object,
        /// The options, preconditions included.
        options: DeleteOptions,
    },
    /// Changes the object.
    Change {
        /// The object.
        object: Object,
        /// Where it is changed: empty for the object itself, else `status`.
        subresource: &'static str,
        /// How.
        form: Form,
        /// What must hold. A patch carries it in its metadata; a replacement is made of the object that was read.
        expect: Preconditions,
        /// What changes, in order.
        changes: Vec<Change>,
    },
    /// Tells about the object.
    Event {
        /// The object.
        object: Object,
        /// `Normal` or `Warning`.
        is_warning: bool,
        /// The reason, such as `SuccessfulDelete`.
        reason: &'static str,
        /// The message.
        message: String,
    },
    /// Asks somebody beyond the API server, who checks nothing: an executor reads the object first, and asks only if it is as expected.
    Outside {
        /// The object.
        object: Object,
        /// What must hold.
        expect: Preconditions,
        /// What for.
        operation: Operation,
    },
}

impl Call {
    /// Deletes an object, on all that is expected of it, or on as much as upstream sends. The options say all else.
    pub(crate) fn delete(
        object: &Object,
        expect: &Preconditions,
        wire: Wire,
        sent: Sent,
        options: DeleteOptions,
    ) -> Self {
        Self::Delete {
            object: object.clone(),
            options: DeleteOptions {
                preconditions: wire.says(expect, sent),
                ..options
            },
        }
    }
}

/// How an object is changed.
#[expect(clippy::exhaustive_enums, reason = "executors must handle each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// By a patch that says what changes.
    Patch(PatchType),
    /// The whole object is written back as it was read, with the changes.
    Replace,
}

/// What is asked of somebody beyond the API server.
#[expect(clippy::exhaustive_enums, reason = "executors must handle each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// The volume's plugin deletes what is behind the volume.
    DeleteVolume,
    /// The volume's plugin empties the volume.
    RecycleVolume,
}

/// One change of one field.
#[expect(clippy::exhaustive_enums, reason = "executors must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Sets `status.phase`.
    Phase(Arc<str>),
    /// Sets `status.message` of a volume.
    Message(String),
    /// Puts a condition into `status.conditions`, in the place of that of its type where there is one.
    Condition(Condition),
    /// Puts a finalizer behind the others.
    AddFinalizer(&'static str),
    /// Takes a finalizer away; the others keep their order.
    RemoveFinalizer(&'static str),
    /// Sets all owner references.
    OwnerReferences(Vec<OwnerReference>),
    /// Takes away all owner references with these uids; the others keep their order.
    RemoveOwnerReferences(Vec<Uid>),
    /// Sets a label.
    Label {
        /// Its key.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// Sets an annotation.
    Annotation {
        /// Its key.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// Takes an annotation away.
    RemoveAnnotation(&'static str),
    /// Takes `spec.claimRef` away.
    RemoveClaimRef,
    /// Takes `spec.claimRef.uid` away, so that the volume stays reserved for the claim's name.
    ReleaseClaimRef,
    /// Adds a taint to a node.
    AddTaint(Taint),
    /// Takes a taint from a node.
    RemoveTaint(Taint),
    /// Takes a job, by its uid, out of `status.active` of a cron job.
    RemoveActive(Uid),
}

/// A taint, by what two of them may not share.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    /// Key.
    pub key: Arc<str>,
    /// Effect, such as `NoSchedule`.
    pub effect: Arc<str>,
}

/// A condition in the status of an object.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Condition {
    /// Type, such as `Complete`.
    pub kind: Arc<str>,
    /// Status: `True`, `False`, `Unknown`, or whatever stands there.
    pub status: Arc<str>,
    /// Reason.
    pub reason: Arc<str>,
    /// Message.
    pub message: Arc<str>,
    /// When the status last changed; `None` where unset.
    pub last_transition_time: Option<Timestamp>,
    /// When the condition was last written; `None` where unset or where the kind has no such field.
    pub last_update_time: Option<Timestamp>,
}

impl Condition {
    /// A condition of this type and status, with nothing else said.
    #[must_use]
    pub fn new(kind: &str, status: &str) -> Self {
        Self {
            kind: kind.into(),
            status: status.into(),
            ..Self::default()
        }
    }

    /// Whether its status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        &*self.status == "True"
    }
}

/// What a read right before an action found.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Live<T> {
    /// Nobody has read it yet. Nothing is deleted on that.
    #[default]
    NotAsked,
    /// It is this now.
    Found(T),
    /// There is no such object.
    NotFound,
    /// The read failed.
    Failed(Arc<str>),
}

impl<T> Live<T> {
    /// The same, with what was found borrowed.
    #[must_use]
    pub fn as_ref(&self) -> Live<&T> {
        match self {
            Self::NotAsked => Live::NotAsked,
            Self::Found(found) => Live::Found(found),
            Self::NotFound => Live::NotFound,
            Self::Failed(message) => Live::Failed(Arc::clone(message)),
        }
    }
}

/// What is known from reads right before acting.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reads<T> {
    /// What was listed is as good as read: nothing has changed since.
    AsListed,
    /// These objects were read, each under the identity that it was listed with. Others were not.
    Of(BTreeMap<Object, Live<T>>),
}

impl<T> Default for Reads<T> {
    /// Nothing was read.
    fn default() -> Self {
        Self::Of(BTreeMap::new())
    }
}

impl<T> Reads<T> {
    /// What is known of an object that was listed.
    #[must_use]
    pub fn of<'a>(&'a self, object: &Object, listed: &'a T) -> Live<&'a T> {
        match self {
            Self::AsListed => Live::Found(listed),
            Self::Of(reads) => reads.get(object).map_or(Live::NotAsked, Live::as_ref),
        }
    }
}

/// What upstream's controller makes of a call that failed.
#[expect(clippy::exhaustive_enums, reason = "executors must handle each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failure {
    /// Nothing: the call counts as done.
    Ignored,
    /// It is told, and whatever runs next by itself may try again.
    Told,
    /// It is told and tried again, later each time.
    Retried,
}

impl Failure {
    /// The rule of most cleaners: what is gone or has changed is no concern of theirs, everything else is told.
    pub(crate) const fn unless_gone_or_changed(error: &StoreError) -> Self {
        match error {
            StoreError::NotFound | StoreError::Conflict { .. } => Self::Ignored,
            _ => Self::Told,
        }
    }
}

/// Objects in the order of their identities, each once. What is listed twice and not alike is `None`: nobody can say how it is.
///
/// A name has one object at a time, so two uids under one name are not alike either: each is `None`.
pub(crate) fn by_identity<T: PartialEq>(
    resource: Resource,
    items: &[T],
    meta: impl Fn(&T) -> &ObjectMeta,
) -> BTreeMap<Object, Option<&T>> {
    let sorted = in_order(items, &meta).into_iter();
    sorted
        .map(|(item, is_alike)| (Object::new(resource, meta(item)), is_alike.then_some(item)))
        .collect()
}

/// As [`by_identity`], for lists so long that their objects are better made one by one: whether all that has the name is alike.
pub(crate) fn in_order<T: PartialEq>(items: &[T], meta: impl Fn(&T) -> &ObjectMeta) -> Vec<(&T, bool)> {
    let name = |item| {
        let meta: &ObjectMeta = meta(item);
        (&*meta.namespace, &*meta.name)
    };
    let uid = |item| &meta(item).uid;
    let mut all: Vec<(&T, bool)> = items.iter().map(|item| (item, true)).collect();
    all.sort_by(|(a, _), (b, _)| name(a).cmp(&name(b)).then_with(|| uid(a).cmp(uid(b))));
    for namesakes in all.chunk_by_mut(|(a, _), (b, _)| name(a) == name(b)) {
        if let [(first, _), others @ ..] = namesakes
            && others.iter().any(|(other, _)| other != first)
        {
            for (_, is_alike) in namesakes {
                *is_alike = false;
            }
        }
    }
    all.dedup_by(|(b, _), (a, _)| name(a) == name(b) && uid(a) == uid(b));
    all
}

/// Things by a key. What is listed twice and not alike is `None`.
pub(crate) fn by_key<'a, T: PartialEq, K: Ord>(
    items: &'a [T],
    key: impl Fn(&'a T) -> K,
) -> BTreeMap<K, Option<&'a T>> {
    let mut all = BTreeMap::new();
    for item in items {
        match all.entry(key(item)) {
            Entry::Vacant(entry) => {
                entry.insert(Some(item));
            }
            Entry::Occupied(mut entry) => {
                if entry.get().is_some_and(|seen| seen != item) {
                    entry.insert(None);
                }
            }
        }
    }
    all
}
