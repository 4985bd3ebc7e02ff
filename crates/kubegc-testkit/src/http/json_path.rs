//! The value of a printer column of a definition: the first value at a JSONPath.
//!
//! The part of the language that definitions use: names, positions, `*` and filters that compare a field with
//! a text, number or boolean.
//!
//! # Upstream
//! `client-go/util/jsonpath`, 1.20.2.

use serde_json::Value;

/// The first value at a path such as `.status.conditions[?(@.type=="Ready")].status`; `None` if nothing
/// is.
pub(super) fn first<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    let mut found = vec![object];
    let mut rest = path;
    while !rest.is_empty() {
        let (step, after) = step(rest)?;
        found = found.into_iter().flat_map(|value| step.of(value)).collect();
        rest = after;
    }
    found.first().copied()
}

enum Step<'p> {
    Name(&'p str),
    Position(i64),
    All,
    /// The items whose field is, or is not, a value.
    Where(&'p str, bool, Value),
}

fn step(path: &str) -> Option<(Step<'_>, &str)> {
    if let Some(inner) = path.strip_prefix('[') {
        let end = match inner.strip_prefix("?(") {
            Some(_) => inner.find(")]")? + 1,
            None => inner.find(']')?,
        };
        let (inside, after) = (&inner[..end], &inner[end + 1..]);
        if let Some(filter) = inside
            .strip_prefix("?(")
            .and_then(|filter| filter.strip_suffix(')'))
        {
            let (left, equal, right) = match filter.split_once("==") {
                Some((left, right)) => (left, true, right),
                None => filter
                    .split_once("!=")
                    .map(|(left, right)| (left, false, right))?,
            };
            let right = right.trim().replace('\'', "\"");
            let right = serde_json::from_str(&right).ok()?;
            return Some((Step::Where(left.trim().strip_prefix('@')?, equal, right), after));
        }
        let name = inside.trim_matches(['\'', '"']);
        let step = match name {
            "*" => Step::All,
            name => name.parse().map_or(Step::Name(name), Step::Position),
        };
        return Some((step, after));
    }
    let path = path.strip_prefix('.')?;
    let mut escaped = false;
    let end = path.find(|c: char| {
        let ends = !escaped && (c == '.' || c == '[');
        escaped = c == '\\';
        ends
    });
    let (name, after) = path.split_at(end.unwrap_or(path.len()));
    Some((if name == "*" { Step::All } else { Step::Name(name) }, after))
}

impl Step<'_> {
    fn of<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Self::Name(name), Value::Object(fields)) => {
                fields.get(&name.replace('\\', "")).into_iter().collect()
            }
            (Self::Position(at), Value::Array(items)) => {
                let at = if *at < 0 {
                    items.len().checked_add_signed(*at as isize)
                } else {
                    usize::try_from(*at).ok()
                };
                at.and_then(|at| items.get(at)).into_iter().collect()
            }
            (Self::All, Value::Array(items)) => items.iter().collect(),
            (Self::All, Value::Object(fields)) => fields.values().collect(),
            (Self::Where(field, equal, wanted), Value::Array(items)) => {
                let fits =
                    |item: &&Value| first(item, field).is_some_and(|value| (value == wanted) == *equal);
                items.iter().filter(fits).collect()
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::first;

    const ROWS: &str = r#"
.spec.replicas -> 3
.spec['a.b'] -> "dotted"
.spec.a\.b -> "dotted"
.spec.list[1] -> 2
.spec.list[-1] -> 2
.spec.list[*] -> 1
.status.conditions[?(@.type=="Ready")].status -> "True"
.status.conditions[?(@.type=='Ready')].status -> "True"
.status.conditions[?(@.type!="Ready")].status -> "False"
.status.conditions[?(@.type=="Other")].status -> none
.spec.missing.deeper -> none
no path -> none
.spec[ -> none
"#;

    #[test]
    fn paths_lead_to_the_first_value() {
        let object = json!({
            "spec": {"replicas": 3, "a.b": "dotted", "list": [1, 2]},
            "status": {"conditions": [{"type": "Done", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        for row in ROWS.trim().lines() {
            let (path, expected) = row.split_once(" -> ").expect("an arrow");
            let found = first(&object, path).map_or_else(|| "none".to_owned(), ToString::to_string);
            assert_eq!(found, expected, "{path}");
        }
    }
}
