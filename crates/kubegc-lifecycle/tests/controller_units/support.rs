//! Clusters in a few words, and what a controller makes of them.

use std::collections::BTreeMap;

use kubegc_core::{KubernetesVersion, ObjectMeta, OwnerReference, StoreError, Timestamp};
use kubegc_lifecycle::{
    controller::{Controller, Ended, Input, Mechanism, Output, Settings, Task, Work},
    fields::{self, Fields, Record},
    history,
    object::{Act, Call, Change, Resource, Wire},
    volume::{PodVolume, Source},
};

pub(crate) const BEGAN: Timestamp = Timestamp::from_secs(1_000_000);

/// Metadata of a live object, in version 1.
pub(crate) fn meta(namespace: &str, name: &str) -> ObjectMeta {
    let mut meta = ObjectMeta::new(namespace, name, &format!("uid-{name}"));
    meta.resource_version = "1".into();
    meta
}

pub(crate) fn record(namespace: &str, name: &str, fields: Fields) -> Record {
    Record {
        meta: meta(namespace, name),
        fields,
    }
}

/// The same, of which nothing but the metadata was read.
pub(crate) fn unread(record: &Record) -> Record {
    Record::unread(record.meta.clone())
}

/// The same, in another version.
pub(crate) fn changed(record: &Record) -> Record {
    let mut record = record.clone();
    record.meta.resource_version = format!("{}1", record.meta.resource_version).as_str().into();
    record
}

