//! CEL rules of definitions (`x-kubernetes-validations`): compiled with the definition, run on custom
//! resources. Also `matchConditions` of webhooks, and expressions of policies.
//!
//! # Upstream
//! `apiextensions-apiserver/pkg/apiserver/schema/cel/{compilation,validation}.go`, 1.31.0.
//!
//! # Deviations
//! The costs of evaluations are not counted, so only the estimates of a definition refuse expensive rules.
//! The sum of lists of the types `set` and `map` is not covered: a definition that uses it is refused with a
//! message that names the feature. Their order matters where a larger value that contains them is compared.

mod addresses;
mod call_costs;
mod check;
mod cost;
mod declared;
mod definition;
mod devices;
mod formats;
mod library;
mod macros;
mod nodes;
pub(crate) mod policy;
mod range;
mod types;
mod urls;
mod values;

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use cel::{
    Context, Env, ExecutionError, IdedExpr, ParseErrors, Program, Value as Cel, objects::OptionalValue,
};
use kubegc_core::{Behavior, KubernetesVersion, version::behavior};
use parking_lot::Mutex;
use serde_json::Value;

use super::instance::{Place, UNCHANGED_VALUES_MAY_STAY, child, is_embedded};
use crate::{
    StoredObject,
    api_server::{policy::shown_message, write::Write},
    status::{Cause, quoted},
    types::field::At,
};
use check::{Checked, check, located};
use declared::{Declared, text};
use policy::Scene;
use types::Ty;

const RULES: &str = "x-kubernetes-validations";
const RULES_ARE_RUN: Behavior = Behavior::since(25, 0, "CustomResourceValidationExpressions, beta");
const MESSAGES_ARE_EXPRESSIONS: Behavior = Behavior::since(27, 0, "messageExpression");
const RULES_HAVE_REASONS: Behavior = Behavior::since(28, 0, "reason and fieldPath");
const TWO_VARIABLES: Behavior = Behavior::since(33, 0, "comprehensions with two variables");

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(environment(true)));
/// The same without comprehensions with two variables.
static FORMER: LazyLock<Env> = LazyLock::new(|| environment(false));

fn environment(has_two_variables: bool) -> Env {
    let mut env = Env::stdlib();
    let declared = library::declare(&mut env).and_then(|()| match has_two_variables {
        true => macros::declare(&mut env),
        false => Ok(()),
    });
    // The names are distinct: the tests of every function would fail.
    debug_assert!(declared.is_ok(), "{declared:?}");
    env
}

/// An expression as the checker sees it, and as it runs.
#[derive(Debug)]
pub(crate) struct Compiled {
    program: Program,
    runnable: IdedExpr,
    /// The literal arguments that functions do not accept, and the names of the functions.
    invalid: Vec<(u64, String)>,
}

impl Compiled {
    fn expression(&self) -> &IdedExpr {
        self.program.expression()
    }

    fn uses(&self, variable: &str) -> bool {
        self.program.references().has_variable(variable)
    }

    fn execute(&self, context: &Context<'_, '_>) -> Result<Cel, ExecutionError> {
        Cel::resolve(&self.runnable, context)
    }

    /// The same with the equality of the types of a schema.
    fn execute_as(&self, checked: &Checked<'_>, context: &Context<'_, '_>) -> Result<Cel, ExecutionError> {
        if checked.unordered.is_empty() {
            return self.execute(context);
        }
        let mut expression = self.runnable.clone();
        nodes::compare_unordered(&mut expression, &checked.unordered);
        Cel::resolve(&expression, context)
    }
}

/// Compiled expressions by their text. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs(Arc<Mutex<BTreeMap<String, Arc<Compiled>>>>);

impl Programs {
    fn get(&self, source: &str, version: KubernetesVersion) -> Result<Arc<Compiled>, String> {
        let mut programs = self.0.lock();
        if let Some(known) = programs.get(source) {
            return Ok(Arc::clone(known));
        }
        let environment = match version.has(TWO_VARIABLES) {
            true => &**ENVIRONMENT,
            false => &*FORMER,
        };
        let program = environment
            .compile(source)
            .map_err(|errors| unread(source, &errors))?;
        let mut runnable = program.expression().clone();
        let invalid = nodes::invalid_literals(&mut runnable);
        nodes::use_one_variable(&mut runnable);
        let compiled = Arc::new(Compiled {
            program,
            runnable,
            invalid,
        });
        programs.insert(source.to_owned(), Arc::clone(&compiled));
        Ok(compiled)
    }
}

