//! The most that an expression may cost, from the sizes that a schema allows.
//!
//! A definition is refused when a rule may cost too much, so each number here is part of the API.
//!
//! # Upstream
//! [`cost.go`](https://github.com/google/cel-go/blob/v0.26.0/checker/cost.go) in `cel-go/checker`, and
//! `EstimateCallCost` in
//! [`library/cost.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/library/cost.go).

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::{
    call_costs::{CALL, Entry, Estimated, LIST, estimate},
    check::Checked,
    declared::Declared,
    range::Range,
    types::Ty,
};

const SELECTION: Range = Range::fixed(1);
const MAP: Range = Range::fixed(30);

/// The most that an expression may cost. `declared`: the schema of `self`.
pub(super) fn most(expression: &IdedExpr, checked: &Checked<'_>, declared: Declared<'_>) -> u64 {
    let mut estimator = Estimator {
        checked,
        declared,
        locals: Vec::new(),
    };
    estimator.estimate(expression).cost.max
}

struct Estimator<'e, 'a> {
    checked: &'e Checked<'a>,
    declared: Declared<'a>,
    /// The variables of comprehensions, the innermost last.
    locals: Vec<(String, Estimated<'a>)>,
}

impl<'a> Estimator<'_, 'a> {
    /// Depth is bounded by the parser that read the expression.
    fn estimate(&mut self, expression: &IdedExpr) -> Estimated<'a> {
        let mut estimated = match &expression.expr {
            Expr::Unspecified | Expr::Struct(_) => Estimated::default(),
            Expr::Literal(literal) => {
                let size = match literal {
                    LiteralValue::String(text) => text.inner().chars().count(),
                    LiteralValue::Bytes(bytes) => bytes.inner().len(),
                    _ => 1,
                };
                Estimated {
                    size: Some(Range::fixed(size as u64)),
                    ..Estimated::default()
                }
            }
            Expr::Ident(name) => {
                let local = self.locals.iter().rev().find(|(local, _)| local == name);
                let known = local.map(|(_, known)| known.clone());
                let known = known.unwrap_or_else(|| Estimated {
                    place: Some(Some(self.declared)),
                    ..Estimated::default()
                });
                Estimated {
                    cost: SELECTION,
                    size: self.declared_size(expression, known.place).or(known.size),
                    ..known
                }
            }
            Expr::Select(select) => {
                let operand = self.estimate(&select.operand);
                let is_object = |ty: &Ty<'_>| ty.is("map") || matches!(ty, Ty::Object(_) | Ty::Struct(..));
                let selection = match !select.test && is_object(&operand.ty) {
                    true => SELECTION,
                    false => Range::NONE,
                };
                Estimated {
                    cost: operand.cost + selection,
                    place: self.step(&operand, &select.field).filter(|_| !select.test),
                    ..Estimated::default()
                }
            }
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => {
                let elements = list.elements.iter().map(|element| (None, element));
                self.literal(true, elements.collect())
            }
            Expr::Map(map) => {
                let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => Some((Some(&entry.key), &entry.value)),
                    EntryExpr::StructField(_) => None,
                });
                self.literal(false, entries.collect())
            }
            Expr::Comprehension(comprehension) if is_binding(comprehension) => self.binding(comprehension),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        };
        if estimated.size.is_none() {
            estimated.size = self.declared_size(expression, estimated.place);
        }
        estimated.number = match &expression.expr {
            Expr::Literal(LiteralValue::Int(number)) => Some(u64::try_from(*number.inner()).unwrap_or(0)),
            _ => None,
        };
        estimated.ty = self.checked.ty(expression);
        estimated
    }

    /// The place of a part of a value. As upstream, a part of a value that no variable leads to has the place
    /// of the whole object.
    fn step(&self, of: &Estimated<'a>, step: &str) -> Option<Option<Declared<'a>>> {
        Some(match of.place {
            None => Some(self.declared),
            Some(place) => place.and_then(|declared| declared.step(step)),
        })
    }

    /// The size that follows from the schema or the type of a value.
    fn declared_size(&self, expression: &IdedExpr, place: Option<Option<Declared<'a>>>) -> Option<Range> {
        let is_scalar = self.checked.ty(expression).is_scalar();
        let declared = place.flatten().and_then(Declared::size);
        declared.or_else(|| is_scalar.then_some(Range::fixed(1)))
    }

    /// A list or map of these keys and values.
    fn literal(&mut self, is_list: bool, parts: Vec<(Option<&IdedExpr>, &IdedExpr)>) -> Estimated<'a> {
        let mut cost = if is_list { LIST } else { MAP };
        let (mut keys, mut values) = (Range::EMPTY, Range::EMPTY);
        for (key, value) in &parts {
            if let Some(key) = key.map(|key| self.estimate(key)) {
                cost = cost + key.cost;
                keys = keys.union(key.known());
            }
            let value = self.estimate(value);
            cost = cost + value.cost;
            values = values.union(value.known());
        }
        if parts.is_empty() {
            (keys.min, values.min) = (0, 0);
        }
        let key = if is_list { Range::fixed(1) } else { keys };
        Estimated {
            cost,
            size: Some(Range::fixed(parts.len() as u64)),
            entry: Some(Entry {
                is_list,
                key,
                value: values,
            }),
            ..Estimated::default()
        }
    }

    /// `optMap` and `sortBy` bind a variable in this way.
    fn binding(&mut self, comprehension: &ComprehensionExpr) -> Estimated<'a> {
        let value = self.estimate(&comprehension.accu_init);
        let cost = self.estimate(&comprehension.iter_range).cost + value.cost;
        self.locals.push((comprehension.accu_var.clone(), value));
        let result = self.estimate(&comprehension.result);
        self.locals.pop();
        Estimated {
            cost: cost + result.cost,
            place: None,
            ..result
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Estimated<'a> {
        let range = self.estimate(&comprehension.iter_range);
        let init = self.estimate(&comprehension.accu_init);
        self.locals.push((comprehension.accu_var.clone(), init.clone()));
        let within = self.locals.len();
        let is_list = range
            .entry
            .map_or_else(|| range.ty.is("list"), |entry| entry.is_list);
        let keys = if is_list { "@indices" } else { "@keys" };
        let values = if is_list { "@items" } else { "@values" };
        let key = (keys, range.entry.map(|entry| entry.key));
        let value = (values, range.entry.map(|entry| entry.value));
        let variables = match &comprehension.iter_var2 {
            None if is_list => vec![(&comprehension.iter_var, value)],
            None => vec![(&comprehension.iter_var, key)],
            Some(second) => vec![(&comprehension.iter_var, key), (second, value)],
        };
        for (name, (step, size)) in variables {
            let local = Estimated {
                place: self.step(&range, step),
                size,
                ..Estimated::default()
            };
            self.locals.push((name.clone(), local));
        }
        let condition = self.estimate(&comprehension.loop_cond);
        let step = self.estimate(&comprehension.loop_step);
        self.locals.truncate(within);
        let result = self.estimate(&comprehension.result);
        self.locals.pop();
        let count = range.known();
        let (size, entry) = match &comprehension.accu_init.expr {
            Expr::Literal(_) => (init.size, None),
            Expr::List(_) | Expr::Map(_) => (Some(count), step.entry),
            _ => (None, None),
        };
        Estimated {
            cost: range.cost + init.cost + result.cost + count * (condition.cost + step.cost),
            size,
            entry,
            ..Estimated::default()
        }
    }

    fn call(&mut self, expression: &IdedExpr, call: &CallExpr) -> Estimated<'a> {
        let arguments: Vec<Estimated<'a>> = call.args.iter().map(|one| self.estimate(one)).collect();
        if call.func_name == "dyn"
            && let [argument] = arguments.as_slice()
        {
            return Estimated {
                cost: argument.cost + CALL,
                place: None,
                ..argument.clone()
            };
        }
        let Some(overloads) = self.checked.calls.get(&expression.id) else {
            return Estimated::default();
        };
        let is_member = overloads.iter().any(|overload| overload.is_member);
        let target = call.target.as_deref().filter(|_| is_member);
        let target = target.map(|target| self.estimate(target));
        let mut result = Estimated {
            cost: Range::EMPTY,
            ..Estimated::default()
        };
        for overload in overloads {
            let rule = overload.cost;
            let (cost, size) = estimate(target.as_ref(), &arguments, rule);
            result.cost = result.cost.union(cost);
            result.size = match (result.size, size) {
                (Some(former), Some(next)) => Some(Range::union(former, next)),
                (former, next) => former.or(next),
            };
            let step = match rule {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), [container, ..]) = (step, arguments.as_slice()) {
                result.size = container.entry.map(|entry| entry.value);
                result.place = self.step(container, step);
            }
            if result.size.is_none() {
                result.size = self.declared_size(expression, result.place);
            }
            let joined = match (rule, arguments.as_slice()) {
                ("conditional", [_, one, other])
                | ("add_string" | "add_bytes" | "add_list", [one, other]) => one.entry.zip(other.entry),
                _ => None,
            };
            result.entry = joined.map(|(one, other)| one.union(other)).or(result.entry);
        }
        if let Some(target) = target {
            result.cost = result.cost + target.cost;
        }
        result
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
    use serde_json::Value;

    use super::{
        super::{Programs, check::check},
        Declared, Ty, most,
    };

    fn cost(schema: &Value, rule: &str) -> u64 {
        let Ok(program) = Programs::default().get(rule, "1.36".parse().unwrap()) else {
            panic!("{rule} is not read");
        };
        let declared = Declared {
            schema,
            is_root: false,
        };
        let variables = vec![("self".to_owned(), Ty::of(declared))];
        let checked = check(&program, 36, variables).unwrap();
        most(program.expression(), &checked, declared)
    }

    #[test]
    fn estimates_are_those_of_upstream() {
        let rows = include_str!("estimates.txt").lines();
        for row in rows.filter(|row| !row.starts_with('#')) {
            let parts: Vec<&str> = row.split(" | ").collect();
            let [schema, rule, expected] = parts[..] else {
                panic!("{row}")
            };
            let schema = serde_json::from_str(schema).unwrap();
            let expected: u64 = expected.parse().unwrap();
            assert_eq!(cost(&schema, rule), expected, "{rule} of {schema}");
        }
    }
}
