//! A fast path for the patches that garbage collectors send, without building JSON values: finalizers
//! replaced, owner references replaced or removed by uid.
//!
//! Every other patch uses the general implementation. The results of both are the same.

use std::sync::Arc;

use kubegc_core::{OwnerReference, PatchType, ResourceVersion, Uid};
use serde::{Deserialize, Deserializer};

use crate::StoredObject;

/// The patched object; `None` if the patch is not one of the simple ones.
pub(super) fn apply(existing: &StoredObject, format: PatchType, body: &[u8]) -> Option<StoredObject> {
    if format == PatchType::Json {
        return None;
    }
    let patch: Patch<'_> = serde_json::from_slice(body).ok()?;
    let patch = patch.metadata;
    let mut object = existing.clone();
    let meta = &mut object.meta;
    match format {
        PatchType::Strategic => {
            if patch.finalizers.is_some() || patch.resource_version.is_some() {
                return None;
            }
            if let Some(references) = patch.owner_references {
                let references = references?;
                // Another rule applies if there is no list for a directive.
                if meta.owner_references.is_empty() || references.is_empty() {
                    return None;
                }
                for reference in &references {
                    let removed = reference.removed()?;
                    meta.owner_references.retain(|kept| *kept.uid.text() != *removed);
                }
            }
        }
        PatchType::Merge => {
            if let Some(version) = patch.resource_version {
                meta.resource_version = ResourceVersion::new(version?);
            }
            if let Some(references) = patch.owner_references {
                meta.owner_references = references
                    .unwrap_or_default()
                    .iter()
                    .map(Reference::whole)
                    .collect::<Option<_>>()?;
            }
            if let Some(finalizers) = patch.finalizers {
                // Strings are shared with the stored ones if they are equal.
                let known = &existing.meta.finalizers;
                let shared = |name: &str| {
                    let stored = known.iter().find(|stored| ***stored == *name);
                    stored.map_or_else(|| Arc::from(name), Arc::clone)
                };
                meta.finalizers = finalizers.unwrap_or_default().into_iter().map(shared).collect();
            }
        }
        PatchType::Json => return None,
    }
    if let Some(uid) = patch.uid {
        object.meta.uid = Uid::new(uid);
    }
    Some(object)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

/// Strings with escapes cannot be borrowed: such patches are not simple.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Metadata<'a> {
    uid: Option<&'a str>,
    #[serde(borrow, default, deserialize_with = "given")]
    resource_version: Option<Option<&'a str>>,
    #[serde(borrow, default, deserialize_with = "given")]
    owner_references: Option<Option<Vec<Reference<'a>>>>,
    #[serde(borrow, default, deserialize_with = "given")]
    finalizers: Option<Option<Vec<&'a str>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Reference<'a> {
    #[serde(rename = "$patch")]
    directive: Option<&'a str>,
    api_version: Option<&'a str>,
    kind: Option<&'a str>,
    name: Option<&'a str>,
    uid: Option<&'a str>,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

impl<'a> Reference<'a> {
    /// The uid, if this is a directive to remove.
    fn removed(&self) -> Option<&'a str> {
        if self.directive == Some("delete") {
            self.uid
        } else {
            None
        }
    }

    /// The owner reference, if this is one.
    fn whole(&self) -> Option<OwnerReference> {
        if self.directive.is_some() {
            return None;
        }
        Some(OwnerReference {
            api_version: self.api_version.unwrap_or_default().into(),
            kind: self.kind.unwrap_or_default().into(),
            name: self.name.unwrap_or_default().into(),
            uid: Uid::new(self.uid.unwrap_or_default()),
            controller: self.controller,
            block_owner_deletion: self.block_owner_deletion,
        })
    }
}

/// Distinguishes a field that is null from one that is missing.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
