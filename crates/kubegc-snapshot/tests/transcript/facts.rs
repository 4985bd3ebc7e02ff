//! Facts as text: what differs between two values.

use std::fmt::Debug;

/// The fields of a value that differ from those of another one, each as `path: value`.
pub(crate) fn changes(value: &impl Debug, other: &impl Debug) -> Vec<String> {
    let mut found = Vec::new();
    compare("", &format!("{value:?}"), &format!("{other:?}"), &mut found);
    found
}

fn compare(path: &str, value: &str, other: &str, found: &mut Vec<String>) {
    let (value, other) = unwrapped(value, other);
    if value == other {
        return;
    }
    match (fields(value), fields(other)) {
        (Some((kind, fields)), Some((of, others))) if kind == of => {
            for ((name, value), (_, other)) in fields.into_iter().zip(others) {
                let path = format!("{path}{}{name}", if path.is_empty() { "" } else { "." });
                compare(&path, value, other, found);
            }
        }
        _ => found.push(format!(
            "{path}{}{value}",
            if path.is_empty() { "" } else { ": " }
        )),
    }
}

/// Both values without a tuple around both, such as `Known(..)`.
fn unwrapped<'v>(value: &'v str, other: &'v str) -> (&'v str, &'v str) {
    let inner = |text: &'v str| {
        let (name, inner) = text.split_once('(')?;
        let is_name = name.chars().all(char::is_alphanumeric);
        let inner = inner.strip_suffix(')').filter(|inner| inner.ends_with('}'))?;
        is_name.then_some((name, inner))
    };
    match (inner(value), inner(other)) {
        (Some((name, value)), Some((of, other))) if name == of => unwrapped(value, other),
        _ => (value, other),
    }
}

/// The name and the fields of a struct in its debug text.
fn fields(text: &str) -> Option<(&str, Vec<(&str, &str)>)> {
    let (name, fields) = text.strip_suffix(" }")?.split_once(" { ")?;
    let (mut depth, mut in_text, mut is_escaped, mut from) = (0, false, false, 0);
    let mut parts = Vec::new();
    for (at, letter) in fields.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => in_text = !in_text,
            _ if in_text => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&fields[from..at]);
                from = at + 2;
            }
            _ => {}
        }
    }
    parts.push(&fields[from..]);
    let pairs = parts.into_iter().map(|part| part.split_once(": "));
    Some((name, pairs.collect::<Option<_>>()?))
}
