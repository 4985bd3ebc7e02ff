//! Replays one recorded sequence of events and attempts, comparing after every step.

use std::{collections::VecDeque, sync::Arc};

use kubegc_core::{Catalog, ObjectRef, OwnerReference, StoreError, Uid};
use kubegc_objects::{
    Request, Response,
    collector::InvalidNamespace,
    graph::{Event, NodeId},
};

use super::{
    format::{Action, GraphNode, Input, Item, Object, Out, Sent, Sequence, Step, references},
    items::{Serials, describe},
    machine::{DELETE, Machine, ORPHAN, Seen},
};
use crate::{
    Failure, Report,
    failure::{equal, shown},
    recording::{Case, release},
};

pub(crate) fn replay(case: &Case<'_>, _: &mut Report) -> Result<(), Failure> {
    let case: Sequence = case.read()?;
    let version = release(&case.semantics)?;
    let catalog = super::catalog()?;
    let mut replay = Replay {
        ids: case.ids.iter().map(|id| id.0.clone()).collect(),
        machine: Machine::new(version, &catalog, case.absent_cache_size),
        virtual_deletes: VecDeque::new(),
        serials: Serials::default(),
    };
    for (at, step) in case.steps.iter().enumerate() {
        replay
            .step(step)
            .map_err(|failure| failure.within(format_args!("step {at} ({})", step.input.name())))?;
    }
    replay.end(&case)
}

/// An object of the graph: its identity, whether it is virtual, being deleted, and deleting its dependents,
/// its owners, and the uids of its dependents.
type Node = (ObjectRef, [bool; 3], Vec<OwnerReference>, Vec<Uid>);

struct Replay<'a> {
    ids: Vec<ObjectRef>,
    machine: Machine<'a>,
    virtual_deletes: VecDeque<ObjectRef>,
    serials: Serials,
}

impl Replay<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        let out = &step.out;
        let absent_before: Vec<ObjectRef> = self.machine.absent.iter().cloned().collect();
        let seen = match &step.input {
            Input::Event { r#type, obj, old } => {
                let (id, old) = (self.id(obj.id)?, old.as_ref().map(Object::deletion));
                self.machine
                    .observe(*r#type, &id, &obj.owners, obj.deletion(), old)
            }
            Input::VirtualDelete { obj } => {
                let identity = self.virtual_deletes.pop_front();
                equal("virtual delete", &self.ids.get(obj.id), &identity.as_ref())?;
                let identity = self.id(obj.id)?;
                self.machine.apply(&Event::VirtualDeleted { identity: &identity })
            }
            Input::EnqueueVirtualDelete {} => Seen {
                virtual_deletes: self.recorded(&out.vdel)?,
                ..Seen::default()
            },
            Input::AttemptDelete { item } => self.attempt(DELETE, item, &out.actions)?,
            Input::AttemptOrphan { item } => self.attempt(ORPHAN, item, &out.actions)?,
        };
        self.compare(out, &seen, &absent_before)?;
        self.virtual_deletes.extend(seen.virtual_deletes);
        if let Some(graph) = &step.graph {
            self.compare_graph("graph", graph)?;
        }
        self.serials.note_departures(&self.machine.graph);
        Ok(())
    }

    /// Attempts the queued node of a recorded item, which has the recorded identity and flags.
    fn attempt(&mut self, queue: usize, item: &Item, actions: &[Action]) -> Result<Seen, Failure> {
        let node = self.serials.node(item)?;
        let found = describe(&self.machine.graph, node, false);
        equal("item", &(self.id(item.1)?, item.2.clone()), &found)?;
        if !self.machine.queues[queue].contains(&node) {
            return Err(Failure::new("item", found.0.to_string(), "not queued"));
        }
        let catalog = self.machine.catalog;
        let mut script = Script::new(actions, queue == ORPHAN);
        let perform = |request: &Request| script.request(catalog, request);
        let seen = self.machine.attempt(queue, node, perform)?;
        script.finish()?;
        Ok(seen)
    }

    fn compare(&mut self, out: &Out, seen: &Seen, absent_before: &[ObjectRef]) -> Result<(), Failure> {
        let graph = &self.machine.graph;
        let [del, orph] = &seen.queued;
        for (place, expected, got) in [("del", &out.del, del), ("orph", &out.orph, orph)] {
            self.serials.compare(place, expected, got, graph, &self.ids)?;
        }
        equal("vdel", &self.recorded(&out.vdel)?, &seen.virtual_deletes)?;
        let mut events: Vec<_> = seen.warnings.iter().map(event_text).collect();
        events.sort();
        equal("events", &out.events, &events)?;
        // Compared as a set here; the order of the whole memory is compared at the end.
        let new = self.machine.absent.iter();
        let new = new.filter(|owner| !absent_before.contains(owner));
        let mut new: Vec<ObjectRef> = new.cloned().collect();
        let mut expected = self.recorded(&out.absent)?;
        new.sort();
        expected.sort();
        equal("absent", &expected, &new)?;
        equal("requeued", &out.requeued, &seen.requeued)?;
        equal("handled_error", &out.handled_error, &seen.handled_error)
    }

    fn compare_graph(&self, place: &str, expected: &[GraphNode]) -> Result<(), Failure> {
        let graph = &self.machine.graph;
        let recorded = |node: &GraphNode| -> Result<Node, Failure> {
            let mut dependents: Vec<Uid> = node.dependents.iter().map(|uid| Uid::new(uid)).collect();
            dependents.sort();
            let flags = [node.r#virtual, node.being_deleted, node.deleting_dependents];
            Ok((self.id(node.id)?, flags, references(&node.owners), dependents))
        };
        let replayed = |node: NodeId| -> Node {
            let dependents = graph.dependents(node).iter();
            let mut dependents: Vec<Uid> = dependents.map(|&dependent| graph.uid(dependent)).collect();
            dependents.sort();
            let flags = [
                graph.is_virtual(node),
                graph.is_being_deleted(node),
                graph.is_deleting_dependents(node),
            ];
            (
                graph.identity(node),
                flags,
                graph.owners(node).collect(),
                dependents,
            )
        };
        let mut expected = expected.iter().map(recorded).collect::<Result<Vec<_>, _>>()?;
        let mut got: Vec<_> = graph.nodes().map(replayed).collect();
        expected.sort();
        got.sort();
        equal(place, &expected, &got)
    }

    fn end(mut self, case: &Sequence) -> Result<(), Failure> {
        self.compare_graph("final graph", &case.graph)?;
        let Machine {
            graph,
            absent,
            queues: [delete, orphan],
            ..
        } = &self.machine;
        let remembered: Vec<ObjectRef> = absent.iter().cloned().collect();
        equal(
            "absent_owner_cache",
            &self.recorded(&case.absent_owner_cache)?,
            &remembered,
        )?;
        for (place, recorded, queue) in [
            ("pending_delete", &case.pending_delete, delete),
            ("pending_orphan", &case.pending_orphan, orphan),
        ] {
            let queued: Vec<_> = queue.iter().map(|&node| (node, false)).collect();
            self.serials.compare(place, recorded, &queued, graph, &self.ids)?;
        }
        let recorded = self.recorded(&case.pending_vdel)?;
        equal("pending_vdel", &recorded, &Vec::from(self.virtual_deletes))
    }

    fn recorded(&self, ids: &[usize]) -> Result<Vec<ObjectRef>, Failure> {
        ids.iter().map(|&id| self.id(id)).collect()
    }

    fn id(&self, at: usize) -> Result<ObjectRef, Failure> {
        self.ids
            .get(at)
            .cloned()
            .ok_or_else(|| Failure::unreadable(format!("there is no identity {at}")))
    }
}

