//! The step of the player: rounds over all objects, and the execution of plans.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use kubegc_controllers::Reason;
use kubegc_core::{KindId, ObjectMeta, SharedMeta, Timestamp, deletion::DeleteOptionsSpec};
use kubegc_sim::ApiServer;
use serde_json::json;

use super::{
    Workloads,
    model::{KINDS, Plan, View, Write, condition, find, kind_id},
    owners, pods,
};
use crate::{
    Act, Actor, ControlPlane, Why,
    calls::identity,
    trace::{Recorded, code_of},
};

/// The delay after which a refused write is tried again, unless something changes before.
const RETRY: Duration = Duration::from_secs(10);

/// The player of workloads. In a round it syncs every object once; rounds follow each other until one writes
/// nothing.
#[derive(Clone, Debug)]
pub(crate) struct Player {
    rules: Arc<Workloads>,
    /// Whether an object of a simulated kind has changed since the round began.
    has_changed: bool,
    /// Kind, namespace and name of the objects that the round has still to sync.
    round: VecDeque<(&'static str, Arc<str>, Arc<str>)>,
    /// The time when an object of the round is due again.
    pub(crate) due: Option<Timestamp>,
    /// The time of the next attempt, if a write of the round was refused.
    pub(crate) retry_at: Option<Timestamp>,
    /// The last step that changed a simulated object.
    cause: Option<usize>,
}

impl Player {
    pub(crate) const fn new(rules: Arc<Workloads>) -> Self {
        Self {
            rules,
            has_changed: true,
            round: VecDeque::new(),
            due: None,
            retry_at: None,
            cause: None,
        }
    }

    /// Observes a change of an object of a kind, by a step.
    pub(crate) fn observe(&mut self, server: &ApiServer, kind: KindId, cause: Option<usize>) {
        let kind = &server.catalog()[kind].kind;
        if KINDS.iter().any(|row| *row.0 == **kind) {
            (self.has_changed, self.cause) = (true, cause);
        }
    }

    /// Begins a round if something has changed or is due.
    fn begin_round(&mut self, server: &ApiServer) {
        let mut due = self.due.into_iter().chain(self.retry_at);
        if self.round.is_empty() && (self.has_changed || due.any(|due| due <= server.now())) {
            (self.has_changed, self.due, self.retry_at) = (false, None, None);
            for (kind, ..) in KINDS {
                let objects = kind_id(server, kind).map(|id| server.objects(id, None));
                for object in objects.into_iter().flatten() {
                    let (namespace, name) = (&object.meta.namespace, &object.meta.name);
                    self.round
                        .push_back((kind, Arc::clone(namespace), Arc::clone(name)));
                }
            }
        }
    }

    /// Compares an object with what it should be.
    fn sync(&self, server: &ApiServer, kind: &'static str, namespace: &str, name: &str) -> Plan {
        let view = self.view(server);
        let mut plan = Plan::of(kind);
        let Some(object) = find(server, kind, namespace, name) else {
            return plan;
        };
        match kind {
            // A node that never reported becomes ready.
            "Node" if condition(&object, "Ready").is_empty() => return pods::set_runs(&view, &object, true),
            "Node" => {}
            "Pod" => pods::sync_pod(&view, &object, &mut plan),
            "PersistentVolumeClaim" => pods::sync_claim(&view, &object, &mut plan),
            "PodDisruptionBudget" => pods::sync_budget(&view, &object, &mut plan),
            _ => owners::sync(&view, kind, &object, &mut plan),
        }
        plan
    }

