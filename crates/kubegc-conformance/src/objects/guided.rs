//! Searches for a run that makes exactly the recorded writes in the recorded order, with the recorded state
//! at every checkpoint.
//!
//! A run is searched from write to write. Of the possible steps, the one whose write is next in the recording
//! is preferred, and writes that are recorded later are delayed. Everything else (how far the client is
//! ahead, which resource's changes are late, which read is slow) is a random choice with *weights* that are
//! drawn for each try: if a try contradicts the recording, the segment since the last write is tried again
//! with other weights, and after some tries the segments before it.
//!
//! Recordings list writes in the order in which they *arrived* at the server. One that arrived may take
//! effect a little later, after others.

use std::time::Duration;

use kubegc_core::Timestamp;
use kubegc_sim::rng::Rng;

use super::{
    client::{CHECKPOINTS, END},
    compare,
    format::{self, Plan},
    world::{World, Write},
};
use crate::{Failure, failure::equal};

/// Maximum number of steps of the world that are tried for one recorded sequence.
pub(super) const STEPS_MAX: usize = 1_000_000;
/// Number of tries of a segment after which the one before it is tried again.
const TRIES_MAX: usize = 8;
/// Number of tries that all end with the same difference, after which no other end is expected.
const EQUAL_FAILURES_MAX: usize = 10_000;
/// Maximum time from one write to the next.
const SEGMENT_TIME_MAX: Duration = Duration::from_secs(120);

pub(super) fn find(start: &World<'_>, plan: &Plan<'_>, seed: u64) -> Result<usize, Failure> {
    let mut rng = Rng::new(seed);
    let mut steps = 0;
    let mut stack = vec![Segment {
        from: start.clone(),
        events: Vec::new(),
        tries: 0,
    }];
    // The failure of the try that reached the most writes.
    let mut furthest: Option<((usize, usize), Failure)> = None;
    let (mut failures, mut retreats) = (0, 0_u32);
    let mut last: Option<Failure> = None;
    let mut equal_failures = 0;
    while steps < STEPS_MAX && equal_failures < EQUAL_FAILURES_MAX {
        let height = stack.len();
        let Some(segment) = stack.last_mut() else { break };
        if segment.tries >= TRIES_MAX && height > 1 {
            // 1, 2, 1, 4, 1, 2, 1, 8 … segments: mostly few, sometimes all of them.
            retreats += 1;
            let back = 1_usize << retreats.trailing_zeros().min(16);
            stack.truncate(height.saturating_sub(back).max(1));
            if let Some(segment) = stack.last_mut() {
                segment.tries = 0;
            }
            continue;
        }
        let mut run = Run {
            weights: Weights::draw(&mut rng, failures, segment.from.queues.len()),
            world: segment.from.clone(),
            level: segment.events.len(),
            events: segment.events.clone(),
            plan,
        };
        segment.tries += 1;
        match run.play(&mut rng, &mut steps) {
            Ok(true) => return Ok(steps),
            Ok(false) => stack.push(Segment {
                from: run.world,
                events: run.events,
                tries: 0,
            }),
            Err(failure) => {
                failures += 1;
                if last.as_ref() == Some(&failure) {
                    equal_failures += 1;
                } else {
                    equal_failures = 0;
                    last = Some(failure.clone());
                }
                let reached = (run.level, run.world.writes.len());
                if furthest.as_ref().is_none_or(|(known, _)| reached > *known) {
                    let (level, write) = reached;
                    let place =
                        format!("no run found; the furthest ended at checkpoint {level}, write {write}");
                    let mut failure = failure.within(place);
                    failure.got = format!("{}\n{}", failure.got, run.world.describe());
                    furthest = Some((reached, failure));
                }
            }
        }
    }
    Err(furthest.map_or_else(
        || Failure::new("guided run", "a run", format!("none in {steps} steps")),
        |(_, failure)| failure,
    ))
}

/// A part of a run, up to the next write or checkpoint, which is tried until it matches.
struct Segment<'a> {
    from: World<'a>,
    /// The events of the checkpoints before.
    events: Vec<Vec<String>>,
    tries: usize,
}

struct Run<'a, 'p> {
    world: World<'a>,
    events: Vec<Vec<String>>,
    weights: Weights,
    level: usize,
    plan: &'p Plan<'p>,
}

/// The weights of the kinds of steps in a random choice.
struct Weights {
    /// Whether the step with the greatest weight is always taken.
    is_strict: bool,
    read: f64,
    poll: f64,
    client: f64,
    time: f64,
    /// A write that arrives takes effect at once, or later.
    at_once: f64,
    later: f64,
    /// Whether writes that remove an object wait for later recorded writes to the same object.
    is_patient: bool,
    queues: Vec<f64>,
}

