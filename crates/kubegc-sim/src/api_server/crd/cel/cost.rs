//! The most that an expression may cost, from the sizes that a schema allows.
//!
//! A definition is refused when a rule may cost too much, so each number here is part of the API.
//!
//! # Upstream
//! [`cost.go`](https://github.com/google/cel-go/blob/v0.26.0/checker/cost.go) in `cel-go/checker`, and
//! `EstimateCallCost` in
//! [`library/cost.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/library/cost.go).

use std::{collections::BTreeMap, ops};

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::{
    call_costs::{Called, Estimate, Operand, library, lists, standard},
    check::Checked,
    sizes::Declared,
    types::Ty,
};

/// The cost of a traversal of a string, by character.
pub(super) const TRAVERSAL: f64 = 0.1;
const SELECTION: Range = Range::fixed(1);
pub(super) const CALL: Range = Range::fixed(1);
pub(super) const LIST: Range = Range::fixed(10);
const MAP: Range = Range::fixed(30);

/// The least and the most of a size or a cost. Sums and products do not exceed [`u64::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Range {
    pub(super) const NONE: Self = Self::fixed(0);
    pub(super) const UNKNOWN: Self = Self {
        min: 0,
        max: u64::MAX,
    };
    /// The neutral element of [`union`](Self::union).
    const EMPTY: Self = Self {
        min: u64::MAX,
        max: 0,
    };

    pub(super) const fn fixed(number: u64) -> Self {
        Self {
            min: number,
            max: number,
        }
    }

    pub(super) const fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    pub(super) fn map(self, with: impl Fn(u64) -> u64) -> Self {
        Self {
            min: with(self.min),
            max: with(self.max),
        }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// The product with a factor, rounded up.
    pub(super) fn scaled(self, factor: f64) -> Self {
        self.map(|number| scaled(number, factor))
    }
}

impl ops::Add for Range {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }
}

impl ops::Mul for Range {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }
}

/// As upstream multiplies: the cast saturates.
fn scaled(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).ceil() as u64
}

