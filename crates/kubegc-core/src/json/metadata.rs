//! The fields of `metadata`.

use std::sync::Arc;

use serde::{
    Deserialize,
    de::{IgnoredAny, MapAccess, value::MapAccessDeserializer},
};

use super::{Expected, JsonType, Labels, Soft, Text};
use crate::{FieldError, ObjectMeta, OwnerReference, ResourceVersion, Timestamp, Uid};

/// The fields of `metadata` that [`ObjectMeta`] has. Dates are text.
///
/// `A` is the type of the annotations, which are skipped by default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound(deserialize = "'de: 'a, A: Default + Deserialize<'de>")
)]
pub struct MetaFields<'a, A = IgnoredAny> {
    pub namespace: Soft<Text<'a>>,
    pub name: Soft<Text<'a>>,
    pub uid: Soft<Text<'a>>,
    pub resource_version: Soft<Text<'a>>,
    /// Generation of the desired state.
    pub generation: Soft<i64>,
    /// The creation time, in RFC 3339.
    pub creation_timestamp: Soft<Text<'a>>,
    /// The time of the delete request, in RFC 3339.
    pub deletion_timestamp: Soft<Text<'a>>,
    pub deletion_grace_period_seconds: Soft<i64>,
    pub finalizers: Soft<Vec<Soft<Text<'a>>>>,
    pub owner_references: Soft<Vec<Soft<OwnerFields<'a>>>>,
    pub labels: Soft<Labels<'a>>,
    pub annotations: A,
}

impl<'de: 'a, 'a, A: Default + Deserialize<'de>> Expected<'de> for MetaFields<'a, A> {
    const WORDS: &'static str = "a map";

    fn of_map<M: MapAccess<'de>>(map: M) -> Result<Option<Self>, M::Error> {
        Self::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub struct OwnerFields<'a> {
    /// Group and version of the owner's kind.
    pub api_version: Soft<Text<'a>>,
    pub kind: Soft<Text<'a>>,
    pub name: Soft<Text<'a>>,
    pub uid: Soft<Text<'a>>,
    /// Whether the owner is the managing controller.
    pub controller: Soft<bool>,
    /// Whether the dependent blocks a foreground deletion of the owner.
    pub block_owner_deletion: Soft<bool>,
}

impl<'de: 'a, 'a> Expected<'de> for OwnerFields<'a> {
    const WORDS: &'static str = "a map";

    fn of_map<M: MapAccess<'de>>(map: M) -> Result<Option<Self>, M::Error> {
        Self::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

fn date(text: &Soft<Text<'_>>, field: &str) -> Result<Option<Timestamp>, FieldError> {
    let Some(text) = text.get() else { return Ok(None) };
    let path = || format!("metadata.{field}");
    Timestamp::parse(text.as_str())
        .map(Some)
        .map_err(|_| FieldError::invalid(&path(), text.as_str(), "must be an RFC 3339 date"))
}

