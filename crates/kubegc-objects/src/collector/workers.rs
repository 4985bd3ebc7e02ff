//! The workers: the attempts in progress, and the outcome of each item ([W-2](crate::rules#w-2) to
//! [W-6](crate::rules#w-6)).

use kubegc_core::{ApiResource, ObjectRef, Timestamp, Uid, identity::split_api_version, version::behavior};

use super::{Collector, timers::Timer};
use crate::{
    attempt::{Context, delete, orphan},
    backoff::Limiter,
    graph::NodeId,
    queue::WorkQueue,
    request::{Lane, Outcome, Response, Step},
};

/// One work queue with its limiter.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) items: WorkQueue,
    pub(super) limiter: Limiter,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ActiveAttempt {
    Delete(delete::Attempt),
    Orphan(Box<orphan::Attempt>),
}

impl Collector {
    /// The queue of attemptToDelete or attemptToOrphan.
    pub(super) fn queue(&self, orphan: bool) -> &Queue {
        &self.queues[usize::from(orphan)]
    }

    pub(super) fn queue_mut(&mut self, orphan: bool) -> &mut Queue {
        &mut self.queues[usize::from(orphan)]
    }

    /// Requeues a node with a delay and takes over the caller's retain. The limiter retains the node as well
    /// while it counts failures.
    pub(super) fn enqueue_rate_limited(&mut self, node: NodeId, orphan: bool) {
        let now = self.now;
        let limiter = &mut self.queue_mut(orphan).limiter;
        let is_first = limiter.failures(node) == 0;
        let delay = limiter.when(node, now);
        if is_first {
            self.graph.retain(node);
        }
        if !self
            .timers
            .set(Timer::Retry { node, orphan }, now.saturating_add(delay))
        {
            self.graph.release(node);
        }
    }

    /// When the next attempt at an object starts, if the last one failed, and the number of failures since
    /// the last success.
    pub fn retry(&self, object: &Uid) -> Option<(Timestamp, u32)> {
        let node = self.graph.node(object)?;
        let at = self.timers.get(Timer::Retry { node, orphan: false })?;
        Some((at, self.queue(false).limiter.failures(node)))
    }

    /// Gives the longest delay to the retries of owners whose resource could not be listed, and to those of
    /// their dependents, as in a collector that has been running for long ([W-8](crate::rules#w-8)).
    ///
    /// # Complexity
    /// O(retries and their references); constant if all monitors are synced.
    pub fn age_retries(&mut self) {
        let unsynced = self.monitors.iter().filter(|(.., synced)| !synced);
        let unlisted: Vec<&ApiResource> = unsynced.map(|(_, resource, _)| resource).collect();
        if unlisted.is_empty() {
            return;
        }
        let graph = &self.graph;
        let is_unlisted = |node: NodeId| {
            let ObjectRef {
                api_version, kind, ..
            } = graph.identity(node);
            let (group, _) = split_api_version(&api_version);
            let mut unlisted = unlisted.iter();
            graph.is_virtual(node)
                && unlisted.any(|resource| resource.kind == kind && *resource.group == *group)
        };
        let is_owner_unlisted = |node: NodeId| {
            let mut owners = graph.owners(node);
            owners.any(|owner| graph.node(&owner.uid).is_some_and(is_unlisted))
        };
        let retried = self.timers.iter().filter_map(|(_, timer)| match timer {
            Timer::Retry { node, orphan: false } => Some(node),
            _ => None,
        });
        let aged: Vec<NodeId> = retried
            .filter(|&node| is_unlisted(node) || is_owner_unlisted(node))
            .collect();
        for node in aged {
            let limiter = &mut self.queues[0].limiter;
            // The limiter retains a node while it counts failures.
            if limiter.failures(node) == 0 {
                self.graph.retain(node);
            }
            let retry_at = self.now.saturating_add(limiter.exhaust(node));
            let timer = Timer::Retry { node, orphan: false };
            self.timers.cancel(timer);
            self.timers.set(timer, retry_at);
        }
    }

    /// Starts an item if a queue has one and a worker is free. Returns whether it did.
    pub(super) fn start_work(&mut self) -> bool {
        if self.running
            && let Some((node, orphan)) = self.held.pop_front()
        {
            self.begin(node, orphan);
            return true;
        }
        if !self.running && !self.pausing {
            return false;
        }
        let [first, second] = if self.orphan_next {
            [true, false]
        } else {
            [false, true]
        };
        let started = self.start_from(first) || self.start_from(second);
        self.orphan_next ^= started;
        started
    }

    fn start_from(&mut self, orphan: bool) -> bool {
        let workers = if orphan {
            self.settings.attempt_to_orphan_workers
        } else {
            self.settings.attempt_to_delete_workers
        };
        let queue = self.queue_mut(orphan);
        if queue.items.processing() >= workers as usize {
            return false;
        }
        let Some(node) = queue.items.pop() else {
            return false;
        };
        if self.running {
            self.begin(node, orphan);
        } else {
            // A worker takes its item before it notices the pause (G-23).
            self.held.push_back((node, orphan));
        }
        true
    }

