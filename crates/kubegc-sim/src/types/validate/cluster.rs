//! Nodes, namespaces, limit ranges, quotas, events, leases.
//!
//! # Upstream
//! `pkg/apis/core/validation/validation.go` and `events.go`, `pkg/apis/coordination/validation`, 1.20.2.

use std::collections::BTreeSet;

use kubegc_core::{Behavior, Quantity, version::behavior::VALUES_ARE_JSON};
use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::{
    amounts::{STANDARD_RESOURCES, container_resource, quantity, resource_name, shown_resource},
    go_syntax,
    networking::{legacy_cidr_problem, parse_cidr},
    scheduling::{taint_effect, tolerations},
    selector::labels,
};
use crate::{StoredObject, formats, status::quoted};

type Object = Map<String, Value>;

/// `validateNodeTaints`.
fn taints(body: &Object, c: &mut Check) {
    let taints = At {
        value: At::root(body, "spec").get("taints").value,
        path: At::root(body, "metadata").get("taints").path,
    };
    let mut seen = BTreeSet::new();
    for taint in taints.items() {
        let (value, effect) = (taint.get("value"), taint.get("effect"));
        taint.get("key").qualified_name(c);
        let problems = formats::label_value(c.version, value.text());
        if !problems.is_empty() {
            value.invalid(c, &problems.join(";"));
        }
        if effect.text().is_empty() {
            effect.required(c, "");
        } else {
            taint_effect(&effect, c);
        }
        if !seen.insert((taint.get("key").text(), effect.text())) {
            let shown = go_syntax::value(c.version, taint.value, "core.Taint");
            taint.duplicate_as(
                c,
                &format!("{shown}: taints must be unique by key and effect pair"),
            );
        }
    }
}

/// `ValidateNode`.
pub(super) fn node(body: &Object, c: &mut Check) {
    taints(body, c);
    resources(body, c);
    pod_ranges(&At::root(body, "spec").get("podCIDRs"), c);
}

/// `ValidateNodeResources`.
fn resources(body: &Object, c: &mut Check) {
    let status = At::root(body, "status");
    for list in ["capacity", "allocatable"] {
        let list = status.get(list);
        for (name, amount) in list.entries() {
            let amount = At {
                value: amount.value,
                path: list.get(name).path,
            };
            quantity(name, &amount, c);
        }
    }
}

fn pod_ranges(ranges: &At<'_>, c: &mut Check) {
    let all: Vec<&str> = ranges.items().map(|range| range.text()).collect();
    let shown = super::go_strings(c.version, &all);
    let mut families: Vec<bool> = Vec::new();
    for range in ranges.items() {
        let parsed = parse_cidr(range.text());
        families.extend(parsed.map(|(address, _)| address.is_ipv6()));
        if !c.since(30) {
            if parsed.is_none() {
                range.invalid_as(c, &shown, "must be valid CIDR");
            }
        } else if let Some(problem) = legacy_cidr_problem(range.text(), c) {
            range.invalid(c, &problem);
        }
    }
    if all.len() > 2 || matches!(families[..], [first, second] if first == second) {
        ranges.invalid_as(c, &shown, "may specify no more than one CIDR for each IP family");
    }
    for (index, range) in ranges.items().enumerate() {
        // Since 1.33, the message about families covers duplicates.
        if !c.since(33) && all[..index].contains(&range.text()) {
            range.duplicate(c);
        }
    }
}

