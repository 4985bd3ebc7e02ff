//! Strategic merge patch: lists are merged by key or as sets, unless `$patch` and similar directives say
//! otherwise.
//!
//! Merge keys come from the types of built-in kinds. Lists without a patch strategy are replaced.
//!
//! # Upstream
//! `StrategicMergeMapPatch` in `apimachinery/pkg/util/strategicpatch/patch.go`, 1.20.2 and #117568.

use serde_json::{Map, Value};

use crate::{
    go,
    status::{self, Refusal, Result},
    types::{node::Node, schema::PatchStrategy},
};

type Object = Map<String, Value>;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// The patched object. `drop_directives`: whether directives in lists and objects that the original does not
/// have are dropped.
pub(super) fn apply(original: Value, patch: Value, place: Node<'_>, drop_directives: bool) -> Result<Value> {
    let (mut original, patch) = match (original, patch) {
        (Value::Object(original), Value::Object(patch)) => (original, patch),
        // Null is treated as an object without fields.
        (original, Value::Null) => return Ok(original),
        (_, patch) => {
            return Err(status::bad_request(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go::json_kind(&patch)
            )));
        }
    };
    Merge { drop_directives }.objects(&mut original, patch, place)?;
    Ok(Value::Object(original))
}

/// The patch strategy of the list in a field.
fn strategy(place: Node<'_>, field: &str) -> PatchStrategy {
    place
        .struct_field(field)
        .map_or(PatchStrategy::Replace, |field| field.patch)
}

struct Merge {
    drop_directives: bool,
}

impl Merge {
    /// Merges an object. Depth is bounded by that of the patch, which the parser bounds.
    fn objects(&self, original: &mut Object, mut patch: Object, place: Node<'_>) -> Result<()> {
        if let Some(directive) = patch.get(PATCH) {
            match directive.as_str() {
                Some("replace") => {
                    patch.remove(PATCH);
                    *original = patch;
                }
                Some("delete") => original.clear(),
                _ => return Err(unknown_directive(directive, &Value::Object(patch.clone()))),
            }
            return Ok(());
        }
        if let Some(retained) = patch.remove(RETAIN_KEYS) {
            let Value::Array(retained) = retained else {
                return Err(malformed("retainKeys"));
            };
            let is_foreign = |(key, value): (&String, &Value)| {
                let is_directive = key.starts_with(DELETE_FROM) || key.starts_with(ELEMENT_ORDER);
                !value.is_null() && !is_directive && !retained.contains(&Value::from(key.as_str()))
            };
            if patch.iter().any(is_foreign) {
                return Err(malformed("retainKeys"));
            }
            original.retain(|key, _| retained.contains(&Value::from(key.as_str())));
        }
        self.ordered_lists(original, &mut patch, place)?;
        for (key, value) in patch {
            if let Some(list) = key.strip_prefix(DELETE_FROM) {
                let Value::Array(removed) = value else {
                    return Err(malformed("primitive list"));
                };
                if let Some(Value::Array(stored)) = original.get_mut(list) {
                    stored.retain(|item| !removed.contains(item));
                }
                continue;
            }
            match (original.get_mut(&key), value) {
                (_, Value::Null) => {
                    original.remove(&key);
                }
                (Some(Value::Object(stored)), Value::Object(value)) => {
                    self.objects(stored, value, place.field(&key))?
                }
                (Some(Value::Array(stored)), Value::Array(value)) => {
                    *stored = self.lists(std::mem::take(stored), value, place, &key)?;
                }
                // An object with a directive for an object that the original does not have.
                (None, value) if self.drop_directives && value.get(PATCH).is_some() => {}
                (_, value) => {
                    let value = if self.drop_directives {
                        without_directives(value)
                    } else {
                        value
                    };
                    original.insert(key, value);
                }
            }
        }
        Ok(())
    }

