//! The rules of a definition: whether they compile, and what they may cost.
//!
//! # Upstream
//! `ValidateCustomResourceDefinitionOpenAPISchema` in
//! [`validation.go`](https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/apis/apiextensions/validation/validation.go),
//! and `Compile` in `pkg/apiserver/schema/cel/compilation.go`.

use kubegc_core::Behavior;
use serde_json::Value;

use super::{
    super::{section, validation},
    Engine, MESSAGES_ARE_EXPRESSIONS, RULES, RULES_ARE_RUN, RULES_HAVE_REASONS, Rule,
    UNCHANGED_VALUES_MAY_STAY, cost,
    declared::{Declared, text},
    field_path,
    types::Ty,
};
use crate::{
    api_server::write::Write,
    status::{Cause, quoted},
    types::{
        field::{At, Check, Path},
        go_syntax,
    },
};

const RULE_COST_MAX: u64 = 10_000_000;
const SCHEMA_COST_MAX: u64 = 100_000_000;
/// How many of the most expensive rules are named.
const NAMED_MAX: usize = 4;

/// Problems of rules do not repeat the name of their field.
const FIELDS_ARE_NOT_NAMED: Behavior = Behavior::since(34, 0, "kubernetes #132513");
/// Rules of schemas that do not change may cost too much.
const UNCHANGED_SCHEMAS_MAY_STAY: Behavior = Behavior::since(29, 0, "validation.go of 1.29");

/// A schema below a definition.
struct Node<'n> {
    at: At<'n>,
    declared: Declared<'n>,
    /// The nearest place above whose items have no former values.
    uncorrelatable: Option<Path>,
    /// How many values of this schema an object may have; `None` without limits.
    cardinality: Option<u64>,
    /// Whether the schema is stored already: rules of it may cost too much.
    is_unchanged: bool,
}

/// Errors in the rules of a schema.
#[derive(Default)]
struct Found {
    /// Problems of the fields of rules.
    fields: Vec<Cause>,
    /// Problems of expressions.
    expressions: Vec<Cause>,
    /// The costs and paths of expressions.
    costs: Vec<(u64, String)>,
}

impl Found {
    fn causes(mut self, path: String) -> impl Iterator<Item = Cause> {
        let costs = self.costs.iter().map(|(cost, _)| *cost);
        let total = costs.fold(0, u64::saturating_add);
        if total > SCHEMA_COST_MAX {
            let problem =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.costs.retain(|(cost, _)| *cost >= SCHEMA_COST_MAX / 100);
            self.costs.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            let named = self.costs.into_iter().take(NAMED_MAX);
            self.expressions
                .extend(named.map(|(_, path)| Cause::forbidden(path, problem)));
            let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            let problem = too_expensive(what, total, SCHEMA_COST_MAX);
            self.expressions.push(Cause::forbidden(path, &problem));
        }
        self.fields.into_iter().chain(self.expressions)
    }
}

/// The problem of a cost above a limit.
///
/// # Upstream
/// `getCostErrorMessage`.
fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

