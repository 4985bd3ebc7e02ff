//! Objects that the tests share.

use std::fmt::Debug;

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, Resource,
    api::{DeleteParams, PostParams},
};
use kubegc_testkit::Cluster;
use serde::{Serialize, de::DeserializeOwned};

/// A ConfigMap with owners and finalizers, in namespace `default`.
pub(crate) fn config_map(name: &str, owners: &[OwnerReference], finalizers: &[&str]) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: (!owners.is_empty()).then(|| owners.to_vec()),
            finalizers: (!finalizers.is_empty())
                .then(|| finalizers.iter().map(ToString::to_string).collect()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

/// A reference to an object, as its controller or not.
pub(crate) fn owner<K: Resource<DynamicType = ()>>(object: &K) -> OwnerReference {
    object.owner_ref(&()).unwrap()
}

/// The same, with `blockOwnerDeletion`.
pub(crate) fn blocking_owner<K: Resource<DynamicType = ()>>(object: &K) -> OwnerReference {
    OwnerReference {
        block_owner_deletion: Some(true),
        ..owner(object)
    }
}

/// The ConfigMaps of namespace `default`.
pub(crate) fn config_maps(cluster: &Cluster) -> Api<ConfigMap> {
    Api::default_namespaced(cluster.client())
}

pub(crate) async fn create<K>(api: &Api<K>, object: &K) -> K
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    api.create(&PostParams::default(), object).await.unwrap()
}

pub(crate) async fn delete<K>(api: &Api<K>, name: &str, how: &DeleteParams)
where
    K: Clone + Debug + DeserializeOwned,
{
    api.delete(name, how).await.unwrap();
}

pub(crate) fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}
