//! Services that webhooks and extension API servers are behind: whether the dump shows that one does not
//! exist or has no ready endpoint.

use std::sync::Arc;

use kubegc_core::{
    LabelSelector,
    record::{Field, Pod, Resource},
};
use kubegc_snapshot::Details;

use super::Facts;

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

/// Whether a Service has a ready endpoint, or the fact that shows that it has none.
type Ready = Result<(), String>;

/// The result for endpoints of which each is ready, not ready, or not read; `None` if it is not known.
fn ready(endpoints: &[Option<bool>], are_all: bool, why_not: impl FnOnce() -> String) -> Option<Ready> {
    if endpoints.contains(&Some(true)) {
        return Some(Ok(()));
    }
    (are_all && !endpoints.contains(&None)).then(|| Err(why_not()))
}

impl Facts {
    /// Why no request reaches a Service; `None` if requests reach it, or if the dump does not show it.
    pub(super) fn service_failure(&self, service: &ServiceName) -> Option<Failure> {
        let (namespace, name) = service;
        let Some(position) = self.by_name(Resource::Services, namespace, name) else {
            let is_complete = self.is_complete_in(Resource::Services, namespace);
            return is_complete.then_some(Failure::NotFound);
        };
        let record = self.record(position);
        let selector = record.service()?.selector.known()?.as_ref();
        // The endpoints of a Service without a selector are written by hand, or it is another name of a host.
        let selector = selector.filter(|labels| !labels.is_empty())?;
        let selector = LabelSelector {
            match_labels: selector.clone(),
            match_expressions: Vec::new(),
        };
        let ready = self
            .ready_by_slices(service)
            .or_else(|| self.ready_by_endpoints(service))
            .or_else(|| self.ready_by_pods(namespace, &selector))?;
        let why = ready.err()?;
        let failure = format!("service {namespace}/{name} has no ready endpoints: {why}");
        Some(Failure::NotReady(failure.into()))
    }

    /// By its EndpointSlices. A dump without any was taken without them, whatever it declares.
    fn ready_by_slices(&self, (namespace, name): &ServiceName) -> Option<Ready> {
        let resource = Resource::EndpointSlices;
        let are_all = self.all(resource).next().is_some() && self.is_complete_in(resource, namespace);
        let mut slices: Vec<_> = self.all(resource).map(|position| self.view(position)).collect();
        slices.retain(|slice| {
            slice.namespace() == namespace && slice.meta().labels.get(SERVICE_NAME) == Some(name)
        });
        let endpoints = slices.iter().map(|slice| match slice.details() {
            Some(Details::EndpointSlice { has_ready }) => Some(*has_ready),
            _ => None,
        });
        ready(&endpoints.collect::<Vec<_>>(), are_all, || {
            match slices.is_empty() {
                true => "it has no endpointslice".to_owned(),
                false => "no endpoint in its endpointslices is ready".to_owned(),
            }
        })
    }

    /// By its Endpoints, which have the same name.
    fn ready_by_endpoints(&self, (namespace, name): &ServiceName) -> Option<Ready> {
        let record = self.record(self.by_name(Resource::Endpoints, namespace, name)?);
        Some(match *record.endpoints()?.has_ready_address.known()? {
            true => Ok(()),
            false => Err(format!("endpoints/{name} has no addresses")),
        })
    }

    /// By the pods that its selector matches.
    fn ready_by_pods(&self, namespace: &Arc<str>, selector: &LabelSelector) -> Option<Ready> {
        let pods = self.all(Resource::Pods).map(|position| self.view(position));
        let pods = pods.filter(|pod| pod.namespace() == namespace);
        let pods = pods.map(|pod| pod.record());
        let pods: Vec<_> = pods.filter(|pod| selector.matches(&pod.meta)).collect();
        let endpoints = pods.iter().map(|pod| pod.pod().and_then(is_ready));
        let are_all = self.is_complete_in(Resource::Pods, namespace);
        ready(&endpoints.collect::<Vec<_>>(), are_all, || {
            match pods.as_slice() {
                [] => match self.scaled_to_zero(namespace, selector) {
                    Some(workload) => format!("{workload} is scaled to 0"),
                    None => format!("no pod matches its selector {selector}"),
                },
                [pod] => format!("pod/{} is not ready", pod.meta.name),
                several => format!(
                    "none of the {} pods that match its selector {selector} is ready",
                    several.len()
                ),
            }
        })
    }

    /// The first Deployment without replicas whose pods a selector would match.
    fn scaled_to_zero(&self, namespace: &Arc<str>, selector: &LabelSelector) -> Option<String> {
        self.all(Resource::Deployments).find_map(|position| {
            let record = self.record(position);
            let deployment = record.deployment()?;
            let mut labels = deployment.selector.known()?.match_labels.iter();
            let is_theirs = labels.any(|(key, value)| selector.match_labels.get(key) == Some(value));
            let is_meant = record.meta.namespace == *namespace && deployment.replicas == Field::Known(0);
            (is_meant && is_theirs).then(|| self.object_ref(position).short())
        })
    }
}

/// Whether a pod is ready; `None` if that was not read.
fn is_ready(pod: &Pod) -> Option<bool> {
    Some(!pod.has_final_phase()? && pod.ready_at.known()?.is_some())
}