fn event_text(warning: &InvalidNamespace) -> String {
    let ObjectRef {
        api_version,
        kind,
        namespace,
        name,
        uid,
    } = &warning.dependent;
    let reason = InvalidNamespace::REASON;
    format!("Warning {reason} {warning} involved={api_version}|{kind}|{namespace}|{name}|{uid}")
}

fn response(action: &Action) -> Result<Response, Failure> {
    let Sent { verb, ns, name, .. } = &action.request;
    let meta = action.obj.as_ref().map(|object| Arc::new(object.meta(ns, name)));
    Ok(match action.code {
        200..=299 if verb == "get" => Response::Found(meta.ok_or_else(|| {
            Failure::unreadable(format!("a successful get of {ns}/{name} without an object"))
        })?),
        200..=299 => Response::Applied(meta),
        code => StoreError::from_status(code, "", None).into(),
    })
}

/// Recorded requests that are sent one after another.
struct Script<'a> {
    sent: usize,
    left: Vec<&'a Action>,
    /// Whether requests on different objects may come in any order.
    grouped: bool,
}

impl<'a> Script<'a> {
    fn new(actions: &'a [Action], grouped: bool) -> Self {
        Self {
            sent: 0,
            left: actions.iter().collect(),
            grouped,
        }
    }

    /// Responds to a request, if it is the next one recorded (of its object, where they are grouped).
    fn request(&mut self, catalog: &Catalog, request: &Request) -> Result<Response, Failure> {
        let got = Sent::of(catalog, request);
        let object = |sent: &Sent| (sent.res.clone(), sent.ns.clone(), sent.name.clone());
        let is_next = |action: &&Action| !self.grouped || object(&action.request) == object(&got);
        let Some(at) = self.left.iter().position(is_next) else {
            return Err(Failure::new("actions", "no further request", shown(&got)));
        };
        let action = self.left.remove(at);
        equal(&format!("action {}", self.sent), &action.request, &got)?;
        self.sent += 1;
        response(action)
    }

    /// Whether every recorded request was sent.
    fn finish(&self) -> Result<(), Failure> {
        let left: Vec<&Sent> = self.left.iter().map(|action| &action.request).collect();
        equal("actions", &left, &Vec::<&Sent>::new())
    }
}
