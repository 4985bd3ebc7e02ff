//! Comprehensions with two variables, such as `map.all(key, value, value > 0)`.
//!
//! # Upstream
//! [`comprehensions.go`](https://github.com/google/cel-go/blob/v0.26.0/ext/comprehensions.go) in `cel-go/ext`.

use cel::{
    DeclarationError, Env, ParseError,
    common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators},
    parser::{Macro, MacroExprHelper},
};

const ACCUMULATOR: &str = "@result";
/// Inserts entries into a map.
const INSERT: &str = "cel.@mapInsert";

pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    for (name, arguments) in [
        ("all", 3),
        ("exists", 3),
        ("existsOne", 3),
        ("exists_one", 3),
        ("transformList", 3),
        ("transformList", 4),
        ("transformMap", 3),
        ("transformMap", 4),
        ("transformMapEntry", 3),
        ("transformMapEntry", 4),
    ] {
        env.add_macro(Macro::receiver(
            name,
            arguments,
            move |helper, target, arguments| {
                let range = target.take();
                let expanded = range.map(|range| expand(helper, range, std::mem::take(arguments), name));
                expanded.transpose()
            },
        ))?;
    }
    Ok(())
}

fn expand(
    helper: &mut MacroExprHelper<'_>,
    range: IdedExpr,
    mut arguments: Vec<IdedExpr>,
    name: &str,
) -> Result<IdedExpr, ParseError> {
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
    let iter_var2 = names.pop();
    let iter_var = names.pop().unwrap_or_default();

    let truth = |value: bool| Expr::Literal(LiteralValue::Boolean(value.into()));
    let number = |value: i64| Expr::Literal(LiteralValue::Int(value.into()));
    let former = helper.next_expr(Expr::Ident(ACCUMULATOR.to_owned()));
    let one = helper.next_expr(number(1));
    let joined = |operator: &str, mut with: Vec<IdedExpr>| {
        with.insert(0, former.clone());
        call(operator, with)
    };
    let (init, step, filter) = match name {
        "all" => (truth(true), joined(operators::LOGICAL_AND, vec![body]), None),
        "exists" => (truth(false), joined(operators::LOGICAL_OR, vec![body]), None),
        "existsOne" | "exists_one" => (number(0), joined(operators::ADD, vec![one.clone()]), Some(body)),
        "transformList" => {
            let item = helper.next_expr(Expr::List(ListExpr::new(vec![body])));
            let none = Expr::List(ListExpr::new(Vec::new()));
            (none, joined(operators::ADD, vec![item]), filter)
        }
        _ => {
            let key = (name == "transformMap").then(|| helper.next_expr(Expr::Ident(iter_var.clone())));
            let entry = key.into_iter().chain([body]).collect();
            (Expr::Map(MapExpr::default()), joined(INSERT, entry), filter)
        }
    };
    let mut loop_step = helper.next_expr(step);
    if let Some(filter) = filter {
        let step = call(operators::CONDITIONAL, vec![filter, loop_step, former.clone()]);
        loop_step = helper.next_expr(step);
    }
    let loop_cond = match name {
        "all" => call(operators::NOT_STRICTLY_FALSE, vec![former.clone()]),
        "exists" => {
            let not = helper.next_expr(call(operators::LOGICAL_NOT, vec![former.clone()]));
            call(operators::NOT_STRICTLY_FALSE, vec![not])
        }
        _ => truth(true),
    };
    let result = match name {
        "existsOne" | "exists_one" => helper.next_expr(call(operators::EQUALS, vec![former, one])),
        _ => former,
    };
    let comprehension = ComprehensionExpr {
        iter_range: range,
        iter_var,
        iter_var2,
        accu_var: ACCUMULATOR.to_owned(),
        accu_init: helper.next_expr(init),
        loop_cond: helper.next_expr(loop_cond),
        loop_step,
        result,
    };
    Ok(helper.next_expr(Expr::Comprehension(Box::new(comprehension))))
}

/// A call of a function without a target.
pub(super) fn call(function: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr {
        func_name: function.to_owned(),
        target: None,
        args,
    })
}
