//! Runs the namespace controller against the API server of a scenario, one request at a time.

use std::sync::Arc;

use kubegc_control_plane::{Requests, list_resource};
use kubegc_controllers::{
    Input, Key, Manager, NamespaceController as Controller, Output, Request, Response, Step, Steps, TaskId,
    Wire,
};
use kubegc_core::{ApiResource, Catalog, KubernetesVersion, Timestamp, record::Resource};
use kubegc_sim::{ApiServer, rng::mix};

/// The namespace controller with its queue and the sync in progress.
#[derive(Clone)]
pub(super) struct NamespaceController {
    manager: Manager,
    sync: Option<Sync>,
    requests: Requests,
    /// Seed of the order in which the resources of a namespace are deleted.
    order: u64,
}

/// A sync of a namespace, as far as there are responses.
#[derive(Clone)]
struct Sync {
    task: TaskId,
    steps: Steps,
    responses: Vec<Response>,
}

impl Sync {
    /// The step after the responses.
    fn next(&self) -> Step {
        let mut sequence = self.steps.begin();
        let first = sequence.next(None);
        let responses = self.responses.iter().cloned();
        responses.fold(first, |_, response| sequence.next(Some(response)))
    }
}

impl NamespaceController {
    pub(super) fn new(version: KubernetesVersion, catalog: &Catalog, now: Timestamp) -> Self {
        let mut controller = Controller::new(version);
        controller.follows_discovery_order = true;
        let mut manager = Manager::new(vec![Arc::new(controller)], Wire::AsUpstream, now);
        list_resource(&mut manager, now, Resource::Namespaces, Vec::new(), true);
        Self {
            manager,
            sync: None,
            requests: Requests::new(&catalog.clone().into()),
            order: 0,
        }
    }

    /// Draws another order in which the resources of a namespace are deleted: upstream iterates over them in
    /// the order of a map.
    pub(super) const fn shuffle(&mut self, seed: u64) {
        self.order = seed;
    }

    /// Delivers a namespace that has changed.
    pub(super) fn namespace_changed(&mut self, name: &str, server: &mut ApiServer, now: Timestamp) {
        let (resource, key) = (Resource::Namespaces, Key::cluster(name));
        let read = self.requests.perform(server, &Request::Get { resource, key });
        if let Response::Object(record) = read {
            self.manager.handle(now, Input::Applied { resource, record });
        }
    }

    /// The time of the next request. A sync in progress is due at once.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        if self.sync.is_some() {
            Some(Timestamp::EPOCH)
        } else {
            self.manager.next_at()
        }
    }

    /// Performs the next request.
    pub(super) fn step(&mut self, server: &mut ApiServer, now: Timestamp) {
        let Some(mut sync) = self.sync.take().or_else(|| self.begin(now)) else {
            return;
        };
        let mut is_sent = false;
        let end = loop {
            let request = match sync.next() {
                Step::Perform { request, .. } => request,
                Step::End(end) => break end,
            };
            let response = match &request {
                Request::Discover => {
                    let shuffled = shuffled(server.catalog(), self.order);
                    Response::Discovered(Arc::new(shuffled.into()))
                }
                _ if is_sent => {
                    self.sync = Some(sync);
                    return;
                }
                request => self.requests.perform(server, request),
            };
            is_sent |= request != Request::Discover;
            if let (Request::Write(write), Response::Written(_)) = (&request, &response)
                && write.subresource == "status"
            {
                self.namespace_changed(&write.object.name, server, now);
            }
            sync.responses.push(response);
        };
        self.manager.handle(now, Input::Ended { task: sync.task, end });
    }

    /// Begins the sync of the first namespace that is due.
    fn begin(&mut self, now: Timestamp) -> Option<Sync> {
        let Output::Perform(task) = self.manager.poll_output(now) else {
            return None;
        };
        Some(Sync {
            task: task.id,
            steps: task.work.into_steps(true),
            responses: Vec::new(),
        })
    }
}

/// The same kinds in an order drawn by a seed.
fn shuffled(catalog: &Catalog, seed: u64) -> Catalog {
    let rank = |resource: &ApiResource| {
        let name = resource.group.bytes().chain(resource.resource.bytes());
        name.fold(mix(seed), |rank, byte| mix(rank ^ u64::from(byte)))
    };
    let mut resources: Vec<&ApiResource> = catalog.iter().map(|(_, resource)| resource).collect();
    resources.sort_by_key(|resource| rank(resource));
    let mut shuffled = Catalog::new();
    for resource in resources {
        // Each is in the catalog once.
        let _added = shuffled.add(resource.clone());
    }
    shuffled
}
