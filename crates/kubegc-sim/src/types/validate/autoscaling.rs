//! HorizontalPodAutoscalers.
//!
//! # Upstream
//! [`pkg/apis/autoscaling/validation`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/apis/autoscaling/validation/validation.go).

use kubegc_core::Quantity;
use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::{amounts::container_resource, go_syntax};
use crate::formats;

type Object = Map<String, Value>;

/// `ValidateHorizontalPodAutoscaler` and its update: zero replicas stay allowed where they were.
pub(super) fn autoscaler(body: &Object, old: Option<&Object>, c: &mut Check) {
    let spec = At::root(body, "spec");
    let (min, max) = (spec.get("minReplicas"), spec.get("maxReplicas"));
    let was_zero = old.is_some_and(|old| At::root(old, "spec").get("minReplicas").value == &Value::from(0));
    let bound = i64::from(!was_zero);
    if min.is_set() && min.number() < bound {
        min.invalid(c, &format!("must be greater than or equal to {bound}"));
    }
    let says_required = c.since(36) && max.number() == 0;
    if says_required {
        max.required(c, "must be set and greater than 0");
    } else if max.number() < 1 {
        let problem = match c.since(36) {
            true => "must be greater than or equal to 1",
            false => "must be greater than 0",
        };
        max.invalid_as(c, &max.number().to_string(), problem);
    }
    if min.is_set() && max.number() < min.number() {
        max.invalid_as(
            c,
            &max.number().to_string(),
            "must be greater than or equal to `minReplicas`",
        );
    }
    let target = spec.get("scaleTargetRef");
    reference(&target, c);
    let before = old.map(|old| {
        At::root(old, "spec")
            .get("scaleTargetRef")
            .get("apiVersion")
            .text()
            .to_owned()
    });
    let version = target.get("apiVersion");
    if c.since(34) && version.text().matches('/').count() > 1 {
        let problem = format!("unexpected GroupVersion string: {}", version.text());
        version.invalid(c, &problem);
    }
    // Only Services have no group, and they cannot be scaled.
    if c.since(34) && !version.text().contains('/') && before.as_deref() != Some(version.text()) {
        version.invalid_as(
            c,
            &crate::status::quoted(version.text()),
            "apiVersion must specify API group",
        );
    }
    let metrics = spec.get("metrics");
    for metric in metrics.items() {
        self::metric(&metric, c);
    }
    let has_outer = metrics
        .items()
        .any(|metric| matches!(metric.get("type").text(), "Object" | "External"));
    if min.is_set() && min.number() == 0 && !has_outer {
        let problem =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        metrics.forbidden(c, problem);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = spec.get("behavior").get(direction);
        if rules.is_set() {
            scaling_rules(&rules, c);
        }
    }
}

fn reference(at: &At<'_>, c: &mut Check) {
    for key in ["kind", "name"] {
        let text = at.get(key);
        if text.text().is_empty() {
            text.required(c, "");
        } else {
            text.problems(c, formats::path_segment(text.text()));
        }
    }
}

fn scaling_rules(rules: &At<'_>, c: &mut Check) {
    const WINDOW_MAX: i64 = 3600;
    const PERIOD_MAX: i64 = 1800;
    const SELECTS: [&str; 3] = ["Disabled", "Max", "Min"];
    let window = rules.get("stabilizationWindowSeconds");
    if window.number() < 0 {
        window.invalid(c, "must be greater than or equal to zero");
    }
    if window.number() > WINDOW_MAX {
        window.invalid(c, &format!("must be less than or equal to {WINDOW_MAX}"));
    }
    let select = rules.get("selectPolicy");
    if select.is_set() && !SELECTS.contains(&select.text()) {
        select.unsupported(c, &SELECTS);
    }
    let policies = rules.get("policies");
    if policies.is_empty() {
        policies.required(c, "must specify at least one Policy");
    }
    for policy in policies.items() {
        let kind = policy.get("type");
        if !matches!(kind.text(), "Pods" | "Percent") {
            kind.unsupported(c, &["Percent", "Pods"]);
        }
        for key in ["value", "periodSeconds"] {
            let number = policy.get(key);
            if number.number() <= 0 {
                number.invalid(c, "must be greater than zero");
            }
        }
        let period = policy.get("periodSeconds");
        if period.number() > PERIOD_MAX {
            period.invalid(c, &format!("must be less than or equal to {PERIOD_MAX}"));
        }
    }
    let tolerance = rules.get("tolerance");
    if Quantity::parse(tolerance.text()).is_some_and(Quantity::is_negative) {
        tolerance.invalid(c, "must be greater than or equal to 0");
    }
}

