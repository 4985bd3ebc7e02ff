//! HorizontalPodAutoscalers.
//!
//! # Upstream
//! [`pkg/apis/autoscaling/validation`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/apis/autoscaling/validation/validation.go).

use kubegc_core::Quantity;

use super::super::field::{At, Check};
use super::{go_syntax, rules};
use crate::status::quoted;

/// Zero replicas stay allowed where they were.
pub(super) fn min_replicas(min: &At<'_>, c: &mut Check) {
    let was_zero = min.old(c).as_i64() == Some(0);
    let bound = i64::from(!was_zero);
    if min.number() < bound {
        min.invalid(c, &format!("must be greater than or equal to {bound}"));
    }
}

/// The version of the kind that is scaled.
pub(super) fn group_version(version: &At<'_>, c: &mut Check) {
    let text = version.text();
    if text.matches('/').count() > 1 {
        version.invalid(c, &format!("unexpected GroupVersion string: {text}"));
    }
    // Only Services have no group, and they cannot be scaled.
    if !text.contains('/') && (c.is_new() || version.old(c).as_str().unwrap_or_default() != text) {
        version.invalid_as(c, &quoted(text), "apiVersion must specify API group");
    }
}

/// An autoscaler that scales to zero has a metric that does not come from the pods.
pub(super) fn outer_metrics(metrics: &At<'_>, c: &mut Check) {
    let mut types = metrics.items().map(|metric| metric.get("type").text());
    if !types.any(|kind| matches!(kind, "Object" | "External")) {
        let problem =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        metrics.forbidden(c, problem);
    }
}

/// Exactly the source of its type is the source of a metric.
pub(super) fn sources(metric: &At<'_>, c: &mut Check) {
    /// Types, fields and sections in the order of their validation.
    const SOURCES: [(&str, &str, &str); 5] = [
        ("Object", "object", "ObjectMetricSource"),
        ("External", "external", "ExternalMetricSource"),
        ("Pods", "pods", "PodsMetricSource"),
        ("Resource", "resource", "ResourceMetricSource"),
        (
            "ContainerResource",
            "containerResource",
            "ContainerResourceMetricSource",
        ),
    ];
    let kind = metric.get("type");
    let present = SOURCES.iter().filter(|(_, field, _)| metric.get(field).is_set());
    let present: Vec<_> = present.collect();
    if let Some((_, field, section)) = present.first() {
        rules::apply(section, &metric.get(field), c);
    }
    let expected = match SOURCES.iter().find(|(known, ..)| *known == kind.text()) {
        Some((_, field, _)) => *field,
        None => {
            let known = ["ContainerResource", "External", "Object", "Pods", "Resource"];
            kind.unsupported(c, &known);
            ""
        }
    };
    if !expected.is_empty() && !metric.get(expected).is_set() {
        let mut problem = "must populate information for the given metric source".to_owned();
        if expected == "containerResource" && !c.since(27) {
            problem += " (only allowed when HPAContainerMetrics feature is enabled)";
        }
        metric.get(expected).required(c, &problem);
    }
    if present.len() != 1 {
        for (_, field, _) in present.into_iter().filter(|(_, field, _)| *field != expected) {
            let source = metric.get(field);
            source.forbidden(c, "must populate the given metric source only");
        }
    }
}

pub(super) fn container_resource(name: &At<'_>, c: &mut Check) {
    super::amounts::container_resource(name.text(), name, c);
}

pub(super) fn positive(amount: &At<'_>, c: &mut Check) {
    let value = Quantity::parse(amount.text());
    if value.is_some_and(|value| value.is_negative() || value.is_zero()) {
        let shown = go_syntax::quantity(c.version, amount.decoded(c));
        amount.invalid_as(c, &shown, "must be positive");
    }
}
