//! Checks rules before they run: names, fields and, as far as they are known, the types of operands.
//!
//! The library that runs rules has no type checker, but upstream refuses definitions that do not type-check.
//! A definition that is refused here is refused upstream with the same message. Types that depend on the
//! results of functions are checked at evaluation only.
//!
//! # Upstream
//! `checker.go` in `cel-go/checker`, and the environments in `apiserver/pkg/cel/environment/base.go`, 1.31.0.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators,
};
use serde_json::Value;

use super::{
    super::instance::is_embedded,
    values::{escaped, is_int_or_string, is_visible, of_entries, text},
};

/// The type of an expression, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ty<'a> {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    /// An object with declared fields, and whether it is a complete resource.
    Object(&'a Value, bool),
    Metadata,
    Map(Box<Self>),
    List(Box<Self>),
    /// A list with the equality of a set or a map.
    Keyed(Box<Self>),
    Optional(Box<Self>),
}

impl<'a> Ty<'a> {
    /// The type of the values of a schema.
    pub(super) fn of(schema: &'a Value, is_root: bool) -> Self {
        if is_int_or_string(schema) {
            return Self::Dyn;
        }
        match text(schema, "type") {
            "boolean" => Self::Bool,
            "integer" => Self::Int,
            "number" => Self::Double,
            "string" => match text(schema, "format") {
                "byte" => Self::Bytes,
                "date" | "date-time" => Self::Timestamp,
                "duration" => Self::Duration,
                _ => Self::String,
            },
            "array" => {
                let items = schema.get("items");
                let items = Box::new(items.map_or(Self::Dyn, |items| Self::of(items, is_embedded(items))));
                match text(schema, "x-kubernetes-list-type") {
                    "set" | "map" => Self::Keyed(items),
                    _ => Self::List(items),
                }
            }
            "object" => match of_entries(schema) {
                Some(values) => Self::Map(Box::new(Self::of(values, is_embedded(values)))),
                None => Self::Object(schema, is_root),
            },
            _ => Self::Dyn,
        }
    }

    /// The name of a type that is comparable only with itself.
    const fn scalar(&self) -> Option<&'static str> {
        Some(match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            _ => return None,
        })
    }

    const fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    fn field(&self, name: &str) -> Result<Self, String> {
        let undefined = || format!("undefined field '{name}'");
        match self {
            Self::Dyn => Ok(Self::Dyn),
            Self::Map(values) => Ok(Self::clone(values)),
            Self::Optional(value) => value.field(name).map(|field| Self::Optional(Box::new(field))),
            Self::Metadata if matches!(name, "name" | "generateName") => Ok(Self::String),
            Self::Object(_, true) if matches!(name, "apiVersion" | "kind") => Ok(Self::String),
            Self::Object(_, true) if name == "metadata" => Ok(Self::Metadata),
            Self::Object(schema, _) => {
                let properties = schema.get("properties").and_then(Value::as_object);
                let mut visible = properties
                    .into_iter()
                    .flatten()
                    .filter(|(_, schema)| is_visible(schema));
                let found = visible.find(|(property, _)| escaped(property).as_deref() == Some(name));
                let (_, schema) = found.ok_or_else(undefined)?;
                Ok(Self::of(schema, is_embedded(schema)))
            }
            Self::Metadata => Err(undefined()),
            other => Err(format!(
                "type '{}' does not support field selection",
                other.scalar().unwrap_or("list")
            )),
        }
    }

    fn element(&self) -> Self {
        match self {
            Self::Map(element) | Self::List(element) | Self::Keyed(element) => Self::clone(element),
            Self::Optional(inner) => Self::Optional(Box::new(inner.element())),
            _ => Self::Dyn,
        }
    }
}

/// The error of a rule that does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompileError {
    /// The node of the expression.
    id: u64,
    pub(super) message: String,
}

