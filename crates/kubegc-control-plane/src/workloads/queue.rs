//! The work queue of the workload controllers, and the execution of their plans.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_controllers::Reason;
use kubegc_core::{KindId, ObjectMeta, ObjectRef, SharedMeta, Timestamp, deletion::DeleteOptionsSpec};
use kubegc_sim::{ApiServer, EventType, Response, StoredObject};
use serde_json::json;

use super::{
    Workloads, claims, daemonset, deployment, disruption, job, nodes,
    plan::{Kind, Plan, Verb, View, Write, find, selects_template},
    pods, replicaset, statefulset,
};
use crate::{
    Act, Actor, ControlPlane, Why,
    calls::identity,
    trace::{Recorded, code_of},
};

/// The first and the maximum delay of a retry.
///
/// # Upstream
/// [`DefaultTypedControllerRateLimiter`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/client-go/util/workqueue/default_rate_limiters.go).
const RETRY: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1_000)];

pub(super) type Key = (Kind, Arc<str>, Arc<str>);

/// The keys that the workload controllers, the scheduler and the kubelets have to sync.
#[derive(Clone, Debug)]
pub(crate) struct WorkloadQueue {
    rules: Arc<Workloads>,
    /// Keys that are due now, each with the step that changed the object.
    queue: BTreeMap<Key, Option<usize>>,
    /// Keys that are due later.
    later: BTreeMap<Key, Timestamp>,
    /// Keys whose last plan failed, with the time of the retry and the number of consecutive failures.
    failed: BTreeMap<Key, (Timestamp, u32)>,
}

impl WorkloadQueue {
    pub(crate) fn new(rules: Arc<Workloads>, server: &ApiServer) -> Self {
        let mut workloads = Self {
            rules,
            queue: BTreeMap::new(),
            later: BTreeMap::new(),
            failed: BTreeMap::new(),
        };
        workloads.enqueue_all(server);
        workloads
    }

    pub(crate) fn set_rules(&mut self, rules: Arc<Workloads>, server: &ApiServer) {
        self.rules = rules;
        self.enqueue_all(server);
    }

    fn enqueue_all(&mut self, server: &ApiServer) {
        let kinds = server.catalog().iter();
        let kinds = kinds.filter_map(|(_, resource)| Kind::of(resource));
        for kind in kinds.collect::<std::collections::BTreeSet<_>>() {
            self.enqueue_where(server, kind, None, None, |_| true);
        }
    }

    fn enqueue(&mut self, kind: Kind, meta: &ObjectMeta, cause: Option<usize>) {
        let key = (kind, Arc::clone(&meta.namespace), Arc::clone(&meta.name));
        self.queue.insert(key, cause);
    }

    fn enqueue_where(
        &mut self,
        server: &ApiServer,
        kind: Kind,
        namespace: Option<&str>,
        cause: Option<usize>,
        is_affected: impl Fn(&StoredObject) -> bool,
    ) {
        let Some(id) = kind.id(server) else { return };
        for object in server
            .objects(id, namespace)
            .iter()
            .filter(|object| is_affected(object))
        {
            self.enqueue(kind, &object.meta, cause);
        }
    }

    /// Enqueues the keys that a change affects. Without a previous version, every field counts as changed.
    pub(crate) fn observe(
        &mut self,
        server: &ApiServer,
        kind: KindId,
        (event_type, object, previous): (EventType, &StoredObject, Option<&StoredObject>),
        cause: Option<usize>,
    ) {
        let Some(kind) = Kind::of(&server.catalog()[kind]) else {
            return;
        };
        let meta = &object.meta;
        let namespace = Some(&*meta.namespace);
        self.enqueue(kind, meta, cause);
        let controllers = previous.and_then(|previous| previous.meta.controller());
        for owner in controllers.into_iter().chain(meta.controller()) {
            let Some(owner_kind) = Kind::named(&owner.kind) else {
                continue;
            };
            let owner = ObjectMeta::new(&meta.namespace, &owner.name, "");
            self.enqueue(owner_kind, &owner, cause);
            // A Deployment that recreates its pods waits for their removal.
            let above = find(server, owner_kind, &owner.namespace, &owner.name);
            if let Some(above) = above.filter(|_| kind == Kind::Pod && event_type == EventType::Deleted)
                && let Some(controller) = above.meta.controller()
                && let Some(controller_kind) = Kind::named(&controller.kind)
            {
                self.enqueue(
                    controller_kind,
                    &ObjectMeta::new(&meta.namespace, &controller.name, ""),
                    cause,
                );
            }
        }
        if kind == Kind::Pod {
            let is_beta = Kind::Budget.is_beta(server);
            let versions = [Some(object), previous];
            self.enqueue_where(server, Kind::Budget, namespace, cause, |budget| {
                let mut pods = versions.iter().flatten();
                pods.any(|pod| disruption::selects(budget, &pod.meta, is_beta))
            });
        }
        let is_unscheduled = |pod: &StoredObject| pod.text_at(&["spec", "nodeName"]).is_empty();
        match kind {
            Kind::Node => {
                self.enqueue_where(server, Kind::DaemonSet, None, cause, |_| true);
                let is_here = |pod: &StoredObject| pod.text_at(&["spec", "nodeName"]) == &*meta.name;
                self.enqueue_where(server, Kind::Pod, None, cause, |pod| {
                    is_unscheduled(pod) || is_here(pod)
                });
            }
            Kind::Claim => {
                self.enqueue_where(server, Kind::Pod, namespace, cause, is_unscheduled);
                if event_type == EventType::Deleted {
                    self.enqueue_where(server, Kind::StatefulSet, namespace, cause, |_| true);
                }
            }
            Kind::Volume => {
                let text = |field: &str| object.text_at(&["spec", "claimRef", field]);
                if !text("name").is_empty() {
                    self.enqueue(
                        Kind::Claim,
                        &ObjectMeta::new(text("namespace"), text("name"), ""),
                        cause,
                    );
                }
            }
            Kind::Pod | Kind::Revision if meta.controller().is_none() => {
                for kind in [Kind::StatefulSet, Kind::DaemonSet] {
                    self.enqueue_where(server, kind, namespace, cause, |_| true);
                }
            }
            _ => {}
        }
    }

