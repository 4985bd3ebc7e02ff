//! Small clusters: their kinds, objects and client writes, and their generators.

use std::sync::Arc;

use kubegc_core::{
    ApiResource, Catalog, KindId, KubernetesVersion, ObjectMeta, OwnerReference, PropagationPolicy, Scope,
    Timestamp, deletion::DeleteOptionsSpec,
};
use kubegc_sim::{ApiServer, Settings, StoredObject};
use proptest::prelude::*;

/// One kind of the test catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) custom: bool,
}

const fn kind(
    api_version: &'static str,
    kind: &'static str,
    resource: &'static str,
    namespaced: bool,
    custom: bool,
) -> Kind {
    Kind {
        api_version,
        kind,
        resource,
        namespaced,
        custom,
    }
}

pub(crate) const CONFIG_MAP: Kind = kind("v1", "ConfigMap", "configmaps", true, false);
pub(crate) const SECRET: Kind = kind("v1", "Secret", "secrets", true, false);
pub(crate) const WIDGET: Kind = kind("example.com/v1", "Widget", "widgets", true, true);
pub(crate) const NODE: Kind = kind("v1", "Node", "nodes", false, false);
pub(crate) const TENANT: Kind = kind("example.com/v1", "Tenant", "tenants", false, true);
/// Served and never watched: the collector ignores it.
pub(crate) const EVENT: Kind = kind("v1", "Event", "events", true, false);
pub(crate) const KINDS: [Kind; 6] = [CONFIG_MAP, SECRET, WIDGET, NODE, TENANT, EVENT];
/// Number of kinds that are watched.
pub(crate) const WATCHED: usize = 5;

/// A finalizer that is not the collector's.
pub(crate) const HOLD: &str = "example.com/hold";

pub(crate) fn version(text: &str) -> KubernetesVersion {
    text.parse().expect("a version that the test names")
}

pub(crate) fn catalog(kinds: &[Kind]) -> Catalog {
    let mut catalog = Catalog::new();
    for kind in kinds {
        let scope = if kind.namespaced {
            Scope::Namespaced
        } else {
            Scope::Cluster
        };
        let resource = ApiResource::new(kind.api_version, kind.kind, kind.resource, scope);
        let resource = if kind.custom { resource.custom() } else { resource };
        catalog.add(resource).expect("each kind is named once");
    }
    catalog
}

/// An empty server of these kinds that requires no namespaces.
pub(crate) fn server(version: KubernetesVersion, kinds: &[Kind]) -> ApiServer {
    let settings = Settings {
        namespaces_must_exist: false,
        ..Settings::default()
    };
    let mut server = ApiServer::new(version, catalog(kinds)).with_settings(settings);
    server.set_now(Timestamp::from_secs(1_000));
    server
}

pub(crate) fn id(server: &ApiServer, kind: Kind) -> KindId {
    server
        .catalog()
        .mapping(kind.api_version, kind.kind)
        .expect("the test serves it")
}

/// An object of a test cluster.
#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) meta: ObjectMeta,
}

/// One line for each object, so that a failing case can be read. Blocking owners are marked.
impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, meta } = self;
        write!(
            f,
            "{}/{}/{} uid {}",
            meta.namespace, kind.kind, meta.name, meta.uid
        )?;
        for owner in &meta.owner_references {
            let mark = if owner.is_blocking() { "!" } else { "" };
            write!(f, ", owner {owner}{mark}")?;
        }
        if meta.is_deleting() {
            f.write_str(", deleting")?;
        }
        write!(f, ", finalizers {:?}", meta.finalizers)
    }
}

impl Object {
    /// A namespaced or cluster-scoped object whose uid is `u-<name>`.
    pub(crate) fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let namespace = if kind.namespaced { namespace } else { "" };
        Self {
            kind,
            meta: ObjectMeta::new(namespace, name, &format!("u-{name}")),
        }
    }

    pub(crate) fn owned_by(mut self, owner: &Self) -> Self {
        self.meta.owner_references.push(owner.reference());
        self
    }

    pub(crate) fn blocking(mut self, owner: &Self) -> Self {
        self.meta.owner_references.push(OwnerReference {
            block_owner_deletion: Some(true),
            ..owner.reference()
        });
        self
    }

    pub(crate) fn with(mut self, reference: OwnerReference) -> Self {
        self.meta.owner_references.push(reference);
        self
    }

    pub(crate) fn with_finalizer(mut self, finalizer: &str) -> Self {
        self.meta.finalizers.push(finalizer.into());
        self
    }

    pub(crate) fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.kind.api_version.into(),
            kind: self.kind.kind.into(),
            name: Arc::clone(&self.meta.name),
            uid: self.meta.uid.clone(),
            controller: None,
            block_owner_deletion: None,
        }
    }

    pub(crate) fn insert(&self, server: &mut ApiServer) {
        let kind = id(server, self.kind);
        server
            .insert(kind, self.meta.clone())
            .expect("a name and a served kind");
    }

    pub(crate) fn live(&self, server: &ApiServer) -> Option<ObjectMeta> {
        let kind = id(server, self.kind);
        let stored = server.object(kind, &self.meta.namespace, &self.meta.name)?;
        (stored.meta.uid == self.meta.uid).then(|| stored.meta.clone().into())
    }
}