/// The errors of an expression that cannot be read.
fn unread(source: &str, errors: &ParseErrors) -> String {
    let shown = errors.errors.iter().map(|error| {
        if source.is_empty() {
            return format!("ERROR: <input>:1:0: {}", error.msg);
        }
        // Positions begin with 1.
        let [line, column] = [error.pos.0, error.pos.1].map(|at| usize::try_from(at - 1).unwrap_or(0));
        located(source, line, column, &error.msg)
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// The result of a function of the library; `None` where it refuses the argument.
fn convert(function: &str, argument: &str) -> Option<Cel> {
    let program = ENVIRONMENT.compile(&format!("{function}(argument)")).ok()?;
    let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
    context.add_variable_from_value("argument", Cel::from(argument));
    program.execute(&context).ok()
}

struct Rule<'a>(&'a Value);

impl<'a> Rule<'a> {
    fn of(schema: &'a Value) -> impl Iterator<Item = Self> {
        schema[RULES].as_array().into_iter().flatten().map(Self)
    }

    fn text(&self, key: &str) -> &'a str {
        text(self.0, key)
    }

    /// The rule as messages print it.
    fn shown(&self) -> &'a str {
        let key = if self.has_message() { "message" } else { "rule" };
        self.text(key).trim()
    }

    fn message(&self) -> String {
        let before = if self.has_message() { "" } else { "failed rule: " };
        format!("{before}{}", self.shown())
    }

    fn has_message(&self) -> bool {
        !self.text("message").is_empty()
    }

    fn takes_optional_old_self(&self, version: KubernetesVersion) -> bool {
        self.0["optionalOldSelf"] == true && version.has(UNCHANGED_VALUES_MAY_STAY)
    }
}

/// Compiles and runs rules as a release does.
pub(crate) struct Engine<'a> {
    pub(super) programs: &'a Programs,
    pub(super) version: KubernetesVersion,
}

