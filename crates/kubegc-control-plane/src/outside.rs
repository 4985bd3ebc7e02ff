//! Actors other than the garbage collector and the controllers: kubelets, the API server's own controllers,
//! and owners of finalizers outside of kube-controller-manager.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_controllers::{Manager, podgc::OUT_OF_SERVICE_TAINT};
use kubegc_core::{
    Behavior, KindId, ObjectRef, Preconditions, Timestamp,
    deletion::DeleteOptionsSpec,
    record::{Record, Resource},
};
use kubegc_sim::{
    ApiServer, CrdCleaner, CrdRegistration, CrdStep, EventType, RegistrationStep, StoredObject,
};
use serde_json::Value;

use crate::{Act, Actor, Assumptions, Requests, Step, Why, object_ref, trace::code_of};

/// The kubelet reports a final phase of a pod before it deletes it.
const REPORTS_END: Behavior = Behavior::since(27, 0, "kubernetes #115331");

#[derive(Clone, Debug, Default)]
pub(crate) struct Outside {
    assumptions: Arc<Assumptions>,
    /// If pods end only on nodes whose kubelets run: whether a node that is missing from the server does not
    /// exist.
    has_all_nodes: Option<bool>,
    /// Kubelets do not end the pods whose grace period ended before.
    pods_end_from: Timestamp,
    /// Terminating pods, by the end of their grace period.
    ending: BTreeSet<(Timestamp, KindId, Arc<str>, Arc<str>)>,
    /// Terminating objects with a finalizer that its owner removes.
    releasing: BTreeSet<(KindId, Arc<str>, Arc<str>)>,
    definitions: CrdCleaner,
    /// The time of the next retry of a controller of the API server.
    pub(crate) definitions_at: Option<Timestamp>,
    registration: CrdRegistration,
    /// Whether a CustomResourceDefinition or an APIService has changed.
    registration_is_due: bool,
    terminating_definitions: BTreeSet<Arc<str>>,
    terminating_namespaces: BTreeSet<Arc<str>>,
    /// Namespaces in which an object was removed since their last sync, with the time of the last removal.
    pub(crate) shrunk: BTreeMap<Arc<str>, Timestamp>,
}

/// Whether the kubelet of a node runs: it reports, and the node is not out of service. `None` if that was not
/// read.
pub fn kubelet_runs(node: &Record) -> Option<bool> {
    let node = node.node()?;
    let mut conditions = node.conditions.known()?.iter();
    let ready = conditions.find(|condition| *condition.condition_type == *"Ready");
    match ready.map(|ready| &*ready.status) {
        Some("Unknown") => Some(false),
        Some("True") => Some(true),
        Some(_) | None => node.has_taint(OUT_OF_SERVICE_TAINT).map(|is_tainted| !is_tainted),
    }
}

/// A pod with the phase `Failed`; `None` if its phase is final or was not read. Its containers are assumed to
/// be killed at the end of the grace period.
fn failed(pod: &StoredObject) -> Option<StoredObject> {
    if !matches!(
        pod.at(&["status", "phase"])?.as_str()?,
        "Pending" | "Running" | "Unknown"
    ) {
        return None;
    }
    let mut failed = StoredObject::clone(pod);
    let status = failed.body_mut().get_mut("status")?.as_object_mut()?;
    status.insert("phase".to_owned(), "Failed".into());
    Some(failed)
}

impl Outside {
    pub(crate) fn new(
        server: &ApiServer,
        assumptions: Arc<Assumptions>,
        has_all_nodes: Option<bool>,
        pods_end_from: Timestamp,
    ) -> Self {
        Self {
            assumptions,
            has_all_nodes,
            pods_end_from,
            registration: CrdRegistration::resumed(server),
            ..Self::default()
        }
    }

    pub(crate) fn observe_all(&mut self, server: &ApiServer, now: Timestamp) {
        let kinds = server.catalog().iter().filter(|(_, kind)| kind.preferred);
        let kinds: Vec<KindId> = kinds.map(|(id, _)| id).collect();
        for kind in kinds.into_iter().filter(|kind| server.len(*kind) > 0) {
            for object in server.objects(kind, None) {
                self.observe(server, kind, EventType::Added, &object, now);
            }
        }
    }

