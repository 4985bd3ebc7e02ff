//! The resources of a pod: its quality of service, and the requests that it gets for all containers together.
//!
//! # Upstream
//! `GetPodQOS` in `pkg/apis/core/helper/qos/qos.go`, 1.20.2, and `setDefaultPodRequests` in
//! [`defaults.go`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/apis/core/v1/defaults.go).

use std::collections::BTreeMap;

use kubegc_core::Quantity;
use serde_json::{Map, Value, json};

pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// Whether a pod may have resources of this name for all its containers.
fn is_shared(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// The shared resources of a pod, if it has some.
fn shared(spec: &Value) -> Option<&Value> {
    let resources = spec.get("resources")?;
    let has_some = |kind: &str| {
        let amounts = resources.get(kind).and_then(Value::as_object);
        amounts.is_some_and(|amounts| amounts.keys().any(|name| is_shared(name)))
    };
    (has_some("requests") || has_some("limits")).then_some(resources)
}

/// The quality of service of a pod of this specification.
pub(crate) fn class(spec: &Value) -> &'static str {
    let own;
    let containers: Vec<&Value> = match shared(spec) {
        Some(resources) => {
            own = json!({"resources": resources});
            vec![&own]
        }
        None => ["containers", "initContainers"]
            .iter()
            .flat_map(|list| items(spec, list))
            .collect(),
    };
    let mut totals = [Amounts::new(), Amounts::new()];
    let mut guaranteed = true;
    for container in containers {
        for (kind, total) in ["requests", "limits"].into_iter().zip(&mut totals) {
            let mut own = amounts(container, kind);
            own.retain(|name, amount| {
                matches!(&**name, "cpu" | "memory") && *amount > Quantity::decimal_si(0)
            });
            guaranteed &= kind == "requests" || own.len() == 2;
            add(total, &own);
        }
    }
    let [requests, limits] = totals;
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn items<'v>(spec: &'v Value, list: &str) -> impl Iterator<Item = &'v Value> {
    spec.get(list).and_then(Value::as_array).into_iter().flatten()
}

pub(crate) fn add(to: &mut Amounts, from: &Amounts) {
    for (name, amount) in from {
        let sum = to.get(name).map_or(*amount, |sum| sum.plus(*amount));
        to.insert(name.clone(), sum);
    }
}

/// The `requests` or `limits` of a container or pod.
pub(crate) fn amounts(container: &Value, which: &str) -> Amounts {
    let resources = container.get("resources");
    parsed(resources.and_then(|resources| resources.get(which)))
}

/// The amounts in an object of texts.
pub(super) fn parsed(amounts: Option<&Value>) -> Amounts {
    let amounts = amounts.and_then(Value::as_object).into_iter().flatten();
    amounts
        .filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(amount.as_str()?)?)))
        .collect()
}

/// The `requests` or `limits` that a pod needs: its own, or those of its containers, with its overhead.
///
/// # Upstream
/// `PodRequests` and `PodLimits` in the same file.
pub(crate) fn amounts_of_pod(spec: &Value, which: &str) -> Amounts {
    let mut all = amounts_of_containers(spec, which);
    if shared(spec).is_some() {
        let own = amounts(spec, which).into_iter();
        all.extend(own.filter(|(name, _)| is_shared(name)));
    }
    for (name, amount) in parsed(spec.get("overhead")) {
        match all.get_mut(&name) {
            Some(sum) => *sum = sum.plus(amount),
            None if which == "requests" => {
                all.insert(name, amount);
            }
            None => {}
        }
    }
    all
}

/// The requests of all containers of a pod together, or their limits. Init containers run one after the
/// other, except those that are restarted: they go on.
///
/// # Upstream
/// `AggregateContainerRequests` in
/// [`helpers.go`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/component-helpers/resource/helpers.go).
pub(super) fn amounts_of_containers(spec: &Value, which: &str) -> Amounts {
    let at_least = |of: &mut Amounts, least: &Amounts| {
        for (name, amount) in least {
            if of.get(name).is_none_or(|known| known < amount) {
                of.insert(name.clone(), *amount);
            }
        }
    };
    let (mut all, mut restarted, mut starting) = (Amounts::new(), Amounts::new(), Amounts::new());
    for container in items(spec, "containers") {
        add(&mut all, &amounts(container, which));
    }
    for container in items(spec, "initContainers") {
        let mut own = amounts(container, which);
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            add(&mut all, &own);
            add(&mut restarted, &own);
            own = restarted.clone();
        } else {
            add(&mut own, &restarted);
        }
        at_least(&mut starting, &own);
    }
    at_least(&mut all, &starting);
    all
}

/// Sets the requests of a pod with shared resources: those of its containers, or its own limits.
pub(super) fn set_requests(spec: &mut Map<String, Value>) {
    let whole = Value::Object(spec.clone());
    let Some(resources) = shared(&whole) else { return };
    let amounts = |kind: &str| {
        let amounts = resources.get(kind).and_then(Value::as_object);
        amounts.cloned().unwrap_or_default()
    };
    let mut requests = amounts("requests");
    for (name, sum) in amounts_of_containers(&whole, "requests") {
        if is_shared(&name) {
            requests.entry(name).or_insert_with(|| sum.to_string().into());
        }
    }
    for (name, limit) in amounts("limits") {
        if is_shared(&name) {
            requests.entry(name).or_insert(limit);
        }
    }
    if let Some(Value::Object(resources)) = spec.get_mut("resources")
        && !requests.is_empty()
    {
        resources.insert("requests".to_owned(), requests.into());
    }
}
