//! Node leases: the cases of the owner-reference collector, and what holds for all leases and nodes.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    ObjectMeta, OwnerReference, PatchType, PlanOf, Planner, Preconditions, PropagationPolicy, StoreError,
    Timestamp, Uid, deletion::Propagation,
};
use kubegc_lifecycle::{
    lease::{Action, Facts, Nodes, Owner, OwnerState, Reason, Settings, owner_of},
    object::{Act, Call, Change, Form, Live, Object, Resource, Wire},
};
use proptest::{collection::vec, prelude::*};

type LeasePlan = PlanOf<Settings>;

fn node(name: &str, uid: &str) -> ObjectMeta {
    ObjectMeta::new("", name, uid)
}

/// The lease `node-a`, with these nodes as owners.
fn lease(owners: &[&ObjectMeta]) -> ObjectMeta {
    let mut lease = ObjectMeta::new("kube-node-lease", "node-a", "lease");
    lease.resource_version = "7".into();
    lease.owner_references = owners.iter().map(|node| owner_of(node)).collect();
    lease
}

fn all(leases: Vec<ObjectMeta>, nodes: Vec<ObjectMeta>) -> Facts {
    Facts {
        leases: Ok(leases),
        nodes: Nodes::All(nodes),
    }
}

fn plan_of(lease: ObjectMeta, nodes: Vec<ObjectMeta>) -> LeasePlan {
    Settings::default().plan(&all(vec![lease], nodes), Timestamp::EPOCH)
}

/// What becomes of the only lease.
fn outcome(plan: &LeasePlan) -> String {
    assert_eq!(plan.actions.len() + plan.kept.len(), 1);
    let done = plan.actions.iter().map(|action| match action {
        Action::Delete { .. } => "deleted".to_owned(),
        Action::Release { owners, .. } => {
            let owners: Vec<String> = owners.iter().map(Uid::to_string).collect();
            format!("released from {}", owners.join(" "))
        }
    });
    done.chain(plan.kept.iter().map(|kept| format!("kept: {}", kept.reason)))
        .collect()
}

#[test]
fn t_9_1_a_lease_goes_with_its_node() {
    let plan = plan_of(lease(&[&node("node-a", "a")]), Vec::new());
    let state = OwnerState::Absent;
    let owners = vec![Owner {
        node: "node-a".into(),
        state,
    }];
    assert_eq!(outcome(&plan), "deleted");
    assert_eq!(plan.actions[0].reason(), &Reason::Owners { owners });
}

#[test]
fn t_9_2_and_9_5_a_lease_stays_with_its_node_however_old_it_is() {
    let node = node("node-a", "a");
    let facts = all(vec![lease(&[&node])], vec![node]);
    for nanos in [i64::MIN, 0, i64::MAX] {
        let plan = Settings::default().plan(&facts, Timestamp::from_nanos(nanos));
        assert_eq!(
            outcome(&plan),
            "kept: owned by node node-a, which is there",
            "{nanos}"
        );
        assert_eq!(plan.next_at, None);
    }
}

#[test]
fn t_9_3_a_node_made_anew_is_another_node() {
    let plan = plan_of(lease(&[&node("node-a", "old")]), vec![node("node-a", "new")]);
    assert_eq!(outcome(&plan), "deleted");
    let reason = "owned by node node-a, whose name now belongs to another one (uid new)";
    assert_eq!(plan.actions[0].reason().to_string(), reason);
}

#[test]
fn t_9_4_a_lease_without_owners_stays() {
    assert_eq!(outcome(&plan_of(lease(&[]), Vec::new())), "kept: has no owners");
}

#[test]
fn t_9_6_what_was_not_found_out_decides_nothing() {
    let (a, b) = (node("node-a", "a"), node("node-b", "b"));
    let reads = |a: Option<Live<ObjectMeta>>, b| {
        let reads = [("node-a".into(), a), ("node-b".into(), b)];
        Nodes::Of(
            reads
                .into_iter()
                .filter_map(|(name, live)| Some((name, live?)))
                .collect(),
        )
    };
    let failed = Live::Failed("timeout".into());
    let not_looked_up = "kept: node node-a was not looked up";
    for (nodes, expected, lookups) in [
        (
            reads(Some(failed.clone()), Some(Live::NotFound)),
            "kept: node node-a could not be looked up: timeout",
            &[][..],
        ),
        (
            reads(Some(Live::NotFound), Some(failed)),
            "kept: node node-b could not be looked up: timeout",
            &[],
        ),
        (reads(None, Some(Live::NotFound)), not_looked_up, &["node-a"]),
        (
            reads(Some(Live::NotAsked), None),
            not_looked_up,
            &["node-a", "node-b"],
        ),
        (Nodes::default(), not_looked_up, &["node-a", "node-b"]),
        (reads(Some(Live::NotFound), Some(Live::NotFound)), "deleted", &[]),
        (
            reads(Some(Live::Found(a.clone())), Some(Live::NotFound)),
            "released from b",
            &[],
        ),
    ] {
        let facts = Facts {
            leases: Ok(vec![lease(&[&a, &b])]),
            nodes,
        };
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        assert_eq!(outcome(&plan), expected);
        let asked: Vec<&str> = plan.summary.lookups.iter().map(|name| &**name).collect();
        assert_eq!(asked, lookups);
    }
    let unlisted = Facts {
        leases: Err(StoreError::Unlisted),
        nodes: Nodes::All(Vec::new()),
    };
    let plan = Settings::default().plan(&unlisted, Timestamp::EPOCH);
    assert_eq!(plan.summary.error, Some(StoreError::Unlisted));
    assert_eq!(plan.actions, []);
}

