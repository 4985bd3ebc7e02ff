//! Table cells of built-in objects.
//!
//! # Upstream
//! `pkg/printers/internalversion/printers.go`, 1.20.2.

mod cluster;

use std::collections::BTreeSet;

use kubegc_core::{Behavior, KubernetesVersion, Timestamp};
use kubegc_sim::{StoredObject, label_selector};
use serde_json::{Value, json};

use self::cluster::{availability, claim_state, controller, level, parameter, parent, quota, request_state};
use super::table::human_duration;

const NONE: &str = "<none>";
/// Maximum number of values of a list that are shown.
const SHOWN_MAX: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// The value at a JSON pointer, or this one if there is none of its type. Texts may be of any type. With
    /// `*` in the pointer: the values in all items of a list, joined by commas.
    Value(String, Value),
    /// The number of items at a JSON pointer.
    Count(String),
    /// The value at a JSONPath.
    Path(String),
    Computed,
}

impl Cell {
    /// Reads the cell of a line of `columns.txt`.
    pub(super) fn read(text: &str) -> Self {
        if text.is_empty() {
            return Self::Computed;
        }
        if let Some(pointer) = text.strip_prefix('#') {
            return Self::Count(pointer.to_owned());
        }
        if text.starts_with('.') {
            return Self::Path(text.to_owned());
        }
        let (pointer, missing) = text.split_once('=').unwrap_or((text, ""));
        let missing = serde_json::from_str(missing).unwrap_or_else(|_| missing.into());
        Self::Value(pointer.to_owned(), missing)
    }
}

/// The value at a JSON pointer, or another if there is none of its type.
pub(super) fn value(shown: &Value, pointer: &str, missing: &Value) -> Value {
    if let Some((list, rest)) = pointer.split_once("/*") {
        let items = items(shown, list).iter();
        let values = items.map(|item| item.pointer(rest).unwrap_or(&Value::Null));
        let values = joined(values, ",");
        return if values.is_empty() {
            missing.clone()
        } else {
            values.into()
        };
    }
    match (shown.pointer(pointer), missing) {
        (Some(Value::Number(number)), Value::Number(_)) if number.is_i64() => json!(number),
        (Some(Value::Bool(flag)), Value::Bool(_)) => json!(flag),
        (None | Some(Value::Null), _) | (_, Value::Number(_) | Value::Bool(_)) => missing.clone(),
        (Some(Value::String(text)), _) if text.is_empty() => missing.clone(),
        (Some(value), _) => plain(value).into(),
    }
}

pub(super) fn count(shown: &Value, pointer: &str) -> usize {
    match shown.pointer(pointer) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        _ => 0,
    }
}

