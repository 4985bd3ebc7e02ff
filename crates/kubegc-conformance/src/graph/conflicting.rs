//! Replays upstream's scenarios of contradictory references, with queues in order of arrival and a
//! server.

use std::collections::{BTreeMap, VecDeque};

use kubegc_core::{Catalog, KubernetesVersion, ObjectRef, OwnerReference};
use kubegc_objects::{
    Operation, Request, Response,
    collector::InvalidNamespace,
    graph::{DeletionState, Event, NodeId},
    replay::AbsentOwners,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    format::{EventType, Identity, Owner, Sent, ServerObject, references},
    machine::{DELETE, Machine, Seen},
};
use crate::{
    Failure, Report,
    failure::equal,
    recording::{Case, release},
};

#[derive(Deserialize)]
struct Scenario {
    semantics: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Step {
    ServerCreate {
        res: Resource,
        #[serde(default)]
        ns: String,
        obj: Object,
    },
    ServerDelete {
        res: Resource,
        #[serde(default)]
        ns: String,
        name: String,
    },
    ProcessEvent(PendingEvent),
    InsertEventFirst(PendingEvent),
    ProcessPendingEvents {
        count: usize,
    },
    ProcessAttemptToDelete {
        count: usize,
    },
    Expect(Box<Expected>),
}

/// Group, version, resource.
type Resource = (String, String, String);
type Address = (Resource, String, String);

#[derive(Clone, Deserialize)]
struct Object {
    identity: Identity,
    #[serde(default)]
    owners: Vec<Owner>,
    #[serde(default)]
    r#virtual: bool,
}

impl Object {
    fn item(&self) -> Item {
        (self.identity.0.clone(), self.r#virtual)
    }

    fn node(&self) -> Node {
        (self.item(), references(&self.owners))
    }
}

/// A queued object, and whether it is virtual. Not every recorded item repeats the owners of the same node in
/// the graph.
type Item = (ObjectRef, bool);
/// An object of the graph with its owners.
type Node = (Item, Vec<OwnerReference>);

#[derive(Clone, Deserialize)]
struct PendingEvent {
    r#type: EventType,
    obj: Object,
    #[serde(default)]
    r#virtual: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Expected {
    graph: Vec<Object>,
    pending_delete: Vec<Object>,
    pending_orphan: Vec<Object>,
    pending_events: Vec<PendingEvent>,
    absent_owner_cache: Vec<Identity>,
    /// Their verbs, groups, versions, resources, names and, unless they are empty, namespaces.
    actions: Vec<Value>,
    events: Vec<String>,
}

pub(crate) fn replay(case: &Case<'_>, _: &mut Report) -> Result<(), Failure> {
    let case: Scenario = case.read()?;
    let releases: &[&str] = match case.semantics.as_str() {
        "both" => &["1.20.2", "1.28", "latest"],
        "1.28" => &["1.28", "latest"],
        other => &[other],
    };
    for &name in releases {
        let version = release(name)?;
        replay_as(&case, version).map_err(|failure| failure.within(format_args!("as {name}")))?;
    }
    Ok(())
}

fn replay_as(case: &Scenario, version: KubernetesVersion) -> Result<(), Failure> {
    let catalog = Catalog::builtin(release("1.20.2")?);
    let mut replay = Replay {
        machine: Machine::new(version, &catalog, AbsentOwners::CAPACITY),
        server: BTreeMap::new(),
        pending: VecDeque::new(),
        actions: Vec::new(),
        events: Vec::new(),
    };
    for (at, step) in case.steps.iter().enumerate() {
        replay
            .step(step)
            .map_err(|failure| failure.within(format_args!("step {at}")))?;
    }
    Ok(())
}

struct Replay<'a> {
    machine: Machine<'a>,
    server: BTreeMap<Address, ServerObject>,
    pending: VecDeque<PendingEvent>,
    /// The requests since the last expectation, as they are recorded.
    actions: Vec<Value>,
    events: Vec<String>,
}

impl Replay<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::ServerCreate { res, ns, obj } => {
                let ObjectRef { uid, name, .. } = &obj.identity.0;
                let object = ServerObject {
                    uid: uid.to_string(),
                    rv: "1".to_owned(),
                    owners: obj.owners.clone(),
                    ..ServerObject::default()
                };
                let name = name.to_string();
                self.server.insert((res.clone(), ns.clone(), name), object);
            }
            Step::ServerDelete { res, ns, name } => {
                self.server.remove(&(res.clone(), ns.clone(), name.clone()));
            }
            Step::ProcessEvent(event) => self.process(event),
            Step::InsertEventFirst(event) => self.pending.push_front(event.clone()),
            Step::ProcessPendingEvents { count } => {
                for _ in 0..*count {
                    let event = self.pending.pop_front();
                    let event = event.ok_or_else(|| Failure::new("pending events", "one more", "none"))?;
                    self.process(&event);
                }
            }
            Step::ProcessAttemptToDelete { count } => {
                for _ in 0..*count {
                    self.attempt_to_delete()?;
                }
            }
            Step::Expect(expected) => self.compare(expected)?,
        }
        Ok(())
    }

    fn process(&mut self, event: &PendingEvent) {
        let id = &event.obj.identity.0;
        if event.r#virtual {
            let seen = self.machine.apply(&Event::VirtualDeleted { identity: id });
            return self.note(seen);
        }
        let owners = &event.obj.owners;
        let seen = self
            .machine
            .observe(event.r#type, id, owners, DeletionState::default(), None);
        self.note(seen);
    }

    fn attempt_to_delete(&mut self) -> Result<(), Failure> {
        let Some(&node) = self.machine.queues[DELETE].first() else {
            return Err(Failure::new("pending_delete", "one more", "none"));
        };
        let (server, actions) = (&mut self.server, &mut self.actions);
        let catalog = self.machine.catalog;
        let seen = self.machine.attempt(DELETE, node, |request| {
            Ok(serve(catalog, server, actions, request))
        })?;
        self.note(seen);
        Ok(())
    }

    fn note(&mut self, seen: Seen) {
        self.events.extend(seen.warnings.iter().map(event_text));
        self.pending
            .extend(seen.virtual_deletes.iter().map(|identity| PendingEvent {
                r#type: EventType::Delete,
                obj: Object {
                    identity: Identity(identity.clone()),
                    owners: Vec::new(),
                    r#virtual: false,
                },
                r#virtual: true,
            }));
    }

    fn compare(&mut self, expected: &Expected) -> Result<(), Failure> {
        let graph = &self.machine.graph;
        let item = |&node: &NodeId| -> Item { (graph.identity(node), graph.is_virtual(node)) };
        let mut recorded: Vec<Node> = expected.graph.iter().map(Object::node).collect();
        let nodes = graph.nodes();
        let mut replayed: Vec<Node> = nodes
            .map(|node| (item(&node), graph.owners(node).collect()))
            .collect();
        recorded.sort();
        replayed.sort();
        equal("graph", &recorded, &replayed)?;
        let [delete, orphan] = &self.machine.queues;
        for (place, recorded, replayed) in [
            ("pending_delete", &expected.pending_delete, delete),
            ("pending_orphan", &expected.pending_orphan, orphan),
        ] {
            let recorded: Vec<Item> = recorded.iter().map(Object::item).collect();
            equal(place, &recorded, &replayed.iter().map(item).collect::<Vec<_>>())?;
        }
        let pending = |event: &PendingEvent| (event.r#type, event.r#virtual, event.obj.node());
        let recorded: Vec<_> = expected.pending_events.iter().map(pending).collect();
        let replayed: Vec<_> = self.pending.iter().map(pending).collect();
        equal("pending_events", &recorded, &replayed)?;
        let absent = expected.absent_owner_cache.iter();
        let mut absent: Vec<&ObjectRef> = absent.map(|identity| &identity.0).collect();
        let mut remembered: Vec<&ObjectRef> = self.machine.absent.iter().collect();
        absent.sort();
        remembered.sort();
        equal("absent_owner_cache", &absent, &remembered)?;
        equal("actions", &expected.actions, &std::mem::take(&mut self.actions))?;
        equal("events", &expected.events, &std::mem::take(&mut self.events))
    }
}