    /// The next key that is due.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<(Key, Option<usize>)> {
        if self.queue.is_empty() {
            let queue = &mut self.queue;
            self.later.retain(|key, at| {
                let is_due = *at <= now;
                if is_due {
                    queue.insert(key.clone(), None);
                }
                !is_due
            });
            let failed = self.failed.iter().filter(|(_, (at, _))| *at <= now);
            self.queue.extend(failed.map(|(key, _)| (key.clone(), None)));
        }
        self.queue.pop_first()
    }

    /// The time when the next key is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.later.values().min().copied()
    }

    /// The time of the next retry of a failed plan.
    pub(crate) fn next_retry(&self) -> Option<Timestamp> {
        self.failed.values().map(|(at, _)| *at).min()
    }

    /// The plan of a key; `None` if there is no such object, or no controller syncs it.
    fn plan(&self, server: &ApiServer, (kind, namespace, name): &Key) -> Option<Plan> {
        let object = find(server, *kind, namespace, name)?;
        let selects = [
            Kind::ReplicaSet,
            Kind::StatefulSet,
            Kind::DaemonSet,
            Kind::Deployment,
        ];
        if selects.contains(kind) && !selects_template(&object) {
            return None;
        }
        let view = View {
            server,
            rules: &self.rules,
            now: server.now(),
        };
        sync(*kind).map(|sync| sync(&view, &object))
    }
}

/// The sync of a kind; `None` if no controller syncs it.
pub(super) fn sync(kind: Kind) -> Option<fn(&View<'_>, &StoredObject) -> Plan> {
    Some(match kind {
        Kind::Node => nodes::sync,
        Kind::Claim => claims::sync,
        Kind::Pod => pods::sync,
        Kind::ReplicaSet => replicaset::sync,
        Kind::StatefulSet => statefulset::sync,
        Kind::DaemonSet => daemonset::sync,
        Kind::Job => job::sync,
        Kind::Deployment => deployment::sync,
        Kind::Budget => disruption::sync,
        Kind::Volume | Kind::Revision | Kind::CronJob => return None,
    })
}

/// Creates a Job from the template of a CronJob, as `kubectl create job NAME --from=cronjob/...` does.
/// Returns the response; `None` if there is no such CronJob.
pub fn create_job_from(
    server: &mut ApiServer,
    namespace: &str,
    cron_job: &str,
    name: &str,
) -> Option<Response> {
    let id = Kind::CronJob.id(server)?;
    let cron_job = find(server, Kind::CronJob, namespace, cron_job)?;
    let object = job::of_cron_job(&cron_job, &server.catalog()[id].api_version(), name);
    Some(server.create_json(Kind::Job.id(server)?, namespace, object))
}

impl ControlPlane {
    /// Syncs keys until one of them writes. Returns whether one did.
    pub(crate) fn sync_workloads(&mut self, server: &mut ApiServer) -> bool {
        while let Some(workloads) = &mut self.workloads
            && let Some((key, cause)) = workloads.next(server.now())
        {
            let plan = workloads.plan(server, &key);
            let namespace = Arc::clone(&key.1);
            match plan.as_ref().and_then(|plan| plan.due) {
                Some(at) => workloads.later.insert(key.clone(), at),
                None => workloads.later.remove(&key),
            };
            let writes = plan.map(|plan| plan.writes).unwrap_or_default();
            if writes.is_empty() {
                workloads.failed.remove(&key);
                continue;
            }
            let before = server.revision();
            let writes = writes.into_iter();
            let failed = writes
                .map(|write| self.write(server, &namespace, write, cause))
                .any(|code| code >= 400);
            if let Some(workloads) = &mut self.workloads {
                if failed {
                    let failures = workloads.failed.get(&key).map_or(0, |(_, failures)| *failures);
                    let delay = RETRY[0]
                        .saturating_mul(2_u32.saturating_pow(failures))
                        .min(RETRY[1]);
                    let retry = (server.now().saturating_add(delay), failures.saturating_add(1));
                    workloads.failed.insert(key, retry);
                } else {
                    workloads.failed.remove(&key);
                }
            }
            if failed || server.revision() != before {
                return true;
            }
        }
        false
    }

