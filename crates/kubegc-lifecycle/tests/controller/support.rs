//! Builds records, and runs a controller against a cluster in memory.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use kubegc_core::{KubernetesVersion, ObjectMeta, Preconditions, ResourceVersion, StoreError, Timestamp};
use kubegc_lifecycle::{
    certificate::Certificate,
    controller::{Basis, Controller, Ended, Input, Mechanism, Output, Planned, Settings, Task, TaskId, Work},
    fields::{self, Fields, Record},
    history,
    job::Ttl,
    lease,
    node::Cloud,
    object::{Call, Change, Condition, Object, Resource, Wire},
    pod,
    token::bootstrap::{Expiration, SECRET_TYPE},
};

pub(crate) const fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

/// The instant before.
pub(crate) const fn before(at: Timestamp) -> Timestamp {
    Timestamp::from_nanos(at.as_nanos() - 1)
}

pub(crate) fn settings<const N: usize>(mechanisms: [Mechanism; N]) -> Settings {
    Settings::only(KubernetesVersion::LATEST, mechanisms)
}

pub(crate) fn controller(mechanism: Mechanism) -> Controller {
    Controller::new(settings([mechanism]), Wire::Strict, at(0))
}

fn meta(namespace: &str, name: &str) -> ObjectMeta {
    let mut meta = ObjectMeta::new(namespace, name, &format!("uid-of-{name}"));
    meta.resource_version = ResourceVersion::new("1");
    meta
}

fn condition(kind: &str, changed_at: Timestamp) -> Condition {
    let mut condition = Condition::new(kind, "True");
    condition.last_transition_time = Some(changed_at);
    condition.last_update_time = Some(changed_at);
    condition
}

/// A job that finished then, and may stay for so long.
pub(crate) fn job(name: &str, finished_at: i64, ttl_seconds: i32) -> Record {
    let status = history::Status {
        conditions: vec![condition("Complete", at(finished_at))],
        ..history::Status::default()
    };
    Record {
        meta: meta("shop", name),
        fields: Fields::Job(fields::Job {
            ttl: Ttl::Seconds(ttl_seconds),
            status: Some(status),
        }),
    }
}

pub(crate) fn pod(name: &str, node: &str, phase: &str) -> Record {
    Record {
        meta: meta("shop", name),
        fields: Fields::Pod(fields::Pod {
            node_name: Some(node.into()),
            status: Some(pod::Status::new(phase)),
            ..fields::Pod::default()
        }),
    }
}

pub(crate) fn node(name: &str, is_ready: bool) -> Record {
    let status = if is_ready { "True" } else { "False" };
    Record {
        meta: meta("", name),
        fields: Fields::Node(fields::Node {
            conditions: Some(vec![Condition::new("Ready", status)]),
            taints: Some(Vec::new()),
            provider_id: Some(format!("cloud:///{name}").into()),
        }),
    }
}

/// The lease of a node.
pub(crate) fn lease(node: &str) -> Record {
    let mut lease = meta("kube-node-lease", node);
    let node = meta("", node);
    lease.uid = kubegc_core::Uid::new("uid-of-lease");
    lease.owner_references.push(lease::owner_of(&node));
    Record::unread(lease)
}

/// A request that was denied then.
pub(crate) fn denied(name: &str, denied_at: i64) -> Record {
    Record {
        meta: meta("", name),
        fields: Fields::CertificateSigningRequest(fields::CertificateSigningRequest {
            conditions: Some(vec![condition("Denied", at(denied_at))]),
            certificate: Certificate::None,
        }),
    }
}

/// A certificate request of a pod.
pub(crate) fn pod_request(name: &str, created_at: i64) -> Record {
    let mut meta = meta("shop", name);
    meta.creation_timestamp = Some(at(created_at));
    Record::unread(meta)
}

/// A bootstrap token that expires then, to the second of the first minutes of 1970.
pub(crate) fn token(name: &str, expires_at: i64) -> Record {
    Record {
        meta: meta("kube-system", name),
        fields: Fields::Secret(fields::Secret {
            secret_type: Some(SECRET_TYPE.into()),
            expiration: Expiration::Text(at(expires_at).to_string().into()),
            ..fields::Secret::default()
        }),
    }
}

