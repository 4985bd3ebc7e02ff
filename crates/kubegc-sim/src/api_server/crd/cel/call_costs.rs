//! Costs of calls, without their operands.
//!
//! # Upstream
//! `functionCost` in [`cost.go`](https://github.com/google/cel-go/blob/v0.26.0/checker/cost.go), and
//! `EstimateCallCost` in
//! [`library/cost.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/library/cost.go).

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};

use super::{
    cost::{CALL, LIST, Path, Range, TRAVERSAL},
    sizes::Declared,
    types::Ty,
};

/// The cost of a regular expression, by character of the pattern.
const PATTERN: f64 = 0.25;
/// An authorization check: two fit into an expression.
const AUTHORIZATION: Range = Range::fixed(350_000);
/// The most expensive pattern of a named format, by characters.
const FORMAT_PATTERN: f64 = 128.0;
/// The longest name of a format.
const FORMAT_NAME: Range = Range { min: 1, max: 64 };
/// The bytes of an address.
const ADDRESS: Range = Range { min: 4, max: 16 };

/// An operand of a call.
pub(super) struct Operand<'n, 'a> {
    pub(super) path: Path,
    pub(super) ty: Ty<'a>,
    pub(super) expression: &'n IdedExpr,
    pub(super) size: Option<Range>,
}

impl Operand<'_, '_> {
    pub(super) fn known(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }

    /// The number that a literal denotes.
    fn number(&self) -> Option<u64> {
        match &self.expression.expr {
            Expr::Literal(LiteralValue::Int(number)) => Some(u64::try_from(*number.inner()).unwrap_or(0)),
            _ => None,
        }
    }
}

/// The cost of a call without its operands, and the size of its result if the call determines it.
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
    pub(super) id: u64,
    pub(super) function: &'o str,
    pub(super) target: Option<&'o Operand<'n, 'a>>,
    pub(super) arguments: &'o [Operand<'n, 'a>],
    pub(super) costs: &'o [Range],
}

