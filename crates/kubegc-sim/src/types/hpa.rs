//! HorizontalPodAutoscalers of `v1` and `v2beta1`: annotations contain the fields that those versions do not
//! have.
//!
//! # Upstream
//! `pkg/apis/autoscaling/v1/conversion.go` and `v2beta1/conversion.go`, 1.22.

use serde_json::{Map, Value, json};

use super::{
    defaults::object_mut,
    schema::StructId,
    validate::go_syntax::{go_name, ordered},
};

type Object = Map<String, Value>;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The sources of metrics, as fields of a metric.
const SOURCES: [&str; 5] = ["object", "pods", "resource", "containerResource", "external"];

/// Converts `v1` to `v2`.
pub(super) fn from_v1(object: &mut Object) {
    let mut annotations = take_annotations(object).unwrap_or_default();
    let decode = |annotations: &mut Object, key: &str| -> Option<Value> {
        serde_json::from_str(annotations.remove(key)?.as_str()?).ok()
    };
    let spec = object.entry("spec").or_insert_with(|| json!({}));
    if let Some(spec) = spec.as_object_mut() {
        let mut metrics = Vec::new();
        if let Some(Value::Array(others)) = decode(&mut annotations, METRICS) {
            metrics = others;
            metrics.iter_mut().for_each(metric_to_v2);
        }
        match spec.remove("targetCPUUtilizationPercentage") {
            None | Some(Value::Null) if metrics.is_empty() => metrics.push(cpu(80.into())),
            None | Some(Value::Null) => {}
            Some(percent) => metrics.push(cpu(percent)),
        }
        spec.insert("metrics".to_owned(), metrics.into());
        if let Some(behavior) = decode(&mut annotations, BEHAVIOR) {
            spec.insert("behavior".to_owned(), renamed(behavior, json_name));
        }
    }
    if let Some(status) = object_mut(object, "status") {
        if let Some(percent) = status
            .remove("currentCPUUtilizationPercentage")
            .filter(|p| !p.is_null())
        {
            let resource = json!({"name": "cpu", "current": {"averageUtilization": percent}});
            let metric = json!([{"type": "Resource", "resource": resource}]);
            status.insert("currentMetrics".to_owned(), metric);
        }
        if let Some(Value::Array(mut metrics)) = decode(&mut annotations, CURRENT_METRICS) {
            metrics.iter_mut().for_each(metric_to_v2);
            status.insert("currentMetrics".to_owned(), metrics.into());
        }
        if let Some(conditions) = decode(&mut annotations, CONDITIONS) {
            status.insert("conditions".to_owned(), conditions);
        }
    }
    put_annotations(object, annotations);
}

/// Converts the stored shape, which is `v2beta2`, to `v2`: it omits what is empty. The stored rules of a
/// behaviour have a tolerance in the releases that know it, for the annotation of `v1` shows it even if it is
/// not set.
pub(super) fn to_v2(object: &mut Object) {
    let behavior = object_mut(object, "spec").and_then(|spec| object_mut(spec, "behavior"));
    for rules in behavior.into_iter().flat_map(Map::values_mut) {
        if let Some(rules) = rules.as_object_mut() {
            rules.retain(|key, value| !(key == "tolerance" && value.is_null()));
        }
    }
    if let Some(status) = object_mut(object, "status") {
        let is_empty = |value: &Value| value.is_null() || value.as_i64() == Some(0);
        status.retain(|key, value| !(matches!(&**key, "conditions" | "currentReplicas") && is_empty(value)));
    }
}

/// Converts `v2` to the order of a round trip through `v1`, which is the stored form: `v1` has a separate
/// field for the CPU metric.
pub(super) fn in_order_of_v1(object: &mut Object) {
    let metrics = object_mut(object, "spec").and_then(|spec| spec.get_mut("metrics"));
    if let Some(Value::Array(metrics)) = metrics {
        metrics.sort_by_key(is_utilization_of_cpu);
    }
}

fn is_utilization_of_cpu(metric: &Value) -> bool {
    metric.pointer("/resource/name") == Some(&"cpu".into())
        && metric
            .pointer("/resource/target/averageUtilization")
            .is_some_and(|percent| !percent.is_null())
}

