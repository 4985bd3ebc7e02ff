//! One visit to a namespace, from the live read to the removal of the finalizer, as a state machine without I/O.
//!
//! # Upstream
//! `Delete` in `namespaced_resources_deleter.go` and `worker` in `namespace_controller.go`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubegc_core::{Preconditions, StoreError, Timestamp};

use super::{
    Action, Answer, Discovery, Ending, Error, Finding, Namespace, Outcome, Settings, Step,
    condition::{self, Report},
    content::{Content, Tally},
    emptying::Context,
    outcome::own_words,
};

/// One visit to a namespace: asks, is answered, and says in the end what came of it.
///
/// # Guarantees
/// Never panics, whatever the answers. Equal settings, discovery, time and answers give equal steps. A clone goes on alike.
/// The number of steps before the end is at most `4 + n + 4 r` for `n` items that are deleted one by one and `r` resources, plus
/// two for each conflict that is answered: as upstream, conflicts are retried without a limit.
///
/// # Examples
/// ```
/// use kubegc_core::{StoreError, Timestamp};
/// use kubegc_lifecycle::namespace::{Answer, Discovery, Ending, Pass, Settings, Step};
///
/// let mut pass = Pass::new(Settings::default(), "shop", Discovery::default(), 0, Timestamp::EPOCH);
/// assert_eq!(pass.next(None), Step::GetNamespace);
/// let Step::Done(outcome) = pass.next(Some(Answer::Failed(StoreError::NotFound))) else { panic!("the namespace is gone") };
/// assert_eq!(outcome.ending, Ending::Gone);
/// ```
#[derive(Clone, Debug)]
pub struct Pass {
    settings: Settings,
    name: Arc<str>,
    discovery: Discovery,
    failures: u32,
    now: Timestamp,
    state: State,
    asked: Option<Step>,
    tally: Tally,
    /// The namespace as it was last read or written by the part of the visit that is under way.
    namespace: Option<Namespace>,
}

/// What was asked last.
#[derive(Clone, Debug)]
enum State {
    Start,
    Reading,
    SettingPhase,
    RereadingForPhase,
    Emptying {
        content: Box<Content>,
        deleted_at: Timestamp,
    },
    UpdatingConditions,
    Finalizing,
    RereadingForFinalize,
    Ended,
}

impl Pass {
    /// Prepares a visit, after so many failed ones in a row. Only the name is taken from what is believed: the rest is asked.
    ///
    /// `now` stands for the whole visit. It bounds how long pods are waited for and dates conditions.
    #[must_use]
    pub fn new(settings: Settings, name: &str, discovery: Discovery, failures: u32, now: Timestamp) -> Self {
        Self {
            settings,
            name: name.into(),
            discovery,
            failures,
            now,
            state: State::Start,
            asked: None,
            tally: Tally::default(),
            namespace: None,
        }
    }

    /// Takes the answer to the last step and gives the next one.
    ///
    /// Without an answer the last step is given again; the first call has none to give, and any is passed over. After
    /// [`Step::Done`] nothing changes any more.
    pub fn next(&mut self, answer: Option<Answer>) -> Step {
        if let (Some(asked), None) = (&self.asked, &answer) {
            return asked.clone();
        }
        let step = self.advance(answer);
        self.asked = Some(step.clone());
        step
    }

    fn advance(&mut self, answer: Option<Answer>) -> Step {
        match (std::mem::replace(&mut self.state, State::Ended), answer) {
            (State::Start, _) => self.ask(State::Reading, Step::GetNamespace),
            (State::Reading, Some(answer)) => match answer.into_namespace() {
                Ok(namespace) => self.set_phase(namespace),
                Err(error) => self.fail_unless_gone(error),
            },
            (State::SettingPhase, Some(answer)) => match answer.into_namespace() {
                Ok(namespace) => self.empty(namespace),
                Err(StoreError::Conflict { .. }) => self.ask(State::RereadingForPhase, Step::GetNamespace),
                Err(error) => self.fail_unless_gone(error),
            },
            (State::RereadingForPhase, Some(answer)) => match self.reread(answer) {
                Ok(namespace) => self.set_phase(namespace),
                Err(step) => *step,
            },
            (State::Emptying { content, deleted_at }, Some(answer)) => {
                self.resume_content(content, deleted_at, Some(answer))
            }
            (State::UpdatingConditions, Some(answer)) => {
                if let Err(error) = answer.into_done() {
                    let message = own_words(error);
                    self.tally
                        .findings
                        .push(Finding::ConditionsNotWritten { message });
                }
                self.conclude()
            }
            (State::Finalizing, Some(answer)) => match answer.into_done() {
                // Whoever shares the token may have been faster.
                Ok(()) | Err(StoreError::NotFound) => self.end(Ending::Finalized, None),
                Err(StoreError::Conflict { .. }) => self.ask(State::RereadingForFinalize, Step::GetNamespace),
                Err(error) => self.fail(error.into()),
            },
            (State::RereadingForFinalize, Some(answer)) => match self.reread(answer) {
                Ok(namespace) => self.finalize(namespace),
                Err(step) => *step,
            },
            (State::Ended, _) | (_, None) => self.asked.clone().unwrap_or(Step::GetNamespace),
        }
    }

    fn ask(&mut self, state: State, step: Step) -> Step {
        self.state = state;
        step
    }

    /// Marks a deleted namespace as terminating, where it is not marked yet.
    fn set_phase(&mut self, namespace: Namespace) -> Step {
        if namespace.deletion_timestamp.is_none() || namespace.is_terminating {
            return self.empty(namespace);
        }
        let action = Action::SetPhaseTerminating {
            namespace: Arc::clone(&self.name),
            expect: expectation(&namespace),
        };
        self.namespace = Some(namespace);
        self.ask(State::SettingPhase, Step::Perform(action))
    }

