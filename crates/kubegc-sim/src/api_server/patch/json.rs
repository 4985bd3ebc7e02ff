//! Decides a JSON patch (RFC 6902): operations one after the other, all or none.

use serde_json::{Map, Value};

/// The operations of one patch.
#[derive(Debug)]
pub(super) struct Operations(Vec<Operation>);

#[derive(Debug)]
struct Operation {
    verb: Verb,
    path: Vec<String>,
}

#[derive(Debug)]
enum Verb {
    Add(Value),
    Remove,
    Replace(Value),
    Move(Vec<String>),
    Copy(Vec<String>),
    Test(Value),
}

impl Operations {
    pub(super) fn read(patch: Value) -> Result<Self, String> {
        let Value::Array(items) = patch else {
            return Err("the patch must be a list of operations".to_owned());
        };
        items
            .into_iter()
            .map(operation)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(super) fn apply(self, mut document: Value) -> Result<Value, String> {
        for Operation { verb, path } in self.0 {
            match verb {
                Verb::Add(value) => add(&mut document, &path, value)?,
                Verb::Remove => {
                    remove(&mut document, &path)?;
                }
                Verb::Replace(value) => {
                    *find(&mut document, &path).ok_or_else(|| missing(&path))? = value;
                }
                Verb::Move(from) => {
                    let value = remove(&mut document, &from)?;
                    add(&mut document, &path, value)?;
                }
                Verb::Copy(from) => {
                    let value = find(&mut document, &from).ok_or_else(|| missing(&from))?.clone();
                    add(&mut document, &path, value)?;
                }
                Verb::Test(value) => {
                    if find(&mut document, &path).map_or(&Value::Null, |found| found) != &value {
                        return Err(format!("testing value {} failed", pointer(&path)));
                    }
                }
            }
        }
        Ok(document)
    }
}

fn operation(item: Value) -> Result<Operation, String> {
    let Value::Object(mut fields) = item else {
        return Err("an operation must be an object".to_owned());
    };
    let path = |fields: &Map<String, Value>, key: &str| {
        let text = fields
            .get(key)
            .and_then(Value::as_str)
            .ok_or_else(|| format!("an operation needs a {key}"))?;
        parse(text)
    };
    let to = path(&fields, "path")?;
    let given = |value: Option<Value>| value.ok_or_else(|| "an operation needs a value".to_owned());
    let verb = match fields.get("op").and_then(Value::as_str) {
        Some("add") => Verb::Add(given(fields.remove("value"))?),
        Some("remove") => Verb::Remove,
        Some("replace") => Verb::Replace(given(fields.remove("value"))?),
        Some("move") => Verb::Move(path(&fields, "from")?),
        Some("copy") => Verb::Copy(path(&fields, "from")?),
        Some("test") => Verb::Test(given(fields.remove("value"))?),
        other => {
            return Err(format!(
                "unexpected kind of operation: {}",
                other.unwrap_or_default()
            ));
        }
    };
    Ok(Operation { verb, path: to })
}

/// Splits a JSON pointer (RFC 6901).
fn parse(pointer: &str) -> Result<Vec<String>, String> {
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let rest = pointer
        .strip_prefix('/')
        .ok_or_else(|| format!("{pointer} is not a JSON pointer"))?;
    Ok(rest
        .split('/')
        .map(|part| part.replace("~1", "/").replace("~0", "~"))
        .collect())
}

fn pointer(path: &[String]) -> String {
    path.iter().fold(String::new(), |text, part| text + "/" + part)
}

fn missing(path: &[String]) -> String {
    format!("{} does not exist", pointer(path))
}

fn find<'a>(document: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, part| match value {
        Value::Object(fields) => fields.get_mut(part),
        Value::Array(items) => items.get_mut(index(part)?),
        _ => None,
    })
}

/// A position in a list: digits without a leading zero.
fn index(part: &str) -> Option<usize> {
    if part.starts_with('+') || (part.len() > 1 && part.starts_with('0')) {
        return None;
    }
    part.parse().ok()
}

fn add(document: &mut Value, path: &[String], value: Value) -> Result<(), String> {
    let Some((last, parents)) = path.split_last() else {
        *document = value;
        return Ok(());
    };
    match find(document, parents) {
        Some(Value::Object(fields)) => {
            fields.insert(last.clone(), value);
            Ok(())
        }
        Some(Value::Array(items)) => {
            let at = if last == "-" {
                Some(items.len())
            } else {
                index(last)
            };
            match at {
                Some(at) if at <= items.len() => {
                    items.insert(at, value);
                    Ok(())
                }
                _ => Err(missing(path)),
            }
        }
        _ => Err(missing(path)),
    }
}

fn remove(document: &mut Value, path: &[String]) -> Result<Value, String> {
    let Some((last, parents)) = path.split_last() else {
        return Ok(std::mem::take(document));
    };
    let removed = match find(document, parents) {
        Some(Value::Object(fields)) => fields.remove(last),
        Some(Value::Array(items)) => index(last)
            .filter(|&at| at < items.len())
            .map(|at| items.remove(at)),
        _ => None,
    };
    removed.ok_or_else(|| missing(path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_follow_rfc_6902() {
        for (document, patch, expected) in [
            (
                json!({"a": 1}),
                json!([{"op": "add", "path": "/b", "value": 2}]),
                Some(json!({"a": 1, "b": 2})),
            ),
            (
                json!({"a": [1, 3]}),
                json!([{"op": "add", "path": "/a/1", "value": 2}]),
                Some(json!({"a": [1, 2, 3]})),
            ),
            (
                json!({"a": [1]}),
                json!([{"op": "add", "path": "/a/-", "value": 2}]),
                Some(json!({"a": [1, 2]})),
            ),
            (
                json!({"a": [1]}),
                json!([{"op": "add", "path": "/a/2", "value": 2}]),
                None,
            ),
            (
                json!({"a": {"b/c": 1}}),
                json!([{"op": "remove", "path": "/a/b~1c"}]),
                Some(json!({"a": {}})),
            ),
            (json!({"a": 1}), json!([{"op": "remove", "path": "/b"}]), None),
            (
                json!({"a": 1}),
                json!([{"op": "replace", "path": "/a", "value": 2}]),
                Some(json!({"a": 2})),
            ),
            (
                json!({"a": 1}),
                json!([{"op": "replace", "path": "/b", "value": 2}]),
                None,
            ),
            (
                json!({"a": 1}),
                json!([{"op": "move", "from": "/a", "path": "/b"}]),
                Some(json!({"b": 1})),
            ),
            (
                json!({"a": 1}),
                json!([{"op": "copy", "from": "/a", "path": "/b"}]),
                Some(json!({"a": 1, "b": 1})),
            ),
            (
                json!({"a": 1}),
                json!([{"op": "test", "path": "/a", "value": 1}, {"op": "remove", "path": "/a"}]),
                Some(json!({})),
            ),
            (
                json!({"a": 1}),
                json!([{"op": "remove", "path": "/a"}, {"op": "test", "path": "/a", "value": 1}]),
                None,
            ),
        ] {
            let operations = Operations::read(patch.clone()).unwrap();
            assert_eq!(operations.apply(document).ok(), expected, "{patch}");
        }
        for bad in [
            json!({}),
            json!([{"op": "add", "path": "/a"}]),
            json!([{"op": "sing", "path": "/a"}]),
        ] {
            assert!(Operations::read(bad).is_err());
        }
    }
}
