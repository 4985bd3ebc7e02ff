//! The form `Table`, as `kubectl get` prints it, and its columns.
//!
//! # Upstream
//! `pkg/printers/internalversion/printers.go`, `apiserver/pkg/registry/rest/table.go`,
//! `apimachinery/pkg/util/duration` and `apiextensions-apiserver/pkg/registry/customresource/tableconvertor`,
//! 1.20.2.

use std::borrow::Borrow;

use kubegc_core::{ApiResource, KubernetesVersion, Timestamp};
use kubegc_sim::StoredObject;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    cells::{self, Cell, human_duration},
    json_path,
    problem::{self, Refusal},
    query::Query,
};

/// The content of a row other than its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rows {
    CellsOnly,
    #[default]
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

/// The columns of the table of a resource, and the content of its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Rows,
}

impl Table {
    /// `printer_columns` are those that the definition of a custom resource declares.
    pub(super) fn new(
        release: KubernetesVersion,
        resource: &ApiResource,
        printer_columns: &[Value],
        rows: Rows,
    ) -> Self {
        let listed = |key: &str| listed(key, release);
        let columns = if resource.custom {
            let mut columns = listed("=custom").unwrap_or_default();
            if !printer_columns.is_empty() {
                columns.truncate(1);
            }
            columns.extend(printer_columns.iter().map(custom_column));
            columns
        } else {
            let own = listed(&resource.resource).or_else(|| listed("=builtin"));
            own.unwrap_or_default()
        };
        Self { columns, rows }
    }

    /// The table of some objects, in a version of the form.
    pub(super) fn to_json<T: Borrow<StoredObject>>(
        &self,
        version: &'static str,
        release: KubernetesVersion,
        resource: &ApiResource,
        metadata: Value,
        objects: &[T],
        now: Timestamp,
    ) -> Value {
        let rows = objects.iter().map(|object| {
            let object: &StoredObject = object.borrow();
            let shown = object.to_json(resource);
            let cell = |column: &Column| match &column.cell {
                Cell::Value(pointer, missing) => cells::value(&shown, pointer, missing),
                Cell::Count(pointer) => cells::count(&shown, pointer).into(),
                Cell::Path(path) => custom_cell(&shown, path, &column.of_type, now),
                Cell::Call(call) => cells::computed(release, call, &shown, now),
            };
            let mut row = json!({"cells": self.columns.iter().map(cell).collect::<Vec<_>>(), "object": null});
            match self.rows {
                Rows::CellsOnly => {}
                Rows::Metadata => row["object"] = partial(object, resource, version),
                Rows::Objects => row["object"] = shown,
            }
            if let Some(condition) = cells::condition(&resource.resource, object) {
                row["conditions"] = json!([condition]);
            }
            row
        });
        let defined = self.columns.iter().filter(|column| !column.of_type.is_empty());
        json!({
            "kind": "Table",
            "apiVersion": version,
            "metadata": metadata,
            "rows": rows.collect::<Vec<_>>(),
            "columnDefinitions": defined.collect::<Vec<_>>(),
        })
    }
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

fn custom_column(declared: &Value) -> Column {
    let text = |key: &str| declared[key].as_str().unwrap_or_default().to_owned();
    let path = text("jsonPath");
    Column {
        name: text("name"),
        of_type: text("type"),
        format: text("format"),
        description: match text("description") {
            none if none.is_empty() => {
                format!("Custom resource definition column (in JSONPath format): {path}")
            }
            text => text,
        },
        priority: declared["priority"].as_i64().unwrap_or(0),
        cell: Cell::Path(path),
    }
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

/// An annotation that the API version adds from a field of the internal type.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The metadata of an object, as an object of its own: that of the internal type, before it is converted to a
/// version.
pub(super) fn partial(object: &StoredObject, resource: &ApiResource, version: &'static str) -> Value {
    let mut metadata = object.to_json(resource)["metadata"].take();
    if &*resource.kind == "DaemonSet"
        && !resource.custom
        && let Some(annotations) = metadata["annotations"].as_object_mut()
    {
        annotations.remove(TEMPLATE_GENERATION);
        if annotations.is_empty()
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.remove("annotations");
        }
    }
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version,
        "metadata": metadata,
    })
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
}
