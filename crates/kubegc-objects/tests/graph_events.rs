//! Effects of each event on the graph, case by case.

use kubegc_core::{ObjectRef, OwnerReference};
use kubegc_objects::graph::DeletionState;

use crate::{
    common::cluster::{CONFIG_MAP, NODE, Object, SECRET, TENANT},
    graph_rules::Case,
};

const NOTHING: [&str; 0] = [];

fn blocking(owner: &Object, block_owner_deletion: Option<bool>) -> OwnerReference {
    OwnerReference {
        block_owner_deletion,
        ..owner.reference()
    }
}

fn states() -> impl Iterator<Item = DeletionState> {
    (0..8).map(|bits| DeletionState {
        deleting: bits & 1 != 0,
        orphan: bits & 2 != 0,
        foreground: bits & 4 != 0,
    })
}

#[test]
fn e9_an_object_starts_to_wait_once() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let item = Object::new(SECRET, "red", "item").owned_by(&owner);
    for (release, later) in [("1.15", false), ("1.16", true), ("1.36", true)] {
        for now in states() {
            for old in states().map(Some).chain([None]) {
                let mut case = Case::new(release);
                case.apply(&owner);
                case.apply(&item);
                let effects = case.apply_state(&owner, now, old);
                let starts = |has, had: fn(DeletionState) -> bool| {
                    let is_new = match old {
                        None => true,
                        Some(old) if !old.deleting => true,
                        Some(old) => later && !had(old),
                    };
                    now.deleting && has && is_new
                };
                let orphans = starts(now.orphan, |old| old.orphan);
                let waits = !orphans && starts(now.foreground, |old| old.foreground);
                let expected: &[&str] = if orphans {
                    &["orphan configmap/owner -n red"]
                } else if waits {
                    &["secret/item -n red", "configmap/owner -n red"]
                } else {
                    &[]
                };
                assert_eq!(effects, expected, "{release} {now:?} after {old:?}");
                let node = case.node(&owner);
                let graph = &case.graph;
                assert_eq!(
                    (graph.is_being_deleted(node), graph.is_deleting_dependents(node)),
                    (now.deleting, waits),
                    "{release} {now:?} after {old:?}"
                );
            }
        }
    }
}

#[test]
fn e5_a_new_object_has_the_flags_of_its_deletion() {
    let item = Object::new(SECRET, "red", "item");
    for now in states() {
        let mut case = Case::new("1.36");
        case.apply_state(&item, now, None);
        let node = case.node(&item);
        assert!(!case.graph.is_virtual(node) && case.graph.is_current(node));
        assert_eq!(case.graph.is_being_deleted(node), now.deleting, "{now:?}");
        let waits = now.deleting && now.foreground;
        assert_eq!(case.graph.is_deleting_dependents(node), waits, "{now:?}");
        // The flags are never cleared (G-2).
        case.apply(&item);
        assert_eq!(case.graph.is_being_deleted(node), now.deleting, "{now:?}");
        assert_eq!(case.graph.is_deleting_dependents(node), waits, "{now:?}");
    }
}

#[test]
fn e14_a_removal_queues_the_dependents_and_the_owners_that_wait() {
    let waiting = DeletionState {
        deleting: true,
        orphan: false,
        foreground: true,
    };
    for release in ["1.13", "1.20.2", "1.36"] {
        let [waits, stays] = ["waits", "stays"].map(|name| Object::new(CONFIG_MAP, "red", name));
        let middle = Object::new(CONFIG_MAP, "red", "middle")
            .owned_by(&stays)
            .owned_by(&waits);
        let leaves = ["a", "b"].map(|name| Object::new(SECRET, "red", name).owned_by(&middle));
        let mut case = Case::new(release);
        case.apply_state(&waits, waiting, None);
        for object in [&stays, &middle, &leaves[0], &leaves[1]] {
            assert_eq!(case.apply(object), NOTHING);
        }
        assert_eq!((case.graph.len(), case.graph.is_empty()), (5, false));
        let queued = ["secret/a -n red", "secret/b -n red", "configmap/middle -n red"];
        assert_eq!(case.apply_state(&middle, waiting, None), queued);
        let node = case.node(&middle);
        case.graph.release(node);
        let expected = [
            "absent configmap/middle -n red",
            "secret/a -n red",
            "secret/b -n red",
            "configmap/waits -n red",
        ];
        assert_eq!(case.delete(&middle), expected, "{release}");
        assert_eq!(case.delete(&middle), NOTHING, "it is unknown now (E-7)");
        assert_eq!(
            (case.dependents(&waits), case.dependents(&stays)),
            (vec![], vec![])
        );
        // E-15: it is observed again, without dependents, as a new node in the place of the old one.
        case.apply(&middle);
        assert_eq!(case.node(&middle), node);
        assert!(!case.graph.is_being_deleted(node) && !case.graph.is_deleting_dependents(node));
        assert_eq!(case.dependents(&middle), NOTHING);
        assert_eq!(case.dependents(&waits), ["middle"]);
        assert_eq!(case.delete(&middle), ["configmap/waits -n red"], "{release}");
        for object in [&waits, &stays, &leaves[0], &leaves[1]] {
            assert_eq!(case.delete(object), NOTHING);
        }
        assert_eq!((case.graph.len(), case.graph.is_empty()), (0, true));
    }
}