pub(crate) fn namespace(name: &str) -> Record {
    Record::unread(meta("", name))
}

/// The same object, being deleted since then.
pub(crate) fn deleting(mut record: Record, since: i64) -> Record {
    record.meta.deletion_timestamp = Some(at(since));
    record
}

/// The same object in its next version.
pub(crate) fn touched(mut record: Record) -> Record {
    let version: u64 = record.meta.resource_version.as_str().parse().unwrap_or(0);
    record.meta.resource_version = ResourceVersion::new(&(version + 1).to_string());
    record
}

pub(crate) fn listed(resource: Resource, records: impl IntoIterator<Item = Record>) -> Input {
    Input::Listed {
        resource,
        records: Ok(records.into_iter().collect()),
    }
}

pub(crate) fn not_listed(resource: Resource) -> Input {
    Input::Listed {
        resource,
        records: Err(refused()),
    }
}

pub(crate) fn refused() -> StoreError {
    StoreError::Refused {
        code: 403,
        message: "forbidden".to_owned(),
        retry_after: None,
    }
}

pub(crate) fn applied(resource: Resource, record: &Record) -> Input {
    Input::Applied {
        resource,
        record: Box::new(record.clone()),
    }
}

pub(crate) fn gone(resource: Resource, record: &Record) -> Input {
    Input::Gone {
        resource,
        namespace: Arc::clone(&record.meta.namespace),
        name: Arc::clone(&record.meta.name),
        uid: record.meta.uid.clone(),
    }
}

pub(crate) const fn ended(task: TaskId, ended: Ended) -> Input {
    Input::Ended { task, ended }
}

/// Everything that is to be done at a time, and until when to wait then.
pub(crate) fn due(controller: &mut Controller, now: Timestamp) -> (Vec<Task>, Option<Timestamp>) {
    let mut tasks = Vec::new();
    loop {
        match controller.poll_output(now) {
            Output::Perform(task) => tasks.push(*task),
            Output::AskCloud(node, _) => panic!("nobody answers about {node}"),
            Output::Wait { until } => {
                assert_eq!(controller.next_at(), until);
                return (tasks, until);
            }
        }
    }
}

/// What is to be done at a time, in words, and until when to wait then.
pub(crate) fn told(controller: &mut Controller, now: Timestamp) -> (Vec<String>, Option<Timestamp>) {
    let (tasks, until) = due(controller, now);
    (tasks.iter().map(text).collect(), until)
}

/// Nothing is to be done before this time, and this is then.
pub(crate) fn assert_first(controller: &mut Controller, now: Timestamp, expected: &[&str]) -> Vec<Task> {
    let (early, until) = told(controller, before(now));
    assert!(early.is_empty(), "{early:?} before {now}");
    assert_eq!(until, Some(now));
    let (tasks, _) = due(controller, now);
    let texts: Vec<String> = tasks.iter().map(text).collect();
    assert_eq!(texts, expected, "at {now}");
    tasks
}

/// The only task at a time.
pub(crate) fn one(controller: &mut Controller, now: Timestamp) -> Task {
    let (mut tasks, _) = due(controller, now);
    assert_eq!(tasks.len(), 1, "at {now}: {tasks:?}");
    tasks.remove(0)
}

pub(crate) fn text(task: &Task) -> String {
    match &task.work {
        Work::Act(planned) => match planned.calls.last() {
            Some(Call::Delete { object, .. }) => format!("delete {object}"),
            Some(Call::Change { object, .. }) => format!("change {object}"),
            other => panic!("not of this model: {other:?}"),
        },
        Work::Namespace { name, failures, .. } => format!("visit {name} after {failures} failures"),
        other => format!("{other:?}"),
    }
}

pub(crate) fn undecided(controller: &Controller) -> Vec<String> {
    let all = controller.undecided();
    all.map(|(mechanism, object, reason)| format!("{mechanism}: {object}: {reason}"))
        .collect()
}

