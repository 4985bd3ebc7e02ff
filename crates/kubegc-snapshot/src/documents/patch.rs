//! Renders changes of an object as a patch: the changes are made to the object as it was read, and what differs then stands in the patch, with a guard.
//!
//! The guard is uid and version in the patched metadata: the API server answers with a conflict where they differ. Merge patches and JSON patches hold lists as
//! wholes, and strategic patches those lists that have no merge key; what was computed from the document holds for no other version of the object, so such a
//! patch carries the version that was read, whatever is expected.

use std::collections::BTreeSet;

use kubegc_controllers::{DocumentError, Form, Write};
use kubegc_core::{PatchType, Preconditions, Uid};
use serde_json::{Value, json};

use super::{
    change::{self, Object, Place, put},
    object_of,
};

/// The patch that makes the changes of a write; `None` where they change nothing.
///
/// # Complexity
/// Linear in the document and the changes.
pub(super) fn patch(write: &Write, document: &[u8]) -> Result<Option<(PatchType, Vec<u8>)>, DocumentError> {
    let Write {
        form,
        precondition: expect,
        ..
    } = write;
    let before = object_of(document)?;
    let read = Read::of(&before, expect)?;
    let mut after = before.clone();
    let mut places = BTreeSet::new();
    for change in &write.changes {
        places.insert(change::apply(&mut after, change)?);
    }
    let differences: Vec<Difference<'_>> = places
        .into_iter()
        .map(|place| Difference {
            old: change::at(&before, &place),
            new: change::at(&after, &place),
            place,
        })
        .filter(Difference::is_one)
        .collect();
    let differences = without_parts(differences);
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
    let (uid, version) = match form {
        Form::Update => (read.uid()?, Some(read.version()?)),
        Form::Patch(_) => {
            let expected = expect.resource_version.as_ref().map(|version| version.as_str());
            let version = if has_whole_list {
                Some(read.version()?)
            } else {
                expected
            };
            (expect.uid.as_ref().map(Uid::to_string), version)
        }
    };
    let guard = [("uid", uid), ("resourceVersion", version.map(str::to_owned))];
    let body = match patch_type {
        PatchType::Merge => merge(&differences, guard)?,
        PatchType::Strategic => strategic(&differences, guard)?,
        PatchType::Json => operations(&before, &differences, guard),
    };
    Ok(Some((patch_type, body.to_string().into_bytes())))
}

/// The whole object with the changes of a write, at the expected resourceVersion.
pub(super) fn replace(write: &Write, document: &[u8]) -> Result<Vec<u8>, DocumentError> {
    let mut object = object_of(document)?;
    let Preconditions {
        uid,
        resource_version,
    } = write.precondition.clone();
    Read::of(
        &object,
        &Preconditions {
            uid,
            resource_version: None,
        },
    )?;
    for change in &write.changes {
        change::apply(&mut object, change)?;
    }
    if let Some(version) = resource_version {
        put(
            &mut object,
            &["metadata", "resourceVersion"],
            version.as_str().into(),
        )?;
    }
    Ok(Value::Object(object).to_string().into_bytes())
}

/// What the document says of the object's identity.
struct Read<'d> {
    uid: Option<&'d str>,
    version: Option<&'d str>,
}

impl<'d> Read<'d> {
    /// Makes sure that the document is of the object, in the version, that the changes are for.
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

    fn uid(&self) -> Result<Option<String>, DocumentError> {
        let missing = || DocumentError::new("metadata.uid: not there, so nothing guards the patch");
        self.uid.map(|uid| Some(uid.to_owned())).ok_or_else(missing)
    }

    fn version(&self) -> Result<&'d str, DocumentError> {
        let missing =
            || DocumentError::new("metadata.resourceVersion: not there, so nothing guards the patch");
        self.version.ok_or_else(missing)
    }
}

type Guard = [(&'static str, Option<String>); 2];

/// What stood somewhere, and what shall stand there.
struct Difference<'d> {
    place: Place,
    old: Option<&'d Value>,
    new: Option<&'d Value>,
}

/// How the entries of a list are told apart by a strategic patch.
enum MergeKey {
    /// They are texts.
    Itself,
    /// By this field.
    Field(&'static str),
}

impl Difference<'_> {
    /// Whether anything differs. An empty list is none: the API server does not keep it.
    fn is_one(&self) -> bool {
        let is_nothing =
            |value: Option<&Value>| value.is_none_or(|value| value.as_array().is_some_and(Vec::is_empty));
        self.old != self.new && !(is_nothing(self.old) && is_nothing(self.new))
    }

    fn new_value(&self) -> Value {
        self.new.cloned().unwrap_or(Value::Null)
    }

    fn merge_key(&self) -> Option<MergeKey> {
        match *self.place {
            ["metadata", "finalizers"] => Some(MergeKey::Itself),
            ["metadata", "ownerReferences"] => Some(MergeKey::Field("uid")),
            ["status", "conditions"] => Some(MergeKey::Field("type")),
            _ => None,
        }
    }

    /// Whether the patch says all that shall be in a list.
    fn is_whole_list(&self, patch_type: PatchType) -> bool {
        let is_list = self.new.or(self.old).is_some_and(Value::is_array);
        is_list && !(patch_type == PatchType::Strategic && self.entries().is_some())
    }

    /// The list as a strategic patch: only the entries that change. `None` where that cannot be said, as entries share a key or have none.
    fn entries(&self) -> Option<Entries> {
        let (old, new) = (list_of(self.old), list_of(self.new));
        let key = self.merge_key()?;
        let key_of = |entry: &Value| match key {
            MergeKey::Itself => entry.as_str().map(str::to_owned),
            MergeKey::Field(field) => entry.get(field)?.as_str().map(str::to_owned),
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
                entries.gone.push(match key {
                    MergeKey::Itself => entry.clone(),
                    MergeKey::Field(field) => json!({ "$patch": "delete", field: name }),
                });
            }
        }
        for (name, entry) in new_keys.iter().zip(new) {
            let known = old_keys.iter().position(|other| other == name).map(|at| &old[at]);
            match (known, &key) {
                (Some(known), _) if known == entry => {}
                (Some(known), MergeKey::Field(field)) => {
                    entries.changed.push(changed_fields(known, entry, field))
                }
                (None, _) | (Some(_), MergeKey::Itself) => entries.changed.push(entry.clone()),
            }
        }
        // What is new comes last, and the others keep their order; anything else takes the whole list.
        let stays = |name: &&String| new_keys.contains(name);
        let left = old_keys.iter().filter(stays);
        let added = new_keys.iter().filter(|name| !old_keys.contains(name));
        left.chain(added).eq(new_keys.iter()).then_some(entries)
    }
}

