//! Checks expressions before they run: names, fields and types.
//!
//! The library that runs expressions has no type checker, but upstream refuses definitions that do not
//! type-check, and estimates costs from types.
//!
//! # Upstream
//! [`checker.go`](https://github.com/google/cel-go/blob/v0.26.0/checker/checker.go) in `cel-go/checker`.

use std::collections::{BTreeMap, BTreeSet};

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators,
};

use super::{
    Compiled,
    types::{Bindings, LETTERS, Overload, Ty, most_general, overloads},
};

/// The node of an expression that does not compile, and the error.
type CompileError = (u64, String);

/// The minor release from which on literals are checked.
const LITERALS_ARE_CHECKED: u16 = 29;
/// The longest line that errors show, in bytes.
const SNIPPET_BYTES_MAX: usize = 16_384;

/// Line and column of a node in the source, from 0 on.
fn position(source: &SourceInfo, id: u64) -> (usize, usize) {
    let offset = source.offset_for(id).map_or(0, |(start, _)| start as usize);
    let before = source.source.chars().take(offset);
    before.fold((0, 0), |(line, column), c| match c {
        '\n' => (line + 1, 0),
        _ => (line, column + 1),
    })
}

/// A message with its line and column, from 0 on, as upstream's compiler prints it.
pub(super) fn located(source: &str, line: usize, column: usize, message: &str) -> String {
    let mut shown = format!("ERROR: <input>:{}:{}: {message}", line + 1, column + 1);
    let snippet = source.split('\n').nth(line).unwrap_or_default();
    if snippet.len() <= SNIPPET_BYTES_MAX {
        let snippet = snippet.replace('\t', " ");
        let wide = |c: char, narrow: char, wide: char| if c.is_ascii() { narrow } else { wide };
        let before = snippet.chars().take(column);
        let dots: String = before.map(|c| wide(c, '.', '\u{ff0e}')).collect();
        let pointer = wide(snippet.chars().nth(column).unwrap_or(' '), '^', '\u{ff3e}');
        shown.push_str(&format!("\n | {snippet}\n | {dots}{pointer}"));
    }
    shown
}

/// Types and references of the nodes of an expression.
#[derive(Debug, Default)]
pub(super) struct Checked<'a> {
    pub(super) result: Ty<'a>,
    types: BTreeMap<u64, Ty<'a>>,
    /// The overloads of each call that accept its operands.
    pub(super) calls: BTreeMap<u64, Vec<&'static Overload>>,
    /// The comparisons whose left side is a list with the equality of a set or a map.
    pub(super) unordered: BTreeSet<u64>,
}

impl<'a> Checked<'a> {
    pub(super) fn ty(&self, expression: &IdedExpr) -> Ty<'a> {
        self.types.get(&expression.id).cloned().unwrap_or_default()
    }
}

/// Checks an expression with these variables as definitions of a minor release may use it.
///
/// # Errors
/// All errors, in the order of their positions.
pub(super) fn check<'a>(
    compiled: &Compiled,
    minor: u16,
    variables: Vec<(String, Ty<'a>)>,
) -> Result<Checked<'a>, String> {
    let mut checker = Checker {
        minor,
        variables,
        ..Checker::default()
    };
    let expression = compiled.expression();
    checker.check(expression);
    let source = compiled.program.source_info();
    if checker.errors.is_empty() {
        checker.errors.append(&mut checker.literals);
        let invalid = compiled.invalid.iter().filter(|_| minor >= LITERALS_ARE_CHECKED);
        let message = |function: &String| format!("invalid {function} argument");
        checker
            .errors
            .extend(invalid.map(|(id, function)| (*id, message(function))));
    }
    if !checker.errors.is_empty() {
        checker.errors.sort_by_key(|(id, _)| position(source, *id));
        let shown = checker.errors.iter().map(|(id, message)| {
            let (line, column) = position(source, *id);
            located(&source.source, line, column, message)
        });
        return Err(shown.collect::<Vec<String>>().join("\n"));
    }
    let mut checked = checker.checked;
    for ty in checked.types.values_mut() {
        *ty = checker.bindings.concrete(ty);
    }
    checked.result = checked.ty(expression);
    Ok(checked)
}

#[derive(Default)]
struct Checker<'a> {
    minor: u16,
    /// The variables, the innermost last.
    variables: Vec<(String, Ty<'a>)>,
    bindings: Bindings<'a>,
    /// The number of the next unknown type.
    unknown: usize,
    errors: Vec<CompileError>,
    /// The errors of literals, which are reported if there is no other one.
    literals: Vec<CompileError>,
    /// How many calls of `format` surround the expression: their lists may have elements of several types.
    formats: usize,
    checked: Checked<'a>,
}

