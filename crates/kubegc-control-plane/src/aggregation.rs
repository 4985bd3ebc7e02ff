//! APIs that extension API servers serve, and the effect of their absence on discovery.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{ApiResource, Behavior, KubernetesVersion, ObjectMeta, Timestamp, store::Discovered};

/// All APIs are discovered by one request, whose answer marks those whose server cannot be reached.
const DISCOVERED_AT_ONCE: Behavior = Behavior::since(27, 0, "KEP-3352 (AggregatedDiscoveryEndpoint)");

/// An API of an extension API server: an APIService with `spec.service`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatedApi {
    pub api_version: String,
    /// Namespace and name of the Service, without which the API is not available; `None` if it is not known.
    pub service: Option<(Arc<str>, Arc<str>)>,
    /// Why it is not available; `None` if it is. While one is not, its discovery fails, and no namespace is
    /// removed.
    pub failure: Option<Arc<str>>,
    /// Since when it is not available, if that is known.
    pub since: Option<Timestamp>,
}

/// Handles the deletion of an APIService or of its Service. Returns whether the deletion changes discovery.
///
/// # Upstream
/// [`AvailableConditionController.sync`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/kube-aggregator/pkg/controllers/status/available_controller.go)
/// observes a missing Service at once.
pub(crate) fn follow_deletion(
    apis: &mut BTreeMap<Arc<str>, AggregatedApi>,
    resource: &ApiResource,
    deleted: &ObjectMeta,
) -> bool {
    let is = |group: &str, kind: &str| *resource.group == *group && *resource.kind == *kind;
    if is("apiregistration.k8s.io", "APIService") {
        return apis
            .remove(&deleted.name)
            .is_some_and(|api| api.failure.is_some());
    }
    if !is("", "Service") {
        return false;
    }
    let mut is_changed = false;
    for api in apis.values_mut().filter(|api| api.failure.is_none()) {
        let is_its = |(namespace, name): &(Arc<str>, Arc<str>)| {
            *namespace == deleted.namespace && *name == deleted.name
        };
        if api.service.as_ref().is_some_and(is_its) {
            api.failure = Some(no_service(&deleted.namespace, &deleted.name));
            is_changed = true;
        }
    }
    is_changed
}

/// The failure of an API whose Service does not exist.
pub fn no_service(namespace: &str, name: &str) -> Arc<str> {
    format!("service {namespace}/{name} does not exist").into()
}

/// Sets which group versions cannot be discovered.
pub(crate) fn set_failed(
    discovered: &mut Discovered,
    apis: &BTreeMap<Arc<str>, AggregatedApi>,
    version: KubernetesVersion,
) {
    let error = |api_version: &str| match version.has(DISCOVERED_AT_ONCE) {
        true => format!("stale GroupVersion discovery: {api_version}"),
        false => "the server is currently unable to handle the request".to_owned(),
    };
    let unavailable = apis.values().filter(|api| api.failure.is_some());
    discovered.failed = unavailable
        .map(|api| (api.api_version.clone(), error(&api.api_version)))
        .collect();
}

#[cfg(test)]
mod tests {
    use kubegc_core::Scope;

    use super::*;

    #[test]
    fn an_api_is_available_until_its_own_service_is_deleted() {
        let service = ApiResource::new("v1", "Service", "services", Scope::Namespaced);
        let api = AggregatedApi {
            api_version: "metrics.k8s.io/v1beta1".to_owned(),
            service: Some(("kube-system".into(), "metrics".into())),
            failure: None,
            since: None,
        };
        let mut apis = BTreeMap::from([("v1beta1.metrics.k8s.io".into(), api)]);
        for (namespace, name, is_own) in [
            ("shop", "metrics", false),
            ("kube-system", "dns", false),
            ("kube-system", "metrics", true),
            ("kube-system", "metrics", false),
        ] {
            let deleted = ObjectMeta::new(namespace, name, "u1");
            let is_changed = follow_deletion(&mut apis, &service, &deleted);
            assert_eq!(is_changed, is_own, "{namespace}/{name}");
        }
        let mut discovered = Discovered::default();
        for (release, error) in [
            ("1.26", "the server is currently unable to handle the request"),
            ("1.27", "stale GroupVersion discovery: metrics.k8s.io/v1beta1"),
        ] {
            set_failed(
                &mut discovered,
                &apis,
                release.parse().expect("a release in range"),
            );
            let failed = BTreeMap::from([("metrics.k8s.io/v1beta1".to_owned(), error.to_owned())]);
            assert_eq!(discovered.failed, failed, "{release}");
        }
        // With its APIService, an API that is not available no longer fails.
        let kind = ApiResource::new(
            "apiregistration.k8s.io/v1",
            "APIService",
            "apiservices",
            Scope::Cluster,
        );
        let deleted = ObjectMeta::new("", "v1beta1.metrics.k8s.io", "u2");
        assert!(follow_deletion(&mut apis, &kind, &deleted));
        set_failed(&mut discovered, &apis, KubernetesVersion::LATEST);
        assert!(discovered.failed.is_empty());
    }
}
