//! Step-by-step execution of a pod directory plan: the next step depends on the last removal.

use std::{collections::VecDeque, sync::Arc};

use kubegc_core::{Kept, PlanOf, RuntimeError};

use super::{
    Action, Expect, Failure, Means, Outcome, Reason, Removal, Settings, Subject,
    path::{VOLUMES, is_entry},
    plan::remaining,
};

/// The next step of a pass.
#[expect(clippy::exhaustive_enums, reason = "drivers must handle every step")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Check whether the precondition still holds, then report it. If unknown, report a reason too.
    Confirm(Expect),
    /// Remove the path, then report the result.
    Remove(Removal),
    /// Read the names of all entries of a directory, then report them.
    Read {
        /// Its name.
        directory: Arc<str>,
    },
    /// The pass is complete.
    Done,
}

/// The result of a step.
#[expect(clippy::exhaustive_enums, reason = "one answer for each step that asks")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Of [`Step::Confirm`]: it holds, or the reason why the directory is kept.
    Confirmed(Result<(), Reason>),
    /// Of [`Step::Remove`].
    Removed(Result<(), RuntimeError>),
    /// Of [`Step::Read`].
    Read(Result<Vec<Arc<str>>, RuntimeError>),
}

/// The execution of a pod directory plan.
///
/// # Guarantees
/// If all steps succeed with the entries of the facts, it performs the plan in order. Nothing of a directory
/// is touched before its precondition was confirmed. A directory that failed does not stop the next one.
///
/// For `d` directories with `m` removals and entries in all there are at most `3 d + m` steps.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The remaining directories, the current one first.
    left: VecDeque<Action>,
    stage: Stage,
    /// The remaining entries of the current directory.
    entries: VecDeque<Removal>,
    /// Number of failures before the current directory.
    failures_before: usize,
    /// Whether a step was returned that can have a result.
    asked: bool,
    outcome: Outcome,
}

/// The state of a pass within a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Confirming,
    /// Before the remains of volumes at this position.
    Volumes(usize),
    Reading,
    Entries,
    Itself,
}

impl Pass {
    /// Starts the execution of a plan.
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

    /// Processes the result of the last step, and returns the next. The result of another step is ignored,
    /// and the same step returned again.
    pub fn next(&mut self, answer: Option<Answer>) -> Step {
        if let Some(answer) = answer.filter(|_| self.asked) {
            self.take(answer);
        }
        self.asked = true;
        self.step()
    }

    /// The outcome so far. Directories that were not processed yet are neither removed nor kept.
    #[must_use]
    pub const fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The outcome of the pass.
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

    /// Continues with the remains of volumes, from this position.
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

    /// The entries of the directory after its volumes were removed. Upstream reads them then, and so finds
    /// volumes that were created in the meantime.
    fn read(&mut self, result: Result<Vec<Arc<str>>, RuntimeError>) {
        let Some(Action::Remove { directory, .. }) = self.left.front() else {
            return;
        };
        let mut names = match result {
            Ok(names) => names,
            // The whole directory no longer exists.
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
            .extend(away.into_iter().map(|entry| Failure::OutsideDirectory {
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

    /// Keeps the current directory.
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
                // It is not orphaned.
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

    /// Closes the current directory, and continues with the next.
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

/// A path that no longer exists counts as removed.
fn gone(result: Result<(), RuntimeError>) -> Result<(), RuntimeError> {
    match result {
        Err(RuntimeError::NotFound) => Ok(()),
        other => other,
    }
}