impl Engine<'_> {
    /// The problems of the rules of a definition that is to be written.
    pub(crate) fn definition(&self, write: Write<'_>) -> Vec<Cause> {
        let mut causes = Vec::new();
        if !self.version.has(RULES_ARE_RUN) {
            return causes;
        }
        let old = write.old.filter(|_| self.version.has(UNCHANGED_SCHEMAS_MAY_STAY));
        let former = old.map(validation::schemas).unwrap_or_default();
        for (path, schema) in &validation::schemas(write.new) {
            let mut found = Found::default();
            let node = Node {
                at: At::of_value(Some(schema), path),
                declared: Declared {
                    schema,
                    is_root: true,
                },
                uncorrelatable: None,
                cardinality: Some(1),
                is_unchanged: former.iter().any(|(_, former)| former == schema),
            };
            self.schema(&node, &mut found);
            causes.extend(found.causes(path.clone()));
        }
        causes
    }

    /// Depth is bounded by the parser that read the schema.
    fn schema(&self, node: &Node<'_>, found: &mut Found) {
        let (at, schema) = (&node.at, node.at.value);
        let before = found.fields.len();
        let factor = node.declared.multiplicity();
        let cardinality = node.cardinality.zip(factor);
        let cardinality = cardinality.map(|(one, other)| one.saturating_mul(other));
        let below = |at: At<'_>, is_correlatable: bool, found: &mut Found| {
            let own = || (!is_correlatable).then(|| node.at.path.clone());
            let below = Node {
                declared: Declared::of(at.value),
                uncorrelatable: node.uncorrelatable.clone().or_else(own),
                cardinality,
                is_unchanged: node.is_unchanged,
                at,
            };
            if below.at.value.is_object() {
                self.schema(&below, found);
            }
        };
        let is_atomic = text(schema, "x-kubernetes-map-type") == "atomic";
        for (_, property) in at.get("properties").entries() {
            below(property, !is_atomic, found);
        }
        below(at.get("additionalProperties"), !is_atomic, found);
        let has_keys = text(schema, "x-kubernetes-list-type") == "map";
        below(at.get("items"), has_keys, found);
        for rule in at.get(RULES).items() {
            self.fields(schema, &rule, &mut found.fields);
        }
        // Expressions are compiled where the schema and all below it have no other problem.
        if found.fields.len() > before || !node.declared.is_visible() {
            return;
        }
        for rule in at.get(RULES).items() {
            self.expressions(node, &rule, found);
        }
    }

    fn fields(&self, schema: &Value, rule: &At<'_>, causes: &mut Vec<Cause>) {
        let mut c = Check::new(self.version, None);
        section("SchemaRule", rule, &mut c);
        let field = rule.get("fieldPath");
        if self.version.has(RULES_HAVE_REASONS) && field_path(field.text(), schema).is_err() {
            let is_named = !self.version.has(FIELDS_ARE_NOT_NAMED);
            let name = if is_named { "fieldPath " } else { "" };
            field.invalid(&mut c, &format!("{name}must be a valid path"));
        }
        causes.append(&mut c.causes);
    }

    fn expressions(&self, node: &Node<'_>, rule: &At<'_>, found: &mut Found) {
        let at = |key: &str| rule.get(key).path.to_string();
        let rule = &Rule(rule.value);
        let invalid = |key: &str, problem: &str| {
            let shown = go_syntax::value(self.version, rule.0, "apiextensions.ValidationRule");
            Cause::invalid(at(key), &shown, problem)
        };
        let cardinality = node.cardinality.unwrap_or_else(|| node.declared.cardinality());
        // The program of an expression that compiles.
        let mut compiled = |key: &str, wanted: &Ty<'_>, name: &str, must: &str, times: u64| match self
            .compiled(rule.text(key), node.declared, rule)
        {
            Err(problem) => {
                let problem = format!("{name}compilation failed: {problem}");
                found.expressions.push(invalid(key, &problem));
                None
            }
            Ok((_, checked)) if checked.result != *wanted => {
                found.expressions.push(invalid(key, must));
                None
            }
            Ok((program, checked)) => {
                let cost = cost::most(program.expression(), &checked, node.declared).saturating_mul(times);
                if cost > RULE_COST_MAX && !node.is_unchanged {
                    let problem = too_expensive(&format!("estimated {key} cost"), cost, RULE_COST_MAX);
                    found.expressions.push(Cause::forbidden(at(key), &problem));
                }
                found.costs.push((cost, at(key)));
                Some(program)
            }
        };
        let must = "cel expression must evaluate to a bool";
        let program = compiled("rule", &Ty::BOOL, "", must, cardinality);
        if program.is_some()
            && self.version.has(MESSAGES_ARE_EXPRESSIONS)
            && !rule.text("messageExpression").is_empty()
        {
            let must = "messageExpression must evaluate to a string";
            compiled("messageExpression", &Ty::STRING, "messageExpression ", must, 1);
        }
        let uses_old_self = program.is_some_and(|program| program.uses("oldSelf"));
        if let Some(within) = node.uncorrelatable.as_ref().filter(|_| uses_old_self) {
            let problem =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
            found
                .expressions
                .push(Cause::invalid(at("rule"), &quoted(rule.text("rule")), &problem));
        }
        let optional = rule.0.get("optionalOldSelf").filter(|_| !uses_old_self);
        if let Some(optional) = optional.filter(|_| self.version.has(UNCHANGED_VALUES_MAY_STAY)) {
            let problem = "may not be set if oldSelf is not used in rule";
            let optional = optional.to_string();
            found
                .expressions
                .push(Cause::invalid(at("optionalOldSelf"), &optional, problem));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::too_expensive;

    #[test]
    fn costs_are_shown_with_their_factor() {
        for (cost, factor) in [
            (10_000_001, "1.000000x"),
            (14_999_999, "1.500000x"),
            (15_000_000, "1.5x"),
            (25_165_826, "2.5x"),
            (1_000_000_000, "100.0x"),
            (1_000_000_001, "more than 100x"),
            (u64::MAX, "more than 100x"),
        ] {
            let shown = too_expensive("estimated rule cost", cost, 10_000_000);
            let begin = format!("estimated rule cost exceeds budget by factor of {factor} (try ");
            assert!(shown.starts_with(&begin), "{shown}");
        }
    }
}
