//! The workers: which item each has in hand, what it is waiting for, and what becomes of the item in the end (rules W-2 to W-6).

use kubegc_core::Timestamp;

use super::Collector;
use crate::{
    Graph, NodeId,
    attempt::Context,
    backoff::Limiter,
    call::{Answer, Outcome, Step},
    delete, orphan,
    queue::WorkQueue,
    settings::Hardening,
};

/// One work queue with its limiter.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) items: WorkQueue,
    pub(super) limiter: Limiter,
}

impl Queue {
    /// Puts a node back to be tried again later. Takes over the caller's hold on the node; the limiter holds a node of its own while
    /// it counts failures.
    pub(super) fn add_rate_limited(&mut self, node: NodeId, now: Timestamp, graph: &mut Graph) {
        if self.limiter.failures(node) == 0 {
            graph.retain(node);
        }
        let delay = self.limiter.when(node, now);
        if !self.items.add_at(node, now.saturating_add(delay)) {
            graph.release(node);
        }
    }

    fn forget(&mut self, node: NodeId, graph: &mut Graph) {
        if self.limiter.failures(node) > 0 {
            self.limiter.forget(node);
            graph.release(node);
        }
    }
}

/// One item in a worker's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Delete(delete::Attempt),
    Orphan(Box<orphan::Attempt>),
}

/// Which of a work's requests an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    Only,
    Orphan(orphan::Lane),
}

impl Collector {
    /// Takes an item from a queue that has one and a worker free for it. Answers whether there was one.
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
        let (queue, workers) = if orphan {
            (
                &mut self.attempt_to_orphan,
                self.settings.attempt_to_orphan_workers,
            )
        } else {
            (
                &mut self.attempt_to_delete,
                self.settings.attempt_to_delete_workers,
            )
        };
        if queue.items.processing() >= workers as usize {
            return false;
        }
        let Some(node) = queue.items.pop() else {
            return false;
        };
        if self.running {
            self.begin(node, orphan);
        } else {
            // A worker takes its item first and finds out then that it has to wait (G-23).
            self.held.push_back((node, orphan));
        }
        true
    }

    /// Begins with an item that a worker has taken.
    fn begin(&mut self, node: NodeId, orphan: bool) {
        let work = if orphan {
            Work::Orphan(Box::new(orphan::Attempt::new(node)))
        } else {
            Work::Delete(delete::Attempt::new(node))
        };
        let at = self.works.iter().position(Option::is_none).unwrap_or_else(|| {
            self.works.push(None);
            self.works.len() - 1
        });
        self.works[at] = Some(work);
        if orphan {
            self.unfolding.push_back(at);
        } else {
            self.advance(at, None);
        }
    }

    /// Hands an answer to the work that asked.
    pub(super) fn resume(&mut self, at: usize, lane: Lane, answer: Answer) {
        match lane {
            Lane::Only => self.advance(at, Some(answer)),
            Lane::Orphan(lane) => {
                let Some(Work::Orphan(mut attempt)) = self.works[at].take() else {
                    return;
                };
                attempt.answer(&mut self.context(), lane, answer);
                self.works[at] = Some(Work::Orphan(attempt));
                self.unfold_later(at);
            }
        }
        self.settle_effects();
    }

    /// Goes on with a work whose pause is over.
    pub(super) fn wake(&mut self, at: usize) {
        match &self.works[at] {
            Some(Work::Delete(_)) => self.advance(at, None),
            Some(Work::Orphan(_)) => self.unfold_later(at),
            None => {}
        }
        self.settle_effects();
    }

    /// Has the first of the orphan works that may have something to ask say it. Answers whether there was one.
    pub(super) fn unfold(&mut self) -> bool {
        let Some(&at) = self.unfolding.front() else {
            return false;
        };
        let Some(Work::Orphan(mut attempt)) = self.works[at].take() else {
            self.unfolding.pop_front();
            return true;
        };
        let step = attempt.next(&mut self.context());
        let node = attempt.node();
        self.works[at] = Some(Work::Orphan(attempt));
        match step {
            // There may be more to ask: the work stays in front.
            orphan::Step::Ask(lane, ask) => self.asks.push_back((at, Lane::Orphan(lane), ask)),
            orphan::Step::Wait => {
                self.unfolding.pop_front();
            }
            orphan::Step::Sleep(wait) => {
                self.unfolding.pop_front();
                self.sleeping.insert((self.now.saturating_add(wait), at), ());
            }
            orphan::Step::Done(outcome) => {
                self.unfolding.pop_front();
                self.works[at] = None;
                self.conclude(node, outcome, true);
            }
        }
        self.settle_effects();
        true
    }

    fn unfold_later(&mut self, at: usize) {
        if !self.unfolding.contains(&at) {
            self.unfolding.push_back(at);
        }
    }

    fn advance(&mut self, at: usize, answer: Option<Answer>) {
        let Some(Work::Delete(mut attempt)) = self.works[at].take() else {
            return;
        };
        let step = attempt.next(&mut self.context(), answer);
        match step {
            Step::Ask(ask) => {
                self.asks.push_back((at, Lane::Only, ask));
                self.works[at] = Some(Work::Delete(attempt));
            }
            Step::Sleep(wait) => {
                self.sleeping.insert((self.now.saturating_add(wait), at), ());
                self.works[at] = Some(Work::Delete(attempt));
            }
            Step::Done(outcome) => self.conclude(attempt.node(), outcome, false),
        }
        self.settle_effects();
    }

    /// Rule W-6: what becomes of an item. The worker's hold on the node goes to the queue or is given up.
    fn conclude(&mut self, node: NodeId, outcome: Outcome, orphan: bool) {
        if self.settings.record_conclusions {
            self.conclusions
                .push((self.graph.identity(node), outcome.conclusion));
        }
        let queue = if orphan {
            &mut self.attempt_to_orphan
        } else {
            &mut self.attempt_to_delete
        };
        queue.items.done(node);
        if outcome.requeue {
            queue.add_rate_limited(node, self.now, &mut self.graph);
            return;
        }
        if self.settings.semantics.forget_retries {
            queue.forget(node, &mut self.graph);
        }
        self.graph.release(node);
    }

    fn context(&mut self) -> Context<'_> {
        Context {
            semantics: &self.settings.semantics,
            strict: self.settings.hardening == Hardening::Strict,
            graph: &mut self.graph,
            catalog: &self.catalog,
            absent: &mut self.absent,
            latest: &self.monitors,
            effects: &mut self.effects,
        }
    }
}
