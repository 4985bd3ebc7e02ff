//! Nodes, with their owners and dependents. A node is freed when it has left the index and no queue, attempt
//! or set retains it, so a graph with a steady number of objects does not grow.

use smallvec::SmallVec;

use super::{
    Graph, NodeId,
    dependents::Dependents,
    names::Namespace,
    record::{CURRENT, Coordinates, DETACHED, NODE, NONE, Reference, list_of, listed},
};

impl Graph {
    /// Adds a node to the index. One use of its coordinates is already counted.
    #[inline]
    pub(super) fn insert_node(&mut self, coordinates: Coordinates, namespace: Namespace, flags: u8) -> u32 {
        let at = if self.records[coordinates.0].has(DETACHED) {
            self.records.duplicate(coordinates)
        } else {
            coordinates.0
        };
        let record = &mut self.records[at];
        record.namespace = namespace;
        record.set(CURRENT | flags);
        self.len += 1;
        at
    }

    /// Removes a node from the index. It keeps its record while it is retained.
    pub(super) fn detach_node(&mut self, node: u32) {
        self.records[node].clear(CURRENT);
        self.records[node].set(DETACHED);
        self.len -= 1;
    }

    /// Frees a node that is neither in the index nor retained.
    ///
    /// Its dependents lose one retain each and can become free in turn, so this is a loop, not a recursion.
    pub(super) fn free_if_unused(&mut self, node: u32) {
        let mut pending = Vec::new();
        let mut next = Some(node);
        while let Some(at) = next {
            if self.records[at].has(DETACHED) && !self.is_retained(at) {
                self.free_node(at, &mut pending);
            }
            next = pending.pop();
        }
    }

    /// Whether anything but its own set of dependents retains a node.
    fn is_retained(&self, node: u32) -> bool {
        let retains = self.records[node].retains();
        retains > 1 || retains == 1 && !self.dependents_of(node).contains(&NodeId(node))
    }

    fn free_node(&mut self, node: u32, pending: &mut Vec<u32>) {
        for reference in self.take_references(node) {
            self.records.release(reference.coordinates());
        }
        let dependents = std::mem::replace(&mut self.records[node].dependents, NodeId(NONE));
        let mut lose = |dependent: NodeId| {
            self.records[dependent.0].release();
            pending.push(dependent.0);
        };
        if let Some(set) = list_of(dependents.0) {
            let set = self.dependent_sets.remove(set as usize);
            set.items().iter().copied().for_each(lose);
        } else if dependents.0 != NONE {
            lose(dependents);
        }
        self.records[node].clear(NODE);
        self.records.release(Coordinates(node));
    }

    #[inline]
    pub(super) fn references(&self, node: u32) -> &[Reference] {
        let owners = &self.records[node].owners;
        match list_of(owners.0) {
            Some(list) => &self.owner_lists[list as usize],
            None if owners.0 == NONE => &[],
            None => std::slice::from_ref(owners),
        }
    }

    /// Takes the references from the node, with the uses that they count.
    pub(super) fn take_references(&mut self, node: u32) -> SmallVec<[Reference; 4]> {
        let references = SmallVec::from_slice(self.references(node));
        let owners = std::mem::replace(&mut self.records[node].owners, Reference(NONE));
        if let Some(list) = list_of(owners.0) {
            self.owner_lists.remove(list as usize);
        }
        references
    }

    /// Sets the references of a node that has none. Their uses are already counted.
    #[inline]
    pub(super) fn put_references(&mut self, node: u32, references: &[Reference]) {
        self.records[node].owners = match references {
            [] => Reference(NONE),
            [one] => *one,
            // At most one list a node, and nodes have 28-bit positions.
            many => Reference(listed(self.owner_lists.insert(many.into()) as u32)),
        };
    }

    #[inline]
    pub(super) fn dependents_of(&self, node: u32) -> &[NodeId] {
        let dependents = &self.records[node].dependents;
        match list_of(dependents.0) {
            Some(list) => self.dependent_sets[list as usize].items(),
            None if dependents.0 == NONE => &[],
            None => std::slice::from_ref(dependents),
        }
    }

