//! The facts of each kind: `fields.txt` has bodies of objects, with the facts and flaws in them.
//!
//! An input is a kind and a body in a dump or, after `live`, as an API server serves it. The facts are the
//! fields that differ from those of a live object without a body.

use std::mem::discriminant;

use kubegc_core::record::{Body, Resource};
use kubegc_fixtures::check_transcript;
use serde_json::{Value, json};

use crate::{
    common::{live, object, of_snapshot, read},
    facts::changes,
};

/// The resource and the body of an input, and whether an API server serves it.
fn parsed(input: &str) -> (Resource, Value, bool) {
    let (kind, body) = input.split_once(' ').expect("a kind and a body");
    let mut resources = Resource::ALL.iter().copied();
    let resource = resources.find(|resource| resource.kind() == kind);
    let of_server = body.strip_prefix("live ");
    let json = serde_json::from_str(of_server.unwrap_or(body)).expect("JSON");
    (resource.expect("a kind"), json, of_server.is_some())
}

#[test]
fn bodies_have_these_facts_and_flaws() {
    check_transcript("tests/records/fields.txt", |input| {
        let (resource, body, is_live) = parsed(input);
        let of_empty = live(resource, json!({}));
        let (found, flaws) = match is_live {
            true => (live(resource, body.clone()), Vec::new()),
            false => read(resource, body.clone()),
        };
        let mut lines = match &found {
            Body::Unread => vec!["Unread".to_owned()],
            found if is_live && body == json!({}) => vec![format!("{found:?}")],
            found => changes(found, &of_empty),
        };
        lines.extend(flaws.into_iter().map(|flaw| format!("flaw: {flaw}")));
        if lines.is_empty() {
            lines.push("nothing else".to_owned());
        }
        lines.join("\n")
    });
}

/// The inputs of `fields.txt`.
pub(crate) fn inputs() -> impl Iterator<Item = (Resource, Value, bool)> {
    let cases = include_str!("fields.txt").split("\n\n");
    let inputs = cases.filter_map(|case| case.lines().find(|line| !line.starts_with('#')));
    inputs.map(parsed)
}

/// The places in a value, as pointers and as flaws name them.
pub(crate) fn places(value: &Value, pointer: &str, name: &str) -> Vec<(String, String)> {
    let children: Vec<(String, String, &Value)> = match value {
        Value::Object(fields) => {
            // The selector of a Service is a map of labels.
            let is_of_labels = name.ends_with("selector") && fields.values().all(Value::is_string);
            let is_of_texts = name.ends_with("annotations") || name.ends_with("abels") || is_of_labels;
            let named = |key: &String| match (name, is_of_texts) {
                ("", _) => key.clone(),
                (_, true) => format!("{name}[{key}]"),
                (_, false) => format!("{name}.{key}"),
            };
            let escaped = |key: &String| key.replace('~', "~0").replace('/', "~1");
            let of_field = |(key, value)| (escaped(key), named(key), value);
            fields.iter().map(of_field).collect()
        }
        Value::Array(items) => {
            let of_item = |(at, value)| (format!("{at}"), format!("{name}[{at}]"), value);
            items.iter().enumerate().map(of_item).collect()
        }
        _ => Vec::new(),
    };
    let below = children.into_iter().flat_map(|(key, name, value)| {
        let pointer = format!("{pointer}/{key}");
        let mut below = places(value, &pointer, &name);
        below.push((pointer, name));
        below
    });
    below.collect()
}

/// The text of a flaw for a value of another type.
fn expected(value: &Value) -> &'static str {
    match value {
        Value::Null => "",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a whole number",
        Value::String(text) if text.ends_with('%') => "a whole number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// A value of another type is not taken as something else.
#[test]
fn a_value_of_another_type_changes_no_fact_or_is_a_flaw_at_its_path_and_unread() {
    let others = [json!(true), json!(-1.5), json!({ "?": [] }), json!([[]])];
    let others = others.iter().zip(["a boolean", "a number", "a map", "a list"]);
    for (resource, body, _) in inputs() {
        let read = |body: &Value| of_snapshot(&object(resource, body.clone()).to_string());
        let (whole, flaws) = read(&body);
        if !flaws.is_empty() {
            continue;
        }
        for (pointer, name) in places(&body, "", "") {
            for (other, found) in others.clone() {
                let mut changed = body.clone();
                let place = changed.pointer_mut(&pointer).expect("it is there");
                if name == "metadata" || place.is_null() || discriminant(place) == discriminant(other) {
                    continue;
                }
                let (start, end) = (
                    format!("{name}: expected {}", expected(place)),
                    format!(", found {found}"),
                );
                place.clone_from(other);
                let (facts, flaws) = read(&changed);
                let changes = changes(&facts, &whole);
                let is_named = flaws
                    .iter()
                    .any(|flaw| flaw.starts_with(&start) && flaw.ends_with(&end));
                let is_unread = changes.iter().all(|change| change.ends_with("Unread"));
                assert!(
                    changes.is_empty() || is_named && is_unread,
                    "{changed}: {changes:?}: {flaws:?}"
                );
            }
        }
    }
}
