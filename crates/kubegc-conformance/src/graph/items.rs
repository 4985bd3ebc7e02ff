//! Matches recorded queue items with nodes.
//!
//! A recording numbers node objects; the replay has positions of an arena, which are reused. A serial
//! belongs to a node from its first use until the node is outside the graph and another serial has its
//! position.

use std::collections::BTreeMap;

use kubegc_core::ObjectRef;
use kubegc_objects::{Graph, graph::NodeId};

use super::format::Item;
use crate::Failure;

#[derive(Default)]
pub(super) struct Serials {
    node_of: BTreeMap<u64, NodeId>,
    at: BTreeMap<NodeId, Known>,
}

/// The recorded node that was last seen at a position.
struct Known {
    serial: u64,
    identity: ObjectRef,
    /// Whether it has been seen outside the graph: the position may have been used again.
    departed: bool,
}

impl Serials {
    pub(super) fn node(&self, item: &Item) -> Result<NodeId, Failure> {
        let node = self.node_of.get(&item.0).copied();
        node.ok_or_else(|| {
            Failure::new(
                "item",
                format!("{item:?}"),
                "no node has been queued under this serial",
            )
        })
    }

    /// Compares what was recorded of a queue with nodes, each with the flag whether it was queued already, in
    /// any order.
    pub(super) fn compare(
        &mut self,
        place: &str,
        expected: &[Item],
        got: &[(NodeId, bool)],
        graph: &Graph,
        ids: &[ObjectRef],
    ) -> Result<(), Failure> {
        let mut left: Vec<_> = got
            .iter()
            .map(|&(node, queued)| (node, describe(graph, node, queued)))
            .collect();
        // Known serials first: they leave no choice.
        let (known, new): (Vec<_>, Vec<_>) = expected
            .iter()
            .partition(|item| self.node_of.contains_key(&item.0));
        let differs = || {
            let mut texts: Vec<_> = got
                .iter()
                .map(|&(node, queued)| self.text(graph, node, queued))
                .collect();
            texts.sort();
            let expected: Vec<_> = expected.iter().map(|item| text_of(item, ids)).collect();
            Failure::new(place, expected.join("\n"), texts.join("\n"))
        };
        let mut found = Vec::new();
        for item in known.into_iter().chain(new) {
            let wanted = ids.get(item.1).map(|id| (id.clone(), item.2.clone()));
            let position = left.iter().position(|(node, described)| {
                Some(described) == wanted.as_ref() && self.may_be(item.0, *node, graph)
            });
            let Some(at) = position else { return Err(differs()) };
            found.push((item.0, left.swap_remove(at).0));
        }
        if !left.is_empty() {
            return Err(differs());
        }
        for (serial, node) in found {
            self.node_of.insert(serial, node);
            if self.at.get(&node).is_none_or(|known| known.serial != serial) {
                self.at.insert(
                    node,
                    Known {
                        serial,
                        identity: graph.identity(node),
                        departed: false,
                    },
                );
            }
        }
        Ok(())
    }

    pub(super) fn note_departures(&mut self, graph: &Graph) {
        for (&node, known) in &mut self.at {
            known.departed = known.departed || has_departed(graph, node, known);
        }
    }

    fn may_be(&self, serial: u64, node: NodeId, graph: &Graph) -> bool {
        let known = self.at.get(&node);
        match self.node_of.get(&serial) {
            Some(&at) => at == node && known.is_some_and(|known| known.serial == serial),
            // A position can be left and used again within one step, but not by the same identity.
            None => known.is_none_or(|known| known.departed || has_departed(graph, node, known)),
        }
    }

    fn text(&self, graph: &Graph, node: NodeId, queued: bool) -> String {
        let (identity, flags) = describe(graph, node, queued);
        match self.at.get(&node) {
            Some(known) => format!("{identity} {flags:?} #{}", known.serial),
            None => format!("{identity} {flags:?} new"),
        }
    }
}

/// A freed position counts as outside the graph, so its identity is never read.
fn has_departed(graph: &Graph, node: NodeId, known: &Known) -> bool {
    !graph.is_current(node) || graph.identity(node) != known.identity
}

/// The identity and the flags of a node.
pub(super) fn describe(graph: &Graph, node: NodeId, queued: bool) -> (ObjectRef, String) {
    let mut flags = String::new();
    if graph.is_virtual(node) {
        flags.push('v');
    }
    if !graph.is_current(node) {
        flags.push('s');
    }
    if queued {
        flags.push('p');
    }
    (graph.identity(node), flags)
}

fn text_of(item: &Item, ids: &[ObjectRef]) -> String {
    let identity = ids
        .get(item.1)
        .map_or_else(|| format!("id {}", item.1), ToString::to_string);
    format!("{identity} {:?} #{}", item.2, item.0)
}