/// The namespace and name of an identity of `u-x`.
fn identity(object: &Object) -> ObjectRef {
    let owner = object.reference();
    ObjectRef {
        kind: owner.kind,
        api_version: owner.api_version,
        namespace: object.meta.namespace.clone(),
        name: owner.name,
        uid: owner.uid,
    }
}

/// An owner with the uid `u-x`, under any name.
fn named(kind: crate::common::cluster::Kind, namespace: &str, name: &str) -> Object {
    let mut object = Object::new(kind, namespace, name);
    object.meta.uid = "u-x".into();
    object
}

#[test]
fn e11_to_e13_a_virtual_delete_removes_an_identity_only() {
    let [x, y, z] = ["x", "y", "z"].map(|name| named(CONFIG_MAP, "red", name));
    let of = |owner: &Object, name| Object::new(SECRET, "red", name).owned_by(owner);
    let (to_x, to_y) = (of(&x, "to-x"), of(&y, "to-y"));
    // From 1.20: the objects that events show, in order, the absent identity, the effects, and the name that
    // the node then has.
    for (case_of, objects, absent, effects, stays) in [
        (
            "virtual, all dependents match",
            &[&to_x][..],
            &x,
            &["absent configmap/x -n red", "secret/to-x -n red"][..],
            None,
        ),
        (
            "virtual under this identity, others disagree",
            &[&to_x, &to_y],
            &x,
            &[
                "absent configmap/x -n red",
                "secret/to-x -n red",
                "later configmap/y -n red",
            ],
            Some("y"),
        ),
        (
            "virtual under another identity",
            &[&to_x, &to_y],
            &y,
            &["absent configmap/y -n red", "secret/to-y -n red"],
            Some("x"),
        ),
        (
            "virtual, no dependent matches, and it has another identity",
            &[&to_x],
            &z,
            &[],
            Some("x"),
        ),
        (
            "observed under this identity",
            &[&x, &to_x, &to_y],
            &x,
            &[
                "absent configmap/x -n red",
                "secret/to-x -n red",
                "secret/to-y -n red",
            ],
            None,
        ),
        (
            "observed under another identity",
            &[&x, &to_x, &to_y],
            &y,
            &["absent configmap/y -n red", "secret/to-y -n red"],
            Some("x"),
        ),
        ("observed, no dependent matches", &[&x, &to_x], &z, &[], Some("x")),
        (
            "observed in another namespace",
            &[&x, &to_x],
            &named(CONFIG_MAP, "blue", "x"),
            &[],
            Some("x"),
        ),
        ("unknown", &[], &x, &[], None),
    ] {
        for release in ["1.20.2", "1.36"] {
            let mut case = Case::new(release);
            objects.iter().for_each(|object| drop(case.apply(object)));
            assert_eq!(
                case.virtual_delete(&identity(absent)),
                effects,
                "{release} {case_of}"
            );
            let node = case.graph.node(&x.meta.uid);
            let name = node.map(|node| case.graph.identity(node).name);
            assert_eq!(name.as_deref(), stays, "{release} {case_of}");
        }
    }
    // Up to 1.19 it is a deletion (E-10).
    let mut case = Case::new("1.19");
    for object in [&x, &to_x, &to_y] {
        case.apply(object);
    }
    let all = [
        "absent configmap/z -n red",
        "secret/to-x -n red",
        "secret/to-y -n red",
    ];
    assert_eq!(case.virtual_delete(&identity(&z)), all);
    assert_eq!(case.graph.node(&x.meta.uid), None);
}

