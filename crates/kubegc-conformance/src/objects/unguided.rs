//! Runs a scenario without guidance, on a seeded schedule without long delays, and returns the final state.
//!
//! Changes of one resource are delivered in order, 0 to 5 ms after their commit; calls take 1 to 5 ms; the
//! client continues 1 ms after each response; silence is 1.6 s without a call of the collector. As in the
//! recorded cluster most delays are short and few are long: each is the minimum of several uniform draws. A
//! read returns the state after a third of its duration, a write takes effect after two thirds.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kubegc_core::{PatchType, Timestamp};
use kubegc_objects::{Operation, collector::CallId};
use kubegc_sim::rng::Rng;
use serde_json::Value;

use super::{
    client::END,
    compare,
    world::{Committed, SILENCE, World, Write},
};
use crate::Failure;

/// More steps than any recorded scenario needs.
const STEPS_MAX: usize = 100_000;

/// Number of draws of which a delay is the minimum. The client is a little slower than the collector.
const DRAWS: u32 = 4;
const DRAWS_CLIENT: u32 = 3;

/// The state and writes of a run at one checkpoint.
pub(super) struct Seen {
    pub(super) state: Value,
    /// The distinct writes, except for responses 404 and 409.
    pub(super) writes: BTreeSet<String>,
}

/// The writes that count when schedules are compared.
pub(super) fn distinct<'a>(writes: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
    writes
        .into_iter()
        .filter(|write| !write.ends_with(" 404") && !write.ends_with(" 409"))
        .cloned()
        .collect()
}

enum Due {
    Deliver(usize),
    /// A call takes effect; its response needs this long.
    Commit(CallId, Duration),
    Response(Committed),
    Client,
    Namespaces,
}

struct Run<'a> {
    world: World<'a>,
    rng: Rng,
    /// Future events, by time and order of arrival.
    due: BTreeMap<(Timestamp, u64), Due>,
    arrivals: u64,
    /// By queue: up to which revision deliveries are scheduled, and when the last one is due.
    scheduled: Vec<(u64, Timestamp)>,
    waiting_since: Timestamp,
    seen: Vec<Seen>,
}

/// Plays the scenario to its end.
pub(super) fn play(start: &World<'_>, seed: u64) -> Result<Vec<Seen>, Failure> {
    let world = start.clone();
    let now = world.now;
    let mut run = Run {
        scheduled: world.queues.iter().map(|queue| (queue.cursor, now)).collect(),
        world,
        rng: Rng::new(seed),
        due: BTreeMap::new(),
        arrivals: 0,
        waiting_since: now,
        seen: Vec::new(),
    };
    run.world.namespaces.shuffle(run.rng.bits());
    run.schedule(now, Due::Client);
    for _ in 0..STEPS_MAX {
        run.poll();
        if run.world.op() == END {
            return Ok(run.seen);
        }
        if !run.step()? {
            return Err(Failure::new("unguided run", "an end", "nothing is due"));
        }
    }
    Err(Failure::new(
        "unguided run",
        "an end",
        format!("none after {STEPS_MAX} steps"),
    ))
}

