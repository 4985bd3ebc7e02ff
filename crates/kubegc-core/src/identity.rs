//! The identity of an object: its uid and its API coordinates.
//!
//! The garbage collector compares objects in two ways, and confusing them has caused data loss in real
//! clusters: by *uid* alone (the owner graph's index) and by *identity*, which is uid, kind, apiVersion,
//! namespace and name together.

use std::{cmp::Ordering, hash, str, sync::Arc};

use smol_str::SmolStr;
use uuid::Uuid;

/// The uid of an object: 16 bytes if the text is a canonical UUID, otherwise the text itself. Texts of up to
/// 23 bytes need no allocation.
///
/// Equality, order and hash are those of the text, so uids from different sources are equal regardless of
/// their form. An empty uid is an ordinary value; API servers never assign it.
#[derive(Clone, PartialEq, Eq, derive_more::Display, derive_more::Debug)]
#[debug("Uid({self})")]
#[display("{}", &*self.text())]
pub struct Uid(Repr);

/// A canonical UUID is always packed, so the two forms never have the same text.
#[derive(Clone, PartialEq, Eq)]
enum Repr {
    Uuid([u8; 16]),
    Text(SmolStr),
}

/// The text of a [`Uid`], on the stack if it is a UUID.
pub enum UidText<'a> {
    Uuid([u8; 36]),
    Text(&'a str),
}

impl Uid {
    /// Reads a uid. Only the 36-character lower-case form of a UUID is packed, so that every text is retained
    /// exactly.
    pub fn new(text: &str) -> Self {
        parse_uuid(text.as_bytes())
            .map_or_else(|| Self(Repr::Text(text.into())), |bytes| Self(Repr::Uuid(bytes)))
    }

    /// Builds the uid whose text is this UUID in lower case.
    pub const fn from_uuid(bytes: [u8; 16]) -> Self {
        Self(Repr::Uuid(bytes))
    }

    /// The 16 bytes, if the uid is a canonical UUID.
    pub const fn as_uuid(&self) -> Option<&[u8; 16]> {
        match &self.0 {
            Repr::Uuid(bytes) => Some(bytes),
            Repr::Text(_) => None,
        }
    }

    /// The uid as text, without an allocation.
    pub fn text(&self) -> UidText<'_> {
        match &self.0 {
            Repr::Uuid(bytes) => UidText::Uuid(format_uuid(bytes)),
            Repr::Text(text) => UidText::Text(text),
        }
    }

    /// Whether the text is empty, as in a reference whose uid was never set.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Repr::Text(text) if text.is_empty())
    }
}

impl UidText<'_> {
    pub fn as_str(&self) -> &str {
        match self {
            // The buffer holds ASCII hexadecimal digits and dashes, written by `format_uuid`.
            Self::Uuid(buffer) => str::from_utf8(buffer).unwrap_or_default(),
            Self::Text(text) => text,
        }
    }
}

impl std::ops::Deref for UidText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

/// Packs the canonical text of a UUID; `None` for any other text.
fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    // The library reads other forms too.
    let is_canonical = text.len() == 36 && !text.iter().any(u8::is_ascii_uppercase);
    let uuid = Uuid::try_parse_ascii(text).ok().filter(|_| is_canonical)?;
    Some(uuid.into_bytes())
}

fn format_uuid(bytes: &[u8; 16]) -> [u8; 36] {
    let mut text = [0; 36];
    Uuid::from_bytes_ref(bytes)
        .as_hyphenated()
        .encode_lower(&mut text);
    text
}

impl Default for Uid {
    /// The empty uid.
    fn default() -> Self {
        Self::new("")
    }
}

impl hash::Hash for Uid {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        match &self.0 {
            Repr::Uuid(bytes) => u128::from_le_bytes(*bytes).hash(state),
            Repr::Text(text) => text.hash(state),
        }
    }
}

