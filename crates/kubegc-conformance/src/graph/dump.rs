//! The whole graph as lines, in the recording's order.

use std::fmt::Write as _;

use kubegc_core::{ObjectRef, OwnerReference};
use kubegc_objects::{Graph, graph::NodeId};

use super::format::{GraphNode, Owner};
use crate::{Failure, failure::equal_lines};

pub(super) fn compare(
    place: &str,
    expected: &[GraphNode],
    graph: &Graph,
    ids: &[ObjectRef],
) -> Result<(), Failure> {
    let mut want: Vec<_> = expected.iter().map(|node| recorded(node, ids)).collect();
    let mut got: Vec<_> = graph.nodes().map(|node| replayed(graph, node)).collect();
    want.sort();
    got.sort();
    equal_lines(place, &want, &got)
}

/// References, flags kept apart as absent, false and true.
pub(super) fn owners_text(owners: impl IntoIterator<Item = OwnerReference>) -> String {
    let mut text = String::new();
    for owner in owners {
        let (controller, blocking) = (owner.controller, owner.block_owner_deletion);
        // Writing to a String does not fail.
        let _written = write!(text, " {owner} controller={controller:?} block={blocking:?};");
    }
    text
}

fn recorded(node: &GraphNode, ids: &[ObjectRef]) -> String {
    let identity = ids
        .get(node.id)
        .map_or_else(|| format!("id {}", node.id), ToString::to_string);
    let owners = owners_text(node.owners.iter().map(Owner::reference));
    let mut dependents = node.dependents.clone();
    dependents.sort();
    line(
        &identity,
        [node.r#virtual, node.being_deleted, node.deleting_dependents],
        &owners,
        &dependents,
    )
}

fn replayed(graph: &Graph, node: NodeId) -> String {
    let flags = [
        graph.is_virtual(node),
        graph.is_being_deleted(node),
        graph.is_deleting_dependents(node),
    ];
    let mut dependents: Vec<_> = graph
        .dependents(node)
        .iter()
        .map(|&dependent| graph.uid(dependent).to_string())
        .collect();
    dependents.sort();
    line(
        &graph.identity(node).to_string(),
        flags,
        &owners_text(graph.owners(node)),
        &dependents,
    )
}

fn line(identity: &str, flags: [bool; 3], owners: &str, dependents: &[String]) -> String {
    let [is_virtual, being_deleted, deleting_dependents] = flags;
    format!(
        "{identity} virtual={is_virtual} beingDeleted={being_deleted} deletingDependents={deleting_dependents} \
         owners:{owners} dependents: {dependents:?}"
    )
}
