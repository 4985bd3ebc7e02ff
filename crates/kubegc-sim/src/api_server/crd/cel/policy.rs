//! Expressions of ValidatingAdmissionPolicies.
//!
//! # Upstream
//! `mustBuildEnvs` and `ConvertObjectToUnstructured` in
//! [`plugin/cel`](https://github.com/kubernetes/kubernetes/tree/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/cel).
//!
//! # Deviations
//! Types of variables are not checked when a policy is stored. All variables are evaluated before the
//! expression that reads one of them; one that fails has no value.

use std::sync::Arc;

use cel::{
    Context, Value as Cel,
    common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators},
};
use serde_json::Value;

use super::{Compiled, ENVIRONMENT, Engine, MESSAGE_BYTES_MAX, Ty, check, shown, values};

const NO_AUTHORIZER: &str = "authorizer is not covered by this simulated API server";

/// The variables of expressions.
const VARIABLES: [&str; 7] = [
    "object",
    "oldObject",
    "request",
    "params",
    "namespaceObject",
    "variables",
    "authorizer",
];

/// The fields of `request` that are known without the user and the body.
const REQUEST_FIELDS: [&str; 10] = [
    "operation",
    "name",
    "namespace",
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "dryRun",
];

/// The fields of `metadata` that are known of every object.
const METADATA_FIELDS: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "labels",
    "finalizers",
    "ownerReferences",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// The values of the variables of a policy.
#[derive(Clone, Copy)]
pub(in crate::api_server) struct Scene<'a> {
    /// The `request` of an `AdmissionReview`.
    pub(in crate::api_server) review: &'a Value,
    /// The Namespace of the object, or null.
    pub(in crate::api_server) namespace: &'a Value,
    /// The parameter, or null.
    pub(in crate::api_server) parameter: &'a Value,
    /// Names and expressions of composed variables.
    pub(in crate::api_server) variables: &'a [(Arc<str>, Arc<str>)],
}

impl Engine<'_> {
    /// Whether an expression holds.
    ///
    /// # Errors
    /// The reason why it cannot be evaluated.
    pub(in crate::api_server) fn holds(&self, expression: &str, scene: Scene<'_>) -> Result<bool, String> {
        match self.evaluated(expression, scene)? {
            Cel::Bool(holds) => Ok(holds),
            _ => Err("must evaluate to bool".to_owned()),
        }
    }

    /// The message that an expression returns, if it can be shown.
    pub(in crate::api_server) fn message(&self, expression: &str, scene: Scene<'_>) -> Option<String> {
        let Ok(Cel::String(message)) = self.evaluated(expression, scene) else {
            return None;
        };
        let message = message.trim();
        let fits = !message.is_empty() && message.len() <= MESSAGE_BYTES_MAX && !message.contains('\n');
        fits.then(|| message.to_owned())
    }

    /// Whether the result of an expression follows from the metadata of the object and the address of the
    /// request.
    pub(in crate::api_server) fn is_of_metadata(
        &self,
        expression: &str,
        variables: &[(Arc<str>, Arc<str>)],
    ) -> bool {
        let of_metadata = |source: &str| match self.policy_program(source) {
            Ok(program) if reads_metadata(program.expression()) => Some(program),
            _ => None,
        };
        of_metadata(expression).is_some_and(|program| {
            let mut variables = variables.iter();
            !program.uses("variables") || variables.all(|(_, source)| of_metadata(source).is_some())
        })
    }

    fn policy_program(&self, source: &str) -> Result<Arc<Compiled>, String> {
        let program = self.programs.get(source, self.version)?;
        // Functions of the authorizer are not known: the evaluation reports it.
        if !program.uses("authorizer") {
            let variables = VARIABLES.map(|name| (name.to_owned(), Ty::Dyn));
            check(&program, self.version.minor(), variables.into())?;
        }
        Ok(program)
    }

    fn evaluated(&self, expression: &str, scene: Scene<'_>) -> Result<Cel, String> {
        let program = self.policy_program(expression)?;
        if program.uses("authorizer") {
            return Err(NO_AUTHORIZER.to_owned());
        }
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        for (name, value) in [
            ("object", &scene.review["object"]),
            ("oldObject", &scene.review["oldObject"]),
            ("request", scene.review),
            ("params", scene.parameter),
            ("namespaceObject", scene.namespace),
        ] {
            context.add_variable_from_value(name, values::dynamic(value));
        }
        if program.uses("variables") {
            let mut known: Vec<(String, Cel)> = Vec::new();
            for (name, source) in scene.variables {
                context.add_variable_from_value("variables", values::map(known.iter().cloned()));
                if let Ok(variable) = self.policy_program(source)
                    && let Ok(value) = variable.execute(&context)
                {
                    known.push((name.to_string(), value));
                }
            }
            context.add_variable_from_value("variables", values::map(known.into_iter()));
        }
        program.execute(&context).map_err(|error| shown(&error))
    }
}

/// Whether an expression reads only metadata and the address of the request. Depth is bounded by the parser
/// that read it.
fn reads_metadata(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) => true,
        Expr::Ident(name) => !VARIABLES.contains(&name.as_str()),
        Expr::Select(select) => selects_metadata(select),
        Expr::Call(call) => {
            is_null_comparison(call)
                || call.target.as_deref().is_none_or(reads_metadata) && call.args.iter().all(reads_metadata)
        }
        Expr::Comprehension(comprehension) => [
            &comprehension.iter_range,
            &comprehension.accu_init,
            &comprehension.loop_cond,
            &comprehension.loop_step,
            &comprehension.result,
        ]
        .into_iter()
        .all(reads_metadata),
        Expr::List(list) => list.elements.iter().all(reads_metadata),
        Expr::Map(map) => map.entries.iter().all(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => reads_metadata(&entry.key) && reads_metadata(&entry.value),
            EntryExpr::StructField(field) => reads_metadata(&field.value),
        }),
        Expr::Struct(_) => false,
    }
}

fn selects_metadata(select: &SelectExpr) -> bool {
    let field = select.field.as_str();
    match &select.operand.expr {
        Expr::Ident(name) if name == "request" => REQUEST_FIELDS.contains(&field),
        // Their own expressions are checked.
        Expr::Ident(name) if name == "variables" => true,
        // Every object has metadata.
        operand if is_object(operand) => select.test && field == "metadata",
        Expr::Select(metadata) if metadata.field == "metadata" && is_object(&metadata.operand.expr) => {
            METADATA_FIELDS.contains(&field)
        }
        _ => reads_metadata(&select.operand),
    }
}

fn is_object(expression: &Expr) -> bool {
    matches!(expression, Expr::Ident(name) if name == "object" || name == "oldObject")
}

/// Whether a call asks whether an object exists: `oldObject == null`.
fn is_null_comparison(call: &CallExpr) -> bool {
    let is_null = |one: &IdedExpr| matches!(one.expr, Expr::Literal(LiteralValue::Null));
    matches!(call.func_name.as_str(), operators::EQUALS | operators::NOT_EQUALS)
        && match call.args.as_slice() {
            [left, right] => {
                is_object(&left.expr) && is_null(right) || is_null(left) && is_object(&right.expr)
            }
            _ => false,
        }
}