/// An owner that no cluster has.
pub(crate) fn gone() -> Object {
    Object::new(CONFIG_MAP, "red", "gone")
}

pub(crate) fn orphaned_item() -> Object {
    Object::new(SECRET, "red", "item").owned_by(&gone())
}

/// A write of a client.
#[derive(Clone, Debug)]
pub(crate) enum ClientWrite {
    Delete(usize, Option<PropagationPolicy>),
    /// Removes the finalizer [`HOLD`].
    RemoveFinalizer(usize),
    /// Drops the first reference.
    DropReference(usize),
    /// Makes the second object an owner of the first.
    AddReference(usize, usize),
}

/// A generated cluster and the writes of its clients.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) objects: Vec<Object>,
    pub(crate) client_writes: Vec<ClientWrite>,
}

impl Cluster {
    pub(crate) fn server(&self, version: KubernetesVersion) -> ApiServer {
        let mut server = server(version, &KINDS);
        for object in &self.objects {
            object.insert(&mut server);
        }
        server
    }

    /// Performs a write. Writes to objects that no longer exist change nothing.
    pub(crate) fn perform(&self, server: &mut ApiServer, write: &ClientWrite) {
        let (&ClientWrite::Delete(at, _)
        | &ClientWrite::RemoveFinalizer(at)
        | &ClientWrite::DropReference(at)
        | &ClientWrite::AddReference(at, _)) = write;
        let object = &self.objects[at];
        let (kind, namespace, name) = (id(server, object.kind), &object.meta.namespace, &object.meta.name);
        if let ClientWrite::Delete(_, policy) = write {
            delete(server, object, *policy);
            return;
        }
        let Some(mut meta) = object.live(server) else {
            return;
        };
        match write {
            ClientWrite::RemoveFinalizer(_) => meta.finalizers.retain(|finalizer| &**finalizer != HOLD),
            ClientWrite::DropReference(_) if !meta.owner_references.is_empty() => {
                let rest: Vec<_> = meta.owner_references[1..].to_vec();
                meta.owner_references = rest.into();
            }
            ClientWrite::AddReference(_, owner) => {
                meta.owner_references.push(self.objects[*owner].reference())
            }
            _ => {}
        }
        let _response = server.update(kind, namespace, name, StoredObject::from(meta));
    }
}

pub(crate) fn delete(server: &mut ApiServer, object: &Object, policy: Option<PropagationPolicy>) -> u16 {
    let options = DeleteOptionsSpec {
        propagation_policy: policy.map(|policy| policy.as_str().to_owned()),
        ..DeleteOptionsSpec::default()
    };
    let kind = id(server, object.kind);
    server
        .delete(kind, &object.meta.namespace, &object.meta.name, &options)
        .code
}

/// An error in a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    Kind,
    Name,
    Uid,
    Unmappable,
    Scope,
    Twice,
}

type Draw = (u8, u8, Vec<(u8, Option<bool>, Flaw)>, u8);

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let blocking = prop_oneof![Just(None), Just(Some(false)), Just(Some(true)), Just(Some(true))];
    let flaw = prop_oneof![
        4 => Just(Flaw::None), 1 => Just(Flaw::Kind), 1 => Just(Flaw::Name), 1 => Just(Flaw::Uid),
        1 => Just(Flaw::Unmappable), 1 => Just(Flaw::Scope), 1 => Just(Flaw::Twice),
    ];
    let reference = (any::<u8>(), blocking, flaw);
    let object = (
        any::<u8>(),
        any::<u8>(),
        proptest::collection::vec(reference, 0..=3),
        0..10u8,
    );
    proptest::collection::vec(object, 1..=12)
}

fn policy() -> impl Strategy<Value = Option<PropagationPolicy>> {
    use PropagationPolicy::{Background, Foreground, Orphan};
    prop_oneof![
        Just(None),
        Just(Some(Background)),
        Just(Some(Foreground)),
        Just(Some(Orphan))
    ]
}

/// Features of the generator of well-formed clusters beyond acyclic ownership.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Features {
    /// Owners can come after their dependents, so that cycles arise.
    pub(crate) cycles: bool,
    /// Some objects have a finalizer that is not the collector's.
    pub(crate) finalizers: bool,
    /// Objects have several owners.
    pub(crate) several_owners: bool,
    /// Some references do not block their owner.
    pub(crate) non_blocking: bool,
}

