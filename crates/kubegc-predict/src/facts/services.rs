//! Services that webhooks and extension API servers are behind: whether the dump shows that one does not
//! exist or has no ready endpoint.

use std::sync::Arc;

use kubegc_core::{
    LabelSelector, ObjectMeta,
    record::{Field, Pod, Resource},
};
use kubegc_snapshot::{Details, Snapshot};

/// Namespace and name of a Service.
pub(super) type ServiceName = (Arc<str>, Arc<str>);

/// The label of an EndpointSlice with the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Why no request reaches a Service.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    NotFound,
    NotReady(Arc<str>),
}

/// Why no request reaches a Service; `None` if requests reach it, or if the dump does not show it.
pub(super) fn failure(snapshot: &Snapshot, service: &ServiceName) -> Option<Failure> {
    let (namespace, name) = service;
    let Some(object) = snapshot.find("", Resource::Services.kind(), namespace, name) else {
        return is_complete(snapshot, Resource::Services, namespace).then_some(Failure::NotFound);
    };
    let record = object.record();
    let selector = record.service()?.selector.known()?.as_ref();
    // The endpoints of a Service without a selector are written by hand, or it is another name of a host.
    let selector = selector.filter(|labels| !labels.is_empty())?;
    let selector = LabelSelector {
        match_labels: selector.clone(),
        match_expressions: Vec::new(),
    };
    let ready = of_slices(snapshot, service)
        .or_else(|| of_endpoints(snapshot, service))
        .or_else(|| of_pods(snapshot, namespace, &selector))?;
    let why = ready.err()?;
    let failure = format!("service {namespace}/{name} has no ready endpoints: {why}");
    Some(Failure::NotReady(failure.into()))
}

/// Whether a Service has a ready endpoint, or the fact that shows that it has none.
type Ready = Result<(), String>;

/// By its EndpointSlices. A dump without any was taken without them, whatever it declares.
fn of_slices(snapshot: &Snapshot, (namespace, name): &ServiceName) -> Option<Ready> {
    let resource = Resource::EndpointSlices;
    let all = snapshot.positions_of_kind(resource.group(), resource.kind());
    let is_known = !all.is_empty() && is_complete(snapshot, resource, namespace);
    let slices = all.filter_map(|position| snapshot.object(position));
    let is_its = |meta: &ObjectMeta| {
        let label = meta.labels.get(SERVICE_NAME);
        meta.namespace == *namespace && label.is_some_and(|label| label == name)
    };
    let ready = slices
        .filter(|slice| is_its(&slice.meta()))
        .map(|slice| match slice.details() {
            Some(Details::EndpointSlice { has_ready }) => Some(*has_ready),
            _ => None,
        });
    let ready: Vec<Option<bool>> = ready.collect();
    if ready.contains(&Some(true)) {
        return Some(Ok(()));
    }
    (is_known && !ready.contains(&None)).then(|| {
        Err(match ready.is_empty() {
            true => "it has no endpointslice".to_owned(),
            false => "no endpoint in its endpointslices is ready".to_owned(),
        })
    })
}

/// By its Endpoints, which have the same name.
fn of_endpoints(snapshot: &Snapshot, (namespace, name): &ServiceName) -> Option<Ready> {
    let kind = Resource::Endpoints.kind();
    let record = snapshot.find("", kind, namespace, name)?.record();
    Some(match *record.endpoints()?.has_ready_address.known()? {
        true => Ok(()),
        false => Err(format!("endpoints/{name} has no addresses")),
    })
}

/// By the pods that its selector matches.
fn of_pods(snapshot: &Snapshot, namespace: &Arc<str>, selector: &LabelSelector) -> Option<Ready> {
    let pods = snapshot.positions_of_kind("", Resource::Pods.kind());
    let pods = pods.filter_map(|position| snapshot.object(position));
    let pods = pods
        .filter(|pod| pod.namespace() == namespace)
        .map(|pod| pod.record());
    let pods = pods.filter(|record| selector.matches(&record.meta));
    let ready = pods.map(|record| (Arc::clone(&record.meta.name), record.pod().and_then(is_ready)));
    let ready: Vec<(Arc<str>, Option<bool>)> = ready.collect();
    if ready.iter().any(|(_, is_ready)| *is_ready == Some(true)) {
        return Some(Ok(()));
    }
    let is_known = is_complete(snapshot, Resource::Pods, namespace)
        && ready.iter().all(|(_, is_ready)| is_ready.is_some());
    is_known.then(|| {
        Err(match ready.as_slice() {
            [] => match scaled_to_zero(snapshot, namespace, selector) {
                Some(workload) => format!("{workload} is scaled to 0"),
                None => format!("no pod matches its selector {selector}"),
            },
            [(name, _)] => format!("pod/{name} is not ready"),
            several => format!(
                "none of the {} pods that match its selector {selector} is ready",
                several.len()
            ),
        })
    })
}

/// Whether a pod is ready; `None` if that was not read.
fn is_ready(pod: &Pod) -> Option<bool> {
    Some(!pod.has_final_phase()? && pod.ready_at.known()?.is_some())
}

/// The first Deployment without replicas whose pods a selector would match.
fn scaled_to_zero(snapshot: &Snapshot, namespace: &Arc<str>, selector: &LabelSelector) -> Option<String> {
    let resource = Resource::Deployments;
    let mut positions = snapshot.positions_of_kind(resource.group(), resource.kind());
    positions.find_map(|position| {
        let view = snapshot.object(position)?;
        let record = view.record();
        let deployment = record.deployment()?;
        let mut labels = deployment.selector.known()?.match_labels.iter();
        let is_theirs = labels.any(|(key, value)| selector.match_labels.get(key) == Some(value));
        let is_meant = view.namespace() == namespace && deployment.replicas == Field::Known(0);
        (is_meant && is_theirs).then(|| view.object_ref().short())
    })
}

/// Whether the dump has all objects of a namespaced resource in a namespace.
fn is_complete(snapshot: &Snapshot, resource: Resource, namespace: &str) -> bool {
    let completeness = &snapshot.completeness;
    let coverage = completeness.in_namespace(resource.group(), resource.kind(), namespace);
    coverage.is_complete()
}
