//! Those who act beside the collector: kubelets that end pods, the namespace controller, the cleaner of custom resources, and holders of finalizers that are
//! assumed to be released.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{KindId, KubernetesVersion, Timestamp, deletion::DeleteOptionsSpec};
use kubegc_sim::{ApiServer, CrdCleaner, CrdStep, EventType, StoredObject};

use super::{kubelets::Kubelets, namespaces::NamespaceController, object_ref};
use crate::{
    Assumptions,
    timeline::{Act, Actor, Step, Why},
};

/// Who acts beside the collector, and when next.
#[derive(Clone, Debug)]
pub(super) struct Environment {
    assumptions: Assumptions,
    /// Which pods have a kubelet that ends them; all, where nothing is said.
    kubelets: Option<Kubelets>,
    /// Pods that are being deleted, by when their grace period ends.
    ending: BTreeSet<(Timestamp, KindId, Arc<str>, Arc<str>)>,
    /// Objects that are being deleted and carry a finalizer that is released.
    releasing: BTreeSet<(KindId, Arc<str>, Arc<str>)>,
    namespaces: NamespaceController,
    definitions: CrdCleaner,
    definitions_at: Option<Timestamp>,
    /// Definitions that are being deleted: how many.
    definitions_deleting: BTreeMap<Arc<str>, ()>,
}

impl Environment {
    pub(super) fn new(version: KubernetesVersion, assumptions: Assumptions) -> Self {
        Self {
            assumptions,
            kubelets: None,
            ending: BTreeSet::new(),
            releasing: BTreeSet::new(),
            namespaces: NamespaceController::new(version),
            definitions: CrdCleaner::default(),
            definitions_at: None,
            definitions_deleting: BTreeMap::new(),
        }
    }

    /// Only these kubelets end pods.
    pub(super) fn have_kubelets(&mut self, kubelets: Kubelets) {
        self.kubelets = Some(kubelets);
    }

    /// Looks at everything that is there at the beginning.
    pub(super) fn notice_all(&mut self, server: &ApiServer, now: Timestamp) {
        let kinds: Vec<KindId> = server
            .catalog()
            .iter()
            .filter(|(_, kind)| kind.preferred)
            .map(|(id, _)| id)
            .collect();
        for kind in kinds {
            if server.len(kind) == 0 {
                continue;
            }
            for object in server.objects(kind, None) {
                self.notice(server, kind, EventType::Added, &object, now);
            }
        }
    }

    /// Looks at one change.
    pub(super) fn notice(
        &mut self,
        server: &ApiServer,
        kind: KindId,
        event_type: EventType,
        object: &StoredObject,
        now: Timestamp,
    ) {
        let meta = &object.meta;
        let resource = &server.catalog()[kind];
        if let Some(kubelets) = &mut self.kubelets {
            kubelets.notice(server, kind, event_type, object);
        }
        if event_type == EventType::Deleted {
            if *resource.kind == *"CustomResourceDefinition" {
                self.definitions_deleting.remove(&meta.name);
            }
            self.namespaces.notice_change(&meta.namespace, now);
            return;
        }
        let Some(deletion) = meta.deletion_timestamp else {
            return;
        };
        let key = || (Arc::clone(&meta.namespace), Arc::clone(&meta.name));
        if self.assumptions.pods_end && *resource.kind == *"Pod" && resource.group.is_empty() {
            let (namespace, name) = key();
            self.ending.insert((deletion, kind, namespace, name));
        }
        if self
            .assumptions
            .finalizers_released
            .iter()
            .any(|name| meta.has_finalizer(name))
        {
            let (namespace, name) = key();
            self.releasing.insert((kind, namespace, name));
        }
        if *resource.kind == *"Namespace" && resource.group.is_empty() {
            self.namespaces.notice_deletion(&meta.name, deletion);
        }
        if *resource.kind == *"CustomResourceDefinition" {
            self.definitions_deleting.insert(Arc::clone(&meta.name), ());
            self.definitions_at = Some(now);
        }
    }

    /// Does the next thing that is due. Answers whether there was one.
    pub(super) fn act(
        &mut self,
        server: &mut ApiServer,
        now: Timestamp,
        steps: &mut Vec<Step>,
        began: Timestamp,
    ) -> bool {
        self.release(server, now, steps, began)
            || self.end_pod(server, now, steps, began)
            || self.namespaces.act(server, now, steps, began)
            || self.clean_definition(server, now, steps, began)
    }

    /// When something happens for sure.
    pub(super) fn next_certain(&self, _server: &ApiServer) -> Option<Timestamp> {
        let pods = self.ending.first().map(|(at, ..)| *at);
        pods.into_iter().chain(self.namespaces.next_visit(true)).min()
    }

