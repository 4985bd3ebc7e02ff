//! The resumable face of the release of dependents: asks for patches side by side and goes on with the answers.

use std::{collections::BTreeMap, hash::Hash, sync::Arc, time::Duration};

use kubegc_core::{ObjectRef, metadata};

use crate::{
    Graph, NodeId,
    attempt::{
        Context, Target,
        finalizer::{Removal, Removing},
        patching::{Change, Patched, Patching},
    },
    call::{Answer, Ask, AttemptError, Conclusion, Outcome},
    reason::Reason,
};

/// Tells the requests of one orphan attempt apart: each dependent has a lane, and the owner has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(u32);

/// The lane of the owner itself.
const OWNER: Lane = Lane(u32::MAX);

/// What an orphan attempt wants next.
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever drives an attempt must handle each"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Perform this request and hand its answer in, with the lane. There may be more to ask at once.
    Ask(Lane, Ask),
    /// Only answers help.
    Wait,
    /// Go on after this long.
    Sleep(Duration),
    /// The attempt is over.
    Done(Outcome),
}

/// One owner whose dependents are being released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    node: NodeId,
    owner: Option<Arc<ObjectRef>>,
    dependents: Vec<NodeId>,
    /// The next dependent to begin with.
    begun: usize,
    under_way: BTreeMap<Lane, Patching>,
    /// Requests that follow from answers.
    ready: Vec<(Lane, Ask)>,
    failed: usize,
    first_failure: Option<AttemptError>,
    removing: Option<Removing>,
    pause: Pause,
    outcome: Option<Outcome>,
}

/// The wait after a conflict: asked for, then slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pause {
    None,
    Wanted(Duration),
    Sleeping,
}

impl Attempt {
    /// Begins with a node of the graph. Whoever drives the attempt holds the node until it is done.
    #[must_use]
    pub const fn new(node: NodeId) -> Self {
        Self {
            node,
            owner: None,
            dependents: Vec::new(),
            begun: 0,
            under_way: BTreeMap::new(),
            ready: Vec::new(),
            failed: 0,
            first_failure: None,
            removing: None,
            pause: Pause::None,
            outcome: None,
        }
    }

    /// The node.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// What of the attempt decides how it goes on, without positions of nodes.
    pub(crate) fn digest(&self, graph: &Graph, hasher: &mut impl std::hash::Hasher) {
        for &dependent in &self.dependents[self.begun.min(self.dependents.len())..] {
            graph.identity(dependent).hash(hasher);
        }
        (
            &self.under_way,
            &self.ready,
            self.failed,
            &self.removing,
            self.pause,
        )
            .hash(hasher);
    }

    /// Says what to do next. Dependents are begun with one by one, so a driver that is busy simply stops asking.
    #[must_use]
    pub fn next(&mut self, context: &mut Context<'_>) -> Step {
        if let Some(outcome) = &self.outcome {
            return Step::Done(outcome.clone());
        }
        if self.owner.is_none() {
            self.begin(context);
        }
        if let Some((lane, ask)) = self.ready.pop() {
            return Step::Ask(lane, ask);
        }
        match self.pause {
            Pause::None => {}
            Pause::Wanted(wait) => {
                self.pause = Pause::Sleeping;
                return Step::Sleep(wait);
            }
            Pause::Sleeping => {
                self.pause = Pause::None;
                return self.finalize(context, None);
            }
        }
        while let Some(&dependent) = self.dependents.get(self.begun) {
            let lane = Lane(self.begun as u32);
            self.begun += 1;
            let identity = context.graph.identity(dependent);
            context.graph.release(dependent);
            if let Some(ask) = self.release(lane, &identity, context) {
                return Step::Ask(lane, ask);
            }
        }
        if !self.under_way.is_empty() {
            return Step::Wait;
        }
        if let Some(first) = self.first_failure.take() {
            let owner = self
                .owner
                .as_deref()
                .cloned()
                .unwrap_or_else(|| context.graph.identity(self.node));
            let (dependents, failed) = (self.dependents.len(), self.failed);
            return self.finish(Err(AttemptError::Orphaning {
                owner,
                dependents,
                failed,
                first: Box::new(first),
            }));
        }
        if self.removing.is_none() {
            return match Target::of(context, &context.graph.identity(self.node)) {
                Ok(target) => {
                    self.removing = Some(Removing::new(
                        target,
                        metadata::FINALIZER_ORPHAN,
                        Reason::DependentsReleased,
                    ));
                    self.finalize(context, None)
                }
                Err(error) => self.finish(Err(error)),
            };
        }
        Step::Wait
    }

    /// Takes the answer to one request. The next call of [`next`](Self::next) says what follows.
    pub fn answer(&mut self, context: &mut Context<'_>, lane: Lane, answer: Answer) {
        if lane == OWNER {
            match self.finalize(context, Some(answer)) {
                Step::Ask(lane, ask) => self.ready.push((lane, ask)),
                Step::Sleep(wait) => self.pause = Pause::Wanted(wait),
                // Kept in the attempt: `next` shows it.
                Step::Wait | Step::Done(_) => {}
            }
            return;
        }
        let Some(mut patching) = self.under_way.remove(&lane) else {
            return;
        };
        match patching.next(context, self.node, Some(answer)) {
            Patched::Ask(ask) => {
                self.under_way.insert(lane, patching);
                self.ready.push((lane, ask));
            }
            Patched::Done(Answer::Applied(_) | Answer::NotFound) => {}
            Patched::Done(answer) => self.fail(patching.error(answer)),
        }
    }

    fn begin(&mut self, context: &mut Context<'_>) {
        self.owner = Some(Arc::new(context.graph.identity(self.node)));
        self.dependents = context.graph.dependents(self.node).to_vec();
        for &dependent in &self.dependents {
            context.graph.retain(dependent);
        }
    }

    fn release(&mut self, lane: Lane, dependent: &ObjectRef, context: &Context<'_>) -> Option<Ask> {
        let owner = Arc::clone(self.owner.as_ref()?);
        let target = match Target::of(context, dependent) {
            Ok(target) => target,
            Err(error) => {
                self.fail(error);
                return None;
            }
        };
        let change = Change::RemoveOwners(vec![owner.uid.clone()]);
        let mut patching = Patching::new(target, change, Reason::OwnerOrphans(owner));
        match patching.next(context, self.node, None) {
            Patched::Ask(ask) => {
                self.under_way.insert(lane, patching);
                Some(ask)
            }
            // A patch always begins with a request.
            Patched::Done(answer) => {
                self.fail(patching.error(answer));
                None
            }
        }
    }

    fn fail(&mut self, error: AttemptError) {
        self.failed += 1;
        self.first_failure.get_or_insert(error);
    }

    fn finalize(&mut self, context: &Context<'_>, answer: Option<Answer>) -> Step {
        let Some(removing) = &mut self.removing else {
            return Step::Wait;
        };
        match removing.next(context, answer) {
            Removal::Ask(ask) => Step::Ask(OWNER, ask),
            Removal::Sleep(wait) => Step::Sleep(wait),
            Removal::Done(result) => self.finish(result),
        }
    }

    fn finish(&mut self, result: Result<(), AttemptError>) -> Step {
        let outcome = match result {
            Ok(()) => Outcome {
                requeue: false,
                conclusion: Conclusion::Finalized,
            },
            Err(error) => Outcome {
                requeue: true,
                conclusion: Conclusion::Failed(error),
            },
        };
        self.outcome = Some(outcome.clone());
        Step::Done(outcome)
    }
}