impl Weights {
    /// Strict until something fails, and sometimes after that.
    fn draw(rng: &mut Rng, failures: usize, queues: usize) -> Self {
        let kind = match failures {
            0 | 1 => failures as u64,
            _ => rng.below(6),
        };
        let mut pick = |from: &[f64]| from[rng.below(from.len() as u64) as usize];
        let strict = Self {
            is_strict: true,
            read: 8.0,
            poll: 6.0,
            client: 4.0,
            time: 0.1,
            at_once: 9.0,
            later: 0.0,
            is_patient: false,
            queues: vec![7.0; queues],
        };
        match kind {
            0 => strict,
            1 => Self {
                read: 6.0,
                poll: 4.0,
                client: 8.0,
                ..strict
            },
            _ => Self {
                is_strict: false,
                read: pick(&[0.1, 1.0, 4.0]),
                poll: pick(&[0.1, 1.0, 4.0]),
                client: pick(&[0.05, 0.5, 4.0]),
                time: pick(&[0.0, 0.0, 0.02, 0.3]),
                at_once: pick(&[9.0, 9.0, 1.0]),
                later: pick(&[0.0, 0.0, 0.2, 1.0]),
                is_patient: pick(&[0.0, 1.0]) > 0.5,
                queues: (0..queues).map(|_| pick(&[0.03, 0.3, 2.0, 6.0])).collect(),
            },
        }
    }
}

#[derive(Clone, Copy)]
enum Move {
    /// A call arrives and takes effect.
    Commit(usize),
    /// A write arrives, and takes effect later; or it is checked, and removes its object later.
    Arrive {
        at: usize,
        is_checked: bool,
    },
    Deliver(usize),
    Poll,
    Client,
    Namespaces,
    Time(Timestamp),
}

impl Run<'_, '_> {
    /// Runs up to the next write or checkpoint. Returns whether that was the end of the script.
    fn play(&mut self, rng: &mut Rng, steps: &mut usize) -> Result<bool, Failure> {
        let writes = self.world.writes.len();
        let patience = self.world.now.saturating_add(SEGMENT_TIME_MAX);
        loop {
            if self.world.writes.len() > writes {
                return Ok(false);
            }
            *steps += 1;
            if *steps >= STEPS_MAX {
                return Err(Failure::new(
                    "guided run",
                    "an end",
                    format!("none after {STEPS_MAX} steps"),
                ));
            }
            let op = self.world.op();
            if op == END && self.world.client.ready_at <= self.world.now {
                return self.end().map(|()| true);
            }
            let expected = self
                .plan
                .sequence
                .get(self.level)
                .ok_or_else(|| Failure::new("checkpoints", "no further one", "one more"))?;
            let next = expected.get(self.world.writes.len());
            if CHECKPOINTS.contains(&op)
                && next.is_none()
                && (op != "wait" || self.world.is_silent())
                && self.world.calls.iter().all(|call| call.arrived.is_none())
            {
                self.checkpoint()?;
                return Ok(false);
            }
            self.rule_out_unrecorded_writes()?;
            let moves = self.moves(next)?;
            let Some(step) = self.choose(&moves, rng) else {
                let expected = next.map_or("silence", String::as_str);
                return Err(Failure::new(
                    "next write",
                    expected,
                    "nothing is possible any more",
                ));
            };
            self.carry_out(step, rng)?;
            if self.world.now > patience {
                return Err(Failure::new(
                    "next write",
                    next.map_or("silence", String::as_str),
                    format!("nothing for {SEGMENT_TIME_MAX:?}"),
                ));
            }
        }
    }

    fn choose(&self, moves: &[(Move, f64)], rng: &mut Rng) -> Option<Move> {
        if self.weights.is_strict {
            let best = moves
                .iter()
                .filter(|(_, weight)| *weight > 0.0)
                .reduce(|best, step| if step.1 > best.1 { step } else { best });
            return best.map(|(step, _)| *step);
        }
        let total: f64 = moves.iter().map(|(_, weight)| weight).sum();
        let mut left = total * (rng.below(1 << 30) as f64 / f64::from(1 << 30));
        for (step, weight) in moves {
            left -= weight;
            if left < 0.0 && *weight > 0.0 {
                return Some(*step);
            }
        }
        moves
            .iter()
            .find(|(_, weight)| *weight > 0.0)
            .map(|(step, _)| *step)
    }