#[test]
fn g35_the_next_identity_is_the_next_in_order_or_the_smallest() {
    let config = |name| named(CONFIG_MAP, "red", name);
    let node = |name| named(NODE, "", name);
    for (absent, others, next) in [
        (config("m"), vec![config("n")], "configmap/n -n red"),
        (config("m"), vec![config("a")], "configmap/a -n red"),
        (
            config("m"),
            vec![config("p"), config("n"), config("o"), config("a")],
            "configmap/n -n red",
        ),
        (
            config("m"),
            vec![config("c"), config("a"), config("b")],
            "configmap/a -n red",
        ),
        // The kind comes before the name, and the namespace is that of the dependent.
        (
            config("m"),
            vec![named(SECRET, "", "a"), config("a")],
            "secret/a -n red",
        ),
        (
            config("m"),
            vec![named(TENANT, "", "a")],
            "tenant.example.com/a -n red",
        ),
        // A kind that is known to be cluster-scoped.
        (node("m"), vec![node("n"), config("a")], "node/n"),
        (node("m"), vec![node("a"), config("z")], "configmap/z -n red"),
        (node("m"), vec![named(SECRET, "", "a")], "secret/a -n red"),
    ] {
        let mut case = Case::new("1.36");
        // A cluster-scoped dependent makes the guess cluster-scoped.
        let first = match absent.kind.namespaced {
            true => Object::new(SECRET, "red", "first"),
            false => Object::new(NODE, "", "first"),
        };
        case.apply(&first.owned_by(&absent));
        for (at, other) in others.iter().enumerate() {
            case.apply(&Object::new(SECRET, "red", &format!("d{at}")).owned_by(other));
        }
        let effects = case.virtual_delete(&identity(&absent));
        let expected = format!("later {next}");
        assert_eq!(effects.last(), Some(&expected), "{absent:?} {others:?}");
        let node = case.node(&absent);
        assert!(case.graph.is_virtual(node) && case.graph.is_current(node));
        assert_eq!(case.graph.identity(node).short(), next);
        assert_eq!(case.graph.dependents(node).len(), others.len() + 1);
    }
}

#[test]
fn g30_an_unblocked_owner_is_queued_before_added_references_are_checked() {
    let [a, b, new] = ["a", "b", "new"].map(|name| Object::new(CONFIG_MAP, "red", name));
    let (yes, no) = (Some(true), Some(false));
    let (to_a, to_b, to_new) = ("configmap/a -n red", "configmap/b -n red", "configmap/new -n red");
    for (before, after, effects) in [
        (vec![blocking(&a, yes)], vec![], &[to_a][..]),
        (vec![blocking(&a, no)], vec![], &[]),
        (vec![blocking(&a, None)], vec![], &[]),
        (vec![blocking(&a, yes)], vec![blocking(&a, no)], &[to_a]),
        (vec![blocking(&a, yes)], vec![blocking(&a, None)], &[to_a]),
        (vec![blocking(&a, yes)], vec![blocking(&a, yes)], &[]),
        (vec![blocking(&a, no)], vec![blocking(&a, yes)], &[]),
        (vec![blocking(&a, no)], vec![blocking(&a, None)], &[]),
        (vec![], vec![blocking(&a, yes)], &[]),
        (vec![blocking(&a, yes)], vec![blocking(&b, yes)], &[to_a]),
        (
            vec![blocking(&a, yes), blocking(&b, yes)],
            vec![blocking(&b, yes), blocking(&a, yes)],
            &[],
        ),
        (
            vec![blocking(&a, yes), blocking(&b, yes)],
            vec![blocking(&new, yes), blocking(&a, no)],
            &[to_b, to_a, to_new],
        ),
    ] {
        for release in ["1.13", "1.20.2", "1.36"] {
            let mut case = Case::new(release);
            case.apply(&a);
            case.apply(&b);
            let mut item = Object::new(SECRET, "red", "item");
            item.meta.owner_references = before.iter().cloned().collect();
            assert_eq!(case.apply(&item), NOTHING);
            item.meta.owner_references = after.iter().cloned().collect();
            assert_eq!(case.apply(&item), effects, "{release} {before:?} {after:?}");
            for owner in [&a, &b] {
                let names = |reference: &OwnerReference| reference.name == owner.meta.name;
                let expected: &[&str] = if after.iter().any(names) { &["item"] } else { &[] };
                assert_eq!(case.dependents(owner), expected, "{release} {before:?} {after:?}");
            }
            // Another order alone is no difference.
            let is_reordered = after.len() == 2 && after.iter().all(|one| before.contains(one));
            let owners: Vec<_> = case.graph.owners(case.node(&item)).collect();
            assert_eq!(&owners, if is_reordered { &before } else { &after });
        }
    }
}