#[test]
fn t_9_7_a_namespaced_lease_may_have_a_cluster_scoped_owner() {
    let node = node("node-a", "a");
    let lease = lease(&[&node]);
    assert_eq!((&*lease.namespace, &*node.namespace), ("kube-node-lease", ""));
    assert!(outcome(&plan_of(lease, vec![node])).starts_with("kept: owned by"));
}

#[test]
fn t_9_8_a_lease_with_an_owner_left_only_loses_the_dead_ones() {
    let [a, b, c] = ["a", "b", "c"].map(|uid| node(&format!("node-{uid}"), uid));
    let plan = plan_of(lease(&[&c, &a, &b]), vec![a, node("node-b", "new")]);
    assert_eq!(outcome(&plan), "released from c b");
}

#[test]
fn what_waits_is_released_after_what_is_gone() {
    let waiting = |uid: &str| {
        let mut node = node(&format!("node-{uid}"), uid);
        node.deletion_timestamp = Some(Timestamp::EPOCH);
        node.finalizers = vec!["foregroundDeletion".into()];
        node
    };
    let (w, a, gone) = (waiting("w"), node("node-a", "a"), node("node-x", "x"));
    let plan = plan_of(lease(&[&w, &gone, &a]), vec![a.clone(), w.clone()]);
    assert_eq!(outcome(&plan), "released from x w");
    // Nobody is left: it goes.
    assert_eq!(outcome(&plan_of(lease(&[&w, &gone]), vec![w.clone()])), "deleted");
    assert_eq!(outcome(&plan_of(lease(&[&w]), vec![w])), "deleted");
    // A node that is deleted in another way is there until it is gone.
    let mut held = a;
    held.deletion_timestamp = Some(Timestamp::EPOCH);
    held.finalizers = vec!["orphan".into(), "example.com/f".into()];
    let plan = plan_of(lease(&[&held]), vec![held.clone()]);
    assert!(outcome(&plan).starts_with("kept: owned by"), "{plan:?}");
    // So is one that only has the finalizer.
    held.deletion_timestamp = None;
    held.finalizers = vec!["foregroundDeletion".into()];
    let plan = plan_of(lease(&[&held]), vec![held.clone()]);
    assert!(outcome(&plan).starts_with("kept: owned by"), "{plan:?}");
}

#[test]
fn an_owner_that_is_no_node_keeps_the_lease() {
    for (api_version, kind) in [
        ("v1", "Pod"),
        ("v2", "Node"),
        ("example.com/v1", "Node"),
        ("", ""),
    ] {
        let mut lease = lease(&[&node("node-a", "a")]);
        lease.owner_references.push(OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            ..owner_of(&node("web", "p"))
        });
        let expected = format!("kept: its owner {api_version}/{kind} web (uid p) is no node");
        assert_eq!(outcome(&plan_of(lease, Vec::new())), expected);
    }
}

#[test]
fn other_leases_and_those_being_deleted_are_left_alone() {
    let mut identity = lease(&[&node("node-a", "a")]);
    identity.namespace = "kube-system".into();
    let plan = plan_of(identity.clone(), Vec::new());
    assert_eq!(outcome(&plan), "kept: is no node lease");
    let mut settings = Settings::default();
    settings.namespace = "kube-system".into();
    let plan = settings.plan(&all(vec![identity], Vec::new()), Timestamp::EPOCH);
    assert_eq!(outcome(&plan), "deleted");
    let mut deleting = lease(&[&node("node-a", "a")]);
    deleting.deletion_timestamp = Some(Timestamp::EPOCH);
    assert_eq!(outcome(&plan_of(deleting, Vec::new())), "kept: is being deleted");
}

#[test]
fn what_is_listed_twice_and_not_alike_stays() {
    let a = node("node-a", "a");
    let facts = all(vec![lease(&[&a]), lease(&[])], Vec::new());
    let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
    assert_eq!(outcome(&plan), "kept: listed twice, in two states");
    let plan = plan_of(lease(&[&node("node-a", "x")]), vec![a, node("node-a", "b")]);
    assert_eq!(
        outcome(&plan),
        "kept: node node-a was listed twice, and not alike"
    );
}