/// `ValidateNodeUpdate`.
pub(super) fn node_updated(body: &Object, old: &Object, c: &mut Check) {
    resources(body, c);
    let (spec, old) = (At::root(body, "spec"), At::root(old, "spec"));
    let addresses = At::root(body, "status").get("addresses");
    let mut seen: Vec<&Value> = Vec::new();
    for address in addresses.items() {
        if seen.contains(&address.value) {
            address.duplicate_typed(c, "core.NodeAddress");
        }
        seen.push(address.value);
    }
    const RANGES: &str = "node updates may not change podCIDR except from \"\" to valid";
    let (new_ranges, old_ranges) = (spec.get("podCIDRs"), old.get("podCIDRs"));
    if !old_ranges.is_empty() {
        if old_ranges.len() == new_ranges.len() {
            let changed = old_ranges
                .items()
                .zip(new_ranges.items())
                .filter(|(old, new)| old.text() != new.text());
            for _ in changed {
                new_ranges.forbidden(c, RANGES);
            }
        } else {
            new_ranges.forbidden(c, RANGES);
        }
    }
    let provider = old.get("providerID");
    if !provider.text().is_empty() && provider.text() != spec.get("providerID").text() {
        let problem = "node updates may not change providerID except from \"\" to valid";
        spec.get("providerID").forbidden(c, problem);
    }
    taints(body, c);
    if spec.get("externalID").text() != old.get("externalID").text() {
        spec.get("externalID").forbidden(c, "may not be updated");
    }
}

/// `ValidateNamespace`: the finalizers of the spec.
pub(super) fn namespace(body: &Object, with_position: bool, c: &mut Check) {
    let finalizers = At::root(body, "spec").get("finalizers");
    for finalizer in finalizers.items() {
        let at = if with_position { &finalizer } else { &finalizers };
        for problem in formats::qualified_name(c.version, finalizer.text()) {
            at.invalid_as(c, &finalizer.shown(), &problem);
        }
        let is_known = matches!(finalizer.text(), "kubernetes" | "orphan" | "foregroundDeletion");
        if !finalizer.text().contains('/') && !is_known {
            let problem = "name is neither a standard finalizer name nor is it fully qualified";
            at.invalid_as(c, &finalizer.shown(), problem);
        }
    }
}

/// `ValidateNamespaceStatusUpdate`.
pub(super) fn namespace_status(namespace: &StoredObject, body: &Object, c: &mut Check) {
    let phase = At::root(body, "status").get("phase");
    let named = At::root(body, "status").get("Phase");
    let shown = quoted(phase.text());
    if namespace.meta.is_deleting() {
        if phase.text() != "Terminating" {
            let problem = "may only be 'Terminating' if `deletionTimestamp` is not empty";
            named.invalid_as(c, &shown, problem);
        }
    } else if phase.text() != "Active" {
        named.invalid_as(c, &shown, "may only be 'Active' if `deletionTimestamp` is empty");
    }
}

fn limit_resource(kind: &str, name: &str, at: &At<'_>, c: &mut Check) {
    if matches!(kind, "Pod" | "Container") {
        container_resource(name, at, c);
    } else {
        resource_name(name, at, c);
    }
}

/// `ValidateLimitRange`.
pub(super) fn limit_range(body: &Object, c: &mut Check) {
    let mut kinds: Vec<&str> = Vec::new();
    for limit in At::root(body, "spec").get("limits").items() {
        let at = limit.get("type");
        let kind = at.text();
        let problems = formats::qualified_name(c.version, kind);
        if !problems.is_empty() {
            for problem in problems {
                at.invalid_as(c, &quoted(kind), &problem);
            }
        } else if !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") {
            at.invalid(c, "must be a standard limit type or fully qualified");
        }
        if kinds.contains(&kind) {
            at.duplicate_as(c, &quoted(kind));
        }
        kinds.push(kind);
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            let amounts = limit.get(list);
            if kind == "Pod" && list.starts_with("default") {
                if !amounts.is_empty() {
                    amounts.forbidden(c, "may not be specified when `type` is 'Pod'");
                }
                continue;
            }
            if list == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
                let has = |list: &str| limit.get(list).key("storage").is_set();
                if !has("min") && !has("max") {
                    let problem =
                        "either minimum or maximum storage value is required, but neither was provided";
                    limit.get("limits").required(c, problem);
                }
            }
            for (name, amount) in amounts.entries() {
                limit_resource(kind, name, &amount, c);
                names.insert(name);
            }
        }
        for name in names {
            limit_amounts(&limit, kind, name, c);
        }
    }
}

