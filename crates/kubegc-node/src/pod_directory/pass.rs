//! Carries out a plan of pod directories step by step, where what goes next hangs on whether the last removal worked.

use std::{collections::VecDeque, sync::Arc};

use kubegc_core::{Kept, PlanOf, RuntimeError};

use super::{
    Action, Expect, Failure, Means, Outcome, Reason, Removal, Settings, Subject,
    path::{VOLUMES, is_entry},
    plan::remaining,
};

/// What a pass wants next.
#[expect(clippy::exhaustive_enums, reason = "drivers must handle every step")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Look whether this still holds, then answer. Whoever cannot tell answers with a reason too.
    Confirm(Expect),
    /// Remove, then answer.
    Remove(Removal),
    /// Read the names of all that stands in a directory, then answer.
    Read {
        /// Its name.
        directory: Arc<str>,
    },
    /// All is done.
    Done,
}

/// The answer to a step.
#[expect(clippy::exhaustive_enums, reason = "one answer for each step that asks")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To [`Step::Confirm`]: it holds, or the reason why the directory stays.
    Confirmed(Result<(), Reason>),
    /// To [`Step::Remove`].
    Removed(Result<(), RuntimeError>),
    /// To [`Step::Read`].
    Read(Result<Vec<Arc<str>>, RuntimeError>),
}

/// A plan of pod directories being carried out.
///
/// # Guarantees
/// With all successes, and the entries of the facts, it does what the plan says, in that order. Nothing of a directory is touched before its
/// expectation was confirmed. A directory that failed does not keep the next one from its turn.
///
/// For `d` directories with `m` removals and entries in all there are at most `3 d + m` steps.
#[derive(Clone, Debug)]
pub struct Pass {
    /// What is left to do, the present directory first.
    left: VecDeque<Action>,
    stage: Stage,
    /// The entries of the present directory that are left to remove.
    entries: VecDeque<Removal>,
    /// How many failures there were before the present directory.
    failures_before: usize,
    /// Whether a step was given that may be answered.
    asked: bool,
    outcome: Outcome,
}

/// Where a pass stands within a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Confirming,
    /// Before what is left of volumes at this position.
    Volumes(usize),
    Reading,
    Entries,
    Itself,
}

impl Pass {
    /// Begins to carry out a plan.
    #[must_use]
    pub fn new(plan: PlanOf<Settings>) -> Self {
        Self {
            left: plan.actions.into(),
            stage: Stage::Confirming,
            entries: VecDeque::new(),
            failures_before: 0,
            asked: false,
            outcome: Outcome {
                removed: Vec::new(),
                kept: plan.kept,
                findings: plan.findings,
                failures: Vec::new(),
                summary: plan.summary,
            },
        }
    }

    /// Takes the answer to the last step, and gives the next. An answer to another step is passed over, and the same step given again.
    pub fn next(&mut self, answer: Option<Answer>) -> Step {
        if let Some(answer) = answer.filter(|_| self.asked) {
            self.take(answer);
        }
        self.asked = true;
        self.step()
    }

    /// What became of the pass so far. Directories whose turn did not come are neither removed nor kept.
    #[must_use]
    pub const fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// What became of the pass.
    #[must_use]
    pub fn finish(self) -> Outcome {
        self.outcome
    }

    fn step(&self) -> Step {
        let Some(Action::Remove {
            directory,
            expect,
            volumes,
            itself,
            ..
        }) = self.left.front()
        else {
            return Step::Done;
        };
        let removal = match self.stage {
            Stage::Confirming => return Step::Confirm(expect.clone()),
            Stage::Reading => {
                return Step::Read {
                    directory: Arc::clone(directory),
                };
            }
            Stage::Volumes(at) => volumes.get(at),
            Stage::Entries => self.entries.front(),
            Stage::Itself => None,
        };
        Step::Remove(removal.unwrap_or(itself).clone())
    }

    fn take(&mut self, answer: Answer) {
        match (self.stage, answer) {
            (Stage::Confirming, Answer::Confirmed(Ok(()))) => self.volumes(0),
            (Stage::Confirming, Answer::Confirmed(Err(reason))) => self.leave(reason),
            (Stage::Volumes(at), Answer::Removed(result)) => self.volume_removed(at, result),
            (Stage::Reading, Answer::Read(result)) => self.read(result),
            (Stage::Entries, Answer::Removed(result)) => self.entry_removed(result),
            (Stage::Itself, Answer::Removed(result)) => self.itself_removed(result),
            _ => {}
        }
    }