impl Run<'_> {
    fn step(&mut self) -> Result<bool, Failure> {
        let next = self.due.first_key_value().map(|(&(at, _), _)| at);
        let by_itself = self.world.next_due();
        let silent_at = (self.world.op() == "wait" && self.world.calls.is_empty()).then(|| {
            self.world
                .last_call_at
                .max(self.waiting_since)
                .max(self.world.client.ready_at)
                .saturating_add(SILENCE)
        });
        let Some(at) = next.into_iter().chain(by_itself).chain(silent_at).min() else {
            return Ok(false);
        };
        self.world.advance_to(at)?;
        if next == Some(at) {
            let Some((_, due)) = self.due.pop_first() else {
                return Ok(false);
            };
            self.carry_out(due)?;
        } else if silent_at == Some(at) && by_itself != Some(at) {
            self.checkpoint();
        } else if self.world.namespaces.next_at().is_some_and(|due| due <= at) {
            self.namespaces();
        }
        Ok(true)
    }

    /// Polls all output of the collector; its calls are sent at once.
    fn poll(&mut self) {
        while self.world.can_poll {
            let before = self.world.calls.len();
            self.world.poll();
            if let Some(call) = self.world.calls.get(before) {
                let is_custom = self.world.server.catalog()[call.call.request.kind].custom;
                let (call, request) = (call.call.id, call.call.request.operation.clone());
                let third = self.millis(1, 5, DRAWS) / 3;
                let (there, back) = match request {
                    Operation::Get => (third, third * 2),
                    // Refused by its media type, before anything is looked up.
                    Operation::Patch {
                        format: PatchType::Strategic,
                        ..
                    } if is_custom => (third, Duration::ZERO),
                    Operation::Patch { .. } | Operation::Delete { .. } | Operation::Put { .. } => {
                        (third * 2, third)
                    }
                };
                self.schedule(self.world.now.saturating_add(there), Due::Commit(call, back));
            }
        }
    }

    fn carry_out(&mut self, due: Due) -> Result<(), Failure> {
        match due {
            Due::Deliver(queue) => {
                if queue < self.world.queues.len() {
                    let is_list = !self.world.is_listed(queue);
                    self.world.deliver(queue)?;
                    while is_list && !self.world.is_listed(queue) {
                        self.world.deliver(queue)?;
                    }
                    self.scheduled[queue].0 = self.scheduled[queue].0.max(self.world.queues[queue].cursor);
                    self.notice_changes();
                }
            }
            Due::Commit(call, back) => {
                // The calls of a stopped collector are dropped.
                if let Some(at) = self.world.calls.iter().position(|known| known.call.id == call) {
                    let committed = self.world.commit(at);
                    self.notice_changes();
                    self.schedule(self.world.now.saturating_add(back), Due::Response(committed));
                }
            }
            Due::Response(committed) => {
                if self.world.collector.is_some() {
                    self.world.respond(committed)?;
                }
            }
            Due::Client => self.client()?,
            Due::Namespaces => self.namespaces(),
        }
        Ok(())
    }

    fn client(&mut self) -> Result<(), Failure> {
        let soon = self.world.now.saturating_add(Duration::from_millis(1));
        match self.world.op() {
            END => {}
            // Silence brings the client on.
            "wait" => self.waiting_since = self.world.now,
            "snapshot" => self.checkpoint(),
            "stop-gc" => {
                self.world.stop_gc();
                self.due
                    .retain(|_, due| matches!(due, Due::Client | Due::Namespaces));
                self.scheduled.clear();
                self.world.client.advance();
                self.schedule(self.world.now, Due::Client);
            }
            "start-gc" if self.world.collector.is_none() => {
                self.world.start_gc()?;
                self.scheduled = vec![(u64::MAX, self.world.now); self.world.queues.len()];
                for queue in 0..self.world.queues.len() {
                    let at = self.world.now.saturating_add(self.millis(0, 5, DRAWS));
                    self.scheduled[queue] = (0, at);
                    self.schedule(at, Due::Deliver(queue));
                }
                self.schedule(soon, Due::Client);
            }
            "start-gc" => {
                if (0..self.world.queues.len()).all(|queue| self.world.is_listed(queue)) {
                    self.world.client.advance();
                    self.waiting_since = self.world.now;
                }
                self.schedule(soon, Due::Client);
            }
            _ => {
                self.world.request();
                self.notice_changes();
                // The response comes, and a millisecond later the next request leaves and takes its way.
                let pause = self.millis(1, 5, DRAWS_CLIENT) + Duration::from_millis(1);
                let at = self.world.now.saturating_add(pause);
                let at = at.max(self.world.client.ready_at);
                self.waiting_since = at;
                self.schedule(at, Due::Client);
            }
        }
        Ok(())
    }

    fn namespaces(&mut self) {
        self.world.namespaces.step(&mut self.world.server, self.world.now);
        self.notice_changes();
        if self
            .world
            .namespaces
            .next_at()
            .is_some_and(|at| at <= self.world.now)
        {
            let pause = self.millis(1, 5, DRAWS);
            self.schedule(self.world.now.saturating_add(pause), Due::Namespaces);
        }
    }

    fn checkpoint(&mut self) {
        let writes = std::mem::take(&mut self.world.writes);
        self.seen.push(Seen {
            state: compare::state(self.world.scene, &self.world.server),
            writes: distinct(writes.iter().map(|Write { text, .. }| text)),
        });
        self.world.client.advance();
        self.schedule(
            self.world.now.saturating_add(Duration::from_millis(1)),
            Due::Client,
        );
    }

    /// Schedules the delivery of the changes committed since the last call.
    fn notice_changes(&mut self) {
        for queue in 0..self.world.queues.len() {
            if !self.world.is_listed(queue) {
                continue;
            }
            let (revision, last) = self.scheduled[queue];
            let kind = self.world.queues[queue].kind;
            let Ok(events) = self.world.server.events_since(kind, revision) else {
                continue;
            };
            let new: Vec<u64> = events.map(|event| event.revision).collect();
            let mut last = last;
            for revision in new {
                let delay = self.millis(0, 5, DRAWS);
                last = last.max(self.world.now.saturating_add(delay));
                self.scheduled[queue] = (revision, last);
                self.schedule(last, Due::Deliver(queue));
            }
        }
    }

    fn millis(&mut self, from: u64, to: u64, draws: u32) -> Duration {
        let spread = (to - from) * 1000 + 1;
        let least = (0..draws).map(|_| self.rng.below(spread)).min();
        Duration::from_micros(from * 1000 + least.unwrap_or_default())
    }

    fn schedule(&mut self, at: Timestamp, due: Due) {
        self.arrivals += 1;
        self.due.insert((at, self.arrivals), due);
    }
}