impl CompileError {
    /// The message with its position, as upstream's compiler prints it.
    pub(super) fn shown(&self, source: &SourceInfo) -> String {
        let offset = source.offset_for(self.id).map_or(0, |(start, _)| start as usize);
        let before: String = source.source.chars().take(offset).collect();
        let line = before.matches('\n').count();
        let column = before.chars().rev().take_while(|c| *c != '\n').count();
        let snippet = source.source.lines().nth(line).unwrap_or_default();
        format!(
            "ERROR: <input>:{}:{}: {}\n | {snippet}\n | {}^",
            line + 1,
            column + 1,
            self.message,
            ".".repeat(column)
        )
    }
}

/// The functions of upstream that are not covered here: a rule that uses one is refused.
pub const CEL_FUNCTIONS_NOT_COVERED: [&str; 14] = [
    "url",
    "isURL",
    "getScheme",
    "getHost",
    "getHostname",
    "getPort",
    "getEscapedPath",
    "getQuery",
    "validate",
    "format.named",
    "reverse",
    "transformList",
    "transformMap",
    "transformMapEntry",
];

/// The minor release from which on definitions may use a function, and the type of its result.
fn function(name: &str) -> Option<(u16, Ty<'static>)> {
    Some(match name {
        "contains"
        | "startsWith"
        | "endsWith"
        | "matches"
        | "isSorted"
        | "bool"
        | operators::NOT_STRICTLY_FALSE => (25, Ty::Bool),
        "size" | "int" | "indexOf" | "lastIndexOf" | "getDate" | "getDayOfMonth" | "getDayOfWeek"
        | "getDayOfYear" | "getFullYear" | "getHours" | "getMilliseconds" | "getMinutes" | "getMonth"
        | "getSeconds" => (25, Ty::Int),
        "uint" => (25, Ty::Uint),
        "double" => (25, Ty::Double),
        "string" | "charAt" | "join" | "lowerAscii" | "upperAscii" | "replace" | "substring" | "trim"
        | "find" => (25, Ty::String),
        "bytes" => (25, Ty::Bytes),
        "timestamp" => (25, Ty::Timestamp),
        "duration" => (25, Ty::Duration),
        "split" | "findAll" => (25, Ty::List(Box::new(Ty::String))),
        "dyn" | "type" | "sum" | "min" | "max" => (25, Ty::Dyn),
        "isQuantity" | "isInteger" | "isLessThan" | "isGreaterThan" => (29, Ty::Bool),
        "sign" | "asInteger" | "compareTo" => (29, Ty::Int),
        "asApproximateFloat" => (29, Ty::Double),
        "quantity" | "add" | "sub" => (29, Ty::Dyn),
        "format" | "strings.quote" => (30, Ty::String),
        "hasValue" | "sets.contains" | "sets.equivalent" | "sets.intersects" => (30, Ty::Bool),
        "isSemver" => (34, Ty::Bool),
        "major" | "minor" | "patch" => (34, Ty::Int),
        "semver" => (34, Ty::Dyn),
        "optional.of" | "optional.none" | "optional.ofNonZeroValue" | "value" | "or" | "orValue" => {
            (30, Ty::Dyn)
        }
        "isIP"
        | "ip.isCanonical"
        | "isCIDR"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "containsIP"
        | "containsCIDR" => (31, Ty::Bool),
        "family" | "prefixLength" => (31, Ty::Int),
        "ip" | "cidr" | "masked" => (31, Ty::Dyn),
        _ => return None,
    })
}

/// The names of types, which are values too.
const TYPES: [&str; 11] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "optional_type",
];

/// Checks an expression in a release.
pub(super) struct Checker<'a> {
    pub(super) minor: u16,
    /// The variables, the innermost last.
    pub(super) variables: Vec<(String, Ty<'a>)>,
}

