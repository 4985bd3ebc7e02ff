//! Replays one recorded sequence of events and attempts, comparing after every step.

use std::collections::VecDeque;

use kubegc_core::ObjectRef;
use kubegc_objects::{
    collector::InvalidNamespace,
    graph::{Event, NodeId, Observed},
};

use super::{
    calls::Script,
    dump,
    format::{EventType, Identity, Input, Item, Object, Out, Sequence, Step, references},
    items::{Serials, describe},
    machine::{Machine, Seen},
};
use crate::{
    Failure,
    failure::{equal, equal_lines},
};

/// Replays one case.
pub(crate) fn replay(line: &str, semantics_by_name: &str) -> Result<(), Failure> {
    let case: Sequence = serde_json::from_str(line).map_err(Failure::unreadable)?;
    let semantics = super::semantics(case.semantics.as_deref().unwrap_or(semantics_by_name))?;
    let catalog = super::catalog()?;
    let mut replay = Replay {
        ids: case.ids.iter().map(Identity::object_ref).collect(),
        machine: Machine::new(semantics, &catalog, case.absent_cache_size),
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
            Input::Event { r#type, obj, old } => self.event(*r#type, obj, old.as_ref())?,
            Input::VirtualDelete { obj } => {
                let identity = self.virtual_deletes.pop_front();
                let text = |identity: Option<&ObjectRef>| {
                    identity.map_or_else(|| "none".to_owned(), ToString::to_string)
                };
                equal(
                    "virtual delete",
                    text(self.ids.get(obj.id)),
                    text(identity.as_ref()),
                )?;
                let identity = self.id(obj.id)?;
                self.machine.apply(&Event::VirtualDeleted { identity: &identity })
            }
            Input::EnqueueVirtualDelete {} => {
                let virtual_deletes = out.vdel.iter().map(|&id| self.id(id)).collect::<Result<_, _>>()?;
                Seen {
                    virtual_deletes,
                    ..Seen::default()
                }
            }
            Input::AttemptDelete { item } => {
                let node = self.take(item, &self.machine.delete)?;
                let catalog = self.machine.catalog();
                let mut script = Script::new(&out.actions, false);
                let seen = self
                    .machine
                    .attempt_delete(node, |request| script.request(catalog, request))?;
                script.finish()?;
                seen
            }
            Input::AttemptOrphan { item } => {
                let node = self.take(item, &self.machine.orphan)?;
                let catalog = self.machine.catalog();
                let mut script = Script::new(&out.actions, true);
                let seen = self
                    .machine
                    .attempt_orphan(node, |request| script.request(catalog, request))?;
                script.finish()?;
                seen
            }
        };
        self.compare(out, &seen, &absent_before)?;
        self.virtual_deletes.extend(seen.virtual_deletes);
        if let Some(graph) = &step.graph {
            dump::compare("graph", graph, &self.machine.graph, &self.ids)?;
        }
        self.serials.note_departures(&self.machine.graph);
        Ok(())
    }

    fn event(&mut self, event: EventType, object: &Object, old: Option<&Object>) -> Result<Seen, Failure> {
        let id = self.id(object.id)?;
        let owners: Vec<_> = references(&object.owners);
        let kind = self.machine.graph.kind(&id.api_version, &id.kind);
        let object = Observed {
            kind,
            namespace: &id.namespace,
            name: &id.name,
            uid: &id.uid,
            owners: &owners,
            deletion: object.deletion(),
        };
        Ok(self.machine.apply(&match event {
            EventType::Add | EventType::Update => Event::Applied {
                object,
                old: old.map(Object::deletion),
            },
            EventType::Delete => Event::Deleted { object },
        }))
    }

    /// The queued node of a recorded item, with the recorded identity and flags.
    fn take(&self, item: &Item, queue: &[NodeId]) -> Result<NodeId, Failure> {
        let node = self.serials.node(item)?;
        let (identity, flags) = describe(&self.machine.graph, node, false);
        equal(
            "item",
            format!("{} {:?}", self.id(item.1)?, item.2),
            format!("{identity} {flags:?}"),
        )?;
        if queue.contains(&node) {
            Ok(node)
        } else {
            Err(Failure::new("item", identity.to_string(), "not queued"))
        }
    }

    fn compare(&mut self, out: &Out, seen: &Seen, absent_before: &[ObjectRef]) -> Result<(), Failure> {
        let graph = &self.machine.graph;
        self.serials
            .compare("del", &out.del, &seen.del, graph, &self.ids)?;
        self.serials
            .compare("orph", &out.orph, &seen.orph, graph, &self.ids)?;
        self.identities("vdel", &out.vdel, seen.virtual_deletes.iter())?;
        let mut events: Vec<_> = seen.warnings.iter().map(event_text).collect();
        events.sort();
        equal_lines("events", &out.events, &events)?;
        // Compared as a set here; the order of the whole memory is compared at the end.
        let mut new: Vec<_> = self
            .machine
            .absent
            .iter()
            .filter(|owner| !absent_before.contains(owner))
            .map(ToString::to_string)
            .collect();
        let mut expected: Vec<_> = out
            .absent
            .iter()
            .map(|&id| self.id(id).map(|id| id.to_string()))
            .collect::<Result<_, _>>()?;
        new.sort();
        expected.sort();
        equal_lines("absent", &expected, &new)?;
        equal("requeued", out.requeued.to_string(), seen.requeued.to_string())?;
        equal(
            "handled_error",
            out.handled_error.to_string(),
            seen.handled_error.to_string(),
        )
    }

    fn end(mut self, case: &Sequence) -> Result<(), Failure> {
        let Machine {
            graph,
            absent,
            delete,
            orphan,
            ..
        } = &self.machine;
        dump::compare("final graph", &case.graph, graph, &self.ids)?;
        self.identities("absent_owner_cache", &case.absent_owner_cache, absent.iter())?;
        let queued = |queue: &[NodeId]| queue.iter().map(|&node| (node, false)).collect::<Vec<_>>();
        self.serials.compare(
            "pending_delete",
            &case.pending_delete,
            &queued(delete),
            graph,
            &self.ids,
        )?;
        self.serials.compare(
            "pending_orphan",
            &case.pending_orphan,
            &queued(orphan),
            graph,
            &self.ids,
        )?;
        self.identities("pending_vdel", &case.pending_vdel, self.virtual_deletes.iter())
    }

    fn identities<'i>(
        &self,
        place: &str,
        expected: &[usize],
        got: impl Iterator<Item = &'i ObjectRef>,
    ) -> Result<(), Failure> {
        let expected: Vec<_> = expected
            .iter()
            .map(|&id| self.id(id).map(|id| id.to_string()))
            .collect::<Result<_, _>>()?;
        equal_lines(
            place,
            &expected,
            &got.map(ToString::to_string).collect::<Vec<_>>(),
        )
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