#[test]
fn a_name_that_is_listed_with_two_uids_stays() {
    let old = lease(&[&node("node-a", "a")]);
    let mut new = old.clone();
    new.uid = "new".into();
    let plan = Settings::default().plan(&all(vec![old, new], Vec::new()), Timestamp::EPOCH);
    assert_eq!((plan.actions.len(), plan.kept.len()), (0, 2));
    assert!(plan.kept.iter().all(|kept| kept.reason == Reason::ListedTwice));
}

#[test]
fn what_has_no_uid_decides_nothing() {
    let a = node("node-a", "a");
    let mut nameless = lease(&[&a]);
    nameless.uid = "".into();
    assert_eq!(
        outcome(&plan_of(nameless, Vec::new())),
        "kept: its uid is not known"
    );
    // Neither a node of which nobody knows whether it is the one that is meant, nor a reference that may mean any.
    let unknown = node("node-a", "");
    let why = "kept: its owner node node-a cannot be told by its uid";
    for (owner, nodes) in [
        (&a, vec![unknown.clone()]),
        (&unknown, vec![a.clone()]),
        (&unknown, vec![unknown.clone()]),
        (&unknown, Vec::new()),
    ] {
        assert_eq!(outcome(&plan_of(lease(&[owner]), nodes)), why);
    }
}

#[test]
fn deletions_respect_finalizers_and_expect_the_version_since_1_34() {
    let uid = Preconditions::uid("lease".into());
    let both = Preconditions {
        resource_version: Some("7".into()),
        ..uid.clone()
    };
    for (text, sent) in [("1.20", &uid), ("1.33", &uid), ("1.34", &both), ("1.36", &both)] {
        let settings = Settings::new(text.parse().expect("a release in range"));
        for (finalizers, policy) in [
            (&[][..], PropagationPolicy::Background),
            (&["example.com/f"], PropagationPolicy::Background),
            (&["foregroundDeletion"], PropagationPolicy::Foreground),
            (&["foregroundDeletion", "orphan"], PropagationPolicy::Orphan),
        ] {
            let mut lease = lease(&[&node("node-a", "a")]);
            lease.finalizers = finalizers.iter().map(|&name| name.into()).collect();
            let plan = settings.plan(&all(vec![lease], Vec::new()), Timestamp::EPOCH);
            for (wire, expected) in [(Wire::AsUpstream, sent), (Wire::Strict, &both)] {
                let calls = plan.actions[0].calls(wire);
                let [Call::Delete { options, .. }] = &calls[..] else {
                    panic!("{calls:?}");
                };
                assert_eq!(&options.preconditions, expected, "{text}");
                assert_eq!(options.propagation, Some(Propagation::Policy(policy)));
                assert_eq!(options.grace_period_seconds, None);
            }
        }
    }
}

#[test]
fn references_are_removed_by_uid() {
    let a = node("node-a", "a");
    let plan = plan_of(lease(&[&a, &node("node-x", "x")]), vec![a]);
    let uid = Preconditions::uid("lease".into());
    let both = Preconditions {
        resource_version: Some("7".into()),
        ..uid.clone()
    };
    for (wire, expect) in [(Wire::AsUpstream, uid), (Wire::Strict, both)] {
        let expected = Call::Change {
            object: plan.actions[0].object().clone(),
            subresource: "",
            form: Form::Patch(PatchType::Strategic),
            expect,
            changes: vec![Change::RemoveOwnerReferences(vec!["x".into()])],
        };
        assert_eq!(plan.actions[0].calls(wire), [expected]);
    }
}

#[test]
fn the_kubelets_reference_neither_controls_nor_blocks() {
    let reference = owner_of(&node("node-a", "a"));
    assert_eq!(reference.to_string(), "v1/Node node-a (uid a)");
    assert_eq!(
        (reference.controller, reference.block_owner_deletion),
        (None, None)
    );
}

/// A node or a reference to one: a name and a uid.
fn seeds() -> impl Strategy<Value = (u8, u8)> {
    (0..3_u8, 0..3_u8)
}

fn named((name, uid): (u8, u8)) -> ObjectMeta {
    node(&format!("n{name}"), &format!("n{name}-{uid}"))
}

fn leases() -> impl Strategy<Value = Vec<ObjectMeta>> {
    let one = (vec(seeds(), 0..4), 0..8_u8);
    vec(one, 0..6).prop_map(|seeds| {
        let leases = seeds.into_iter().enumerate().map(|(at, (owners, odd))| {
            let owners: Vec<ObjectMeta> = owners.into_iter().map(named).collect();
            let mut lease = lease(&owners.iter().collect::<Vec<_>>());
            lease.name = format!("lease-{at}").into();
            lease.uid = Uid::new(&lease.name);
            match odd {
                0 => lease.namespace = "kube-system".into(),
                1 => lease.deletion_timestamp = Some(Timestamp::EPOCH),
                2 => {
                    if let Some(reference) = lease.owner_references.first_mut() {
                        reference.kind = "Pod".into();
                    }
                }
                _ => {}
            }
            lease
        });
        leases.collect()
    })
}