/// A reference to a controller.
pub(crate) fn controlled_by(kind: &str, name: &str) -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        name: name.into(),
        uid: format!("uid-{name}").as_str().into(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A pod on a node that mentions these claims and no secret.
pub(crate) fn pod(name: &str, claims: &[&str]) -> Record {
    let volumes = claims.iter().map(|claim| PodVolume {
        name: "data".into(),
        source: Source::Claim((*claim).into()),
    });
    let fields = fields::Pod {
        node_name: Some("node".into()),
        status: Some(kubegc_lifecycle::pod::Status::new("Running")),
        volumes: Some(volumes.collect()),
        secrets: Some(Vec::new()),
    };
    record("shop", name, Fields::Pod(fields))
}

pub(crate) fn only(mechanism: Mechanism) -> Settings {
    Settings::only(KubernetesVersion::LATEST, [mechanism])
}

pub(crate) fn refused() -> StoreError {
    StoreError::Refused {
        code: 403,
        message: "forbidden".to_owned(),
        retry_after: None,
    }
}

/// What is listed. Resources without an object are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster(pub(crate) BTreeMap<Resource, Vec<Record>>);

impl Cluster {
    pub(crate) fn with(mut self, resource: Resource, records: impl IntoIterator<Item = Record>) -> Self {
        self.0.entry(resource).or_default().extend(records);
        self
    }

    /// A controller that was told all of it.
    pub(crate) fn told(&self, settings: Settings) -> Controller {
        self.told_at(settings, BEGAN)
    }

    pub(crate) fn told_at(&self, settings: Settings, began: Timestamp) -> Controller {
        let mut controller = Controller::new(settings, Wire::Strict, began);
        for resource in controller.resources() {
            let records = self.0.get(&resource).cloned().unwrap_or_default();
            let input = Input::Listed {
                resource,
                records: Ok(records),
            };
            controller.handle(began, input);
        }
        controller
    }
}

/// A controller and the time.
pub(crate) struct Run {
    pub(crate) controller: Controller,
    pub(crate) now: Timestamp,
}

impl Run {
    pub(crate) fn new(settings: Settings, cluster: &Cluster) -> Self {
        let controller = cluster.told(settings);
        Self {
            controller,
            now: BEGAN,
        }
    }

    pub(crate) fn apply(&mut self, resource: Resource, record: &Record) {
        let record = Box::new(record.clone());
        self.controller
            .handle(self.now, Input::Applied { resource, record });
    }

    pub(crate) fn gone(&mut self, resource: Resource, record: &Record) {
        let (namespace, name) = (record.meta.namespace.clone(), record.meta.name.clone());
        let uid = record.meta.uid.clone();
        let input = Input::Gone {
            resource,
            namespace,
            name,
            uid,
        };
        self.controller.handle(self.now, input);
    }

    pub(crate) fn unlist(&mut self, resource: Resource) {
        let records = Err(refused());
        self.controller
            .handle(self.now, Input::Listed { resource, records });
    }

    /// All that is to be done now. Each task ends well at once.
    pub(crate) fn tasks(&mut self) -> Vec<Task> {
        let mut tasks = Vec::new();
        loop {
            match self.controller.poll_output(self.now) {
                Output::Perform(task) => tasks.push(*task),
                Output::Wait { .. } => break,
                Output::AskCloud(..) => panic!("nothing here asks the cloud"),
            }
        }
        for task in &tasks {
            let ended = Ended::Done;
            let task = task.id;
            self.controller.handle(self.now, Input::Ended { task, ended });
        }
        tasks
    }

    /// The same, in words.
    pub(crate) fn works(&mut self) -> Vec<String> {
        self.tasks().iter().map(|task| work(&task.work)).collect()
    }

    /// What is not decided, in words.
    pub(crate) fn undecided(&self) -> Vec<String> {
        let undecided = self.controller.undecided();
        undecided
            .map(|(_, object, reason)| format!("{object}: {reason}"))
            .collect()
    }

    /// Works and what is not decided.
    pub(crate) fn outcome(&mut self) -> (Vec<String>, Vec<String>) {
        (self.works(), self.undecided())
    }

    /// Whether only something that is told can make something due.
    pub(crate) fn is_quiet(&self) -> bool {
        self.controller.next_at().is_none()
    }
}

pub(crate) fn work(work: &Work) -> String {
    match work {
        Work::Act(planned) => calls(&planned.calls),
        Work::History(pass) => {
            let actions = history_actions(pass).into_iter();
            let texts = actions.map(|action| calls(&action.calls(Wire::Strict)));
            texts.collect::<Vec<_>>().join("; ")
        }
        Work::Volume(pass) => format!("look at {}", pass.volume().meta.name),
        Work::Namespace { name, .. } => format!("visit {name}"),
    }
}

/// What a pass does where every deletion succeeds.
pub(crate) fn history_actions(pass: &history::Pass) -> Vec<history::Action> {
    let mut pass = pass.clone();
    let mut actions = Vec::new();
    let mut step = pass.next(None);
    while let history::Step::Perform(action) = step {
        actions.push(action);
        step = pass.next(Some(Ok(())));
    }
    actions
}

fn calls(calls: &[Call]) -> String {
    let calls = calls.iter().filter_map(|call| match call {
        Call::Delete { object, .. } => Some(format!("delete {}", object.name)),
        Call::Change { object, changes, .. } => {
            let changes: Vec<String> = changes.iter().map(change).collect();
            Some(format!("{} {}", object.name, changes.join(" ")))
        }
        Call::Outside {
            object, operation, ..
        } => Some(format!("{operation:?} {}", object.name)),
        Call::Event { .. } => None,
    });
    calls.collect::<Vec<_>>().join(", ")
}

fn change(change: &Change) -> String {
    match change {
        Change::AddFinalizer(name) => format!("+{name}"),
        Change::RemoveFinalizer(name) => format!("-{name}"),
        Change::OwnerReferences(owners) => {
            let owners = owners
                .iter()
                .map(|owner| format!("{} {}", owner.kind, owner.name));
            format!("owned by [{}]", owners.collect::<Vec<_>>().join(", "))
        }
        Change::RemoveActive(uid) => format!("-{uid}"),
        Change::Label { value, .. } => format!("marked {value}"),
        other => format!("{other:?}"),
    }
}

/// No work, and these are not decided.
pub(crate) fn nothing_but(undecided: &[&str]) -> (Vec<String>, Vec<String>) {
    (Vec::new(), undecided.iter().map(ToString::to_string).collect())
}