    fn view<'v>(&'v self, server: &'v ApiServer) -> View<'v> {
        View {
            server,
            rules: &self.rules,
            now: server.now(),
        }
    }
}

impl ControlPlane {
    /// Syncs objects until one of the syncs writes. Returns whether one did.
    pub(crate) fn play(&mut self, server: &mut ApiServer) -> bool {
        while let Some(player) = &mut self.player {
            player.begin_round(server);
            let Some((kind, namespace, name)) = player.round.pop_front() else {
                break;
            };
            let plan = player.sync(server, kind, &namespace, &name);
            player.due = player.due.into_iter().chain(plan.due).min();
            let (cause, before) = (player.cause, server.revision());
            let code = self.perform_plan(server, plan, cause);
            let is_refused = code.is_some_and(|code| code >= 400);
            if let Some(player) = self.player.as_mut().filter(|_| is_refused) {
                player.retry_at = Some(server.now().saturating_add(RETRY));
            }
            if is_refused || server.revision() != before {
                return true;
            }
        }
        false
    }

    /// Replaces the rules of the workloads. All objects are synced again.
    pub fn set_workloads(&mut self, rules: Workloads) {
        if self.player.is_some() {
            self.player = Some(Player::new(Arc::new(rules)));
        }
    }

    /// Stops or resumes the kubelet of a node. Returns the code of the response; `None` if there is no such
    /// node, or nothing changes.
    pub fn set_node_runs(&mut self, server: &mut ApiServer, name: &str, runs: bool) -> Option<u16> {
        let node = find(server, "Node", "", name)?;
        let plan = pods::set_runs(&self.player.as_ref()?.view(server), &node, runs);
        self.perform_plan(server, plan, None)
    }

    /// Performs and records writes until one is refused. Returns the last status code.
    fn perform_plan(&mut self, server: &mut ApiServer, plan: Plan, cause: Option<usize>) -> Option<u16> {
        let mut last = None;
        for (kind, write) in plan.writes {
            let kind = kind_id(server, kind)?;
            let before = server.revision();
            let manager = server.field_manager().to_owned();
            server.set_field_manager(match plan.actor {
                Actor::Kubelet => "kubelet",
                Actor::Controller("default-scheduler") => "default-scheduler",
                _ => "kube-controller-manager",
            });
            let (act, meta, response) = match write {
                Write::Create(namespace, object) => {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    let meta = SharedMeta::from(ObjectMeta::new(&namespace, name, ""));
                    (Act::Create, meta, server.create_json(kind, &namespace, object))
                }
                Write::Update(part, object) => {
                    let meta = object.meta.clone();
                    let response = server.update_part(kind, &meta.namespace, &meta.name, part, object);
                    (Act::Update, meta, response)
                }
                Write::Bind(meta, node) => {
                    let body = json!({"target": {"apiVersion": "v1", "kind": "Node", "name": &*node}});
                    let (namespace, name) = (&meta.namespace, &meta.name);
                    let response = server.create_subresource(kind, namespace, name, "binding", body);
                    (Act::Update, meta, response)
                }
                Write::Delete(meta) => {
                    let options = DeleteOptionsSpec::default();
                    let response = server.delete(kind, &meta.namespace, &meta.name, &options);
                    (Act::Delete { propagation: None }, meta, response)
                }
            };
            server.set_field_manager(&manager);
            last = Some(response.code);
            let is_refused = response.code >= 400;
            if server.revision() == before && !is_refused {
                continue;
            }
            let object = match response.object().filter(|_| act == Act::Create) {
                Some(created) => crate::object_ref(server, kind, &created.meta),
                None => identity(server, kind, &meta.namespace, &meta.name, &meta.uid),
            };
            let reason = match act {
                Act::Create => Reason::new("SuccessfulCreate", "it is missing"),
                Act::Delete { .. } => Reason::new("SuccessfulDelete", "its owner does not want it"),
                _ => Reason::new("Changed", "it differs from what its controller wants"),
            };
            let recorded = Recorded {
                actor: plan.actor,
                act,
                object: Arc::new(object),
                code: code_of(&response),
                why: Why::Controller(Box::new(reason)),
            };
            self.record_step(server, recorded, cause);
            self.observe(server);
            if is_refused {
                break;
            }
        }
        last
    }
}
