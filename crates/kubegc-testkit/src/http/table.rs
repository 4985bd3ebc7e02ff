//! The form `Table`, as `kubectl get` prints it, and its columns.
//!
//! # Upstream
//! `pkg/printers/internalversion/printers.go`, `apiserver/pkg/registry/rest/table.go`,
//! `apimachinery/pkg/util/duration` and `apiextensions-apiserver/pkg/registry/customresource/tableconvertor`,
//! 1.20.2.

use std::borrow::Borrow;

use kubegc_core::{KubernetesVersion, Timestamp};
use kubegc_sim::StoredObject;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    cells::{self, Cell},
    json_path,
    problem::{self, Refusal},
    query::Query,
    render::{self, View},
};

/// The content of a row other than its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    CellsOnly,
    Metadata,
    Objects,
}

impl Rows {
    /// # Upstream
    /// `optionsForTransform` in `apiserver/pkg/endpoints/handlers/response.go`, 1.20.2.
    pub(super) fn of(query: &Query) -> Result<Self, Refusal> {
        match query.text("includeObject") {
            "None" => Ok(Self::CellsOnly),
            "Object" => Ok(Self::Objects),
            "" | "Metadata" => Ok(Self::Metadata),
            other => Err(problem::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// The columns of the kinds that have some of their own.
const COLUMNS: &str = include_str!("columns.txt");

/// A column: its name, its type, its visibility, and what it shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    of_type: String,
    format: String,
    description: String,
    priority: i64,
    #[serde(skip)]
    cell: Cell,
}

pub(super) fn of<T: Borrow<StoredObject>>(
    view: &View,
    version: &'static str,
    metadata: Value,
    objects: &[T],
    now: Timestamp,
) -> Value {
    let columns = columns_of(view);
    let (release, resource) = (view.version, &*view.resource.resource);
    let rows = objects.iter().map(|object| {
        let object: &StoredObject = object.borrow();
        let shown = object.to_json(&view.resource);
        let cell = |column: &Column| match &column.cell {
            Cell::Value(pointer, missing) => cells::value(&shown, pointer, missing),
            Cell::Count(pointer) => cells::count(&shown, pointer).into(),
            Cell::Path(path) => custom_cell(&shown, path, &column.of_type, now),
            Cell::Call(call) => cells::computed(release, call, &shown, now),
        };
        let mut row = json!({"cells": columns.iter().map(cell).collect::<Vec<_>>(), "object": null});
        match view.rows {
            Rows::CellsOnly => {}
            Rows::Metadata => row["object"] = render::partial(object, &view.resource, version),
            Rows::Objects => row["object"] = shown,
        }
        if let Some(condition) = cells::condition(resource, object) {
            row["conditions"] = json!([condition]);
        }
        row
    });
    json!({
        "kind": "Table",
        "apiVersion": version,
        "metadata": metadata,
        "rows": rows.collect::<Vec<_>>(),
        "columnDefinitions": columns.iter().filter(|column| !column.of_type.is_empty()).collect::<Vec<_>>(),
    })
}

/// The columns of the table as the file has them.
fn listed(resource: &str, release: KubernetesVersion) -> Option<Vec<Column>> {
    let mut lines = COLUMNS
        .lines()
        .skip_while(|line| line.strip_prefix('@') != Some(resource));
    lines.next()?;
    let mut columns: Vec<Column> = Vec::new();
    let mut is_listed = true;
    for line in lines.take_while(|line| !line.starts_with('@')) {
        let marked = |mark: char| {
            let (minor, rest) = line.strip_prefix(mark)?.split_once(' ')?;
            Some((minor.parse::<u16>().ok()? <= release.minor(), rest))
        };
        if let Some((is_in, description)) = marked('>') {
            if let Some(column) = columns.last_mut().filter(|_| is_in && is_listed) {
                column.description = unescaped(description);
            }
            continue;
        }
        let removed = marked('<').map(|(is_out, line)| (!is_out, line));
        let (is_in, line) = marked('+').or(removed).unwrap_or((true, line));
        is_listed = is_in;
        if is_listed {
            columns.extend(column(line, release));
        }
    }
    Some(columns)
}

fn unescaped(description: &str) -> String {
    description.replace("\\n", "\n").replace("\\\"", "\"")
}

fn column(line: &str, release: KubernetesVersion) -> Option<Column> {
    let mut parts = line.splitn(5, '|');
    let mut next = || parts.next();
    let (name, of_type, priority, cell, description) = (next()?, next()?, next()?, next()?, next()?);
    let description = match description {
        "=name" | "=created" => listed(description, release)?.pop()?.description,
        description => unescaped(description),
    };
    Some(Column {
        name: name.to_owned(),
        of_type: of_type.to_owned(),
        format: match name {
            "Name" | "Attacher" => "name".to_owned(),
            _ => String::new(),
        },
        priority: priority.parse().ok()?,
        description,
        cell: Cell::read(cell),
    })
}

fn columns_of(view: &View) -> Vec<Column> {
    let resource = &view.resource;
    let listed = |key: &str| listed(key, view.version);
    if !resource.custom {
        let own = listed(&resource.resource).or_else(|| listed("=builtin"));
        return own.unwrap_or_default();
    }
    let mut columns = listed("=custom").unwrap_or_default();
    if !view.printer_columns.is_empty() {
        columns.truncate(1);
    }
    let text = |column: &Value, key: &str| column[key].as_str().unwrap_or_default().to_owned();
    columns.extend(view.printer_columns.iter().map(|column| {
        let path = text(column, "jsonPath");
        let description = match text(column, "description") {
            text if text.is_empty() => {
                format!("Custom resource definition column (in JSONPath format): {path}")
            }
            text => text,
        };
        Column {
            name: text(column, "name"),
            of_type: text(column, "type"),
            format: text(column, "format"),
            priority: column["priority"].as_i64().unwrap_or(0),
            description,
            cell: Cell::Path(path),
        }
    }));
    columns
}

fn custom_cell(object: &Value, path: &str, of_type: &str, now: Timestamp) -> Value {
    let Some(value) = json_path::first(object, path) else {
        return Value::Null;
    };
    match (of_type, value) {
        ("integer", Value::Number(number)) => match number.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "as upstream does")]
            Some(float) if !number.is_i64() => json!(float as i64),
            _ => value.clone(),
        },
        ("number", Value::Number(number)) => json!(number.as_f64()),
        ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => value.clone(),
        ("string", value) => value.to_string().into(),
        ("date", Value::String(text)) => match Timestamp::parse(text) {
            Ok(time) => human_duration(now.as_secs().saturating_sub(time.as_secs())).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

/// A duration as people read it: two units if the number is small, one if it is not.
pub(super) fn human_duration(seconds: i64) -> String {
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
    fn every_line_of_the_file_is_a_column() {
        for line in COLUMNS.lines().filter(|line| !line.starts_with(['@', '#', '>'])) {
            let marked = line
                .strip_prefix(['+', '<'])
                .and_then(|line| line.split_once(' '));
            let line = marked.map_or(line, |(_, line)| line);
            assert!(column(line, KubernetesVersion::LATEST).is_some(), "{line}");
        }
        let columns = listed("configmaps", KubernetesVersion::LATEST).expect("they have columns");
        let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        assert_eq!(names, ["Name", "Data", "Age"]);
        assert_eq!((&*columns[0].format, columns[0].priority), ("name", 0));
        assert!(columns[2].description.contains("in UTC.\n\nPopulated"));
    }

    #[test]
    fn every_function_of_a_column_is_known() {
        let shown = json!({"kind": "X", "metadata": {"name": "x"}});
        let release = KubernetesVersion::LATEST;
        for resource in COLUMNS.lines().filter_map(|line| line.strip_prefix('@')) {
            for column in listed(resource, release).expect("it has columns") {
                if let Cell::Call(call) = &column.cell {
                    let cell = cells::computed(release, call, &shown, Timestamp::EPOCH);
                    assert_ne!(cell, Value::Null, "{resource} {}", column.name);
                }
            }
        }
        assert_eq!(cells::value(&shown, "/metadata/name", &json!("")), "x");
        assert_eq!(cells::value(&shown, "/metadata/name", &json!(0)), 0);
        assert_eq!(cells::value(&shown, "/spec", &json!(false)), false);
        assert_eq!(cells::count(&shown, "/metadata"), 1);
    }

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
