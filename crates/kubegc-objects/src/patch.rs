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
                merge_references(
                    read_at,
                    kept.map(|reference| (reference, reference.block_owner_deletion)),
                )
            }
            (Self::Unblock(owners), PatchType::Strategic) => unblock(version, &object.uid, owners),
            // The whole list is replaced with the graph's view.
            (Self::Unblock(owners), _) => {
                merge_references(read_at, owners.iter().map(|owner| (owner, Some(false))))
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
    let mut out = Vec::with_capacity(96 + 64 * owners.len());
    if version.has(behavior::DELETE_REFERENCES_UID_FIRST) {
        out.extend_from_slice(br#"{"metadata":{"uid":"#);
        push_string(&mut out, &dependent.text());
        out.extend_from_slice(br#","ownerReferences":"#);
        if owners.is_empty() {
            out.extend_from_slice(b"null");
        } else {
            push_array(&mut out, owners, |out, owner| {
                out.extend_from_slice(br#"{"$patch":"delete","uid":"#);
                push_string(out, &owner.text());
                out.push(b'}');
            });
        }
        out.extend_from_slice(b"}}");
    } else {
        // Upstream formats this as text, without escaping.
        out.extend_from_slice(br#"{"metadata":{"ownerReferences":"#);
        push_array(&mut out, owners, |out, owner| {
            out.extend_from_slice(br#"{"$patch":"delete","uid":""#);
            out.extend_from_slice(owner.text().as_bytes());
            out.extend_from_slice(br#""}"#);
        });
        out.extend_from_slice(br#","uid":""#);
        out.extend_from_slice(dependent.text().as_bytes());
        out.extend_from_slice(br#""}}"#);
    }
    out.into()
}

/// Makes the blocking references of the graph's node non-blocking, as a strategic merge patch
/// ([P-3](crate::rules#p-3)). The patch expects the item's uid, unless that is empty: upstream marshals a
/// whole `ObjectMeta`, which omits an empty uid.
fn unblock(version: KubernetesVersion, item: &Uid, node_owners: &[OwnerReference]) -> Body {
    let mut out = Vec::with_capacity(96 + 192 * node_owners.len());
    out.extend_from_slice(br#"{"metadata":{"#);
    let fields_from = out.len();
    if !item.is_empty() {
        out.extend_from_slice(br#""uid":"#);
        push_string(&mut out, &item.text());
    }
    if !version.has(behavior::ZERO_TIMESTAMPS_ARE_OMITTED) {
        push_comma_after(&mut out, fields_from);
        out.extend_from_slice(br#""creationTimestamp":null"#);
    }
    let mut blocking = node_owners
        .iter()
        .filter(|reference| reference.is_blocking())
        .peekable();
    if blocking.peek().is_some() {
        push_comma_after(&mut out, fields_from);
        out.extend_from_slice(br#""ownerReferences":"#);
        push_array(&mut out, blocking, |out, reference| {
            push_reference(out, reference, Some(false))
        });
    }
    out.extend_from_slice(b"}}");
    out.into()
}

/// Removes every occurrence of a finalizer, as a JSON merge patch of the list that was read
/// ([P-5](crate::rules#p-5)). `None` if it has no such finalizer.
fn remove_finalizer(read_at: &ResourceVersion, current: &[Arc<str>], finalizer: &str) -> Option<Body> {
    let kept = without(current, finalizer)?;
    let mut out = Vec::with_capacity(96);
    push_read_at(&mut out, read_at);
    out.extend_from_slice(br#","finalizers":"#);
    if kept.is_empty() {
        out.extend_from_slice(b"null");
    } else {
        push_array(&mut out, &kept, |out, name| push_string(out, name));
    }
    out.extend_from_slice(b"}}");
    Some(out.into())
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

fn merge_references<'a>(
    read_at: &ResourceVersion,
    references: impl Iterator<Item = (&'a OwnerReference, Option<bool>)>,
) -> Body {
    let mut out = Vec::with_capacity(256);
    push_read_at(&mut out, read_at);
    out.extend_from_slice(br#","ownerReferences":"#);
    let mut references = references.peekable();
    if references.peek().is_none() {
        out.extend_from_slice(b"null");
    } else {
        push_array(&mut out, references, |out, (reference, blocking)| {
            push_reference(out, reference, blocking)
        });
    }
    out.extend_from_slice(b"}}");
    out.into()
}

/// Separates the next field from those written since `fields_from`, if there are any.
fn push_comma_after(out: &mut Vec<u8>, fields_from: usize) {
    if out.len() > fields_from {
        out.push(b',');
    }
}

fn push_read_at(out: &mut Vec<u8>, read_at: &ResourceVersion) {
    out.extend_from_slice(br#"{"metadata":{"resourceVersion":"#);
    push_string(out, read_at.as_str());
}

fn push_reference(out: &mut Vec<u8>, reference: &OwnerReference, blocking: Option<bool>) {
    out.extend_from_slice(br#"{"apiVersion":"#);
    push_string(out, &reference.api_version);
    out.extend_from_slice(br#","kind":"#);
    push_string(out, &reference.kind);
    out.extend_from_slice(br#","name":"#);
    push_string(out, &reference.name);
    out.extend_from_slice(br#","uid":"#);
    push_string(out, &reference.uid.text());
    push_flag(out, br#","controller":"#, reference.controller);
    push_flag(out, br#","blockOwnerDeletion":"#, blocking);
    out.push(b'}');
}

fn push_flag(out: &mut Vec<u8>, key: &[u8], flag: Option<bool>) {
    if let Some(flag) = flag {
        out.extend_from_slice(key);
        out.extend_from_slice(if flag { b"true" } else { b"false" });
    }
}

/// Appends a JSON string. `<`, `>`, `&`, U+2028 and U+2029 are escaped, as Go's `encoding/json` does for the
/// sake of browsers. A general serialiser escapes other characters.
fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for char in text.chars() {
        match char {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.extend_from_slice(format!("\\u{:04x}", u32::from(char)).as_bytes());
            }
            plain => out.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

/// Appends `items` between brackets, separated by commas.
fn push_array<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut push: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        push(out, item);
    }
    out.push(b']');
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
        let mut out = Vec::new();
        push_string(&mut out, "a\r\u{202a}");
        assert_eq!(String::from_utf8_lossy(&out), "\"a\\r\u{202a}\"");
    }
}