fn nodes() -> impl Strategy<Value = Nodes> {
    let live = (seeds(), 0..6_u8).prop_map(|(seed, state)| {
        let mut node = named(seed);
        let live = match state {
            0 => Live::NotAsked,
            1 => Live::Failed("timeout".into()),
            2 => Live::NotFound,
            3 => {
                node.deletion_timestamp = Some(Timestamp::EPOCH);
                node.finalizers = vec!["foregroundDeletion".into()];
                Live::Found(node.clone())
            }
            _ => Live::Found(node.clone()),
        };
        (Arc::clone(&node.name), live)
    });
    let complete = vec(seeds(), 0..3).prop_map(|seeds| Nodes::All(seeds.into_iter().map(named).collect()));
    prop_oneof![
        complete,
        vec(live, 0..4).prop_map(|reads| Nodes::Of(BTreeMap::from_iter(reads)))
    ]
}

/// A world in which every call succeeds.
fn carried_out(mut leases: Vec<ObjectMeta>, plan: &LeasePlan) -> Vec<ObjectMeta> {
    for action in &plan.actions {
        let is_it = |lease: &ObjectMeta| Object::new(Resource::Leases, lease) == *action.object();
        for call in action.calls(Wire::AsUpstream) {
            match call {
                Call::Delete { .. } => leases.retain(|lease| !is_it(lease)),
                Call::Change { changes, .. } => {
                    let [Change::RemoveOwnerReferences(uids)] = &changes[..] else {
                        panic!("{changes:?}");
                    };
                    for lease in leases.iter_mut().filter(|lease| is_it(lease)) {
                        lease
                            .owner_references
                            .retain(|reference| !uids.contains(&reference.uid));
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
    leases
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn every_lease_is_acted_on_or_kept_once(leases in leases(), nodes in nodes()) {
        let facts = Facts { leases: Ok(leases.clone()), nodes };
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        let acted = plan.actions.iter().map(|action| action.object().clone());
        let mut all: Vec<Object> = acted.chain(plan.kept.iter().map(|kept| kept.object.clone())).collect();
        all.sort();
        let mut expected: Vec<Object> = leases.iter().map(|lease| Object::new(Resource::Leases, lease)).collect();
        expected.sort();
        prop_assert_eq!(all, expected);
    }

    #[test]
    fn neither_order_nor_time_means_anything(leases in leases(), nodes in nodes(), nanos in any::<i64>()) {
        let facts = Facts { leases: Ok(leases.clone()), nodes };
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        let mut other = facts;
        other.leases = Ok(leases.into_iter().rev().collect());
        if let Nodes::All(nodes) = &mut other.nodes {
            nodes.reverse();
        }
        prop_assert_eq!(Settings::default().plan(&other, Timestamp::from_nanos(nanos)), plan);
    }

    #[test]
    fn once_carried_out_nothing_is_left_to_do(leases in leases(), nodes in nodes()) {
        let facts = Facts { leases: Ok(leases.clone()), nodes };
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        let after = Facts { leases: Ok(carried_out(leases, &plan)), ..facts };
        prop_assert_eq!(Settings::default().plan(&after, Timestamp::EPOCH).actions, []);
    }

    #[test]
    fn a_lease_goes_only_where_no_owner_is_there(leases in leases(), nodes in nodes()) {
        let is_there = |reference: &OwnerReference| match &nodes {
            Nodes::All(all) => all.iter().any(|node| node.uid == reference.uid),
            Nodes::Of(reads) => match reads.get(&reference.name) {
                Some(Live::Found(node)) => node.uid == reference.uid && !node.is_deleting(),
                Some(Live::NotFound) => false,
                _ => true,
            },
        };
        let facts = Facts { leases: Ok(leases.clone()), nodes: nodes.clone() };
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        for action in &plan.actions {
            let lease = leases.iter().find(|lease| lease.uid == action.object().uid);
            let references = lease.map(|lease| lease.owner_references.to_vec()).unwrap_or_default();
            prop_assert!(!references.is_empty());
            match action {
                Action::Delete { .. } => prop_assert!(!references.iter().any(is_there)),
                Action::Release { owners, .. } => {
                    let released = |reference: &&OwnerReference| owners.contains(&reference.uid);
                    prop_assert!(!references.iter().filter(released).any(is_there));
                    prop_assert!(references.iter().any(is_there));
                }
            }
        }
    }
}