fn serve(
    catalog: &Catalog,
    server: &mut BTreeMap<Address, ServerObject>,
    actions: &mut Vec<Value>,
    request: &Request,
) -> Response {
    let sent = Sent::of(catalog, request);
    let (group, version, resource) = &sent.res;
    let mut action = json!({
        "verb": sent.verb, "group": group, "version": version, "resource": resource, "name": sent.name,
    });
    if !sent.ns.is_empty() {
        action["ns"] = sent.ns.as_str().into();
    }
    actions.push(action);
    let address = (sent.res, sent.ns, sent.name);
    let Some(found) = server.get(&address) else {
        return Response::NotFound;
    };
    let meta = found.meta(&address.1, &address.2);
    match request.operation {
        Operation::Get => Response::Found(meta.into()),
        Operation::Delete { .. } => {
            server.remove(&address);
            Response::Applied(None)
        }
        Operation::Patch { .. } | Operation::Put { .. } => Response::Applied(Some(meta.into())),
    }
}

fn event_text(warning: &InvalidNamespace) -> String {
    let ObjectRef {
        api_version, kind, ..
    } = &warning.dependent;
    let reason = InvalidNamespace::REASON;
    format!("Warning {reason} {warning} involvedObject{{kind={kind},apiVersion={api_version}}}")
}
