//! The recorded forms, as they are on disk.

use kubegc_core::{Catalog, ObjectMeta, ObjectRef, OwnerReference, PatchType, ResourceVersion, Timestamp};
use kubegc_objects::{Operation, Request, graph::DeletionState};
use serde::{Deserialize, Serialize};

/// apiVersion, kind, namespace, name, uid.
#[derive(Clone, Deserialize)]
#[serde(from = "[String; 5]")]
pub(super) struct Identity(pub(super) ObjectRef);

impl From<[String; 5]> for Identity {
    fn from([api_version, kind, namespace, name, uid]: [String; 5]) -> Self {
        Self(ObjectRef::new(&api_version, &kind, &namespace, &name, &uid))
    }
}

/// apiVersion, kind, name, uid, controller, blockOwnerDeletion.
type OwnerFields = (String, String, String, String, Option<bool>, Option<bool>);

#[derive(Clone, Debug, Deserialize)]
#[serde(from = "OwnerFields")]
pub(super) struct Owner(OwnerReference);

impl From<OwnerFields> for Owner {
    fn from((api_version, kind, name, uid, controller, block_owner_deletion): OwnerFields) -> Self {
        Self(OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid: uid.as_str().into(),
            controller,
            block_owner_deletion,
        })
    }
}

pub(super) fn references<C: FromIterator<OwnerReference>>(owners: &[Owner]) -> C {
    owners.iter().map(|owner| owner.0.clone()).collect()
}

/// Serial, position in `ids`, flags.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Item(pub(super) u64, pub(super) usize, pub(super) String);

#[derive(Deserialize)]
pub(super) struct Sequence {
    pub(super) semantics: String,
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

#[derive(Clone, Copy, Deserialize, PartialEq, Eq, Serialize)]
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

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Object {
    pub(super) id: usize,
    pub(super) owners: Vec<Owner>,
    finalizers: Vec<String>,
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

#[derive(Deserialize)]
pub(super) struct Action {
    #[serde(flatten)]
    pub(super) request: Sent,
    pub(super) code: u16,
    pub(super) obj: Option<ServerObject>,
}

#[derive(Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub(super) struct Sent {
    pub(super) verb: String,
    /// Group, version, resource.
    pub(super) res: (String, String, String),
    pub(super) ns: String,
    pub(super) name: String,
    r#type: Option<String>,
    body: Option<String>,
    precondition_uid: Option<String>,
    precondition_resource_version: Option<String>,
    policy: Option<String>,
}

impl Sent {
    pub(super) fn of(catalog: &Catalog, request: &Request) -> Self {
        let resource = &catalog[request.kind];
        let [group, version, plural, ns, name] = [
            &resource.group,
            &resource.version,
            &resource.resource,
            &request.target.namespace,
            &request.target.name,
        ]
        .map(|text| text.to_string());
        let mut sent = Self {
            res: (group, version, plural),
            ns,
            name,
            ..Self::default()
        };
        let verb = match &request.operation {
            Operation::Get => "get",
            Operation::Delete { wire, propagation } => {
                sent.precondition_uid = wire.uid.as_ref().map(ToString::to_string);
                sent.precondition_resource_version = wire.resource_version.as_ref().map(ToString::to_string);
                sent.policy = Some(propagation.to_string());
                "delete"
            }
            Operation::Patch { format, body, .. } => {
                let format = match format {
                    PatchType::Merge => "merge",
                    PatchType::Strategic => "strategic",
                    PatchType::Json => "json",
                };
                sent.r#type = Some(format.to_owned());
                sent.body = Some(String::from_utf8_lossy(body).into_owned());
                "patch"
            }
            Operation::Put { read_at, finalizers } => {
                sent.body = Some(format!("{read_at} {finalizers:?}"));
                "put"
            }
        };
        verb.clone_into(&mut sent.verb);
        sent
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ServerObject {
    pub(super) uid: String,
    pub(super) rv: String,
    pub(super) owners: Vec<Owner>,
    pub(super) finalizers: Vec<String>,
    pub(super) deleting: bool,
}

impl ServerObject {
    pub(super) fn meta(&self, namespace: &str, name: &str) -> ObjectMeta {
        ObjectMeta {
            resource_version: ResourceVersion::new(&self.rv),
            finalizers: self.finalizers.iter().map(|name| name.as_str().into()).collect(),
            owner_references: references(&self.owners),
            deletion_timestamp: self.deleting.then_some(Timestamp::EPOCH),
            ..ObjectMeta::new(namespace, name, &self.uid)
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct GraphNode {
    pub(super) id: usize,
    pub(super) r#virtual: bool,
    pub(super) being_deleted: bool,
    pub(super) deleting_dependents: bool,
    pub(super) owners: Vec<Owner>,
    pub(super) dependents: Vec<String>,
}
