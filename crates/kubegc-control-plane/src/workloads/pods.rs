//! The kubelet: starts, restarts and ends pods, and reports their readiness.

use std::time::Duration;

use kubegc_core::{Behavior, Timestamp};
use kubegc_sim::StoredObject;
use serde_json::{Value, json};

use super::{
    PodFate, nodes,
    plan::{Kind, Plan, Verb, View, condition, items, set_condition, time_of, with},
    scheduler,
};

/// The condition `PodReadyToStartContainers` is reported.
const SANDBOX_CONDITION: Behavior =
    Behavior::since(29, 0, "feature gate PodReadyToStartContainersCondition is beta");
/// The first and the maximum delay between restarts.
const BACKOFF: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(300)];

pub(super) fn phase(pod: &StoredObject) -> &str {
    pod.text_at(&["status", "phase"])
}

pub(super) fn has_ended(pod: &StoredObject) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(super) fn is_active(pod: &StoredObject) -> bool {
    !has_ended(pod) && !pod.meta.is_deleting()
}

/// The time since which a pod is ready.
pub(super) fn ready_since(pod: &StoredObject) -> Option<Timestamp> {
    let ready = condition(items(pod, &["status", "conditions"]), "Ready")?;
    let since = time_of(&ready["lastTransitionTime"]).unwrap_or(Timestamp::EPOCH);
    (ready["status"] == "True").then_some(since)
}

/// The time when a pod that stays ready is available; `None` if it is not ready.
pub(super) fn available_at(pod: &StoredObject, ready_min: Duration) -> Option<Timestamp> {
    ready_since(pod).map(|since| since.saturating_add(ready_min))
}

/// Counts pods, and computes when the next of them becomes available.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) all: usize,
    pub(super) ready: usize,
    pub(super) available: usize,
    pub(super) due: Option<Timestamp>,
}

impl Tally {
    pub(super) fn of<'p>(
        pods: impl IntoIterator<Item = &'p StoredObject>,
        ready_min: Duration,
        now: Timestamp,
    ) -> Self {
        let mut tally = Self::default();
        for pod in pods {
            tally.all += 1;
            let Some(at) = available_at(pod, ready_min) else {
                continue;
            };
            tally.ready += 1;
            if at <= now {
                tally.available += 1;
            } else {
                tally.due = tally.due.into_iter().chain([at]).min();
            }
        }
        tally
    }
}

/// The state that all containers of a pod share, from its status.
struct Containers {
    state: State,
    restarts: i64,
    /// Code and time of the last exit.
    exit: Option<(i64, Timestamp)>,
}

#[derive(Clone, Copy)]
enum State {
    Waiting,
    Running(Timestamp),
    /// It is restarted at this time.
    BackOff(Timestamp),
    Ended,
}

impl Containers {
    fn read(pod: &StoredObject) -> Self {
        let Some(container) = items(pod, &["status", "containerStatuses"]).first() else {
            return Self {
                state: State::Waiting,
                restarts: 0,
                exit: None,
            };
        };
        let restarts = container["restartCount"].as_i64().unwrap_or(0);
        let last = &container["lastState"]["terminated"];
        let exit = time_of(&last["finishedAt"]).map(|at| (last["exitCode"].as_i64().unwrap_or(0), at));
        let state = &container["state"];
        let state = match (time_of(&state["running"]["startedAt"]), exit) {
            (Some(at), _) => State::Running(at),
            (None, Some((_, at))) => State::BackOff(at.saturating_add(backoff(restarts))),
            (None, None) => State::Waiting,
        };
        Self {
            state,
            restarts,
            exit,
        }
    }

    /// Advances to a time. Returns whether the containers are ready, and the time of the next event.
    fn advance(&mut self, fate: PodFate, policy: &str, now: Timestamp) -> (bool, Option<Timestamp>) {
        // At most: start, exit, the first restart, exit.
        loop {
            match self.state {
                State::Waiting if matches!(fate, PodFate::Pending | PodFate::Unschedulable) => {
                    return (false, None);
                }
                State::Waiting => self.state = State::Running(now),
                State::BackOff(at) if at > now => return (false, Some(at)),
                State::BackOff(_) => {
                    self.restarts = self.restarts.saturating_add(1);
                    self.state = State::Running(now);
                }
                State::Ended => return (false, None),
                State::Running(since) => {
                    let (code, after) = match fate {
                        PodFate::Pending | PodFate::Unschedulable | PodFate::NotReady => {
                            return (false, None);
                        }
                        PodFate::Ready { after } => {
                            let at = since.truncate_to_secs().saturating_add(after);
                            return (at <= now, (at > now).then_some(at));
                        }
                        PodFate::Succeeds { after } => (0, after),
                        PodFate::Fails { after } => (1, after),
                    };
                    let at = since.truncate_to_secs().saturating_add(after);
                    if at > now {
                        return (true, Some(at));
                    }
                    self.exit = Some((code, now));
                    let restarts = match policy {
                        "Never" => false,
                        "OnFailure" => code != 0,
                        _ => true,
                    };
                    self.state = match restarts {
                        true => State::BackOff(now.saturating_add(backoff(self.restarts))),
                        false => State::Ended,
                    };
                }
            }
        }
    }
}