    pub(crate) fn observe(
        &mut self,
        server: &ApiServer,
        kind: KindId,
        event_type: EventType,
        object: &StoredObject,
        now: Timestamp,
    ) {
        let meta = &object.meta;
        let resource = &server.catalog()[kind];
        let is = |group: &str, kind: &str| *resource.group == *group && *resource.kind == *kind;
        let is_definition = is("apiextensions.k8s.io", "CustomResourceDefinition");
        self.registration_is_due |= is_definition || is("apiregistration.k8s.io", "APIService");
        if event_type == EventType::Deleted {
            if is_definition {
                self.terminating_definitions.remove(&meta.name);
            }
            if is("", "Namespace") {
                self.terminating_namespaces.remove(&meta.name);
            }
            self.shrunk.insert(Arc::clone(&meta.namespace), now);
            return;
        }
        let Some(deletion) = meta.deletion_timestamp else {
            return;
        };
        let (namespace, name) = (Arc::clone(&meta.namespace), Arc::clone(&meta.name));
        if is_definition {
            self.terminating_definitions.insert(Arc::clone(&name));
            self.definitions_at = Some(now);
        }
        if is("", "Namespace") {
            self.terminating_namespaces.insert(Arc::clone(&name));
        }
        let mut finalizers = meta.finalizers.iter();
        if finalizers.any(|finalizer| self.assumptions.releases(finalizer)) {
            self.releasing
                .insert((kind, Arc::clone(&namespace), Arc::clone(&name)));
        }
        if self.assumptions.pods_end && is("", "Pod") && deletion >= self.pods_end_from {
            self.ending.insert((deletion, kind, namespace, name));
        }
    }

