//! The nodes of an expression.

use std::collections::BTreeSet;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use regex::Regex;

use super::convert;

/// Whether two lists have the same items.
pub(super) const SAME_ITEMS: &str = "@sameItems";
pub(super) const OTHER_ITEMS: &str = "@otherItems";

/// Calls a function with each node. Depth is bounded by the parser that read the expression.
fn visit<'e>(expression: &'e IdedExpr, with: &mut impl FnMut(&'e IdedExpr)) {
    with(expression);
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => {}
        Expr::Select(select) => visit(&select.operand, with),
        Expr::Call(call) => {
            for operand in call.target.as_deref().into_iter().chain(&call.args) {
                visit(operand, with);
            }
        }
        Expr::List(list) => {
            for element in &list.elements {
                visit(element, with);
            }
        }
        Expr::Map(map) => {
            for entry in &map.entries {
                match &entry.expr {
                    EntryExpr::MapEntry(entry) => {
                        visit(&entry.key, with);
                        visit(&entry.value, with);
                    }
                    EntryExpr::StructField(field) => visit(&field.value, with),
                }
            }
        }
        Expr::Comprehension(comprehension) => {
            visit(&comprehension.iter_range, with);
            visit(&comprehension.accu_init, with);
            visit(&comprehension.loop_cond, with);
            visit(&comprehension.loop_step, with);
            visit(&comprehension.result, with);
        }
    }
}

/// Whether an expression has a comprehension with two variables.
pub(super) fn has_two_variables(expression: &IdedExpr) -> bool {
    let mut found = false;
    visit(expression, &mut |node| {
        found |= matches!(&node.expr, Expr::Comprehension(one) if one.iter_var2.is_some());
    });
    found
}

/// The literal arguments that functions do not accept, with the names of the functions.
///
/// # Upstream
/// `ValidateDurationLiterals`, `ValidateTimestampLiterals` and `ValidateRegexLiterals` in
/// [`validator.go`](https://github.com/google/cel-go/blob/v0.26.0/cel/validator.go).
pub(super) fn invalid_literals(expression: &IdedExpr) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    visit(expression, &mut |node| {
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

/// The expression with comparisons that ignore the order of items. Depth is bounded by the parser that read
/// it.
pub(super) fn compare_unordered(expression: &mut IdedExpr, comparisons: &BTreeSet<u64>) {
    let id = expression.id;
    let mut below = |one: &mut IdedExpr| compare_unordered(one, comparisons);
    match &mut expression.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => {}
        Expr::Select(select) => below(&mut select.operand),
        Expr::Call(call) => {
            call.target.as_deref_mut().into_iter().for_each(&mut below);
            call.args.iter_mut().for_each(&mut below);
            if comparisons.contains(&id) {
                let is_equality = call.func_name == operators::EQUALS;
                call.func_name = if is_equality { SAME_ITEMS } else { OTHER_ITEMS }.to_owned();
            }
        }
        Expr::List(list) => list.elements.iter_mut().for_each(below),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    below(&mut entry.key);
                    below(&mut entry.value);
                }
            }
        }
        Expr::Comprehension(comprehension) => {
            below(&mut comprehension.iter_range);
            below(&mut comprehension.accu_init);
            below(&mut comprehension.loop_step);
            below(&mut comprehension.result);
        }
    }
}
