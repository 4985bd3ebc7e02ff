//! Empties all resources of a namespace in their order, and gathers what remains and what went wrong.
//!
//! # Upstream
//! `deleteAllContent` in `namespaced_resources_deleter.go`.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::{
    Answer, Discovery, Error, Finding, GroupVersionResource, Resource, Step,
    emptying::{Context, Emptied, Emptying, Progress},
};

/// The content of a namespace on its way out.
#[derive(Clone, Debug)]
pub(super) struct Content {
    /// The resource that is being emptied; an answer is awaited for it.
    current: Option<(Turn, Emptying)>,
    waiting: VecDeque<(Turn, Resource)>,
    tally: Tally,
}

/// Which rule a resource is emptied under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Pods, and nothing else is touched while any of them remain.
    PodsFirst,
    /// Like every other.
    Any,
}

/// What a visit has gathered.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) estimate_seconds: i64,
    pub(super) errors: Vec<Error>,
    /// Messages for the conditions: those of the errors while content was deleted, without the words about pods.
    pub(super) content_errors: Vec<String>,
    pub(super) remaining: BTreeMap<GroupVersionResource, u64>,
    pub(super) finalizers: BTreeMap<Arc<str>, u64>,
    /// Pods remain, and nothing else was touched.
    pub(super) waits_for_pods: bool,
    pub(super) findings: Vec<Finding>,
}

impl Content {
    /// Begins with what discovery lists.
    pub(super) fn new(discovery: &Discovery, pods_go_first: bool) -> Self {
        let mut resources = deletable(discovery);
        let first = if pods_go_first {
            resources.remove(&GroupVersionResource::new("", "v1", "pods"))
        } else {
            None
        };
        let first = first.map(|pods| (Turn::PodsFirst, pods));
        let others = resources.into_values().map(|resource| (Turn::Any, resource));
        let failure = discovery.failure.clone().map(Error::Discovery);
        let unparsable = discovery
            .unparsable
            .clone()
            .map(|message| Error::GroupVersion { message });
        Self {
            current: None,
            waiting: first.into_iter().chain(others).collect(),
            tally: Tally {
                errors: failure.into_iter().chain(unparsable).collect(),
                ..Tally::default()
            },
        }
    }

    /// Takes the answer to the last question and asks the next one; `None` when there is nothing more to ask.
    pub(super) fn next(&mut self, answer: Option<Answer>, context: Context<'_>) -> Option<Step> {
        let mut progress = match (self.current.take(), answer) {
            (Some((turn, emptying)), Some(answer)) => Some((turn, emptying.resume(answer, context))),
            _ => None,
        };
        // Each turn of the loop takes one resource from those that wait, or returns.
        loop {
            match progress {
                Some((turn, Progress::Ask(emptying, step))) => {
                    self.current = Some((turn, emptying));
                    return Some(step);
                }
                Some((Turn::PodsFirst, Progress::Finished(emptied))) => {
                    self.tally.take_first_pods(emptied, context.namespace);
                    if self.tally.waits_for_pods {
                        self.waiting.clear();
                    }
                }
                Some((Turn::Any, Progress::Finished(emptied))) => self.tally.take(emptied),
                None => {}
            }
            let (turn, resource) = self.waiting.pop_front()?;
            progress = Some((turn, Emptying::start(resource, context)));
        }
    }

    /// What was gathered so far.
    pub(super) fn into_tally(self) -> Tally {
        self.tally
    }
}

impl Tally {
    fn take(&mut self, emptied: Emptied) {
        let Emptied {
            resource,
            estimate_seconds,
            remaining,
            finalizers,
            error,
        } = emptied;
        if let Some(error) = error {
            self.content_errors.push(error.to_string());
            self.errors.push(error);
        }
        self.estimate_seconds = self.estimate_seconds.max(estimate_seconds);
        if remaining > 0 {
            self.remaining.insert(resource, remaining);
            for (finalizer, count) in finalizers {
                *self.finalizers.entry(finalizer).or_default() += count;
            }
        }
    }

    /// Takes the pods that go first. All else waits for those that remain.
    ///
    /// Pods whose number is not known, because their deletion failed, hold up nothing.
    fn take_first_pods(&mut self, mut emptied: Emptied, namespace: &Arc<str>) {
        self.waits_for_pods = emptied.remaining > 0;
        if let Some(source) = emptied.error.take() {
            self.content_errors.push(source.to_string());
            self.errors.push(Error::Pods {
                namespace: Arc::clone(namespace),
                source: Box::new(source),
            });
        }
        self.take(emptied);
    }
}

/// The resources that can be deleted, each once. One that is listed twice answers only what both entries answer.
fn deletable(discovery: &Discovery) -> BTreeMap<GroupVersionResource, Resource> {
    let mut all = BTreeMap::<GroupVersionResource, Resource>::new();
    if discovery.unparsable.is_some() {
        return all;
    }
    for resource in discovery
        .resources
        .iter()
        .filter(|resource| resource.verbs.delete)
    {
        let entry = all.entry(resource.id.clone()).or_insert_with(|| resource.clone());
        entry.verbs.delete_collection &= resource.verbs.delete_collection;
        entry.verbs.list &= resource.verbs.list;
    }
    all
}
