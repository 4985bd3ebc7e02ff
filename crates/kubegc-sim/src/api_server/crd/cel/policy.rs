//! Expressions of admission policies.
//!
//! # Upstream
//! `mustBuildEnvs`, `CompileCELExpression` and `ConvertObjectToUnstructured` in
//! [`plugin/cel`](https://github.com/kubernetes/kubernetes/tree/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/cel).
//!
//! # Deviations
//! Functions of the authorizer, the fields of the namespace's metadata and mutations with braces, which may
//! be structs, are not checked when a policy is stored. All variables are evaluated before the expression
//! that reads one of them; one that fails has no value.

use std::{collections::BTreeMap, sync::Arc};

use cel::{
    Context, Value as Cel,
    common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators},
};
use kubegc_core::{Behavior, KubernetesVersion};
use serde_json::Value;

use super::{Checked, Compiled, ENVIRONMENT, Engine, Ty, check, nodes, shown, values};
use crate::{
    StoredObject,
    api_server::write::Write,
    status::{Cause, quoted},
    types::field::At,
};

/// The maximum length of an expression for an audit annotation.
const AUDIT_BYTES_MAX: usize = 5 * 1024;

const VARIABLES: &str = "object oldObject request params namespaceObject variables authorizer";
/// The fields of `request` that are known without the user and the body.
const REQUEST_FIELDS: &str = "operation name namespace kind resource subResource requestKind requestResource \
                              requestSubResource dryRun";
/// The fields of `metadata` that are known of every object.
const METADATA_FIELDS: &str = "name namespace uid labels finalizers ownerReferences creationTimestamp \
                               deletionTimestamp deletionGracePeriodSeconds";

/// The message about the type of a result says which one was found.
const TYPES_ARE_SHOWN: Behavior = Behavior::since_about(32, "between 1.28 and 1.32");

/// The type of the results of audit annotations.
const TEXT_OR_NULL: &str = "one of [string null_type]";

/// The problem of an expression with a result of this type. Only literals of structs have the types of
/// mutations.
fn mistyped(wanted: &str, found: &Ty<'_>, version: KubernetesVersion) -> Option<String> {
    let name = match found {
        Ty::Struct("kubernetes.AdmissionRequest", _) => "kubernetes.AdmissionRequest".to_owned(),
        Ty::Param(_) => "dyn".to_owned(),
        found => match found.to_string().as_str() {
            "null" => "null_type".to_owned(),
            "timestamp" => "google.protobuf.Timestamp".to_owned(),
            "duration" => "google.protobuf.Duration".to_owned(),
            name => name.to_owned(),
        },
    };
    let fits = match wanted {
        TEXT_OR_NULL => matches!(name.as_str(), "string" | "null_type"),
        wanted => name == wanted && matches!(wanted, "bool" | "string"),
    };
    let found = match version.has(TYPES_ARE_SHOWN) {
        true => format!(" but got {name}"),
        false => String::new(),
    };
    (!fits).then(|| format!("must evaluate to {wanted}{found}"))
}

type Variables<'v> = Vec<(String, Ty<'v>)>;

/// The variables of match conditions.
fn of_conditions<'v>(has_parameters: bool) -> Variables<'v> {
    let parameters = has_parameters.then_some(("params", Ty::DYN));
    let known = [
        ("object", Ty::DYN),
        ("oldObject", Ty::DYN),
        ("request", Ty::parse("kubernetes.AdmissionRequest")),
        ("namespaceObject", Ty::parse("kubernetes.Namespace")),
        ("authorizer", Ty::DYN),
    ];
    let known = known.into_iter().chain(parameters);
    known.map(|(name, ty)| (name.to_owned(), ty)).collect()
}

