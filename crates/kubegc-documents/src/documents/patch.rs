//! Renders a write as a patch: the changes are applied to the object as it was read, and the patch consists
//! of the differences, with preconditions.
//!
//! The preconditions are uid and resourceVersion in the patched metadata: the API server responds with a
//! conflict if they differ. Merge patches and JSON patches replace whole lists, and so do strategic patches
//! of lists without a merge key. A list computed from the document is right for no other version of the
//! object. So such a patch carries the version that was read, even if the write expects none.

use std::collections::BTreeSet;

use kubegc_controllers::{DocumentError, Form, Write};
use kubegc_core::{PatchType, Preconditions, Uid};
use serde_json::{Value, json};

use super::{
    change::{self, FieldPath, put},
    object_of,
};
use crate::details::Object;

/// The patch that makes the changes of a write; `None` if they change nothing.
///
/// # Complexity
/// Linear in the document and the changes.
pub(super) fn patch(write: &Write, document: &[u8]) -> Result<Option<(PatchType, Vec<u8>)>, DocumentError> {
    let (form, expect) = (&write.form, &write.precondition);
    let before = object_of(document)?;
    let read = Read::of(&before, expect)?;
    let mut after = before.clone();
    let mut paths = BTreeSet::new();
    for change in &write.changes {
        paths.insert(change::apply(&mut after, change)?);
    }
    // Paths are sorted, so that a map comes before its fields.
    let mut differences: Vec<Difference<'_>> = Vec::new();
    for path in paths {
        let whole = differences.last();
        let is_part = whole.is_some_and(|whole| path.starts_with(&whole.path));
        let difference = Difference {
            old: change::at(&before, &path),
            new: change::at(&after, &path),
            path,
        };
        if !is_part && difference.is_change() {
            differences.push(difference);
        }
    }
    let patch_type = match form {
        Form::Patch(patch_type) => *patch_type,
        Form::Update => PatchType::Merge,
    };
    if differences.is_empty() {
        return Ok(None);
    }
    let has_whole_list = differences
        .iter()
        .any(|difference| difference.is_whole_list(patch_type));
    let read_version = || needed(read.version, "resourceVersion").map(Some);
    let (uid, version) = match form {
        Form::Update => (Some(needed(read.uid, "uid")?.to_owned()), read_version()?),
        Form::Patch(_) => {
            let expected = expect.resource_version.as_ref().map(|version| version.as_str());
            let version = if has_whole_list { read_version()? } else { expected };
            (expect.uid.as_ref().map(Uid::to_string), version)
        }
    };
    let sent = [("uid", uid), ("resourceVersion", version.map(str::to_owned))];
    let body = match patch_type {
        PatchType::Merge | PatchType::Strategic => merge(&differences, sent, patch_type)?,
        PatchType::Json => operations(&before, &differences, sent),
    };
    Ok(Some((patch_type, body.to_string().into_bytes())))
}

/// The whole object with the changes of a write, at the expected resourceVersion.
pub(super) fn replace(write: &Write, document: &[u8]) -> Result<Vec<u8>, DocumentError> {
    let mut object = object_of(document)?;
    let expect = Preconditions {
        resource_version: None,
        ..write.precondition.clone()
    };
    Read::of(&object, &expect)?;
    for change in &write.changes {
        change::apply(&mut object, change)?;
    }
    if let Some(version) = &write.precondition.resource_version {
        let path = ["metadata", "resourceVersion"];
        put(&mut object, &path, version.as_str().into())?;
    }
    Ok(Value::Object(object).to_string().into_bytes())
}

/// Uid and resourceVersion of the document.
struct Read<'d> {
    uid: Option<&'d str>,
    version: Option<&'d str>,
}

