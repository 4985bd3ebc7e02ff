//! Rendering of the graph in DOT, byte for byte as the collector's debug endpoint ([D-2](crate::rules#d-2) to
//! [D-8](crate::rules#d-8)).
//!
//! # Upstream
//! [`dump.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/dump.go),
//! 1.20.2 (numbered nodes, through gonum) and 1.26 (nodes named by uid). Two deviations: releases before 1.26
//! number the nodes in no particular order, here by uid; and a missing owner has one vertex, where upstream
//! can draw it twice ([D-5](crate::rules#d-5)).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kubegc_core::{ObjectRef, Uid, version::behavior};

use super::{Graph, NodeId};
use crate::effect::Quoted;

/// The nodes to render.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DotFilter {
    /// All nodes that have an owner or a dependent ([D-3](crate::rules#d-3)).
    #[default]
    All,
    /// Nodes that are connected with these uids over owners and dependents ([D-2](crate::rules#d-2)). Unknown
    /// uids are ignored; an empty list selects nothing.
    Connected(Vec<Uid>),
}

/// An object owns itself, which the endpoint of releases before 1.26 cannot render ([D-8](crate::rules#d-8)).
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object} owns itself, which this version cannot draw")]
pub struct SelfEdge {
    pub object: ObjectRef,
}

struct Vertex {
    identity: ObjectRef,
    /// `beingDeleted`, `deletingDependents`, `virtual` and `missing`.
    flags: [bool; 4],
}

impl Graph {
    /// Renders the graph, or a part of it.
    ///
    /// # Errors
    /// An object owns itself and the version is older than 1.26.
    ///
    /// # Complexity
    /// O(v log v + e) for v nodes and e references shown.
    ///
    /// # Examples
    /// ```
    /// use kubegc_objects::{Graph, graph::DotFilter};
    /// let graph = Graph::new("1.36".parse()?);
    /// assert_eq!(graph.dot(&DotFilter::All)?, "strict digraph full {\n}\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dot(&self, filter: &DotFilter) -> Result<String, SelfEdge> {
        let mut vertices: BTreeMap<Uid, Vertex> = BTreeMap::new();
        let mut edges: Vec<(Uid, Uid)> = Vec::new();
        for node in self.shown(filter) {
            if self.references(node.0).is_empty() && self.dependents(node).is_empty() {
                continue;
            }
            let uid = self.uid(node);
            for owner in self.owners(node) {
                if self.node(&owner.uid).is_none() {
                    let identity = owner.clone().object_ref("".into());
                    // Dependents can describe it differently. The smallest identity does not depend on the
                    // order of events.
                    vertices
                        .entry(owner.uid.clone())
                        .and_modify(|vertex| vertex.identity = identity.clone().min(vertex.identity.clone()))
                        .or_insert_with(|| Vertex {
                            identity,
                            flags: [false, false, false, true],
                        });
                }
                edges.push((uid.clone(), owner.uid));
            }
            let vertex = Vertex {
                identity: self.identity(node),
                flags: [
                    self.is_being_deleted(node),
                    self.is_deleting_dependents(node),
                    self.is_virtual(node),
                    false,
                ],
            };
            vertices.insert(uid, vertex);
        }
        // An owner without a vertex is outside of the selection (D-4).
        edges.retain(|(_, owner)| vertices.contains_key(owner));
        edges.sort();
        if !self.version.has(behavior::DUMP_IS_SORTED) {
            if let Some((uid, _)) = edges.iter().find(|(dependent, owner)| dependent == owner) {
                let object = vertices[uid].identity.clone();
                return Err(SelfEdge { object });
            }
            edges.dedup();
        }
        Ok(render(
            &vertices,
            &edges,
            self.version.has(behavior::DUMP_IS_SORTED),
        ))
    }

    fn shown(&self, filter: &DotFilter) -> Vec<NodeId> {
        let DotFilter::Connected(uids) = filter else {
            return self.nodes().collect();
        };
        let mut pending: VecDeque<NodeId> = uids.iter().filter_map(|uid| self.node(uid)).collect();
        let mut shown: BTreeSet<NodeId> = BTreeSet::new();
        while let Some(node) = pending.pop_front() {
            if shown.insert(node) {
                pending.extend(self.owner_nodes(node));
                let dependents = self
                    .dependents(node)
                    .iter()
                    .filter_map(|&dependent| self.node(&self.uid(dependent)));
                pending.extend(dependents);
            }
        }
        shown.into_iter().collect()
    }
}

impl Vertex {
    /// [D-6](crate::rules#d-6) and [D-7](crate::rules#d-7).
    fn attributes(&self) -> [(&'static str, String); 11] {
        let identity = &self.identity;
        let (group, version) = (identity.group(), identity.version());
        let dot = if group.is_empty() { "" } else { "." };
        let mut label = format!(
            "uid={}\nnamespace={}\n{}.{version}{dot}{group}/{}\n",
            identity.uid, identity.namespace, identity.kind, identity.name
        );
        let words = [
            "beingDeleted",
            "deletingDependents",
            "virtual",
            "missingFromGraph",
        ];
        let words = words.into_iter().zip(self.flags);
        let words: Vec<&str> = words.filter_map(|(word, holds)| holds.then_some(word)).collect();
        if !words.is_empty() {
            label.push_str(&words.join(","));
            label.push('\n');
        }
        let [being_deleted, deleting_dependents, is_virtual, missing] =
            self.flags.map(|flag| flag.to_string());
        [
            ("label", label),
            ("group", group.to_owned()),
            ("version", version.to_owned()),
            ("kind", identity.kind.to_string()),
            ("namespace", identity.namespace.to_string()),
            ("name", identity.name.to_string()),
            ("uid", identity.uid.to_string()),
            ("missing", missing),
            ("beingDeleted", being_deleted),
            ("deletingDependents", deleting_dependents),
            ("virtual", is_virtual),
        ]
    }
}

/// Writes the vertices and the edges, which are sorted. `names_uids` is the form from 1.26 on.
fn render(vertices: &BTreeMap<Uid, Vertex>, edges: &[(Uid, Uid)], names_uids: bool) -> String {
    let numbers: BTreeMap<&Uid, usize> = vertices.keys().zip(0..).collect();
    let id = |uid: &Uid| match names_uids {
        true => Quoted(&uid.text()).to_string(),
        false => numbers[uid].to_string(),
    };
    let quoted = |key: &str, value: &str| {
        let text = Quoted(value).to_string();
        match (names_uids, key) {
            (true, _) => text,
            // The collector quotes the label once, and the encoder a second time.
            (false, "label") => format!("\"{}\"", text.replace('"', "\\\"")),
            (false, _) => format!("\"{}\"", value.replace('"', "\\\"")),
        }
    };
    let mut out = String::from("strict digraph full {\n");
    if !vertices.is_empty() {
        out.push_str("  // Node definitions.\n");
    }
    for (uid, vertex) in vertices {
        out.push_str(&format!("  {} [\n", id(uid)));
        for (key, value) in vertex.attributes() {
            out.push_str(&format!("    {key}={}\n", quoted(key, &value)));
        }
        out.push_str("  ];\n");
    }
    if !edges.is_empty() {
        let before = if names_uids { "" } else { "\n" };
        out.push_str(&format!("{before}  // Edge definitions.\n"));
    }
    for (dependent, owner) in edges {
        out.push_str(&format!("  {} -> {};\n", id(dependent), id(owner)));
    }
    out.push_str(if names_uids { "}\n" } else { "}" });
    out
}
