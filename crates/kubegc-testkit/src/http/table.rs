//! Decides which columns people see: the form `Table`, as `kubectl get` prints it.
//!
//! # Upstream
//! `pkg/printers/internalversion/printers.go` and `apimachinery/pkg/util/duration`, 1.20.2; a small choice of its columns.

use std::borrow::Borrow;

use kubegc_core::Timestamp;
use kubegc_sim::StoredObject;
use serde_json::{Value, json};

use super::{
    accept::MetaVersion,
    render::{self, View},
};

/// What each row holds beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    CellsOnly,
    Metadata,
    Objects,
}

/// A column: its name, type, and what an object shows in it.
type Column = (&'static str, &'static str, fn(&StoredObject) -> Value);

/// A table of objects.
pub(super) fn of<T: Borrow<StoredObject>>(
    view: &View,
    version: MetaVersion,
    metadata: Value,
    objects: &[T],
    now: Timestamp,
) -> Value {
    let columns = columns_of(view);
    let mut definitions = vec![definition("Name", "string", "name")];
    definitions.extend(columns.iter().map(|(name, kind, _)| definition(name, kind, "")));
    definitions.push(definition("Age", "string", ""));
    let rows = objects.iter().map(|object| {
        let object: &StoredObject = object.borrow();
        let mut cells = vec![Value::from(&*object.meta.name)];
        cells.extend(columns.iter().map(|(_, _, show)| show(object)));
        cells.push(age(object, now).into());
        let mut row = json!({"cells": cells});
        match view.rows {
            Rows::CellsOnly => {}
            Rows::Metadata => row["object"] = render::partial(object, &view.resource, version),
            Rows::Objects => row["object"] = object.to_json(&view.resource),
        }
        row
    });
    json!({
        "kind": "Table",
        "apiVersion": version.api_version(),
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows.collect::<Vec<_>>(),
    })
}

fn definition(name: &str, kind: &str, format: &str) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": "", "priority": 0})
}

/// The columns between name and age.
fn columns_of(view: &View) -> &'static [Column] {
    let resource = &view.resource;
    match (&*resource.group, &*resource.resource) {
        _ if resource.custom => &[],
        ("", "pods") => &[
            ("Ready", "string", pod_ready),
            ("Status", "string", pod_status),
            ("Restarts", "integer", pod_restarts),
        ],
        ("", "namespaces") => &[("Status", "string", |object| text(object, "phase"))],
        ("", "configmaps") => &[("Data", "integer", |object| {
            (size_of(object, "data") + size_of(object, "binaryData")).into()
        })],
        ("", "secrets") => &[
            ("Type", "string", |object| object.text_at(&["type"]).into()),
            ("Data", "integer", |object| size_of(object, "data").into()),
        ],
        ("apps" | "extensions", "deployments") => &[
            ("Ready", "string", |object| out_of(object, "readyReplicas")),
            ("Up-to-date", "integer", |object| {
                status_number(object, "updatedReplicas").into()
            }),
            ("Available", "integer", |object| {
                status_number(object, "availableReplicas").into()
            }),
        ],
        ("apps", "statefulsets") => &[("Ready", "string", |object| out_of(object, "readyReplicas"))],
        ("apps" | "extensions", "replicasets") | ("", "replicationcontrollers") => &[
            ("Desired", "integer", |object| desired(object).into()),
            ("Current", "integer", |object| {
                status_number(object, "replicas").into()
            }),
            ("Ready", "integer", |object| {
                status_number(object, "readyReplicas").into()
            }),
        ],
        _ => &[],
    }
}

fn text(object: &StoredObject, key: &str) -> Value {
    object.text_at(&["status", key]).into()
}

fn status_number(object: &StoredObject, key: &str) -> i64 {
    object.at(&["status", key]).and_then(Value::as_i64).unwrap_or(0)
}

fn desired(object: &StoredObject) -> i64 {
    object
        .at(&["spec", "replicas"])
        .and_then(Value::as_i64)
        .unwrap_or(1)
}

fn out_of(object: &StoredObject, key: &str) -> Value {
    format!("{}/{}", status_number(object, key), desired(object)).into()
}

fn size_of(object: &StoredObject, key: &str) -> usize {
    object
        .at(&[key])
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

fn items<'a>(object: &'a StoredObject, path: &[&str]) -> &'a [Value] {
    object
        .at(path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn pod_ready(object: &StoredObject) -> Value {
    let statuses = items(object, &["status", "containerStatuses"]);
    let ready = statuses.iter().filter(|status| status["ready"] == true).count();
    format!("{ready}/{}", items(object, &["spec", "containers"]).len()).into()
}

fn pod_status(object: &StoredObject) -> Value {
    if object.meta.is_deleting() {
        return "Terminating".into();
    }
    match object.text_at(&["status", "reason"]) {
        "" => text(object, "phase"),
        reason => reason.into(),
    }
}

fn pod_restarts(object: &StoredObject) -> Value {
    let statuses = items(object, &["status", "containerStatuses"]);
    let restarts = statuses
        .iter()
        .filter_map(|status| status["restartCount"].as_i64());
    restarts.fold(0_i64, i64::saturating_add).into()
}

fn age(object: &StoredObject, now: Timestamp) -> String {
    match object.meta.creation_timestamp {
        None => "<unknown>".to_owned(),
        Some(created) => human_duration(now.as_secs().saturating_sub(created.as_secs())),
    }
}

/// A duration as people read it: two units where the number is small, one where it is not.
fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |great: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{great}{unit}"),
        _ => format!("{great}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, "d", hours % 24, "h"),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_upstream_writes_them() {
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (3 * 3600 + 61, "3h1m"),
            (8 * 3600, "8h"),
            (47 * 3600, "47h"),
            (48 * 3600, "2d"),
            (49 * 3600, "2d1h"),
            (8 * 86_400, "8d"),
            (729 * 86_400, "729d"),
            (730 * 86_400, "2y"),
            (731 * 86_400, "2y1d"),
            (9 * 365 * 86_400, "9y"),
            (i64::MAX, "292471208677y"),
        ] {
            assert_eq!(human_duration(seconds), expected, "{seconds}");
        }
    }
}
