//! Finds the objects that hang on another one, so that a change need not be held against everything else.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use super::{
    table::Key,
    tables::{Change, Tables},
};
use crate::{
    fields::{Fields, Pod, Record},
    history::{Class, StartTime},
    object::Resource,
    token::legacy,
    volume::{FINALIZER_CLAIM_PROTECTION, Policy, Source},
};

/// What hangs on what. Every entry has a namespace, a key in it, and the name of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Jobs that succeeded, by the name of their controller.
    JobSucceeded,
    /// Jobs that failed, by the name of their controller.
    JobFailed,
    /// Jobs of which it is not known how they ended, when they started, or which ones they are, by the name of their controller. Those of which
    /// the metadata was not read and that name no controller may have any: they stand under no name.
    JobUnknown,
    /// Volumes by the claim that they name, in the namespace of that.
    VolumeOfClaim,
    /// The same, of those that are to be emptied when the claim is gone.
    RecycledOfClaim,
    /// Claims that are being deleted and protected; no key.
    HeldClaim,
    /// Pods by the claims that they mention, those that they bring along included.
    PodOfClaim,
    /// Pods of which too little was read to tell which claims they protect; no key.
    PodUntold,
    /// Pods that have not ended and whose volumes were not read; no key.
    PodBare,
    /// Pods by the secrets that they mention.
    PodOfSecret,
    /// Pods of which it was not read which secrets they mention; no key.
    PodSecretsUnread,
    /// Secrets that are, or may be, tokens of service accounts; no key.
    Token,
    /// The same, by the account that they name.
    TokenOfAccount,
}

impl Kind {
    /// All of them, in order.
    const ALL: [Self; 13] = [
        Self::JobSucceeded,
        Self::JobFailed,
        Self::JobUnknown,
        Self::VolumeOfClaim,
        Self::RecycledOfClaim,
        Self::HeldClaim,
        Self::PodOfClaim,
        Self::PodUntold,
        Self::PodBare,
        Self::PodOfSecret,
        Self::PodSecretsUnread,
        Self::Token,
        Self::TokenOfAccount,
    ];

    /// Whose objects stand there.
    const fn resource(self) -> Resource {
        match self {
            Self::JobSucceeded | Self::JobFailed | Self::JobUnknown => Resource::Jobs,
            Self::VolumeOfClaim | Self::RecycledOfClaim => Resource::PersistentVolumes,
            Self::HeldClaim => Resource::PersistentVolumeClaims,
            Self::PodOfClaim
            | Self::PodUntold
            | Self::PodBare
            | Self::PodOfSecret
            | Self::PodSecretsUnread => Resource::Pods,
            Self::Token | Self::TokenOfAccount => Resource::Secrets,
        }
    }

    /// The keys under which an object of the right resource stands, with their namespaces. One may come twice.
    fn keys(self, record: &Record) -> Vec<Key> {
        let meta = &record.meta;
        let here = |key| (Arc::clone(&meta.namespace), key);
        let if_true = |is: bool| {
            let key = is.then(|| here(Arc::from("")));
            key.into_iter().collect()
        };
        match self {
            Self::JobSucceeded | Self::JobFailed | Self::JobUnknown => {
                let mut owners = meta.owner_references.iter();
                let controller = owners.find(|owner| owner.controller == Some(true));
                let controller = controller.filter(|owner| !owner.name.is_empty());
                let key = match controller {
                    Some(owner) => Some(Arc::clone(&owner.name)),
                    None => (record.fields == Fields::MetadataUnread).then(|| Arc::from("")),
                };
                let key = key.filter(|_| kind_of_job(record) == Some(self));
                key.map(here).into_iter().collect()
            }
            Self::VolumeOfClaim | Self::RecycledOfClaim => {
                let Fields::PersistentVolume(volume) = &record.fields else {
                    return Vec::new();
                };
                let is_meant = self == Self::VolumeOfClaim || volume.policy == Policy::Recycle;
                // A volume with a namespace is none: its name might be that of another.
                let is_volume = meta.namespace.is_empty();
                let claim = volume.claim_ref.claim().filter(|_| is_meant && is_volume);
                let key = claim.map(|claim| (Arc::clone(&claim.namespace), Arc::clone(&claim.name)));
                key.into_iter().collect()
            }
            Self::HeldClaim => if_true(is_held(record)),
            Self::PodOfClaim => claims_of(record).map(here).collect(),
            Self::PodUntold => if_true(!tells_protected_claims(record)),
            Self::PodBare => {
                let pod = pod(record);
                if_true(pod.is_none_or(|pod| pod.volumes.is_none() && !is_terminated(pod)))
            }
            Self::PodOfSecret => {
                let secrets = pod(record).and_then(|pod| pod.secrets.as_deref());
                let secrets = secrets.unwrap_or_default().iter();
                secrets.map(|secret| here(Arc::clone(secret))).collect()
            }
            Self::PodSecretsUnread => if_true(pod(record).is_none_or(|pod| pod.secrets.is_none())),
            Self::Token => if_true(is_token(record)),
            Self::TokenOfAccount => {
                let account = match &record.fields {
                    Fields::Secret(secret) if is_token(record) => secret.account_name.as_ref(),
                    _ => None,
                };
                let account = account.filter(|account| !account.is_empty());
                account
                    .map(|account| here(Arc::clone(account)))
                    .into_iter()
                    .collect()
            }
        }
    }
}

