//! APIs that extension API servers serve, and the effect of their absence on discovery.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{ApiResource, ObjectMeta, store::Discovered};

/// The discovery error of an API whose server cannot be reached.
const UNAVAILABLE: &str = "the server is currently unable to handle the request";

/// An API of an extension API server: an APIService with `spec.service`.
#[expect(clippy::exhaustive_structs, reason = "callers build it")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatedApi {
    /// Its group and version.
    pub api_version: String,
    /// Namespace and name of the Service. Without it, the API is not available.
    pub service: (Arc<str>, Arc<str>),
    /// Whether it is available. Otherwise its discovery fails, and no namespace is removed.
    pub is_available: bool,
}

/// Handles the deletion of an APIService or of its Service. Returns whether the deletion changes discovery.
///
/// # Upstream
/// [`AvailableConditionController.sync`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/kube-aggregator/pkg/controllers/status/available_controller.go)
/// notices a missing Service at once.
pub(crate) fn follow_deletion(
    apis: &mut BTreeMap<Arc<str>, AggregatedApi>,
    resource: &ApiResource,
    deleted: &ObjectMeta,
) -> bool {
    let is = |group: &str, kind: &str| *resource.group == *group && *resource.kind == *kind;
    if is("apiregistration.k8s.io", "APIService") {
        return apis.remove(&deleted.name).is_some_and(|api| !api.is_available);
    }
    if !is("", "Service") {
        return false;
    }
    let mut is_changed = false;
    for api in apis.values_mut().filter(|api| api.is_available) {
        let (namespace, name) = &api.service;
        api.is_available = *namespace != deleted.namespace || *name != deleted.name;
        is_changed |= !api.is_available;
    }
    is_changed
}

/// Sets which group versions cannot be discovered.
pub(crate) fn set_failed(discovered: &mut Discovered, apis: &BTreeMap<Arc<str>, AggregatedApi>) {
    let unavailable = apis.values().filter(|api| !api.is_available);
    discovered.failed = unavailable
        .map(|api| (api.api_version.clone(), UNAVAILABLE.to_owned()))
        .collect();
}