/// Converts `v2` to `v1`.
pub(super) fn to_v1(object: &mut Object) {
    let mut found = Vec::new();
    if let Some(spec) = object_mut(object, "spec") {
        if let Some(Value::Array(metrics)) = spec.remove("metrics") {
            let on_cpu = |metric: &Value| metric.pointer("/resource/name") == Some(&"cpu".into());
            let percent = |metric: &Value| metric.pointer("/resource/target/averageUtilization").cloned();
            if let Some(percent) = metrics.iter().find(|metric| on_cpu(metric)).and_then(percent) {
                spec.insert("targetCPUUtilizationPercentage".to_owned(), percent);
            }
            let others = metrics
                .into_iter()
                .filter(|metric| !on_cpu(metric) || percent(metric).is_none());
            let mut others: Vec<Value> = others.collect();
            if !others.is_empty() {
                others.iter_mut().for_each(metric_to_v2beta1);
                found.push((METRICS, list_of(&others.into(), "MetricSpec.autoscaling.v2beta1")));
            }
        }
        if let Some(behavior) = spec.remove("behavior") {
            found.push((BEHAVIOR, internal_behavior(behavior)));
        }
    }
    if let Some(status) = object_mut(object, "status") {
        status.entry("currentReplicas").or_insert_with(|| 0.into());
        if let Some(Value::Array(mut metrics)) = status.remove("currentMetrics") {
            let percent = metrics
                .iter()
                .filter(|metric| metric.pointer("/resource/name") == Some(&"cpu".into()))
                .filter_map(|metric| metric.pointer("/resource/current/averageUtilization"))
                .next_back();
            if let Some(percent) = percent {
                status.insert("currentCPUUtilizationPercentage".to_owned(), percent.clone());
            }
            metrics.iter_mut().for_each(metric_to_v2beta1);
            found.push((
                CURRENT_METRICS,
                list_of(&metrics.into(), "MetricStatus.autoscaling.v2beta1"),
            ));
        }
        if let Some(conditions) = status
            .remove("conditions")
            .filter(|conditions| !conditions.is_null())
        {
            found.push((
                CONDITIONS,
                list_of(&conditions, "HorizontalPodAutoscalerCondition"),
            ));
        }
    }
    annotate(object, found);
}

/// Converts `v2beta1` to `v2`.
pub(super) fn from_v2beta1(object: &mut Object) {
    from_v2beta1_fields(object);
    in_order_of_v1(object);
}

fn from_v2beta1_fields(object: &mut Object) {
    for (part, list) in [("spec", "metrics"), ("status", "currentMetrics")] {
        if let Some(part) = object_mut(object, part)
            && let Some(Value::Array(metrics)) = part.get_mut(list)
        {
            metrics.iter_mut().for_each(metric_to_v2);
        }
    }
    let Some(mut annotations) = take_annotations(object) else {
        return;
    };
    if let Some(Value::String(behavior)) = annotations.remove(BEHAVIOR)
        && let Ok(behavior) = serde_json::from_str(&behavior)
        && let Some(spec) = object_mut(object, "spec")
    {
        spec.insert("behavior".to_owned(), renamed(behavior, json_name));
    }
    for key in [METRICS, CURRENT_METRICS, CONDITIONS] {
        annotations.remove(key);
    }
    put_annotations(object, annotations);
}

/// Converts `v2` to `v2beta1`.
pub(super) fn to_v2beta1(object: &mut Object) {
    let mut found = Vec::new();
    for (part, list) in [("spec", "metrics"), ("status", "currentMetrics")] {
        let Some(part) = object_mut(object, part) else {
            continue;
        };
        if let Some(Value::Array(metrics)) = part.get_mut(list) {
            metrics.iter_mut().for_each(metric_to_v2beta1);
        }
        if let Some(behavior) = part.remove("behavior") {
            found.push((BEHAVIOR, internal_behavior(behavior)));
        }
    }
    annotate(object, found);
}

fn cpu(percent: Value) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn take_annotations(object: &mut Object) -> Option<Object> {
    match object_mut(object, "metadata")?.remove("annotations")? {
        Value::Object(annotations) => Some(annotations),
        _ => None,
    }
}

fn put_annotations(object: &mut Object, annotations: Object) {
    if !annotations.is_empty()
        && let Some(metadata) = object_mut(object, "metadata")
    {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
}

fn annotate(object: &mut Object, found: Vec<(&str, String)>) {
    if found.is_empty() {
        return;
    }
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let annotations = metadata
        .as_object_mut()
        .map(|metadata| metadata.entry("annotations"));
    let annotations = annotations.map(|entry| entry.or_insert_with(|| json!({})));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        for (key, text) in found {
            annotations.insert(key.to_owned(), text.into());
        }
    }
}

/// The names of the parts of a source in `v2beta1` and `v1`.
struct Names {
    value: &'static str,
    average: &'static str,
    utilization: &'static str,
    nested: &'static str,
}

const SPEC: Names = Names {
    value: "targetValue",
    average: "targetAverageValue",
    utilization: "targetAverageUtilization",
    nested: "target",
};
const STATUS: Names = Names {
    value: "currentValue",
    average: "currentAverageValue",
    utilization: "currentAverageUtilization",
    nested: "current",
};

