//! Amounts of resources: names, requests and limits.
//!
//! # Upstream
//! `ValidateResourceRequirements` and its callees in
//! [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/validation/validation.go),
//! 1.20.2 and newer.

use kubegc_core::{Behavior, KubernetesVersion, Quantity, version::behavior::VALUES_ARE_JSON};

use super::super::{
    field::{At, Check},
    go_syntax,
};
use crate::{formats, status::quoted};

/// The amount of memory in huge pages is a multiple of their size.
const PAGES_ARE_WHOLE: Behavior = Behavior::since_about(25, "validateResourceQuantityHugePageValue");

/// `validateResourceQuantityHugePageValue`.
fn whole_pages(name: &str, at: &At<'_>, c: &mut Check) {
    let Some(size) = name.strip_prefix("hugepages-") else {
        return;
    };
    let bytes = |text: &str| Quantity::parse(text).and_then(Quantity::as_i64);
    let (text, both) = (at.text(), bytes(at.text()).zip(bytes(size)));
    if !both.is_some_and(|(amount, size)| size > 0 && amount % size == 0) && c.version.has(PAGES_ARE_WHOLE) {
        let problem = format!("{text} is not positive integer multiple of {name}");
        at.invalid_as(c, &quoted(text), &problem);
    }
}

/// `ValidateResourceRequirements`.
pub(super) fn requirements(
    requests: &At<'_>,
    limits: &At<'_>,
    whole: &At<'_>,
    check_name: impl Fn(&str, &At<'_>, &mut Check),
    c: &mut Check,
) {
    let (mut has_pages, mut has_compute) = (false, false);
    for (list, are_limits) in [(limits, true), (requests, false)] {
        for (name, amount) in list.entries() {
            check_name(name, &amount, c);
            quantity(&amount, c);
            whole_pages(name, &amount, c);
            has_pages |= name.starts_with("hugepages-");
            has_compute |= matches!(name, "cpu" | "memory");
            if are_limits {
                continue;
            }
            let overcommits = may_be_overcommitted(name);
            let value = Quantity::parse(amount.text());
            let limit = limits.key(name);
            if limit.is_set() {
                let of = if c.since(27) {
                    format!(" of {}", limit.text())
                } else {
                    String::new()
                };
                let limit = Quantity::parse(limit.text());
                if value != limit && !overcommits {
                    list.invalid_as(c, &amount.shown(), &format!("must be equal to {name} limit{of}"));
                } else if value > limit {
                    list.invalid_as(
                        c,
                        &amount.shown(),
                        &format!("must be less than or equal to {name} limit{of}"),
                    );
                }
            } else if !overcommits {
                limits.required(c, "Limit must be set for non overcommitable resources");
            }
        }
    }
    if has_pages && !has_compute {
        whole.forbidden(c, "HugePages require cpu or memory");
    }
}

/// The resources of a container.
pub(super) fn of_container(at: &At<'_>, c: &mut Check) {
    let [requests, limits] = at.fields(["requests", "limits"]);
    requirements(&requests, &limits, at, container_resource, c);
}

/// Whether a resource is native to Kubernetes.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether containers may request less of a resource than their limit.
pub(super) fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

/// `IsExtendedResourceName`.
pub(super) fn is_extended(name: &At<'_>, _: &Check<'_>) -> bool {
    is_extended_name(name.text())
}

fn is_extended_name(name: &str) -> bool {
    let is_qualified = || formats::is_qualified_name(&format!("requests.{name}"));
    !is_native(name) && !name.starts_with("requests.") && is_qualified()
}

/// `ValidateResourceQuantityValue`.
pub(super) fn quantity(amount: &At<'_>, c: &mut Check) {
    const WHOLE: &str = "pods services replicationcontrollers resourcequotas secrets configmaps persistentvolumeclaims \
                         services.nodeports services.loadbalancers";
    let Some(value) = Quantity::parse(amount.text()) else {
        return;
    };
    let name = amount.key_or_name();
    if value.is_negative() {
        amount.invalid(c, "must be greater than or equal to 0");
    }
    let is_integer = WHOLE.split(' ').any(|whole| whole == name) || !is_native(name);
    if is_integer && !value.is_whole() {
        let shown = go_syntax::quantity(c.version, amount.decoded(c));
        amount.invalid_as(c, &shown, "must be an integer");
    }
}

/// The names of resources with a standard meaning.
const STANDARD_RESOURCES: &str = "cpu memory ephemeral-storage requests.cpu requests.memory \
     requests.ephemeral-storage limits.cpu limits.memory limits.ephemeral-storage pods resourcequotas services \
     replicationcontrollers secrets configmaps persistentvolumeclaims storage requests.storage \
     services.nodeports services.loadbalancers";

fn is_standard(name: &str) -> bool {
    STANDARD_RESOURCES.split(' ').any(|standard| standard == name) || is_pages(name)
}

/// Whether quotas support a resource.
pub(super) fn is_quota_resource(name: &str) -> bool {
    name != "storage" && is_standard(name)
}

/// Names of resources have a type that prints them without quotes.
const NAMES_ARE_TYPED: Behavior = Behavior::since(29, 0, "validateResourceName of 1.29");

/// The name of a resource, as errors print it.
fn shown_resource(version: KubernetesVersion, name: &str) -> String {
    match version.has(NAMES_ARE_TYPED) && !version.has(VALUES_ARE_JSON) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// `validateResourceName`.
pub(super) fn resource_name(name: &str, at: &At<'_>, c: &mut Check) {
    let shown = shown_resource(c.version, name);
    let problems = formats::qualified_name(c.version, name);
    if !problems.is_empty() {
        for problem in problems {
            at.invalid_as(c, &shown, &problem);
        }
    } else if !name.contains('/') && !is_standard(name) {
        at.invalid_as(c, &shown, "must be a standard resource type or fully qualified");
    }
}

fn is_pages(name: &str) -> bool {
    name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

/// `validateContainerResourceName`.
pub(super) fn container_resource(name: &str, at: &At<'_>, c: &mut Check) {
    resource_name(name, at, c);
    let shown = shown_resource(c.version, name);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !name.starts_with("hugepages-") {
            at.invalid_as(c, &shown, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended_name(name) {
        at.invalid_as(c, &shown, "doesn't follow extended resource name standard");
    }
}

/// An amount that a quota bounds.
pub(super) fn of_quota(amount: &At<'_>, c: &mut Check) {
    let name = amount.key_or_name();
    resource_name(name, amount, c);
    if !name.contains('/') && !is_quota_resource(name) {
        let shown = shown_resource(c.version, name);
        amount.invalid_as(c, &shown, "must be a standard resource for quota");
    }
    quantity(amount, c);
}

pub(super) fn name_of_resource(name: &At<'_>, c: &mut Check) {
    resource_name(name.text(), name, c);
}

pub(super) fn name_of_container_resource(name: &At<'_>, c: &mut Check) {
    container_resource(name.text(), name, c);
}

pub(super) fn positive(amount: &At<'_>, c: &mut Check) {
    let value = Quantity::parse(amount.text());
    if value.is_some_and(|value| value.is_negative() || value.is_zero()) {
        let shown = go_syntax::quantity(c.version, amount.decoded(c));
        amount.invalid_as(c, &shown, "must be positive");
    }
}