    /// Begins to empty a namespace that is deleted and has a finalizer.
    fn empty(&mut self, namespace: Namespace) -> Step {
        let deletion_timestamp = namespace.deletion_timestamp;
        let is_finalized = namespace.finalizers.is_empty();
        self.namespace = Some(namespace);
        match deletion_timestamp {
            None => self.end(Ending::NotDeleted, None),
            Some(_) if is_finalized => self.end(Ending::AlreadyFinalized, None),
            Some(deleted_at) => {
                let content = Content::new(&self.discovery, self.settings.pods_go_first);
                self.resume_content(Box::new(content), deleted_at, None)
            }
        }
    }

    fn resume_content(
        &mut self,
        mut content: Box<Content>,
        deleted_at: Timestamp,
        answer: Option<Answer>,
    ) -> Step {
        let context = Context {
            namespace: &self.name,
            deleted_at,
            now: self.now,
            settings: &self.settings,
        };
        if let Some(step) = content.next(answer, context) {
            return self.ask(State::Emptying { content, deleted_at }, step);
        }
        self.tally = content.into_tally();
        self.update_conditions()
    }

    /// Writes the conditions where they have changed.
    fn update_conditions(&mut self) -> Step {
        let nothing = Tally::default();
        // While pods hold up everything else, upstream returns before it hands on what remains.
        let counted = if self.tally.waits_for_pods {
            &nothing
        } else {
            &self.tally
        };
        let report = Report {
            discovery_failure: self.discovery.failure.as_ref(),
            unparsable: self.discovery.unparsable.as_deref(),
            content_errors: &self.tally.content_errors,
            remaining: &counted.remaining,
            finalizers_remaining: &counted.finalizers,
        };
        let updated = self.namespace.as_mut().and_then(|namespace| {
            let conditions = condition::updated(&namespace.conditions, &report, &self.settings, self.now)?;
            namespace.conditions.clone_from(&conditions);
            Some((expectation(namespace), conditions))
        });
        if self.tally.waits_for_pods && self.settings.conditions_tell_remainder {
            self.tally.findings.push(Finding::ConditionsMissPods);
        }
        let Some((expect, conditions)) = updated else {
            return self.conclude();
        };
        let action = Action::UpdateConditions {
            namespace: Arc::clone(&self.name),
            expect,
            conditions,
        };
        self.ask(State::UpdatingConditions, Step::Perform(action))
    }

    /// Decides whether the namespace may go.
    fn conclude(&mut self) -> Step {
        if !self.tally.errors.is_empty() {
            let retry = self.settings.retry_after(self.failures);
            return self.end(Ending::Failed, Some(retry));
        }
        let estimate_seconds = self.tally.estimate_seconds;
        if estimate_seconds > 0 {
            let half = u64::try_from(estimate_seconds / 2).unwrap_or(0);
            let wait = Duration::from_secs(half + 1);
            return self.end(Ending::Remaining { estimate_seconds }, Some(wait));
        }
        match self.namespace.take() {
            Some(namespace) => self.finalize(namespace),
            // Content is only emptied after the namespace was read.
            None => self.end(Ending::Gone, None),
        }
    }

    /// Removes our token from the finalizers of the namespace.
    fn finalize(&mut self, namespace: Namespace) -> Step {
        let others: BTreeSet<&Arc<str>> = namespace
            .finalizers
            .iter()
            .filter(|finalizer| **finalizer != self.settings.finalizer)
            .collect();
        let action = Action::Finalize {
            namespace: Arc::clone(&self.name),
            expect: expectation(&namespace),
            finalizers: others.into_iter().cloned().collect(),
        };
        self.namespace = Some(namespace);
        self.ask(State::Finalizing, Step::Perform(action))
    }

    /// Takes a read after a conflict: it must be of the same namespace.
    fn reread(&mut self, answer: Answer) -> Result<Namespace, Box<Step>> {
        let namespace = match answer.into_namespace() {
            Ok(namespace) => namespace,
            Err(error) => return Err(Box::new(self.fail_unless_gone(error))),
        };
        match &self.namespace {
            Some(before) if before.uid != namespace.uid => {
                let error = Error::UidChanged {
                    before: before.uid.clone(),
                    after: namespace.uid,
                };
                Err(Box::new(self.fail(error)))
            }
            _ => Ok(namespace),
        }
    }

    fn fail_unless_gone(&mut self, error: StoreError) -> Step {
        if error == StoreError::NotFound {
            self.end(Ending::Gone, None)
        } else {
            self.fail(error.into())
        }
    }

    fn fail(&mut self, error: Error) -> Step {
        self.tally.errors.push(error);
        let retry = self.settings.retry_after(self.failures);
        self.end(Ending::Failed, Some(retry))
    }

    fn end(&mut self, ending: Ending, requeue_after: Option<Duration>) -> Step {
        let tally = std::mem::take(&mut self.tally);
        let conditions = self.namespace.take().map(|namespace| namespace.conditions);
        Step::Done(Outcome {
            ending,
            errors: tally.errors,
            remaining: tally.remaining,
            finalizers_remaining: tally.finalizers,
            waits_for_pods: tally.waits_for_pods,
            conditions: conditions.unwrap_or_default(),
            findings: tally.findings,
            requeue_after,
        })
    }
}

fn expectation(namespace: &Namespace) -> Preconditions {
    let version = &namespace.resource_version;
    Preconditions {
        uid: Some(namespace.uid.clone()),
        resource_version: (!version.is_empty()).then(|| version.clone()),
    }
}
