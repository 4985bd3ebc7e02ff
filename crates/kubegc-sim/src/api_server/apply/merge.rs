//! Merges an applied configuration into an object, and removes fields from an object.
//!
//! The recursions here and in `compare` follow the nesting of one JSON value, which the parser and JSON
//! patches bound at 128.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    compare::set_of,
    dialect::{APPLIED_ORDER_COUNTS, Place},
    element::Element,
    field_set::FieldSet,
};
use crate::types::schema::ListKind;

/// The live object merged with the applied one: objects are merged, atomic values are replaced. A merged
/// object or list that is applied as null is retained unchanged. Any other value that is applied as null
/// becomes null or is removed.
pub(super) fn merge(live: Value, applied: &Value, place: Place<'_>) -> Value {
    match applied {
        Value::Object(applied) if !place.is_atomic_map() => {
            let mut merged = match live {
                Value::Object(live) => live,
                _ => Map::new(),
            };
            for (key, value) in applied {
                let below = place.field(key);
                let live = merged.remove(key).unwrap_or(Value::Null);
                if !value.is_null() {
                    merged.insert(key.clone(), merge(live, value, below));
                } else if below.is_map(&live) || below.is_list(&live) {
                    merged.insert(key.clone(), live);
                } else if place.types {
                    merged.insert(key.clone(), Value::Null);
                }
            }
            Value::Object(merged)
        }
        Value::Array(applied) if place.list() != ListKind::Atomic => {
            let live = match live {
                Value::Array(live) => live,
                _ => Vec::new(),
            };
            Value::Array(merge_lists(live, applied, place))
        }
        applied => applied.clone(),
    }
}

/// Merges lists whose items have an identity. The result has the applied order. An item that only the live
/// list has is placed before the item that follows it there.
///
/// # Upstream
/// `mergingWalker.visitListItems` in `structured-merge-diff/v4/typed/merge.go`, v4.4.
fn merge_lists(live: Vec<Value>, applied: &[Value], place: Place<'_>) -> Vec<Value> {
    let elements = |items: &[Value]| place.elements(items);
    let (Ok(live_elements), Ok(applied_elements)) = (elements(&live), elements(applied)) else {
        return applied.to_vec();
    };
    if !place.has(APPLIED_ORDER_COUNTS) {
        let applied = applied_elements.into_iter().zip(applied.iter().map(Some));
        let mut applied: Vec<(Element, Option<&Value>)> = applied.collect();
        let mut merged = Vec::with_capacity(live.len().max(applied.len()));
        for (element, item) in live_elements.iter().zip(live) {
            let found = applied.iter_mut().find(|(other, _)| other == element);
            merged.push(match found.and_then(|(_, applied)| applied.take()) {
                Some(applied) => merge(item, applied, place.item()),
                None => item,
            });
        }
        let new = applied.into_iter().filter_map(|(_, item)| item);
        merged.extend(new.map(|item| merge(Value::Null, item, place.item())));
        return merged;
    }
    let places = |elements: &[Element]| {
        let places = elements.iter().cloned().enumerate();
        // The first of equal items counts.
        let places = places.rev().map(|(place, element)| (element, place));
        places.collect::<BTreeMap<_, _>>()
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
        // An applied item remains here. The other branch stopped at a live item that is also applied, later
        // in the list.
        let known = in_live.get(&applied_elements[done]);
        let known = known.and_then(|&place| live[place].take()).unwrap_or(Value::Null);
        merged.push(merge(known, &applied[done], place.item()));
        done += 1;
    }
    merged
}

/// Removes fields that no manager owns any more. Fields below them that other managers own are retained, and
/// so are unowned fields next to these.
///
/// # Upstream
/// `Updater.prune` in
/// [`update.go`](https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.0/merge/update.go), which
/// takes a declared field for owned together with the fields below it.
pub(super) fn prune(value: &mut Value, place: Place<'_>, to_remove: &FieldSet, kept: &FieldSet) {
    let nothing = FieldSet::default();
    retain_parts(value, place, |element, value, below_place| {
        let below = kept.below(element);
        let Element::Field(key) = element else {
            if let Some(to_remove) = to_remove.below(element) {
                prune(value, below_place, to_remove, below.unwrap_or(&nothing));
            }
            return !to_remove.has(element);
        };
        if to_remove.has(element) && below.is_none() {
            return false;
        }
        let Some(to_remove) = to_remove.below(element) else {
            return true;
        };
        // A declared field whose parts were owned is removed with its parts that have no owner.
        if place.node.declares(key) && below.is_none() && !kept.has(element) {
            return false;
        }
        prune(value, below_place, to_remove, below.unwrap_or(&nothing));
        kept.has(element) || !is_empty_collection(value)
    });
}

/// Removes the fields of a map, or the items of a list, that `keep` does not keep. Returns whether they can
/// be owned separately. A list whose items have no usable keys does not change.
fn retain_parts(
    value: &mut Value,
    place: Place<'_>,
    mut keep: impl FnMut(&Element, &mut Value, Place<'_>) -> bool,
) -> bool {
    match value {
        Value::Object(fields) if !place.is_atomic_map() => {
            fields.retain(|key, value| keep(&Element::field(key), value, place.field(key)));
        }
        Value::Array(items) if place.list() != ListKind::Atomic => {
            let mut elements = place.elements(items).unwrap_or_default().into_iter();
            // There is an element of each item, or of none.
            items.retain_mut(|item| {
                let element = elements.next();
                element.is_none_or(|element| keep(&element, item, place.item()))
            });
        }
        _ => return false,
    }
    true
}

fn is_empty_collection(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Removes the fields that a manager applied last and does not apply now, unless another manager owns them.
/// Unowned fields next to them are retained.
///
/// # Upstream
/// `Updater.prune` in `structured-merge-diff/v4/merge/update.go`, v4.0.2.
pub(super) fn prune_by_sets(
    merged: &Value,
    place: Place<'_>,
    last: &FieldSet,
    owned: &FieldSet,
) -> Result<Value, String> {
    if last.is_empty() {
        return Ok(merged.clone());
    }
    let without = |to_remove: &FieldSet| {
        let mut left = merged.clone();
        remove(&mut left, place, to_remove);
        left
    };
    let all = set_of(merged, place)?;
    let mut kept = set_of(&without(last), place)?;
    kept.add(owned);
    let kept = set_of(&without(&all.without(&kept)), place)?;
    Ok(without(&all.without(&kept).shared(last)))
}

/// Removes fields and items of a value. Null if nothing is left.
///
/// # Upstream
/// `removingWalker` in `structured-merge-diff/v4/typed/remove.go`, v4.0.2.
fn remove(value: &mut Value, place: Place<'_>, to_remove: &FieldSet) {
    let has_parts = retain_parts(value, place, |element, value, place| {
        if let Some(to_remove) = to_remove.below(element) {
            remove(value, place, to_remove);
        }
        !to_remove.has(element)
    });
    let is_atomic = !has_parts && (value.is_object() || value.is_array());
    if is_atomic || is_empty_collection(value) {
        *value = Value::Null;
    }
}
