//! The nodes of an expression.

use std::collections::BTreeSet;

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators};
use regex::Regex;

use super::{convert, macros::call};

/// The expressions that are parts of an expression.
pub(super) fn parts(expression: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    match &mut expression.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => Vec::new(),
        Expr::Select(select) => vec![&mut select.operand],
        Expr::Call(call) => call
            .target
            .as_deref_mut()
            .into_iter()
            .chain(&mut call.args)
            .collect(),
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter_mut();
            let parts = entries.flat_map(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
                EntryExpr::StructField(field) => vec![&mut field.value],
            });
            parts.collect()
        }
        Expr::Comprehension(comprehension) => vec![
            &mut comprehension.iter_range,
            &mut comprehension.accu_init,
            &mut comprehension.loop_cond,
            &mut comprehension.loop_step,
            &mut comprehension.result,
        ],
    }
}

/// Changes each node, the parts of an expression first. Depth is bounded by the parser that read the
/// expression.
fn change(expression: &mut IdedExpr, with: &mut impl FnMut(&mut IdedExpr)) {
    for part in parts(expression) {
        change(part, with);
    }
    with(expression);
}

/// The literal arguments that functions do not accept, with the names of the functions.
///
/// # Upstream
/// `ValidateDurationLiterals`, `ValidateTimestampLiterals` and `ValidateRegexLiterals` in
/// [`validator.go`](https://github.com/google/cel-go/blob/v0.26.0/cel/validator.go).
pub(super) fn invalid_literals(expression: &mut IdedExpr) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    change(expression, &mut |node| {
        if let Expr::Call(call) = &node.expr
            && let Some(argument) = call.args.first()
            && let Expr::Literal(LiteralValue::String(text)) = &argument.expr
        {
            let is_valid = match call.func_name.as_str() {
                name @ ("duration" | "timestamp") => convert(name, text.inner()).is_some(),
                "matches" => Regex::new(text.inner()).is_ok(),
                _ => true,
            };
            if !is_valid {
                found.push((argument.id, call.func_name.clone()));
            }
        }
    });
    found
}

/// Makes these comparisons ignore the order of items.
pub(super) fn compare_unordered(expression: &mut IdedExpr, comparisons: &BTreeSet<u64>) {
    change(expression, &mut |node| {
        if let Expr::Call(call) = &mut node.expr
            && comparisons.contains(&node.id)
        {
            let is_equality = call.func_name == operators::EQUALS;
            call.func_name = if is_equality { "@sameItems" } else { "@otherItems" }.to_owned();
        }
    });
}

/// Replaces comprehensions with two variables by those with one: the interpreter has no others. The one
/// variable is a list of key and value, to which the step binds the two.
pub(super) fn use_one_variable(expression: &mut IdedExpr) {
    change(expression, &mut |node| {
        if let Expr::Comprehension(comprehension) = &mut node.expr
            && let Some(second) = comprehension.iter_var2.take()
        {
            // Comprehensions inside of this one have entries of their own.
            let entry = format!("@entry{}", node.id);
            let range = std::mem::take(&mut comprehension.iter_range);
            comprehension.iter_range = IdedExpr {
                id: range.id,
                expr: call("@entries", vec![range]),
            };
            let first = std::mem::replace(&mut comprehension.iter_var, entry.clone());
            for (position, name) in [(0, first), (1, second)] {
                let id = node.id;
                let ided = |expr: Expr| IdedExpr { id, expr };
                let position = ided(Expr::Literal(LiteralValue::Int(i64::into(position))));
                let value = call(operators::INDEX, vec![ided(Expr::Ident(entry.clone())), position]);
                let step = std::mem::take(&mut comprehension.loop_step);
                comprehension.loop_step = ided(Expr::Comprehension(Box::new(ComprehensionExpr {
                    iter_range: ided(Expr::List(ListExpr::new(Vec::new()))),
                    iter_var: "#unused".to_owned(),
                    iter_var2: None,
                    accu_var: name.clone(),
                    accu_init: ided(value),
                    loop_cond: ided(Expr::Literal(LiteralValue::Boolean(false.into()))),
                    loop_step: ided(Expr::Ident(name)),
                    result: step,
                })));
            }
        }
    });
}
