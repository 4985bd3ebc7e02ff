//! The nodes of an expression.

use std::collections::BTreeSet;

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use regex::Regex;

use super::convert;

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
/// variable is a list of key and value.
pub(super) fn use_one_variable(expression: &mut IdedExpr) {
    change(expression, &mut |node| {
        if let Expr::Comprehension(comprehension) = &mut node.expr
            && let Some(second) = comprehension.iter_var2.take()
        {
            // Comprehensions inside of this one have entries of their own.
            let entry = format!("@entry{}", node.id);
            let range = std::mem::take(&mut comprehension.iter_range);
            comprehension.iter_range = call(range.id, "@entries", vec![range]);
            let first = std::mem::replace(&mut comprehension.iter_var, entry.clone());
            for (position, name) in [first, second].iter().enumerate() {
                read_entry(
                    &mut comprehension.loop_step,
                    name,
                    &entry,
                    i64::from(position == 1),
                );
            }
        }
    });
}

/// Reads a position of an entry in the place of a variable. Depth is bounded by the parser that read the
/// expression.
fn read_entry(expression: &mut IdedExpr, variable: &str, entry: &str, position: i64) {
    let id = expression.id;
    let literal = |expr: Expr| IdedExpr { id, expr };
    match &mut expression.expr {
        Expr::Ident(name) if name == variable => {
            let position = literal(Expr::Literal(LiteralValue::Int(position.into())));
            let entry = literal(Expr::Ident(entry.to_owned()));
            *expression = call(id, operators::INDEX, vec![entry, position]);
        }
        // Variables of the comprehension hide those around it.
        Expr::Comprehension(inner) if inner.iter_var == variable || inner.accu_var == variable => {
            read_entry(&mut inner.iter_range, variable, entry, position);
            read_entry(&mut inner.accu_init, variable, entry, position);
            if inner.accu_var != variable {
                read_entry(&mut inner.result, variable, entry, position);
            }
        }
        _ => {
            for part in parts(expression) {
                read_entry(part, variable, entry, position);
            }
        }
    }
}

fn call(id: u64, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    let call = CallExpr {
        func_name: function.to_owned(),
        target: None,
        args,
    };
    IdedExpr {
        id,
        expr: Expr::Call(call),
    }
}