impl Engine<'_> {
    /// The problems of the `matchConditions` of a webhook configuration, except stored ones that it keeps.
    pub(crate) fn conditions(&self, write: Write<'_>) -> Vec<Cause> {
        let webhooks = |object| At::of_value(StoredObject::at(object, &["webhooks"]), "webhooks").items();
        let mut causes = Vec::new();
        for webhook in webhooks(write.new) {
            let conditions = webhook.get("matchConditions");
            let is_same = |old: At<'_>| old.get("matchConditions").value == conditions.value;
            if !write.old.is_some_and(|old| webhooks(old).any(is_same)) {
                causes.extend(self.condition_problems(&conditions, false));
            }
        }
        causes
    }

    /// Whether a condition holds for the `request` of an `AdmissionReview`.
    ///
    /// # Errors
    /// The reason why it cannot be evaluated.
    pub(crate) fn condition(&self, expression: &str, review: &Value) -> Result<bool, String> {
        let scene = Scene {
            review,
            namespace: &Value::Null,
            parameter: &Value::Null,
            variables: &[],
        };
        let result = self.evaluated(expression, scene)?;
        result.as_bool().ok_or_else(|| "must evaluate to bool".to_owned())
    }

    /// A compiled expression of a rule, with what the checker knows of it.
    fn compiled<'s>(
        &self,
        source: &str,
        declared: Declared<'s>,
        rule: &Rule<'_>,
    ) -> Result<(Arc<Compiled>, Checked<'s>), String> {
        let own = Ty::of(declared);
        let old = match rule.takes_optional_old_self(self.version) {
            true => Ty::optional(own.clone()),
            false => own.clone(),
        };
        let variables = vec![("self".to_owned(), own), ("oldSelf".to_owned(), old)];
        self.checked(source, variables)
    }

    /// Adds the problems that the rules of a [schema with rules](has_rules) find in a custom resource that is
    /// created, or that is to replace `old`. Rules rely on the types and sizes of their operands: they are
    /// not run where `causes` already names such problems.
    ///
    /// # Upstream
    /// `hasBlockingErr` in `pkg/registry/customresource/strategy.go`, 1.25.0.
    pub(super) fn instance(
        &self,
        value: &Value,
        old: Option<&Value>,
        schema: &Value,
        causes: &mut Vec<Cause>,
    ) {
        if !self.version.has(RULES_ARE_RUN) {
            return;
        }
        if causes.iter().any(blocks) {
            let problem = "some validation rules were not checked because the object was invalid; correct the existing errors \
                           to complete validation";
            let shown = match self.version.has(behavior::VALUES_ARE_JSON) {
                true => "null",
                false => "\"null\"",
            };
            causes.push(Cause::invalid("<nil>", shown, problem));
            return;
        }
        let place = Place {
            are_maps_atomic: true,
            ..Place::of(At::of_object(value), old, schema)
        };
        place.visit(&mut |place| {
            if place.at.is_set() && place.schema.get(RULES).is_some() {
                self.run(place, causes);
            }
        });
    }

    /// Runs the rules of one schema.
    fn run(&self, place: &Place<'_>, causes: &mut Vec<Cause>) {
        let (value, old, schema) = (place.at.value, place.old, place.schema);
        let ratchets = place.is_unchanged && self.version.has(UNCHANGED_VALUES_MAY_STAY);
        let kind = quoted(text(schema, "type"));
        let failed = match value {
            _ if !self.version.has(VALUES_ARE_SHOWN) => kind.clone(),
            Value::Object(_) | Value::Array(_) | Value::Null => String::new(),
            scalar => scalar.to_string(),
        };
        let path = place.at.path.to_string();
        let field = if path.is_empty() { "<nil>" } else { &path };
        let invalid = |problem: &str| Cause::invalid(field, &kind, problem);
        let declared = declared(place);
        let former = old.map(|old| values::of(old, declared));
        let (own, former) = match (values::of(value, declared), former.transpose()) {
            (Ok(own), Ok(former)) => (own, former),
            (Err(problem), _) | (_, Err(problem)) => {
                let problem =
                    |rule: Rule<'_>| invalid(&format!("{problem} evaluating rule: {}", rule.shown()));
                causes.extend(Rule::of(schema).map(problem));
                return;
            }
        };
        for rule in Rule::of(schema) {
            let is_optional = rule.takes_optional_old_self(self.version);
            let (program, checked) = match self.compiled(rule.text("rule"), declared, &rule) {
                Ok(compiled) => compiled,
                Err(_) if rule.text("rule").trim().is_empty() => continue,
                Err(problem) => {
                    let problem = format!("rule compile error: compilation failed: {problem}");
                    causes.push(invalid(&problem));
                    continue;
                }
            };
            let is_transition = program.uses("oldSelf");
            if is_transition && former.is_none() && !is_optional {
                continue;
            }
            let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
            context.add_variable_from_value("self", own.clone());
            if is_optional {
                let optional = former.clone().map_or_else(OptionalValue::none, OptionalValue::of);
                context.add_variable_from_value("oldSelf", Cel::Opaque(Arc::new(optional)));
            } else if let Some(former) = &former {
                context.add_variable_from_value("oldSelf", former.clone());
            }
            match program.execute_as(&checked, &context) {
                Ok(Cel::Bool(true)) => {}
                Ok(_) if ratchets && !is_transition => {}
                Ok(_) => {
                    let message = self.expressed(&rule, place, &context);
                    let message = message.unwrap_or_else(|| rule.message());
                    causes.push(failure(&rule, place, &failed, &message));
                }
                Err(error) => {
                    let (error, rule) = (shown(&error), rule.shown());
                    causes.push(invalid(&match error.starts_with("no such overload") {
                        true => format!(
                            "'{error}': call arguments did not match a supported operator, function or macro \
                             signature for rule: {rule}"
                        ),
                        false => format!("{error} evaluating rule: {rule}"),
                    }));
                }
            }
        }
    }

    /// The message that an expression returns, if the message can be shown.
    fn expressed(&self, rule: &Rule<'_>, place: &Place<'_>, context: &Context<'_, '_>) -> Option<String> {
        let source = rule.text("messageExpression");
        if source.is_empty() || !self.version.has(MESSAGES_ARE_EXPRESSIONS) {
            return None;
        }
        let (program, checked) = self.compiled(source, declared(place), rule).ok()?;
        match program.execute_as(&checked, context) {
            Ok(Cel::String(message)) => shown_message(&message),
            _ => None,
        }
    }
}

