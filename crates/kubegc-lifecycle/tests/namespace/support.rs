//! A tiny API server for one namespace: keeps versions, finalizers and grace, fails where it is told to, and logs calls.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{Preconditions, ResourceVersion, StoreError, Timestamp, Uid, catalog::Verbs};
use kubegc_lifecycle::namespace::{
    Action, Answer, Content, Discovery, Facts, GroupVersionResource, Item, Namespace, Outcome, Pass,
    Resource, Settings, Step,
};

/// The server with its clock.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) namespace: Option<Namespace>,
    pub(crate) discovery: Discovery,
    pub(crate) contents: BTreeMap<GroupVersionResource, Vec<Item>>,
    pub(crate) now: Timestamp,
    /// What fails: `verb resource`, each with what is left of its failures.
    pub(crate) faults: BTreeMap<String, (StoreError, u32)>,
    /// Whether writes of the namespace compare and advance its version.
    pub(crate) has_versions: bool,
    /// The uid of another namespace that takes this one's place at the next conflict.
    pub(crate) successor: Option<Uid>,
    pub(crate) log: Vec<String>,
    version: u32,
}

impl Server {
    /// A namespace deleted at second 1000, visited now, with these resources in discovery.
    pub(crate) fn new(resources: &[(&str, &str)]) -> Self {
        let mut namespace = Namespace::new("ns", "uid-ns");
        namespace.deletion_timestamp = Some(Timestamp::from_secs(1_000));
        namespace.resource_version = ResourceVersion::new("1");
        let resources = resources.iter().map(|(group, name)| Resource {
            id: GroupVersionResource::new(group, "v1", name),
            verbs: Verbs::ALL,
        });
        Self {
            namespace: Some(namespace),
            discovery: Discovery {
                resources: resources.collect(),
                ..Discovery::default()
            },
            contents: BTreeMap::new(),
            now: Timestamp::from_secs(1_000),
            faults: BTreeMap::new(),
            has_versions: true,
            successor: None,
            log: Vec::new(),
            version: 1,
        }
    }

    /// The same server, so many seconds after the deletion.
    pub(crate) fn at(mut self, seconds: i64) -> Self {
        self.now = Timestamp::from_secs(1_000 + seconds);
        self
    }

    pub(crate) fn with(mut self, group: &str, resource: &str, item: Item) -> Self {
        let id = GroupVersionResource::new(group, "v1", resource);
        self.contents.entry(id).or_default().push(item);
        self
    }

    pub(crate) fn failing(mut self, call: &str, error: StoreError, times: u32) -> Self {
        self.faults.insert(call.to_owned(), (error, times));
        self
    }

    pub(crate) fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn facts(&self) -> Option<Facts> {
        let contents = self.discovery.resources.iter().map(|resource| Content {
            resource: resource.id.clone(),
            items: self.contents.get(&resource.id).cloned().unwrap_or_default(),
        });
        let namespace = self.namespace.clone()?;
        Some(Facts::new(namespace, self.discovery.clone(), contents.collect()))
    }

    pub(crate) fn pass(&self, settings: &Settings) -> Pass {
        Pass::new(settings.clone(), "ns", self.discovery.clone(), 0, self.now)
    }

    /// Lets one visit run to its end; the actions are those that the server was asked to perform.
    pub(crate) fn visit(&mut self, settings: &Settings) -> (Vec<Action>, Outcome) {
        let mut pass = self.pass(settings);
        let mut actions = Vec::new();
        let mut step = pass.next(None);
        for _ in 0..100_000 {
            match step {
                Step::Done(outcome) => return (actions, outcome),
                Step::Perform(ref action) => actions.push(action.clone()),
                Step::GetNamespace | Step::List { .. } => {}
            }
            let answer = self.answer(&step);
            step = pass.next(Some(answer));
        }
        panic!("a visit ends: {:?}", self.log)
    }

    pub(crate) fn answer(&mut self, step: &Step) -> Answer {
        let call = call_text(step);
        self.log.push(call.clone());
        let key: Vec<&str> = call.split(' ').take(2).collect();
        if let Some((error, times)) = self.faults.get_mut(&key.join(" "))
            && *times > 0
        {
            *times -= 1;
            let error = error.clone();
            if let (StoreError::Conflict { .. }, Some(uid), Some(namespace)) =
                (&error, self.successor.take(), &mut self.namespace)
            {
                namespace.uid = uid;
            }
            return Answer::Failed(error);
        }
        match step {
            Step::GetNamespace => self
                .namespace
                .clone()
                .map_or(Answer::Failed(StoreError::NotFound), Answer::Namespace),
            Step::List { resource, .. } => {
                Answer::Items(self.contents.get(resource).cloned().unwrap_or_default())
            }
            Step::Perform(action) => self.perform(action),
            Step::Done(_) => Answer::Done,
        }
    }