    /// When something is tried again.
    pub(super) fn next_retry(&self) -> Option<Timestamp> {
        self.namespaces
            .next_visit(false)
            .into_iter()
            .chain(self.definitions_at)
            .min()
    }

    fn release(
        &mut self,
        server: &mut ApiServer,
        now: Timestamp,
        steps: &mut Vec<Step>,
        began: Timestamp,
    ) -> bool {
        let Some((kind, namespace, name)) = self.releasing.pop_first() else {
            return false;
        };
        let Some(object) = server.object(kind, &namespace, &name).map(Arc::clone) else {
            return true;
        };
        let released = &self.assumptions.finalizers_released;
        let (gone, kept): (Vec<_>, Vec<_>) = object
            .meta
            .finalizers
            .iter()
            .cloned()
            .partition(|name| released.contains(name));
        let Some(first) = gone.into_iter().next() else {
            return true;
        };
        let mut changed = StoredObject::clone(&object);
        changed.meta.finalizers = kept;
        let response = server.update(kind, &namespace, &name, changed);
        let target = object_ref(server, kind, &object.meta);
        steps.push(Step {
            at: now.since(began),
            actor: Actor::FinalizerHolder,
            act: Act::Update,
            object: target,
            code: response.code,
            changes: Vec::new(),
            why: Why::FinalizerReleased(first),
        });
        true
    }

    fn end_pod(
        &mut self,
        server: &mut ApiServer,
        now: Timestamp,
        steps: &mut Vec<Step>,
        began: Timestamp,
    ) -> bool {
        if self.ending.first().is_none_or(|(at, ..)| *at > now) {
            return false;
        }
        let Some((at, kind, namespace, name)) = self.ending.pop_first() else {
            return false;
        };
        let Some(pod) = server.object(kind, &namespace, &name).map(Arc::clone) else {
            return true;
        };
        // Another deadline, or another pod of that name: that one has an entry of its own.
        if pod.meta.deletion_timestamp != Some(at) {
            return true;
        }
        // Nothing is left of its grace: only finalizers hold it, and the kubelet is done with it.
        if pod.meta.deletion_grace_period_seconds.unwrap_or(0) == 0 {
            return true;
        }
        if self.kubelets.as_ref().is_some_and(|kubelets| !kubelets.end(&pod)) {
            return true;
        }
        let options = DeleteOptionsSpec {
            grace_period_seconds: Some(0),
            preconditions: Some(kubegc_core::Preconditions::uid(pod.meta.uid.clone())),
            ..DeleteOptionsSpec::default()
        };
        let response = server.delete(kind, &namespace, &name, &options);
        steps.push(Step {
            at: now.since(began),
            actor: Actor::Kubelet,
            act: Act::Delete { propagation: None },
            object: object_ref(server, kind, &pod.meta),
            code: response.code,
            changes: Vec::new(),
            why: Why::GraceOver,
        });
        true
    }

    fn clean_definition(
        &mut self,
        server: &mut ApiServer,
        now: Timestamp,
        steps: &mut Vec<Step>,
        began: Timestamp,
    ) -> bool {
        if self.definitions_deleting.is_empty() {
            self.definitions_at = None;
        }
        if self.definitions_at.is_none_or(|at| at > now) {
            return false;
        }
        let before = server.revision();
        match self.definitions.step(server) {
            CrdStep::Idle => self.definitions_at = None,
            CrdStep::Waiting { until } => self.definitions_at = Some(until),
            // Looking whether instances are left is no step worth telling.
            CrdStep::Worked { .. } if server.revision() == before => return true,
            CrdStep::Worked { name } => {
                let kinds = server.catalog().iter();
                let kind = kinds
                    .filter(|(_, resource)| *resource.kind == *"CustomResourceDefinition")
                    .map(|(id, _)| id)
                    .next();
                let found = kind.and_then(|kind| {
                    server
                        .object(kind, "", &name)
                        .map(|object| object_ref(server, kind, &object.meta))
                });
                steps.push(Step {
                    at: now.since(began),
                    actor: Actor::CustomResourceCleaner,
                    act: Act::DeleteCollection,
                    object: found.unwrap_or_else(|| {
                        kubegc_core::ObjectRef::new(
                            "apiextensions.k8s.io/v1",
                            "CustomResourceDefinition",
                            "",
                            &name,
                            "",
                        )
                    }),
                    code: 200,
                    changes: Vec::new(),
                    why: Why::DefinitionTerminating,
                });
                return true;
            }
        }
        false
    }
}