/// Validates the bounds and defaults of one resource against each other.
fn limit_amounts(limit: &At<'_>, kind: &str, name: &str, c: &mut Check) {
    let amount = |list: &str| {
        let is_ignored = kind == "Pod" && list.starts_with("default");
        Quantity::parse(limit.get(list).key(name).text()).filter(|_| !is_ignored)
    };
    let (min, max) = (amount("min"), amount("max"));
    let (default, request) = (amount("default"), amount("defaultRequest"));
    let invalid = |list: &str, shown: Option<Quantity>, problem: String, c: &mut Check| {
        // The API server formatted the quantity before, so the dump of it contains the text.
        let field = limit.get(list).key(name);
        let shown = go_syntax::formatted_quantity(c.version, &shown.unwrap_or_default());
        field.invalid_as(c, &shown, &problem);
    };
    let (min, max) = (("min value", min), ("max value", max));
    let request = ("default request value", request);
    // The smaller amount, the greater one, the field of the error and the amount that it shows.
    for (low, high, list, shown) in [
        (min, max, "min", min),
        (min, request, "defaultRequest", request),
        (request, max, "defaultRequest", request),
        (
            request,
            ("default limit value", default),
            "defaultRequest",
            request,
        ),
        (min, ("default value", default), "default", min),
        (("default value", default), max, "default", max),
    ] {
        if let ((low, Some(least)), (high, Some(most))) = (low, high)
            && least > most
        {
            let problem = format!("{low} {least} is greater than {high} {most}");
            invalid(list, shown.1, problem, c);
        }
    }
    let bounds = min.1.zip(max.1);
    if let Some(ratio) = amount("maxLimitRequestRatio") {
        if ratio < Quantity::decimal_si(1) {
            let problem = format!("ratio {ratio} is less than 1");
            invalid("maxLimitRequestRatio", Some(ratio), problem, c);
        }
        if let Some((min, max)) = bounds {
            let bound = max.as_f64() / min.as_f64();
            if ratio.as_f64() > bound {
                let problem = format!("ratio {ratio} is greater than max/min = {bound:.6}");
                invalid("maxLimitRequestRatio", Some(ratio), problem, c);
            }
        }
    }
    let (_, request) = request;
    if let Some((default, request)) = default.zip(request)
        && default != request
        && !may_be_overcommitted(name)
    {
        let problem =
            format!("default value {default} must equal to defaultRequest value {request} in {name}");
        invalid("defaultRequest", Some(request), problem, c);
    }
}

/// Whether containers may request less of a resource than their limit.
fn may_be_overcommitted(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    is_native && !name.starts_with("hugepages-")
}

/// Whether quotas support a resource.
fn is_quota_resource(name: &str) -> bool {
    (name != "storage" && STANDARD_RESOURCES.contains(&name))
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

fn hard(at: &At<'_>, c: &mut Check) {
    for (name, amount) in at.entries() {
        resource_name(name, &amount, c);
        if !name.contains('/') && !is_quota_resource(name) {
            let shown = shown_resource(c.version, name);
            amount.invalid_as(c, &shown, "must be a standard resource for quota");
        }
        quantity(name, &amount, c);
    }
}

const SCOPES: [&str; 5] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
];

/// Quotas bound the claims of a class of volume attributes.
const CLAIMS_HAVE_A_SCOPE: Behavior = Behavior::since_about(34, "the scope VolumeAttributesClass of 1.34");

fn is_scope(scope: &str, c: &Check) -> bool {
    SCOPES.contains(&scope)
        || scope == "CrossNamespacePodAffinity" && c.since(22)
        || scope == "VolumeAttributesClass" && c.version.has(CLAIMS_HAVE_A_SCOPE)
}

