//! The admission plugin `ResourceQuota`, and the usage that quotas report.
//!
//! # Upstream
//! `CheckRequest` in
//! [`controller.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go)
//! and the [evaluators](https://github.com/kubernetes/kubernetes/tree/v1.36.0/pkg/quota/v1/evaluator/core).
//! Deviation: a pod that is resized in place counts with its spec, regardless of what its node has allocated.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{ApiResource, Behavior, KindId, Quantity, Timestamp};
use serde_json::{Map, Value};

use super::{ApiServer, EventType, write::Write};
use crate::{
    StoredObject,
    object::list,
    status::{self, RefusedBy, Result},
    types::qos::{self, Amounts},
};

/// A refusal names the containers that lack a request or limit.
const CONTAINERS_ARE_NAMED: Behavior = Behavior::since_about(24, "kubernetes #107210");
/// The containers of a pod with resources of its own need none.
const PODS_HAVE_RESOURCES: Behavior = Behavior::since(34, 0, "the feature gate PodLevelResources is on");
const RESIZES_ARE_CHARGED: Behavior =
    Behavior::since(33, 0, "the feature gate InPlacePodVerticalScaling is on");
/// A scope selects claims by their class of attributes.
const CLAIMS_HAVE_SCOPES: Behavior = Behavior::since(34, 0, "the feature gate VolumeAttributesClass is on");

/// Core resources that are counted by their plain name, too.
const COUNTED_BY_NAME: [&str; 4] = [
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
];
/// The amounts that each container must state if a quota limits them.
const STATED_BY_CONTAINERS: [&str; 6] = [
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];
const STORAGE: &str = "requests.storage";
const CLAIMS: &str = "persistentvolumeclaims";
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

impl ApiServer {
    /// Refuses a request that would exceed a quota of its namespace, and charges the quotas otherwise.
    ///
    /// # Errors
    /// 403 with the name of the quota.
    pub(super) fn charge_quotas(&mut self, write: Write<'_>) -> Result<()> {
        let Write { new: object, old, .. } = write;
        let Some(quotas) = self.quotas_of(&object.meta.namespace) else {
            return Ok(());
        };
        let resource = self.resource(write.kind);
        let is_handled = match (&*resource.group, &*resource.resource, write.part.subresource()) {
            ("", "pods", "resize") => self.version.has(RESIZES_ARE_CHARGED),
            ("", "persistentvolumeclaims" | "services", "") => true,
            (_, _, "") => old.is_none(),
            _ => false,
        };
        if !is_handled {
            return Ok(());
        }
        let refuse = |quota: &StoredObject, why: String| {
            let refusal = status::forbidden(resource, &object.meta.name, &why, Vec::new());
            refusal.by(RefusedBy::Quota(Arc::clone(&quota.meta.name)))
        };
        let mut matching = Vec::new();
        for quota in &quotas {
            let hard = amounts(quota.at(&["status", "hard"]));
            let names = hard.keys().map(String::as_str);
            let limited: BTreeSet<&str> = names.filter(|name| is_counted(resource, name)).collect();
            if limited.is_empty() || !self.is_in_scope(quota, resource, object) {
                continue;
            }
            let name = &quota.meta.name;
            if let Some(missing) = self.missing_amounts(resource, object, &limited) {
                let why = format!("failed quota: {name}: must specify {missing}");
                return Err(refuse(quota, why));
            }
            let used = amounts(quota.at(&["status", "used"]));
            if limited.iter().any(|name| !used.contains_key(*name)) {
                let names = Vec::from_iter(limited).join(",");
                let why = format!("status unknown for quota: {name}, resources: {names}");
                return Err(refuse(quota, why));
            }
            matching.push((quota, hard, used));
        }
        let mut added = usage(resource, object, self.now);
        if let Some(old) = old {
            for (name, amount) in usage(resource, old, self.now) {
                let rest = added.entry(name).or_default();
                *rest = rest.plus(amount.negated());
            }
        }
        added.retain(|_, amount| *amount > Quantity::default());
        let mut charged = Vec::new();
        for (quota, hard, used) in matching {
            let requested = masked(&added, &hard);
            let after = sum(&used, &requested);
            let mut exceeded = masked(&hard, &requested);
            exceeded.retain(|name, limit| after[name] > *limit);
            if !exceeded.is_empty() {
                let why = format!(
                    "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                    quota.meta.name,
                    shown(&masked(&requested, &exceeded)),
                    shown(&masked(&used, &exceeded)),
                    shown(&exceeded)
                );
                return Err(refuse(quota, why));
            }
            if !requested.is_empty() {
                charged.push((Arc::clone(quota), after));
            }
        }
        // Otherwise the stored object counts when it is committed.
        if !self.settings.quota_controller {
            for (quota, used) in charged {
                self.set_used(&quota, &used);
            }
        }
        Ok(())
    }