impl<'d> Read<'d> {
    /// Checks that the document is the object, at the version, that the changes are for.
    fn of(document: &'d Object, expect: &Preconditions) -> Result<Self, DocumentError> {
        let text = |key| change::at(document, &["metadata", key]).and_then(Value::as_str);
        let read = Self {
            uid: text("uid").filter(|text| !text.is_empty()),
            version: text("resourceVersion").filter(|text| !text.is_empty()),
        };
        let differs = |field: &str, expected: &str, found: Option<&str>| {
            let found = found.unwrap_or("none");
            Err(DocumentError::new(format!(
                "metadata.{field}: expected {expected}, found {found}"
            )))
        };
        if let Some(uid) = &expect.uid
            && read.uid.is_none_or(|found| Uid::new(found) != *uid)
        {
            return differs("uid", &uid.to_string(), read.uid);
        }
        if let Some(version) = &expect.resource_version
            && read.version != Some(version.as_str())
        {
            return differs("resourceVersion", version.as_str(), read.version);
        }
        Ok(read)
    }
}

/// A value without which a patch has no precondition.
fn needed<'d>(value: Option<&'d str>, field: &str) -> Result<&'d str, DocumentError> {
    let missing = || format!("metadata.{field}: missing, so the patch has no precondition");
    value.ok_or_else(|| DocumentError::new(missing()))
}

type Sent = [(&'static str, Option<String>); 2];

/// A field, and its values before and after.
struct Difference<'d> {
    path: FieldPath,
    old: Option<&'d Value>,
    new: Option<&'d Value>,
}

impl Difference<'_> {
    /// Whether the values differ. An empty list counts as absent: the API server does not store it.
    fn is_change(&self) -> bool {
        let is_nothing =
            |value: Option<&Value>| value.is_none_or(|value| value.as_array().is_some_and(Vec::is_empty));
        self.old != self.new && !(is_nothing(self.old) && is_nothing(self.new))
    }

    /// The field by which a strategic patch identifies the entries of a list; empty if they are texts.
    fn merge_key(&self) -> Option<&'static str> {
        match *self.path {
            ["metadata", "finalizers"] => Some(""),
            ["metadata", "ownerReferences"] => Some("uid"),
            ["status", "conditions"] => Some("type"),
            _ => None,
        }
    }

    /// Whether the patch replaces a whole list.
    fn is_whole_list(&self, patch_type: PatchType) -> bool {
        let is_list = self.new.or(self.old).is_some_and(Value::is_array);
        is_list && !(patch_type == PatchType::Strategic && self.entries().is_some())
    }

    /// The entries of a list that change, for a strategic patch. `None` if it cannot express the change:
    /// entries share a key or have none.
    fn entries(&self) -> Option<Entries> {
        let (old, new) = (list_of(self.old), list_of(self.new));
        let key = self.merge_key()?;
        let key_of = |entry: &Value| {
            let text = if key.is_empty() { entry } else { entry.get(key)? };
            text.as_str().map(str::to_owned)
        };
        let keys = |entries: &[Value]| {
            let keys: Option<Vec<String>> = entries.iter().map(key_of).collect();
            let keys = keys?;
            let unique = keys.iter().collect::<BTreeSet<_>>().len() == keys.len();
            unique.then_some(keys)
        };
        let (old_keys, new_keys) = (keys(old)?, keys(new)?);
        let mut entries = Entries::default();
        for (name, entry) in old_keys.iter().zip(old) {
            if !new_keys.contains(name) {
                entries.deleted.push(match key {
                    "" => entry.clone(),
                    key => json!({ "$patch": "delete", key: name }),
                });
            }
        }
        for (name, entry) in new_keys.iter().zip(new) {
            let known = old_keys.iter().position(|other| other == name).map(|at| &old[at]);
            match known {
                Some(known) if known == entry => {}
                Some(known) if !key.is_empty() => {
                    let mut changed = merge_value(Some(known), Some(entry));
                    changed[key] = name.as_str().into();
                    entries.changed.push(changed);
                }
                _ => entries.changed.push(entry.clone()),
            }
        }
        // The server appends new entries; any other order needs the whole list.
        let stays = |name: &&String| new_keys.contains(name);
        let left = old_keys.iter().filter(stays);
        let added = new_keys.iter().filter(|name| !old_keys.contains(name));
        left.chain(added).eq(new_keys.iter()).then_some(entries)
    }
}