impl<'a> Checker<'a> {
    /// The type of an expression. Depth is bounded by the parser that read it.
    ///
    /// # Errors
    /// The first error.
    pub(super) fn check(&mut self, expression: &IdedExpr) -> Result<Ty<'a>, CompileError> {
        let error = |message: String| CompileError {
            id: expression.id,
            message,
        };
        Ok(match &expression.expr {
            Expr::Unspecified => Ty::Dyn,
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Ty::Bool,
                LiteralValue::Bytes(_) => Ty::Bytes,
                LiteralValue::Double(_) => Ty::Double,
                LiteralValue::Int(_) => Ty::Int,
                LiteralValue::Null => Ty::Null,
                LiteralValue::String(_) => Ty::String,
                LiteralValue::UInt(_) => Ty::Uint,
            },
            Expr::Ident(name) => self.variable(name).ok_or_else(|| error(undeclared(name)))?,
            Expr::Select(select) => {
                let field = self.check(&select.operand)?.field(&select.field).map_err(error)?;
                if select.test { Ty::Bool } else { field }
            }
            Expr::Call(call) => self.call(expression.id, call)?,
            Expr::Comprehension(comprehension) => self.comprehension(comprehension)?,
            Expr::List(list) => {
                let mut items = Vec::new();
                for element in &list.elements {
                    items.push(self.check(element)?);
                }
                let first = items.first().cloned().unwrap_or(Ty::Dyn);
                let same = items.iter().all(|item| *item == first);
                Ty::List(Box::new(if same { first } else { Ty::Dyn }))
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.check(&entry.key)?;
                        self.check(&entry.value)?;
                    }
                }
                Ty::Map(Box::new(Ty::Dyn))
            }
            Expr::Struct(literal) => return Err(error(undeclared(&literal.type_name))),
        })
    }

    fn variable(&self, name: &str) -> Option<Ty<'a>> {
        let found = self.variables.iter().rev().find(|(known, _)| known == name);
        found
            .map(|(_, ty)| ty.clone())
            .or_else(|| TYPES.contains(&name).then_some(Ty::Dyn))
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Result<Ty<'a>, CompileError> {
        let error = |message: String| CompileError { id, message };
        let mut name = call.func_name.clone();
        let mut operands = Vec::new();
        match call.target.as_deref() {
            // A function in a namespace, such as `ip.isCanonical`.
            Some(IdedExpr {
                expr: Expr::Ident(namespace),
                ..
            }) if !self.variables.iter().any(|(known, _)| known == namespace) => {
                name = format!("{namespace}.{name}");
            }
            Some(target) => operands.push(self.check(target)?),
            None => {}
        }
        if name == operators::OPT_SELECT {
            let [object, field] = call.args.as_slice() else {
                return Ok(Ty::Dyn);
            };
            let object = self.check(object)?;
            let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
                return Ok(Ty::Dyn);
            };
            let field = object.field(field.inner()).map_err(error)?;
            return Ok(match field {
                optional @ Ty::Optional(_) => optional,
                field => Ty::Optional(Box::new(field)),
            });
        }
        for argument in &call.args {
            operands.push(self.check(argument)?);
        }
        if let Some(result) = operator(&name, &operands) {
            return result.map_err(error);
        }
        let two_variables =
            call.args.len() >= 3 && matches!(&*name, "all" | "exists" | "existsOne" | "exists_one");
        if CEL_FUNCTIONS_NOT_COVERED.contains(&&*name) || two_variables {
            return Err(error(not_covered(&format!("the function '{name}'"))));
        }
        match function(&name) {
            Some((since, result)) if since <= self.minor => Ok(result),
            _ => Err(error(undeclared(&name))),
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Result<Ty<'a>, CompileError> {
        let range = self.check(&comprehension.iter_range)?;
        if let Some(scalar) = range.scalar() {
            let message = format!(
                "expression of type '{scalar}' cannot be range of a comprehension (must be list, map, or dynamic)"
            );
            return Err(CompileError {
                id: comprehension.iter_range.id,
                message,
            });
        }
        let item = if matches!(range, Ty::Map(_)) {
            Ty::String
        } else {
            range.element()
        };
        let accumulated = self.check(&comprehension.accu_init)?;
        let depth = self.variables.len();
        self.variables.push((comprehension.accu_var.clone(), accumulated));
        let result = self.comprehension_body(comprehension, item);
        self.variables.truncate(depth);
        result
    }

    fn comprehension_body(
        &mut self,
        comprehension: &ComprehensionExpr,
        item: Ty<'a>,
    ) -> Result<Ty<'a>, CompileError> {
        self.variables.push((comprehension.iter_var.clone(), item));
        if let Some(second) = &comprehension.iter_var2 {
            self.variables.push((second.clone(), Ty::Dyn));
        }
        self.check(&comprehension.loop_cond)?;
        self.check(&comprehension.loop_step)?;
        self.variables.pop();
        self.check(&comprehension.result)
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