/// The cell of a column that is more than one value. `shown` is the object in its JSON form.
pub(super) fn computed(
    version: KubernetesVersion,
    resource: &str,
    column: &str,
    object: &StoredObject,
    shown: &Value,
    now: Timestamp,
) -> Value {
    let at = |path: &str| shown.pointer(path).unwrap_or(&Value::Null);
    let text = |path: &str| at(path).as_str().unwrap_or_default();
    let pair = |first: &str, second: &str| format!("{}/{}", text(first), text(second));
    json!(match (resource, column) {
        ("pods", "Ready" | "Status" | "Restarts") => return pod(version, shown, column, now),
        ("events", "Count") => return event_count(shown),
        ("configmaps", "Data") => return json!(count(shown, "/data") + count(shown, "/binaryData")),
        ("storageclasses", "Name") => {
            let is_default = |key: &str| at("/metadata/annotations")[key] == "true";
            let is_default = is_default("storageclass.kubernetes.io/is-default-class")
                || is_default("storageclass.beta.kubernetes.io/is-default-class");
            let suffix = if is_default { " (default)" } else { "" };
            format!("{}{suffix}", object.meta.name)
        }
        (_, "Age") => since(object.meta.creation_timestamp, now),
        ("flowschemas", "MissingPL") => number_or_text(&condition_of(shown, "Dangling")["status"], "?"),
        ("prioritylevelconfigurations", _) => return level(shown, column),
        ("apiservices", "Service") if at("/spec/service").is_object() => {
            pair("/spec/service/namespace", "/spec/service/name")
        }
        ("apiservices", "Service") => "Local".to_owned(),
        ("apiservices", _) => availability(shown),
        (_, "ParamKind") if at("/spec/paramKind").is_object() => {
            pair("/spec/paramKind/apiVersion", "/spec/paramKind/kind")
        }
        (_, "ParamKind") => "<unset>".to_owned(),
        (_, "ParamRef") => parameter(at("/spec/paramRef")),
        ("ipaddresses", "ParentRef") => parent(at("/spec/parentRef")),
        ("resourceclaims", "State") => claim_state(shown),
        ("pods", "Readiness Gates") => readiness_gates(shown),
        ("podtemplates", "Pod Labels") => labels(at("/template/metadata/labels")),
        ("daemonsets", "Node Selector") => labels(at("/spec/template/spec/nodeSelector")),
        ("deployments" | "statefulsets", "Ready") => {
            let number = |path: &str, missing: i64| at(path).as_i64().unwrap_or(missing);
            let wanted = number("/spec/replicas", 1);
            format!("{}/{wanted}", number("/status/readyReplicas", 0))
        }
        ("jobs", "Status") => job_status(shown).to_owned(),
        ("jobs", "Completions") => completions(shown),
        ("jobs", "Duration") => duration(shown, now),
        ("cronjobs", "Suspend") => match at("/spec/suspend") {
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            _ => "<unset>".to_owned(),
        },
        ("cronjobs", "Last Schedule") => match at("/status/lastScheduleTime").as_str() {
            Some(time) => since(Timestamp::parse(time).ok(), now),
            None => NONE.to_owned(),
        },
        ("services" | "replicationcontrollers", "Selector") => labels(at("/spec/selector")),
        ("deployments", "Selector") => selector(at("/spec/selector")),
        ("cronjobs", "Selector") => or_none(selector(at("/spec/jobTemplate/spec/selector"))),
        ("networkpolicies", "Pod-Selector") => or_none(selector(at("/spec/podSelector"))),
        (_, "Selector") => or_none(selector(at("/spec/selector"))),
        ("services", "External-IP") => external_ip(shown),
        ("services", "Port(s)") => or_none(ports(at("/spec/ports"))),
        ("ingresses", "Hosts") => hosts(at("/spec/rules")),
        ("ingresses", "Address") => ingress_addresses(shown),
        ("ingresses", "Ports") if count(shown, "/spec/tls") == 0 => "80".to_owned(),
        ("ingresses", "Ports") => "80, 443".to_owned(),
        ("ingressclasses", "Parameters") => parameters(at("/spec/parameters")),
        ("endpoints", "Endpoints") => endpoints(at("/subsets")),
        ("endpointslices", "Ports") => slice_ports(at("/ports")),
        ("endpointslices", "Endpoints") => slice_addresses(at("/endpoints")),
        ("nodes", "Status") => node_status(shown),
        ("nodes", "Roles") => roles(object),
        ("nodes", "Internal-IP") => node_address(shown, "InternalIP"),
        ("nodes", "External-IP") => node_address(shown, "ExternalIP"),
        ("events", _) => event(shown, column, now),
        ("persistentvolumes" | "persistentvolumeclaims", _) => volume(resource, shown, column),
        ("rolebindings" | "clusterrolebindings", "Role") => pair("/roleRef/kind", "/roleRef/name"),
        ("rolebindings" | "clusterrolebindings", _) => subjects(at("/subjects"), column),
        ("controllerrevisions", "Controller") => controller(shown),
        ("resourcequotas", _) => quota(shown, column == "Limit"),
        ("runtimeclasses", "Handler") => {
            let handler = at("/handler").as_str();
            handler.unwrap_or_else(|| text("/spec/runtimeHandler")).to_owned()
        }
        ("certificatesigningrequests", "RequestedDuration") => match at("/spec/expirationSeconds").as_i64() {
            Some(seconds) => human_duration(seconds),
            None => NONE.to_owned(),
        },
        ("certificatesigningrequests", "Condition") => request_state(shown),
        ("horizontalpodautoscalers", "Reference") => {
            pair("/spec/scaleTargetRef/kind", "/spec/scaleTargetRef/name")
        }
        ("horizontalpodautoscalers", "Targets") => targets(version, shown),
        _ => return Value::Null,
    })
}