/// A cluster in memory, and a controller that is told of all that happens in it.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) controller: Controller,
    pub(crate) now: Timestamp,
    objects: BTreeMap<(Resource, Arc<str>, Arc<str>), Record>,
    /// The nodes that the cloud has.
    pub(crate) instances: Vec<Arc<str>>,
    /// How the next tasks end that would be done otherwise.
    pub(crate) faults: VecDeque<Ended>,
    pub(crate) log: Vec<(Timestamp, String)>,
    version: u64,
}

impl World {
    /// Everything is listed at the beginning.
    pub(crate) fn new(settings: Settings, objects: impl IntoIterator<Item = (Resource, Record)>) -> Self {
        let keyed = objects.into_iter().map(|(resource, record)| {
            let (namespace, name) = (record.meta.namespace.clone(), record.meta.name.clone());
            ((resource, namespace, name), record)
        });
        let mut world = Self {
            controller: Controller::new(settings, Wire::Strict, at(0)),
            now: at(0),
            objects: keyed.collect(),
            instances: Vec::new(),
            faults: VecDeque::new(),
            log: Vec::new(),
            version: 100,
        };
        for input in world.lists() {
            world.controller.handle(world.now, input);
        }
        world
    }

    /// A list of each resource.
    pub(crate) fn lists(&self) -> Vec<Input> {
        let resources = self.controller.resources().into_iter();
        resources
            .map(|resource| {
                let all = self.objects.iter();
                let of_it = all.filter(|((of, ..), _)| *of == resource);
                listed(resource, of_it.map(|(_, record)| record.clone()))
            })
            .collect()
    }

    pub(crate) fn objects(&self) -> Vec<(Resource, &Record)> {
        let objects = self.objects.iter();
        objects
            .map(|((resource, ..), record)| (*resource, record))
            .collect()
    }

    /// Goes on until nothing is due by then. Answers when something is due next.
    pub(crate) fn run(&mut self, end: Timestamp) -> Option<Timestamp> {
        for _ in 0..100_000 {
            match self.controller.poll_output(self.now) {
                Output::AskCloud(node, _) => self.answer(node),
                Output::Perform(task) => self.finish(&task),
                Output::Wait { until } => match until.filter(|until| *until <= end) {
                    Some(until) => {
                        assert!(until > self.now, "time goes on");
                        self.now = until;
                    }
                    None => return until,
                },
            }
        }
        panic!(
            "it never ends: {:?}",
            &self.log[self.log.len().saturating_sub(20)..]
        );
    }

    /// The cloud says whether it has a node.
    pub(crate) fn answer(&mut self, node: Object) {
        let has_it = self.instances.contains(&node.name);
        let answer = Input::Cloud {
            node,
            exists: if has_it { Cloud::Yes } else { Cloud::No },
            is_shutdown: Cloud::No,
        };
        self.controller.handle(self.now, answer);
    }

    /// Does what a task says, and tells how it ended.
    pub(crate) fn finish(&mut self, task: &Task) {
        self.log.push((self.now, text(task)));
        let end = self.perform(task);
        self.controller.handle(self.now, ended(task.id, end));
    }

    fn perform(&mut self, task: &Task) -> Ended {
        if let Some(fault) = self.faults.pop_front() {
            return fault;
        }
        match &task.work {
            Work::Act(planned) => self.act(planned),
            Work::Namespace { name, .. } => {
                self.remove((Resource::Namespaces, "".into(), name.clone()));
                Ended::Done
            }
            other => panic!("not of this model: {other:?}"),
        }
    }

    fn act(&mut self, planned: &Planned) -> Ended {
        let Planned { rests_on, calls, .. } = planned;
        if !rests_on.iter().all(|basis| self.holds(basis)) {
            return Ended::Stale;
        }
        for call in calls {
            let result = match call {
                Call::Delete { object, options } => self.delete(object, &options.preconditions),
                Call::Change {
                    object,
                    expect,
                    changes,
                    ..
                } => self.change(object, expect, changes),
                Call::Event { .. } => Ok(()),
                Call::Outside { .. } => panic!("not of this model"),
            };
            if let Err(error) = result {
                return Ended::Failed(error);
            }
        }
        Ended::Done
    }

