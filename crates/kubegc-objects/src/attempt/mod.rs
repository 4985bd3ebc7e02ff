//! Attempts to delete one item or to orphan the dependents of one owner, and their shared parts: the context,
//! the addresses of objects, and the two requests that can take several tries.

pub(crate) mod delete;
mod finalizer;
pub(crate) mod orphan;
mod patching;

use std::{hash::Hasher, sync::Arc};

use kubegc_core::{
    ApiResource, Catalog, KindId, KubernetesVersion, ObjectMeta, ObjectRef, Preconditions,
    metadata::OwnerReference,
};

use crate::{
    absent_owners::AbsentOwners,
    effect::Effect,
    graph::{Graph, NodeId},
    reason::Reason,
    request::{AttemptError, Operation, Request},
};

/// Hashes the cached state of an object of a resource.
pub type DigestObject<'a> = &'a dyn Fn(&ApiResource, &ObjectMeta, &mut dyn Hasher);

/// The state that an attempt can read and change.
pub struct Context<'a> {
    /// The emulated release.
    pub version: KubernetesVersion,
    /// Whether the collector is safer than upstream, as
    /// [`Hardening::Strict`](crate::settings::Hardening::Strict) says.
    pub strict: bool,
    pub graph: &'a mut Graph,
    pub catalog: &'a Catalog,
    pub absent: &'a mut AbsentOwners,
    /// The caches of the monitors.
    pub latest: &'a dyn Latest,
    pub effects: &'a mut Vec<Effect>,
}

/// Read access to the caches of the monitors. Merge patches are built on a cached state
/// ([P-2](crate::rules#p-2)).
pub trait Latest {
    /// The cached state of an object; `None` if no monitor has it, which costs a live read.
    fn latest(&self, kind: KindId, namespace: &str, name: &str) -> Option<Arc<ObjectMeta>>;
}

/// No caches: every merge patch starts with a live read.
#[cfg(feature = "replay")]
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMonitors;

#[cfg(feature = "replay")]
impl Latest for NoMonitors {
    fn latest(&self, _: KindId, _: &str, _: &str) -> Option<Arc<ObjectMeta>> {
        None
    }
}

impl Context<'_> {
    /// Looks up how objects of exactly this apiVersion and kind are addressed ([A-2](crate::rules#a-2)).
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

    /// Queues a node, which the effect retains.
    pub(crate) fn attempt_to_delete(&mut self, node: NodeId) {
        self.graph.retain(node);
        self.effects.push(Effect::AttemptToDelete(node));
    }

    /// Adds the virtual delete of an identity that a lookup did not find ([E-10](crate::rules#e-10)).
    pub(crate) fn virtual_delete(&mut self, identity: ObjectRef) {
        self.effects.push(Effect::VirtualDelete(Box::new(identity)));
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) kind: KindId,
    pub(crate) object: Arc<ObjectRef>,
    /// The namespace of the graph's node. It differs from the object's if a cluster-scoped kind was guessed
    /// to be namespaced.
    pub(crate) node_namespace: Arc<str>,
}

impl Target {
    /// The object itself, without a namespace if its kind has none.
    pub(crate) fn of(context: &Context<'_>, object: ObjectRef) -> Result<Self, AttemptError> {
        let mapping = context.mapping(&object.api_version, &object.kind)?;
        Ok(Self::mapped(mapping, object))
    }

    pub(crate) fn mapped((kind, namespaced): (KindId, bool), mut object: ObjectRef) -> Self {
        let node_namespace = Arc::clone(&object.namespace);
        if !namespaced {
            object.namespace = "".into();
        }
        Self {
            kind,
            object: Arc::new(object),
            node_namespace,
        }
    }

    pub(crate) fn owner(kind: KindId, reference: &OwnerReference, namespace: Arc<str>) -> Self {
        Self {
            kind,
            node_namespace: Arc::clone(&namespace),
            object: Arc::new(reference.clone().object_ref(namespace)),
        }
    }

    pub(crate) fn request(&self, operation: Operation, reason: Reason) -> Request {
        let expect = Preconditions::uid(self.object.uid.clone());
        Request {
            kind: self.kind,
            target: Arc::clone(&self.object),
            operation,
            expect,
            reason,
        }
    }
}