    /// Performs one action, and returns its write. `None` if there was nothing to do.
    pub(crate) fn act(
        &mut self,
        server: &mut ApiServer,
        now: Timestamp,
        records: (&Requests, &Manager),
    ) -> Option<Option<Step>> {
        self.release(server)
            .or_else(|| self.end_pod(server, now, records))
            .or_else(|| self.clean_definition(server, now))
            .or_else(|| self.register(server).map(Some))
    }

    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.ending.first().map(|(at, ..)| *at)
    }

    /// The terminating namespaces in which objects were removed since their last sync, with the time of the
    /// last removal.
    pub(crate) fn shrunk(&self) -> impl Iterator<Item = (&Arc<str>, Timestamp)> {
        let names = self.terminating_namespaces.iter();
        names.filter_map(|name| Some((name, *self.shrunk.get(name)?)))
    }

    fn release(&mut self, server: &mut ApiServer) -> Option<Option<Step>> {
        let (kind, namespace, name) = self.releasing.pop_first()?;
        let Some(object) = server.object(kind, &namespace, &name).map(Arc::clone) else {
            return Some(None);
        };
        let finalizers = object.meta.finalizers.iter().cloned();
        let (released, kept): (Vec<_>, Vec<_>) = finalizers.partition(|name| self.assumptions.releases(name));
        let Some(first) = released.into_iter().next() else {
            return Some(None);
        };
        let mut changed = StoredObject::clone(&object);
        changed.meta.finalizers = kept;
        let sent_as = server.convertible_kind(kind);
        let code = code_of(&server.update(sent_as, &namespace, &name, changed));
        let (target, why) = (
            object_ref(server, kind, &object.meta),
            Why::FinalizerReleased(first),
        );
        let step = Step::new(Actor::FinalizerOwner, Act::Update, target, code, why);
        Some(Some(step))
    }

    /// Whether the kubelet of a pod ends it. If that is unknown, it does.
    fn kubelet_ends(
        &self,
        server: &ApiServer,
        pod: &StoredObject,
        (requests, manager): (&Requests, &Manager),
    ) -> bool {
        let (Some(has_all_nodes), Some(spec)) = (self.has_all_nodes, pod.field("spec").as_object()) else {
            return true;
        };
        let (name, kind) = match (spec.get("nodeName"), server.catalog().mapping("v1", "Node")) {
            (None, _) => return false,
            (Some(Value::String(name)), Some(kind)) => (name, kind),
            _ => return true,
        };
        let Some(node) = server.object(kind, "", name) else {
            return !has_all_nodes;
        };
        let node = requests.record(server, Resource::Nodes, kind, node, Some(manager));
        kubelet_runs(&node).unwrap_or(true)
    }

    fn end_pod(
        &mut self,
        server: &mut ApiServer,
        now: Timestamp,
        records: (&Requests, &Manager),
    ) -> Option<Option<Step>> {
        self.ending.first().filter(|(at, ..)| *at <= now)?;
        let (at, kind, namespace, name) = self.ending.pop_first()?;
        let Some(pod) = server.object(kind, &namespace, &name).map(Arc::clone) else {
            return Some(None);
        };
        // Another deadline, or another pod of that name, has another entry. If the grace period is 0, only
        // finalizers keep the pod, and the kubelet has nothing to do.
        let is_due = pod.meta.deletion_timestamp == Some(at);
        let is_in_grace = pod.meta.deletion_grace_period_seconds.unwrap_or(0) > 0;
        if !is_due || !is_in_grace || !self.kubelet_ends(server, &pod, records) {
            return Some(None);
        }
        let object = object_ref(server, kind, &pod.meta);
        let why = Why::GracePeriodExpired;
        let step = |act, code| Some(Some(Step::new(Actor::Kubelet, act, object, code, why)));
        // Only a pod with finalizers exists long enough to be observed with this phase.
        if server.version().has(REPORTS_END)
            && !pod.meta.finalizers.is_empty()
            && let Some(failed) = failed(&pod)
        {
            let response = server.update_part(kind, &namespace, &name, "status", failed);
            if response.is_success() {
                self.ending.insert((at, kind, namespace, name));
            }
            return step(Act::Update, code_of(&response));
        }
        let options = DeleteOptionsSpec {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions::uid(pod.meta.uid.clone())),
            ..DeleteOptionsSpec::default()
        };
        let response = server.delete(kind, &namespace, &name, &options);
        step(Act::Delete { propagation: None }, code_of(&response))
    }

    fn clean_definition(&mut self, server: &mut ApiServer, now: Timestamp) -> Option<Option<Step>> {
        if self.terminating_definitions.is_empty() {
            self.definitions_at = None;
        }
        if self.definitions_at? > now {
            return None;
        }
        let before = server.revision();
        let name = match self.definitions.step(server) {
            CrdStep::Idle => {
                self.definitions_at = None;
                return None;
            }
            CrdStep::Waiting { until } => {
                self.definitions_at = Some(until);
                return None;
            }
            CrdStep::Worked { name } => name,
        };
        if server.revision() == before {
            return Some(None);
        }
        let kind = "CustomResourceDefinition";
        let mut definitions = server
            .catalog()
            .iter()
            .filter(|(_, resource)| *resource.kind == *kind);
        let found = definitions.find_map(|(id, _)| {
            let object = server.object(id, "", &name)?;
            Some(object_ref(server, id, &object.meta))
        });
        let object = found.unwrap_or_else(|| ObjectRef::new("apiextensions.k8s.io/v1", kind, "", &name, ""));
        let why = Why::DefinitionTerminating;
        let step = Step::new(Actor::ApiServer, Act::DeleteCollection, object, (200, None), why);
        Some(Some(step))
    }

    /// Creates or deletes one APIService for the existing CustomResourceDefinitions, as the API server does.
    fn register(&mut self, server: &mut ApiServer) -> Option<Step> {
        if !self.registration_is_due {
            return None;
        }
        let (act, name, code) = match self.registration.step(server) {
            RegistrationStep::Idle => {
                self.registration_is_due = false;
                return None;
            }
            RegistrationStep::Deleted { name } => (Act::Delete { propagation: None }, name, 200),
            RegistrationStep::Created { name } => (Act::Create, name, 201),
            RegistrationStep::Updated { name } => (Act::Update, name, 200),
        };
        let object = ObjectRef::new("apiregistration.k8s.io/v1", "APIService", "", &name, "");
        let why = Why::DefinitionsChanged;
        Some(Step::new(Actor::ApiServer, act, object, (code, None), why))
    }
}
