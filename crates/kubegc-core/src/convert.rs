//! Conversions from and to the types of kube and k8s-openapi.
//!
//! The program that is built chooses the version of Kubernetes with a feature of k8s-openapi; these types are
//! the same in all of them.

use std::sync::Arc;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta as KubeMeta, OwnerReference as KubeReference, Time},
    jiff,
};
use kube::core::{ApiResource as KubeResource, DynamicObject, TypeMeta};

use crate::{
    ApiResource, FieldError, ObjectMeta, OwnerReference, PartialObjectMetadata, ResourceVersion, Timestamp,
    Uid,
};

impl From<&KubeReference> for OwnerReference {
    fn from(reference: &KubeReference) -> Self {
        Self {
            api_version: reference.api_version.as_str().into(),
            kind: reference.kind.as_str().into(),
            name: reference.name.as_str().into(),
            uid: Uid::new(&reference.uid),
            controller: reference.controller,
            block_owner_deletion: reference.block_owner_deletion,
        }
    }
}

impl From<&OwnerReference> for KubeReference {
    fn from(reference: &OwnerReference) -> Self {
        Self {
            api_version: reference.api_version.to_string(),
            kind: reference.kind.to_string(),
            name: reference.name.to_string(),
            uid: reference.uid.to_string(),
            controller: reference.controller,
            block_owner_deletion: reference.block_owner_deletion,
        }
    }
}

impl TryFrom<&KubeMeta> for ObjectMeta {
    type Error = FieldError;

    /// Annotations, managed fields and `generateName` are dropped. An error names a time outside the years of
    /// 64-bit nanoseconds (1678 to 2262).
    fn try_from(meta: &KubeMeta) -> Result<Self, FieldError> {
        let text = |field: &Option<String>| Arc::from(field.as_deref().unwrap_or_default());
        let time = |path: &str, time: &Option<Time>| match time {
            None => Ok(None),
            Some(Time(at)) => match i64::try_from(at.as_nanosecond()) {
                Ok(nanos) => Ok(Some(Timestamp::from_nanos(nanos))),
                Err(_) => Err(FieldError::invalid(
                    path,
                    &at.to_string(),
                    "not a date between the years 1678 and 2262",
                )),
            },
        };
        let finalizers = meta.finalizers.iter().flatten();
        let labels = meta.labels.iter().flatten();
        Ok(Self {
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: Uid::new(meta.uid.as_deref().unwrap_or_default()),
            resource_version: ResourceVersion::new(meta.resource_version.as_deref().unwrap_or_default()),
            generation: meta.generation.unwrap_or(0),
            creation_timestamp: time("metadata.creationTimestamp", &meta.creation_timestamp)?,
            deletion_timestamp: time("metadata.deletionTimestamp", &meta.deletion_timestamp)?,
            deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
            finalizers: finalizers.map(|name| name.as_str().into()).collect(),
            owner_references: meta
                .owner_references
                .iter()
                .flatten()
                .map(OwnerReference::from)
                .collect(),
            labels: labels
                .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
                .collect(),
        })
    }
}

impl From<&ObjectMeta> for KubeMeta {
    fn from(meta: &ObjectMeta) -> Self {
        let text = |field: &str| (!field.is_empty()).then(|| field.to_owned());
        let time = |at: Timestamp| {
            let at = jiff::Timestamp::from_nanosecond(at.as_nanos().into());
            at.ok().map(Time)
        };
        let finalizers = meta.finalizers.iter().map(ToString::to_string);
        let labels = meta.labels.iter();
        Self {
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid.text()),
            resource_version: text(meta.resource_version.as_str()),
            generation: (meta.generation != 0).then_some(meta.generation),
            creation_timestamp: meta.creation_timestamp.and_then(time),
            deletion_timestamp: meta.deletion_timestamp.and_then(time),
            deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
            finalizers: (!meta.finalizers.is_empty()).then(|| finalizers.collect()),
            owner_references: (!meta.owner_references.is_empty())
                .then(|| meta.owner_references.iter().map(KubeReference::from).collect()),
            labels: (!meta.labels.is_empty()).then(|| {
                labels
                    .map(|(key, value)| (key.to_string(), value.to_string()))
                    .collect()
            }),
            ..Self::default()
        }
    }
}

impl From<&ApiResource> for KubeResource {
    fn from(resource: &ApiResource) -> Self {
        Self {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            api_version: resource.api_version(),
            kind: resource.kind.to_string(),
            plural: resource.resource.to_string(),
        }
    }
}

impl TryFrom<&DynamicObject> for PartialObjectMetadata {
    type Error = FieldError;

    /// An error names the missing `apiVersion` and `kind`, or the field of `metadata`.
    fn try_from(object: &DynamicObject) -> Result<Self, FieldError> {
        let TypeMeta { api_version, kind } = object
            .types
            .as_ref()
            .ok_or_else(|| FieldError::invalid("kind", "", "the object has no apiVersion and kind"))?;
        Ok(Self::new(
            api_version,
            kind,
            ObjectMeta::try_from(&object.metadata)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_converts_both_ways() {
        let mut meta = ObjectMeta::new("shop", "web-0", "u2");
        meta.resource_version = "7".into();
        meta.creation_timestamp = Some(Timestamp::from_secs(1_700_000_000));
        meta.finalizers = vec!["example.com/hold".into()];
        meta.labels.insert("app".into(), "web".into());
        let set = PartialObjectMetadata::new("apps/v1", "ReplicaSet", ObjectMeta::new("shop", "web", "u1"));
        meta.owner_references.push(set.controller_reference());
        let kube = KubeMeta::from(&meta);
        assert_eq!(
            kube.creation_timestamp.as_ref().map(|at| at.0.as_second()),
            Some(1_700_000_000)
        );
        assert_eq!(ObjectMeta::try_from(&kube), Ok(meta));
        assert_eq!(KubeMeta::from(&ObjectMeta::default()), KubeMeta::default());
    }

    #[test]
    fn an_error_names_the_field() {
        let mut object = DynamicObject {
            types: None,
            metadata: KubeMeta::default(),
            data: k8s_openapi::serde_json::Value::Null,
        };
        let error = |object: &DynamicObject| PartialObjectMetadata::try_from(object).unwrap_err().to_string();
        assert!(error(&object).starts_with("kind"), "{}", error(&object));
        object.types = Some(TypeMeta {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
        });
        object.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::MAX));
        assert!(
            error(&object).starts_with("metadata.deletionTimestamp"),
            "{}",
            error(&object)
        );
    }
}