/// Whether a quota of this scope can bound this resource.
fn fits_scope(scope: &str, name: &str) -> bool {
    const COMPUTE: [&str; 6] = [
        "cpu",
        "memory",
        "limits.cpu",
        "limits.memory",
        "requests.cpu",
        "requests.memory",
    ];
    match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => name == "pods" || COMPUTE.contains(&name),
        _ => true,
    }
}

fn scopes_shown(at: &At<'_>, c: &Check) -> String {
    go_syntax::value(c.version, at.decoded(c), "[]core.ResourceQuotaScope")
}

/// `ValidateResourceQuota`.
pub(super) fn quota(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    hard(&spec.get("hard"), c);
    let scopes = spec.get("scopes");
    let names: Vec<&str> = spec.get("hard").entries().map(|(name, _)| name).collect();
    let given: Vec<&str> = scopes.items().map(|scope| scope.text()).collect();
    for scope in &given {
        if !is_scope(scope, c) {
            scopes.invalid_as(c, &scopes_shown(&scopes, c), "unsupported scope");
        }
        for name in &names {
            if is_quota_resource(name) && !fits_scope(scope, name) {
                scopes.invalid_as(
                    c,
                    &scopes_shown(&scopes, c),
                    "unsupported scope applied to resource",
                );
            }
        }
    }
    conflicting(&given, &scopes, c);
    let selector = spec.get("scopeSelector");
    let expressions = selector.get("matchExpressions");
    let mut selected: Vec<&str> = Vec::new();
    for expression in expressions.items() {
        let (scope, operator) = (
            expression.get("scopeName").text(),
            expression.get("operator").text(),
        );
        if !is_scope(scope, c) {
            expressions
                .get("scopeName")
                .invalid_as(c, &quoted(scope), "unsupported scope");
        }
        for name in &names {
            if is_quota_resource(name) && !fits_scope(scope, name) {
                let shown = go_syntax::value(c.version, selector.value, "core.ScopeSelector");
                expressions.invalid_as(c, &shown, "unsupported scope applied to resource");
            }
        }
        let has_values = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if !has_values && is_scope(scope, c) && operator != "Exists" {
            let mut problem = "must be 'Exist' only operator when scope is any of ResourceQuotaScopeTerminating, \
                           ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort and ResourceQuotaScopeNotBestEffort";
            if c.since(22) {
                problem = "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, \
                           ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort \
                           or ResourceQuotaScopeCrossNamespacePodAffinity";
            }
            let problem = match c.since(31) {
                true => problem.replacen("'Exist'", "'Exists'", 1),
                false => problem.to_owned(),
            };
            expressions
                .get("operator")
                .invalid_as(c, &quoted(operator), &problem);
        }
        let values = expression.get("values");
        match operator {
            "In" | "NotIn" => {
                if values.is_empty() {
                    let problem =
                        "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                    expressions.get("values").required(c, problem);
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let shown = go_syntax::value(c.version, values.value, "[]string");
                    let problem =
                        "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                    expressions.get("values").invalid_as(c, &shown, problem);
                }
            }
            _ => {
                expressions
                    .get("operator")
                    .invalid_as(c, &quoted(operator), "not a valid selector operator")
            }
        }
        selected.push(scope);
    }
    let named = At {
        value: scopes.value,
        path: expressions.path.clone(),
    };
    conflicting(&selected, &named, c);
    quota_status(body, c);
}

fn conflicting(given: &[&str], at: &At<'_>, c: &mut Check) {
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| given.contains(scope)) {
            at.invalid_as(c, &scopes_shown(at, c), "conflicting scopes");
        }
    }
}

/// `ValidateResourceQuotaUpdate`, except `ValidateResourceQuota`.
pub(super) fn quota_updated(body: &Object, old: &Object, c: &mut Check) {
    let scopes = At::root(body, "spec").get("scopes");
    let set = |at: &At<'_>| {
        at.items()
            .map(|scope| scope.text().to_owned())
            .collect::<BTreeSet<_>>()
    };
    if set(&scopes) != set(&At::root(old, "spec").get("scopes")) {
        scopes.invalid_as(c, &scopes_shown(&scopes, c), "field is immutable");
    }
}