/// The delay before the kubelet restarts a container, by its number of restarts.
fn backoff(restarts: i64) -> Duration {
    match u32::try_from(restarts) {
        Ok(0) => Duration::ZERO,
        Ok(restarts @ 1..6) => BACKOFF[0].saturating_mul(1 << (restarts - 1)),
        _ => BACKOFF[1],
    }
    .min(BACKOFF[1])
}

/// One sync of a pod: by the scheduler if it has no node, else by the kubelet of its node.
pub(super) fn sync(view: &View<'_>, pod: &StoredObject) -> Plan {
    let mut plan = Plan::of(Kind::Pod, pod);
    let node = pod.text_at(&["spec", "nodeName"]);
    if node.is_empty() {
        scheduler::schedule(view, pod, &mut plan);
        return plan;
    }
    let Some(node) = view.find(Kind::Node, "", node) else {
        return plan;
    };
    if has_ended(pod) || !nodes::kubelet_runs(&node) {
        return plan;
    }
    let mut containers_state = Containers::read(pod);
    let mut is_ready = false;
    if pod.meta.is_deleting() {
        // After the grace period, only finalizers keep a pod.
        if pod.meta.deletion_grace_period_seconds.unwrap_or(0) > 0 {
            return plan;
        }
        containers_state.state = State::Ended;
        containers_state.exit = Some((137, view.now));
    } else {
        let fate = view.rules.pod(&view.subject(pod));
        let due;
        (is_ready, due) = containers_state.advance(fate, pod.text_at(&["spec", "restartPolicy"]), view.now);
        plan.due_at(due);
    }
    report(view, (pod, &node), &containers_state, is_ready, &mut plan);
    plan
}

/// One sync of a pod whose running containers exit with code 1 and are restarted immediately. It is empty if
/// none run.
pub(super) fn restart(view: &View<'_>, pod: &StoredObject) -> Plan {
    let mut plan = Plan::of(Kind::Pod, pod);
    let mut containers_state = Containers::read(pod);
    let node = view.find(Kind::Node, "", pod.text_at(&["spec", "nodeName"]));
    let node = node.filter(|_| is_active(pod) && matches!(containers_state.state, State::Running(_)));
    if let Some(node) = node {
        containers_state.exit = Some((1, view.now));
        containers_state.restarts = containers_state.restarts.saturating_add(1);
        containers_state.state = State::Running(view.now);
        report(view, (pod, &node), &containers_state, false, &mut plan);
    }
    plan
}

/// Writes the status of a pod.
fn report(
    view: &View<'_>,
    (pod, node): (&StoredObject, &StoredObject),
    containers_state: &Containers,
    is_ready: bool,
    plan: &mut Plan,
) {
    let (phase, reason, message) = match (containers_state.state, containers_state.exit) {
        (State::Waiting, _) => ("Pending", "Pending", "its containers are being created"),
        (State::Ended, Some((0, _))) => ("Succeeded", "Completed", "its containers have succeeded"),
        (State::Ended, _) => ("Failed", "Failed", "its containers have failed"),
        (State::BackOff(_), _) => ("Running", "BackOff", "its containers wait for their restart"),
        (State::Running(_), _) if is_ready => ("Running", "Started", "its containers run and are ready"),
        (State::Running(_), _) => ("Running", "Started", "its containers run"),
    };
    let mut status = pod
        .at(&["status"])
        .cloned()
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({}));
    status["phase"] = phase.into();
    status["conditions"] = conditions(view, pod, containers_state, phase, is_ready).into();
    status["hostIP"] = nodes::address(node).into();
    let mut fill = |field: &str, value: Value| {
        if status[field].is_null() {
            status[field] = value;
        }
    };
    fill("startTime", view.time());
    if !matches!(containers_state.state, State::Waiting) {
        let address = pod_address(pod);
        fill("podIPs", json!([{"ip": &*address}]));
        fill("podIP", address.into());
    }
    for (statuses, containers, is_init) in [
        ("initContainerStatuses", "initContainers", true),
        ("containerStatuses", "containers", false),
    ] {
        let containers = items(pod, &["spec", containers]).iter();
        let shown = containers
            .map(|container| container_status(view, pod, container, containers_state, is_ready, is_init));
        let shown: Vec<Value> = shown.collect();
        if !shown.is_empty() {
            status[statuses] = shown.into();
        }
    }
    if pod.at(&["status"]) != Some(&status) {
        let verb = Verb::Status(with(pod, &["status"], status));
        plan.push(Kind::Pod, verb, reason, message);
    }
}

