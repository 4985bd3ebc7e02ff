//! Costs of calls, without their operands, by the names of `functions.txt`.
//!
//! # Upstream
//! `functionCost` in [`cost.go`](https://github.com/google/cel-go/blob/v0.26.0/checker/cost.go),
//! `EstimateCallCost` in
//! [`library/cost.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/library/cost.go), and
//! [`lists.go`](https://github.com/google/cel-go/blob/v0.26.0/ext/lists.go) and `sets.go` in `cel-go/ext`.

use std::ops;

use super::{declared::Declared, range::Range, types::Ty};

/// The cost of a traversal of a string, by character.
const TRAVERSAL: f64 = 0.1;
pub(super) const CALL: Range = Range::fixed(1);
pub(super) const LIST: Range = Range::fixed(10);
/// The cost of a regular expression, by character of the pattern.
const PATTERN: f64 = 0.25;
/// The most expensive pattern of a named format, by characters.
const FORMAT_PATTERN: f64 = 128.0;
/// The longest name of a format.
const FORMAT_NAME: Range = Range::new(1, 64);
/// The bytes of an address.
const ADDRESS: Range = Range::new(4, 16);

/// The sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) is_list: bool,
    pub(super) key: Range,
    pub(super) value: Range,
}

impl Entry {
    pub(super) fn union(self, other: Self) -> Self {
        Self {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

/// The cost of an expression, and what is known of its value.
#[derive(Clone, Debug, Default)]
pub(super) struct Estimated<'a> {
    pub(super) cost: Range,
    /// Where fields lead from a variable to the value: its schema, if that has one there.
    pub(super) place: Option<Option<Declared<'a>>>,
    pub(super) size: Option<Range>,
    pub(super) entry: Option<Entry>,
    pub(super) ty: Ty<'a>,
    /// The number that a literal denotes.
    pub(super) number: Option<u64>,
}

impl Estimated<'_> {
    pub(super) fn known(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }
}

/// The cost of a call, and the size of its result if the call determines it.
type Estimate = (Range, Option<Range>);

/// The estimate of a call with one overload, arguments included. Calls without a rule of their own cost 1.
pub(super) fn estimate(target: Option<&Estimated<'_>>, arguments: &[Estimated<'_>], rule: &str) -> Estimate {
    match (rule, arguments) {
        ("logical_or" | "logical_and", [left, right]) => {
            let max = (left.cost + right.cost).max;
            (Range::new(left.cost.min, max), None)
        }
        ("conditional", [condition, one, other]) => (
            condition.cost + one.cost.union(other.cost),
            Some(one.known().union(other.known())),
        ),
        _ => {
            let (cost, size) = by_rule(target, arguments, rule).unwrap_or((CALL, None));
            let arguments = arguments.iter().map(|argument| argument.cost);
            (arguments.fold(cost, ops::Add::add), size)
        }
    }
}