    fn holds(&self, basis: &Basis) -> bool {
        match basis {
            Basis::Same {
                object,
                resource_version,
            } => {
                let found = self.objects.get(&key(object));
                found.is_some_and(|found| {
                    found.meta.uid == object.uid && found.meta.resource_version == *resource_version
                })
            }
            Basis::Absent {
                resource,
                namespace,
                name,
            } => !self
                .objects
                .contains_key(&(*resource, namespace.clone(), name.clone())),
            Basis::PodsAre { .. } => panic!("not of this model"),
        }
    }

    fn find(&self, object: &Object, expect: &Preconditions) -> Result<&Record, StoreError> {
        let found = self.objects.get(&key(object)).ok_or(StoreError::NotFound)?;
        let Preconditions {
            uid,
            resource_version,
        } = expect;
        let is_same = uid.as_ref().is_none_or(|uid| *uid == found.meta.uid)
            && resource_version
                .as_ref()
                .is_none_or(|version| *version == found.meta.resource_version);
        let message = "changed".to_owned();
        is_same.then_some(found).ok_or(StoreError::Conflict { message })
    }

    fn delete(&mut self, object: &Object, expect: &Preconditions) -> Result<(), StoreError> {
        let mut record = self.find(object, expect)?.clone();
        if record.meta.finalizers.is_empty() {
            self.remove(key(object));
        } else if !record.meta.is_deleting() {
            record.meta.deletion_timestamp = Some(self.now);
            self.apply(object.resource, record);
        }
        Ok(())
    }

    fn change(
        &mut self,
        object: &Object,
        expect: &Preconditions,
        changes: &[Change],
    ) -> Result<(), StoreError> {
        let mut record = self.find(object, expect)?.clone();
        for change in changes {
            match (change, &mut record.fields) {
                (Change::Phase(phase), Fields::Pod(pod)) => {
                    pod.status.get_or_insert_default().phase = phase.clone();
                }
                (Change::Condition(condition), Fields::Pod(pod)) => {
                    let status = pod.status.get_or_insert_default();
                    status.conditions.push(condition.clone());
                }
                (Change::AddTaint(taint), Fields::Node(node)) => {
                    node.taints.get_or_insert_default().push(taint.clone());
                }
                (Change::RemoveTaint(taint), Fields::Node(node)) => {
                    node.taints.get_or_insert_default().retain(|other| other != taint);
                }
                (Change::RemoveOwnerReferences(uids), _) => {
                    let owners = &mut record.meta.owner_references;
                    owners.retain(|owner| !uids.contains(&owner.uid));
                }
                (change, _) => panic!("not of this model: {change:?}"),
            }
        }
        self.apply(object.resource, record);
        Ok(())
    }

    /// An object is new, or in another state.
    pub(crate) fn apply(&mut self, resource: Resource, mut record: Record) {
        self.version += 1;
        record.meta.resource_version = ResourceVersion::new(&self.version.to_string());
        self.controller.handle(self.now, applied(resource, &record));
        let (namespace, name) = (record.meta.namespace.clone(), record.meta.name.clone());
        self.objects.insert((resource, namespace, name), record);
    }

    fn remove(&mut self, key: (Resource, Arc<str>, Arc<str>)) {
        let resource = key.0;
        if let Some(record) = self.objects.remove(&key) {
            self.controller.handle(self.now, gone(resource, &record));
        }
    }
}

fn key(object: &Object) -> (Resource, Arc<str>, Arc<str>) {
    (object.resource, object.namespace.clone(), object.name.clone())
}

pub(crate) fn one_text(controller: &mut Controller, now: Timestamp) -> String {
    text(&one(controller, now))
}

/// The same object, with nothing but its metadata read.
pub(crate) fn unread(record: Record) -> Record {
    touched(Record::unread(record.meta))
}