    /// Starts an attempt for an item that a worker has taken.
    fn begin(&mut self, node: NodeId, orphan: bool) {
        let work = if orphan {
            ActiveAttempt::Orphan(Box::new(orphan::Attempt::new(node)))
        } else {
            ActiveAttempt::Delete(delete::Attempt::new(node))
        };
        let at = self.attempts.iter().position(Option::is_none).unwrap_or_else(|| {
            self.attempts.push(None);
            self.attempts.len() - 1
        });
        self.attempts[at] = Some(work);
        if orphan {
            self.orphans_to_poll.push_back(at);
        } else {
            self.advance(at, None);
        }
    }

    /// Passes a response to its attempt.
    pub(super) fn resume(&mut self, at: usize, lane: Lane, response: Response) {
        match self.attempts[at].take() {
            Some(ActiveAttempt::Orphan(mut attempt)) => {
                attempt.handle_response(&mut self.context(), lane, response);
                self.attempts[at] = Some(ActiveAttempt::Orphan(attempt));
                self.poll_orphan_later(at);
            }
            deleting => {
                self.attempts[at] = deleting;
                self.advance(at, Some(response));
            }
        }
        self.apply_effects();
    }

    /// Resumes an attempt whose pause is over.
    pub(super) fn wake(&mut self, at: usize) {
        match &self.attempts[at] {
            Some(ActiveAttempt::Delete(_)) => self.advance(at, None),
            Some(ActiveAttempt::Orphan(_)) => self.poll_orphan_later(at),
            None => {}
        }
        self.apply_effects();
    }

    /// Polls the first orphan attempt that may have a request. Returns whether there was one.
    pub(super) fn poll_orphans(&mut self) -> bool {
        let Some(&at) = self.orphans_to_poll.front() else {
            return false;
        };
        let Some(ActiveAttempt::Orphan(mut attempt)) = self.attempts[at].take() else {
            self.orphans_to_poll.pop_front();
            return true;
        };
        let step = attempt.next(&mut self.context());
        let node = attempt.node();
        self.attempts[at] = Some(ActiveAttempt::Orphan(attempt));
        // After a request more can follow: the attempt stays at the front.
        if !matches!(step, Step::Request(..)) {
            self.orphans_to_poll.pop_front();
        }
        self.follow(at, node, step, true);
        true
    }

    /// Carries out the step of an attempt.
    fn follow(&mut self, at: usize, node: NodeId, step: Step, orphan: bool) {
        match step {
            Step::Request(lane, request) => self.requests.push_back((at, lane, request)),
            Step::Wait => {}
            Step::Sleep(wait) => {
                let until = self.now.saturating_add(wait);
                self.timers.set(Timer::Resume(at as u32), until);
            }
            Step::Done(outcome) => {
                self.attempts[at] = None;
                self.conclude(node, outcome, orphan);
            }
        }
        self.apply_effects();
    }

    fn poll_orphan_later(&mut self, at: usize) {
        if !self.orphans_to_poll.contains(&at) {
            self.orphans_to_poll.push_back(at);
        }
    }

    fn advance(&mut self, at: usize, response: Option<Response>) {
        let Some(ActiveAttempt::Delete(mut attempt)) = self.attempts[at].take() else {
            return;
        };
        let step = attempt.next(&mut self.context(), response);
        let node = attempt.node();
        self.attempts[at] = Some(ActiveAttempt::Delete(attempt));
        self.follow(at, node, step, false);
    }

    /// [W-6](crate::rules#w-6) and [W-3](crate::rules#w-3): requeues or drops an item. The worker's retain of
    /// the node passes to the queue or ends.
    fn conclude(&mut self, node: NodeId, outcome: Outcome, orphan: bool) {
        if self.settings.record_conclusions {
            self.conclusions
                .push((self.graph.identity(node), outcome.conclusion));
        }
        self.queue_mut(orphan).items.done(node);
        if outcome.requeue {
            self.enqueue_rate_limited(node, orphan);
            return;
        }
        let forgets = self.settings.version.has(behavior::RETRIES_ARE_FORGOTTEN);
        let limiter = &mut self.queue_mut(orphan).limiter;
        if forgets && limiter.failures(node) > 0 {
            limiter.forget(node);
            self.graph.release(node);
        }
        self.graph.release(node);
    }

    fn context(&mut self) -> Context<'_> {
        Context {
            version: self.settings.version,
            strict: self.settings.is_strict(),
            graph: &mut self.graph,
            catalog: &self.catalog,
            absent: &mut self.absent,
            latest: &self.monitors,
            effects: &mut self.effects,
        }
    }
}
