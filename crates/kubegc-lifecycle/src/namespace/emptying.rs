//! Empties one resource of a namespace: estimates, deletes, and looks at what is left.
//!
//! # Upstream
//! `deleteAllContentForGroupVersionResource` in `namespaced_resources_deleter.go`.

use std::{collections::BTreeMap, sync::Arc, vec};

use kubegc_core::{Preconditions, PropagationPolicy, StoreError, Timestamp};

use super::{
    Action, Answer, Error, GroupVersionResource, Item, ListPurpose, Resource, Settings, Step,
    step::is_unsupported,
};

/// One resource on its way to emptiness.
#[derive(Clone, Debug)]
pub(super) struct Emptying {
    resource: Resource,
    estimate_seconds: i64,
    state: State,
}

/// What was asked last.
#[derive(Clone, Debug)]
enum State {
    Estimating,
    DeletingCollection,
    ListingEach,
    DeletingEach(vec::IntoIter<Item>),
    ListingRemainder,
}

/// What the resource is emptied for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) namespace: &'a Arc<str>,
    pub(super) deleted_at: Timestamp,
    pub(super) now: Timestamp,
    pub(super) settings: &'a Settings,
}

/// What comes next for one resource.
pub(super) enum Progress {
    Ask(Emptying, Step),
    Finished(Emptied),
}

/// How emptying one resource went.
#[derive(Clone, Debug)]
pub(super) struct Emptied {
    pub(super) resource: GroupVersionResource,
    pub(super) estimate_seconds: i64,
    pub(super) remaining: u64,
    pub(super) finalizers: BTreeMap<Arc<str>, u64>,
    pub(super) error: Option<Error>,
}

impl Emptying {
    /// Begins with a resource that can be deleted.
    pub(super) fn start(resource: Resource, context: Context<'_>) -> Progress {
        let emptying = Self {
            resource,
            estimate_seconds: 0,
            state: State::Estimating,
        };
        if emptying.resource.id.is_pods() {
            emptying.list(State::Estimating, ListPurpose::Estimate)
        } else {
            emptying.delete(context)
        }
    }

    /// Goes on with the answer to what was asked last.
    pub(super) fn resume(mut self, answer: Answer, context: Context<'_>) -> Progress {
        match self.state {
            State::Estimating => match answer.into_items() {
                Ok(items) => {
                    self.estimate_seconds = estimate_seconds(&items, context);
                    self.delete(context)
                }
                Err(error) => self.failed(error),
            },
            State::DeletingCollection => match answer.into_done() {
                Ok(()) => self.list_remainder(),
                Err(error) if is_unsupported(&error) => self.list_each(),
                Err(error) => self.failed(error),
            },
            State::ListingEach => match answer.into_items() {
                Ok(items) => self.delete_next(items.into_iter(), context),
                // Without a list there is nothing to delete; the second list will not be answered either.
                Err(error) if is_unsupported(&error) => self.list_remainder(),
                Err(error) => self.failed(error),
            },
            State::DeletingEach(ref mut rest) => {
                let rest = std::mem::take(rest);
                match answer.into_done() {
                    Err(error) if !is_unsupported(&error) => self.failed(error),
                    Ok(()) | Err(_) => self.delete_next(rest, context),
                }
            }
            State::ListingRemainder => match answer.into_items() {
                Ok(items) => Progress::Finished(self.judge(&items, context)),
                Err(error) if is_unsupported(&error) => self.unseen(),
                Err(error) => self.failed(error),
            },
        }
    }

    fn delete(mut self, context: Context<'_>) -> Progress {
        if !self.resource.verbs.delete_collection {
            return self.list_each();
        }
        self.state = State::DeletingCollection;
        let action = Action::DeleteCollection {
            resource: self.resource.id.clone(),
            namespace: Arc::clone(context.namespace),
            propagation: PropagationPolicy::Background,
        };
        Progress::Ask(self, Step::Perform(action))
    }

    fn list_each(self) -> Progress {
        if self.resource.verbs.list {
            self.list(State::ListingEach, ListPurpose::DeleteEach)
        } else {
            self.list_remainder()
        }
    }

    fn delete_next(mut self, mut rest: vec::IntoIter<Item>, context: Context<'_>) -> Progress {
        let Some(item) = rest.next() else {
            return self.list_remainder();
        };
        self.state = State::DeletingEach(rest);
        let action = Action::Delete {
            resource: self.resource.id.clone(),
            namespace: Arc::clone(context.namespace),
            name: item.name,
            expect: Preconditions::uid(item.uid),
            propagation: PropagationPolicy::Background,
        };
        Progress::Ask(self, Step::Perform(action))
    }

    fn list_remainder(self) -> Progress {
        if self.resource.verbs.list {
            self.list(State::ListingRemainder, ListPurpose::Remainder)
        } else {
            self.unseen()
        }
    }

    fn list(mut self, state: State, purpose: ListPurpose) -> Progress {
        self.state = state;
        let resource = self.resource.id.clone();
        Progress::Ask(self, Step::List { resource, purpose })
    }

    fn failed(self, error: StoreError) -> Progress {
        Progress::Finished(self.emptied(Some(error.into())))
    }

    /// What cannot be listed is taken as gone once its time is over.
    fn unseen(self) -> Progress {
        Progress::Finished(self.emptied(None))
    }

    /// Ends without knowing what is left.
    fn emptied(self, error: Option<Error>) -> Emptied {
        Emptied {
            resource: self.resource.id,
            estimate_seconds: self.estimate_seconds,
            remaining: 0,
            finalizers: BTreeMap::new(),
            error,
        }
    }

    /// Judges what is left after the deletion.
    fn judge(self, items: &[Item], context: Context<'_>) -> Emptied {
        let mut finalizers = BTreeMap::<Arc<str>, u64>::new();
        for finalizer in items.iter().flat_map(|item| &item.finalizers) {
            *finalizers.entry(Arc::clone(finalizer)).or_default() += 1;
        }
        let (estimate_seconds, error) = if items.is_empty() {
            (0, None)
        } else if self.estimate_seconds != 0 {
            (self.estimate_seconds, None)
        } else if finalizers.is_empty() {
            let error = Error::UnexpectedItems {
                namespace: Arc::clone(context.namespace),
                resource: self.resource.id.clone(),
            };
            (0, Some(error))
        } else {
            (i64::from(context.settings.finalizer_estimate_seconds.get()), None)
        };
        Emptied {
            resource: self.resource.id,
            estimate_seconds,
            remaining: items.len() as u64,
            finalizers,
            error,
        }
    }
}

/// How long pods may still take: the longest grace of those that have not ended, or nothing once that has passed since the
/// namespace was deleted.
///
/// # Upstream
/// `estimateGracefulTermination`.
fn estimate_seconds(pods: &[Item], context: Context<'_>) -> i64 {
    let longest = pods
        .iter()
        .filter_map(|item| item.pod.as_ref())
        .filter(|pod| !pod.is_finished)
        .filter_map(|pod| pod.grace_period_seconds)
        .fold(0, i64::max);
    let passed_nanos = context
        .now
        .as_nanos()
        .saturating_sub(context.deleted_at.as_nanos());
    if passed_nanos >= longest.saturating_mul(1_000_000_000) {
        0
    } else {
        longest
    }
}