/// The same without arguments.
fn by_rule(list: Option<&Estimated<'_>>, arguments: &[Estimated<'_>], rule: &str) -> Option<Estimate> {
    let first = || arguments.first().map(Estimated::known);
    let second = || arguments.get(1).map(Estimated::known);
    let target = || list.map(Estimated::known);
    let number = |position: usize, other: u64| {
        let argument = arguments.get(position);
        argument.and_then(|argument| argument.number).unwrap_or(other)
    };
    let only = |cost: Range| (cost, None);
    let traversal = |size: Range| size.scaled(TRAVERSAL);
    let copy = |size: Range| (traversal(size), Some(size));
    let allocating = |size: Range, factor: f64| (size.scaled(factor) + CALL + LIST, Some(size));
    Some(match rule {
        "traverse" => only(traversal(target()?)),
        "traverse_argument" => only(traversal(first()?)),
        "traverse_argument_twice" => only(first()?.scaled(2.0 * TRAVERSAL)),
        "copy" => copy(target()?),
        "copy_argument" => copy(first()?),
        "add_string" | "add_bytes" => copy(first()? + second()?),
        "add_list" => (CALL, Some(first()? + second()?)),
        "items" => match list?.ty.parameters().first() {
            Some(item) if item.is("string") || item.is("bytes") => {
                only(target()? * (CALL + traversal(item_size(list?))))
            }
            Some(_) => only(target()?),
            None => only(traversal(target()?)),
        },
        "replace" => (
            target()?.scaled(2.0 * TRAVERSAL),
            Some(replaced(target()?, first()?, second()?)),
        ),
        "split" => (
            target()?.scaled(2.0 * TRAVERSAL),
            Some(Range::new(0, number(1, target()?.max))),
        ),
        "join" => {
            let items = match list?.ty.parameters().is_empty() {
                true => Range::NONE,
                false => target()? * item_size(list?),
            };
            let separators = target()?.map(|items| items.saturating_sub(1));
            copy(items + first().unwrap_or(Range::NONE) * separators)
        }
        "find" => (matching(target()?, first()?), Some(Range::new(0, target()?.max))),
        "contains" => only((ADDRESS + ADDRESS).scaled(TRAVERSAL)),
        "contains_text" => only((ADDRESS + ADDRESS).scaled(TRAVERSAL) + traversal(first()?)),
        "contains_network" => only(network_in_network()),
        "contains_network_text" => only(network_in_network() + traversal(first()?)),
        "validate" => only(traversal(first()?).scaled(FORMAT_PATTERN * PATTERN)),
        "sets" => only((first()? * second()?) + CALL),
        "sets_twice" => only((first()? * second()?).scaled(2.0) + CALL),
        "list_slice" => {
            let end = number(1, target()?.max);
            allocating(Range::fixed(end.saturating_sub(number(0, 0))), 1.0)
        }
        "lists_range" => allocating(Range::fixed(number(0, u64::MAX)), 1.0),
        "list_reverse" => allocating(target()?, 1.0),
        "list_flatten" => {
            let depth = number(0, if arguments.is_empty() { 1 } else { u64::MAX }) as f64;
            allocating(target()?, depth)
        }
        "list_distinct" => allocating(target()? * target()?, 2.0),
        // `sortBy` compares its keys.
        "list_sort" | "list_sort_text" => {
            let size = first().or_else(target)?;
            allocating(
                size * size,
                2.0 + if rule == "list_sort" { 0.0 } else { TRAVERSAL },
            )
        }
        "string_to_bytes" => resized(first()?, |min| min, |max| max.wrapping_mul(4)),
        "bytes_to_string" => resized(first()?, |min| min / 4, |max| max),
        // Upstream's sizes overflow too.
        "strings_quote" => resized(
            first()?,
            |min| min.wrapping_add(2),
            |max| max.wrapping_mul(2).wrapping_add(2),
        ),
        "in_list" => only(second()?),
        "matches_string" => only(matching(target()?, first()?)),
        "contains_string" => only(traversal(target()?) * traversal(first()?)),
        "compare" | "equals" => {
            let [one, other] = arguments else {
                return None;
            };
            let max = one.known().max.min(other.known().max);
            match one.ty.parts().filter(|_| one.ty == other.ty) {
                Some(("kubernetes.NamedFormat", _)) => only(traversal(FORMAT_NAME)),
                Some(("kubernetes.URL", _)) => {
                    only(traversal(Range::new(1, other.size.map_or(1, |size| size.max))))
                }
                // The names of types of libraries have dots.
                Some((name, _)) if name.contains('.') => only(CALL),
                _ => only(traversal(Range::new(u64::from(max > 0), max))),
            }
        }
        _ => return None,
    })
}

fn network_in_network() -> Range {
    (ADDRESS + ADDRESS).scaled(TRAVERSAL) + ADDRESS.scaled(TRAVERSAL) + CALL
}

fn item_size(list: &Estimated<'_>) -> Range {
    let items = list.place.flatten().and_then(Declared::items);
    items.and_then(Declared::size).unwrap_or(Range::UNKNOWN)
}

/// The traversal of a text that is converted: the least and the most of the new size.
fn resized(text: Range, min: impl Fn(u64) -> u64, max: impl Fn(u64) -> u64) -> Estimate {
    let size = Range::new(min(text.min), max(text.max));
    (text.scaled(TRAVERSAL), Some(size))
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
    Range::new(least, most) * to + Range::new(kept_least, kept_most)
}
