//! Table cells of built-in objects.
//!
//! # Upstream
//! `pkg/printers/internalversion/printers.go`, 1.20.2.

mod cluster;
mod workloads;

use std::collections::BTreeSet;

use kubegc_core::{KubernetesVersion, Timestamp};
use kubegc_sim::{StoredObject, label_selector};
use serde_json::{Value, json};

use self::{
    cluster::{availability, claim_state, controller, parameter, parent, quota, request_state},
    workloads::{completions, duration, job_status, pod, readiness_gates, targets},
};

const NONE: &str = "<none>";
/// Maximum number of values of a list that are shown.
const SHOWN_MAX: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// The value at a JSON pointer, or this one if there is none of its type. Texts may be of any type. With
    /// `*` in the pointer: the values in all items of a list, joined by commas.
    Value(String, Value),
    Count(String),
    Path(String),
    Call(String),
}

impl Cell {
    /// Reads the cell of a line of `columns.txt`.
    pub(super) fn read(text: &str) -> Self {
        if let Some(pointer) = text.strip_prefix('#') {
            return Self::Count(pointer.to_owned());
        }
        if text.starts_with('.') {
            return Self::Path(text.to_owned());
        }
        if !text.starts_with('/') {
            return Self::Call(text.to_owned());
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

/// The number of items at some JSON pointers, with `#` between them.
pub(super) fn count(shown: &Value, pointers: &str) -> usize {
    let of = |pointer| match shown.pointer(pointer) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        _ => 0,
    };
    pointers.split('#').map(of).sum()
}

/// The value of a cell that is a function with arguments, most of which are JSON pointers into the object in
/// its JSON form.
pub(super) fn computed(version: KubernetesVersion, call: &str, shown: &Value, now: Timestamp) -> Value {
    let mut words = call.split(' ').map(|word| if word == "_" { "" } else { word });
    let function = words.next().unwrap_or_default();
    let args: Vec<&str> = words.collect();
    let arg = |at: usize| args.get(at).copied().unwrap_or_default();
    let at = |pointer: &str| shown.pointer(pointer).unwrap_or(&Value::Null);
    let first = at(arg(0));
    json!(match function {
        "pod" => return pod(version, shown, arg(0), now),
        "event-count" => return event_count(shown),
        "value" if !first.is_null() => return first.clone(),
        "value" => NONE.to_owned(),
        "since" => match first.as_str() {
            Some(time) => since(Timestamp::parse(time).ok(), now),
            None => arg(1).to_owned(),
        },
        "seconds" => first.as_i64().map_or_else(|| NONE.to_owned(), human_duration),
        "flag" => match first {
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            _ => "<unset>".to_owned(),
        },
        "either" => either(shown, arg(0), arg(1)).trim().to_owned(),
        "pair" => pair(shown, [arg(0), arg(1)], args.get(2).copied()),
        "condition" => number_or_text(&condition_of(shown, arg(0))["status"], arg(1)),
        "labels" => labels(first),
        "selector" => match selector(first) {
            all if all.is_empty() => arg(1).to_owned(),
            selector => selector,
        },
        "subjects" => subjects(shown, arg(0)),
        "gates" => readiness_gates(shown),
        "ready" => {
            let number = |path: &str, missing: i64| at(path).as_i64().unwrap_or(missing);
            let wanted = number("/spec/replicas", 1);
            format!("{}/{wanted}", number("/status/readyReplicas", 0))
        }
        "job" => job_status(shown).to_owned(),
        "completions" => completions(shown),
        "duration" => duration(shown, now),
        "targets" => targets(version, shown),
        "external" => external_ip(shown),
        "ports" => or_none(ports(first)),
        "hosts" => hosts(first),
        "addresses" => ingress_addresses(shown),
        "ingress-ports" if count(shown, "/spec/tls") == 0 => "80".to_owned(),
        "ingress-ports" => "80, 443".to_owned(),
        "parameters" => parameters(first),
        "endpoints" => endpoints(first),
        "slice-ports" => slice_ports(first),
        "slice-addresses" => slice_addresses(first),
        "node" => node_status(shown),
        "roles" => roles(shown),
        "address" => node_address(shown, arg(0)),
        "last-seen" => last_seen(shown, now),
        "first-seen" => first_seen(shown, now),
        "event-object" => event_object(shown),
        "event-source" => event_source(shown),
        "phase" if !at("/metadata/deletionTimestamp").is_null() => "Terminating".to_owned(),
        "phase" => number_or_text(at("/status/phase"), ""),
        "capacity" => capacity(shown, arg(0)),
        "modes" => access_modes(shown, arg(0)),
        "class" => storage_class(shown),
        "storageclass" => {
            let is_default = |key: &str| at("/metadata/annotations")[key] == "true";
            let is_default = is_default("storageclass.kubernetes.io/is-default-class")
                || is_default("storageclass.beta.kubernetes.io/is-default-class");
            let suffix = if is_default { " (default)" } else { "" };
            format!("{}{suffix}", plain(at("/metadata/name")))
        }
        "controller" => controller(shown),
        "quota" => quota(shown, arg(0) == "limits"),
        "request" => request_state(shown),
        "availability" => availability(shown),
        "parameter" => parameter(first),
        "parent" => parent(first),
        "claim" => claim_state(shown),
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

fn roles(shown: &Value) -> String {
    let labels = shown["metadata"]["labels"].as_object().into_iter().flatten();
    let roles = labels.filter_map(|(key, value)| {
        let role = key.strip_prefix("node-role.kubernetes.io/");
        let named = (key == "kubernetes.io/role").then(|| value.as_str().unwrap_or_default());
        role.or(named).filter(|role| !role.is_empty())
    });
    or_none(distinct(roles))
}

fn node_address(shown: &Value, of_type: &str) -> String {
    let mut addresses = items(shown, "/status/addresses").iter();
    let address = addresses.find(|address| address["type"] == of_type);
    address.map_or_else(|| NONE.to_owned(), |address| plain(&address["address"]))
}

/// The text at a JSON pointer, or at another one if it is empty: Events of the newer group name the same
/// fields otherwise.
fn either(shown: &Value, old: &str, new: &str) -> String {
    let texts = [old, new]
        .into_iter()
        .filter_map(|path| shown.pointer(path)?.as_str());
    texts
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .next()
        .unwrap_or_default()
}

fn ago(shown: &Value, path: &str, now: Timestamp) -> String {
    let time = shown.pointer(path).and_then(Value::as_str);
    since(time.and_then(|time| Timestamp::parse(time).ok()), now)
}

fn first_seen(shown: &Value, now: Timestamp) -> String {
    match either(shown, "/firstTimestamp", "/deprecatedFirstTimestamp") {
        time if time.is_empty() => ago(shown, "/eventTime", now),
        time => since(Timestamp::parse(&time).ok(), now),
    }
}

fn last_seen(shown: &Value, now: Timestamp) -> String {
    match either(shown, "/lastTimestamp", "/deprecatedLastTimestamp") {
        _ if shown["series"].is_object() => ago(shown, "/series/lastObservedTime", now),
        time if time.is_empty() => first_seen(shown, now),
        time => since(Timestamp::parse(&time).ok(), now),
    }
}

fn event_object(shown: &Value) -> String {
    let kind = either(shown, "/involvedObject/kind", "/regarding/kind").to_lowercase();
    match either(shown, "/involvedObject/name", "/regarding/name") {
        name if name.is_empty() => kind,
        name => format!("{kind}/{name}"),
    }
}

fn event_source(shown: &Value) -> String {
    let component = either(shown, "/source/component", "/deprecatedSource/component");
    match either(shown, "/source/host", "/deprecatedSource/host") {
        host if host.is_empty() => component,
        host => format!("{component}, {host}"),
    }
}

fn event_count(shown: &Value) -> Value {
    let paths = ["/series/count", "/count", "/deprecatedCount"];
    let mut counts = paths.iter().filter_map(|path| shown.pointer(path)?.as_i64());
    // An event without series and without a count happened once.
    json!(counts.find(|count| *count != 0).unwrap_or(1))
}

/// Whether a volume, or the claim for one, has its capacity and access modes: a claim has those of its
/// volume.
fn is_bound(shown: &Value, part: &str) -> bool {
    part == "spec"
        || shown["spec"]["volumeName"]
            .as_str()
            .is_some_and(|name| !name.is_empty())
}

fn capacity(shown: &Value, part: &str) -> String {
    match &shown[part]["capacity"]["storage"] {
        _ if !is_bound(shown, part) => String::new(),
        size => number_or_text(size, "0"),
    }
}

fn access_modes(shown: &Value, part: &str) -> String {
    let modes = items(&shown[part], "/accessModes");
    let mut short = vec![
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    short.retain(|(mode, _)| is_bound(shown, part) && modes.iter().any(|has| has == mode));
    short
        .iter()
        .map(|(_, short)| *short)
        .collect::<Vec<_>>()
        .join(",")
}

fn storage_class(shown: &Value) -> String {
    let old = &shown["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    let class = old.as_str().or(shown["spec"]["storageClassName"].as_str());
    class.unwrap_or_default().to_owned()
}

/// The texts at two JSON pointers, or `missing` if their object is missing.
fn pair(shown: &Value, pointers: [&str; 2], missing: Option<&str>) -> String {
    let parent = pointers[0]
        .rsplit_once('/')
        .and_then(|(parent, _)| shown.pointer(parent));
    match missing.filter(|_| !parent.is_some_and(Value::is_object)) {
        Some(missing) => missing.to_owned(),
        None => pointers
            .map(|pointer| shown.pointer(pointer).and_then(Value::as_str).unwrap_or_default())
            .join("/"),
    }
}

fn subjects(shown: &Value, kind: &str) -> String {
    let one = |subject: &Value| match kind {
        "ServiceAccount" => {
            let namespace = number_or_text(&subject["namespace"], "");
            format!("{namespace}/{}", plain(&subject["name"]))
        }
        _ => plain(&subject["name"]),
    };
    let subjects = items(shown, "/subjects").iter();
    let of_kind = subjects.filter(|subject| subject["kind"] == kind);
    of_kind.map(one).collect::<Vec<_>>().join(", ")
}

/// A duration as people read it: two units if the number is small, one if it is not.
pub(super) fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |great: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{great}{unit}"),
        _ => format!("{great}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, "d", hours % 24, "h"),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::human_duration;

    /// Seconds, and how they are printed.
    const DURATIONS: &str = "-5=<invalid> -1=0s 0=0s 119=119s 120=2m 125=2m5s 600=10m 10799=179m 10800=3h \
        10861=3h1m 28800=8h 169200=47h 172800=2d 176400=2d1h 691200=8d 62985600=729d 63072000=2y \
        63158400=2y1d 283824000=9y 9223372036854775807=292471208677y";

    #[test]
    fn durations_read_as_upstream_writes_them() {
        for row in DURATIONS.split(' ') {
            let (seconds, expected) = row.split_once('=').expect("a duration");
            assert_eq!(
                human_duration(seconds.parse().expect("a number")),
                expected,
                "{row}"
            );
        }
    }
}
