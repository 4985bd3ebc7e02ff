//! Replays one recorded sequence of events and attempts, comparing after every step.

use std::collections::VecDeque;

use kubegc_core::{ObjectRef, OwnerReference, Uid};
use kubegc_objects::{
    Graph,
    collector::InvalidNamespace,
    graph::{Event, NodeId},
};

use super::{
    calls::Script,
    format::{GraphNode, Input, Item, Object, Out, Sequence, Step, references},
    machine::{Machine, Seen},
};
use crate::{
    Failure,
    failure::{equal, shown},
    runner::{Case, Report},
};

pub(crate) fn replay(case: &Case<'_>, _: &mut Report) -> Result<(), Failure> {
    let case: Sequence = case.read()?;
    let semantics = super::semantics(&case.semantics)?;
    let catalog = super::catalog()?;
    let mut replay = Replay {
        ids: case.ids.iter().map(|id| id.0.clone()).collect(),
        machine: Machine::new(semantics, &catalog, case.absent_cache_size),
        virtual_deletes: VecDeque::new(),
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
            Input::AttemptDelete { item } | Input::AttemptOrphan { item } => {
                let is_orphan = matches!(step.input, Input::AttemptOrphan { .. });
                let Machine { delete, orphan, .. } = &self.machine;
                let queue = if is_orphan { orphan } else { delete };
                let node = self.take(item, queue)?;
                let machine = &mut self.machine;
                let catalog = machine.catalog();
                let mut script = Script::new(&out.actions, is_orphan);
                let perform = |request: &_| script.request(catalog, request);
                let seen = if is_orphan {
                    machine.attempt_orphan(node, perform)?
                } else {
                    machine.attempt_delete(node, perform)?
                };
                script.finish()?;
                seen
            }
        };
        self.compare(out, &seen, &absent_before)?;
        self.virtual_deletes.extend(seen.virtual_deletes);
        if let Some(graph) = &step.graph {
            self.compare_graph("graph", graph)?;
        }
        Ok(())
    }

    /// The first queued node with the identity and flags of a recorded item.
    fn take(&self, item: &Item, queue: &[NodeId]) -> Result<NodeId, Failure> {
        let wanted = (self.id(item.1)?, item.2.clone());
        let mut queue = queue.iter().copied();
        queue
            .find(|&node| describe(&self.machine.graph, node, false) == wanted)
            .ok_or_else(|| Failure::new("item", shown(&wanted), "not queued"))
    }

    /// Compares nodes, each with the flag whether it was queued already, in any order.
    fn compare_nodes(&self, place: &str, expected: &[Item], got: &[(NodeId, bool)]) -> Result<(), Failure> {
        let recorded = expected.iter().map(|item| Ok((self.id(item.1)?, item.2.clone())));
        let mut expected = recorded.collect::<Result<Vec<_>, Failure>>()?;
        let graph = &self.machine.graph;
        let got = got.iter().map(|&(node, queued)| describe(graph, node, queued));
        let mut got: Vec<_> = got.collect();
        expected.sort();
        got.sort();
        equal(place, &expected, &got)
    }

    fn compare(&self, out: &Out, seen: &Seen, absent_before: &[ObjectRef]) -> Result<(), Failure> {
        self.compare_nodes("del", &out.del, &seen.del)?;
        self.compare_nodes("orph", &out.orph, &seen.orph)?;
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

    fn end(self, case: &Sequence) -> Result<(), Failure> {
        let machine = &self.machine;
        self.compare_graph("final graph", &case.graph)?;
        let absent: Vec<_> = machine.absent.iter().cloned().collect();
        equal(
            "absent_owner_cache",
            &self.recorded(&case.absent_owner_cache)?,
            &absent,
        )?;
        let queued = |queue: &[NodeId]| queue.iter().map(|&node| (node, false)).collect::<Vec<_>>();
        self.compare_nodes("pending_delete", &case.pending_delete, &queued(&machine.delete))?;
        self.compare_nodes("pending_orphan", &case.pending_orphan, &queued(&machine.orphan))?;
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

/// The identity of a node and its flags: virtual, stale (no longer in the graph), queued before.
fn describe(graph: &Graph, node: NodeId, queued: bool) -> (ObjectRef, String) {
    let flags = [
        (graph.is_virtual(node), 'v'),
        (!graph.is_current(node), 's'),
        (queued, 'p'),
    ];
    let flags = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag);
    (graph.identity(node), flags.collect())
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
