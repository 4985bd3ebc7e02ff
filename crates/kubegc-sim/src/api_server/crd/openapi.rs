//! Validates custom resources against the OpenAPI schema of their version.
//!
//! # Upstream
//! `k8s.io/kube-openapi/pkg/validation/validate` at d219536bb9fd, and `ValidateCustomResource` in
//! `apiextensions-apiserver/pkg/apiserver/validation/validation.go`, 1.20.2.

use kubegc_core::{Behavior, KubernetesVersion};
use regex::Regex;
use serde_json::{Map, Number, Value};

use super::{instance::child, string_formats};
use crate::{
    go,
    status::{Cause, quoted},
};

/// An empty string in a custom resource is a string, not null.
const EMPTY_STRINGS_ARE_KEPT: Behavior = Behavior::since(21, 0, "kube-openapi e467f52");
/// A value of the wrong type has a reason of its own.
const TYPES_ARE_REASONS: Behavior = Behavior::since(24, 0, "kubernetes #108859");

/// The problems of a value under a schema. `path` is the field of the value; empty for the complete object.
pub(super) fn problems(path: &str, value: &Value, schema: &Value, version: KubernetesVersion) -> Vec<Cause> {
    let validator = Validator {
        root: path,
        types_are_reasons: version.has(TYPES_ARE_REASONS),
        version,
    };
    let problems = validator.value("", value, schema).problems;
    problems.into_iter().map(|problem| problem.cause).collect()
}

/// One problem, with the text that identifies it.
#[derive(Clone, Debug)]
struct Problem {
    text: String,
    cause: Cause,
}

/// A missing path as Go prints it.
fn nowhere(path: String) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path }
}

/// The result of validating a value.
#[derive(Clone, Debug, Default)]
struct Outcome {
    problems: Vec<Problem>,
    /// The number of checks. Of several failing schemas, the one with most checks is reported.
    checks: usize,
}

impl Outcome {
    fn of(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
            checks: 0,
        }
    }

    fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    /// Adds a problem, once.
    fn add(&mut self, problem: Problem) {
        if !self.problems.iter().any(|known| known.text == problem.text) {
            self.problems.push(problem);
        }
    }

    fn merge(&mut self, other: Self) {
        self.checks += other.checks;
        for problem in other.problems {
            self.add(problem);
        }
    }
}

struct Validator<'a> {
    /// The field of the value that is validated.
    root: &'a str,
    types_are_reasons: bool,
    version: KubernetesVersion,
}

