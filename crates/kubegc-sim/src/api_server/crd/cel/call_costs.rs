//! Costs of calls, without their operands, by the names of `functions.txt`.
//!
//! # Upstream
//! `functionCost` in [`cost.go`](https://github.com/google/cel-go/blob/v0.26.0/checker/cost.go),
//! `EstimateCallCost` in
//! [`library/cost.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/library/cost.go), and
//! [`lists.go`](https://github.com/google/cel-go/blob/v0.26.0/ext/lists.go) and `sets.go` in `cel-go/ext`.

use std::ops;

use cel::common::ast::{Expr, IdedExpr, LiteralValue};

use super::{
    cost::{CALL, Estimated, LIST, Range, TRAVERSAL},
    sizes::Declared,
    types::Ty,
};

/// The cost of a regular expression, by character of the pattern.
const PATTERN: f64 = 0.25;
/// The most expensive pattern of a named format, by characters.
const FORMAT_PATTERN: f64 = 128.0;
/// The longest name of a format.
const FORMAT_NAME: Range = Range { min: 1, max: 64 };
/// The bytes of an address.
const ADDRESS: Range = Range { min: 4, max: 16 };

/// An operand of a call.
pub(super) struct Operand<'n, 'a> {
    pub(super) estimated: Estimated,
    pub(super) ty: Ty<'a>,
    pub(super) expression: &'n IdedExpr,
}

impl Operand<'_, '_> {
    fn known(&self) -> Range {
        self.estimated.size.unwrap_or(Range::UNKNOWN)
    }

    /// The number that a literal denotes.
    fn number(&self) -> Option<u64> {
        match &self.expression.expr {
            Expr::Literal(LiteralValue::Int(number)) => Some(u64::try_from(*number.inner()).unwrap_or(0)),
            _ => None,
        }
    }
}

/// The cost of a call, and the size of its result if the call determines it.
pub(super) struct Estimate {
    pub(super) cost: Range,
    pub(super) size: Option<Range>,
}

impl From<Range> for Estimate {
    fn from(cost: Range) -> Self {
        Self { cost, size: None }
    }
}

/// A call with its operands.
pub(super) struct Called<'n, 'o, 'a> {
    pub(super) target: Option<&'o Operand<'n, 'a>>,
    pub(super) arguments: &'o [Operand<'n, 'a>],
}

/// The estimate of a call with one overload, arguments included. Calls without a rule of their own cost 1.
pub(super) fn estimate(called: &Called<'_, '_, '_>, rule: &str, declared: &Declared) -> Estimate {
    let cost = |operand: &Operand<'_, '_>| operand.estimated.cost;
    match (rule, called.arguments) {
        ("logical_or" | "logical_and", [left, right]) => {
            let (min, max) = (cost(left).min, (cost(left) + cost(right)).max);
            Range { min, max }.into()
        }
        ("conditional", [condition, one, other]) => Estimate {
            cost: cost(condition) + cost(one).union(cost(other)),
            size: Some(one.known().union(other.known())),
        },
        _ => {
            let own = by_rule(called, rule, declared).unwrap_or_else(|| CALL.into());
            let arguments = called.arguments.iter().map(cost);
            Estimate {
                cost: arguments.fold(own.cost, ops::Add::add),
                ..own
            }
        }
    }
}

