//! A simulation whose steps are chosen one after another.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use kubegc_control_plane::Simulation;
use kubegc_core::{KindId, ObjectMeta, Timestamp, Uid};
use kubegc_objects::{
    Call, Input, Operation, Output,
    collector::{FingerprintOptions, WaitReason},
};
use kubegc_sim::rng::Rng;

use super::ClientDelete;

/// A simulation whose next step is a choice.
#[derive(Clone)]
pub(crate) struct Race<'a> {
    pub(crate) simulation: Simulation,
    pub(crate) in_flight: Vec<Call>,
    pub(crate) client: &'a [ClientDelete<'a>],
    pub(crate) done: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Client,
    Call(usize),
    /// A watch of the collector delivers the next change of a kind.
    Deliver(KindId),
}

impl Race<'_> {
    /// Assigns queued keys to idle workers, then returns the possible steps. If there are none, the time
    /// advances; the result is empty when nothing is pending.
    pub(crate) fn choices(&mut self) -> Vec<Choice> {
        loop {
            let retry_at = self.poll();
            self.simulation.plane.observe(&mut self.simulation.server);
            let mut choices = Vec::new();
            if self.done < self.client.len() {
                choices.push(Choice::Client);
            }
            choices.extend((0..self.in_flight.len()).map(Choice::Call));
            let pending = self.simulation.plane.pending_kinds().into_iter();
            choices.extend(pending.map(Choice::Deliver));
            if !choices.is_empty() {
                return choices;
            }
            if !self.simulation.plane.act(&mut self.simulation.server) {
                let idle = self.simulation.plane.idle(retry_at);
                if !self.simulation.advance(idle, None) {
                    return choices;
                }
            }
        }
    }

    fn poll(&mut self) -> Option<Timestamp> {
        loop {
            match self.simulation.plane.poll_collector(&self.simulation.server) {
                Some(Output::Call(call)) => self.in_flight.push(call),
                Some(Output::Wait(wait)) => return wait.until.filter(|_| wait.why != WaitReason::Events),
                _ => {}
            }
        }
    }

    pub(crate) fn perform(&mut self, choice: Choice) {
        match choice {
            Choice::Client => {
                let delete = &self.client[self.done];
                self.done += 1;
                // The delete may be refused.
                let _response = delete.send(&mut self.simulation);
            }
            Choice::Call(at) => {
                let call = self.in_flight.remove(at);
                let Simulation { server, plane, .. } = &mut self.simulation;
                let response = plane.perform(server, &call.request);
                plane.observe(server);
                let call = call.id;
                plane.handle(Input::Response { call, response });
            }
            Choice::Deliver(kind) => self.simulation.plane.deliver_next(kind),
        }
    }

    pub(crate) fn run(&mut self, rng: &mut Rng, choices_max: usize) {
        for _ in 0..choices_max {
            let choices = self.choices();
            if choices.is_empty() {
                return;
            }
            self.perform(choices[rng.below(choices.len() as u64) as usize]);
        }
        self.simulation.gave_up = true;
    }

    /// A digest of all state that affects the fates.
    pub(crate) fn fingerprint(&self) -> u128 {
        let server = &self.simulation.server;
        let collector = self.simulation.plane.collector();
        let mut hasher = FixedState::default().build_hasher();
        self.done.hash(&mut hasher);
        let mut existing: HashSet<Uid, FixedState> = HashSet::default();
        for (kind, _) in server.catalog().iter().filter(|(_, resource)| resource.preferred) {
            if server.len(kind) > 0 {
                for object in server.objects(kind, None) {
                    existing.insert(object.meta.uid.clone());
                    digest(&object.meta, &mut hasher);
                }
            }
        }
        for (kind, event_type, object) in self.simulation.plane.pending() {
            (kind, event_type).hash(&mut hasher);
            digest(&object.meta, &mut hasher);
        }
        let mut calls: Vec<u64> = self.in_flight.iter().map(|call| self.call_digest(call)).collect();
        calls.sort_unstable();
        calls.hash(&mut hasher);
        // Uids are not used again: an owner that no longer exists is absent whether it is cached as absent or
        // not, and an attempt for an object that is unknown everywhere does nothing.
        let collector = collector.fingerprint_with(FingerprintOptions {
            seen: &|resource, meta, mut hasher| {
                let kind =
                    server
                        .catalog()
                        .by_resource(&resource.group, &resource.version, &resource.resource);
                let current = kind.and_then(|kind| server.object(kind, &meta.namespace, &meta.name));
                current
                    .is_some_and(|current| current.meta.resource_version == meta.resource_version)
                    .hash(&mut hasher);
                digest(meta, &mut hasher);
            },
            may_exist: &|owner| existing.contains(&owner.uid),
            matters: &|object| {
                existing.contains(&object.uid) || collector.graph().node(&object.uid).is_some()
            },
        });
        collector ^ u128::from(hasher.finish())
    }

    /// A request, and whether the version of its precondition is still current.
    fn call_digest(&self, call: &Call) -> u64 {
        let mut hasher = FixedState::default().build_hasher();
        let request = &call.request;
        request.target.hash(&mut hasher);
        let (server, target) = (&self.simulation.server, &request.target);
        let resource = &self.simulation.plane.collector().catalog()[request.kind];
        let catalog = server.catalog();
        let kind = catalog.by_resource(&resource.group, &resource.version, &resource.resource);
        let current = kind.and_then(|kind| server.object(kind, &target.namespace, &target.name));
        let expected = request.expect.resource_version.as_ref();
        current
            .is_some_and(|current| Some(&current.meta.resource_version) == expected)
            .hash(&mut hasher);
        match &request.operation {
            Operation::Get => 0u8.hash(&mut hasher),
            Operation::Delete { propagation, .. } => (1u8, propagation).hash(&mut hasher),
            Operation::Patch { format, body, .. } => {
                let body = without_version(body, expected.map(|version| version.as_str()));
                (2u8, format, body).hash(&mut hasher);
            }
            Operation::Put { finalizers, .. } => (3u8, finalizers).hash(&mut hasher),
        }
        hasher.finish()
    }
}

/// A patch without its resourceVersion, which is also the precondition of the request.
fn without_version(body: &[u8], version: Option<&str>) -> String {
    let text = String::from_utf8_lossy(body);
    match version {
        Some(version) => text.replace(&format!("\"resourceVersion\":\"{version}\""), ""),
        None => text.into_owned(),
    }
}

/// An object without its version and dates.
fn digest(meta: &ObjectMeta, hasher: &mut impl Hasher) {
    (&meta.namespace, &meta.name, &meta.uid, &meta.finalizers).hash(hasher);
    (&meta.owner_references, meta.is_deleting()).hash(hasher);
}