/// The entries of all objects, by kind. Those of a kind are gathered when somebody asks for the first time, and followed from then on.
#[derive(Clone, Debug, Default)]
pub(super) struct Index([OnceLock<Names>; Kind::ALL.len()]);

impl Index {
    /// Follows a change of one object: how it was, where it was there, and how it is, where it is.
    ///
    /// # Complexity
    /// O(k log n), for `k` entries of the object and `n` of all; O(1) for kinds that nobody has asked for.
    pub(super) fn apply(&mut self, resource: Resource, old: Option<&Record>, new: Option<&Record>) {
        for (kind, names) in Kind::ALL.into_iter().zip(&mut self.0) {
            if kind.resource() == resource
                && let Some(names) = names.get_mut()
            {
                names.apply(kind, old, new);
            }
        }
    }
}

impl Tables {
    /// The entries of one kind.
    ///
    /// # Complexity
    /// O(1), but for the first time: O(n log n) for `n` objects.
    pub(super) fn names(&self, kind: Kind) -> &Names {
        static NONE: Names = Names(BTreeSet::new());
        let gathered = self.indexes.0.get(kind as usize);
        gathered.map_or(&NONE, |names| {
            names.get_or_init(|| Names::new(kind, self.of(kind.resource()).values()))
        })
    }
}

/// The entries of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names(BTreeSet<Entry>);

/// Namespace, key, name.
type Entry = (Arc<str>, Arc<str>, Arc<str>);

