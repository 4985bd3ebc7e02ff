//! Patches of metadata, for stores in memory.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::{ObjectMeta, OwnerReference, PatchType, ResourceVersion, StoreError, Uid};

/// A merge patch or strategic merge patch of the fields that the garbage collector patches: owner references
/// and finalizers, with a uid and a resourceVersion that the object must have. Other fields are ignored.
///
/// With [`begin_deletion`](crate::deletion::begin_deletion), an [`ObjectStore`](crate::ObjectStore) in memory
/// needs no other code of an API server.
///
/// # Examples
/// ```
/// use kubegc_core::{ObjectMeta, PatchType, json::MetadataPatch};
///
/// let mut meta = ObjectMeta::new("shop", "web", "u1");
/// meta.finalizers = vec!["orphan".into(), "example.com/hold".into()];
/// let patch: MetadataPatch = serde_json::from_str(r#"{"metadata": {"uid": "u1", "finalizers": ["example.com/hold"]}}"#)?;
/// patch.apply(PatchType::Merge, &mut meta)?;
/// assert!(!meta.has_finalizer("orphan"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct MetadataPatch {
    metadata: Fields,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields {
    uid: Option<Uid>,
    resource_version: Option<ResourceVersion>,
    #[serde(deserialize_with = "null_is_empty")]
    finalizers: Option<Vec<Arc<str>>>,
    #[serde(deserialize_with = "null_is_empty")]
    owner_references: Option<Vec<Reference>>,
}

/// An entry of the list of owner references.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Reference {
    Set(OwnerReference),
    /// The directive of a strategic patch: `{"$patch": "delete", "uid": …}`.
    Delete {
        #[serde(rename = "$patch")]
        _directive: Delete,
        uid: Uid,
    },
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Delete {
    #[serde(rename = "delete")]
    Delete,
}

/// In a patch, `null` removes a list.
fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let list = Option::<Vec<T>>::deserialize(deserializer)?;
    Ok(Some(list.unwrap_or_default()))
}

impl MetadataPatch {
    /// Applies the patch. A strategic patch merges owner references by uid; a merge patch replaces the list.
    ///
    /// # Errors
    /// [`StoreError::Conflict`]: the object has another uid or resourceVersion; it is unchanged.
    pub fn apply(self, format: PatchType, meta: &mut ObjectMeta) -> Result<(), StoreError> {
        let Fields {
            uid,
            resource_version,
            finalizers,
            owner_references,
        } = self.metadata;
        let has_version = resource_version.is_none_or(|version| version == meta.resource_version);
        if uid.is_some_and(|uid| uid != meta.uid) || !has_version {
            return Err(StoreError::Conflict {
                message: format!("{} is not the object that the patch expects", meta.name),
            });
        }
        if let Some(finalizers) = finalizers {
            meta.finalizers = finalizers;
        }
        let Some(references) = owner_references else {
            return Ok(());
        };
        if format != PatchType::Strategic {
            meta.owner_references.clear();
        }
        for reference in references {
            match reference {
                Reference::Delete { uid, .. } => meta.owner_references.retain(|known| known.uid != uid),
                Reference::Set(set) => {
                    match meta
                        .owner_references
                        .iter_mut()
                        .find(|known| known.uid == set.uid)
                    {
                        Some(known) => *known = set,
                        None => meta.owner_references.push(set),
                    }
                }
            }
        }
        Ok(())
    }
}
