//! The recorded forms, as they are on disk.

use kubegc_core::{ObjectMeta, ObjectRef, OwnerReference, ResourceVersion, Timestamp};
use kubegc_objects::graph::DeletionState;
use serde::Deserialize;

/// apiVersion, kind, namespace, name, uid.
#[derive(Clone, Deserialize)]
pub(super) struct Identity(String, String, String, String, String);

impl Identity {
    pub(super) fn object_ref(&self) -> ObjectRef {
        ObjectRef::new(&self.0, &self.1, &self.2, &self.3, &self.4)
    }

    pub(super) fn of(identity: &ObjectRef) -> Self {
        let ObjectRef {
            kind,
            api_version,
            namespace,
            name,
            uid,
        } = identity;
        let [api_version, kind, namespace, name] =
            [api_version, kind, namespace, name].map(|text| text.to_string());
        Self(api_version, kind, namespace, name, uid.to_string())
    }
}

/// apiVersion, kind, name, uid, controller, blockOwnerDeletion.
#[derive(Clone, Deserialize)]
pub(super) struct Owner(String, String, String, String, Option<bool>, Option<bool>);

impl Owner {
    pub(super) fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.0.as_str().into(),
            kind: self.1.as_str().into(),
            name: self.2.as_str().into(),
            uid: self.3.as_str().into(),
            controller: self.4,
            block_owner_deletion: self.5,
        }
    }
}

pub(super) fn references<C: FromIterator<OwnerReference>>(owners: &[Owner]) -> C {
    owners.iter().map(Owner::reference).collect()
}

/// Serial, position in `ids`, flags.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Item(pub(super) u64, pub(super) usize, pub(super) String);

#[derive(Deserialize)]
pub(super) struct Sequence {
    pub(super) semantics: Option<String>,
    pub(super) absent_cache_size: usize,
    pub(super) ids: Vec<Identity>,
    pub(super) steps: Vec<Step>,
    pub(super) graph: Vec<GraphNode>,
    pub(super) absent_owner_cache: Vec<usize>,
    pub(super) pending_delete: Vec<Item>,
    pub(super) pending_orphan: Vec<Item>,
    pub(super) pending_vdel: Vec<usize>,
}

#[derive(Deserialize)]
pub(super) struct Step {
    #[serde(flatten)]
    pub(super) input: Input,
    #[serde(default)]
    pub(super) out: Out,
    pub(super) graph: Option<Vec<GraphNode>>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Input {
    Event {
        r#type: EventType,
        obj: Object,
        old: Option<Object>,
    },
    VirtualDelete {
        obj: IdOnly,
    },
    EnqueueVirtualDelete {},
    AttemptDelete {
        item: Item,
    },
    AttemptOrphan {
        item: Item,
    },
}

impl Input {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Event { .. } => "event",
            Self::VirtualDelete { .. } => "virtual_delete",
            Self::EnqueueVirtualDelete {} => "enqueue_virtual_delete",
            Self::AttemptDelete { .. } => "attempt_delete",
            Self::AttemptOrphan { .. } => "attempt_orphan",
        }
    }
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum EventType {
    Add,
    Update,
    Delete,
}

#[derive(Deserialize)]
pub(super) struct IdOnly {
    pub(super) id: usize,
}

#[derive(Deserialize)]
pub(super) struct Object {
    pub(super) id: usize,
    #[serde(default)]
    pub(super) owners: Vec<Owner>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    deleting: bool,
}

impl Object {
    pub(super) fn deletion(&self) -> DeletionState {
        let has = |name: &str| self.finalizers.iter().any(|finalizer| finalizer == name);
        DeletionState {
            deleting: self.deleting,
            orphan: has("orphan"),
            foreground: has("foregroundDeletion"),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Out {
    pub(super) del: Vec<Item>,
    pub(super) orph: Vec<Item>,
    pub(super) vdel: Vec<usize>,
    pub(super) events: Vec<String>,
    pub(super) absent: Vec<usize>,
    pub(super) actions: Vec<Action>,
    pub(super) requeued: bool,
    pub(super) handled_error: bool,
}

/// One request and its response.
#[derive(Debug, Deserialize)]
pub(super) struct Action {
    pub(super) verb: String,
    /// Group, version, resource.
    pub(super) res: (String, String, String),
    #[serde(default)]
    pub(super) ns: String,
    pub(super) name: String,
    pub(super) code: u16,
    pub(super) obj: Option<ServerObject>,
    pub(super) r#type: Option<String>,
    pub(super) body: Option<String>,
    pub(super) precondition_uid: Option<String>,
    pub(super) precondition_resource_version: Option<String>,
    pub(super) policy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ServerObject {
    pub(super) uid: String,
    pub(super) rv: String,
    pub(super) owners: Vec<OwnerOnServer>,
    pub(super) finalizers: Vec<String>,
    pub(super) deleting: bool,
}

/// The same as [`Owner`], where only its reference is wanted.
#[derive(Debug, Deserialize)]
#[serde(from = "Owner")]
pub(super) struct OwnerOnServer(pub(super) OwnerReference);

impl From<Owner> for OwnerOnServer {
    fn from(owner: Owner) -> Self {
        Self(owner.reference())
    }
}

impl ServerObject {
    pub(super) fn meta(&self, namespace: &str, name: &str) -> ObjectMeta {
        ObjectMeta {
            resource_version: ResourceVersion::new(&self.rv),
            finalizers: self.finalizers.iter().map(|name| name.as_str().into()).collect(),
            owner_references: self.owners.iter().map(|owner| owner.0.clone()).collect(),
            deletion_timestamp: self.deleting.then_some(Timestamp::EPOCH),
            ..ObjectMeta::new(namespace, name, &self.uid)
        }
    }
}

#[derive(Deserialize)]
pub(super) struct GraphNode {
    pub(super) id: usize,
    #[serde(default)]
    pub(super) r#virtual: bool,
    #[serde(default)]
    pub(super) being_deleted: bool,
    #[serde(default)]
    pub(super) deleting_dependents: bool,
    #[serde(default)]
    pub(super) owners: Vec<Owner>,
    #[serde(default)]
    pub(super) dependents: Vec<String>,
}