impl Names {
    fn new<'a>(kind: Kind, records: impl Iterator<Item = &'a Record>) -> Self {
        let entries = records.flat_map(|record| entries(kind, Some(record)));
        // A set is best made of what is sorted.
        let mut entries: Vec<Entry> = entries.collect();
        entries.sort_unstable();
        Self(entries.into_iter().collect())
    }

    fn apply(&mut self, kind: Kind, old: Option<&Record>, new: Option<&Record>) {
        let (old, new) = (entries(kind, old), entries(kind, new));
        if old != new {
            for entry in &old {
                self.0.remove(entry);
            }
            self.0.extend(new);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names under a key, in order.
    pub(super) fn of(&self, (namespace, key): &Key) -> impl Iterator<Item = &Arc<str>> {
        let (namespace, key) = (Arc::clone(namespace), Arc::clone(key));
        let from = (Arc::clone(&namespace), Arc::clone(&key), Arc::from(""));
        self.0
            .range(from..)
            .take_while(move |(within, under, _)| *within == namespace && *under == key)
            .map(|(_, _, name)| name)
    }

    /// The names in a namespace, under whatever key.
    pub(super) fn within(&self, namespace: &Arc<str>) -> impl Iterator<Item = &Arc<str>> {
        let namespace = Arc::clone(namespace);
        let from = (Arc::clone(&namespace), Arc::from(""), Arc::from(""));
        self.0
            .range(from..)
            .take_while(move |(within, ..)| *within == namespace)
            .map(|(_, _, name)| name)
    }

    /// Namespaces, keys and names of all, in order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }

    /// Whether no other name under a key comes before this one: whoever goes by the first name there sees whether this one is there.
    pub(super) fn has_none_before(&self, key: &Key, name: &Arc<str>) -> bool {
        let mut others = self.of(key).filter(|other| *other != name);
        others.next().is_none_or(|first| name < first)
    }
}

fn entries(kind: Kind, record: Option<&Record>) -> Vec<Entry> {
    let entries = record.into_iter().flat_map(|record| {
        let keys = kind.keys(record).into_iter();
        keys.map(|(namespace, key)| (namespace, key, Arc::clone(&record.meta.name)))
    });
    entries.collect()
}

/// The keys under which the changed object was or is. One may come twice.
pub(super) fn touched(kind: Kind, change: &Change<'_>) -> impl Iterator<Item = Key> {
    let records = change.old.into_iter().chain(change.new);
    records.flat_map(move |record| kind.keys(record))
}

/// The keys under which the changed object was and is not, or is and was not. One may come twice.
pub(super) fn moved(kind: Kind, change: &Change<'_>) -> Vec<Key> {
    let keys = |record: Option<&Record>| record.map(|record| kind.keys(record)).unwrap_or_default();
    let (old, new) = (keys(change.old), keys(change.new));
    let not_in = |keys: &[Key], other: &[Key]| -> Vec<Key> {
        let keys = keys.iter().filter(|key| !other.contains(key));
        keys.cloned().collect()
    };
    let mut moved = not_in(&old, &new);
    moved.extend(not_in(&new, &old));
    moved
}

/// As which kind a job stands; `None` for one that has not finished.
fn kind_of_job(record: &Record) -> Option<Kind> {
    let status = match &record.fields {
        Fields::Job(job) => job.status.as_ref(),
        _ => None,
    };
    let Some(status) = status else {
        return Some(Kind::JobUnknown);
    };
    let class = status.class()?;
    let is_unknown = status.start_time == StartTime::Unknown || record.meta.uid.is_empty();
    Some(match class {
        _ if is_unknown => Kind::JobUnknown,
        Class::Successful => Kind::JobSucceeded,
        Class::Failed => Kind::JobFailed,
    })
}

fn pod(record: &Record) -> Option<&Pod> {
    match &record.fields {
        Fields::Pod(pod) => Some(pod),
        _ => None,
    }
}

fn is_terminated(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().map(|status| &*status.phase);
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The claims that a pod mentions, as far as its volumes were read.
fn claims_of(record: &Record) -> impl Iterator<Item = Arc<str>> {
    let volumes = pod(record).and_then(|pod| pod.volumes.as_deref());
    let volumes = volumes.unwrap_or_default().iter();
    volumes.filter_map(|volume| volume.claim(&record.meta.name))
}

/// Whether enough of a pod was read to tell which claims it protects, as [`protection`](crate::volume::protection) has it.
fn tells_protected_claims(record: &Record) -> bool {
    let Some(pod) = pod(record) else {
        return false;
    };
    let is_on_a_node = match pod.node_name.as_deref() {
        Some("") => return true,
        on => on.is_some(),
    };
    let is_told = |source: &Source| match source {
        Source::Claim(_) => is_on_a_node,
        Source::Ephemeral => is_on_a_node && !record.meta.uid.is_empty(),
        Source::Other => true,
    };
    let volumes = pod.volumes.as_ref();
    volumes.is_some_and(|volumes| volumes.iter().all(|volume| is_told(&volume.source)))
}

/// Whether pods decide what becomes of a claim: it is being deleted, and protected.
pub(super) fn is_held(claim: &Record) -> bool {
    claim.meta.is_deleting() && claim.meta.has_finalizer(FINALIZER_CLAIM_PROTECTION)
}

/// Whether a secret is a token of a service account, or nobody knows what it is.
pub(super) fn is_token(record: &Record) -> bool {
    match &record.fields {
        Fields::Secret(secret) => secret
            .secret_type
            .as_ref()
            .is_none_or(|of_type| **of_type == *legacy::SECRET_TYPE),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