/// Objects with many owners are compared through an index.
#[test]
fn g28_references_are_compared_by_uid_regardless_of_their_number() {
    let owner = |at: usize| Object::new(CONFIG_MAP, "red", &format!("o{at}"));
    for (release, duplicates_count) in [("1.13", false), ("1.17", false), ("1.18", true), ("1.36", true)] {
        for count in [1, 2, 8, 16, 17, 18, 40] {
            let mut case = Case::new(release);
            for at in 0..count {
                case.apply(&owner(at));
            }
            let mut item = Object::new(SECRET, "red", "item");
            let references = |range: std::ops::Range<usize>| range.map(|at| blocking(&owner(at), Some(true)));
            item.meta.owner_references = references(0..count).collect();
            assert_eq!(case.apply(&item), NOTHING);
            // The first half is removed, and as many new ones are added, in another order.
            let half = count / 2;
            let mut kept: Vec<_> = references(half..count + half).collect();
            kept.reverse();
            item.meta.owner_references = kept.into();
            let queued = (0..half).chain((count..count + half).rev());
            let expected: Vec<String> = queued.map(|at| format!("configmap/o{at} -n red")).collect();
            assert_eq!(case.apply(&item), expected, "{release} {count}");
            for at in 0..count + half {
                let known: &[&str] = if at < half { &[] } else { &["item"] };
                assert_eq!(case.dependents(&owner(at)), known, "{release} {count} {at}");
            }
            assert_eq!(case.apply(&item), NOTHING, "{release} {count}: nothing changed");
            // One more reference with a known uid, under a wrong name.
            let last = OwnerReference {
                name: "other".into(),
                ..item.meta.owner_references[0].clone()
            };
            item.meta.owner_references.push(last);
            let suspect: &[&str] = match duplicates_count {
                // From 1.20 on an added reference is verified.
                true if release == "1.36" => &["secret/item -n red"],
                _ => &[],
            };
            for _ in 0..2 {
                assert_eq!(case.apply(&item), suspect, "{release} {count}");
            }
        }
    }
}

#[test]
fn g7_only_blocking_references_with_the_uid_block() {
    let [owner, other] = ["owner", "other"].map(|name| Object::new(CONFIG_MAP, "red", name));
    let renamed = |block_owner_deletion| OwnerReference {
        name: "renamed".into(),
        ..blocking(&owner, block_owner_deletion)
    };
    let (yes, no) = (Some(true), Some(false));
    for (references, blocks, unset) in [
        (vec![blocking(&owner, yes)], true, 0),
        (vec![blocking(&owner, no)], false, 0),
        (vec![blocking(&owner, None)], false, 1),
        (vec![blocking(&owner, None), blocking(&other, yes)], false, 1),
        (vec![blocking(&other, no), blocking(&owner, None)], false, 1),
        (vec![blocking(&owner, no), blocking(&other, None)], false, 0),
        (vec![blocking(&owner, None), renamed(yes)], true, 0),
        (vec![renamed(no), blocking(&owner, None)], false, 0),
        (vec![renamed(None), blocking(&owner, None)], false, 1),
        (vec![blocking(&other, yes)], false, 0),
    ] {
        let mut case = Case::new("1.36");
        case.apply(&owner);
        case.apply(&other);
        let mut item = Object::new(SECRET, "red", "item");
        item.meta.owner_references = references.iter().cloned().collect();
        case.apply(&item);
        let node = case.node(&owner);
        let blocking: Vec<_> = case.graph.blocking_dependents(node).collect();
        let expected = if blocks { vec![case.node(&item)] } else { vec![] };
        assert_eq!(blocking, expected, "{references:?}");
        let count = case.graph.dependents_without_block_owner_deletion(node);
        assert_eq!(count, unset, "{references:?}");
    }
}

#[test]
fn e3_an_observed_object_replaces_a_wrong_guess_only() {
    let guess = named(CONFIG_MAP, "red", "x");
    let item = Object::new(SECRET, "red", "item").owned_by(&guess);
    for (observed, effects) in [
        (guess.clone(), &[][..]),
        (named(CONFIG_MAP, "red", "y"), &["secret/item -n red"]),
        (named(SECRET, "red", "x"), &["secret/item -n red"]),
        (named(NODE, "", "x"), &["secret/item -n red"]),
        (
            named(CONFIG_MAP, "blue", "x"),
            &["warn secret/item -n red", "secret/item -n red"],
        ),
    ] {
        for release in ["1.20.2", "1.36"] {
            let mut case = Case::new(release);
            assert_eq!(case.apply(&item), ["configmap/x -n red"]);
            let guessed = case.node(&guess);
            case.graph.retain(guessed);
            assert_eq!(case.apply(&observed), effects, "{release} {observed:?}");
            let node = case.node(&guess);
            assert_eq!(case.graph.identity(node), identity(&observed));
            assert!(!case.graph.is_virtual(node));
            assert_eq!(case.dependents(&guess), ["item"]);
            // The old node stays as it was while it is retained (G-3).
            let is_same = effects.is_empty();
            assert_eq!(
                (node == guessed, case.graph.is_current(guessed)),
                (is_same, is_same)
            );
            assert_eq!(case.graph.identity(guessed), identity(&guess));
            assert_eq!(case.graph.is_virtual(guessed), !is_same);
        }
    }
}