/// The condition of a row that needs no more attention.
pub(super) fn condition(resource: &str, object: &StoredObject) -> Option<Value> {
    let (phase, message) = match (resource, object.text_at(&["status", "phase"])) {
        ("pods", "Succeeded") => ("Succeeded", "The pod has completed successfully."),
        ("pods", "Failed") => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": phase, "message": message}))
}

fn since(time: Option<Timestamp>, now: Timestamp) -> String {
    time.map_or_else(
        || "<unknown>".to_owned(),
        |time| human_duration(now.as_secs().saturating_sub(time.as_secs())),
    )
}

/// The first status condition of a type; null if there is none.
fn condition_of<'v>(shown: &'v Value, of_type: &str) -> &'v Value {
    let mut conditions = items(shown, "/status/conditions").iter();
    let found = conditions.find(|condition| condition["type"] == of_type);
    found.unwrap_or(&Value::Null)
}

fn items<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    let list = value.pointer(path).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn or_none(text: String) -> String {
    if text.is_empty() { NONE.to_owned() } else { text }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn number_or_text(value: &Value, missing: &str) -> String {
    if value.is_null() {
        missing.to_owned()
    } else {
        plain(value)
    }
}

fn joined<'v>(values: impl Iterator<Item = &'v Value>, separator: &str) -> String {
    values.map(plain).collect::<Vec<_>>().join(separator)
}

fn labels(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten();
    let pairs = pairs.map(|(key, value)| format!("{key}={}", plain(value)));
    or_none(pairs.collect::<Vec<_>>().join(","))
}

/// A label selector as requirements; empty if it means all or, missing, nothing.
fn selector(selector: &Value) -> String {
    label_selector(selector).unwrap_or_default().to_string()
}

/// The first values of a list, and the number of further ones of all.
fn first_of(values: &[String], max: usize, separator: &str, all: usize) -> String {
    let shown = values[..values.len().min(max)].join(separator);
    match values.len() >= max && all > max {
        true => format!("{shown} + {} more...", all - max),
        false => shown,
    }
}

fn some_of(values: &[String], missing: &str) -> String {
    match first_of(values, SHOWN_MAX, ",", values.len()) {
        none if none.is_empty() => missing.to_owned(),
        shown => shown,
    }
}

/// The restarts of a pod are a text, with the time since the last one.
const LAST_RESTARTS_ARE_SHOWN: Behavior = Behavior::since(22, 0, "kubernetes #100142");

fn pod(version: KubernetesVersion, shown: &Value, column: &str, now: Timestamp) -> Value {
    let status = &shown["status"];
    let mut reason = match status["reason"].as_str() {
        Some(reason) if !reason.is_empty() => reason.to_owned(),
        _ => status["phase"].as_str().unwrap_or_default().to_owned(),
    };
    let restarts_of = |container: &Value| container["restartCount"].as_i64().unwrap_or(0);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ended = |terminated: &Value| match terminated["signal"].as_i64() {
        Some(signal) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
    };
    let ended_at = |container: &Value| {
        let time = container.pointer("/lastState/terminated/finishedAt")?.as_str()?;
        Timestamp::parse(time).ok()
    };
    let mut last_restart = None;
    let (mut restarts, mut ready, mut initializing) = (0_i64, 0, false);
    for (index, container) in items(status, "/initContainerStatuses").iter().enumerate() {
        restarts = restarts.saturating_add(restarts_of(container));
        last_restart = last_restart.max(ended_at(container));
        let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
        reason = if terminated.is_object() {
            if terminated["exitCode"].as_i64().unwrap_or(0) == 0 {
                continue;
            }
            match text(&terminated["reason"]) {
                reason if reason.is_empty() => format!("Init:{}", ended(terminated)),
                reason => format!("Init:{reason}"),
            }
        } else {
            match text(&waiting["reason"]) {
                reason if !reason.is_empty() && reason != "PodInitializing" => format!("Init:{reason}"),
                _ => format!("Init:{index}/{}", items(shown, "/spec/initContainers").len()),
            }
        };
        initializing = true;
        break;
    }
    if !initializing {
        restarts = 0;
        last_restart = None;
        let mut runs = false;
        for container in items(status, "/containerStatuses").iter().rev() {
            restarts = restarts.saturating_add(restarts_of(container));
            last_restart = last_restart.max(ended_at(container));
            let state = &container["state"];
            let (waits, ends) = (
                text(&state["waiting"]["reason"]),
                text(&state["terminated"]["reason"]),
            );
            if !waits.is_empty() {
                reason = waits;
            } else if !ends.is_empty() {
                reason = ends;
            } else if state["terminated"].is_object() {
                reason = ended(&state["terminated"]);
            } else if container["ready"] == true && state["running"].is_object() {
                runs = true;
                ready += 1;
            }
        }
        if reason == "Completed" && runs {
            reason = "Running".to_owned();
        }
    }
    if !shown["metadata"]["deletionTimestamp"].is_null() {
        let lost = status["reason"] == "NodeLost";
        reason = if lost { "Unknown" } else { "Terminating" }.to_owned();
    }
    match column {
        "Ready" => json!(format!("{ready}/{}", items(shown, "/spec/containers").len())),
        "Status" => json!(reason),
        _ if !version.has(LAST_RESTARTS_ARE_SHOWN) => json!(restarts),
        _ => match last_restart {
            Some(time) if restarts > 0 => json!(format!("{restarts} ({} ago)", since(Some(time), now))),
            _ => json!(restarts.to_string()),
        },
    }
}