    /// The quotas of a namespace, by name; `None` if there are none.
    fn quotas_of(&self, namespace: &str) -> Option<Vec<Arc<StoredObject>>> {
        if namespace.is_empty() {
            return None;
        }
        let quotas = self.table_of("resourcequotas")?.list(Some(namespace));
        Some(quotas).filter(|quotas| !quotas.is_empty())
    }

    /// Adjusts the usage of quotas to a write of an object, as soon as the controller `resourcequota` would.
    pub(super) fn adjust_quotas(
        &mut self,
        kind: KindId,
        old: Option<&StoredObject>,
        new: Option<&StoredObject>,
    ) {
        let Some(object) = new.or(old) else { return };
        let Some(quotas) = self.quotas_of(&object.meta.namespace) else {
            return;
        };
        for quota in quotas {
            let used = amounts(quota.at(&["status", "used"]));
            let resource = self.resource(kind);
            let of = |object: Option<&StoredObject>| {
                let counted = object.filter(|object| self.is_in_scope(&quota, resource, object));
                counted.map(|object| masked(&usage(resource, object, self.now), &used))
            };
            let removed = of(old).unwrap_or_default();
            let removed = removed.into_iter().map(|(name, amount)| (name, amount.negated()));
            let after = sum(&sum(&used, &of(new).unwrap_or_default()), &removed.collect());
            if after != used {
                self.set_used(&quota, &after);
            }
        }
    }

    /// Sets the status of a quota that is new or has other limits, as the controller `resourcequota` does.
    pub(super) fn sync_quota(&self, quota: &mut StoredObject) {
        let limits = quota.at(&["spec", "hard"]).cloned().unwrap_or_default();
        if quota.at(&["status", "hard"]) == Some(&limits) {
            return;
        }
        let names = amounts(Some(&limits)).into_keys();
        let mut used: Amounts = names.map(|name| (name, Quantity::default())).collect();
        let kinds = self.shape.tables.iter().map(|table| table.watched_as);
        for kind in kinds.filter(|kind| self.resource(*kind).is_namespaced()) {
            let resource = self.resource(kind);
            if !used.keys().any(|name| is_counted(resource, name)) {
                continue;
            }
            for object in self.objects(kind, Some(&quota.meta.namespace)) {
                if self.is_in_scope(quota, resource, &object) {
                    used = sum(&used, &masked(&usage(resource, &object, self.now), &used));
                }
            }
        }
        let status = Map::from_iter([("hard".to_owned(), limits), ("used".to_owned(), json(&used))]);
        quota.body_mut().insert("status".to_owned(), status.into());
    }

    fn set_used(&mut self, quota: &StoredObject, used: &Amounts) {
        let kind = self.shape.catalog.by_resource("", "v1", "resourcequotas");
        let mut quota = quota.clone();
        let status = quota.body_mut().get_mut("status").and_then(Value::as_object_mut);
        if let (Some(status), Some(kind)) = (status, kind) {
            status.insert("used".to_owned(), json(used));
            self.commit(kind, quota, EventType::Modified);
        }
    }

    /// Whether all scopes of a quota select an object. Scopes select pods and claims only.
    fn is_in_scope(&self, quota: &StoredObject, resource: &ApiResource, object: &StoredObject) -> bool {
        let scopes = quota.list_at(&["spec", "scopes"]).iter();
        let scopes = scopes.map(|scope| (scope.as_str().unwrap_or_default(), "Exists", None));
        let selected = quota.list_at(&["spec", "scopeSelector", "matchExpressions"]);
        let selected = selected.iter().map(|one| {
            let text = |key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default();
            (text("scopeName"), text("operator"), one.get("values"))
        });
        let is_pod = resource.group.is_empty() && &*resource.resource == "pods";
        let is_claim = resource.group.is_empty() && &*resource.resource == CLAIMS;
        scopes.chain(selected).all(|(scope, operator, values)| {
            let deadline = object
                .at(&["spec", "activeDeadlineSeconds"])
                .and_then(Value::as_i64);
            let of_class = |class: &str| {
                let mut values = values.and_then(Value::as_array).into_iter().flatten();
                match operator {
                    "Exists" => !class.is_empty(),
                    "DoesNotExist" => class.is_empty(),
                    "In" => values.any(|value| value == class),
                    _ => !values.any(|value| value == class),
                }
            };
            let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
            match scope {
                "Terminating" => is_pod && deadline.is_some_and(|seconds| seconds >= 0),
                "NotTerminating" => is_pod && deadline.is_none_or(|seconds| seconds < 0),
                "BestEffort" => is_pod && qos::class(spec) == "BestEffort",
                "NotBestEffort" => is_pod && qos::class(spec) != "BestEffort",
                "PriorityClass" => is_pod && of_class(object.text_at(&["spec", "priorityClassName"])),
                "CrossNamespacePodAffinity" => is_pod && names_other_namespaces(object),
                "VolumeAttributesClass" if self.version.has(CLAIMS_HAVE_SCOPES) => {
                    is_claim && of_class(object.text_at(&["spec", "volumeAttributesClassName"]))
                }
                _ => false,
            }
        })
    }