    /// Lets time pass: pods that had their grace end.
    pub(crate) fn advance(&mut self, seconds: i64) {
        self.now = Timestamp::from_secs(self.now.as_secs() + seconds);
        let now = self.now;
        for items in self.contents.values_mut() {
            items.retain(|item| {
                let ended = item.pod.as_ref().and_then(|pod| pod.deletion_timestamp);
                !item.finalizers.is_empty() || ended.is_none_or(|end| now < end)
            });
        }
    }

    fn perform(&mut self, action: &Action) -> Answer {
        match action {
            Action::SetPhaseTerminating { expect, .. } => self.write(expect, |namespace| {
                namespace.is_terminating = true;
            }),
            Action::UpdateConditions {
                expect, conditions, ..
            } => self.write(expect, |namespace| namespace.conditions.clone_from(conditions)),
            Action::Finalize {
                expect, finalizers, ..
            } => {
                let answer = self.write(expect, |namespace| namespace.finalizers.clone_from(finalizers));
                if self
                    .namespace
                    .as_ref()
                    .is_some_and(|namespace| namespace.finalizers.is_empty())
                {
                    self.namespace = None;
                }
                answer
            }
            Action::DeleteCollection { resource, .. } => {
                self.delete(resource, |_| true);
                Answer::Done
            }
            Action::Delete {
                resource,
                name,
                expect,
                ..
            } => {
                self.delete(resource, |item| {
                    item.name == *name && Some(&item.uid) == expect.uid.as_ref()
                });
                Answer::Done
            }
        }
    }

    fn write(&mut self, expect: &Preconditions, change: impl FnOnce(&mut Namespace)) -> Answer {
        let Some(namespace) = &mut self.namespace else {
            return Answer::Failed(StoreError::NotFound);
        };
        let stored = &namespace.resource_version;
        if self.has_versions
            && expect
                .resource_version
                .as_ref()
                .is_some_and(|read| read != stored)
        {
            let message = "the object has been modified".to_owned();
            return Answer::Failed(StoreError::Conflict { message });
        }
        change(namespace);
        if self.has_versions {
            self.version += 1;
            namespace.resource_version = ResourceVersion::new(&self.version.to_string());
        }
        Answer::Namespace(namespace.clone())
    }

    fn delete(&mut self, resource: &GroupVersionResource, chosen: impl Fn(&Item) -> bool) {
        let now = self.now;
        let items = self.contents.entry(resource.clone()).or_default();
        items.retain_mut(|item| {
            if !chosen(item) {
                return true;
            }
            if let Some(pod) = &mut item.pod {
                let grace = match pod.grace_period_seconds {
                    Some(grace) if pod.is_scheduled && !pod.is_finished => grace.max(0),
                    _ => 0,
                };
                let end = Timestamp::from_secs(now.as_secs() + grace);
                let end = *pod.deletion_timestamp.get_or_insert(end);
                return !item.finalizers.is_empty() || now < end;
            }
            !item.finalizers.is_empty()
        });
    }
}

/// `verb resource` and what matters beyond that.
fn call_text(step: &Step) -> String {
    match step {
        Step::GetNamespace => "get namespace".to_owned(),
        Step::List { resource, purpose } => format!("list {} {purpose:?}", resource.resource),
        Step::Perform(Action::SetPhaseTerminating { .. }) => "terminate namespace".to_owned(),
        Step::Perform(Action::DeleteCollection { resource, .. }) => {
            format!("deletecollection {}", resource.resource)
        }
        Step::Perform(Action::Delete { resource, name, .. }) => {
            format!("delete {} {name}", resource.resource)
        }
        Step::Perform(Action::UpdateConditions { .. }) => "conditions namespace".to_owned(),
        Step::Perform(Action::Finalize { finalizers, .. }) => {
            let left: Vec<Arc<str>> = finalizers.clone();
            format!("finalize namespace [{}]", left.join(" "))
        }
        Step::Done(_) => "done".to_owned(),
    }
}