    /// Goes on with what is left of volumes, from this position on.
    fn volumes(&mut self, at: usize) {
        let Some(Action::Remove { volumes, itself, .. }) = self.left.front() else {
            return;
        };
        if at < volumes.len() {
            self.stage = Stage::Volumes(at);
        } else if self.has_failed() {
            self.next_directory();
        } else if itself.means == Means::Tree {
            self.stage = Stage::Itself;
        } else {
            self.stage = Stage::Reading;
        }
    }

    fn volume_removed(&mut self, at: usize, result: Result<(), RuntimeError>) {
        if let (
            Err(error),
            Some(Action::Remove {
                directory, volumes, ..
            }),
        ) = (gone(result), self.left.front())
            && let Some(removal) = volumes.get(at)
        {
            let failures = &mut self.outcome.summary.volume_errors;
            *failures = failures.saturating_add(1);
            self.outcome.failures.push(Failure::Volume {
                directory: Arc::clone(directory),
                removal: removal.clone(),
                error,
            });
        }
        self.volumes(at + 1);
    }

    /// What stands in the directory once its volumes went. Upstream reads it then, and so finds volumes that were made meanwhile.
    fn read(&mut self, result: Result<Vec<Arc<str>>, RuntimeError>) {
        let Some(Action::Remove { directory, .. }) = self.left.front() else {
            return;
        };
        let mut names = match result {
            Ok(names) => names,
            // The whole directory went by itself.
            Err(RuntimeError::NotFound) => Vec::new(),
            Err(error) => {
                self.outcome.failures.push(Failure::Unread {
                    directory: Arc::clone(directory),
                    error,
                });
                return self.next_directory();
            }
        };
        names.sort_unstable();
        names.dedup();
        let (names, away): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| is_entry(name));
        self.outcome
            .failures
            .extend(away.into_iter().map(|entry| Failure::LeadsAway {
                directory: Arc::clone(directory),
                entry,
            }));
        if names.iter().any(|name| &**name == VOLUMES) {
            self.outcome.failures.push(Failure::VolumesFound {
                directory: Arc::clone(directory),
            });
        }
        self.entries = remaining(directory, &names).into();
        self.after_entries();
    }

    fn entry_removed(&mut self, result: Result<(), RuntimeError>) {
        if let (Some(removal), Some(action)) = (self.entries.pop_front(), self.left.front())
            && let Err(error) = gone(result)
        {
            self.outcome.failures.push(Failure::Entry {
                directory: Arc::clone(action.directory()),
                removal,
                error,
            });
        }
        self.after_entries();
    }

    fn after_entries(&mut self) {
        self.stage = if self.entries.is_empty() {
            Stage::Itself
        } else {
            Stage::Entries
        };
    }

    fn itself_removed(&mut self, result: Result<(), RuntimeError>) {
        if let (
            Err(error),
            Some(Action::Remove {
                directory, itself, ..
            }),
        ) = (gone(result), self.left.front())
        {
            self.outcome.failures.push(Failure::Itself {
                directory: Arc::clone(directory),
                removal: itself.clone(),
                error,
            });
        }
        self.next_directory();
    }

    /// Leaves the present directory as it is.
    fn leave(&mut self, reason: Reason) {
        let Some(action) = self.left.pop_front() else {
            return;
        };
        let summary = &mut self.outcome.summary;
        let volume_errors = u64::from(reason.is_volume_error());
        summary.volume_errors = summary.volume_errors.saturating_add(volume_errors);
        if let Some(gauges) = &mut summary.gauges {
            if reason.is_error() {
                let errors = gauges.orphan_pod_cleaned_volumes_errors.saturating_add(1);
                gauges.orphan_pod_cleaned_volumes_errors = errors;
            } else {
                // It is no orphan after all.
                gauges.orphan_pod_cleaned_volumes = gauges.orphan_pod_cleaned_volumes.saturating_sub(1);
            }
        }
        self.outcome.kept.push(Kept {
            object: Subject::Directory(Arc::clone(action.directory())),
            reason,
        });
        self.begin();
    }

    fn has_failed(&self) -> bool {
        self.outcome.failures.len() > self.failures_before
    }

    /// Closes the present directory, and goes on to the next.
    fn next_directory(&mut self) {
        let failures = self.outcome.failures.len() - self.failures_before;
        if failures > 0 {
            return self.leave(Reason::RemovalFailed { failures });
        }
        if let Some(action) = self.left.pop_front() {
            self.outcome.removed.push(Arc::clone(action.directory()));
        }
        self.begin();
    }

    fn begin(&mut self) {
        self.stage = Stage::Confirming;
        self.entries.clear();
        self.failures_before = self.outcome.failures.len();
    }
}

/// What is gone already counts as removed.
fn gone(result: Result<(), RuntimeError>) -> Result<(), RuntimeError> {
    match result {
        Err(RuntimeError::NotFound) => Ok(()),
        other => other,
    }
}