/// The entries of a list that a strategic patch changes or deletes.
#[derive(Default)]
struct Entries {
    changed: Vec<Value>,
    deleted: Vec<Value>,
}

fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The value in a merge patch: the fields of a map that differ, with null for those that are removed. As deep
/// as the documents, whose depth the JSON parser limits.
fn merge_value(old: Option<&Value>, new: Option<&Value>) -> Value {
    let (Some(Value::Object(old)), Some(Value::Object(new))) = (old, new) else {
        return new.cloned().unwrap_or(Value::Null);
    };
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    let removed = removed.map(|name| (name.clone(), Value::Null));
    let changed = new.iter().filter(|(name, value)| old.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| (name.clone(), merge_value(old.get(name), Some(value))));
    removed.chain(changed).collect()
}

/// RFC 7396: null removes a field. Of lists with a merge key, a strategic patch holds only the entries that
/// change.
///
/// # Upstream
/// Merge keys and directives of `metav1.ObjectMeta` and of the conditions of pods, nodes, Jobs and claims.
/// Lists without `patchStrategy` have none, such as `Taints` of
/// [`NodeSpec`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/api/core/v1/types.go).
fn merge(differences: &[Difference<'_>], sent: Sent, patch_type: PatchType) -> Result<Value, DocumentError> {
    let mut patch = Object::new();
    for difference in differences {
        let path = &difference.path;
        let key = difference
            .merge_key()
            .filter(|_| patch_type == PatchType::Strategic);
        let Some(key) = key else {
            put(&mut patch, path, merge_value(difference.old, difference.new))?;
            continue;
        };
        match (key, difference.entries()) {
            ("", Some(Entries { changed, deleted })) => {
                if !changed.is_empty() {
                    put(&mut patch, path, changed.into())?;
                }
                if !deleted.is_empty() {
                    put(
                        &mut patch,
                        &["metadata", "$deleteFromPrimitiveList/finalizers"],
                        deleted.into(),
                    )?;
                }
            }
            (_, Some(Entries { mut changed, deleted })) => {
                changed.extend(deleted);
                put(&mut patch, path, changed.into())?;
            }
            ("", None) => {
                let problem = "a strategic patch cannot express this change of the list";
                return Err(DocumentError::new(format!("{}: {problem}", path.join("."))));
            }
            (_, None) => {
                let replaced = std::iter::once(json!({ "$patch": "replace" }));
                let whole = replaced.chain(list_of(difference.new).iter().cloned());
                put(&mut patch, path, whole.collect())?;
            }
        }
    }
    for (key, value) in sent {
        if let Some(value) = value {
            put(&mut patch, &["metadata", key], value.into())?;
        }
    }
    Ok(patch.into())
}

/// RFC 6902. The preconditions are put into the metadata, as in the other forms, so that they fail in the
/// same way.
fn operations(before: &Object, differences: &[Difference<'_>], sent: Sent) -> Value {
    let add = |path: String, value: Value| json!({ "op": "add", "path": path, "value": value });
    let mut operations: Vec<Value> = sent
        .into_iter()
        .filter_map(|(key, value)| Some(add(pointer(&["metadata", key]), value?.into())))
        .collect();
    let mut created = BTreeSet::new();
    for difference in differences {
        let path = &difference.path;
        let Some(new) = difference.new else {
            operations.push(json!({ "op": "remove", "path": pointer(path) }));
            continue;
        };
        for depth in 1..path.len() {
            let parent = &path[..depth];
            if change::at(before, parent).is_none() && created.insert(parent.to_vec()) {
                operations.push(add(pointer(parent), json!({})));
            }
        }
        operations.push(add(pointer(path), new.clone()));
    }
    operations.into()
}

/// A path as RFC 6901 writes it.
fn pointer(path: &[&str]) -> String {
    let escaped = path
        .iter()
        .map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1")));
    escaped.collect()
}