/// The conditions of a pod on its node. Conditions that other actors set are retained.
fn conditions(
    view: &View<'_>,
    pod: &StoredObject,
    containers_state: &Containers,
    phase: &str,
    is_ready: bool,
) -> Vec<Value> {
    let mut conditions = items(pod, &["status", "conditions"]).to_vec();
    let none = || ("", String::new());
    let why = match phase {
        _ if is_ready => none(),
        "Succeeded" => ("PodCompleted", String::new()),
        "Failed" => ("PodFailed", String::new()),
        _ => {
            let names = items(pod, &["spec", "containers"]).iter();
            let names: Vec<&str> = names.filter_map(|container| container["name"].as_str()).collect();
            let message = format!("containers with unready status: [{}]", names.join(" "));
            ("ContainersNotReady", message)
        }
    };
    let gates = items(pod, &["spec", "readinessGates"]).iter();
    let mut gates = gates.filter_map(|gate| gate["conditionType"].as_str());
    let is_open = |gate: &str| condition(&conditions, gate).is_some_and(|gate| gate["status"] == "True");
    let ready = match gates.find(|gate| !is_open(gate)).filter(|_| is_ready) {
        Some(gate) => {
            let message = format!("the status of pod readiness gate \"{gate}\" is not \"True\", but False");
            (false, ("ReadinessGatesNotReady", message))
        }
        None => (is_ready, why.clone()),
    };
    let has_started = !matches!(containers_state.state, State::Waiting);
    let has_sandbox = has_started && !matches!(containers_state.state, State::Ended);
    let completed = if phase == "Succeeded" { why.clone() } else { none() };
    let reported = [
        ("PodReadyToStartContainers", has_sandbox, none()),
        ("Initialized", has_started, completed),
        ("Ready", ready.0, ready.1),
        ("ContainersReady", is_ready, why),
        ("PodScheduled", true, none()),
    ];
    let skipped = usize::from(!view.version().has(SANDBOX_CONDITION));
    for (kind, holds, why) in reported.into_iter().skip(skipped) {
        let status = if holds { "True" } else { "False" };
        let probe = Some(("lastProbeTime", Value::Null));
        set_condition(&mut conditions, &view.time(), (kind, status), why, probe);
    }
    conditions
}

fn container_status(
    view: &View<'_>,
    pod: &StoredObject,
    container: &Value,
    containers_state: &Containers,
    is_ready: bool,
    is_init: bool,
) -> Value {
    let name = container["name"].as_str().unwrap_or_default();
    let has_started = !matches!(containers_state.state, State::Waiting);
    let id = match has_started {
        true => format!(
            "containerd://{}/{name}/{}",
            pod.meta.uid, containers_state.restarts
        ),
        false => String::new(),
    };
    let time = |at: Timestamp| Value::from(at.truncate_to_secs().to_string());
    let terminated = |code: i64, at: Timestamp| {
        let reason = if code == 0 { "Completed" } else { "Error" };
        let started = pod
            .at(&["status", "startTime"])
            .cloned()
            .unwrap_or_else(|| view.time());
        json!({"terminated": {
            "exitCode": code, "reason": reason, "containerID": id,
            "startedAt": started, "finishedAt": time(at),
        }})
    };
    let is_sidecar = is_init && container["restartPolicy"] == "Always";
    let known = items(pod, &["status", "initContainerStatuses"]).iter();
    let known = known
        .clone()
        .find(|known| known["name"] == name && !known["state"]["terminated"].is_null());
    let (state, last, restarts, ready) = match (containers_state.state, containers_state.exit) {
        (State::Waiting, _) => (
            json!({"waiting": {"reason": "ContainerCreating"}}),
            None,
            0,
            false,
        ),
        _ if is_init && !is_sidecar => {
            let state = known.map_or_else(|| terminated(0, view.now), |known| known["state"].clone());
            (state, None, 0, true)
        }
        (State::Running(at), exit) => (
            json!({"running": {"startedAt": time(at)}}),
            exit,
            containers_state.restarts,
            is_ready,
        ),
        (State::BackOff(_), exit) => {
            let message = format!("back-off restarting failed container {name}");
            let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
            (waiting, exit, containers_state.restarts, false)
        }
        (State::Ended, exit) => {
            let (code, at) = exit.unwrap_or((0, view.now));
            (terminated(code, at), None, containers_state.restarts, false)
        }
    };
    json!({
        "name": name,
        "image": container["image"].as_str().unwrap_or_default(),
        "imageID": "",
        "containerID": id,
        "ready": ready,
        "started": matches!(containers_state.state, State::Running(_)) && (!is_init || is_sidecar),
        "restartCount": restarts,
        "state": state,
        "lastState": last.map_or_else(|| json!({}), |(code, at)| terminated(code, at)),
    })
}

/// An address in `10.0.0.0/8` that depends on the uid alone.
fn pod_address(pod: &StoredObject) -> String {
    let [a, b, c, _] = super::revisions::fnv(pod.meta.uid.to_string().as_bytes()).to_be_bytes();
    format!("10.{a}.{b}.{c}")
}