fn metric(at: &At<'_>, c: &mut Check) {
    const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
    let kind = at.get("type");
    if kind.text().is_empty() {
        kind.required(c, "must specify a metric source type");
    }
    if !TYPES.contains(&kind.text()) {
        kind.unsupported(c, &TYPES);
    }
    let mut present = Vec::new();
    for name in ["object", "external", "pods", "resource", "containerResource"] {
        let source = at.get(name);
        if source.is_set() {
            present.push(name);
            if present.len() == 1 {
                metric_source(&source, name, c);
            }
        }
    }
    let expected = match kind.text() {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        _ => {
            kind.unsupported(c, &TYPES);
            ""
        }
    };
    if !expected.is_empty() && !present.contains(&expected) {
        let mut problem = "must populate information for the given metric source".to_owned();
        if expected == "containerResource" && !c.since(27) {
            problem += " (only allowed when HPAContainerMetrics feature is enabled)";
        }
        at.get(expected).required(c, &problem);
    }
    if present.len() != 1 {
        for name in present.into_iter().filter(|name| *name != expected) {
            at.get(name)
                .forbidden(c, "must populate the given metric source only");
        }
    }
}

fn metric_source(source: &At<'_>, name: &str, c: &mut Check) {
    let target = source.get("target");
    let (value, average, utilization) = (
        target.get("value"),
        target.get("averageValue"),
        target.get("averageUtilization"),
    );
    if name == "object" {
        reference(&source.get("describedObject"), c);
    }
    if matches!(name, "object" | "external" | "pods") {
        let metric = source.get("metric").get("name");
        if metric.text().is_empty() {
            metric.required(c, "must specify a metric name");
        } else {
            metric.problems(c, formats::path_segment(metric.text()));
        }
    }
    if matches!(name, "resource" | "containerResource") {
        let resource = source.get("name");
        if resource.text().is_empty() {
            resource.required(c, "must specify a resource name");
        } else if name == "containerResource" {
            container_resource(resource.text(), &resource, c);
        }
    }
    if name == "containerResource" {
        let container = source.get("container");
        if container.text().is_empty() {
            container.required(c, "must specify a container");
        } else {
            container.label(c);
        }
    }
    metric_target(&target, c);
    match name {
        "object" if !value.is_set() && !average.is_set() => {
            average.required(c, "must set either a target value or averageValue");
        }
        "external" if !value.is_set() && !average.is_set() => {
            average.required(c, "must set either a target value for metric or a per-pod target");
        }
        "external" if value.is_set() && average.is_set() => {
            value.forbidden(
                c,
                "may not set both a target value for metric and a per-pod target",
            );
        }
        "pods" if !average.is_set() => average.required(c, "must specify a positive target averageValue"),
        "resource" | "containerResource" if !utilization.is_set() && !average.is_set() => {
            utilization.required(c, "must set either a target raw value or a target utilization");
        }
        "resource" | "containerResource" if utilization.is_set() && average.is_set() => {
            average.forbidden(c, "may not set both a target raw value and a target utilization");
        }
        _ => {}
    }
}

fn metric_target(target: &At<'_>, c: &mut Check) {
    let kind = target.get("type");
    if kind.text().is_empty() {
        kind.required(c, "must specify a metric target type");
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        kind.invalid_as(
            c,
            &crate::status::quoted(kind.text()),
            "must be either Utilization, Value, or AverageValue",
        );
    }
    for key in ["value", "averageValue"] {
        let amount = target.get(key);
        if let Some(value) = Quantity::parse(amount.text())
            && (value.is_negative() || value.is_zero())
        {
            let shown = go_syntax::quantity(c.version, amount.decoded(c));
            amount.invalid_as(c, &shown, "must be positive");
        }
    }
    let utilization = target.get("averageUtilization");
    if utilization.is_set() && utilization.number() < 1 {
        utilization.invalid(c, "must be greater than 0");
    }
}