/// `ValidateResourceQuotaStatus`.
pub(super) fn quota_status(body: &Object, c: &mut Check) {
    let status = At::root(body, "status");
    hard(&status.get("hard"), c);
    hard(&status.get("used"), c);
}

/// Events of objects without a namespace may be in the namespace `default`.
const DEFAULT_HAS_EVENTS_OF_THE_CLUSTER: Behavior = Behavior::since_about(21, "kubernetes #100125");

/// The problems of every event, and of a new one that must be valid by the strict rules.
///
/// # Upstream
/// `legacyValidateEvent` and `ValidateEventCreate`.
pub(super) fn event(event: &StoredObject, body: &Object, is_of_group: bool, is_new: bool, c: &mut Check) {
    let own = &*event.meta.namespace;
    let involved = At::root(body, "involvedObject").get("namespace");
    let mismatch = |c: &mut Check| {
        involved.invalid_as(c, &quoted(involved.text()), "does not match event.namespace");
    };
    let text = |key: &str| At::root(body, key).text();
    if body.get("eventTime").is_none_or(Value::is_null) {
        let fits = if involved.text().is_empty() {
            matches!(own, "" | "default")
        } else {
            own == involved.text()
        };
        if !fits {
            mismatch(c);
        }
    } else {
        let is_of_cluster = match own {
            "default" => !c.since(20) || c.version.has(DEFAULT_HAS_EVENTS_OF_THE_CLUSTER),
            "kube-system" => c.since(20),
            _ => false,
        };
        if involved.text().is_empty() && !is_of_cluster {
            mismatch(c);
        }
        let controller = text("reportingComponent");
        // The name of the field, which differed from that of `v1` until 1.25.
        let name = match c.since(25) && !is_of_group {
            true => "reportingComponent",
            false => "reportingController",
        };
        let at = At::root(body, name);
        if controller.is_empty() {
            at.required(c, "");
        }
        for problem in formats::qualified_name(c.version, controller) {
            at.invalid_as(c, &quoted(controller), &problem);
        }
        for (key, max) in [
            ("reportingInstance", 128),
            ("action", 128),
            ("reason", 128),
            ("message", 1024),
        ] {
            if text(key).is_empty() && key != "message" {
                At::root(body, key).required(c, "");
            }
            if text(key).len() > max {
                At::root(body, key).invalid_as(c, "\"\"", &format!("can have at most {max} characters"));
            }
        }
    }
    for problem in formats::subdomain(c.version, own) {
        At::root(body, "namespace").invalid_as(c, &quoted(own), &problem);
    }
    if is_of_group && is_new {
        strict_event(body, c);
    }
}

fn strict_event(body: &Object, c: &mut Check) {
    event_series(body, c);
    if body.get("eventTime").is_none_or(Value::is_null) {
        At::root(body, "eventTime").required(c, "");
    }
    let kind = At::root(body, "type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        kind.invalid_as(c, "\"\"", &format!("has invalid value: {}", kind.text()));
    }
    for key in ["firstTimestamp", "lastTimestamp", "count"] {
        let is_zero = body
            .get(key)
            .is_none_or(|value| value.is_null() || value.as_i64() == Some(0));
        if !is_zero {
            At::root(body, key).invalid_as(c, "\"\"", "needs to be unset");
        }
    }
    let source = At::root(body, "source");
    if !source.is_empty() {
        source.invalid_as(c, "\"\"", "needs to be unset");
    }
}

fn event_series(body: &Object, c: &mut Check) {
    let series = At::root(body, "series");
    if series.is_set() {
        if series.get("count").number() < 2 {
            At::root(body, "series.count").invalid_as(c, "\"\"", "should be at least 2");
        }
        if !series.get("lastObservedTime").is_set() {
            At::root(body, "series.lastObservedTime").required(c, "");
        }
    }
}

