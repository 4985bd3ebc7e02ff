//! Comprehensions with two variables, such as `map.all(key, value, value > 0)`.
//!
//! The library that runs expressions has comprehensions with one variable only. The checker sees the
//! expansion of upstream; what runs is an expansion over the entries of a list or map.
//!
//! # Upstream
//! [`comprehensions.go`](https://github.com/google/cel-go/blob/v0.26.0/ext/comprehensions.go) in `cel-go/ext`.

use cel::{
    DeclarationError, Env, ParseError,
    common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators},
    parser::{Macro, MacroExprHelper},
};

/// Inserts entries into a map.
pub(super) const INSERT: &str = "cel.@mapInsert";
/// The entries of a list or map as lists of key and value.
pub(super) const ENTRIES: &str = "cel.@entries";

const ACCUMULATOR: &str = "@result";
const ENTRY: &str = "@entry";

/// Who reads an expansion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Checker,
    Interpreter,
}

/// The result that a macro computes from the entries.
#[derive(Clone, Copy)]
enum Fold {
    All,
    Exists,
    ExistsOne,
    List,
    Map,
    MapOfEntries,
}

/// Adds the macros.
///
/// # Errors
/// A macro of this name is already declared.
pub(super) fn declare(env: &mut Env, reader: Reader) -> Result<(), DeclarationError> {
    for (name, arguments, fold) in [
        ("all", 3, Fold::All),
        ("exists", 3, Fold::Exists),
        ("existsOne", 3, Fold::ExistsOne),
        ("exists_one", 3, Fold::ExistsOne),
        ("transformList", 3, Fold::List),
        ("transformList", 4, Fold::List),
        ("transformMap", 3, Fold::Map),
        ("transformMap", 4, Fold::Map),
        ("transformMapEntry", 3, Fold::MapOfEntries),
        ("transformMapEntry", 4, Fold::MapOfEntries),
    ] {
        env.add_macro(Macro::receiver(
            name,
            arguments,
            move |helper, target, arguments| {
                let Some(range) = target.take() else {
                    return Ok(None);
                };
                let expansion = Expansion::read(helper, std::mem::take(arguments), reader)?;
                Ok(Some(expansion.build(helper, range, fold)))
            },
        ))?;
    }
    Ok(())
}

struct Expansion {
    variables: [String; 2],
    /// Which entries take part.
    filter: Option<IdedExpr>,
    body: IdedExpr,
    reader: Reader,
}

impl Expansion {
    fn read(
        helper: &MacroExprHelper<'_>,
        mut arguments: Vec<IdedExpr>,
        reader: Reader,
    ) -> Result<Self, ParseError> {
        let body = arguments.pop().unwrap_or_default();
        let filter = (arguments.len() > 2).then(|| arguments.pop()).flatten();
        let mut names = Vec::new();
        for argument in arguments {
            let Expr::Ident(name) = argument.expr else {
                return Err(helper.new_error(argument.id, "argument must be a simple name"));
            };
            if names.contains(&name) {
                return Err(helper.new_error(argument.id, format!("duplicate variable name: {name}")));
            }
            if name == ACCUMULATOR {
                let problem = "iteration variable overwrites accumulator variable";
                return Err(helper.new_error(argument.id, problem));
            }
            names.push(name);
        }
        let mut names = names.into_iter();
        let mut name = || names.next().unwrap_or_default();
        Ok(Self {
            variables: [name(), name()],
            filter,
            body,
            reader,
        })
    }