/// The most that an expression may cost. `declared`: the sizes of `self`.
pub(super) fn most(expression: &IdedExpr, checked: &Checked<'_>, declared: &Declared) -> u64 {
    let mut estimator = Estimator {
        checked,
        declared,
        paths: BTreeMap::new(),
        sizes: BTreeMap::new(),
        entries: BTreeMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(expression).max
}

/// The fields that lead from a variable to a value. The first part is the variable.
pub(super) type Path = Vec<String>;

/// The sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug)]
struct Entry {
    is_list: bool,
    key: Range,
    value: Range,
}

impl Entry {
    fn union(self, other: Self) -> Self {
        Self {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

/// A variable of a comprehension.
#[derive(Debug)]
struct Local {
    name: String,
    path: Path,
    size: Option<Range>,
    entry: Option<Entry>,
}

struct Estimator<'e, 'a> {
    checked: &'e Checked<'a>,
    declared: &'e Declared,
    /// The paths of nodes.
    paths: BTreeMap<u64, Path>,
    /// The sizes of nodes.
    sizes: BTreeMap<u64, Range>,
    entries: BTreeMap<u64, Entry>,
    /// The innermost last.
    locals: Vec<Local>,
}

impl<'a> Estimator<'_, 'a> {
    /// The cost of an expression. Depth is bounded by the parser that read it.
    fn cost(&mut self, expression: &IdedExpr) -> Range {
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) | Expr::Struct(_) => Range::NONE,
            Expr::Ident(name) => {
                let path = self.local(name).map(|local| local.path.clone());
                let path = path.unwrap_or_else(|| vec![name.clone()]);
                self.paths.insert(expression.id, path);
                SELECTION
            }
            Expr::Select(select) => {
                let operand = self.cost(&select.operand);
                if select.test {
                    return operand;
                }
                self.extend(expression.id, &select.operand, &select.field);
                match self.checked.ty(&select.operand) {
                    Ty::Map(..) | Ty::Object(..) | Ty::Metadata => operand + SELECTION,
                    _ => operand,
                }
            }
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => {
                let (mut cost, mut items) = (LIST, Range::EMPTY);
                for element in &list.elements {
                    cost = cost + self.cost(element);
                    items = items.union(self.size_or_unknown(element));
                }
                if list.elements.is_empty() {
                    items.min = 0;
                }
                let entry = Entry {
                    is_list: true,
                    key: Range::fixed(1),
                    value: items,
                };
                self.entries.insert(expression.id, entry);
                cost
            }
            Expr::Map(map) => {
                let (mut cost, mut keys, mut values) = (MAP, Range::EMPTY, Range::EMPTY);
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        cost = cost + self.cost(&entry.key) + self.cost(&entry.value);
                        keys = keys.union(self.size_or_unknown(&entry.key));
                        values = values.union(self.size_or_unknown(&entry.value));
                    }
                }
                if map.entries.is_empty() {
                    (keys.min, values.min) = (0, 0);
                }
                let entry = Entry {
                    is_list: false,
                    key: keys,
                    value: values,
                };
                self.entries.insert(expression.id, entry);
                cost
            }
            Expr::Comprehension(comprehension) if is_binding(comprehension) => {
                self.binding(expression.id, comprehension)
            }
            Expr::Comprehension(comprehension) => self.comprehension(expression.id, comprehension),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, expression: &IdedExpr) -> Path {
        if let Expr::Ident(name) = &expression.expr
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expression.id).cloned().unwrap_or_default()
    }

    /// Sets the path of a node: one step from another one.
    fn extend(&mut self, id: u64, from: &IdedExpr, step: &str) {
        let mut path = self.path(from);
        path.push(step.to_owned());
        self.paths.insert(id, path);
    }

    /// The size of a value, if it is known.
    fn size(&mut self, expression: &IdedExpr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&expression.id) {
            return Some(*size);
        }
        let fixed = match &expression.expr {
            Expr::Literal(LiteralValue::String(text)) => Some(text.inner().chars().count()),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Some(bytes.inner().len()),
            Expr::Literal(_) => Some(1),
            Expr::List(list) => Some(list.elements.len()),
            Expr::Map(map) => Some(map.entries.len()),
            _ => None,
        };
        if let Some(fixed) = fixed {
            return Some(Range::fixed(fixed as u64));
        }
        if let Some(size) = self.declared.size(&self.path(expression)) {
            self.sizes.insert(expression.id, size);
            return Some(size);
        }
        if self.checked.ty(expression).is_scalar() {
            return Some(Range::fixed(1));
        }
        match &expression.expr {
            Expr::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expression: &IdedExpr) -> Range {
        self.size(expression).unwrap_or(Range::UNKNOWN)
    }

    fn entry(&self, expression: &IdedExpr) -> Option<Entry> {
        let known = self.entries.get(&expression.id).copied();
        known.or_else(|| match &expression.expr {
            Expr::Ident(name) => self.local(name).and_then(|local| local.entry),
            _ => None,
        })
    }

    fn push_iterated(&mut self, name: &str, range: &IdedExpr, step: &str, size: Option<Range>) {
        let mut path = self.path(range);
        path.push(step.to_owned());
        self.locals.push(Local {
            name: name.to_owned(),
            path,
            size,
            entry: None,
        });
    }

    fn push_value(&mut self, name: &str, value: &IdedExpr) {
        let local = Local {
            name: name.to_owned(),
            path: self.path(value),
            size: self.size(value),
            entry: self.entry(value),
        };
        self.locals.push(local);
    }

    /// `optMap` and `sortBy` bind a variable in this way.
    fn binding(&mut self, id: u64, comprehension: &ComprehensionExpr) -> Range {
        let cost = self.cost(&comprehension.iter_range) + self.cost(&comprehension.accu_init);
        self.push_value(&comprehension.accu_var, &comprehension.accu_init);
        let cost = cost + self.cost(&comprehension.result);
        self.locals.pop();
        if let Some(size) = self.size(&comprehension.result) {
            self.sizes.insert(id, size);
        }
        if let Some(entry) = self.entry(&comprehension.result) {
            self.entries.insert(id, entry);
        }
        cost
    }

    fn comprehension(&mut self, id: u64, comprehension: &ComprehensionExpr) -> Range {
        let range = &comprehension.iter_range;
        let cost = self.cost(range) + self.cost(&comprehension.accu_init);
        self.push_value(&comprehension.accu_var, &comprehension.accu_init);
        let within = self.locals.len();
        let entry = self.entry(range);
        let is_list = match entry {
            Some(entry) => entry.is_list,
            None => matches!(self.checked.ty(range), Ty::List(_) | Ty::Keyed(_)),
        };
        let (key, value) = (entry.map(|entry| entry.key), entry.map(|entry| entry.value));
        let first = &comprehension.iter_var;
        match (&comprehension.iter_var2, is_list) {
            (Some(second), true) => {
                self.push_iterated(first, range, "@indices", key);
                self.push_iterated(second, range, "@items", value);
            }
            (Some(second), false) => {
                self.push_iterated(first, range, "@keys", key);
                self.push_iterated(second, range, "@values", value);
            }
            (None, true) => self.push_iterated(first, range, "@items", value),
            (None, false) => self.push_iterated(first, range, "@keys", key),
        }
        let step = self.cost(&comprehension.loop_cond) + self.cost(&comprehension.loop_step);
        self.locals.truncate(within);
        let cost = cost + self.cost(&comprehension.result);
        self.locals.pop();
        let count = self.size_or_unknown(range);
        match &comprehension.accu_init.expr {
            Expr::Literal(_) => {
                if let Some(size) = self.size(&comprehension.accu_init) {
                    self.sizes.insert(id, size);
                }
            }
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(id, count);
                if let Some(entry) = self.entry(&comprehension.loop_step) {
                    self.entries.insert(id, entry);
                }
            }
            _ => {}
        }
        cost + count * step
    }

    fn operand<'n>(&mut self, expression: &'n IdedExpr) -> Operand<'n, 'a> {
        Operand {
            path: self.path(expression),
            ty: self.checked.ty(expression).clone(),
            size: self.size(expression),
            expression,
        }
    }

    fn call(&mut self, expression: &IdedExpr, call: &CallExpr) -> Range {
        if call.func_name == "dyn"
            && let [argument] = call.args.as_slice()
        {
            let cost = self.cost(argument) + CALL;
            if let Some(size) = self.size(argument) {
                self.sizes.insert(expression.id, size);
            }
            if let Some(entry) = self.entry(argument) {
                self.entries.insert(expression.id, entry);
            }
            return cost;
        }
        let (mut costs, mut arguments) = (Vec::new(), Vec::new());
        for argument in &call.args {
            costs.push(self.cost(argument));
            arguments.push(self.operand(argument));
        }
        let checked = self.checked;
        let Some(resolved) = checked.call(expression) else {
            return Range::NONE;
        };
        let (mut target_cost, mut target) = (Range::NONE, None);
        if let Some(receiver) = call.target.as_deref().filter(|_| resolved.is_member) {
            target_cost = self.cost(receiver);
            target = Some(self.operand(receiver));
        }
        let called = Called {
            id: expression.id,
            function: &resolved.function,
            target: target.as_ref(),
            arguments: &arguments,
            costs: &costs,
        };
        let (mut cost, mut size) = (Range::EMPTY, None);
        for overload in &resolved.overloads {
            let estimate = self.overload(&called, overload);
            cost = cost.union(estimate.cost);
            size = match (size, estimate.size) {
                (Some(former), Some(next)) => Some(Range::union(former, next)),
                (former, next) => former.or(next),
            };
            if let (Some(step), [container, ..]) = (element_step(overload), call.args.as_slice()) {
                size = self.entry(container).map(|entry| entry.value);
                self.extend(expression.id, container, step);
            }
            if size.is_none() {
                size = self.size(expression);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(expression.id, size);
        }
        cost + target_cost
    }

    /// The estimate of a call with one overload, operands included.
    fn overload(&mut self, called: &Called<'_, '_, 'a>, overload: &str) -> Estimate {
        let operands = called.costs.iter().fold(Range::NONE, |sum, cost| sum + *cost);
        let own = lists(called, overload).or_else(|| library(called, overload, self.declared));
        if let Some(own) = own {
            return Estimate {
                cost: own.cost + operands,
                size: own.size,
            };
        }
        match (overload, called.arguments, called.costs) {
            ("logical_or" | "logical_and", _, [left, right]) => {
                let max = (*left + *right).max;
                Range { min: left.min, max }.into()
            }
            ("conditional", [_, one, other], [condition, one_cost, other_cost]) => {
                let entries = (self.entry(one.expression), self.entry(other.expression));
                if let (Some(one), Some(other)) = entries {
                    self.entries.insert(called.id, one.union(other));
                }
                Estimate {
                    cost: *condition + one_cost.union(*other_cost),
                    size: Some(one.known().union(other.known())),
                }
            }
            ("add_string" | "add_bytes" | "add_list", [one, other], _) => {
                let entries = (self.entry(one.expression), self.entry(other.expression));
                if let (Some(one), Some(other)) = entries {
                    self.entries.insert(called.id, one.union(other));
                }
                let size = one.known() + other.known();
                let cost = if overload == "add_list" {
                    CALL
                } else {
                    size.scaled(TRAVERSAL)
                };
                Estimate {
                    cost: cost + operands,
                    size: Some(size),
                }
            }
            _ => {
                let own = standard(called, overload).unwrap_or_else(|| CALL.into());
                Estimate {
                    cost: own.cost + operands,
                    size: own.size,
                }
            }
        }
    }
}

