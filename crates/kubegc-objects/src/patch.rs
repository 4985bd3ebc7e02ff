//! Patches of the collector, byte for byte as upstream sends them ([P-1](crate::rules#p-1) to
//! [P-5](crate::rules#p-5)).
//!
//! A patch is first sent as a strategic merge patch. If the server rejects that format (custom resources), a
//! JSON merge patch follows, which contains whole lists and the resourceVersion at which they were read.
//!
//! # Upstream
//! [`patch.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/patch.go)
//! and
//! [`operations.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/operations.go)
//! of the collector, and `GenerateDeleteOwnerRefStrategicMergeBytes` in
//! [`controller_ref_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.28.0/pkg/controller/controller_ref_manager.go);
//! 1.13, 1.20.2, 1.28 and 1.36.

use std::{fmt, sync::Arc};

use kubegc_core::{
    KubernetesVersion, ObjectMeta, OwnerReference, PatchType, ResourceVersion, Uid, version::behavior,
};

/// The exact bytes of a patch.
pub type Body = Box<[u8]>;

/// The change that a patch of the collector makes.
///
/// # Examples
/// An owner orphans its dependent: the patch as sent to a built-in kind, and the dependent afterwards.
/// ```
/// use kubegc_core::{ObjectMeta, OwnerReference, PatchType};
/// use kubegc_objects::patch::Change;
///
/// let mut pod = ObjectMeta::new("shop", "web-0", "u2");
/// let (api_version, kind, name) = ("apps/v1".into(), "ReplicaSet".into(), "web".into());
/// pod.owner_references.push(OwnerReference { api_version, kind, name, uid: "u1".into(), controller: None, block_owner_deletion: None });
/// let change = Change::RemoveOwners(vec!["u1".into()]);
/// let body = change.body("1.36".parse()?, PatchType::Strategic, &pod).expect("it changes something");
/// assert_eq!(&*body, br#"{"metadata":{"uid":"u2","ownerReferences":[{"$patch":"delete","uid":"u1"}]}}"#);
/// change.apply(PatchType::Strategic, &mut pod);
/// assert!(pod.owner_references.is_empty());
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum Change {
    /// The references with these uids are removed ([P-1](crate::rules#p-1), [P-2](crate::rules#p-2)).
    RemoveOwners(Vec<Uid>),
    /// These references, as the graph has them, become non-blocking ([P-3](crate::rules#p-3),
    /// [P-4](crate::rules#p-4)).
    Unblock(Vec<OwnerReference>),
    /// Every occurrence of this finalizer is removed ([P-5](crate::rules#p-5)).
    RemoveFinalizer(Arc<str>),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RemoveOwners(uids) => {
                let uids: Vec<String> = uids.iter().map(ToString::to_string).collect();
                write!(f, "remove the references to uid {}", uids.join(", "))
            }
            Self::Unblock(owners) => {
                let blocking = owners.iter().filter(|owner| owner.is_blocking());
                let names: Vec<String> = blocking.map(OwnerReference::short).collect();
                write!(f, "no longer block {}", names.join(", "))
            }
            Self::RemoveFinalizer(name) => write!(f, "remove finalizer {name}"),
        }
    }
}

impl Change {
    /// The bytes that the collector of a release sends for an object in this state; `None` if the object has
    /// no such finalizer. A finalizer is removed by a merge patch in either format.
    pub fn body(&self, version: KubernetesVersion, format: PatchType, object: &ObjectMeta) -> Option<Body> {
        let read_at = &object.resource_version;
        Some(match (self, format) {
            (Self::RemoveOwners(owners), PatchType::Strategic) => remove_owners(version, &object.uid, owners),
            (Self::RemoveOwners(owners), _) => {
                let references = object.owner_references.iter();
                let kept = references.filter(|reference| !owners.contains(&reference.uid));
                let kept = kept.map(|kept| reference(kept, kept.block_owner_deletion));
                merge_list(read_at, "ownerReferences", kept)
            }
            (Self::Unblock(owners), PatchType::Strategic) => unblock(version, &object.uid, owners),
            // The whole list is replaced with the graph's view.
            (Self::Unblock(owners), _) => {
                let owners = owners.iter().map(|owner| reference(owner, Some(false)));
                merge_list(read_at, "ownerReferences", owners)
            }
            (Self::RemoveFinalizer(name), _) => return remove_finalizer(read_at, &object.finalizers, name),
        })
    }