impl Ord for Uid {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            // Lower-case hexadecimal digits have the order of their bytes.
            (Repr::Uuid(a), Repr::Uuid(b)) => u128::from_be_bytes(*a).cmp(&u128::from_be_bytes(*b)),
            _ => self.text().as_bytes().cmp(other.text().as_bytes()),
        }
    }
}

impl PartialOrd for Uid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, other: &str) -> bool {
        *self.text() == *other
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Uid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Uid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// The full identity of one object: API coordinates, namespace and uid.
///
/// `namespace` is empty for cluster-scoped objects, as on the wire. The order is that of upstream's
/// alternative owner identities: kind, apiVersion, namespace, name, uid, compared byte by byte.
///
/// # Upstream
/// [`objectReference`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/garbagecollector/graph.go);
/// [`referenceLessThan`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/garbagecollector/graph_builder.go)
/// for the order.
///
/// # Examples
/// ```
/// use kubegc_core::ObjectRef;
/// let pod = ObjectRef::new("v1", "Pod", "shop", "web-0", "9c1f");
/// assert_eq!(pod.to_string(), "pod/web-0 -n shop");
/// assert_eq!(pod.group(), "");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, derive_more::Display)]
#[display("{}", self.short())]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "camelCase")
)]
pub struct ObjectRef {
    /// Kind, such as `Deployment`.
    pub kind: Arc<str>,
    /// Group and version, such as `apps/v1`; `v1` for the core group.
    pub api_version: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
}

/// Name and uid distinguish objects. Hashing the other texts costs time alone.
impl hash::Hash for ObjectRef {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        (&self.name, &self.uid).hash(state);
    }
}

impl ObjectRef {
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            kind: kind.into(),
            api_version: api_version.into(),
            namespace: namespace.into(),
            name: name.into(),
            uid: Uid::new(uid),
        }
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        split_api_version(&self.api_version).0
    }

    /// The API version without its group.
    pub fn version(&self) -> &str {
        split_api_version(&self.api_version).1
    }

    /// The name in kubectl's form: `deployment/web -n shop`.
    pub fn short(&self) -> String {
        kubectl_name(self.group(), &self.kind, &self.namespace, &self.name)
    }
}

/// The name of an object in kubectl's form: `deployment/web -n shop`, `node/a`. A group that is not one of
/// Kubernetes' own follows the kind: `database.example.com/orders -n shop`.
///
/// # Examples
/// ```
/// use kubegc_core::identity::kubectl_name;
/// assert_eq!(kubectl_name("apps", "Deployment", "shop", "web"), "deployment/web -n shop");
/// assert_eq!(kubectl_name("example.com", "Database", "shop", "orders"), "database.example.com/orders -n shop");
/// ```
pub fn kubectl_name(group: &str, kind: &str, namespace: &str, name: &str) -> String {
    let mut text = kind.to_lowercase();
    if group.contains('.') && !group.ends_with(".k8s.io") {
        text.push('.');
        text.push_str(group);
    }
    text.push('/');
    text.push_str(name);
    if !namespace.is_empty() {
        text.push_str(" -n ");
        text.push_str(namespace);
    }
    text
}

/// Splits `group/version`; the core group's versions have no slash.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Joins a group and a version to the form of `apiVersion`.
pub fn join_api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_uuids_are_packed_and_no_text_changes() {
        for (text, packed) in [
            ("0b5f9a3e-58a1-4b0e-9f0a-7c2d4e6f8a9b", true),
            ("0B5F9A3E-58A1-4B0E-9F0A-7C2D4E6F8A9B", false),
            ("0b5f9a3e058a1-4b0e-9f0a-7c2d4e6f8a9b", false),
            ("0b5f9a3g-58a1-4b0e-9f0a-7c2d4e6f8a9b", false),
            ("0b5f9a3e-58a1-4b0e-9f0a-7c2d4e6f8agg", false),
            ("", false),
            ("u1", false),
        ] {
            let uid = Uid::new(text);
            assert_eq!(uid.as_uuid().is_some(), packed, "{text}");
            assert_eq!(uid.to_string(), text);
            assert!(uid == *text);
        }
    }
}
