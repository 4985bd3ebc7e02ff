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
    let validator = Validator { root: path, version };
    let problems = validator.validated("", value, schema).problems;
    problems.into_iter().map(|(_, cause)| cause).collect()
}

/// A missing path as Go prints it.
fn nowhere(path: String) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path }
}

/// The result of validating a value.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// The problems by the texts that identify them.
    problems: Vec<(String, Cause)>,
    /// The number of checks. Of several failing schemas, the one with most checks is reported.
    checks: usize,
}

impl Outcome {
    fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    /// Adds a problem, once.
    fn add(&mut self, text: String, cause: Cause) {
        if !self.problems.iter().any(|(known, _)| *known == text) {
            self.problems.push((text, cause));
        }
    }

    fn merge(&mut self, other: Self) {
        self.checks += other.checks;
        for (text, cause) in other.problems {
            self.add(text, cause);
        }
    }
}

struct Validator<'a> {
    /// The field of the value that is validated.
    root: &'a str,
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

    /// Adds an invalid value, as messages print it.
    fn invalid(&self, path: &str, words: &str, shown: &str, out: &mut Outcome) {
        let text = format!("{path} in body {words}");
        let cause = Cause::invalid(nowhere(self.field(path)), shown, &text);
        out.add(text, cause);
    }

    /// Adds a value of the wrong type.
    fn mistyped(&self, path: &str, expected: &str, found: &str, out: &mut Outcome) {
        let shown = quoted(found);
        let text = format!("{path} in body must be of type {expected}: {shown}");
        let mut cause = Cause::invalid(nowhere(self.field(path)), &shown, &text);
        if self.version.has(TYPES_ARE_REASONS) {
            cause.reason = "FieldValueTypeInvalid";
        }
        out.add(text, cause);
    }

    /// Adds a value that is larger than allowed. `limit`: its cause in newer releases.
    fn too_large(
        &self,
        path: &str,
        words: &str,
        shown: &str,
        limit: impl FnOnce(String) -> Cause,
        out: &mut Outcome,
    ) {
        match self.version.has(TYPES_ARE_REASONS) {
            true => out.add(
                format!("{path} in body {words}"),
                limit(nowhere(self.field(path))),
            ),
            false => self.invalid(path, words, shown, out),
        }
    }

    fn validated(&self, path: &str, value: &Value, schema: &Value) -> Outcome {
        let mut outcome = Outcome::default();
        self.value(path, value, schema, &mut outcome);
        outcome
    }

    /// Depth is bounded by that of the value and of the schema, which the parser bounds.
    fn value(&self, path: &str, value: &Value, schema: &Value, out: &mut Outcome) {
        let types = types(schema);
        let (is_null, has_type) = (
            value.is_null(),
            !types.is_empty() || !format_of(schema).is_empty(),
        );
        if is_null || has_type {
            self.types(path, value, schema, &types, out);
        }
        if is_null {
            self.enumeration(path, value, schema, out);
            return;
        }
        out.checks += 4 + usize::from(has_type);
        self.logic(path, value, schema, out);
        match value {
            Value::String(text) => self.string(path, text, schema, out),
            Value::Number(number) => self.numeric(path, number, schema, out),
            Value::Array(items) => self.array(path, items, schema, out),
            _ => out.checks -= 1,
        }
        self.enumeration(path, value, schema, out);
        if let Value::Object(fields) = value {
            out.checks += 1;
            self.object(path, fields, schema, out);
        }
    }

    fn types(&self, path: &str, value: &Value, schema: &Value, types: &[&str], out: &mut Outcome) {
        let is_null =
            value.is_null() || (!self.version.has(EMPTY_STRINGS_ARE_KEPT) && value.as_str() == Some(""));
        if is_null {
            match types.is_empty() || types.contains(&"null") || flag(schema, "nullable") {
                true => out.checks += 1,
                false => self.mistyped(path, &types.join(","), "null", out),
            }
            return;
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
        let is_numeric = types.contains(&"number") || types.contains(&"integer");
        if !format.is_empty() && !is_text_or_list && !fits && found_format != format {
            self.mistyped(path, format, found_format, out);
        } else if fits || !is_numeric && !format.is_empty() && is_text_or_list {
            out.checks += 1;
        } else {
            self.mistyped(path, &types.join(","), found, out);
        }
    }

    /// `allOf`, `anyOf`, `oneOf` and `not`.
    fn logic(&self, path: &str, value: &Value, schema: &Value, out: &mut Outcome) {
        // Several schemas contradict each other; no path is named.
        let composite = |text: &str, out: &mut Outcome| {
            let text = format!("{} {text}", quoted(path));
            let cause = Cause::invalid(nowhere(self.root.to_owned()), "\"\"", &text);
            out.add(text, cause);
        };
        let results = |key: &str| -> Vec<Outcome> {
            let schemas = schema.get(key).and_then(Value::as_array).into_iter().flatten();
            schemas
                .map(|schema| self.validated(path, value, schema))
                .collect()
        };
        const ONE: &str = "must validate one and only one schema (oneOf). Found";
        for (key, none) in [
            ("anyOf", "must validate at least one schema (anyOf)".to_owned()),
            ("oneOf", format!("{ONE} none valid")),
        ] {
            let results = results(key);
            let valid: Vec<&Outcome> = results.iter().filter(|result| result.is_valid()).collect();
            match valid.as_slice() {
                _ if results.is_empty() => {}
                [] => {
                    composite(&none, out);
                    out.merge(best(&results));
                }
                [_, _, ..] if key == "oneOf" => {
                    composite(&format!("{ONE} {} valid alternatives", valid.len()), out);
                }
                [success, ..] => out.merge(Outcome::clone(success)),
            }
        }
        let all = results("allOf");
        let (count, valid) = (all.len(), all.iter().filter(|result| result.is_valid()).count());
        for result in all {
            out.merge(result);
        }
        if valid != count {
            let none = if valid == 0 { ". None validated" } else { "" };
            composite(&format!("must validate all the schemas (allOf){none}"), out);
        }
        let is_valid = |not: &Value| self.validated(path, value, not).is_valid();
        if schema.get("not").is_some_and(is_valid) {
            composite("must not validate the schema (not)", out);
        }
        out.checks += 1;
    }

    fn array(&self, path: &str, items: &[Value], schema: &Value, out: &mut Outcome) {
        if let Some(of_items) = schema.get("items").filter(|items| items.is_object()) {
            for (index, item) in items.iter().enumerate() {
                // Older releases pass the index to the outermost check only, and that check does not print
                // it.
                match self.version.has(TYPES_ARE_REASONS) {
                    true => self.value(&format!("{path}[{index}]"), item, of_items, out),
                    false => self.value(path, item, of_items, out),
                }
            }
        }
        let size = items.len();
        if let Some(min) = whole(schema, "minItems").filter(|min| (size as i64) < *min) {
            let words = format!("should have at least {min} items");
            self.invalid(path, &words, &size.to_string(), out);
        }
        if let Some(max) = whole(schema, "maxItems").filter(|max| size as i64 > *max) {
            let words = format!("should have at most {max} items");
            let limit = |field| Cause::too_many(self.version, field, size, positive(max));
            self.too_large(path, &words, &size.to_string(), limit, out);
        }
        out.checks += 1;
    }

    fn object(&self, path: &str, fields: &Map<String, Value>, schema: &Value, out: &mut Outcome) {
        let size = fields.len();
        if let Some(min) = whole(schema, "minProperties").filter(|min| (size as i64) < *min) {
            let words = format!("should have at least {min} properties");
            let shown = if self.version.has(TYPES_ARE_REASONS) {
                size as i64
            } else {
                min
            };
            return self.invalid(path, &words, &shown.to_string(), out);
        }
        if let Some(max) = whole(schema, "maxProperties").filter(|max| size as i64 > *max) {
            let words = format!("should have at most {max} properties");
            let limit = |field| Cause::too_many(self.version, field, size, positive(max));
            return self.too_large(path, &words, &max.to_string(), limit, out);
        }
        for (key, value) in fields {
            match (schema["properties"].get(key), schema.get("additionalProperties")) {
                (Some(schema), _) => self.value(&child(path, key), value, schema, out),
                (None, Some(Value::Bool(false))) => {
                    let text = format!("{path}.{key} in body is a forbidden property");
                    let cause = Cause::invalid(nowhere(self.field(path)), &quoted(key), &text);
                    out.add(text, cause);
                }
                (None, Some(schema @ Value::Object(_))) => {
                    self.value(&format!("{path}.{key}"), value, schema, out);
                }
                (None, _) => {}
            }
        }
        let required = schema["required"].as_array().into_iter().flatten();
        let required = required.filter_map(Value::as_str);
        for key in required.filter(|key| !fields.contains_key(*key)) {
            let name = format!("{path}.{key}");
            let cause = Cause::required(self.field(&name), "");
            out.add(format!("{name} in body is required"), cause);
        }
    }

    fn string(&self, path: &str, text: &str, schema: &Value, out: &mut Outcome) {
        let length = text.chars().count() as i64;
        let pattern = schema.get("pattern").and_then(Value::as_str).unwrap_or_default();
        if let Some(max) = whole(schema, "maxLength").filter(|max| length > *max) {
            let words = format!("should be at most {max} chars long");
            let limit = |field| Cause::too_long(self.version, field, positive(max));
            self.too_large(path, &words, &quoted(text), limit, out);
        } else if let Some(min) = whole(schema, "minLength").filter(|min| length < *min) {
            let words = format!("should be at least {min} chars long");
            self.invalid(path, &words, &quoted(text), out);
        } else if !pattern.is_empty() && Regex::new(pattern).is_ok_and(|regex| !regex.is_match(text)) {
            self.invalid(path, &format!("should match '{pattern}'"), &quoted(text), out);
        }
        let format = format_of(schema);
        if !format.is_empty() {
            out.checks += 1;
            if !string_formats::fits(format, text) {
                self.mistyped(path, format, text, out);
            }
        }
    }

    fn numeric(&self, path: &str, number: &Number, schema: &Value, out: &mut Outcome) {
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
                self.invalid(path, &words, &shown, out);
            }
        }
        for (key, exclusive, words, sign) in [
            ("minimum", "exclusiveMinimum", "greater than", 1.0),
            ("maximum", "exclusiveMaximum", "less than", -1.0),
        ] {
            let Some(limit) = limit(key).map(as_limit) else {
                continue;
            };
            let is_exclusive = flag(schema, exclusive);
            if value * sign < limit * sign || is_exclusive && value == limit {
                let or_equal = if is_exclusive { "" } else { " or equal to" };
                let words = format!("should be {words}{or_equal} {}", go::float(limit));
                self.invalid(path, &words, &shown, out);
            }
        }
        out.checks += 1;
    }

    fn enumeration(&self, path: &str, value: &Value, schema: &Value, out: &mut Outcome) {
        let allowed = schema.get("enum").and_then(Value::as_array);
        let Some(allowed) = allowed.filter(|allowed| !allowed.is_empty()) else {
            return;
        };
        let same = |one: &Value| match (one, value) {
            (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
            (one, value) => !one.is_null() && one == value,
        };
        if allowed.iter().any(same) {
            return;
        }
        let shown = |one: &Value| one.as_str().map_or_else(|| one.to_string(), str::to_owned);
        let texts: Vec<String> = allowed.iter().map(shown).collect();
        let allowed = go::printed(&Value::Array(allowed.clone()));
        let cause = Cause::not_supported(self.field(path), &go::shown(value), &texts);
        out.add(format!("{path} in body should be one of {allowed}"), cause);
    }
}

/// A limit as causes count.
fn positive(limit: i64) -> usize {
    usize::try_from(limit).unwrap_or(0)
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
    schema[key] == true
}

fn whole(schema: &Value, key: &str) -> Option<i64> {
    schema.get(key)?.as_i64()
}
