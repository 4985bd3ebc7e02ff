//! The parts that attempts share: what they are given, how a kind is addressed, and the two requests that may take several tries.

pub(crate) mod finalizer;
pub(crate) mod patching;

use std::sync::Arc;

use kubegc_core::{Catalog, KindId, ObjectMeta, ObjectRef, Preconditions, metadata::OwnerReference};

use crate::{
    Graph, NodeId, Semantics,
    absent_owners::AbsentOwners,
    call::{Ask, AttemptError, Request},
    effect::Effect,
    reason::Reason,
};

/// What an attempt may look at and change while it goes on.
#[expect(clippy::exhaustive_structs, reason = "whoever drives attempts builds it")]
pub struct Context<'a> {
    /// How this version behaves.
    pub semantics: &'a Semantics,
    /// Whether every write also carries the version that was read, beyond what upstream sends.
    pub strict: bool,
    /// The owner graph.
    pub graph: &'a mut Graph,
    /// The kinds that are served.
    pub catalog: &'a Catalog,
    /// What is known to be absent.
    pub absent: &'a mut AbsentOwners,
    /// What the monitors last saw.
    pub latest: &'a dyn Latest,
    /// Where consequences go.
    pub effects: &'a mut Vec<Effect>,
}

/// What monitors last saw, for merge patches, which are built on a known state.
pub trait Latest {
    /// The last state of an object by name; `None` where no monitor has it, which costs a live read.
    fn latest(&self, kind: KindId, namespace: &str, name: &str) -> Option<Arc<ObjectMeta>>;
}

/// No monitor: every merge patch begins with a live read.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "a unit")]
pub struct NoMonitors;

impl Latest for NoMonitors {
    fn latest(&self, _: KindId, _: &str, _: &str) -> Option<Arc<ObjectMeta>> {
        None
    }
}

impl Context<'_> {
    /// How objects of exactly this apiVersion and kind are addressed.
    pub(crate) fn mapping(
        &self,
        api_version: &Arc<str>,
        kind: &Arc<str>,
    ) -> Result<(KindId, bool), AttemptError> {
        let id = self
            .catalog
            .mapping(api_version, kind)
            .ok_or_else(|| AttemptError::NoMapping {
                api_version: Arc::clone(api_version),
                kind: Arc::clone(kind),
            })?;
        Ok((id, self.catalog[id].is_namespaced()))
    }

    /// An effect that holds its node.
    pub(crate) fn attempt_to_delete(&mut self, node: NodeId) {
        self.graph.retain(node);
        self.effects.push(Effect::AttemptToDelete(node));
    }

    /// Has the graph told that a lookup found nothing under this identity.
    pub(crate) fn virtual_delete(&mut self, identity: ObjectRef) {
        self.effects.push(Effect::VirtualDelete(Box::new(identity)));
    }
}

/// An object and how it is addressed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) kind: KindId,
    pub(crate) object: ObjectRef,
    /// The namespace that the graph's node has. It differs from the object's where a cluster-scoped kind was guessed to be namespaced.
    pub(crate) node_namespace: Arc<str>,
}

impl Target {
    /// The object itself, its namespace dropped where its kind has none.
    pub(crate) fn of(context: &Context<'_>, object: &ObjectRef) -> Result<Self, AttemptError> {
        let (kind, namespaced) = context.mapping(&object.api_version, &object.kind)?;
        let mut object = object.clone();
        let node_namespace = Arc::clone(&object.namespace);
        if !namespaced {
            object.namespace = "".into();
        }
        Ok(Self {
            kind,
            object,
            node_namespace,
        })
    }

    /// The owner that a reference in this namespace names.
    pub(crate) fn owner(kind: KindId, reference: &OwnerReference, namespace: Arc<str>) -> Self {
        let OwnerReference {
            api_version,
            kind: kind_name,
            name,
            uid,
            ..
        } = reference.clone();
        Self {
            kind,
            node_namespace: Arc::clone(&namespace),
            object: ObjectRef {
                kind: kind_name,
                api_version,
                namespace,
                name,
                uid,
            },
        }
    }

    pub(crate) fn ask(&self, request: Request, reason: Reason) -> Ask {
        let expect = Preconditions::uid(self.object.uid.clone());
        Ask {
            kind: self.kind,
            target: self.object.clone(),
            request,
            expect,
            reason,
        }
    }
}