    /// The limited amounts that a container of a pod must state and does not, as a refusal lists them.
    fn missing_amounts(
        &self,
        resource: &ApiResource,
        pod: &StoredObject,
        limited: &BTreeSet<&str>,
    ) -> Option<String> {
        let has_own = pod.at(&["spec", "resources"]).is_some() && self.version.has(PODS_HAVE_RESOURCES);
        if !resource.group.is_empty() || &*resource.resource != "pods" || has_own {
            return None;
        }
        let mut missing = BTreeMap::<&str, BTreeSet<&str>>::new();
        let containers = ["containers", "initContainers"];
        for container in containers
            .into_iter()
            .flat_map(|list| pod.list_at(&["spec", list]))
        {
            let [requests, limits] = ["requests", "limits"].map(|which| qos::amounts(container, which));
            let stated = computed(&requests, &limits);
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            for amount in STATED_BY_CONTAINERS {
                if limited.contains(amount) && !stated.contains_key(amount) {
                    missing.entry(amount).or_default().insert(name);
                }
            }
        }
        if missing.is_empty() {
            return None;
        }
        if !self.version.has(CONTAINERS_ARE_NAMED) {
            return Some(Vec::from_iter(missing.into_keys()).join(","));
        }
        let lines = missing
            .into_iter()
            .map(|(amount, names)| format!("{amount} for: {}", Vec::from_iter(names).join(",")));
        Some(Vec::from_iter(lines).join("; "))
    }
}

/// The limit of the number of objects of a resource. Events are not limited.
fn count_of(resource: &ApiResource) -> Option<String> {
    let is_event = matches!(&*resource.group, "" | "events.k8s.io") && &*resource.resource == "events";
    (!is_event).then(|| format!("count/{}", resource.qualified_resource()))
}

/// Whether objects of a resource can count towards a limit of this name.
fn is_counted(resource: &ApiResource, name: &str) -> bool {
    if count_of(resource).is_some_and(|count| count == name) {
        return true;
    }
    match &*resource.resource {
        _ if !resource.group.is_empty() => false,
        "pods" => {
            let computed = name
                .strip_prefix("requests.")
                .or_else(|| name.strip_prefix("limits."))
                .unwrap_or(name);
            let is_extended = name.starts_with("requests.") && computed.contains('/');
            matches!(computed, "cpu" | "memory" | "ephemeral-storage")
                || computed.starts_with("hugepages-") && !name.starts_with("limits.")
                || name == "pods"
                || is_extended
        }
        CLAIMS => {
            let of_class = name.split_once(OF_CLASS).map(|(_, name)| name);
            matches!(of_class.unwrap_or(name), CLAIMS | STORAGE)
        }
        "services" => matches!(name, "services" | "services.loadbalancers" | "services.nodeports"),
        resource => name == resource && COUNTED_BY_NAME.contains(&resource),
    }
}