fn readiness_gates(shown: &Value) -> String {
    let gates = items(shown, "/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let is_true = |gate: &&Value| {
        let of_type = gate["conditionType"].as_str().unwrap_or_default();
        condition_of(shown, of_type)["status"] == "True"
    };
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len())
}

/// What a job is doing, by its conditions.
///
/// # Upstream
/// `printJob` in
/// [`printers.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/printers/internalversion/printers.go).
fn job_status(job: &Value) -> &'static str {
    let has = |kind: &&str| condition_of(job, kind)["status"] == "True";
    if let Some(end) = ["Complete", "Failed"].into_iter().find(has) {
        return end;
    }
    if job.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating";
    }
    let others = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    others.into_iter().find(has).unwrap_or("Running")
}

fn completions(shown: &Value) -> String {
    let done = shown["status"]["succeeded"].as_i64().unwrap_or(0);
    let parallelism = shown["spec"]["parallelism"].as_i64().unwrap_or(0);
    match shown["spec"]["completions"].as_i64() {
        Some(wanted) => format!("{done}/{wanted}"),
        None if parallelism > 1 => format!("{done}/1 of {parallelism}"),
        None => format!("{done}/1"),
    }
}

fn duration(shown: &Value, now: Timestamp) -> String {
    let time = |key: &str| Timestamp::parse(shown["status"][key].as_str()?).ok();
    match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human_duration(end.unwrap_or(now).as_secs().saturating_sub(start.as_secs())),
    }
}

fn ingress_addresses(shown: &Value) -> String {
    let addresses = items(shown, "/status/loadBalancer/ingress")
        .iter()
        .filter_map(|ingress| {
            let text = |key: &str| ingress[key].as_str().filter(|text| !text.is_empty());
            text("ip").or_else(|| text("hostname"))
        });
    distinct(addresses)
}

/// Texts in order, each once, joined by commas.
fn distinct<'v>(texts: impl Iterator<Item = &'v str>) -> String {
    let texts: BTreeSet<&str> = texts.collect();
    texts.into_iter().collect::<Vec<_>>().join(",")
}

fn external_ip(shown: &Value) -> String {
    let external = joined(items(shown, "/spec/externalIPs").iter(), ",");
    match shown["spec"]["type"].as_str() {
        Some("ClusterIP" | "NodePort") => or_none(external),
        Some("LoadBalancer") => {
            let mut parts = vec![ingress_addresses(shown), external];
            parts.retain(|part| !part.is_empty());
            match parts.as_slice() {
                [] => "<pending>".to_owned(),
                parts => parts.join(","),
            }
        }
        Some("ExternalName") => plain(&shown["spec"]["externalName"]),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(ports: &Value) -> String {
    let one = |port: &Value| {
        let protocol = port["protocol"].as_str().unwrap_or_default();
        match port["nodePort"].as_i64() {
            Some(node) if node > 0 => format!("{}:{node}/{protocol}", port["port"]),
            _ => format!("{}/{protocol}", port["port"]),
        }
    };
    items(ports, "").iter().map(one).collect::<Vec<_>>().join(",")
}

fn hosts(rules: &Value) -> String {
    let rules = items(rules, "");
    let hosts = rules.iter().filter_map(|rule| rule["host"].as_str());
    let hosts: Vec<String> = hosts.filter(|host| !host.is_empty()).map(str::to_owned).collect();
    match hosts.is_empty() {
        true => "*".to_owned(),
        false => first_of(&hosts, SHOWN_MAX, ",", rules.len()),
    }
}

fn parameters(parameters: &Value) -> String {
    if !parameters.is_object() {
        return NONE.to_owned();
    }
    let group = parameters["apiGroup"].as_str();
    let group = group.map(|group| format!(".{group}")).unwrap_or_default();
    let (kind, name) = (plain(&parameters["kind"]), plain(&parameters["name"]));
    format!("{kind}{group}/{name}")
}

fn endpoints(subsets: &Value) -> String {
    let mut all = Vec::new();
    for subset in items(subsets, "") {
        let addresses = items(subset, "/addresses").iter();
        let addresses = addresses.map(|address| plain(&address["ip"]));
        let ports = items(subset, "/ports");
        if ports.is_empty() {
            all.extend(addresses.clone());
        }
        for port in ports {
            all.extend(addresses.clone().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{}", port["port"]),
                false => format!("{ip}:{}", port["port"]),
            }));
        }
    }
    some_of(&all, if items(subsets, "").is_empty() { NONE } else { "" })
}