impl Validator<'_> {
    /// The field with this path below the value that is validated.
    fn field(&self, name: &str) -> String {
        let name = name.strip_prefix('.').unwrap_or(name);
        match (self.root, name) {
            (root, "") => root.to_owned(),
            ("", name) => name.to_owned(),
            (root, name) => format!("{root}.{name}"),
        }
    }

    /// An invalid value, as messages print it.
    fn invalid(&self, path: &str, words: &str, shown: &str) -> Problem {
        let text = format!("{path} in body {words}");
        Problem {
            cause: Cause::invalid(nowhere(self.field(path)), shown, &text),
            text,
        }
    }

    /// More items or entries than are allowed.
    fn too_many(&self, path: &str, words: &str, (count, max): (i64, i64), shown: i64) -> Problem {
        let mut problem = self.invalid(path, words, &shown.to_string());
        if self.types_are_reasons {
            let [count, max] = [count, max].map(|number| usize::try_from(number).unwrap_or(0));
            problem.cause = Cause::too_many(self.version, nowhere(self.field(path)), count, max);
        }
        problem
    }

    /// Depth is bounded by that of the value and of the schema, which the parser bounds.
    fn value(&self, path: &str, value: &Value, schema: &Value) -> Outcome {
        let mut outcome = Outcome::default();
        let types = types(schema);
        if value.is_null() {
            outcome.merge(self.types(path, value, schema, &types));
            outcome.merge(self.enumeration(path, value, schema));
            return outcome;
        }
        let mut step = |result: Outcome| {
            outcome.merge(result);
            outcome.checks += 1;
        };
        if !types.is_empty() || !format_of(schema).is_empty() {
            step(self.types(path, value, schema, &types));
        }
        step(self.logic(path, value, schema));
        match value {
            Value::String(text) => {
                step(self.string(path, text, schema));
                if string_formats::is_known(format_of(schema)) {
                    step(self.format(path, text, schema));
                }
            }
            Value::Number(number) => step(self.numeric(path, number, schema)),
            Value::Array(items) => step(self.array(path, items, schema)),
            _ => {}
        }
        step(self.enumeration(path, value, schema));
        if let Value::Object(fields) = value {
            step(self.object(path, fields, schema));
        }
        outcome.checks += 1;
        outcome
    }

    fn types(&self, path: &str, value: &Value, schema: &Value, types: &[&str]) -> Outcome {
        let right = Outcome {
            checks: 1,
            ..Outcome::default()
        };
        let wrong = |expected: &str, found: &str| {
            let shown = quoted(found);
            let mut problem = self.invalid(path, &format!("must be of type {expected}: {shown}"), &shown);
            if self.types_are_reasons {
                problem.cause.reason = "FieldValueTypeInvalid";
            }
            Outcome::of(problem)
        };
        let is_null =
            value.is_null() || (!self.version.has(EMPTY_STRINGS_ARE_KEPT) && value.as_str() == Some(""));
        if is_null {
            if !types.is_empty() && !types.contains(&"null") && !flag(schema, "nullable") {
                return wrong(&types.join(","), "null");
            }
            return right;
        }
        let format = format_of(schema);
        let (found, found_format) = match value {
            Value::Null => ("null", ""),
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Number(number) if number.is_f64() => ("number", "double"),
            Value::Number(_) => ("integer", "int64"),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
        };
        let whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
        let fits = types.contains(&found)
            || (found == "number" && whole && types.contains(&"integer"))
            || (found == "integer" && types.contains(&"number"));
        let is_text_or_list = matches!(value, Value::String(_) | Value::Array(_));
        if !format.is_empty() && !is_text_or_list && !fits && found_format != format {
            return wrong(format, found_format);
        }
        let is_numeric = types.contains(&"number") || types.contains(&"integer");
        match fits || !is_numeric && !format.is_empty() && is_text_or_list {
            true => right,
            false => wrong(&types.join(","), found),
        }
    }

    /// `allOf`, `anyOf`, `oneOf` and `not`.
    fn logic(&self, path: &str, value: &Value, schema: &Value) -> Outcome {
        let mut main = Outcome::default();
        // Several schemas contradict each other; no path is named.
        let composite = |text: String| {
            let text = format!("{} {text}", quoted(path));
            Problem {
                cause: Cause::invalid(nowhere(self.root.to_owned()), "\"\"", &text),
                text,
            }
        };
        let results = |key: &str| -> Vec<Outcome> {
            let schemas = schema.get(key).and_then(Value::as_array).into_iter().flatten();
            schemas.map(|schema| self.value(path, value, schema)).collect()
        };
        let any = results("anyOf");
        if !any.is_empty() {
            match any.iter().find(|result| result.is_valid()) {
                Some(success) => main.merge(success.clone()),
                None => {
                    main.add(composite("must validate at least one schema (anyOf)".to_owned()));
                    main.merge(best(&any));
                }
            }
        }
        let one = results("oneOf");
        if !one.is_empty() {
            let valid: Vec<&Outcome> = one.iter().filter(|result| result.is_valid()).collect();
            let found = match valid.as_slice() {
                [] => Some("Found none valid".to_owned()),
                [_] => None,
                several => Some(format!("Found {} valid alternatives", several.len())),
            };
            match (found, valid.first()) {
                (None, Some(success)) => main.merge((*success).clone()),
                (found, _) => {
                    main.add(composite(format!(
                        "must validate one and only one schema (oneOf). {}",
                        found.unwrap_or_default()
                    )));
                    if valid.is_empty() {
                        main.merge(best(&one));
                    }
                }
            }
        }
        let all = results("allOf");
        if !all.is_empty() {
            let (count, valid) = (all.len(), all.iter().filter(|result| result.is_valid()).count());
            for result in all {
                main.merge(result);
            }
            if valid != count {
                let none = if valid == 0 { ". None validated" } else { "" };
                main.add(composite(format!("must validate all the schemas (allOf){none}")));
            }
        }
        if let Some(not) = schema.get("not")
            && self.value(path, value, not).is_valid()
        {
            main.add(composite("must not validate the schema (not)".to_owned()));
        }
        main.checks += 1;
        main
    }

    fn array(&self, path: &str, items: &[Value], schema: &Value) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(of_items) = schema.get("items").filter(|items| items.is_object()) {
            for (index, item) in items.iter().enumerate() {
                // Older releases pass the index to the outermost check only, and that check does not print
                // it.
                match self.types_are_reasons {
                    true => outcome.merge(self.value(&format!("{path}[{index}]"), item, of_items)),
                    false => outcome.merge(self.value(path, item, of_items)),
                }
            }
        }
        let size = items.len() as i64;
        if let Some(min) = whole(schema, "minItems").filter(|min| size < *min) {
            let words = format!("should have at least {min} items");
            outcome.add(self.invalid(path, &words, &size.to_string()));
        }
        if let Some(max) = whole(schema, "maxItems").filter(|max| size > *max) {
            let words = format!("should have at most {max} items");
            outcome.add(self.too_many(path, &words, (size, max), size));
        }
        outcome.checks += 1;
        outcome
    }

    fn object(&self, path: &str, fields: &Map<String, Value>, schema: &Value) -> Outcome {
        let size = fields.len() as i64;
        if let Some(min) = whole(schema, "minProperties").filter(|min| size < *min) {
            let words = format!("should have at least {min} properties");
            let shown = if self.types_are_reasons { size } else { min };
            return Outcome::of(self.invalid(path, &words, &shown.to_string()));
        }
        if let Some(max) = whole(schema, "maxProperties").filter(|max| size > *max) {
            let words = format!("should have at most {max} properties");
            return Outcome::of(self.too_many(path, &words, (size, max), max));
        }
        let mut outcome = Outcome::default();
        let properties = schema.get("properties").and_then(Value::as_object);
        let property = |key: &String| properties.and_then(|properties| properties.get(key));
        let additional = schema.get("additionalProperties");
        for (key, value) in fields {
            match (property(key), additional) {
                (None, Some(Value::Bool(false))) => {
                    let text = format!("{path}.{key} in body is a forbidden property");
                    let cause = Cause::invalid(nowhere(self.field(path)), &quoted(key), &text);
                    outcome.add(Problem { text, cause });
                }
                (None, Some(schema @ Value::Object(_))) => {
                    outcome.merge(self.value(&format!("{path}.{key}"), value, schema));
                }
                (None, _) => {}
                (Some(schema), _) => outcome.merge(self.value(&child(path, key), value, schema)),
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        for key in required.into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(key) {
                let name = format!("{path}.{key}");
                outcome.add(Problem {
                    text: format!("{name} in body is required"),
                    cause: Cause::required(self.field(&name), ""),
                });
            }
        }
        outcome
    }

    fn string(&self, path: &str, text: &str, schema: &Value) -> Outcome {
        let length = text.chars().count() as i64;
        let wrong = |words: &str| Outcome::of(self.invalid(path, words, &quoted(text)));
        if let Some(max) = whole(schema, "maxLength").filter(|max| length > *max) {
            let words = format!("should be at most {max} chars long");
            let mut problem = self.invalid(path, &words, &quoted(text));
            if self.types_are_reasons {
                let max = usize::try_from(max).unwrap_or(0);
                problem.cause = Cause::too_long(self.version, nowhere(self.field(path)), max);
            }
            return Outcome::of(problem);
        }
        if let Some(min) = whole(schema, "minLength").filter(|min| length < *min) {
            return wrong(&format!("should be at least {min} chars long"));
        }
        let pattern = schema.get("pattern").and_then(Value::as_str).unwrap_or_default();
        if !pattern.is_empty() && Regex::new(pattern).is_ok_and(|regex| !regex.is_match(text)) {
            return wrong(&format!("should match '{pattern}'"));
        }
        Outcome::default()
    }

    fn format(&self, path: &str, text: &str, schema: &Value) -> Outcome {
        let format = format_of(schema);
        if string_formats::fits(format, text) {
            return Outcome::default();
        }
        let shown = quoted(text);
        let mut problem = self.invalid(path, &format!("must be of type {format}: {shown}"), &shown);
        if self.types_are_reasons {
            problem.cause.reason = "FieldValueTypeInvalid";
        }
        Outcome::of(problem)
    }

    fn numeric(&self, path: &str, number: &Number, schema: &Value) -> Outcome {
        let mut outcome = Outcome::default();
        let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
        let shown = go::number(number);
        let value = number.as_f64().unwrap_or_default();
        // Limits of integers are truncated to integers.
        let as_limit = |limit: f64| if number.is_f64() { limit } else { limit.trunc() };
        if let Some(factor) = limit("multipleOf").map(as_limit).filter(|factor| *factor > 0.0) {
            let quotient = if factor < 1.0 {
                1.0 / factor * value
            } else {
                value / factor
            };
            let is_multiple = match (number.as_i64(), factor as i64) {
                (Some(whole), factor @ 1..) => whole % factor == 0,
                _ => quotient.fract() == 0.0,
            };
            if !is_multiple {
                let words = format!("should be a multiple of {}", go::float(factor));
                outcome.add(self.invalid(path, &words, &shown));
            }
        }
        for (key, exclusive, words, is_outside) in [
            (
                "minimum",
                "exclusiveMinimum",
                "greater than",
                f64::lt as fn(&f64, &f64) -> bool,
            ),
            ("maximum", "exclusiveMaximum", "less than", f64::gt),
        ] {
            let Some(limit) = limit(key).map(as_limit) else {
                continue;
            };
            let or_equal = match flag(schema, exclusive) {
                true => "",
                false => " or equal to",
            };
            if is_outside(&value, &limit) || or_equal.is_empty() && !is_outside(&limit, &value) {
                let words = format!("should be {words}{or_equal} {}", go::float(limit));
                outcome.add(self.invalid(path, &words, &shown));
            }
        }
        outcome.checks += 1;
        outcome
    }

    fn enumeration(&self, path: &str, value: &Value, schema: &Value) -> Outcome {
        let Some(Value::Array(allowed)) = schema.get("enum") else {
            return Outcome::default();
        };
        let same = |one: &Value| match (one, value) {
            (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
            (one, value) => !one.is_null() && one == value,
        };
        if allowed.is_empty() || allowed.iter().any(same) {
            return Outcome::default();
        }
        let shown = |one: &Value| match one {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let allowed_texts: Vec<String> = allowed.iter().map(shown).collect();
        Outcome::of(Problem {
            text: format!(
                "{path} in body should be one of {}",
                go::printed(&Value::Array(allowed.clone()))
            ),
            cause: Cause::not_supported(self.field(path), &go::shown(value), &allowed_texts),
        })
    }
}

/// Of several failing schemas, the first one with most checks.
fn best(results: &[Outcome]) -> Outcome {
    let most = results.iter().map(|result| result.checks).max();
    let mut best = results.iter().filter(|result| Some(result.checks) == most);
    best.next().cloned().unwrap_or_default()
}

/// The types that a schema allows.
fn types(schema: &Value) -> Vec<&str> {
    if flag(schema, "x-kubernetes-int-or-string") {
        return vec!["integer", "string"];
    }
    let ty = schema.get("type").and_then(Value::as_str);
    ty.filter(|ty| !ty.is_empty()).into_iter().collect()
}

/// The format, if the server checks it.
fn format_of(schema: &Value) -> &str {
    let format = schema.get("format").and_then(Value::as_str);
    format
        .filter(|format| string_formats::is_known(format))
        .unwrap_or_default()
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

fn whole(schema: &Value, key: &str) -> Option<i64> {
    schema.get(key)?.as_i64()
}
