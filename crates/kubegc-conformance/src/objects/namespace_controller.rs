//! Runs the namespace controller against the API server of a scenario, one request at a time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_control_plane::Requests;
use kubegc_controllers::{
    Cache, Context, Controller as _, Deadlines, End, Key, NamespaceController as Controller, Request,
    Response, Sequence, Step, Steps, Wire,
};
use kubegc_core::{ApiResource, Catalog, KubernetesVersion, Timestamp, record::Resource};
use kubegc_sim::{ApiServer, rng::mix};

/// The namespace controller with its queue and the sync in progress.
#[derive(Clone)]
pub(super) struct NamespaceController {
    controller: Controller,
    queue: BTreeMap<String, Due>,
    sync: Option<Sync>,
    requests: Requests,
    /// Seed of the order in which the resources of a namespace are deleted.
    order: u64,
}

#[derive(Clone, Copy)]
struct Due {
    at: Timestamp,
    failures: i32,
}

/// A sync of a namespace, up to the request that is sent next.
struct Sync {
    name: String,
    failures: i32,
    steps: Steps,
    responses: Vec<Response>,
    sequence: Sequence,
    request: Request,
}

impl Clone for Sync {
    /// Replays the responses to a new sequence.
    fn clone(&self) -> Self {
        let mut sequence = self.steps.begin();
        let responses = self.responses.iter().cloned().map(Some);
        for response in [None].into_iter().chain(responses) {
            sequence.next(response);
        }
        Self {
            name: self.name.clone(),
            failures: self.failures,
            steps: self.steps.clone(),
            responses: self.responses.clone(),
            sequence,
            request: self.request.clone(),
        }
    }
}

impl NamespaceController {
    pub(super) fn new(version: KubernetesVersion, catalog: &Catalog) -> Self {
        let mut controller = Controller::new(version);
        controller.follows_discovery_order = true;
        Self {
            controller,
            queue: BTreeMap::new(),
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

    /// Enqueues a namespace that has changed.
    pub(super) fn namespace_changed(&mut self, name: &str, now: Timestamp) {
        let at = now.saturating_add(self.controller.timing().event_delay);
        self.enqueue(name, Due { at, failures: 0 });
    }

    /// The time of the next request. A sync in progress is due at once.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        if self.sync.is_some() {
            Some(Timestamp::EPOCH)
        } else {
            self.queue.values().map(|due| due.at).min()
        }
    }

    pub(super) fn step(&mut self, server: &mut ApiServer, now: Timestamp) {
        if self.sync.is_none() {
            self.begin(server, now);
        }
        let Some(mut sync) = self.sync.take() else {
            return;
        };
        let response = self.requests.perform(server, &sync.request);
        if let (Request::Write(write), Response::Written(_)) = (&sync.request, &response)
            && write.subresource == "status"
        {
            self.namespace_changed(&write.object.name, now);
        }
        sync.responses.push(response.clone());
        let mut step = sync.sequence.next(Some(response));
        while let Step::Perform {
            request: Request::Discover,
            ..
        } = step
        {
            let response = Response::Discovered(Arc::new(shuffled(server.catalog(), self.order).into()));
            sync.responses.push(response.clone());
            step = sync.sequence.next(Some(response));
        }
        match step {
            Step::Perform { request, .. } => self.sync = Some(Sync { request, ..sync }),
            Step::End(end) => self.end(&sync, &end, now),
        }
    }

    /// Begins the sync of the first namespace that is due.
    fn begin(&mut self, server: &mut ApiServer, now: Timestamp) {
        let Some((name, due)) = self.queue.iter().find(|(_, due)| due.at <= now) else {
            return;
        };
        let (name, failures) = (name.clone(), due.failures);
        self.queue.remove(&name);
        let key = Key::cluster(&*name);
        let mut cache = Cache::new([Resource::Namespaces], []);
        let get = Request::Get {
            resource: Resource::Namespaces,
            key: key.clone(),
        };
        let namespace = match self.requests.perform(server, &get) {
            Response::Object(namespace) => Some(*namespace),
            _ => None,
        };
        cache.put(Resource::Namespaces, &key, namespace);
        let cx = Context {
            cache: &cache,
            now,
            wire: Wire::AsUpstream,
            deadlines: &Deadlines::new(),
            cloud: None,
            notes_kept: true,
        };
        let Some(steps) = self.controller.reconcile(&cx, &key).steps else {
            return;
        };
        let mut sequence = steps.begin();
        if let Step::Perform { request, .. } = sequence.next(None) {
            let responses = Vec::new();
            self.sync = Some(Sync {
                name,
                failures,
                steps,
                responses,
                sequence,
                request,
            });
        }
    }

    fn end(&mut self, sync: &Sync, end: &End, now: Timestamp) {
        let (after, failures) = match end {
            End::RequeueAfter { after, .. } => (*after, 0),
            End::Failed { .. } => {
                let [first, longest] = self.controller.timing().backoff;
                let delay = first.as_secs_f64() * 2_f64.powi(sync.failures);
                (
                    Duration::try_from_secs_f64(delay).unwrap_or(longest).min(longest),
                    sync.failures + 1,
                )
            }
            End::Done | End::Kept(_) | End::Unknown(_) | End::Stale(_) => return,
        };
        let at = now.saturating_add(after);
        self.enqueue(&sync.name, Due { at, failures });
    }

    /// A namespace is in the queue once, at the earliest requested time.
    fn enqueue(&mut self, name: &str, new: Due) {
        let known = self.queue.get(name);
        if known.is_none_or(|known| new.at < known.at) {
            self.queue.insert(name.to_owned(), new);
        }
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