    /// Replaces the rules of the workloads. All keys are synced again.
    pub fn set_workloads(&mut self, server: &ApiServer, rules: Workloads) {
        match &mut self.workloads {
            Some(workloads) => workloads.set_rules(Arc::new(rules), server),
            None => self.workloads = Some(WorkloadQueue::new(Arc::new(rules), server)),
        }
    }

    /// Stops or resumes the reports of a node's kubelet: the node immediately becomes `Unknown` or ready.
    /// Returns the code of the response; `None` if there is no such node.
    pub fn set_node_runs(&mut self, server: &mut ApiServer, name: &str, runs: bool) -> Option<u16> {
        let node = find(server, Kind::Node, "", name)?;
        let plan = nodes::set_runs(&self.view(server)?, &node, runs);
        self.perform_plan(server, plan)
    }

    /// Makes the running containers of a pod exit once with code 1; the kubelet restarts them immediately.
    /// Returns the code of the response; `None` if there is no such pod or it does not run.
    pub fn restart_pod(&mut self, server: &mut ApiServer, namespace: &str, name: &str) -> Option<u16> {
        let pod = find(server, Kind::Pod, namespace, name)?;
        let plan = pods::restart(&self.view(server)?, &pod);
        self.perform_plan(server, plan)
    }

    fn perform_plan(&mut self, server: &mut ApiServer, plan: Plan) -> Option<u16> {
        let namespace = plan.namespace;
        let writes = plan.writes.into_iter();
        writes
            .map(|write| self.write(server, &namespace, write, None))
            .last()
    }

    fn view<'v>(&'v self, server: &'v ApiServer) -> Option<View<'v>> {
        let workloads = self.workloads.as_ref()?;
        Some(View {
            server,
            rules: &workloads.rules,
            now: server.now(),
        })
    }

    /// Performs a write and records it, unless it changes nothing. Returns the status code.
    fn write(
        &mut self,
        server: &mut ApiServer,
        namespace: &Arc<str>,
        write: Write,
        cause: Option<usize>,
    ) -> u16 {
        let Some(kind) = write.kind.id(server) else {
            return 404;
        };
        let meta = match &write.verb {
            Verb::Create(object) => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                SharedMeta::from(ObjectMeta::new(namespace, name, ""))
            }
            Verb::Update(object) | Verb::Patch(object) | Verb::Status(object) => object.meta.clone(),
            Verb::Bind(meta, _) | Verb::Delete(meta) => meta.clone(),
        };
        let (namespace, name) = (&meta.namespace, &meta.name);
        let before = server.revision();
        let manager = server.field_manager().to_owned();
        server.set_field_manager(match write.actor {
            Actor::Kubelet => "kubelet",
            Actor::Controller(name @ ("default-scheduler" | "external-provisioner")) => name,
            _ => "kube-controller-manager",
        });
        let act = match &write.verb {
            Verb::Create(_) => Act::Create,
            Verb::Patch(_) => Act::Patch { merge: false },
            Verb::Update(_) | Verb::Status(_) | Verb::Bind(..) => Act::Update,
            Verb::Delete(_) => Act::Delete { propagation: None },
        };
        let response: Response = match write.verb {
            Verb::Create(object) => server.create_json(kind, namespace, object),
            Verb::Update(object) | Verb::Patch(object) => server.update(kind, namespace, name, object),
            Verb::Status(object) => server.update_part(kind, namespace, name, "status", object),
            Verb::Bind(_, node) => {
                let binding = json!({"target": {"apiVersion": "v1", "kind": "Node", "name": &*node}});
                server.create_subresource(kind, namespace, name, "binding", binding)
            }
            Verb::Delete(_) => server.delete(kind, namespace, name, &DeleteOptionsSpec::default()),
        };
        server.set_field_manager(&manager);
        let code = response.code;
        if server.revision() == before && code < 400 {
            return code;
        }
        let object: ObjectRef = match response.object().filter(|_| code == 201 && act == Act::Create) {
            Some(created) => crate::object_ref(server, kind, &created.meta),
            None => identity(server, kind, namespace, name, &meta.uid),
        };
        let recorded = Recorded {
            actor: write.actor,
            act,
            object: Arc::new(object),
            code: code_of(&response),
            why: Why::Controller(Box::new(Reason::new(write.reason, write.message))),
        };
        self.record_step(server, recorded, cause);
        self.observe(server);
        code
    }
}