/// The same without arguments.
fn by_rule(called: &Called<'_, '_, '_>, rule: &str, declared: &Declared) -> Option<Estimate> {
    let argument = |position: usize| called.arguments.get(position);
    let first = || argument(0).map(Operand::known);
    let target = || called.target.map(Operand::known);
    let number = |position: usize, other: u64| argument(position).and_then(Operand::number).unwrap_or(other);
    let copy = |size: Range| Estimate {
        cost: size.scaled(TRAVERSAL),
        size: Some(size),
    };
    let allocating = |size: Range, factor: f64| Estimate {
        cost: size.scaled(factor) + CALL + LIST,
        size: Some(size),
    };
    Some(match rule {
        "traverse" => target()?.scaled(TRAVERSAL).into(),
        "traverse_argument" => first()?.scaled(TRAVERSAL).into(),
        "traverse_argument_twice" => first()?.scaled(2.0 * TRAVERSAL).into(),
        "copy" => copy(target()?),
        "copy_argument" => copy(first()?),
        "add_string" | "add_bytes" => copy(first()? + argument(1)?.known()),
        "add_list" => Estimate {
            cost: CALL,
            size: Some(first()? + argument(1)?.known()),
        },
        "items" => {
            let list = called.target?;
            match list.ty.parameters().first() {
                Some(Ty::String | Ty::Bytes) => {
                    let comparison = CALL + item_size(list, declared).scaled(TRAVERSAL);
                    (list.known() * comparison).into()
                }
                Some(_) => list.known().into(),
                None => list.known().scaled(TRAVERSAL).into(),
            }
        }
        "replace" => Estimate {
            cost: target()?.scaled(2.0 * TRAVERSAL),
            size: Some(replaced(target()?, first()?, argument(1)?.known())),
        },
        "split" => Estimate {
            cost: target()?.scaled(2.0 * TRAVERSAL),
            size: Some(Range::up_to(number(1, target()?.max))),
        },
        "join" => {
            let list = called.target?;
            let mut size = match list.ty.parameters().is_empty() {
                true => Range::NONE,
                false => list.known() * item_size(list, declared),
            };
            if let Some(separator) = first() {
                size = size + separator * list.known().map(|items| items.saturating_sub(1));
            }
            copy(size)
        }
        "find" => Estimate {
            cost: matching(target()?, first()?),
            size: Some(Range::up_to(target()?.max)),
        },
        "contains" => (ADDRESS + ADDRESS).scaled(TRAVERSAL).into(),
        "contains_text" => ((ADDRESS + ADDRESS).scaled(TRAVERSAL) + first()?.scaled(TRAVERSAL)).into(),
        "contains_network" => network_in_network().into(),
        "contains_network_text" => (network_in_network() + first()?.scaled(TRAVERSAL)).into(),
        "validate" => {
            let pattern = FORMAT_PATTERN * PATTERN;
            first()?.scaled(TRAVERSAL).scaled(pattern).into()
        }
        "sets" => ((first()? * argument(1)?.known()) + CALL).into(),
        "sets_twice" => ((first()? * argument(1)?.known()).scaled(2.0) + CALL).into(),
        "list_slice" => {
            let end = number(1, target()?.max);
            allocating(Range::fixed(end.saturating_sub(number(0, 0))), 1.0)
        }
        "lists_range" => allocating(Range::fixed(number(0, u64::MAX)), 1.0),
        "list_reverse" => allocating(target()?, 1.0),
        "list_flatten" => {
            let depth = number(0, if called.arguments.is_empty() { 1 } else { u64::MAX }) as f64;
            allocating(target()?, depth)
        }
        "list_distinct" => allocating(target()? * target()?, 2.0),
        // `sortBy` compares its keys.
        "list_sort" => {
            let size = first().or_else(target)?;
            allocating(size * size, 2.0)
        }
        "list_sort_text" => {
            let size = first().or_else(target)?;
            allocating(size * size, 2.0 + TRAVERSAL)
        }
        "string_to_bytes" => Estimate {
            cost: first()?.scaled(TRAVERSAL),
            size: Some(Range {
                min: first()?.min,
                max: first()?.max.wrapping_mul(4),
            }),
        },
        "bytes_to_string" => Estimate {
            cost: first()?.scaled(TRAVERSAL),
            size: Some(Range {
                min: first()?.min / 4,
                max: first()?.max,
            }),
        },
        // Upstream's sizes overflow too.
        "strings_quote" => Estimate {
            cost: first()?.scaled(TRAVERSAL),
            size: Some(Range {
                min: first()?.min.wrapping_add(2),
                max: first()?.max.wrapping_mul(2).wrapping_add(2),
            }),
        },
        "in_list" => argument(1)?.known().into(),
        "matches_string" => matching(target()?, first()?).into(),
        "contains_string" => (target()?.scaled(TRAVERSAL) * first()?.scaled(TRAVERSAL)).into(),
        "compare" | "equals" => match called.arguments {
            [one, other] if one.ty == other.ty && matches!(one.ty, Ty::Named(_)) => match one.ty {
                Ty::Named("kubernetes.NamedFormat") => FORMAT_NAME.scaled(TRAVERSAL).into(),
                Ty::Named("kubernetes.URL") => {
                    let max = other.estimated.size.map_or(1, |size| size.max);
                    Range { min: 1, max }.scaled(TRAVERSAL).into()
                }
                _ => CALL.into(),
            },
            [one, other] => {
                let max = one.known().max.min(other.known().max);
                let min = u64::from(max > 0);
                Range { min, max }.scaled(TRAVERSAL).into()
            }
            _ => return None,
        },
        _ => return None,
    })
}

fn network_in_network() -> Range {
    (ADDRESS + ADDRESS).scaled(TRAVERSAL) + ADDRESS.scaled(TRAVERSAL) + CALL
}

/// The size of the items of a list.
fn item_size(list: &Operand<'_, '_>, declared: &Declared) -> Range {
    if list.estimated.path.is_empty() {
        return Range::UNKNOWN;
    }
    let size = declared.size(&list.estimated.step("@items"));
    size.unwrap_or(Range::UNKNOWN)
}

/// The cost of a regular expression. An empty string has a cost too.
fn matching(text: Range, pattern: Range) -> Range {
    (text + Range::fixed(1)).scaled(TRAVERSAL) * pattern.scaled(PATTERN)
}

/// The size of a string with parts of one size replaced by parts of another size.
fn replaced(whole: Range, from: Range, to: Range) -> Range {
    // The number of replaced parts, and the size that is kept.
    let bound = |whole: u64, from: u64, to: u64, grows: bool| match (from, to) {
        // An empty part surrounds all characters.
        (0, _) => (whole.saturating_add(1), whole),
        (from, to) if (to <= from) == grows || to == from => (0, whole),
        (from, _) => (whole.div_ceil(from), 0),
    };
    let (most, kept_most) = bound(whole.max, from.min, to.max, true);
    let (least, kept_least) = bound(whole.min, from.max, to.min, false);
    let range = |min, max| Range { min, max };
    range(least, most) * to + range(kept_least, kept_most)
}