/// The step of a path that an index takes.
fn element_step(overload: &str) -> Option<&'static str> {
    match overload {
        "index_list" => Some("@items"),
        "index_map" => Some("@values"),
        _ => None,
    }
}

/// Whether a comprehension only gives a value a name.
fn is_binding(comprehension: &ComprehensionExpr) -> bool {
    let is_empty = matches!(&comprehension.iter_range.expr, Expr::List(list) if list.elements.is_empty());
    let never = Expr::Literal(LiteralValue::Boolean(false.into()));
    is_empty && comprehension.loop_cond.expr == never
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        super::{Programs, check::check},
        Declared, Ty, most,
    };

    fn cost(schema: &Value, rule: &str) -> u64 {
        let Ok(program) = Programs::default().get(rule, "1.36".parse().unwrap()) else {
            panic!("{rule} is not read");
        };
        let variables = vec![("self".to_owned(), Ty::of(schema, false))];
        let checked = check(&program, 36, variables).unwrap();
        most(
            program.expression(),
            &checked,
            &Declared::of(schema, false).unwrap(),
        )
    }

    /// The numbers of `TestCostEstimation` of upstream.
    #[test]
    fn estimates_are_those_of_upstream() {
        let text = json!({"type": "string"});
        let simple = |kind: &str| json!({ "type": kind });
        let format = |format: &str| json!({"type": "string", "format": format});
        let list = |items: Value| json!({"type": "array", "items": items});
        let short_list = |items: Value, max: u64| json!({"type": "array", "items": items, "maxItems": max});
        let map = |values: Value| json!({"type": "object", "additionalProperties": values});
        let short_map = |values: Value, max: u64| {
            let map = "additionalProperties";
            json!({"type": "object", map: values, "maxProperties": max})
        };
        let short = |max: u64| json!({"type": "string", "maxLength": max});
        let either = json!({"x-kubernetes-int-or-string": true});
        for (schema, rule, expected) in [
            (list(simple("number")), "self.all(x, true)", 4_718_591),
            (short_list(simple("number"), 10), "self.all(x, true)", 32),
            (list(text.clone()), "self.all(x, true)", 3_145_727),
            (list(simple("boolean")), "self.all(x, true)", 1_887_437),
            (list(list(simple("number"))), "self.all(x, true)", 3_145_727),
            (map(simple("number")), "self.all(x, true)", 1_348_169),
            (map(text.clone()), "self.all(x, true)", 1_179_647),
            (short_map(text.clone(), 3), "self.all(x, true)", 11),
            (map(simple("boolean")), "self.all(x, true)", 943_718),
            (text.clone(), "self.contains('test')", 314_574),
            (short(10), "self.contains('test')", 5),
            (text.clone(), "self.startsWith('test')", 2),
            (text.clone(), "size(self + 'hello') > size('hello')", 314_578),
            (short(4), "size(self + 'hello') > size('hello')", 7),
            (list(simple("number")), "self[1] == 0.0", 2),
            (list(text.clone()), "self[1] == self[1]", 314_577),
            (
                short_list(simple("number"), 10),
                "self.all(x, self.all(y, true))",
                352,
            ),
            (
                short_list(simple("number"), 10),
                "self.all(x, self.all(y, self.all(z, true)))",
                3_552,
            ),
            (text.clone(), "self.matches('x')", 314_574),
            (short(50), "self.matches('x')", 22),
            (text.clone(), "''.matches('(((((((((())))))))))[0-9]')", 7),
            (text.clone(), "self.matches('')", 1),
            (text.clone(), "self == 'x'", 2),
            (short(0), "self == 'x'", 1),
            (format("byte"), "self == b'x'", 2),
            (list(simple("number")), "self.all(x, x == 0.0)", 6_291_454),
            (
                short_list(simple("number"), 3 * 1024 * 2048),
                "self.all(x, x == 0.0)",
                25_165_826,
            ),
            (list(either.clone()), "self.all(x, true)", 4_718_591),
            (list(either), "self[0] == 5", 3),
            (list(simple("boolean")), "self[0] == false", 2),
            (list(format("duration")), "self.all(x, true)", 2_359_295),
            (list(format("duration")), "self[0].getHours() == 2", 4),
            (list(format("date")), "self.all(x, true)", 725_936),
            (list(format("date-time")), "self.all(x, true)", 428_963),
        ] {
            assert_eq!(cost(&schema, rule), expected, "{rule} of {schema}");
        }
    }
}