/// Leaves out what lies within something else that differs. They are sorted, so that a whole comes before its parts.
fn without_parts(differences: Vec<Difference<'_>>) -> Vec<Difference<'_>> {
    let mut wholes: Vec<Difference<'_>> = Vec::with_capacity(differences.len());
    for difference in differences {
        let is_part = wholes
            .last()
            .is_some_and(|whole| difference.place.starts_with(&whole.place));
        if !is_part {
            wholes.push(difference);
        }
    }
    wholes
}

/// The entries of a list that a strategic patch speaks of.
#[derive(Default)]
struct Entries {
    changed: Vec<Value>,
    gone: Vec<Value>,
}

fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// An entry of which only what differs is said.
fn changed_fields(old: &Value, new: &Value, key: &str) -> Value {
    let empty = Object::new();
    let of = |value: &'_ Value| value.as_object().cloned().unwrap_or_default();
    let (old, new) = (of(old), of(new));
    let mut entry = empty;
    for (name, value) in &new {
        if name == key || old.get(name) != Some(value) {
            entry.insert(name.clone(), value.clone());
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        entry.insert(name.clone(), Value::Null);
    }
    entry.into()
}

/// RFC 7396: null takes a field away.
fn merge(differences: &[Difference<'_>], guard: Guard) -> Result<Value, DocumentError> {
    let mut patch = Object::new();
    for difference in differences {
        put(&mut patch, &difference.place, difference.new_value())?;
    }
    put_guard(&mut patch, guard)?;
    Ok(patch.into())
}

fn put_guard(patch: &mut Object, guard: Guard) -> Result<(), DocumentError> {
    for (key, value) in guard {
        if let Some(value) = value {
            put(patch, &["metadata", key], value.into())?;
        }
    }
    Ok(())
}

/// As a merge patch, but that lists with a merge key say what changes in them.
///
/// # Upstream
/// Merge keys and directives of `metav1.ObjectMeta` and of the conditions of pods, nodes, jobs and claims. Taints and active jobs have none.
fn strategic(differences: &[Difference<'_>], guard: Guard) -> Result<Value, DocumentError> {
    let mut patch = Object::new();
    for difference in differences {
        let place = &difference.place;
        match (difference.merge_key(), difference.entries()) {
            (Some(MergeKey::Itself), Some(Entries { changed, gone })) => {
                if !changed.is_empty() {
                    put(&mut patch, place, changed.into())?;
                }
                if !gone.is_empty() {
                    put(
                        &mut patch,
                        &["metadata", "$deleteFromPrimitiveList/finalizers"],
                        gone.into(),
                    )?;
                }
            }
            (Some(MergeKey::Field(_)), Some(Entries { mut changed, gone })) => {
                changed.extend(gone);
                put(&mut patch, place, changed.into())?;
            }
            (Some(MergeKey::Field(_)), None) => {
                let replaced = std::iter::once(json!({ "$patch": "replace" }));
                let whole = replaced.chain(list_of(difference.new).iter().cloned());
                put(&mut patch, place, whole.collect())?;
            }
            (Some(MergeKey::Itself), None) => {
                let problem = "a strategic patch cannot say this change of the list";
                return Err(DocumentError::new(format!("{}: {problem}", place.join("."))));
            }
            (None, _) => put(&mut patch, place, difference.new_value())?,
        }
    }
    put_guard(&mut patch, guard)?;
    Ok(patch.into())
}

/// RFC 6902. The guard is put into the metadata, as the other forms do, so that it fails in the same way.
fn operations(before: &Object, differences: &[Difference<'_>], guard: Guard) -> Value {
    let add = |path: String, value: Value| json!({ "op": "add", "path": path, "value": value });
    let mut operations: Vec<Value> = guard
        .into_iter()
        .filter_map(|(key, value)| Some(add(pointer(&["metadata", key]), value?.into())))
        .collect();
    let mut made = BTreeSet::new();
    for difference in differences {
        let place = &difference.place;
        let Some(new) = difference.new else {
            operations.push(json!({ "op": "remove", "path": pointer(place) }));
            continue;
        };
        for depth in 1..place.len() {
            let way = &place[..depth];
            if change::at(before, way).is_none() && made.insert(way.to_vec()) {
                operations.push(add(pointer(way), json!({})));
            }
        }
        operations.push(add(pointer(place), new.clone()));
    }
    operations.into()
}

/// A place as RFC 6901 writes it.
fn pointer(place: &[&str]) -> String {
    let escaped = place
        .iter()
        .map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1")));
    escaped.collect()
}