impl<'a> Checker<'a> {
    fn error(&mut self, id: u64, message: String) -> Ty<'a> {
        self.errors.push((id, message));
        Ty::ERROR
    }

    fn mismatch(&mut self, id: u64, expected: &Ty<'a>, found: &Ty<'a>) -> Ty<'a> {
        self.error(id, mismatch(expected, found))
    }

    fn unknown(&mut self) -> Ty<'a> {
        self.unknown += 1;
        Ty::Param(self.unknown - 1)
    }

    /// The type of an expression. Depth is bounded by the parser that read it.
    fn check(&mut self, expression: &IdedExpr) -> Ty<'a> {
        let ty = match &expression.expr {
            Expr::Unspecified => Ty::DYN,
            Expr::Literal(literal) => Ty::simple(match literal {
                LiteralValue::Boolean(_) => "bool",
                LiteralValue::Bytes(_) => "bytes",
                LiteralValue::Double(_) => "double",
                LiteralValue::Int(_) => "int",
                LiteralValue::Null => "null",
                LiteralValue::String(_) => "string",
                LiteralValue::UInt(_) => "uint",
            }),
            Expr::Ident(name) => match self.variable(name) {
                Some(ty) => ty,
                None => self.error(expression.id, undeclared(name)),
            },
            Expr::Select(select) => {
                let name = qualified(expression).filter(|_| !select.test);
                match name.as_deref().and_then(Ty::named) {
                    Some(named) => Ty::Of("type", vec![named]),
                    None => {
                        let field = self.select(expression.id, &select.operand, &select.field, false);
                        if select.test { Ty::BOOL } else { field }
                    }
                }
            }
            Expr::Call(call) => self.call(expression.id, call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                let mut items = None;
                for (index, element) in list.elements.iter().enumerate() {
                    let is_optional = list.optional_indices.contains(&index);
                    let item = self.element(element, is_optional);
                    items = Some(self.joined(element.id, items, item));
                }
                Ty::list(items.unwrap_or_else(|| self.unknown()))
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (None, None);
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        let key = self.check(&entry.key);
                        keys = Some(self.joined(entry.key.id, keys, key));
                        let value = self.element(&entry.value, entry.optional);
                        values = Some(self.joined(entry.value.id, values, value));
                    }
                }
                let keys = keys.unwrap_or_else(|| self.unknown());
                Ty::map(keys, values.unwrap_or_else(|| self.unknown()))
            }
            Expr::Struct(literal) => self.error(expression.id, undeclared(&literal.type_name)),
        };
        self.checked.types.insert(expression.id, ty.clone());
        ty
    }

    fn variable(&self, name: &str) -> Option<Ty<'a>> {
        let found = self.variables.iter().rev().find(|(known, _)| known == name);
        found
            .map(|(_, ty)| ty.clone())
            .or_else(|| Ty::named(name).map(|named| Ty::Of("type", vec![named])))
    }

    fn element(&mut self, element: &IdedExpr, is_optional: bool) -> Ty<'a> {
        let ty = self.check(element);
        if !is_optional {
            return ty;
        }
        let (inner, was_optional) = ty.unwrapped();
        if !was_optional && !inner.is_dyn() {
            self.mismatch(element.id, &Ty::optional(inner.clone()), &inner);
        }
        inner
    }

    /// The type of all elements so far: those of a literal have one type.
    fn joined(&mut self, id: u64, former: Option<Ty<'a>>, next: Ty<'a>) -> Ty<'a> {
        match former {
            None => next,
            Some(former) if self.bindings.assign(&former, &next) => most_general(&former, &next).clone(),
            Some(former) => {
                if self.formats == 0 {
                    let message = mismatch(&former, &next);
                    self.literals.push((id, message));
                }
                Ty::DYN
            }
        }
    }

    fn select(&mut self, id: u64, operand: &IdedExpr, field: &str, is_optional: bool) -> Ty<'a> {
        let operand = self.check(operand);
        let (target, was_optional) = self.bindings.substituted(&operand).unwrapped();
        let found = match (&target, target.parts()) {
            (_, Some(("map", [_, values]))) => values.clone(),
            (Ty::Param(_), _) => {
                self.bindings.assign(&Ty::DYN, &target);
                Ty::DYN
            }
            (_, None) => match target.field(field) {
                Some(field) => field,
                None => self.error(id, format!("undefined field '{field}'")),
            },
            _ => {
                if !target.is_dyn() {
                    let message = format!("type '{target}' does not support field selection");
                    self.error(id, message);
                }
                Ty::DYN
            }
        };
        match was_optional || is_optional {
            true => Ty::optional(found),
            false => found,
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Ty<'a> {
        let name = call.func_name.as_str();
        if name == operators::OPT_SELECT
            && let [object, field] = call.args.as_slice()
            && let Expr::Literal(LiteralValue::String(field)) = &field.expr
        {
            let all = overloads(name, self.minor).collect();
            self.checked.calls.insert(id, all);
            return self.select(id, object, field.inner(), true);
        }
        // A function in a namespace, such as `ip.isCanonical`.
        let target = call.target.as_deref();
        let namespaced = target
            .and_then(qualified)
            .map(|namespace| format!("{namespace}.{name}"));
        let namespaced = namespaced.filter(|name| self.is_declared(name));
        let (name, target) = match &namespaced {
            Some(name) => (name.as_str(), None),
            None => (name, target),
        };
        self.formats += usize::from(name == "format");
        let arguments: Vec<Ty<'a>> = call.args.iter().map(|argument| self.check(argument)).collect();
        self.formats -= usize::from(name == "format");
        let target = target.map(|target| self.check(target));
        if !self.is_declared(name) {
            return self.error(id, undeclared(name));
        }
        let is_member = target.is_some();
        let operands: Vec<Ty<'a>> = target.into_iter().chain(arguments).collect();
        if matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR) {
            return self.logical(id, call, &operands);
        }
        let of_keyed = matches!(operands.first(), Some(Ty::Keyed(_)));
        match name {
            operators::EQUALS | operators::NOT_EQUALS if of_keyed => {
                self.checked.unordered.insert(id);
            }
            operators::ADD if operands.iter().any(|operand| matches!(operand, Ty::Keyed(_))) => {
                let message = "the sum of lists of the types set and map is not covered by this simulated API \
                               server, so the rule cannot be evaluated: see kubegc_sim::ApiServer";
                return self.error(id, message.to_owned());
            }
            _ => {}
        }
        self.resolve(id, name, &operands, is_member)
    }

    fn is_declared(&self, function: &str) -> bool {
        overloads(function, self.minor).next().is_some()
    }

    fn logical(&mut self, id: u64, call: &CallExpr, operands: &[Ty<'a>]) -> Ty<'a> {
        let before = self.errors.len();
        for (argument, operand) in call.args.iter().zip(operands) {
            if !self.bindings.assign(operand, &Ty::BOOL) {
                self.mismatch(argument.id, &Ty::BOOL, operand);
            }
        }
        if self.errors.len() > before {
            return Ty::ERROR;
        }
        let all = overloads(&call.func_name, self.minor).collect();
        self.checked.calls.insert(id, all);
        Ty::BOOL
    }

    /// The result of the overloads that accept the operands.
    fn resolve(&mut self, id: u64, name: &str, operands: &[Ty<'a>], is_member: bool) -> Ty<'a> {
        let (mut result, mut resolved) = (None, Vec::new());
        for overload in overloads(name, self.minor).filter(|overload| overload.is_member == is_member) {
            let (wanted, returned) = overload.signature(self.unknown);
            self.unknown += LETTERS;
            if !self.bindings.assign_all(operands, &wanted) {
                continue;
            }
            resolved.push(overload);
            let returned = self.bindings.substituted(&returned);
            result = Some(match result {
                Some(former) if former != returned => Ty::DYN,
                _ => returned,
            });
        }
        let Some(result) = result else {
            let operands: Vec<String> = operands
                .iter()
                .map(|operand| self.bindings.concrete(operand).to_string())
                .collect();
            let signature = match operands.split_first() {
                Some((target, arguments)) if is_member => format!("{target}.({})", arguments.join(", ")),
                _ => format!("({})", operands.join(", ")),
            };
            let message = format!("found no matching overload for '{name}' applied to '{signature}'");
            return self.error(id, message);
        };
        self.checked.calls.insert(id, resolved);
        result
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Ty<'a> {
        let range = self.check(&comprehension.iter_range);
        let accumulated = self.check(&comprehension.accu_init);
        let range = self.bindings.substituted(&range);
        let (first, second) = match (&range, range.parts()) {
            (_, Some(("list", [item]))) => (Ty::simple("int"), item.clone()),
            (_, Some(("map", [key, value]))) => (key.clone(), value.clone()),
            (Ty::Param(_), _) => {
                self.bindings.assign(&Ty::DYN, &range);
                (Ty::DYN, Ty::DYN)
            }
            _ if range.is_dyn() => (Ty::DYN, Ty::DYN),
            _ => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension \
                     (must be list, map, or dynamic)"
                );
                self.error(comprehension.iter_range.id, message);
                (Ty::ERROR, Ty::ERROR)
            }
        };
        let depth = self.variables.len();
        let accumulator = (comprehension.accu_var.clone(), accumulated.clone());
        self.variables.push(accumulator);
        let variable = comprehension.iter_var.clone();
        self.variables.extend(match &comprehension.iter_var2 {
            Some(name) => vec![(variable, first), (name.clone(), second)],
            // One variable has the items of lists and the keys of maps.
            None if range.is("map") => vec![(variable, first)],
            None => vec![(variable, second)],
        });
        self.expect(&comprehension.loop_cond, &Ty::BOOL);
        self.expect(&comprehension.loop_step, &accumulated);
        self.variables.truncate(depth + 1);
        let result = self.check(&comprehension.result);
        self.variables.truncate(depth);
        self.bindings.substituted(&result)
    }

    fn expect(&mut self, expression: &IdedExpr, wanted: &Ty<'a>) {
        let found = self.check(expression);
        if !self.bindings.assign(wanted, &found) {
            self.mismatch(expression.id, wanted, &found);
        }
    }
}

/// The name that selections on an identifier spell, such as `a.b.c`.
fn qualified(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            Some(format!("{}.{}", qualified(&select.operand)?, select.field))
        }
        _ => None,
    }
}

fn mismatch(expected: &Ty<'_>, found: &Ty<'_>) -> String {
    format!("expected type '{expected}' but found '{found}'")
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}