    /// Sets the dependents of a node that has none, and retains them.
    pub(super) fn put_dependents(&mut self, node: u32, dependents: &[NodeId]) {
        self.records[node].dependents = match dependents {
            [] => NodeId(NONE),
            [one] => *one,
            many => NodeId(listed(self.dependent_sets.insert(Dependents::of(many)) as u32)),
        };
        for dependent in dependents {
            self.records[dependent.0].retain();
        }
    }

    /// Adds a dependent to an owner. `fresh` means that it is not in the set yet, which saves a search.
    pub(super) fn add_dependent(&mut self, owner: u32, dependent: u32, fresh: bool) {
        let id = NodeId(dependent);
        let known = self.records[owner].dependents;
        if let Some(set) = list_of(known.0) {
            if !self.dependent_sets[set as usize].insert(id, fresh) {
                return;
            }
        } else if known == id {
            return;
        } else if known.0 == NONE {
            self.records[owner].dependents = id;
        } else {
            let set = self.dependent_sets.insert(Dependents::of(&[known, id]));
            self.records[owner].dependents = NodeId(listed(set as u32));
        }
        self.records[dependent].retain();
    }

    /// Removes a dependent, by node and not by uid, from an owner.
    pub(super) fn remove_dependent(&mut self, owner: u32, dependent: u32) {
        let id = NodeId(dependent);
        let known = self.records[owner].dependents;
        let mut is_empty = known == id;
        if let Some(at) = list_of(known.0) {
            let set = &mut self.dependent_sets[at as usize];
            if !set.remove(id) {
                return;
            }
            is_empty = set.items().is_empty();
            if is_empty {
                self.dependent_sets.remove(at as usize);
            }
        } else if known != id {
            return;
        }
        if is_empty {
            self.records[owner].dependents = NodeId(NONE);
        }
        self.records[dependent].release();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::{collection::vec, prelude::*, sample::Index};

    use kubegc_core::{ObjectMeta, ObjectRef, OwnerReference, Timestamp, Uid};

    use super::*;
    use crate::graph::{DeletionState, Effect, Event, Listed, Observed};

    const KINDS: [(&str, &str); 3] = [
        ("v1", "Secret"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1beta1", "ReplicaSet"),
    ];
    /// Names and namespaces; the empty namespace is that of cluster-scoped objects.
    const NAMES: [&str; 3] = [
        "",
        "red",
        "a-name-that-is-longer-than-a-cache-line-of-sixty-four-bytes-is-long",
    ];
    const UIDS: u8 = 6;

    /// UUIDs and other uids.
    fn uid(at: u8) -> Uid {
        if at.is_multiple_of(3) {
            Uid::new(&format!("text-{at}"))
        } else {
            Uid::from_uuid([at; 16])
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Apply(usize, ObjectMeta),
        Delete(usize, ObjectMeta),
        /// A lookup does not find the owner as the graph knows it.
        Absent(u8),
        Release(Index),
        Shrink,
    }

    /// Few uids, kinds and names, so that objects have uids in common, own themselves, and disagree with
    /// references about owners, or no object has the uid of a reference.
    fn object(uids: u8) -> impl Strategy<Value = (usize, ObjectMeta)> {
        let reference = (0..KINDS.len(), 0..NAMES.len(), 0..uids, any::<Option<bool>>());
        let identity = (0..KINDS.len(), 0..NAMES.len(), 0..NAMES.len(), 0..uids);
        (identity, vec(reference, 0..4), 0_u8..8).prop_map(
            |((kind, namespace, name, at), owners, deletion)| {
                let reference =
                    |(kind, name, at, block_owner_deletion): (usize, usize, u8, _)| OwnerReference {
                        api_version: KINDS[kind].0.into(),
                        kind: KINDS[kind].1.into(),
                        name: NAMES[name].into(),
                        uid: uid(at),
                        controller: None,
                        block_owner_deletion,
                    };
                let mut meta = ObjectMeta::new(NAMES[namespace], NAMES[name], "");
                meta.uid = uid(at);
                meta.owner_references = owners.into_iter().map(reference).collect();
                if deletion < 2 {
                    meta.deletion_timestamp = Some(Timestamp::EPOCH);
                    meta.finalizers
                        .push(["orphan", "foregroundDeletion"][usize::from(deletion)].into());
                }
                (kind, meta)
            },
        )
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => object(UIDS).prop_map(|(kind, meta)| Step::Apply(kind, meta)),
            2 => object(UIDS).prop_map(|(kind, meta)| Step::Delete(kind, meta)),
            1 => (0..UIDS).prop_map(Step::Absent),
            2 => any::<Index>().prop_map(Step::Release),
            1 => Just(Step::Shrink),
        ]
    }

    /// A graph, and the nodes that its effects retain.
    struct Case {
        graph: Graph,
        queue: Vec<NodeId>,
    }

    impl Case {
        fn apply(&mut self, event: &Event<'_>) {
            let mut effects = Vec::new();
            self.graph.apply(event, &mut effects);
            self.queue
                .extend(effects.into_iter().filter_map(|effect| match effect {
                    Effect::AttemptToDelete(node)
                    | Effect::AttemptToDeleteRateLimited(node)
                    | Effect::AttemptToOrphan(node) => Some(node),
                    _ => None,
                }));
        }

        fn take(&mut self, step: &Step) {
            let known = |graph: &mut Graph, kind: usize| graph.kind(KINDS[kind].0, KINDS[kind].1);
            match step {
                Step::Apply(kind, meta) => {
                    let object = Observed::of(known(&mut self.graph, *kind), meta);
                    let old = Some(DeletionState::default());
                    self.apply(&Event::Applied { object, old });
                }
                Step::Delete(kind, meta) => {
                    let object = Observed::of(known(&mut self.graph, *kind), meta);
                    self.apply(&Event::Deleted { object });
                }
                Step::Absent(at) => {
                    if let Some(node) = self.graph.node(&uid(*at)) {
                        let identity = self.graph.identity(node);
                        self.apply(&Event::VirtualDeleted { identity: &identity });
                    }
                }
                Step::Release(at) => {
                    if !self.queue.is_empty() {
                        let node = self.queue.swap_remove(at.index(self.queue.len()));
                        self.graph.release(node);
                    }
                }
                Step::Shrink => self.graph.shrink_to_fit(),
            }
        }

        /// All that the graph knows of the retained nodes that left the index.
        fn stale(&self) -> BTreeMap<NodeId, (ObjectRef, Vec<OwnerReference>, Vec<NodeId>)> {
            let graph = &self.graph;
            let stale = self.queue.iter().filter(|node| !graph.is_current(**node));
            let known = stale.map(|&node| {
                let owners = graph.owners(node).collect();
                (
                    node,
                    (graph.identity(node), owners, graph.dependents(node).to_vec()),
                )
            });
            known.collect()
        }
    }

    /// Descriptions of all nodes of a graph.
    fn nodes(graph: &Graph) -> Vec<String> {
        let describe = |node: NodeId| {
            let flags = (
                graph.is_virtual(node),
                graph.is_being_deleted(node),
                graph.is_deleting_dependents(node),
            );
            let owners: Vec<_> = graph.owners(node).collect();
            let identity = graph.identity(node);
            format!(
                "{node:?} {identity:?} {flags:?} {owners:?} {:?}",
                graph.dependents(node)
            )
        };
        graph.nodes().map(describe).collect()
    }

    proptest! {
        #[test]
        fn a_stale_node_stays_as_it_was_and_all_memory_is_free_in_the_end(
            steps in vec(step(), 0..80),
            release in prop::sample::select(vec!["1.16", "1.20", "1.36"]),
        ) {
            let release = release.parse().expect("a version");
            let mut case = Case { graph: Graph::new(release), queue: Vec::new() };
            for step in &steps {
                let before = case.stale();
                case.take(step);
                let after = case.stale();
                for (node, known) in &before {
                    prop_assert!(!case.queue.contains(node) || after.get(node) == Some(known));
                }
                let nodes: Vec<_> = case.graph.nodes().collect();
                prop_assert_eq!(nodes.len(), case.graph.len());
                for &node in &nodes {
                    prop_assert_eq!(case.graph.node(&case.graph.uid(node)), Some(node));
                    for &dependent in case.graph.dependents(node) {
                        let mut owners = case.graph.owners(dependent);
                        prop_assert!(owners.any(|owner| owner.uid == case.graph.uid(node)));
                        prop_assert!(case.graph.is_current(dependent));
                    }
                }
                if let Step::Apply(_, meta) = step {
                    let node = case.graph.node(&meta.uid).expect("it was observed");
                    let known: BTreeSet<_> = case.graph.owners(node).map(|owner| owner.uid).collect();
                    let observed = meta.owner_references.iter().map(|owner| owner.uid.clone());
                    prop_assert_eq!(known, observed.collect());
                }
            }
            let first = |graph: &Graph| graph.nodes().next();
            while let Some(node) = first(&case.graph) {
                let identity = case.graph.identity(node);
                let kind = KINDS.iter().position(|kind| *kind.1 == *identity.kind).expect("one of these");
                let mut meta = ObjectMeta::new(&identity.namespace, &identity.name, "");
                meta.uid = identity.uid;
                case.take(&Step::Delete(kind, meta));
            }
            for node in std::mem::take(&mut case.queue) {
                case.graph.release(node);
            }
            prop_assert_eq!(case.graph.records.in_use(), 0);
            prop_assert_eq!(case.graph.owner_lists.len(), 0);
            prop_assert_eq!(case.graph.dependent_sets.len(), 0);
        }

        /// A list gives the same graph as its objects one by one.
        #[test]
        fn a_list_and_its_objects_one_by_one_give_the_same_graph(
            objects in vec(object(40), 0..120),
            changes in vec((any::<Index>(), any::<bool>()), 0..20),
            release in prop::sample::select(vec!["1.13", "1.20.2", "1.28", "1.33", "1.36"]),
        ) {
            let release = release.parse().expect("a version");
            let (mut one_by_one, mut at_once) = (Graph::new(release), Graph::new(release));
            let kinds = KINDS.map(|(api_version, kind)| one_by_one.kind(api_version, kind));
            prop_assert_eq!(kinds, KINDS.map(|(api_version, kind)| at_once.kind(api_version, kind)));
            let list: Vec<_> = objects
                .iter()
                .map(|(kind, meta)| {
                    // Some were known before, in another state.
                    let old = (meta.name.len() == 3).then(DeletionState::default);
                    Listed { kind: kinds[*kind], meta, old }
                })
                .collect();
            let (mut expected, mut effects) = (Vec::<Effect>::new(), Vec::new());
            for &Listed { kind, meta, old } in &list {
                let object = Observed::of(kind, meta);
                one_by_one.apply(&Event::Applied { object, old }, &mut expected);
            }
            at_once.apply_list(list.iter().copied(), &mut effects);
            prop_assert_eq!(&effects, &expected);
            prop_assert_eq!(nodes(&at_once), nodes(&one_by_one));

            // Later deletions and updates, and the same list again, also give the same graph.
            for graph in [&mut one_by_one, &mut at_once] {
                let mut effects = Vec::new();
                for (at, is_deleted) in &changes {
                    if list.is_empty() {
                        break;
                    }
                    let Listed { kind, meta, .. } = *at.get(&list);
                    let object = Observed::of(kind, meta);
                    let event = if *is_deleted {
                        Event::Deleted { object }
                    } else {
                        Event::Applied { object, old: Some(DeletionState::default()) }
                    };
                    graph.apply(&event, &mut effects);
                }
            }
            prop_assert_eq!(nodes(&at_once), nodes(&one_by_one));
            let (mut expected, mut effects) = (Vec::new(), Vec::new());
            for &Listed { kind, meta, old } in &list {
                let object = Observed::of(kind, meta);
                one_by_one.apply(&Event::Applied { object, old }, &mut expected);
            }
            at_once.apply_list(list, &mut effects);
            prop_assert_eq!(effects, expected);
            prop_assert_eq!(nodes(&at_once), nodes(&one_by_one));
        }
    }
}
