//! The objects of a server and the meaning of references, by an independent implementation of rules R-1 and
//!

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, LazyLock},
};

use kubegc_core::{ApiResource, ObjectMeta, OwnerReference, Scope, Uid};

/// The kinds of the soak: built-in and custom, namespaced and not.
pub(crate) static KINDS: LazyLock<[ApiResource; 6]> = LazyLock::new(|| {
    use Scope::{Cluster, Namespaced};
    [
        ApiResource::new("v1", "ConfigMap", "configmaps", Namespaced),
        ApiResource::new("v1", "Secret", "secrets", Namespaced),
        ApiResource::new("apps/v1", "ReplicaSet", "replicasets", Namespaced),
        ApiResource::new("soak.example.com/v1", "Widget", "widgets", Namespaced),
        ApiResource::new("soak.example.com/v1", "Cluster", "clusters", Cluster),
        ApiResource::new(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            "clusterroles",
            Cluster,
        ),
    ]
});

/// The path of the objects of a kind in a namespace.
pub(crate) fn collection(kind: &ApiResource, namespace: &str) -> String {
    let prefix = if kind.group.is_empty() { "/api" } else { "/apis" };
    let namespace = match namespace {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    format!("{prefix}/{}{namespace}/{}", kind.api_version(), kind.resource)
}

/// The position of a kind in [`KINDS`].
pub(crate) fn kind_of(group: &str, resource: &str) -> Option<usize> {
    KINDS
        .iter()
        .position(|kind| *kind.group == *group && *kind.resource == *resource)
}

/// The key of an object. The namespace is empty for cluster-scoped kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: usize,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}/{}",
            KINDS[self.kind].resource, self.namespace, self.name
        )
    }
}

/// The meaning of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Dangling,
    Waiting,
    Solid,
    /// No such kind is served.
    Unmappable,
    /// A cluster-scoped object names a namespaced owner.
    Invalid,
}

/// The only possible place of the owner in a reference, if there is one.
pub(crate) fn owner_key(item: &Key, reference: &OwnerReference) -> Result<Key, Meaning> {
    let kind = KINDS
        .iter()
        .position(|kind| kind.api_version() == *reference.api_version && *kind.kind == *reference.kind)
        .ok_or(Meaning::Unmappable)?;
    if KINDS[kind].is_namespaced() && !KINDS[item.kind].is_namespaced() {
        return Err(Meaning::Invalid);
    }
    let namespace = if KINDS[kind].is_namespaced() {
        item.namespace.clone()
    } else {
        String::new()
    };
    Ok(Key {
        kind,
        namespace,
        name: reference.name.to_string(),
    })
}

/// The meaning of a reference, given the object at its place.
pub(crate) fn meaning_at(reference: &OwnerReference, found: Option<&ObjectMeta>) -> Meaning {
    match found {
        Some(owner) if owner.uid == reference.uid => {
            if is_held(owner, "foregroundDeletion") {
                Meaning::Waiting
            } else {
                Meaning::Solid
            }
        }
        _ => Meaning::Dangling,
    }
}

/// Whether an object is being deleted and has this finalizer.
pub(crate) fn is_held(object: &ObjectMeta, finalizer: &str) -> bool {
    object.deletion_timestamp.is_some() && object.finalizers.iter().any(|name| &**name == finalizer)
}

/// All objects of the kinds of the soak.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) objects: BTreeMap<Key, Arc<ObjectMeta>>,
    /// The cluster-scoped objects that named a namespaced owner at some time, by uid.
    named_invalid: BTreeSet<String>,
}

impl World {
    pub(crate) fn insert(&mut self, key: Key, object: Arc<ObjectMeta>) {
        let mut references = object.owner_references.iter();
        if references.any(|reference| owner_key(&key, reference) == Err(Meaning::Invalid)) {
            self.named_invalid.insert(object.uid.to_string());
        }
        self.objects.insert(key, object);
    }

    pub(crate) fn meaning(&self, item: &Key, reference: &OwnerReference) -> Meaning {
        match owner_key(item, reference) {
            Err(meaning) => meaning,
            Ok(key) => meaning_at(reference, self.objects.get(&key).map(|object| &**object)),
        }
    }

    /// Whether some object blocks the foreground deletion of this uid. Upstream compares the uid alone.
    fn has_blocking_dependent(&self, uid: &Uid) -> bool {
        let mut references = self
            .objects
            .values()
            .flat_map(|object| object.owner_references.iter());
        references.any(|reference| reference.is_blocking() && reference.uid == *uid)
    }

    /// The objects that an idle collector should not have left.
    pub(crate) fn left_undone(&self) -> Vec<String> {
        let mut undone = Vec::new();
        for (key, object) in &self.objects {
            if is_held(object, "orphan") {
                undone.push(format!("{key}: dependents are still not released"));
            }
            if is_held(object, "foregroundDeletion") && !self.has_blocking_dependent(&object.uid) {
                undone.push(format!("{key}: waits for dependents that are not there"));
            }
            if object.deletion_timestamp.is_some() || object.owner_references.is_empty() {
                continue;
            }
            // An attempt at an object with an invalid reference ends without a retry, and the removal of the
            // reference does not cause another one: such an object may stay, as with upstream.
            if self.named_invalid.contains(&object.uid.to_string()) {
                continue;
            }
            let meanings: Vec<Meaning> = object
                .owner_references
                .iter()
                .map(|reference| self.meaning(key, reference))
                .collect();
            // An owner that waits does not cause a check of a dependent that was observed after it began to
            // wait: with an owner that waits, an object may stay until the owner no longer exists, and
            // whether that one may wait is checked above.
            let is_kept = |meaning| !matches!(meaning, Meaning::Dangling | Meaning::Waiting);
            let is_abandoned = meanings.contains(&Meaning::Dangling);
            if is_abandoned && !meanings.into_iter().any(is_kept) {
                let owners = owners(object);
                undone.push(format!("{key}: is not collected, {owners}"));
            }
        }
        undone
    }
}

/// The owners of an object, for messages.
pub(crate) fn owners(object: &ObjectMeta) -> String {
    let owners: Vec<String> = object
        .owner_references
        .iter()
        .map(|owner| {
            format!(
                "{}/{} {} {} blocking={}",
                owner.api_version,
                owner.kind,
                owner.name,
                owner.uid,
                owner.is_blocking()
            )
        })
        .collect();
    format!("owners: [{}]", owners.join("; "))
}