/// The message for a feature that upstream evaluates and this crate does not.
fn not_covered(what: &str) -> String {
    format!(
        "{what} is not covered by this simulated API server, so the rule cannot be evaluated: see kubegc_sim::ApiServer"
    )
}

/// The type of the result of an operator; `None` for the names of functions.
fn operator<'a>(name: &str, operands: &[Ty<'a>]) -> Option<Result<Ty<'a>, String>> {
    let no_overload = || {
        let shown: Vec<&str> = operands
            .iter()
            .map(|operand| operand.scalar().unwrap_or("dyn"))
            .collect();
        Err(format!(
            "found no matching overload for '{name}' applied to '({})'",
            shown.join(", ")
        ))
    };
    let scalars: Option<Vec<&str>> = operands.iter().map(Ty::scalar).collect();
    let differ = matches!(scalars.as_deref(), Some([one, two]) if one != two);
    let numbers = operands.iter().all(Ty::is_number);
    let keyed = operands.iter().any(|operand| matches!(operand, Ty::Keyed(_)));
    let of = |wanted: &Ty<'a>| {
        operands
            .iter()
            .all(|operand| operand.scalar().is_none() || operand == wanted)
    };
    Some(match name {
        operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT => {
            if of(&Ty::Bool) {
                Ok(Ty::Bool)
            } else {
                no_overload()
            }
        }
        operators::CONDITIONAL => match operands {
            [condition, ..] if condition.scalar().is_some_and(|scalar| scalar != "bool") => no_overload(),
            [_, one, two] if one == two => Ok(one.clone()),
            _ => Ok(Ty::Dyn),
        },
        operators::EQUALS | operators::NOT_EQUALS | operators::ADD if keyed => {
            Err(not_covered("the equality of lists of the types set and map"))
        }
        operators::EQUALS | operators::NOT_EQUALS => {
            if differ {
                no_overload()
            } else {
                Ok(Ty::Bool)
            }
        }
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
            if differ && !numbers {
                no_overload()
            } else {
                Ok(Ty::Bool)
            }
        }
        operators::ADD
        | operators::SUBSTRACT
        | operators::MULTIPLY
        | operators::DIVIDE
        | operators::MODULO => {
            let time = operands
                .iter()
                .any(|operand| matches!(operand, Ty::Timestamp | Ty::Duration));
            match operands {
                _ if differ && !time => no_overload(),
                [one, _] if !time => Ok(one.clone()),
                _ => Ok(Ty::Dyn),
            }
        }
        operators::NEGATE => operands.first().cloned().map_or_else(no_overload, Ok),
        operators::INDEX | operators::OPT_INDEX => {
            let element = operands.first().map_or(Ty::Dyn, Ty::element);
            Ok(match (name, element) {
                (operators::OPT_INDEX, element) if !matches!(element, Ty::Optional(_)) => {
                    Ty::Optional(Box::new(element))
                }
                (_, element) => element,
            })
        }
        operators::IN => Ok(Ty::Bool),
        _ => return None,
    })
}
