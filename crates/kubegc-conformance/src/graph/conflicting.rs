//! Replays upstream's scenarios of contradictory references, with queues in order of arrival and a
//! server.

use std::collections::{BTreeMap, VecDeque};

use kubegc_core::{Catalog, KubernetesVersion, ObjectRef, OwnerReference};
use kubegc_objects::{
    Graph, Operation, Request, Response,
    collector::InvalidNamespace,
    graph::{DeletionState, Event, NodeId, Observed},
    replay::AbsentOwners,
    settings::Semantics,
};
use serde::Deserialize;

use super::{
    dump::owners_text,
    format::{EventType, Identity, Owner, ServerObject, references},
    machine::{Machine, Seen},
};
use crate::{Failure, failure::equal_lines};

#[derive(Deserialize)]
struct Case {
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

#[derive(Clone, Deserialize)]
struct PendingEvent {
    r#type: EventType,
    obj: Object,
    #[serde(default)]
    r#virtual: bool,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Expected {
    graph: Vec<Object>,
    pending_delete: Vec<Object>,
    pending_orphan: Vec<Object>,
    pending_events: Vec<PendingEvent>,
    absent_owner_cache: Vec<Identity>,
    actions: Vec<Action>,
    events: Vec<String>,
}

#[derive(Deserialize)]
struct Action {
    verb: String,
    group: String,
    version: String,
    resource: String,
    #[serde(default)]
    ns: String,
    name: String,
}

/// Replays one case under every release that it names.
pub(crate) fn replay(line: &str) -> Result<(), Failure> {
    let case: Case = serde_json::from_str(line).map_err(Failure::unreadable)?;
    let releases: &[&str] = match case.semantics.as_str() {
        "both" => &["1.20.2", "1.28", "latest"],
        "1.28" => &["1.28", "latest"],
        other => &[other],
    };
    for &release in releases {
        let semantics = super::semantics(release)?;
        replay_as(&case, semantics).map_err(|failure| failure.within(format_args!("as {release}")))?;
    }
    Ok(())
}

fn replay_as(case: &Case, semantics: Semantics) -> Result<(), Failure> {
    let version: KubernetesVersion = "1.20.2".parse().map_err(Failure::unreadable)?;
    let catalog = Catalog::builtin(version);
    let mut replay = Replay {
        machine: Machine::new(semantics, &catalog, AbsentOwners::CAPACITY),
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
    /// Since the last expectation.
    actions: Vec<String>,
    events: Vec<String>,
}

impl Replay<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::ServerCreate { res, ns, obj } => {
                let object = ServerObject {
                    uid: obj.identity.object_ref().uid.to_string(),
                    rv: "1".to_owned(),
                    owners: obj.owners.iter().cloned().map(Into::into).collect(),
                    ..ServerObject::default()
                };
                let name = obj.identity.object_ref().name.to_string();
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
        let id = event.obj.identity.object_ref();
        if event.r#virtual {
            let seen = self.machine.apply(&Event::VirtualDeleted { identity: &id });
            return self.note(seen);
        }
        let owners: Vec<OwnerReference> = references(&event.obj.owners);
        let object = Observed {
            kind: self.machine.graph.kind(&id.api_version, &id.kind),
            namespace: &id.namespace,
            name: &id.name,
            uid: &id.uid,
            owners: &owners,
            deletion: DeletionState::default(),
        };
        let seen = self.machine.apply(&match event.r#type {
            EventType::Delete => Event::Deleted { object },
            EventType::Add | EventType::Update => Event::Applied { object, old: None },
        });
        self.note(seen);
    }

    fn attempt_to_delete(&mut self) -> Result<(), Failure> {
        let Some(&node) = self.machine.delete.first() else {
            return Err(Failure::new("pending_delete", "one more", "none"));
        };
        let (server, actions) = (&mut self.server, &mut self.actions);
        let catalog = self.machine.catalog();
        let seen = self
            .machine
            .attempt_delete(node, |request| Ok(serve(catalog, server, actions, request)))?;
        self.note(seen);
        Ok(())
    }

    fn note(&mut self, seen: Seen) {
        self.events.extend(seen.warnings.iter().map(event_text));
        self.pending
            .extend(seen.virtual_deletes.iter().map(|identity| PendingEvent {
                r#type: EventType::Delete,
                obj: Object {
                    identity: Identity::of(identity),
                    owners: Vec::new(),
                    r#virtual: false,
                },
                r#virtual: true,
            }));
    }

    fn compare(&mut self, expected: &Expected) -> Result<(), Failure> {
        let graph = &self.machine.graph;
        let sorted = |mut lines: Vec<String>| {
            lines.sort();
            lines
        };
        let objects = |objects: &[Object]| objects.iter().map(object_text).collect::<Vec<_>>();
        let nodes = |nodes: &[NodeId]| {
            nodes
                .iter()
                .map(|&node| node_text(graph, node))
                .collect::<Vec<_>>()
        };
        equal_lines(
            "graph",
            &sorted(objects(&expected.graph)),
            &sorted(nodes(&graph.nodes().collect::<Vec<_>>())),
        )?;
        let items = |objects: &[Object]| objects.iter().map(item_text).collect::<Vec<_>>();
        let queued = |nodes: &[NodeId]| {
            nodes
                .iter()
                .map(|&node| queued_text(graph, node))
                .collect::<Vec<_>>()
        };
        equal_lines(
            "pending_delete",
            &items(&expected.pending_delete),
            &queued(&self.machine.delete),
        )?;
        equal_lines(
            "pending_orphan",
            &items(&expected.pending_orphan),
            &queued(&self.machine.orphan),
        )?;
        let events =
            |events: &mut dyn Iterator<Item = &PendingEvent>| events.map(pending_text).collect::<Vec<_>>();
        equal_lines(
            "pending_events",
            &events(&mut expected.pending_events.iter()),
            &events(&mut self.pending.iter()),
        )?;
        let absent = expected
            .absent_owner_cache
            .iter()
            .map(|id| id.object_ref().to_string())
            .collect();
        let remembered = self.machine.absent.iter().map(ToString::to_string).collect();
        equal_lines("absent_owner_cache", &sorted(absent), &sorted(remembered))?;
        let actions: Vec<_> = expected.actions.iter().map(action_text).collect();
        equal_lines("actions", &actions, &std::mem::take(&mut self.actions))?;
        equal_lines("events", &expected.events, &std::mem::take(&mut self.events))
    }
}