/// A time of an event, as the errors of a release print it.
fn event_time(time: &At<'_>, c: &Check) -> String {
    let text = time.text();
    match (c.version.has(VALUES_ARE_JSON), text) {
        (true, "") => "null".to_owned(),
        (true, text) => quoted(text),
        (false, "") => "0001-01-01 00:00:00 +0000 UTC".to_owned(),
        (false, text) => {
            let text = text.trim_end_matches('Z').replacen('T', " ", 1);
            format!("{text} +0000 UTC")
        }
    }
}

/// `ValidateEventUpdate` of `events.k8s.io/v1`, after the checks of every event.
pub(super) fn strict_event_updated(body: &Object, old: &Object, c: &mut Check) {
    const TIME: &str = "time";
    const REFERENCE: &str = "core.ObjectReference";
    if body.get("series") != old.get("series") {
        event_series(body, c);
    }
    for (key, named, ty) in [
        ("involvedObject", "involvedObject", REFERENCE),
        ("reason", "reason", "string"),
        ("message", "message", "string"),
        ("source", "source", "core.EventSource"),
        ("firstTimestamp", "firstTimestamp", TIME),
        ("lastTimestamp", "lastTimestamp", TIME),
        ("count", "count", "int32"),
        ("reason", "reason", "string"),
        ("type", "type", "string"),
        ("eventTime", "eventTime", TIME),
        ("action", "action", "string"),
        ("related", "related", REFERENCE),
        ("reportingComponent", "reportingController", "string"),
        ("reportingInstance", "reportingInstance", "string"),
    ] {
        if body.get(key) == old.get(key) {
            continue;
        }
        let new = At::root(body, key);
        let shown = match ty {
            TIME => event_time(&new, c),
            REFERENCE if !new.is_set() => match c.version.has(VALUES_ARE_JSON) {
                true => "null".to_owned(),
                false => "\"null\"".to_owned(),
            },
            _ => go_syntax::value(c.version, new.value, ty),
        };
        At::root(body, named).invalid_as(c, &shown, "field is immutable");
    }
}

/// Classes of runtimes need a handler.
const HANDLERS_ARE_REQUIRED: Behavior = Behavior::since(36, 0, "ValidateRuntimeClass of 1.36");

/// `ValidateRuntimeClass`.
pub(super) fn runtime_class(body: &Object, c: &mut Check) {
    let handler = At::root(body, "handler");
    if handler.text().is_empty() && c.version.has(HANDLERS_ARE_REQUIRED) {
        handler.required(c, "");
    } else {
        handler.label(c);
    }
    let overhead = At::root(body, "overhead");
    for (name, amount) in overhead.get("podFixed").entries() {
        let limits = overhead.get("limits");
        let amount = At {
            value: amount.value,
            path: limits.key(name).path,
        };
        container_resource(name, &amount, c);
        quantity(name, &amount, c);
    }
    let scheduling = At::root(body, "scheduling");
    labels(&scheduling.get("nodeSelector"), c);
    let list = scheduling.get("tolerations");
    // Before, the name of the field was appended twice.
    let named = list.named("tolerations");
    tolerations(if c.since(35) { &list } else { &named }, c);
    let mut seen: Vec<[&str; 4]> = Vec::new();
    for toleration in list.items() {
        let own = ["key", "operator", "value", "effect"].map(|key| toleration.get(key).text());
        if seen.contains(&own) {
            toleration.duplicate_typed(c, "core.Toleration");
        }
        seen.push(own);
    }
}

/// `ValidateLeaseSpec`.
pub(super) fn lease(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    let (duration, transitions) = (spec.get("leaseDurationSeconds"), spec.get("leaseTransitions"));
    if duration.is_set() && duration.number() <= 0 {
        duration.invalid(c, "must be greater than 0");
    }
    if transitions.number() < 0 {
        let problem = match c.since(24) {
            true => "must be greater than or equal to 0",
            false => "must to greater or equal than 0",
        };
        transitions.invalid(c, problem);
    }
}
