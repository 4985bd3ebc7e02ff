//! Limit ranges, quotas, events, and flow control.
//!
//! # Upstream
//! `pkg/apis/core/validation/validation.go` and `events.go`, 1.20.2, and `pkg/apis/flowcontrol/validation`,
//! 1.36.
//! The fixed values of mandatory objects of flow control are not compared.

use std::collections::BTreeSet;

use kubegc_core::{Behavior, Quantity};

use super::super::{
    field::{At, Check},
    go_syntax,
};
use super::amounts::{is_quota_resource, may_be_overcommitted};
use crate::{formats, status::quoted};

/// The amounts of `ValidateLimitRange`, whose names are validated.
pub(super) fn limit(limit: &At<'_>, c: &mut Check) {
    let lists = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let lists = lists.map(|list| limit.get(list));
    let names: BTreeSet<&str> = lists.iter().flat_map(At::entries).map(|(name, _)| name).collect();
    for name in names {
        limit_amounts(limit, name, c);
    }
}

/// The lesser amount, the greater one, and the field of the error.
const ORDERED: [(&str, &str, &str); 6] = [
    ("min", "max", "min"),
    ("min", "default request", "defaultRequest"),
    ("default request", "max", "defaultRequest"),
    ("default request", "default limit", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
];

/// Validates the bounds and defaults of one resource against each other.
fn limit_amounts(limit: &At<'_>, name: &str, c: &mut Check) {
    let is_pod = limit.get("type").text() == "Pod";
    let amount = |list: &str| {
        let is_ignored = is_pod && list.starts_with("default");
        Quantity::parse(limit.get(list).key(name).text()).filter(|_| !is_ignored)
    };
    let invalid = |list: &str, shown: Quantity, problem: String, c: &mut Check| {
        // The API server formatted the quantity before, so the dump of it contains the text.
        let shown = go_syntax::formatted_quantity(c.version, &shown);
        limit.get(list).key(name).invalid_as(c, &shown, &problem);
    };
    let named = |name: &str| match name {
        "default request" => amount("defaultRequest"),
        "default limit" => amount("default"),
        field => amount(field),
    };
    for (low, high, field) in ORDERED {
        if let (Some(least), Some(most)) = (named(low), named(high))
            && least > most
        {
            let is_high = high == "default request" || low == "default";
            let shown = if is_high { most } else { least };
            let problem = format!("{low} value {least} is greater than {high} value {most}");
            invalid(field, shown, problem, c);
        }
    }
    let bounds = amount("min").zip(amount("max"));
    if let Some(ratio) = amount("maxLimitRequestRatio") {
        if ratio < Quantity::decimal_si(1) {
            let problem = format!("ratio {ratio} is less than 1");
            invalid("maxLimitRequestRatio", ratio, problem, c);
        }
        if let Some((min, max)) = bounds {
            let bound = max.as_f64() / min.as_f64();
            if ratio.as_f64() > bound {
                let problem = format!("ratio {ratio} is greater than max/min = {bound:.6}");
                invalid("maxLimitRequestRatio", ratio, problem, c);
            }
        }
    }
    if let Some((default, request)) = amount("default").zip(amount("defaultRequest"))
        && default != request
        && !may_be_overcommitted(name)
    {
        let problem =
            format!("default value {default} must equal to defaultRequest value {request} in {name}");
        invalid("defaultRequest", request, problem, c);
    }
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

const UNSUPPORTED: &str = "unsupported scope";
const UNFIT: &str = "unsupported scope applied to resource";

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
    let given = scopes.texts();
    let shown = |c: &Check| scopes_shown(&scopes, c);
    for scope in &given {
        if !is_scope(scope, c) {
            scopes.invalid_as(c, &shown(c), UNSUPPORTED);
        }
        for _ in 0..unfit(scope) {
            scopes.invalid_as(c, &shown(c), UNFIT);
        }
    }
    conflicting(&given, &scopes, c);
    let selector = spec.get("scopeSelector");
    // Upstream omits the position of expressions.
    let expressions = selector.get("matchExpressions");
    let selected = expressions
        .items()
        .map(|expression| expression.get("scopeName").text());
    let selected: Vec<&str> = selected.collect();
    for scope in &selected {
        if !is_scope(scope, c) {
            let name = expressions.get("scopeName");
            name.invalid_as(c, &quoted(scope), UNSUPPORTED);
        }
        for _ in 0..unfit(scope) {
            let shown = go_syntax::value(c.version, selector.value, "core.ScopeSelector");
            expressions.invalid_as(c, &shown, UNFIT);
        }
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

/// `ValidateResourceQuotaUpdate`.
pub(super) fn scopes_differ(scopes: &At<'_>, c: &Check<'_>) -> bool {
    let set = |at: &At<'_>| at.texts().into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    set(scopes) != set(&At::of_object(scopes.old(c)))
}

/// A changed time of an event, as the errors of older releases print it.
pub(super) fn former_time(time: &At<'_>, c: &mut Check) {
    let shown = match time.text() {
        "" => "0001-01-01 00:00:00 +0000 UTC".to_owned(),
        text => text.trim_end_matches('Z').replacen('T', " ", 1) + " +0000 UTC",
    };
    time.invalid_as(c, &shown, "field is immutable");
}

/// The hands of shuffle sharding.
pub(super) fn hand_size(queuing: &At<'_>, c: &mut Check) {
    const ENTROPY_MAX: f64 = 60.0;
    let hand = queuing.get("handSize");
    let (queues, size) = (queuing.get("queues").number(), hand.number());
    // `RequiredEntropyBits`: about the bits that choosing a hand of cards takes.
    let entropy = ((queues as f64).log2() * size as f64).ceil();
    let problem = if size <= 0 {
        "must be positive".to_owned()
    } else if size > queues {
        format!("should not be greater than queues ({queues})")
    } else if entropy > ENTROPY_MAX {
        format!(
            "required entropy bits of deckSize {queues} and handSize {size} should not be greater than {ENTROPY_MAX}"
        )
    } else {
        return;
    };
    hand.invalid(c, &problem);
}

/// The namespaces of a rule of flow control that are not all of them.
pub(super) fn namespace(namespace: &At<'_>, c: &mut Check) {
    for problem in formats::label(c.version, namespace.text()) {
        let problem = format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
        namespace.invalid(c, &problem);
    }
}
