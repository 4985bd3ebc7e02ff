//! A list gives the same graph as its objects one by one.

use proptest::{collection::vec, prelude::*};

use kubegc_core::{ObjectMeta, OwnerReference, Timestamp, Uid};
use kubegc_objects::{
    Graph,
    graph::{DeletionState, Effect, Event, Listed, NodeId, Observed},
    settings::Semantics,
};

use crate::common::{VERSIONS, cluster::version};

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

/// UUIDs and other uids.
fn uid(at: u8) -> Uid {
    if at.is_multiple_of(3) {
        Uid::new(&format!("text-{at}"))
    } else {
        Uid::from_uuid([at; 16])
    }
}

/// Few uids, kinds and names, so that objects have uids in common, own themselves, and disagree with
/// references about owners, or no object has the uid of a reference.
fn object() -> impl Strategy<Value = (usize, ObjectMeta)> {
    let reference = (0..KINDS.len(), 0..NAMES.len(), 0_u8..40, any::<Option<bool>>());
    let owners = vec(reference, 0..4);
    let identity = (0..KINDS.len(), 0..NAMES.len(), 0..NAMES.len(), 0_u8..40);
    (identity, owners, 0_u8..12).prop_map(|((kind, namespace, name, at), owners, deletion)| {
        let mut meta = ObjectMeta::new(NAMES[namespace], NAMES[name], "");
        meta.uid = uid(at);
        meta.owner_references = owners
            .into_iter()
            .map(|(kind, name, at, blocks)| OwnerReference {
                api_version: KINDS[kind].0.into(),
                kind: KINDS[kind].1.into(),
                name: NAMES[name].into(),
                uid: uid(at),
                controller: None,
                block_owner_deletion: blocks,
            })
            .collect();
        if deletion < 2 {
            meta.deletion_timestamp = Some(Timestamp::EPOCH);
            let finalizer = ["orphan", "foregroundDeletion"][usize::from(deletion)];
            meta.finalizers.push(finalizer.into());
        }
        (kind, meta)
    })
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
    fn a_list_and_its_objects_one_by_one_give_the_same_graph(
        objects in vec(object(), 0..120),
        changes in vec((any::<prop::sample::Index>(), any::<bool>()), 0..20),
        release in 0..VERSIONS.len(),
    ) {
        let semantics = Semantics::of(version(VERSIONS[release]));
        let (mut one_by_one, mut at_once) = (Graph::new(semantics), Graph::new(semantics));
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
