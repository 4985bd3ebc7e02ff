//! Hashes of templates, and the ControllerRevisions of StatefulSets and DaemonSets.

use std::sync::Arc;

use kubegc_sim::StoredObject;
use serde_json::{Map, Value, json};

use super::plan::{Kind, Plan, Verb, View, int, map, reference_json, with};

/// The alphabet of upstream's `SafeEncodeString`.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The maximum number of names that are tried for a revision.
const COLLISIONS_MAX: i64 = 16;

/// The 32-bit FNV-1a hash.
pub(super) fn fnv(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
    bytes.iter().fold(2_166_136_261, step)
}

/// A hash of a value in the form of names: of its JSON form with sorted keys, and of the collision count.
/// Upstream hashes a dump of its Go structs.
pub(super) fn hash(value: &Value, collisions: i64) -> String {
    let mut text = value.to_string();
    if collisions > 0 {
        text.push_str(&collisions.to_string());
    }
    let digits = fnv(text.as_bytes()).to_string();
    digits
        .bytes()
        .map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]))
        .collect()
}

/// The data of a revision.
fn data_of(template: &Value) -> Value {
    let mut template = template.clone();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// The template in a revision.
pub(super) fn template_of(revision: &StoredObject) -> Value {
    let template = revision.at(&["data", "spec", "template"]).cloned();
    let mut template = template.unwrap_or_default();
    if let Value::Object(fields) = &mut template {
        fields.remove("$patch");
    }
    template
}

/// The revisions of an owner, the newest last.
pub(super) fn of(view: &View<'_>, owner: &StoredObject) -> Vec<Arc<StoredObject>> {
    let mut all = view.controlled(Kind::Revision, &owner.meta);
    all.sort_by_key(|revision| {
        (
            int(revision, &["revision"]),
            revision.meta.creation_timestamp,
            Arc::clone(&revision.meta.name),
        )
    });
    all
}

/// The revision of the current template and the collision count. If it must first be created or become the
/// newest, that write is added to the plan, and the result is `None`.
pub(super) fn present(
    view: &View<'_>,
    plan: &mut Plan,
    owner: &StoredObject,
    hash_label: &str,
) -> Option<(Arc<StoredObject>, i64)> {
    let template = map(owner, &["spec", "template"]);
    let data = data_of(&template);
    let all = of(view, owner);
    let newest = all
        .last()
        .and_then(|newest| int(newest, &["revision"]))
        .unwrap_or(0);
    let mut collisions = int(owner, &["status", "collisionCount"]).unwrap_or(0);
    let equal = all.iter().rfind(|revision| revision.at(&["data"]) == Some(&data));
    if let Some(equal) = equal {
        if int(equal, &["revision"]) == Some(newest) {
            return Some((Arc::clone(equal), collisions));
        }
        let verb = Verb::Update(with(equal, &["revision"], newest.saturating_add(1).into()));
        plan.push(
            Kind::Revision,
            verb,
            "RolledBack",
            "it has the present template again",
        );
        return None;
    }
    let name = |collisions: i64| {
        let hash = hash(&data, collisions);
        (format!("{}-{hash}", owner.meta.name), hash)
    };
    let is_taken = |name: &str| view.find(Kind::Revision, &owner.meta.namespace, name).is_some();
    let last = collisions.saturating_add(COLLISIONS_MAX);
    while collisions < last && is_taken(&name(collisions).0) {
        collisions += 1;
    }
    let (name, hash) = name(collisions);
    let mut labels = template["metadata"]["labels"]
        .as_object()
        .cloned()
        .unwrap_or_else(Map::new);
    labels.insert(hash_label.to_owned(), hash.into());
    let annotations = map(owner, &["metadata", "annotations"]);
    let revision = json!({
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [reference_json(&plan.reference(owner))],
        },
        "data": data,
        "revision": newest.saturating_add(1),
    });
    let message = format!("{} has a new template", owner.meta.name);
    plan.push(Kind::Revision, Verb::Create(revision), "RevisionCreated", message);
    None
}