fn declared<'v>(place: &Place<'v>) -> Declared<'v> {
    Declared {
        is_root: place.at.path.to_string().is_empty() || is_embedded(place.schema),
        schema: place.schema,
    }
}

fn failure(rule: &Rule<'_>, place: &Place<'_>, kind: &str, message: &str) -> Cause {
    let within = match rule.text("fieldPath") {
        "" => String::new(),
        given => field_path(given, place.schema).unwrap_or_default(),
    };
    let field = match (&*place.at.path.to_string(), &*within) {
        ("", "") => "<nil>".to_owned(),
        (path, "") => path.to_owned(),
        (path, within) => child(path, within),
    };
    match rule.text("reason") {
        "FieldValueRequired" => Cause::required(field, message),
        "FieldValueForbidden" => Cause::forbidden(field, message),
        "FieldValueDuplicate" => Cause::duplicate(field, kind),
        _ => Cause::invalid(field, kind, message),
    }
}

/// A path below a schema, such as `.spec.replicas` or `.labels['a.b']`, as causes show it.
fn field_path(given: &str, schema: &Value) -> Result<String, String> {
    let (mut rest, mut schema, mut path) = (given, schema, String::new());
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            (name, rest) = after.split_at(after.find(['.', '[', ']']).unwrap_or(after.len()));
        } else if let Some(after) = rest.strip_prefix("['") {
            (name, rest) = after.split_once("']").ok_or("unexpected end of JSON path")?;
        } else {
            let token = rest.split(['.', '[', ']']).next().unwrap_or_default();
            return Err(format!("expected [ or . but got: {token}"));
        }
        let property = schema["properties"].get(name);
        let entry = Declared::of(schema).entries();
        let entry = entry.filter(|_| schema.get("properties").is_none());
        (schema, path) = match (property, entry) {
            (Some(property), _) => (property, child(&path, name)),
            (None, Some(values)) => (values.schema, format!("{path}[{name}]")),
            (None, None) => return Err("does not refer to a valid field".to_owned()),
        };
    }
    Ok(path)
}

/// An evaluation error, in upstream's words.
fn shown(error: &ExecutionError) -> String {
    let value = |value: &Cel| match value {
        Cel::Int(number) => number.to_string(),
        Cel::UInt(number) => number.to_string(),
        Cel::String(text) => text.to_string(),
        other => format!("{other:?}"),
    };
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(index) => format!("index out of bounds: {}", value(index)),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::NoSuchOverload(_)
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnexpectedType { .. } => "no such overload".to_owned(),
        ExecutionError::FunctionError { message, .. } if message.starts_with("string parse error") => {
            "type conversion error from 'string' to 'int'".to_owned()
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// Whether a schema has rules, or one below it. Depth is bounded by the parser that read it.
pub(super) fn has_rules(schema: &Value) -> bool {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let declared = Declared::of(schema);
    let others = [declared.entries(), declared.items()].into_iter().flatten();
    schema.get(RULES).is_some()
        || properties.into_iter().any(|(_, property)| has_rules(property))
        || others.into_iter().any(|other| has_rules(other.schema))
}

/// Whether a problem concerns a type or a size.
fn blocks(cause: &Cause) -> bool {
    const REASONS: [&str; 5] = [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ];
    REASONS.contains(&cause.reason)
        || [
            "in body must be of type",
            "in body should be at most",
            "in body should have at most",
        ]
        .iter()
        .any(|text| cause.message.contains(text))
}
/// Failures of rules show simple values; before, the types of all values.
const VALUES_ARE_SHOWN: Behavior = Behavior::since(35, 0, "kubernetes #132798");
