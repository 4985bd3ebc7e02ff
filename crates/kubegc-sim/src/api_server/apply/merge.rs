//! Decides what an object is after a configuration was applied to it, and after fields were taken out of it.
//!
//! The recursions here and in `compare` follow the nesting of one JSON value, which the parser and JSON patches bound at 128.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    field_set::{Element, FieldSet},
    list_types::{ListType, Types},
};

/// The live object with what is applied to it: objects are merged, atomic values replaced. A value applied as null is taken out; an
/// object or list that is merged stays, as if nothing had been said of what is in it.
pub(super) fn merge(live: Value, applied: &Value, types: Types<'_>) -> Value {
    match applied {
        Value::Object(applied) if !types.is_atomic_map() => {
            let mut merged = match live {
                Value::Object(live) => live,
                _ => Map::new(),
            };
            for (key, value) in applied {
                let types = types.field(key);
                let live = merged.remove(key).unwrap_or(Value::Null);
                if value.is_null() {
                    if is_merged(&live, types) {
                        merged.insert(key.clone(), live);
                    }
                } else {
                    merged.insert(key.clone(), merge(live, value, types));
                }
            }
            Value::Object(merged)
        }
        Value::Array(applied) if types.list() != ListType::Atomic => {
            let live = match live {
                Value::Array(live) => live,
                _ => Vec::new(),
            };
            Value::Array(merge_lists(live, applied, types))
        }
        applied => applied.clone(),
    }
}

/// Whether a value is looked into, rather than one piece.
pub(super) fn is_merged(value: &Value, types: Types<'_>) -> bool {
    match value {
        Value::Object(_) => !types.is_atomic_map(),
        Value::Array(_) => types.list() != ListType::Atomic,
        _ => false,
    }
}

/// Merges lists whose items are told apart: in the applied order, what only the live list has at its place before what follows it.
///
/// # Upstream
/// `mergingWalker.visitListItems` in `structured-merge-diff/v4/typed/merge.go`, v4.4.
fn merge_lists(live: Vec<Value>, applied: &[Value], types: Types<'_>) -> Vec<Value> {
    let (Ok(live_elements), Ok(applied_elements)) = (types.elements(&live), types.elements(applied)) else {
        return applied.to_vec();
    };
    let places = |elements: &[Element]| {
        let places = elements.iter().cloned().enumerate();
        // The first of equal items counts.
        places
            .rev()
            .map(|(place, element)| (element, place))
            .collect::<BTreeMap<_, _>>()
    };
    let (in_live, in_applied) = (places(&live_elements), places(&applied_elements));
    let mut live: Vec<Option<Value>> = live.into_iter().map(Some).collect();
    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    let (mut next, mut done) = (0, 0);
    while next < live.len() || done < applied.len() {
        if let Some(element) = live_elements.get(next) {
            match in_applied.get(element) {
                None => {
                    merged.extend(live[next].take());
                    next += 1;
                    continue;
                }
                Some(&place) if place < done => {
                    next += 1;
                    continue;
                }
                Some(_) => {}
            }
        }
        // Here an applied item is left: a live one that is applied too, later, is what stopped the other branch.
        let known = in_live.get(&applied_elements[done]);
        let known = known.and_then(|&place| live[place].take()).unwrap_or(Value::Null);
        merged.push(merge(known, &applied[done], types.item()));
        done += 1;
    }
    merged
}

/// Takes fields out that nobody wants any more. What others own below them stays, and so does what nobody owns beside them.
pub(super) fn prune(value: &mut Value, types: Types<'_>, gone: &FieldSet, kept: &FieldSet) {
    let nothing = FieldSet::default();
    match value {
        Value::Object(fields) if !types.is_atomic_map() => fields.retain(|key, value| {
            let element = Element::field(key);
            let below = kept.below(&element);
            if gone.has(&element) && below.is_none() {
                return false;
            }
            let Some(gone) = gone.below(&element) else {
                return true;
            };
            prune(value, types.field(key), gone, below.unwrap_or(&nothing));
            kept.has(&element) || !is_hollow(value)
        }),
        Value::Array(list) if types.list() != ListType::Atomic => {
            let Ok(elements) = types.elements(list) else {
                return;
            };
            let mut elements = elements.into_iter();
            list.retain_mut(|item| {
                // As many as there are items.
                let Some(element) = elements.next() else {
                    return true;
                };
                if gone.has(&element) {
                    return false;
                }
                if let Some(gone) = gone.below(&element) {
                    let kept = kept.below(&element).unwrap_or(&nothing);
                    prune(item, types.item(), gone, kept);
                }
                true
            });
        }
        _ => {}
    }
}

fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
