//! The simulated cluster of one forecast: an API server, the collector, and those who act beside it.
//!
//! The collector sees the server only through its watches and calls.

mod calls;
mod environment;
pub(crate) mod kubelets;
pub(crate) mod namespaces;
mod plane;

use std::{sync::Arc, time::Duration};

use kubegc_core::{Catalog, KindId, ObjectRef, Timestamp};
use kubegc_objects::collector::Input;
use kubegc_sim::{ApiServer, Response};

pub(crate) use calls::object_ref;
pub use plane::{ControlPlane, Turn};

use crate::Assumptions;

/// How long nothing may change before what is left to retry is taken to be hopeless.
const PATIENCE: Duration = Duration::from_secs(30);
/// A bound on the rounds of one run: far more than any cascade needs, so that no cluster keeps a forecast from ending.
const ROUNDS_PER_OBJECT: u64 = 10_000;

/// A running simulation: a server that nobody but its control plane and the client with the intent writes to.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) plane: ControlPlane,
    /// Whether the bound on rounds was met.
    pub(crate) gave_up: bool,
}

impl World {
    pub(crate) fn new(
        mut server: ApiServer,
        catalog: Arc<Catalog>,
        assumptions: &Assumptions,
        now: Timestamp,
    ) -> Self {
        server.set_now(now);
        let plane = ControlPlane::alone(&mut server, catalog, assumptions.clone());
        Self {
            server,
            plane,
            gave_up: false,
        }
    }

    /// Forgets what was written so far and counts time from now on.
    pub(crate) fn forget(&mut self) {
        self.plane.steps.clear();
        self.plane.warnings.clear();
        self.plane.began = self.plane.now;
    }

    /// Lets everything happen until nothing is left but retries that change nothing.
    pub(crate) fn settle(&mut self) {
        let mut rounds = (self.server.revision() + 100).saturating_mul(ROUNDS_PER_OBJECT);
        while rounds > 0 {
            rounds -= 1;
            let retry_at = self.plane.pull(&mut self.server);
            if !self.plane.deliver(&mut self.server) && !self.pass(retry_at) {
                return;
            }
        }
        self.gave_up = true;
    }

    /// With nothing to do now: lets the others act, or time pass. Answers whether there was anything left to wait for.
    pub(crate) fn pass(&mut self, retry_at: Option<Timestamp>) -> bool {
        if self.plane.act(&mut self.server) {
            return true;
        }
        let Some(next) = self.next_time(retry_at) else {
            return false;
        };
        self.plane.now = next;
        self.server.set_now(next);
        self.plane.tell(Input::Tick);
        true
    }

    /// When to go on: at the next certain thing, or at the next retry while there is hope.
    fn next_time(&self, retry_at: Option<Timestamp>) -> Option<Timestamp> {
        let (certain, retry_beside) = self.plane.next_times(&self.server);
        let retries = retry_at.into_iter().chain(retry_beside);
        certain
            .into_iter()
            .chain(retries.filter(|&at| self.plane.has_hope(at)))
            .min()
            .map(|at| at.max(self.plane.now))
    }

    /// The client deletes an object.
    pub(crate) fn delete(
        &mut self,
        kind: KindId,
        object: ObjectRef,
        options: &kubegc_core::DeleteOptions,
        intent: usize,
    ) -> Response {
        self.plane.delete(&mut self.server, kind, object, options, intent)
    }
}