fn serve(
    catalog: &Catalog,
    server: &mut BTreeMap<Address, ServerObject>,
    actions: &mut Vec<String>,
    request: &Request,
) -> Response {
    let resource = &catalog[request.kind];
    let (namespace, name) = (
        request.target.namespace.to_string(),
        request.target.name.to_string(),
    );
    let verb = match request.operation {
        Operation::Get => "get",
        Operation::Delete { .. } => "delete",
        Operation::Patch { .. } => "patch",
        Operation::Put { .. } => "put",
    };
    let (group, version, plural) = (
        resource.group.to_string(),
        resource.version.to_string(),
        resource.resource.to_string(),
    );
    actions.push(format!("{verb} {group}/{version}/{plural} {namespace}/{name}"));
    let address = ((group, version, plural), namespace, name);
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

fn action_text(action: &Action) -> String {
    let Action {
        verb,
        group,
        version,
        resource,
        ns,
        name,
    } = action;
    format!("{verb} {group}/{version}/{resource} {ns}/{name}")
}

fn object_text(object: &Object) -> String {
    let owners = owners_text(object.owners.iter().map(Owner::reference));
    format!(
        "{} virtual={} owners:{owners}",
        object.identity.object_ref(),
        object.r#virtual
    )
}

fn node_text(graph: &Graph, node: NodeId) -> String {
    let owners = owners_text(graph.owners(node));
    format!(
        "{} virtual={} owners:{owners}",
        graph.identity(node),
        graph.is_virtual(node)
    )
}

/// A queued node: its owners are those of the same node in the graph, and not every recorded item repeats
/// them.
fn item_text(object: &Object) -> String {
    format!("{} virtual={}", object.identity.object_ref(), object.r#virtual)
}

fn queued_text(graph: &Graph, node: NodeId) -> String {
    format!("{} virtual={}", graph.identity(node), graph.is_virtual(node))
}

fn pending_text(event: &PendingEvent) -> String {
    let kind = match event.r#type {
        EventType::Add => "add",
        EventType::Update => "update",
        EventType::Delete => "delete",
    };
    format!("{kind} virtual={} {}", event.r#virtual, object_text(&event.obj))
}

fn event_text(warning: &InvalidNamespace) -> String {
    let ObjectRef {
        api_version, kind, ..
    } = &warning.dependent;
    let reason = InvalidNamespace::REASON;
    format!("Warning {reason} {warning} involvedObject{{kind={kind},apiVersion={api_version}}}")
}
