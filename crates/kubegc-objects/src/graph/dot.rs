//! Rendering of the graph in DOT, byte for byte as the collector's debug endpoint ([D-2](crate::rules#d-2) to
//! [D-8](crate::rules#d-8)).
//!
//! # Upstream
//! [`dump.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/dump.go),
//! 1.20.2 (numbered nodes, through gonum) and 1.26 (nodes named by uid). Two deviations: releases before 1.26
//! number the nodes in no particular order, here by uid; and a missing owner has one vertex, where upstream
//! can draw it twice ([D-5](crate::rules#d-5)).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write,
};

use kubegc_core::{ObjectRef, Uid};

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
    missing: bool,
    being_deleted: bool,
    deleting_dependents: bool,
    is_virtual: bool,
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
    /// use kubegc_objects::{Graph, graph::DotFilter, settings::Semantics};
    /// let graph = Graph::new(Semantics::of("1.36".parse()?));
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
                    let identity = ObjectRef {
                        kind: owner.kind,
                        api_version: owner.api_version,
                        namespace: "".into(),
                        name: owner.name,
                        uid: owner.uid.clone(),
                    };
                    // Dependents can describe it differently. The smallest identity does not depend on the
                    // order of events.
                    vertices
                        .entry(owner.uid.clone())
                        .and_modify(|vertex| vertex.identity = identity.clone().min(vertex.identity.clone()))
                        .or_insert_with(|| Vertex::missing(identity));
                }
                edges.push((uid.clone(), owner.uid));
            }
            vertices.insert(uid, Vertex::of(self, node));
        }
        // An owner without a vertex is outside of the selection (D-4).
        edges.retain(|(_, owner)| vertices.contains_key(owner));
        edges.sort();
        if self.semantics.sorted_dump {
            Ok(by_uid(&vertices, &edges))
        } else {
            numbered(&vertices, edges)
        }
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
    fn of(graph: &Graph, node: NodeId) -> Self {
        Self {
            identity: graph.identity(node),
            missing: false,
            being_deleted: graph.is_being_deleted(node),
            deleting_dependents: graph.is_deleting_dependents(node),
            is_virtual: graph.is_virtual(node),
        }
    }

    fn missing(identity: ObjectRef) -> Self {
        Self {
            identity,
            missing: true,
            being_deleted: false,
            deleting_dependents: false,
            is_virtual: false,
        }
    }

    /// [D-6](crate::rules#d-6) and [D-7](crate::rules#d-7).
    fn attributes(&self) -> [(&'static str, String); 11] {
        let identity = &self.identity;
        let (group, version) = (identity.group(), identity.version());
        let mut label = format!(
            "uid={}\nnamespace={}\n{}.{version}",
            identity.uid, identity.namespace, identity.kind
        );
        if !group.is_empty() {
            label.push('.');
            label.push_str(group);
        }
        label.push('/');
        label.push_str(&identity.name);
        label.push('\n');
        let words: Vec<&str> = [
            (self.being_deleted, "beingDeleted"),
            (self.deleting_dependents, "deletingDependents"),
            (self.is_virtual, "virtual"),
            (self.missing, "missingFromGraph"),
        ]
        .into_iter()
        .filter_map(|(holds, word)| holds.then_some(word))
        .collect();
        if !words.is_empty() {
            label.push_str(&words.join(","));
            label.push('\n');
        }
        [
            ("label", label),
            ("group", group.to_owned()),
            ("version", version.to_owned()),
            ("kind", identity.kind.to_string()),
            ("namespace", identity.namespace.to_string()),
            ("name", identity.name.to_string()),
            ("uid", identity.uid.to_string()),
            ("missing", self.missing.to_string()),
            ("beingDeleted", self.being_deleted.to_string()),
            ("deletingDependents", self.deleting_dependents.to_string()),
            ("virtual", self.is_virtual.to_string()),
        ]
    }
}

const HEADER: &str = "strict digraph full {\n";

fn by_uid(vertices: &BTreeMap<Uid, Vertex>, edges: &[(Uid, Uid)]) -> String {
    let mut out = String::from(HEADER);
    if !vertices.is_empty() {
        out.push_str("  // Node definitions.\n");
    }
    for (uid, vertex) in vertices {
        line(&mut out, format_args!("  {} [", Quoted(&uid.text())));
        for (key, value) in vertex.attributes() {
            line(&mut out, format_args!("    {key}={}", Quoted(&value)));
        }
        out.push_str("  ];\n");
    }
    if !edges.is_empty() {
        out.push_str("  // Edge definitions.\n");
    }
    for (dependent, owner) in edges {
        line(
            &mut out,
            format_args!("  {} -> {};", Quoted(&dependent.text()), Quoted(&owner.text())),
        );
    }
    out.push_str("}\n");
    out
}

fn numbered(vertices: &BTreeMap<Uid, Vertex>, mut edges: Vec<(Uid, Uid)>) -> Result<String, SelfEdge> {
    if let Some((uid, _)) = edges.iter().find(|(dependent, owner)| dependent == owner) {
        return Err(SelfEdge {
            object: vertices[uid].identity.clone(),
        });
    }
    edges.dedup();
    let number: BTreeMap<&Uid, usize> = vertices.keys().enumerate().map(|(at, uid)| (uid, at)).collect();
    let mut out = String::from(HEADER);
    if !vertices.is_empty() {
        out.push_str("  // Node definitions.\n");
    }
    for (at, vertex) in vertices.values().enumerate() {
        line(&mut out, format_args!("  {at} ["));
        for (key, value) in vertex.attributes() {
            // The collector quotes the label once, and the encoder a second time.
            let value = if key == "label" {
                Quoted(&value).to_string()
            } else {
                value
            };
            line(
                &mut out,
                format_args!("    {key}=\"{}\"", value.replace('"', "\\\"")),
            );
        }
        out.push_str("  ];\n");
    }
    if !edges.is_empty() {
        out.push_str("\n  // Edge definitions.\n");
    }
    for (dependent, owner) in &edges {
        line(
            &mut out,
            format_args!("  {} -> {};", number[dependent], number[owner]),
        );
    }
    out.push('}');
    Ok(out)
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _infallible = out.write_fmt(text);
    out.push('\n');
}