    /// Applies `$setElementOrder` together with the patch of its list.
    fn ordered_lists(&self, original: &mut Object, patch: &mut Object, place: Node<'_>) -> Result<()> {
        let directives = patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER));
        let directives: Vec<String> = directives.cloned().collect();
        for directive in directives {
            let Some(Value::Array(order)) = patch.remove(&directive) else {
                return Err(malformed("setElementOrder list"));
            };
            let list = directive.strip_prefix(ELEMENT_ORDER).unwrap_or_default();
            let strategy = strategy(place, list);
            let items = |from: &mut Object| match from.remove(list) {
                Some(Value::Array(items)) => Some(items),
                Some(other) => {
                    from.insert(list.to_owned(), other);
                    None
                }
                None => None,
            };
            let (stored, patched) = (items(original), items(patch));
            let merged = match (stored.clone(), patched) {
                (None, None) => continue,
                (Some(stored), None) => stored,
                (None, Some(patched)) => patched,
                (Some(stored), Some(patched)) => self.lists(stored, patched, place, list)?,
            };
            let merged = in_order(merged, &order, &stored.unwrap_or_default(), strategy)?;
            original.insert(list.to_owned(), Value::Array(merged));
        }
        Ok(())
    }

    fn lists(
        &self,
        mut original: Vec<Value>,
        patch: Vec<Value>,
        place: Node<'_>,
        field: &str,
    ) -> Result<Vec<Value>> {
        let strategy = strategy(place, field);
        match strategy {
            PatchStrategy::Replace => Ok(patch),
            PatchStrategy::Set => {
                let stored = original.clone();
                let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
                for item in original.drain(..).chain(patch.iter().cloned()) {
                    if !merged.contains(&item) {
                        merged.push(item);
                    }
                }
                in_order(merged, &patch, &stored, strategy)
            }
            PatchStrategy::Merge(key) => {
                let (mut replace, mut items) = (false, Vec::with_capacity(patch.len()));
                for item in patch {
                    match item.get(PATCH) {
                        None => items.push(item),
                        Some(directive) => match directive.as_str() {
                            Some("delete") => {
                                let value = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                                original.retain(|stored| stored.get(key) != Some(value));
                            }
                            // The other directives of the list still apply.
                            Some("replace") => replace = true,
                            _ => return Err(unknown_directive(directive, &item)),
                        },
                    }
                }
                if replace {
                    return Ok(items);
                }
                let mut merged = original.clone();
                for item in &items {
                    let value = item.get(key).ok_or_else(|| no_merge_key(item, key))?;
                    let found = merged.iter_mut().find(|stored| stored.get(key) == Some(value));
                    match (found, item) {
                        (Some(Value::Object(stored)), Value::Object(item)) => {
                            self.objects(stored, item.clone(), place.field(field).item())?;
                        }
                        _ => merged.push(item.clone()),
                    }
                }
                in_order(merged, &items, &original, strategy)
            }
        }
    }
}

fn no_merge_key(item: &Value, key: &str) -> Refusal {
    status::internal(format!(
        "map: {} does not contain declared merge key: {key}",
        go::printed(item)
    ))
}

fn unknown_directive(directive: &Value, map: &Value) -> Refusal {
    status::internal(format!(
        "unknown patch type: {} in map: {}",
        go::printed(directive),
        go::printed(map)
    ))
}

/// A malformed directive.
fn malformed(directive: &str) -> Refusal {
    status::bad_request(format!("invalid patch format of {directive}"))
}

/// Orders a merged list. Items in the patch have the patch's order, other items have the stored order. Both
/// are interleaved by stored positions.
///
/// # Upstream
/// `normalizeElementOrder` and `mergeSortedSlice`.
fn in_order(
    merged: Vec<Value>,
    patch_order: &[Value],
    stored_order: &[Value],
    strategy: PatchStrategy,
) -> Result<Vec<Value>> {
    let position = |order: &[Value], item: &Value| match strategy {
        PatchStrategy::Merge(key) => order.iter().position(|other| other.get(key) == item.get(key)),
        PatchStrategy::Set | PatchStrategy::Replace => order.iter().position(|other| other == item),
    };
    if let PatchStrategy::Merge(key) = strategy
        && let Some(item) = merged.iter().find(|item| item.get(key).is_none())
    {
        return Err(no_merge_key(item, key));
    }
    let (mut patched, mut others): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|item| position(patch_order, item).is_some());
    patched.sort_by_key(|item| position(patch_order, item));
    others.sort_by_key(|item| position(stored_order, item));
    let mut ordered = Vec::with_capacity(patched.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in patched {
        let place = position(stored_order, &item);
        while let Some(other) = others.next_if(|other| match (position(stored_order, other), place) {
            (Some(other), Some(place)) => other < place,
            _ => false,
        }) {
            ordered.push(other);
        }
        ordered.push(item);
    }
    ordered.extend(others);
    Ok(ordered)
}

/// A value of the patch as it is stored if the original has none. Depth is bounded by the parser.
fn without_directives(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(key, value)| {
                    !key.starts_with('$') && !value.is_null() && value.get(PATCH).is_none()
                })
                .map(|(key, value)| (key, without_directives(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(
            items
                .into_iter()
                .filter(|item| item.get(PATCH).is_none())
                .map(without_directives)
                .collect(),
        ),
        other => other,
    }
}