/// The amounts that one object counts for.
fn usage(resource: &ApiResource, object: &StoredObject, now: Timestamp) -> Amounts {
    let one = Quantity::decimal_si(1);
    let mut counts: Amounts = count_of(resource).into_iter().map(|name| (name, one)).collect();
    if !resource.group.is_empty() {
        return counts;
    }
    match &*resource.resource {
        "pods" if !has_ended(object, now) => {
            let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
            let [requests, limits] = ["requests", "limits"].map(|which| qos::amounts_of_pod(spec, which));
            counts.insert("pods".to_owned(), one);
            counts.extend(computed(&requests, &limits));
        }
        CLAIMS => {
            let class = object.text_at(&["spec", "storageClassName"]);
            let annotated = object.text_at(&[
                "metadata",
                "annotations",
                "volume.beta.kubernetes.io/storage-class",
            ]);
            let class = if annotated.is_empty() { class } else { annotated };
            let requests = amounts(object.at(&["spec", "resources", "requests"]));
            let storage = requests.get("storage").map(|amount| (STORAGE, *amount));
            for (name, amount) in [(CLAIMS, one)].into_iter().chain(storage) {
                counts.insert(name.to_owned(), amount);
                if !class.is_empty() {
                    counts.insert(format!("{class}{OF_CLASS}{name}"), amount);
                }
            }
        }
        "services" => {
            let kind = object.text_at(&["spec", "type"]);
            let ports = object.list_at(&["spec", "ports"]).iter();
            let allocates =
                object.at(&["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false));
            let takes_all = kind == "NodePort" || kind == "LoadBalancer" && allocates;
            let has_port =
                |port: &&Value| port.get("nodePort").and_then(Value::as_i64).unwrap_or_default() != 0;
            let ports = match takes_all || kind == "LoadBalancer" {
                true => ports.filter(|port| takes_all || has_port(port)).count(),
                false => 0,
            };
            let balanced = i64::from(kind == "LoadBalancer");
            let ports = i64::try_from(ports).unwrap_or(i64::MAX);
            for (name, count) in [("", 1), (".loadbalancers", balanced), (".nodeports", ports)] {
                counts.insert(format!("services{name}"), Quantity::decimal_si(count));
            }
        }
        name if COUNTED_BY_NAME.contains(&name) => {
            counts.insert(name.to_owned(), one);
        }
        _ => {}
    }
    counts
}

/// Whether a pod no longer counts: it has finished, or its grace period is over.
fn has_ended(pod: &StoredObject, now: Timestamp) -> bool {
    let is_finished = matches!(pod.text_at(&["status", "phase"]), "Succeeded" | "Failed");
    // The deletion timestamp is the end of the grace period.
    let is_overdue = pod.meta.deletion_grace_period_seconds.is_some()
        && pod.meta.deletion_timestamp.is_some_and(|end| now > end);
    is_finished || is_overdue
}

/// The requests and limits of a container or pod by the names that quotas limit.
fn computed(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut counts = Amounts::new();
    for (name, amount) in requests {
        let is_plain =
            matches!(&**name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if is_plain {
            counts.insert(name.clone(), *amount);
        }
        if is_plain || name.contains('/') {
            counts.insert(format!("requests.{name}"), *amount);
        }
    }
    for (name, amount) in limits {
        if matches!(&**name, "cpu" | "memory" | "ephemeral-storage") {
            counts.insert(format!("limits.{name}"), *amount);
        }
    }
    counts
}

/// Whether an affinity of a pod selects pods of other namespaces.
fn names_other_namespaces(pod: &StoredObject) -> bool {
    let terms = |affinity: &str, list: &str| pod.list_at(&["spec", "affinity", affinity, list]).iter();
    ["podAffinity", "podAntiAffinity"].into_iter().any(|affinity| {
        let required = terms(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = terms(affinity, "preferredDuringSchedulingIgnoredDuringExecution");
        let mut terms = required.chain(preferred.filter_map(|one| one.get("podAffinityTerm")));
        terms.any(|term| {
            list(term, "namespaces").next().is_some()
                || term.get("namespaceSelector").is_some_and(Value::is_object)
        })
    })
}

fn amounts(list: Option<&Value>) -> Amounts {
    let entries = list.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(name, amount)| {
            let amount = match amount {
                Value::String(text) => Quantity::parse(text),
                amount => amount.as_i64().map(Quantity::decimal_si),
            };
            Some((name.clone(), amount?))
        })
        .collect()
}

fn json(amounts: &Amounts) -> Value {
    let entries = amounts
        .iter()
        .map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(entries.collect())
}

/// The amounts whose names `names` has, too.
fn masked(amounts: &Amounts, names: &Amounts) -> Amounts {
    let entries = amounts.iter().filter(|(name, _)| names.contains_key(*name));
    entries.map(|(name, amount)| (name.clone(), *amount)).collect()
}

fn sum(one: &Amounts, other: &Amounts) -> Amounts {
    let mut all = one.clone();
    qos::add(&mut all, other);
    all
}

/// The amounts as refusals list them.
fn shown(amounts: &Amounts) -> String {
    let entries = amounts.iter().map(|(name, amount)| format!("{name}={amount}"));
    Vec::from_iter(entries).join(",")
}