    fn moves(&self, next: Option<&String>) -> Result<Vec<(Move, f64)>, Failure> {
        let world = &self.world;
        let mut moves = Vec::new();
        let calls_before = next.and_then(|_| self.plan.client_calls_before(self.level, world.writes.len()));
        let client_is_late = calls_before.is_some_and(|calls| world.client.calls.len() < calls);
        for (at, call) in world.calls.iter().enumerate() {
            let Some(intent) = world.intent(call) else {
                moves.push((Move::Commit(at), self.weights.read));
                continue;
            };
            let is_early =
                || self.weights.is_patient && self.is_needed_later(&intent) && world.would_remove(call);
            if let Some(arrived) = call.arrived {
                // It takes effect when its response would be the recorded one.
                let recorded = self.plan.sequence[self.level].get(arrived);
                if recorded.is_some_and(|recorded| recorded.ends_with(&format!(" {}", world.code_of(call)))) {
                    let weight = if is_early() { 0.02 } else { 2.0 * self.weights.read };
                    moves.push((Move::Commit(at), weight));
                }
                continue;
            }
            let code = next
                .and_then(|next| next.strip_prefix(&*intent))
                .and_then(|code| code.strip_prefix(' '));
            let Some(code) = code else { continue };
            let weight = if client_is_late { 0.05 } else { 1.0 };
            let (at_once, later) = if is_early() {
                (0.1, 9.0)
            } else {
                (self.weights.at_once, self.weights.later)
            };
            if *code == world.code_of(call).to_string() {
                moves.push((Move::Commit(at), weight * at_once));
            }
            if later > 0.0 {
                let is_checkable = code == "200" && world.is_checkable(call);
                for is_checked in [false, true].into_iter().take(1 + usize::from(is_checkable)) {
                    moves.push((Move::Arrive { at, is_checked }, weight * later));
                }
            }
        }
        for queue in 0..world.queues.len() {
            if world.is_behind(queue) {
                // Of equal queues, the one with the oldest change.
                let revision = world.next_event(queue).map_or(0, |event| event.revision);
                let age = 1.0 / (2.0 + revision as f64);
                moves.push((
                    Move::Deliver(queue),
                    self.weights.queues.get(queue).copied().unwrap_or(1.0) * (1.0 + age / 10.0),
                ));
            }
        }
        if world.can_poll {
            moves.push((Move::Poll, self.weights.poll));
        }
        if world.namespaces.next_at().is_some_and(|at| at <= world.now) {
            moves.push((Move::Namespaces, 2.0));
        }
        if world.client.ready_at <= world.now {
            let weight = match calls_before {
                Some(_) if client_is_late => 8.5,
                Some(_) => self.weights.client * 0.2,
                None => self.weights.client,
            };
            let is_listing =
                world.collector.is_some() && !(0..world.queues.len()).all(|queue| world.is_listed(queue));
            match world.op() {
                END | "wait" | "snapshot" => {}
                "start-gc" if is_listing => {}
                _ => moves.push((Move::Client, weight)),
            }
        }
        if let Some(due) = world.next_due() {
            moves.push((
                Move::Time(due),
                if moves.is_empty() { 1.0 } else { self.weights.time },
            ));
        }
        Ok(moves)
    }

    /// Whether the client's next request is for the same object, or a later recorded write found it.
    fn is_needed_later(&self, intent: &str) -> bool {
        let alias = |text: &str| text.split(' ').nth(1).map(ToOwned::to_owned);
        let own = self.world.writes.len();
        let left = self.plan.sequence[self.level].iter().enumerate().skip(own);
        let mut left = left.filter(|&(at, text)| at > own || !text.starts_with(intent));
        self.world
            .client
            .next_alias(self.world.scene)
            .map(ToOwned::to_owned)
            == alias(intent)
            || left.any(|(_, text)| text.ends_with(" 200") && alias(text) == alias(intent))
    }

    fn carry_out(&mut self, step: Move, rng: &mut Rng) -> Result<(), Failure> {
        match step {
            Move::Commit(at) => {
                let before = self.world.writes.len();
                self.world.arrive(at);
                if self.world.writes.len() > before {
                    self.compare_body(before)?;
                }
                let committed = self.world.commit(at);
                self.world.respond(committed)
            }
            Move::Arrive { at, is_checked } => {
                self.world.arrive(at);
                if is_checked {
                    self.world.check(at);
                }
                self.compare_body(self.world.writes.len() - 1)
            }
            Move::Deliver(queue) => self.world.deliver(queue),
            Move::Poll => {
                self.world.poll();
                Ok(())
            }
            Move::Client => {
                self.world.namespaces.shuffle(rng.bits());
                self.client()
            }
            Move::Namespaces => {
                self.world.namespaces.step(&mut self.world.server, self.world.now);
                Ok(())
            }
            Move::Time(until) => self.world.advance_to(until),
        }
    }