fn metric_to_v2(metric: &mut Value) {
    let Some(metric) = metric.as_object_mut() else {
        return;
    };
    for name in SOURCES {
        let Some(source) = object_mut(metric, name) else {
            continue;
        };
        let is_status = source.keys().any(|key| key.starts_with("current"));
        let names = if is_status { STATUS } else { SPEC };
        let mut value = source.remove(names.value);
        let mut average = source.remove(names.average);
        let utilization = source.remove(names.utilization).filter(|value| !value.is_null());
        if name == "object" {
            average = source.remove("averageValue");
            let described = source.remove("target").unwrap_or_default();
            source.insert("describedObject".to_owned(), described);
            value = value.or_else(|| Some("0".into()));
        }
        if name == "pods" {
            average = average.or_else(|| Some("0".into()));
        }
        let (value, average) = (
            value.filter(|value| !value.is_null()),
            average.filter(|value| !value.is_null()),
        );
        let mut target = Map::new();
        if !is_status {
            let kind = match name {
                "object" if average.is_none() => "Value",
                "external" if value.is_some() => "Value",
                "resource" | "containerResource" if utilization.is_some() => "Utilization",
                _ => "AverageValue",
            };
            target.insert("type".to_owned(), kind.into());
        }
        for (key, value) in [
            ("value", value),
            ("averageValue", average),
            ("averageUtilization", utilization),
        ] {
            if let Some(value) = value {
                target.insert(key.to_owned(), value);
            }
        }
        source.insert(names.nested.to_owned(), target.into());
        if matches!(name, "object" | "pods" | "external") {
            let mut identifier = Map::new();
            identifier.insert(
                "name".to_owned(),
                source.remove("metricName").unwrap_or_else(|| "".into()),
            );
            let selector = if name == "external" {
                "metricSelector"
            } else {
                "selector"
            };
            if let Some(selector) = source.remove(selector).filter(|selector| !selector.is_null()) {
                identifier.insert("selector".to_owned(), selector);
            }
            source.insert("metric".to_owned(), identifier.into());
        }
    }
}

fn metric_to_v2beta1(metric: &mut Value) {
    let Some(metric) = metric.as_object_mut() else {
        return;
    };
    for name in SOURCES {
        let Some(source) = object_mut(metric, name) else {
            continue;
        };
        let is_status = source.contains_key("current");
        let names = if is_status { STATUS } else { SPEC };
        let target = source.remove(names.nested).unwrap_or_default();
        let part = |key: &str| target.get(key).filter(|value| !value.is_null()).cloned();
        let (mut value, mut average) = (part("value"), part("averageValue"));
        if name == "object" {
            if let Some(average) = average.take() {
                source.insert("averageValue".to_owned(), average);
            }
            let described = source.remove("describedObject").unwrap_or_default();
            source.insert("target".to_owned(), described);
        }
        // Where these versions have no pointer, the encoder writes zero.
        let zero = || Some("0".into());
        if name == "object" || name == "external" && is_status {
            value = value.or_else(zero);
        }
        if name == "pods" || is_status && name.ends_with("esource") {
            average = average.or_else(zero);
        }
        let parts = [
            (names.value, value),
            (names.average, average),
            (names.utilization, part("averageUtilization")),
        ];
        for (key, value) in parts {
            if let Some(value) = value {
                source.insert(key.to_owned(), value);
            }
        }
        if let Some(Value::Object(mut identifier)) = source.remove("metric") {
            source.insert(
                "metricName".to_owned(),
                identifier.remove("name").unwrap_or_default(),
            );
            let selector = if name == "external" {
                "metricSelector"
            } else {
                "selector"
            };
            if let Some(value) = identifier.remove("selector").filter(|value| !value.is_null()) {
                source.insert(selector.to_owned(), value);
            }
        }
    }
}

/// A behaviour whose fields have other names. Depth is bounded by the parser that read the annotation.
fn renamed(value: Value, name: fn(&str) -> String) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (name(&key), renamed(value, name)))
            .collect(),
        Value::Array(items) => items.into_iter().map(|item| renamed(item, name)).collect(),
        other => other,
    }
}

/// The name in JSON of a field of a behaviour.
fn json_name(go: &str) -> String {
    let mut name = go.to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    name
}

/// A behaviour in its internal form: a pointer that is nil is written as null.
fn internal_behavior(mut behavior: Value) -> String {
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = behavior.get_mut(direction).and_then(Value::as_object_mut) {
            rules.entry("stabilizationWindowSeconds").or_insert(Value::Null);
        }
    }
    let of = StructId::named("HorizontalPodAutoscalerBehavior");
    ordered(&behavior, of, go_name)
}

/// An annotation with a list of these structs.
fn list_of(items: &Value, name: &str) -> String {
    ordered(items, StructId::named(name), str::to_owned)
}