impl Features {
    pub(crate) const ALL: Self = Self {
        cycles: true,
        finalizers: true,
        several_owners: true,
        non_blocking: true,
    };
}

/// Clusters whose owners exist, are in scope, have unique uids and are not their own, and one deletion.
pub(crate) fn well_formed(features: Features) -> impl Strategy<Value = Cluster> {
    (draws(), any::<u8>(), policy()).prop_map(move |(draws, target, policy)| {
        let mut objects = without_references(&draws, WATCHED);
        for (at, (_, _, references, finalizer)) in draws.iter().enumerate() {
            let mut owners = Vec::new();
            for &(owner, blocking, _) in references {
                let range = if features.cycles { draws.len() } else { at };
                if range == 0 {
                    continue;
                }
                let owner = owner as usize % range;
                let (owned, by) = (&objects[at], &objects[owner]);
                let in_scope = by.meta.namespace.is_empty() || by.meta.namespace == owned.meta.namespace;
                let more = owners.is_empty() || features.several_owners;
                if owner == at || !in_scope || owners.contains(&owner) || !more {
                    continue;
                }
                owners.push(owner);
                let blocking = if features.non_blocking {
                    blocking
                } else {
                    Some(true)
                };
                let reference = OwnerReference {
                    block_owner_deletion: blocking,
                    ..by.reference()
                };
                objects[at].meta.owner_references.push(reference);
            }
            // If dependents of one cluster-scoped owner in two namespaces have finalizers, the collector
            // alternates between guesses; see `laws_exceptions`.
            let guessed = objects[at]
                .meta
                .owner_references
                .iter()
                .any(|owner| is_cluster_scoped(&owner.kind));
            let guessed = guessed && objects[at].kind.namespaced;
            if features.finalizers && *finalizer == 0 && !guessed {
                objects[at].meta.finalizers.push(HOLD.into());
            }
        }
        let client_writes = vec![ClientWrite::Delete(target as usize % objects.len(), policy)];
        Cluster {
            objects,
            client_writes,
        }
    })
}

pub(crate) fn is_cluster_scoped(kind: &str) -> bool {
    KINDS.iter().any(|known| known.kind == kind && !known.namespaced)
}

/// Clusters with references with every flaw, kinds that are not watched, finalizers of the collector, and
/// clients that change objects.
pub(crate) fn ill_formed() -> impl Strategy<Value = Cluster> {
    let write = (0..4u8, any::<u8>(), any::<u8>(), policy());
    (draws(), proptest::collection::vec(write, 1..=5)).prop_map(|(draws, client_writes)| {
        let mut objects = without_references(&draws, KINDS.len());
        for (at, (_, _, references, finalizer)) in draws.iter().enumerate() {
            for &(owner, blocking, flaw) in references {
                let owner = &objects[owner as usize % draws.len()];
                let in_scope =
                    owner.meta.namespace.is_empty() || owner.meta.namespace == objects[at].meta.namespace;
                if !in_scope && flaw != Flaw::Scope {
                    continue;
                }
                let mut reference = OwnerReference {
                    block_owner_deletion: blocking,
                    ..owner.reference()
                };
                match flaw {
                    Flaw::None | Flaw::Scope => {}
                    Flaw::Kind => reference.kind = "Secret".into(),
                    Flaw::Name => reference.name = "other".into(),
                    Flaw::Uid => reference.uid = "u-gone".into(),
                    Flaw::Unmappable => reference.api_version = "example.com/v9".into(),
                    Flaw::Twice => {
                        let twin = OwnerReference {
                            name: "twin".into(),
                            ..reference.clone()
                        };
                        objects[at].meta.owner_references.push(twin);
                    }
                }
                objects[at].meta.owner_references.push(reference);
            }
            let finalizer = match finalizer {
                0 => HOLD,
                1 => "orphan",
                2 => "foregroundDeletion",
                _ => continue,
            };
            objects[at].meta.finalizers.push(finalizer.into());
        }
        let count = objects.len();
        let write = |(operation, first, second, policy): (u8, u8, u8, _)| {
            let (first, second) = (first as usize % count, second as usize % count);
            match operation {
                0 | 1 => ClientWrite::Delete(first, policy),
                2 => ClientWrite::RemoveFinalizer(first),
                3 if second > first => ClientWrite::DropReference(first),
                _ => ClientWrite::AddReference(first, second),
            }
        };
        Cluster {
            client_writes: client_writes.into_iter().map(write).collect(),
            objects,
        }
    })
}

fn without_references(draws: &[Draw], kinds: usize) -> Vec<Object> {
    let object = |(at, draw): (usize, &Draw)| {
        let kind = KINDS[draw.0 as usize % kinds];
        Object::new(kind, ["red", "blue"][draw.1 as usize % 2], &format!("o{at}"))
    };
    draws.iter().enumerate().map(object).collect()
}