    fn client(&mut self) -> Result<(), Failure> {
        match self.world.op() {
            "stop-gc" => {
                self.world.stop_gc();
                self.world.client.advance();
            }
            "start-gc" if self.world.collector.is_none() => {
                self.world.start_gc()?;
                self.weights.queues.resize(self.world.queues.len(), 1.0);
            }
            "start-gc" => self.world.client.advance(),
            _ => {
                let before = self.world.client.calls.len();
                self.world.request();
                let calls = &self.world.client.calls;
                if let (Some(first), Some(call)) = (self.plan.first, calls.get(before)) {
                    let recorded = first.calls_by_client.as_ref().and_then(|calls| calls.get(before));
                    compare::client_call(recorded, call)?;
                }
            }
        }
        Ok(())
    }

    /// A write that the recording never shows cannot be delayed without end: the run would never become
    /// silent.
    fn rule_out_unrecorded_writes(&self) -> Result<(), Failure> {
        let world = &self.world;
        if world.calls.is_empty() {
            return Ok(());
        }
        let waiting = world.calls.iter().filter(|call| call.arrived.is_none());
        let intents: Vec<String> = waiting.filter_map(|call| world.intent(call)).collect();
        let levels = match world.client.next_barrier(world.scene) {
            // Requests in flight when the collector is stopped never arrive.
            "stop-gc" => return Ok(()),
            "wait" => &self.plan.sequence[self.level..=self.level],
            _ => &self.plan.sequence[self.level..],
        };
        let left = || levels.iter().flatten().skip(world.writes.len());
        for (at, intent) in intents.iter().enumerate() {
            let is_it = |text: &&String| {
                text.strip_prefix(&**intent)
                    .is_some_and(|code| code.starts_with(' '))
            };
            let same_before = intents[..at].iter().filter(|other| *other == intent).count();
            if left().filter(is_it).count() <= same_before {
                let expected: Vec<&str> = left().map(String::as_str).collect();
                return Err(Failure::new(
                    "a write is in flight that the recording does not show",
                    expected.join("\n"),
                    intent.as_str(),
                ));
            }
        }
        Ok(())
    }

    /// The bodies of the first run are recorded.
    fn compare_body(&self, at: usize) -> Result<(), Failure> {
        let Some(first) = self.plan.first else {
            return Ok(());
        };
        let Write { text, body, .. } = &self.world.writes[at];
        let recorded = first
            .checkpoints
            .get(self.level)
            .and_then(|checkpoint| checkpoint.gc_writes.get(at));
        equal(
            &format!("body of {text}"),
            &recorded.map(format::Write::shown_body).unwrap_or_default(),
            body,
        )
    }

    fn checkpoint(&mut self) -> Result<(), Failure> {
        let world = &mut self.world;
        let got = compare::state(world.scene, &world.server);
        let Some(&expected) = self.plan.states.get(self.level) else {
            return Err(Failure::new("checkpoints", "no further one", "one more"));
        };
        if *expected != got {
            let (expected, got) = compare::state_difference(expected, &got);
            return Err(Failure::new("state", expected, got));
        }
        let mut events = std::mem::take(&mut world.events);
        events.sort();
        self.events.push(events);
        self.compare_events()?;
        let world = &mut self.world;
        world.writes.clear();
        if world.op() == "wait" {
            let silent_at = world.last_call_at.saturating_add(super::world::SILENCE);
            world.advance_to(silent_at)?;
        }
        world.client.advance();
        Ok(())
    }

    /// Events so far must be those of one of the recorded variants.
    fn compare_events(&self) -> Result<(), Failure> {
        let Some(first) = self.plan.first else {
            return Ok(());
        };
        let variants = first.event_variants();
        let fits = |variant: &Vec<Vec<String>>| {
            variant.len() >= self.events.len() && variant[..self.events.len()] == self.events
        };
        if variants.iter().any(fits) {
            return Ok(());
        }
        Err(Failure::new(
            "events",
            format!("one of {variants:?}"),
            format!("{:?}", self.events),
        ))
    }

    fn end(&self) -> Result<(), Failure> {
        let missing = self.plan.sequence.len().saturating_sub(self.level);
        if missing > 0 {
            return Err(Failure::new(
                "checkpoints",
                format!("{missing} more"),
                "the script is over",
            ));
        }
        if let Some(calls) = self.plan.first.and_then(|first| first.calls_by_client.as_ref()) {
            equal(
                "calls of the client",
                &calls.len(),
                &self.world.client.calls.len(),
            )?;
        }
        Ok(())
    }
}