    fn build(self, helper: &mut MacroExprHelper<'_>, range: IdedExpr, fold: Fold) -> IdedExpr {
        let names = self.variables.clone();
        let bound = |helper: &mut MacroExprHelper<'_>, expression: IdedExpr| match self.reader {
            Reader::Checker => expression,
            Reader::Interpreter => bound(helper, &names, expression),
        };
        let body = bound(helper, self.body);
        let accumulated = |helper: &mut MacroExprHelper<'_>| ident(helper, ACCUMULATOR);
        let truth = |helper: &mut MacroExprHelper<'_>, value: bool| {
            helper.next_expr(Expr::Literal(LiteralValue::Boolean(value.into())))
        };
        let number = |helper: &mut MacroExprHelper<'_>, value: i64| {
            helper.next_expr(Expr::Literal(LiteralValue::Int(value.into())))
        };
        let former = accumulated(helper);
        let (init, step, filter) = match fold {
            Fold::All => (
                truth(helper, true),
                call(helper, operators::LOGICAL_AND, vec![former, body]),
                None,
            ),
            Fold::Exists => (
                truth(helper, false),
                call(helper, operators::LOGICAL_OR, vec![former, body]),
                None,
            ),
            Fold::ExistsOne => {
                let one = number(helper, 1);
                let next = call(helper, operators::ADD, vec![former, one]);
                (number(helper, 0), next, Some(body))
            }
            Fold::List => {
                let item = helper.next_expr(Expr::List(ListExpr::new(vec![body])));
                let init = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
                (
                    init,
                    call(helper, operators::ADD, vec![former, item]),
                    self.filter,
                )
            }
            Fold::Map => {
                let key = ident(helper, &names[0]);
                let key = bound(helper, key);
                let init = helper.next_expr(Expr::Map(MapExpr::default()));
                (init, call(helper, INSERT, vec![former, key, body]), self.filter)
            }
            Fold::MapOfEntries => {
                let init = helper.next_expr(Expr::Map(MapExpr::default()));
                (init, call(helper, INSERT, vec![former, body]), self.filter)
            }
        };
        let loop_step = match filter {
            None => step,
            Some(filter) => {
                // The body of `existsOne` is bound already.
                let filter = match fold {
                    Fold::ExistsOne => filter,
                    _ => bound(helper, filter),
                };
                let otherwise = accumulated(helper);
                call(helper, operators::CONDITIONAL, vec![filter, step, otherwise])
            }
        };
        let loop_cond = match fold {
            Fold::All => {
                let former = accumulated(helper);
                call(helper, operators::NOT_STRICTLY_FALSE, vec![former])
            }
            Fold::Exists => {
                let former = accumulated(helper);
                let not = call(helper, operators::LOGICAL_NOT, vec![former]);
                call(helper, operators::NOT_STRICTLY_FALSE, vec![not])
            }
            _ => truth(helper, true),
        };
        let result = accumulated(helper);
        let result = match fold {
            Fold::ExistsOne => {
                let one = number(helper, 1);
                call(helper, operators::EQUALS, vec![result, one])
            }
            _ => result,
        };
        let (iter_range, iter_var, iter_var2) = match self.reader {
            Reader::Checker => {
                let [first, second] = self.variables;
                (range, first, Some(second))
            }
            Reader::Interpreter => (call(helper, ENTRIES, vec![range]), ENTRY.to_owned(), None),
        };
        let comprehension = ComprehensionExpr {
            iter_range,
            iter_var,
            iter_var2,
            accu_var: ACCUMULATOR.to_owned(),
            accu_init: init,
            loop_cond,
            loop_step,
            result,
        };
        helper.next_expr(Expr::Comprehension(Box::new(comprehension)))
    }
}

/// An expression in which the variables have the parts of the entry.
fn bound(helper: &mut MacroExprHelper<'_>, names: &[String; 2], expression: IdedExpr) -> IdedExpr {
    let mut result = expression;
    for (position, name) in names.iter().enumerate().rev() {
        let entry = ident(helper, ENTRY);
        let position = i64::from(position == 1);
        let position = helper.next_expr(Expr::Literal(LiteralValue::Int(position.into())));
        let binding = ComprehensionExpr {
            iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
            iter_var: "#unused".to_owned(),
            iter_var2: None,
            accu_var: name.clone(),
            accu_init: call(helper, operators::INDEX, vec![entry, position]),
            loop_cond: helper.next_expr(Expr::Literal(LiteralValue::Boolean(false.into()))),
            loop_step: ident(helper, name),
            result,
        };
        result = helper.next_expr(Expr::Comprehension(Box::new(binding)));
    }
    result
}

fn ident(helper: &mut MacroExprHelper<'_>, name: &str) -> IdedExpr {
    helper.next_expr(Expr::Ident(name.to_owned()))
}

fn call(helper: &mut MacroExprHelper<'_>, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr {
        func_name: function.to_owned(),
        target: None,
        args,
    }))
}