fn slice_ports(ports: &Value) -> String {
    let one = |port: &Value| match (&port["port"], &port["name"]) {
        (Value::Number(number), _) => number.to_string(),
        (_, Value::String(name)) => name.clone(),
        _ => "*".to_owned(),
    };
    some_of(&items(ports, "").iter().map(one).collect::<Vec<_>>(), "<unset>")
}

fn slice_addresses(endpoints: &Value) -> String {
    let addresses = items(endpoints, "")
        .iter()
        .flat_map(|endpoint| items(endpoint, "/addresses"));
    some_of(&addresses.map(plain).collect::<Vec<_>>(), "<unset>")
}

fn node_status(shown: &Value) -> String {
    let mut conditions = items(shown, "/status/conditions").iter().rev();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    let status = match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    };
    let rests = shown["spec"]["unschedulable"] == true;
    format!("{status}{}", if rests { ",SchedulingDisabled" } else { "" })
}

fn roles(object: &StoredObject) -> String {
    let roles = object.meta.labels.iter().filter_map(|(key, value)| {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role).filter(|role| !role.is_empty()),
            None => (&**key == "kubernetes.io/role" && !value.is_empty()).then_some(&**value),
        }
    });
    or_none(distinct(roles))
}

fn node_address(shown: &Value, of_type: &str) -> String {
    let mut addresses = items(shown, "/status/addresses").iter();
    let address = addresses.find(|address| address["type"] == of_type);
    address.map_or_else(|| NONE.to_owned(), |address| plain(&address["address"]))
}

fn event(shown: &Value, column: &str, now: Timestamp) -> String {
    let text = |path: &str| shown.pointer(path).and_then(Value::as_str).unwrap_or_default();
    // Events of the newer group name the same fields otherwise.
    let either = |old: &str, new: &str| match text(old) {
        "" => text(new).to_owned(),
        old => old.to_owned(),
    };
    let ago = |time: &str| since(Timestamp::parse(time).ok(), now);
    let first = || match either("/firstTimestamp", "/deprecatedFirstTimestamp") {
        time if time.is_empty() => ago(text("/eventTime")),
        time => ago(&time),
    };
    match column {
        "Last Seen" => match either("/lastTimestamp", "/deprecatedLastTimestamp") {
            _ if shown["series"].is_object() => ago(text("/series/lastObservedTime")),
            time if time.is_empty() => first(),
            time => ago(&time),
        },
        "First Seen" => first(),
        "Object" => {
            let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
            match either("/involvedObject/name", "/regarding/name") {
                name if name.is_empty() => kind,
                name => format!("{kind}/{name}"),
            }
        }
        "Subobject" => either("/involvedObject/fieldPath", "/regarding/fieldPath"),
        "Source" => {
            let component = either("/source/component", "/deprecatedSource/component");
            match either("/source/host", "/deprecatedSource/host") {
                host if host.is_empty() => component,
                host => format!("{component}, {host}"),
            }
        }
        "Message" => either("/message", "/note").trim().to_owned(),
        _ => String::new(),
    }
}

fn event_count(shown: &Value) -> Value {
    let paths = ["/series/count", "/count", "/deprecatedCount"];
    let mut counts = paths.iter().filter_map(|path| shown.pointer(path)?.as_i64());
    // An event without series and without a count happened once.
    json!(counts.find(|count| *count != 0).unwrap_or(1))
}