/// The values of the variables of a policy.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    /// The `request` of an `AdmissionReview`.
    pub(crate) review: &'a Value,
    /// The Namespace of the object, or null.
    pub(crate) namespace: &'a Value,
    /// The parameter, or null.
    pub(crate) parameter: &'a Value,
    /// Names and expressions of composed variables.
    pub(crate) variables: &'a [(Arc<str>, Arc<str>)],
}

impl Engine<'_> {
    /// The problems of the expressions of a policy, except of stored conditions that it keeps.
    pub(crate) fn policy_problems(&self, write: Write<'_>, is_mutating: bool) -> Vec<Cause> {
        let spec = |object| At::of_value(StoredObject::at(object, &["spec"]), "spec");
        let former = write.old.map(|old| spec(old).get("matchConditions").value);
        let spec = spec(write.new);
        let mut causes = Vec::new();
        let has_parameters = spec.get("paramKind").is_set();
        let (conditions, variables) = (spec.get("matchConditions"), spec.get("variables"));
        if former != Some(conditions.value) {
            causes.extend(self.condition_problems(&conditions, has_parameters));
        }
        let mut scope = of_conditions(has_parameters);
        if is_mutating || !variables.is_empty() {
            scope.push(("variables".to_owned(), Ty::Struct("variables", BTreeMap::new())));
        }
        for variable in variables.items() {
            let expression = variable.get("expression");
            let text = expression.text();
            if text.trim().is_empty() {
                continue;
            }
            let ty = self.result_type(text, &scope).unwrap_or_else(|problem| {
                causes.push(Cause::invalid(
                    expression.path.to_string(),
                    &quoted(text),
                    &problem,
                ));
                None
            });
            if let Some((_, Ty::Struct(_, composed))) = scope.last_mut() {
                let ty = ty.unwrap_or_default().without_objects();
                composed.insert(variable.get("name").text(), ty);
            }
        }
        let mut of_messages = scope.clone();
        of_messages.retain(|(name, _)| name != "authorizer");
        for validation in spec.get("validations").items() {
            for (key, wanted, scope) in [
                ("expression", "bool", &scope),
                ("messageExpression", "string", &of_messages),
            ] {
                let expression = validation.get(key);
                causes.extend(self.expression_problem(&expression, expression.text(), scope, wanted));
            }
        }
        for mutation in spec.get("mutations").items() {
            let (key, wanted) = match mutation.get("patchType").text() {
                "ApplyConfiguration" => ("applyConfiguration", "Object"),
                "JSONPatch" => ("jsonPatch", "list(JSONPatch)"),
                _ => continue,
            };
            let expression = mutation.get(key).get("expression");
            if !expression.text().contains('{') {
                causes.extend(self.expression_problem(&expression, expression.text(), &scope, wanted));
            }
        }
        for annotation in spec.get("auditAnnotations").items() {
            let expression = annotation.get("valueExpression");
            let text = expression.text();
            if text.trim().len() <= AUDIT_BYTES_MAX {
                causes.extend(self.expression_problem(&expression, text, &scope, TEXT_OR_NULL));
            }
        }
        causes
    }

    /// The problems of the expressions of match conditions.
    pub(super) fn condition_problems(&self, conditions: &At<'_>, has_parameters: bool) -> Vec<Cause> {
        let scope = of_conditions(has_parameters);
        let expressions = conditions.items().map(|condition| condition.get("expression"));
        let problem = |at: At<'_>| self.expression_problem(&at, at.text().trim(), &scope, "bool");
        expressions.filter_map(problem).collect()
    }

    /// The problem of an expression at a place, unless it is blank.
    fn expression_problem(
        &self,
        at: &At<'_>,
        expression: &str,
        scope: &Variables<'_>,
        wanted: &str,
    ) -> Option<Cause> {
        if expression.trim().is_empty() {
            return None;
        }
        // Annotations are compiled without the space around them.
        let compiled = match wanted {
            TEXT_OR_NULL => expression.trim(),
            _ => expression,
        };
        let problem = match self.result_type(compiled, scope) {
            Ok(ty) => mistyped(wanted, &ty?, self.version)?,
            Err(problem) => problem,
        };
        Some(Cause::invalid(at.path.to_string(), &quoted(expression), &problem))
    }

    /// The type of the results of an expression; `None` if it uses the authorizer, whose functions are not
    /// known.
    pub(super) fn result_type<'v>(
        &self,
        expression: &str,
        scope: &Variables<'v>,
    ) -> Result<Option<Ty<'v>>, String> {
        let has_authorizer = scope.iter().any(|(name, _)| name == "authorizer");
        let authorizes = |program: Arc<Compiled>| has_authorizer && program.uses("authorizer");
        if self.programs.get(expression, self.version).is_ok_and(authorizes) {
            return Ok(None);
        }
        match self.checked(expression, scope.clone()) {
            Ok((_, checked)) => Ok(Some(checked.result)),
            Err(problem) => Err(format!("compilation failed: {problem}")),
        }
    }

    /// A compiled expression with these variables, and what the checker knows of it.
    pub(super) fn checked<'v>(
        &self,
        expression: &str,
        variables: Variables<'v>,
    ) -> Result<(Arc<Compiled>, Checked<'v>), String> {
        let program = self.programs.get(expression, self.version)?;
        let checked = check(&program, self.version.minor(), variables)?;
        Ok((program, checked))
    }

    /// Whether the result of an expression follows from the metadata of the object and the address of the
    /// request.
    pub(crate) fn is_of_metadata(&self, expression: &str, variables: &[(Arc<str>, Arc<str>)]) -> bool {
        let of_metadata = |source: &str| match self.policy_program(source) {
            Ok(program) if reads_metadata(&mut program.expression().clone()) => Some(program),
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
            let variables = VARIABLES.split(' ').map(|name| (name.to_owned(), Ty::DYN));
            check(&program, self.version.minor(), variables.collect())?;
        }
        Ok(program)
    }

    /// The result of an expression if it is a text or truth value, or else null.
    ///
    /// # Errors
    /// The reason why it cannot be evaluated.
    pub(crate) fn evaluated(&self, expression: &str, scene: Scene<'_>) -> Result<Value, String> {
        let program = self.policy_program(expression)?;
        if program.uses("authorizer") {
            return Err("authorizer is not covered by this simulated API server".to_owned());
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
            context.add_variable_from_value("variables", values::map(known));
        }
        match program.execute(&context) {
            Ok(Cel::Bool(holds)) => Ok(holds.into()),
            Ok(Cel::String(text)) => Ok(text.as_str().into()),
            Ok(_) => Ok(Value::Null),
            Err(error) => Err(shown(&error)),
        }
    }
}

/// Whether an expression reads only metadata and the address of the request. Depth is bounded by the parser
/// that read it.
fn reads_metadata(expression: &mut IdedExpr) -> bool {
    match &mut expression.expr {
        Expr::Struct(_) => false,
        Expr::Ident(name) => VARIABLES.split(' ').all(|variable| variable != name),
        Expr::Select(select) => selects_metadata(select),
        Expr::Call(call) if is_null_comparison(call) => true,
        _ => nodes::parts(expression).into_iter().all(reads_metadata),
    }
}

fn selects_metadata(select: &mut SelectExpr) -> bool {
    let is_in = |fields: &str| fields.split(' ').any(|field| field == select.field);
    match &select.operand.expr {
        Expr::Ident(name) if name == "request" => is_in(REQUEST_FIELDS),
        // Their own expressions are checked.
        Expr::Ident(name) if name == "variables" => true,
        // Every object has metadata.
        operand if is_object(operand) => select.test && select.field == "metadata",
        Expr::Select(metadata) if metadata.field == "metadata" && is_object(&metadata.operand.expr) => {
            is_in(METADATA_FIELDS)
        }
        _ => reads_metadata(&mut select.operand),
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