impl<A> MetaFields<'_, A> {
    /// The metadata. Texts that are absent or have a wrong type are empty. `share` makes the texts that many
    /// objects have in common: all but names, uids and values of labels.
    ///
    /// # Errors
    /// A date that is none.
    pub fn to_meta(&self, mut share: impl FnMut(&str) -> Arc<str>) -> Result<ObjectMeta, FieldError> {
        let owner_references = self.owner_references.get().into_iter().flatten();
        let owner_references = owner_references
            .filter_map(Soft::get)
            .map(|owner| OwnerReference {
                api_version: share(owner.api_version.as_str()),
                kind: share(owner.kind.as_str()),
                name: owner.name.as_str().into(),
                uid: Uid::new(owner.uid.as_str()),
                controller: owner.controller.get().copied(),
                block_owner_deletion: owner.block_owner_deletion.get().copied(),
            });
        let owner_references = owner_references.collect();
        let finalizers = self.finalizers.get().into_iter().flatten();
        let labels = self.labels.get().into_iter().flat_map(|labels| &labels.0);
        Ok(ObjectMeta {
            owner_references,
            namespace: share(self.namespace.as_str()),
            name: self.name.as_str().into(),
            uid: Uid::new(self.uid.as_str()),
            resource_version: ResourceVersion::new(self.resource_version.as_str()),
            generation: self.generation.get().copied().unwrap_or(0),
            creation_timestamp: date(&self.creation_timestamp, "creationTimestamp")?,
            deletion_timestamp: date(&self.deletion_timestamp, "deletionTimestamp")?,
            deletion_grace_period_seconds: self.deletion_grace_period_seconds.get().copied(),
            finalizers: finalizers
                .filter_map(Soft::get)
                .map(|name| share(name.as_str()))
                .collect(),
            labels: labels
                .map(|(key, value)| (share(key.as_str()), value.as_str().into()))
                .collect(),
        })
    }

    /// The fields whose values have wrong types, in the order of the documentation. Null is a wrong type for
    /// an entry of a list only.
    pub fn wrong(&self) -> Vec<WrongType> {
        let mut wrong = WrongTypes::default();
        let texts = [
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
            ("resourceVersion", &self.resource_version),
            ("creationTimestamp", &self.creation_timestamp),
            ("deletionTimestamp", &self.deletion_timestamp),
        ];
        for (name, field) in texts {
            wrong.check(field, || format!("metadata.{name}"));
        }
        wrong.check(&self.generation, || "metadata.generation".to_owned());
        wrong.check(&self.deletion_grace_period_seconds, || {
            "metadata.deletionGracePeriodSeconds".to_owned()
        });
        wrong.check(&self.finalizers, || "metadata.finalizers".to_owned());
        for (index, finalizer) in self.finalizers.get().into_iter().flatten().enumerate() {
            wrong.check_entry(finalizer, || format!("metadata.finalizers[{index}]"));
        }
        wrong.check(&self.owner_references, || "metadata.ownerReferences".to_owned());
        for (index, owner) in self.owner_references.get().into_iter().flatten().enumerate() {
            wrong.check_entry(owner, || format!("metadata.ownerReferences[{index}]"));
            let Some(owner) = owner.get() else { continue };
            let path = |name: &str| format!("metadata.ownerReferences[{index}].{name}");
            let texts = [
                ("apiVersion", &owner.api_version),
                ("kind", &owner.kind),
                ("name", &owner.name),
                ("uid", &owner.uid),
            ];
            for (name, field) in texts {
                wrong.check(field, || path(name));
            }
            wrong.check(&owner.controller, || path("controller"));
            wrong.check(&owner.block_owner_deletion, || path("blockOwnerDeletion"));
        }
        wrong.check(&self.labels, || "metadata.labels".to_owned());
        for (key, value) in self.labels.get().into_iter().flat_map(|labels| &labels.0) {
            wrong.check(value, || format!("metadata.labels[{}]", key.as_str()));
        }
        wrong.0
    }
}

/// A field whose value has another type than the API defines.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{field}: {}", self.problem())]
pub struct WrongType {
    /// Path from the object's root, such as `metadata.ownerReferences[0].uid`.
    pub field: String,
    /// The expected type, such as `a string`.
    pub expected: &'static str,
    pub found: JsonType,
}

impl WrongType {
    /// The field, if its value has a wrong type.
    pub fn of<'de, T: Expected<'de>>(value: &Soft<T>, field: &str) -> Option<Self> {
        let mut wrong = WrongTypes::default();
        wrong.check(value, || field.to_owned());
        wrong.0.pop()
    }

    pub fn problem(&self) -> String {
        format!("expected {}, found {}", self.expected, self.found.name())
    }
}

#[derive(Default)]
struct WrongTypes(Vec<WrongType>);

impl WrongTypes {
    fn check<'de, T: Expected<'de>>(&mut self, value: &Soft<T>, field: impl FnOnce() -> String) {
        if let Soft::Wrong(found) = value {
            self.add::<T>(*found, field());
        }
    }

    fn check_entry<'de, T: Expected<'de>>(&mut self, value: &Soft<T>, field: impl FnOnce() -> String) {
        match value {
            Soft::Is(_) => {}
            Soft::Absent => self.add::<T>(JsonType::Null, field()),
            Soft::Wrong(found) => self.add::<T>(*found, field()),
        }
    }

    fn add<'de, T: Expected<'de>>(&mut self, found: JsonType, field: String) {
        self.0.push(WrongType {
            field,
            expected: T::WORDS,
            found,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_keys_fail() {
        for text in [
            r#"{"name": "a", "name": "b"}"#,
            r#"{"labels": {"k": "v", "k": "v"}}"#,
            r#"{"ownerReferences": [{"uid": "a", "uid": "a"}]}"#,
        ] {
            let read = serde_json::from_str::<MetaFields<'_>>(text);
            let error = read.expect_err("a key repeats").to_string();
            assert!(error.starts_with(super::super::DUPLICATE), "{error}");
        }
    }
}