    /// Makes the change, as an API server does that receives the patch in this format. A strategic patch
    /// merges references by uid, a merge patch replaces the list.
    pub fn apply(&self, format: PatchType, object: &mut ObjectMeta) {
        match self {
            Self::RemoveOwners(owners) => {
                object
                    .owner_references
                    .retain(|reference| !owners.contains(&reference.uid));
            }
            Self::Unblock(owners) => {
                let is_merged = format == PatchType::Strategic;
                if !is_merged {
                    object.owner_references.clear();
                }
                let patched = owners.iter().filter(|owner| !is_merged || owner.is_blocking());
                for owner in patched {
                    let unblocked = OwnerReference {
                        block_owner_deletion: Some(false),
                        ..owner.clone()
                    };
                    let mut known = object.owner_references.iter_mut();
                    match known.find(|known| is_merged && known.uid == owner.uid) {
                        Some(known) => *known = unblocked,
                        None => object.owner_references.push(unblocked),
                    }
                }
            }
            Self::RemoveFinalizer(name) => object.finalizers.retain(|known| known != name),
        }
    }
}

/// A strategic merge patch that also expects the dependent's uid ([P-1](crate::rules#p-1)).
///
/// *All* references with one of the uids are removed, also those whose other coordinates are right
/// ([P-10](crate::rules#p-10)).
fn remove_owners(version: KubernetesVersion, dependent: &Uid, owners: &[Uid]) -> Body {
    let uid_first = version.has(behavior::DELETE_REFERENCES_UID_FIRST);
    // Upstream formatted this as text at first, without escaping.
    let uid_string = |uid: &Uid| {
        if uid_first {
            string(&uid.text())
        } else {
            format!("\"{}\"", uid.text().as_str())
        }
    };
    let delete = |owner| format!(r#"{{"$patch":"delete","uid":{}}}"#, uid_string(owner));
    let uid = format!(r#""uid":{}"#, uid_string(dependent));
    if uid_first {
        let references = array_or_null(owners.iter().map(delete));
        metadata(&[uid, format!(r#""ownerReferences":{references}"#)])
    } else {
        let references = array(owners.iter().map(delete));
        metadata(&[format!(r#""ownerReferences":{references}"#), uid])
    }
}

/// Makes the blocking references of the graph's node non-blocking, as a strategic merge patch
/// ([P-3](crate::rules#p-3)). The patch expects the item's uid, unless that is empty: upstream marshals a
/// whole `ObjectMeta`, which omits an empty uid.
fn unblock(version: KubernetesVersion, item: &Uid, node_owners: &[OwnerReference]) -> Body {
    let mut fields = Vec::new();
    if !item.is_empty() {
        fields.push(format!(r#""uid":{}"#, string(&item.text())));
    }
    if !version.has(behavior::ZERO_TIMESTAMPS_ARE_OMITTED) {
        fields.push(r#""creationTimestamp":null"#.to_owned());
    }
    let mut blocking = node_owners.iter().filter(|owner| owner.is_blocking()).peekable();
    if blocking.peek().is_some() {
        let references = array(blocking.map(|owner| reference(owner, Some(false))));
        fields.push(format!(r#""ownerReferences":{references}"#));
    }
    metadata(&fields)
}

/// Removes every occurrence of a finalizer ([P-5](crate::rules#p-5)). `None` if it has no such finalizer.
fn remove_finalizer(read_at: &ResourceVersion, current: &[Arc<str>], finalizer: &str) -> Option<Body> {
    let kept = without(current, finalizer)?;
    Some(merge_list(
        read_at,
        "finalizers",
        kept.iter().map(|name| string(name)),
    ))
}

/// The remaining finalizers; `None` if nothing would change.
pub(crate) fn without(current: &[Arc<str>], finalizer: &str) -> Option<Vec<Arc<str>>> {
    let kept: Vec<_> = current
        .iter()
        .filter(|name| &***name != finalizer)
        .cloned()
        .collect();
    (kept.len() < current.len()).then_some(kept)
}

/// A JSON merge patch of a list as it was read.
fn merge_list(read_at: &ResourceVersion, field: &str, items: impl Iterator<Item = String>) -> Body {
    let read_at = format!(r#""resourceVersion":{}"#, string(read_at.as_str()));
    metadata(&[read_at, format!(r#""{field}":{}"#, array_or_null(items))])
}

fn metadata(fields: &[String]) -> Body {
    let body = format!(r#"{{"metadata":{{{}}}}}"#, fields.join(","));
    body.into_bytes().into()
}

fn reference(reference: &OwnerReference, blocking: Option<bool>) -> String {
    let texts = [
        ("apiVersion", &*reference.api_version),
        ("kind", &*reference.kind),
        ("name", &*reference.name),
        ("uid", &*reference.uid.text()),
    ];
    let texts = texts.map(|(key, text)| format!(r#""{key}":{}"#, string(text)));
    let flags = [
        ("controller", reference.controller),
        ("blockOwnerDeletion", blocking),
    ];
    let flags = flags
        .into_iter()
        .filter_map(|(key, flag)| Some(format!(r#""{key}":{}"#, flag?)));
    let fields: Vec<String> = texts.into_iter().chain(flags).collect();
    format!("{{{}}}", fields.join(","))
}

/// A JSON string. `<`, `>`, `&`, U+2028 and U+2029 are escaped, as Go's `encoding/json` does for the sake of
/// browsers. A general serialiser escapes other characters.
fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(char)));
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
    out
}

fn array(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    format!("[{}]", items.join(","))
}

/// Go marshals an empty slice that was never made as null.
fn array_or_null(items: impl Iterator<Item = String>) -> String {
    let mut items = items.peekable();
    if items.peek().is_none() {
        "null".to_owned()
    } else {
        array(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strategic(change: &Change, release: &str, uid: &str) -> String {
        let release = release.parse().expect("a known release");
        let body = change.body(release, PatchType::Strategic, &ObjectMeta::new("", "", uid));
        String::from_utf8(body.expect("a patch").into()).expect("JSON")
    }

    #[test]
    fn p_1_up_to_1_16_the_uid_comes_last() {
        let change = Change::RemoveOwners(vec!["a".into(), "b".into()]);
        let references = r#"[{"$patch":"delete","uid":"a"},{"$patch":"delete","uid":"b"}]"#;
        let expected = format!(r#"{{"metadata":{{"ownerReferences":{references},"uid":"<i>"}}}}"#);
        assert_eq!(strategic(&change, "1.16", "<i>"), expected);
    }

    #[test]
    fn p_3_an_unblocking_patch_omits_an_empty_uid() {
        let owner = OwnerReference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: "owner".into(),
            uid: "o".into(),
            controller: None,
            block_owner_deletion: Some(true),
        };
        let reference =
            r#"[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"o","blockOwnerDeletion":false}]"#;
        let owners = std::slice::from_ref(&owner);
        for (release, owners, fields) in [
            ("1.36", &[][..], String::new()),
            ("1.36", owners, format!(r#""ownerReferences":{reference}"#)),
            ("1.20.2", &[], r#""creationTimestamp":null"#.to_owned()),
            (
                "1.20.2",
                owners,
                format!(r#""creationTimestamp":null,"ownerReferences":{reference}"#),
            ),
        ] {
            let patch = strategic(&Change::Unblock(owners.to_vec()), release, "");
            assert_eq!(patch, format!(r#"{{"metadata":{{{fields}}}}}"#), "{release}");
        }
    }

    /// Characters that no recorded patch has.
    #[test]
    fn strings_are_escaped_as_go_does() {
        assert_eq!(string("a\r\u{202a}"), "\"a\\r\u{202a}\"");
    }
}