fn volume(resource: &str, shown: &Value, column: &str) -> String {
    let text = |path: &str| shown.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let is_claim = resource == "persistentvolumeclaims";
    let is_bound = !is_claim || !text("/spec/volumeName").is_empty();
    let part = if is_claim { "status" } else { "spec" };
    match column {
        "Status" if !shown["metadata"]["deletionTimestamp"].is_null() => "Terminating".to_owned(),
        "Status" => text("/status/phase").to_owned(),
        "Capacity" | "Access Modes" if !is_bound => String::new(),
        "Capacity" => match &shown[part]["capacity"]["storage"] {
            Value::Null => "0".to_owned(),
            size => plain(size),
        },
        "Access Modes" => {
            let modes = items(&shown[part], "/accessModes");
            let mut shown = vec![
                ("ReadWriteOnce", "RWO"),
                ("ReadOnlyMany", "ROX"),
                ("ReadWriteMany", "RWX"),
                ("ReadWriteOncePod", "RWOP"),
            ];
            shown.retain(|(mode, _)| modes.iter().any(|has| has == mode));
            shown
                .iter()
                .map(|(_, short)| *short)
                .collect::<Vec<_>>()
                .join(",")
        }
        "Claim" if shown["spec"]["claimRef"].is_object() => {
            let (namespace, name) = (text("/spec/claimRef/namespace"), text("/spec/claimRef/name"));
            format!("{namespace}/{name}")
        }
        "StorageClass" => {
            let old = &shown["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
            let class = old.as_str().unwrap_or_else(|| text("/spec/storageClassName"));
            class.to_owned()
        }
        _ => String::new(),
    }
}

fn subjects(subjects: &Value, column: &str) -> String {
    let kind = match column {
        "Users" => "User",
        "Groups" => "Group",
        _ => "ServiceAccount",
    };
    let one = |subject: &Value| match kind {
        "ServiceAccount" => {
            format!(
                "{}/{}",
                number_or_text(&subject["namespace"], ""),
                plain(&subject["name"])
            )
        }
        _ => plain(&subject["name"]),
    };
    let of_kind = items(subjects, "")
        .iter()
        .filter(|subject| subject["kind"] == kind);
    of_kind.map(one).collect::<Vec<_>>().join(", ")
}

/// Which resource a target is of.
const TARGETS_ARE_NAMED: Behavior = Behavior::since(30, 0, "kubernetes #122804");

fn targets(version: KubernetesVersion, shown: &Value) -> String {
    const SHOWN: usize = 2;
    let percent = |value: &Value| format!("{value}%");
    let named = |resource: &str| match version.has(TARGETS_ARE_NAMED) {
        true => format!("{resource}: "),
        false => String::new(),
    };
    let mut all = Vec::new();
    if let Some(target) = shown["spec"].get("targetCPUUtilizationPercentage") {
        let current = shown["status"].get("currentCPUUtilizationPercentage");
        let current = current.map_or("<unknown>".to_owned(), percent);
        all.push(format!("{}{current}/{}", named("cpu"), percent(target)));
    }
    for (index, metric) in items(shown, "/spec/metrics").iter().enumerate() {
        let of_type = match metric["type"].as_str().unwrap_or_default() {
            "ContainerResource" => "containerResource".to_owned(),
            other => other.to_lowercase(),
        };
        let target = &metric[&of_type]["target"];
        let name = match of_type.as_str() {
            "resource" | "containerResource" => named(metric[&of_type]["name"].as_str().unwrap_or_default()),
            _ => String::new(),
        };
        let current = shown.pointer(&format!("/status/currentMetrics/{index}/{of_type}/current"));
        let current = current.unwrap_or(&Value::Null);
        let known = |key: &str| number_or_text(&current[key], "<unknown>");
        all.push(match of_type.as_str() {
            "external" if !target["averageValue"].is_null() => {
                let wanted = plain(&target["averageValue"]);
                format!("{}/{wanted} (avg)", known("averageValue"))
            }
            "pods" | "resource" | "containerResource" if !target["averageValue"].is_null() => {
                let wanted = plain(&target["averageValue"]);
                format!("{name}{}/{wanted}", known("averageValue"))
            }
            "resource" | "containerResource" => {
                let percent_or = |value: &Value, missing: &str| match value {
                    Value::Null => missing.to_owned(),
                    value => percent(value),
                };
                let current = percent_or(&current["averageUtilization"], "<unknown>");
                let target = percent_or(&target["averageUtilization"], "<auto>");
                format!("{name}{current}/{target}")
            }
            "external" | "object" => format!("{}/{}", known("value"), number_or_text(&target["value"], "0")),
            _ => "<unknown type>".to_owned(),
        });
    }
    or_none(first_of(&all, SHOWN, ", ", all.len()))
}