/// The costs of the functions of Kubernetes, without operands.
pub(super) fn library(called: &Called<'_, '_, '_>, overload: &str, declared: &Declared) -> Option<Estimate> {
    let first = called.arguments.first();
    let target = called.target;
    // A traversal of an operand, some times.
    let traversal = |operand: Option<&Operand<'_, '_>>, times: f64| {
        operand.map(|operand| Estimate::from(operand.known().scaled(times * TRAVERSAL)))
    };
    // The same, with a result of the same size.
    let copy = |operand: Option<&Operand<'_, '_>>| {
        operand.map(|operand| Estimate {
            cost: operand.known().scaled(TRAVERSAL),
            size: Some(operand.known()),
        })
    };
    match called.function {
        "check" => Some(AUTHORIZATION.into()),
        "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name"
        | "allowed" | "reason" | "error" | "errored" => Some(CALL.into()),
        "fieldSelector" | "labelSelector" => first.map(|selector| {
            // A requirement has at least two characters, and takes a structure and a list.
            let requirements = selector.known().scaled(0.5).scaled(50.0);
            (LIST + selector.known().scaled(TRAVERSAL) + requirements).into()
        }),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            let target = target?;
            Some(match target.ty.parameters().first() {
                Some(Ty::String | Ty::Bytes) => {
                    let comparison = CALL + item_size(target, declared).scaled(TRAVERSAL);
                    (target.known() * comparison).into()
                }
                Some(_) => target.known().into(),
                None => target.known().scaled(TRAVERSAL).into(),
            })
        }
        "url" | "jsonpatch.escapeKey" => copy(first),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => copy(target),
        "replace" => match called.arguments {
            [from, to, ..] => target.map(|target| Estimate {
                cost: target.known().scaled(2.0 * TRAVERSAL),
                size: Some(replaced(target.known(), from.known(), to.known())),
            }),
            _ => None,
        },
        "split" => target.map(|target| {
            let parts = called.arguments.get(1).and_then(Operand::number);
            Estimate {
                cost: target.known().scaled(2.0 * TRAVERSAL),
                size: Some(Range::up_to(parts.unwrap_or(target.known().max))),
            }
        }),
        "join" => target.map(|target| {
            let count = target.known();
            let mut size = match target.ty.parameters().is_empty() {
                true => Range::NONE,
                false => count * item_size(target, declared),
            };
            if let Some(separator) = first {
                size = size + separator.known() * count.map(|items| items.saturating_sub(1));
            }
            Estimate {
                cost: size.scaled(TRAVERSAL),
                size: Some(size),
            }
        }),
        "find" | "findAll" => Some(Estimate {
            cost: matching(target?, first?),
            size: Some(Range::up_to(target?.known().max)),
        }),
        "ip" if overload == "cidr_ip" => Some(CALL.into()),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            traversal(first, 1.0)
        }
        "ip.isCanonical" => traversal(first, 2.0),
        "containsIP" | "containsCIDR" => {
            let mut cost = (ADDRESS + ADDRESS).scaled(TRAVERSAL);
            if called.function == "containsCIDR" {
                cost = cost + ADDRESS.scaled(TRAVERSAL) + CALL;
            }
            if overload == "cidr_contains_string" {
                cost = cost + first?.known().scaled(TRAVERSAL);
            }
            Some(cost.into())
        }
        "validate" => first.map(|text| {
            let pattern = FORMAT_PATTERN * PATTERN;
            text.known().scaled(TRAVERSAL).scaled(pattern).into()
        }),
        "masked"
        | "prefixLength"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "format.named"
        | "sign"
        | "asInteger"
        | "isInteger"
        | "asApproximateFloat"
        | "isGreaterThan"
        | "isLessThan"
        | "compareTo"
        | "add"
        | "sub"
        | "major"
        | "minor"
        | "patch"
        | "getScheme"
        | "getHostname"
        | "getHost"
        | "getPort"
        | "getEscapedPath"
        | "getQuery" => Some(CALL.into()),
        operators::EQUALS => match called.arguments {
            [one, other] if one.ty == other.ty => match one.ty {
                Ty::Named("kubernetes.NamedFormat") => Some(FORMAT_NAME.scaled(TRAVERSAL).into()),
                Ty::Named("kubernetes.URL") => {
                    let max = other.size.map_or(1, |size| size.max);
                    Some(Range { min: 1, max }.scaled(TRAVERSAL).into())
                }
                Ty::Named(_) => Some(CALL.into()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// The size of the items of a list.
fn item_size(list: &Operand<'_, '_>, declared: &Declared) -> Range {
    if list.path.is_empty() {
        return Range::UNKNOWN;
    }
    let mut path = list.path.clone();
    path.push("@items".to_owned());
    declared.size(&path).unwrap_or(Range::UNKNOWN)
}

/// The costs of functions of lists and sets, without operands.
///
/// # Upstream
/// [`lists.go`](https://github.com/google/cel-go/blob/v0.26.0/ext/lists.go) and `sets.go` in `cel-go/ext`.
pub(super) fn lists(called: &Called<'_, '_, '_>, overload: &str) -> Option<Estimate> {
    let allocating = |size: Range, factor: f64| Estimate {
        cost: size.scaled(factor) + CALL + LIST,
        size: Some(size),
    };
    let number = |position: usize, other: u64| {
        let argument = called.arguments.get(position);
        argument.and_then(Operand::number).unwrap_or(other)
    };
    Some(match overload {
        "sets" | "sets_twice" => {
            let [one, other] = called.arguments else {
                return None;
            };
            let times = if overload == "sets" { 1.0 } else { 2.0 };
            ((one.known() * other.known()).scaled(times) + CALL).into()
        }
        "list_slice" => {
            let end = number(1, called.target?.known().max);
            allocating(Range::fixed(end.saturating_sub(number(0, 0))), 1.0)
        }
        "lists_range" => allocating(Range::fixed(number(0, u64::MAX)), 1.0),
        "list_reverse" => allocating(called.target?.known(), 1.0),
        "list_flatten" => {
            let depth = number(0, if called.arguments.is_empty() { 1 } else { u64::MAX }) as f64;
            allocating(called.target?.known(), depth)
        }
        "list_distinct" => {
            let size = called.target?.known();
            allocating(size * size, 2.0)
        }
        "list_sort" | "list_sort_text" => {
            // `sortBy` compares its keys.
            let size = called.arguments.first().or(called.target)?.known();
            let factor = if overload == "list_sort" {
                2.0
            } else {
                2.0 + TRAVERSAL
            };
            allocating(size * size, factor)
        }
        _ => return None,
    })
}

/// The costs of the standard functions that traverse their operands, without operands.
pub(super) fn standard(called: &Called<'_, '_, '_>, overload: &str) -> Option<Estimate> {
    let first = called.arguments.first().map(Operand::known);
    Some(match overload {
        "string_format" => called.target?.known().scaled(TRAVERSAL).into(),
        "string_to_bytes" => Estimate {
            cost: first?.scaled(TRAVERSAL),
            size: Some(Range {
                min: first?.min,
                max: first?.max.wrapping_mul(4),
            }),
        },
        "bytes_to_string" => Estimate {
            cost: first?.scaled(TRAVERSAL),
            size: Some(Range {
                min: first?.min / 4,
                max: first?.max,
            }),
        },
        // Upstream's sizes overflow too.
        "strings_quote" => Estimate {
            cost: first?.scaled(TRAVERSAL),
            size: Some(Range {
                min: first?.min.wrapping_add(2),
                max: first?.max.wrapping_mul(2).wrapping_add(2),
            }),
        },
        "affix" => first?.scaled(TRAVERSAL).into(),
        "in_list" => called.arguments.get(1)?.known().into(),
        "matches_string" => matching(called.target?, called.arguments.first()?).into(),
        "contains_string" => (called.target?.known().scaled(TRAVERSAL) * first?.scaled(TRAVERSAL)).into(),
        "compare" | "equals" => {
            let [one, other] = called.arguments else {
                return None;
            };
            let max = one.known().max.min(other.known().max);
            let min = u64::from(max > 0);
            Range { min, max }.scaled(TRAVERSAL).into()
        }
        _ => return None,
    })
}

/// The cost of a regular expression. An empty string has a cost too.
fn matching(text: &Operand<'_, '_>, pattern: &Operand<'_, '_>) -> Range {
    (text.known() + Range::fixed(1)).scaled(TRAVERSAL) * pattern.known().scaled(PATTERN)
}

/// The size of a string with parts of one size replaced by parts of another size.
fn replaced(whole: Range, from: Range, to: Range) -> Range {
    let (most, kept_most) = match (from.min, to.max) {
        // An empty part surrounds all characters.
        (0, _) => (whole.max.saturating_add(1), whole.max),
        (from, to) if to <= from => (0, whole.max),
        (from, _) => (whole.max.div_ceil(from), 0),
    };
    let (least, kept_least) = match (from.max, to.min) {
        (0, _) => (whole.min.saturating_add(1), whole.min),
        (from, to) if from <= to => (0, whole.min),
        (from, _) => (whole.min.div_ceil(from), 0),
    };
    let count = Range {
        min: least,
        max: most,
    };
    let kept = Range {
        min: kept_least,
        max: kept_most,
    };
    count * to + kept
}
