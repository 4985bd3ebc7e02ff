//! HorizontalPodAutoscalers of `v1` and `v2beta1`: annotations contain the fields that those versions do not
//! have.
//!
//! # Upstream
//! `pkg/apis/autoscaling/v1/conversion.go` and `v2beta1/conversion.go`, 1.22.

use serde_json::{Map, Value, json};

use super::{
    go_syntax::{go_name, ordered},
    objects::{object_in, object_mut},
    schema::StructId,
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
    if let Some(spec) = object_in(object, "spec") {
        let mut metrics = match decode(&mut annotations, METRICS) {
            Some(Value::Array(others)) => others,
            _ => Vec::new(),
        };
        convert(&mut metrics, source_to_v2);
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
            convert(&mut metrics, source_to_v2);
            status.insert("currentMetrics".to_owned(), metrics.into());
        }
        if let Some(conditions) = decode(&mut annotations, CONDITIONS) {
            status.insert("conditions".to_owned(), conditions);
        }
    }
    put_annotations(object, annotations);
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
    on_cpu(metric) && utilization(metric, "target").is_some_and(|percent| !percent.is_null())
}

fn on_cpu(metric: &Value) -> bool {
    metric["resource"]["name"] == "cpu"
}

/// The percentage that a metric on a resource has, or that it aims at.
fn utilization<'m>(metric: &'m Value, of: &str) -> Option<&'m Value> {
    metric.pointer(&format!("/resource/{of}/averageUtilization"))
}

/// Converts `v2` to `v1`.
pub(super) fn to_v1(object: &mut Object) {
    let mut found = Vec::new();
    if let Some(spec) = object_mut(object, "spec") {
        if let Some(Value::Array(metrics)) = spec.remove("metrics") {
            let percent = metrics.iter().find(|metric| on_cpu(metric));
            if let Some(percent) = percent.and_then(|metric| utilization(metric, "target")) {
                spec.insert("targetCPUUtilizationPercentage".to_owned(), percent.clone());
            }
            let others = metrics.into_iter();
            let others = others.filter(|metric| !on_cpu(metric) || utilization(metric, "target").is_none());
            let mut others: Vec<Value> = others.collect();
            if !others.is_empty() {
                convert(&mut others, source_to_v2beta1);
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
            let percents = metrics.iter().filter(|metric| on_cpu(metric));
            let mut percents = percents.filter_map(|metric| utilization(metric, "current"));
            if let Some(percent) = percents.next_back() {
                status.insert("currentCPUUtilizationPercentage".to_owned(), percent.clone());
            }
            convert(&mut metrics, source_to_v2beta1);
            let metrics = list_of(&metrics.into(), "MetricStatus.autoscaling.v2beta1");
            found.push((CURRENT_METRICS, metrics));
        }
        let conditions = status.remove("conditions");
        if let Some(conditions) = conditions.filter(|conditions| !conditions.is_null()) {
            let conditions = list_of(&conditions, "HorizontalPodAutoscalerCondition");
            found.push((CONDITIONS, conditions));
        }
    }
    annotate(object, found);
}

/// Converts `v2beta1` to `v2`.
pub(super) fn from_v2beta1(object: &mut Object) {
    convert_all(object, source_to_v2);
    in_order_of_v1(object);
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
    convert_all(object, source_to_v2beta1);
    let behavior = object_mut(object, "spec").and_then(|spec| spec.remove("behavior"));
    let behavior = behavior.map(|behavior| (BEHAVIOR, internal_behavior(behavior)));
    annotate(object, behavior.into_iter().collect());
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
    let metadata = object_in(object, "metadata");
    if let Some(annotations) = metadata.and_then(|metadata| object_in(metadata, "annotations")) {
        annotations.extend(found.into_iter().map(|(key, text)| (key.to_owned(), text.into())));
    }
}

/// The fields of a source in `v1` and `v2beta1`, and the objects and fields that have their values in `v2`.
fn moves(name: &str, nested: &'static str) -> Vec<(String, &'static str, &'static str)> {
    let average = match name {
        "object" => "averageValue".to_owned(),
        _ => format!("{nested}AverageValue"),
    };
    let selector = match name {
        "external" => "metricSelector",
        _ => "selector",
    };
    let utilization = format!("{nested}AverageUtilization");
    let mut moves = vec![
        (format!("{nested}Value"), nested, "value"),
        (average, nested, "averageValue"),
        (utilization, nested, "averageUtilization"),
    ];
    if matches!(name, "object" | "pods" | "external") {
        moves.push(("metricName".to_owned(), "metric", "name"));
        moves.push((selector.to_owned(), "metric", "selector"));
    }
    moves
}

/// Changes the sources of the metrics of an object.
fn convert_all(object: &mut Object, change: fn(&str, &mut Object)) {
    for (part, list) in [("spec", "metrics"), ("status", "currentMetrics")] {
        let part = object_mut(object, part);
        if let Some(Value::Array(metrics)) = part.and_then(|part| part.get_mut(list)) {
            convert(metrics, change);
        }
    }
}

fn convert(metrics: &mut [Value], change: fn(&str, &mut Object)) {
    for metric in metrics.iter_mut().filter_map(Value::as_object_mut) {
        for name in SOURCES {
            if let Some(source) = object_mut(metric, name) {
                change(name, source);
            }
        }
    }
}

fn source_to_v2(name: &str, source: &mut Object) {
    let is_status = source.keys().any(|key| key.starts_with("current"));
    let nested = if is_status { "current" } else { "target" };
    if name == "object" {
        let described = source.remove("target").unwrap_or_default();
        source.insert("describedObject".to_owned(), described);
    }
    for (flat, parent, key) in moves(name, nested) {
        let value = match (source.remove(&flat).filter(|value| !value.is_null()), name, key) {
            (None, "object", "value") | (None, "pods", "averageValue") => Some("0".into()),
            (None, _, "name") => Some("".into()),
            (value, ..) => value,
        };
        if let (Some(parent), Some(value)) = (object_in(source, parent), value) {
            parent.insert(key.to_owned(), value);
        }
    }
    if !is_status && let Some(target) = object_mut(source, nested) {
        let kind = match name {
            "object" if !target.contains_key("averageValue") => "Value",
            "external" if target.contains_key("value") => "Value",
            "resource" | "containerResource" if target.contains_key("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        target.insert("type".to_owned(), kind.into());
    }
}

fn source_to_v2beta1(name: &str, source: &mut Object) {
    let is_status = source.contains_key("current");
    let nested = if is_status { "current" } else { "target" };
    let parents = ["metric", nested].map(|parent| (parent, source.remove(parent).unwrap_or_default()));
    if name == "object" {
        let described = source.remove("describedObject").unwrap_or_default();
        source.insert("target".to_owned(), described);
    }
    for (flat, parent, key) in moves(name, nested) {
        let parent = parents.iter().find(|(name, _)| *name == parent);
        let value = parent
            .and_then(|(_, parent)| parent.get(key))
            .filter(|value| !value.is_null());
        // Where these versions have no pointer, the encoder writes zero.
        let is_written = match key {
            "value" => name == "object" || name == "external" && is_status,
            "averageValue" => name == "pods" || is_status && name.ends_with("esource"),
            _ => false,
        };
        if let Some(value) = value.cloned().or_else(|| is_written.then(|| "0".into())) {
            source.insert(flat, value);
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
