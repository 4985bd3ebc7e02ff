//! Nodes, namespaces, limit ranges, quotas, events, leases.
//!
//! # Upstream
//! `pkg/apis/core/validation/validation.go` and `events.go`, `pkg/apis/coordination/validation`, 1.20.2.

use std::collections::BTreeSet;

use kubegc_core::{Behavior, Quantity};

use super::super::{
    field::{At, Check},
    go_syntax,
};
use super::amounts::{container_resource, is_quota_resource, resource_name};
use crate::{formats, status::quoted};

pub(super) fn pod_ranges(ranges: &At<'_>, c: &mut Check) {
    let all = ranges.texts();
    let shown = go_syntax::value(c.version, ranges.value, "[]string");
    let mut families: Vec<bool> = Vec::new();
    for range in ranges.items() {
        let parsed = formats::parse_cidr(range.text());
        families.extend(parsed.map(|(address, _)| address.is_ipv6()));
        if !c.since(30) {
            if parsed.is_none() {
                range.invalid_as(c, &shown, "must be valid CIDR");
            }
        } else {
            range.problems(c, formats::legacy_cidr(c.version, range.text()));
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

fn limit_resource(kind: &str, name: &str, at: &At<'_>, c: &mut Check) {
    if matches!(kind, "Pod" | "Container") {
        container_resource(name, at, c);
    } else {
        resource_name(name, at, c);
    }
}

/// The amounts of `ValidateLimitRange`.
pub(super) fn limit(limit: &At<'_>, c: &mut Check) {
    let kind = limit.get("type").text();
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
                let problem = "either minimum or maximum storage value is required, but neither was provided";
                limit.get("limits").required(c, problem);
            }
        }
        for (name, amount) in amounts.entries() {
            limit_resource(kind, name, &amount, c);
            names.insert(name);
        }
    }
    for name in names {
        limit_amounts(limit, kind, name, c);
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

/// Quotas bound the claims of a class of volume attributes.
const CLAIMS_HAVE_A_SCOPE: Behavior = Behavior::since_about(34, "the scope VolumeAttributesClass of 1.34");

fn is_scope(scope: &str, c: &Check) -> bool {
    match scope {
        "Terminating" | "NotTerminating" | "BestEffort" | "NotBestEffort" | "PriorityClass" => true,
        "CrossNamespacePodAffinity" => c.since(22),
        "VolumeAttributesClass" => c.version.has(CLAIMS_HAVE_A_SCOPE),
        _ => false,
    }
}

/// Whether a quota of this scope can bound this resource.
fn fits_scope(scope: &str, name: &str) -> bool {
    let compute = name
        .strip_prefix("limits.")
        .or_else(|| name.strip_prefix("requests."));
    let is_compute = || matches!(compute.unwrap_or(name), "cpu" | "memory");
    match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => name == "pods" || is_compute(),
        _ => true,
    }
}

fn scopes_shown(at: &At<'_>, c: &Check) -> String {
    go_syntax::value(c.version, at.decoded(c), "[]core.ResourceQuotaScope")
}

/// `ValidateResourceQuota`.
pub(super) fn quota(quota: &At<'_>, c: &mut Check) {
    let spec = quota.get("spec");
    let scopes = spec.get("scopes");
    let names = || spec.get("hard").entries().map(|(name, _)| name);
    let unfit = |scope: &str| {
        names()
            .filter(|name| is_quota_resource(name) && !fits_scope(scope, name))
            .count()
    };
    const UNSUPPORTED: &str = "unsupported scope";
    const UNFIT: &str = "unsupported scope applied to resource";
    let given = scopes.texts();
    for scope in &given {
        if !is_scope(scope, c) {
            scopes.invalid_as(c, &scopes_shown(&scopes, c), UNSUPPORTED);
        }
        for _ in 0..unfit(scope) {
            scopes.invalid_as(c, &scopes_shown(&scopes, c), UNFIT);
        }
    }
    conflicting(&given, &scopes, c);
    let selector = spec.get("scopeSelector");
    // Upstream omits the position of expressions.
    let expressions = selector.get("matchExpressions");
    let mut selected: Vec<&str> = Vec::new();
    for expression in expressions.items() {
        let scope = expression.get("scopeName").text();
        if !is_scope(scope, c) {
            let name = expressions.get("scopeName");
            name.invalid_as(c, &quoted(scope), UNSUPPORTED);
        }
        for _ in 0..unfit(scope) {
            expressions.invalid_as(
                c,
                &go_syntax::value(c.version, selector.value, "core.ScopeSelector"),
                UNFIT,
            );
        }
        selected.push(scope);
    }
    conflicting(&selected, &scopes.placed(&expressions), c);
}

fn conflicting(given: &[&str], at: &At<'_>, c: &mut Check) {
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| given.contains(scope)) {
            at.invalid_as(c, &scopes_shown(at, c), "conflicting scopes");
        }
    }
}

/// `ValidateResourceQuotaUpdate`, except `ValidateResourceQuota`.
pub(super) fn scopes_updated(scopes: &At<'_>, c: &mut Check) {
    let set = |at: &At<'_>| at.texts().into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    if set(scopes) != set(&c.old().get("spec").get("scopes")) {
        scopes.invalid_as(c, &scopes_shown(scopes, c), "field is immutable");
    }
}

/// A changed time of an event, as the errors of older releases print it.
pub(super) fn former_time(time: &At<'_>, c: &mut Check) {
    let shown = match time.text() {
        "" => "0001-01-01 00:00:00 +0000 UTC".to_owned(),
        text => text.trim_end_matches('Z').replacen('T', " ", 1) + " +0000 UTC",
    };
    time.invalid_as(c, &shown, "field is immutable");
}
