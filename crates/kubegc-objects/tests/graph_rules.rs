//! Effects of events on the graph, by release.

use kubegc_core::{ObjectRef, OwnerReference};
use kubegc_objects::{
    Graph,
    graph::{DeletionState, DotFilter, Effect, Event, NodeId, Observed},
    replay::AbsentOwners,
    settings::Semantics,
};

use crate::common::cluster::{CONFIG_MAP, NODE, Object, SECRET, TENANT, version};

pub(crate) struct Case {
    pub(crate) graph: Graph,
}

const DELETING: DeletionState = DeletionState {
    deleting: true,
    orphan: false,
    foreground: false,
};
const FOREGROUND: DeletionState = DeletionState {
    deleting: true,
    orphan: false,
    foreground: true,
};

impl Case {
    pub(crate) fn new(release: &str) -> Self {
        Self {
            graph: Graph::new(Semantics::of(version(release))),
        }
    }

    /// Applies an object and returns the queued nodes.
    pub(crate) fn apply(&mut self, object: &Object) -> Vec<String> {
        self.apply_state(object, DeletionState::default(), None)
    }

    pub(crate) fn apply_state(
        &mut self,
        object: &Object,
        now: DeletionState,
        old: Option<DeletionState>,
    ) -> Vec<String> {
        let kind = self.graph.kind(object.kind.api_version, object.kind.kind);
        let object = Observed {
            deletion: now,
            ..Observed::of(kind, &object.meta)
        };
        let mut effects = Vec::new();
        self.graph.apply(&Event::Applied { object, old }, &mut effects);
        self.named(effects)
    }

    pub(crate) fn delete(&mut self, object: &Object) -> Vec<String> {
        let kind = self.graph.kind(object.kind.api_version, object.kind.kind);
        let object = Observed::of(kind, &object.meta);
        let mut effects = Vec::new();
        self.graph.apply(&Event::Deleted { object }, &mut effects);
        self.named(effects)
    }

    pub(crate) fn virtual_delete(&mut self, identity: &ObjectRef) -> Vec<String> {
        let mut effects = Vec::new();
        self.graph
            .apply(&Event::VirtualDeleted { identity }, &mut effects);
        self.named(effects)
    }

    pub(crate) fn node(&self, object: &Object) -> NodeId {
        self.graph
            .node(&object.meta.uid)
            .expect("the graph has a node for it")
    }

    /// The names of the dependents, sorted.
    pub(crate) fn dependents(&self, object: &Object) -> Vec<String> {
        let dependents = self.graph.dependents(self.node(object)).iter();
        let mut names: Vec<String> = dependents
            .map(|&node| self.graph.identity(node).name.to_string())
            .collect();
        names.sort();
        names
    }

    fn named(&mut self, effects: Vec<Effect>) -> Vec<String> {
        let name = |effect| match effect {
            Effect::AttemptToDelete(node) => self.graph.identity(node).short(),
            Effect::AttemptToDeleteRateLimited(node) => {
                format!("later {}", self.graph.identity(node).short())
            }
            Effect::AttemptToOrphan(node) => format!("orphan {}", self.graph.identity(node).short()),
            Effect::OwnerAbsent(owner) => format!("absent {}", owner.short()),
            Effect::VirtualDelete(identity) => format!("virtual delete {}", identity.short()),
            Effect::Warn(warning) => format!("warn {}", warning.dependent.short()),
        };
        effects.into_iter().map(name).collect()
    }

    pub(crate) fn identity(&self, object: &Object) -> ObjectRef {
        self.graph.identity(self.node(object))
    }
}

#[test]
fn a_dependent_in_another_namespace_than_its_observed_owner() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let item = Object::new(SECRET, "blue", "item").owned_by(&owner);
    let suspect: &[&str] = &["warn secret/item -n blue", "secret/item -n blue"];
    for (release, expected) in [
        ("1.13", &[][..]),
        ("1.19", &[]),
        ("1.20.2", suspect),
        ("1.36", suspect),
    ] {
        let mut case = Case::new(release);
        assert_eq!(case.apply(&owner), [""; 0]);
        assert_eq!(case.apply(&item), expected, "{release}");
    }
}

#[test]
fn a_guessed_owner_is_observed_in_another_namespace() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let item = Object::new(SECRET, "blue", "item").owned_by(&owner);
    let suspect: &[&str] = &["warn secret/item -n blue", "secret/item -n blue"];
    for (release, namespace, expected) in [
        ("1.13", "blue", &[][..]),
        ("1.20.2", "red", suspect),
        ("1.28", "red", suspect),
        ("1.36", "red", suspect),
    ] {
        let mut case = Case::new(release);
        assert_eq!(
            case.apply(&item),
            ["configmap/owner -n blue"],
            "the guessed owner is verified"
        );
        assert_eq!(case.apply(&owner), expected, "{release}");
        assert_eq!(&*case.identity(&owner).namespace, namespace, "{release}");
    }
}

#[test]
fn another_api_version_is_verified_without_a_warning() {
    let owner = Object::new(TENANT, "", "owner");
    let mut reference = owner.reference();
    reference.api_version = "example.com/v1beta1".into();
    let item = Object::new(SECRET, "red", "item").with(reference);
    for (release, expected) in [
        ("1.13", &[][..]),
        ("1.20.2", &["secret/item -n red"]),
        ("1.36", &["secret/item -n red"]),
    ] {
        let mut case = Case::new(release);
        case.apply(&owner);
        assert_eq!(case.apply(&item), expected, "{release}");
    }
}

#[test]
fn one_event_warns_once() {
    let owners = ["a", "b"].map(|name| Object::new(CONFIG_MAP, "red", name));
    let item = Object::new(SECRET, "blue", "item")
        .owned_by(&owners[0])
        .owned_by(&owners[1]);
    let mut case = Case::new("1.36");
    owners.iter().for_each(|owner| drop(case.apply(owner)));
    assert_eq!(
        case.apply(&item),
        ["warn secret/item -n blue", "secret/item -n blue"]
    );
}

#[test]
fn a_cluster_scoped_bad_dependent_hides_a_good_one_until_1_20_3() {
    let gone = Object::new(CONFIG_MAP, "red", "gone");
    let bad = Object::new(NODE, "", "bad").owned_by(&gone);
    let good = Object::new(SECRET, "red", "good").owned_by(&gone);
    for (release, expected) in [
        ("1.20.2", &[][..]),
        ("1.20.3", &["secret/good -n red"]),
        ("1.28", &["secret/good -n red"]),
        ("1.36", &["secret/good -n red"]),
    ] {
        let mut case = Case::new(release);
        assert_eq!(case.apply(&bad), ["configmap/gone"]);
        assert_eq!(case.apply(&good), expected, "{release}");
    }
}

#[test]
fn a_second_reference_with_one_uid_is_added_again_on_every_update() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    // The name does not match: a dependent that is added with it is suspect.
    let wrong = OwnerReference {
        name: "other".into(),
        ..owner.reference()
    };
    let twice = Object::new(SECRET, "red", "item")
        .with(wrong.clone())
        .with(wrong.clone());
    let once = Object::new(SECRET, "red", "item").with(wrong);
    for (release, expected) in [
        ("1.13", &[][..]),
        ("1.20.2", &["secret/item -n red"]),
        ("1.36", &["secret/item -n red"]),
    ] {
        let mut case = Case::new(release);
        case.apply(&owner);
        case.apply(&twice);
        assert_eq!(case.apply(&twice), expected, "{release}");
        case.apply(&once);
        assert_eq!(case.apply(&once), [""; 0], "{release}");
    }
}

#[test]
fn editing_a_reference_in_place_enqueues_nothing() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let item = Object::new(SECRET, "red", "item").owned_by(&owner);
    let mut edited = item.clone();
    edited.meta.owner_references[0].name = "other".into();
    for release in ["1.13", "1.20.2", "1.36"] {
        let mut case = Case::new(release);
        case.apply(&owner);
        case.apply(&item);
        assert_eq!(case.apply(&edited), [""; 0], "{release}");
    }
}

#[test]
fn a_finalizer_that_appears_after_the_timestamp() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let item = Object::new(SECRET, "red", "item").owned_by(&owner);
    let both: &[&str] = &["secret/item -n red", "configmap/owner -n red"];
    for (release, expected) in [
        ("1.13", &[][..]),
        ("1.15", &[]),
        ("1.16", both),
        ("1.20.2", both),
        ("1.36", both),
    ] {
        let mut case = Case::new(release);
        case.apply(&owner);
        case.apply(&item);
        case.apply_state(&owner, DELETING, Some(DeletionState::default()));
        assert_eq!(
            case.apply_state(&owner, FOREGROUND, Some(DELETING)),
            expected,
            "{release}"
        );
        let node = case.graph.node(&owner.meta.uid).expect("observed");
        assert_eq!(
            case.graph.is_deleting_dependents(node),
            !expected.is_empty(),
            "{release}"
        );
    }
}

#[test]
fn the_oldest_of_501_absent_owners_is_evicted_and_a_hit_counts_as_use() {
    let owner = |at: usize| Object::new(CONFIG_MAP, "red", &format!("o{at}"));
    let identity =
        |at: usize| ObjectRef::new("v1", "ConfigMap", "red", &format!("o{at}"), &format!("u-o{at}"));
    let mut absent = AbsentOwners::new(AbsentOwners::CAPACITY, false);
    for at in 0..AbsentOwners::CAPACITY {
        assert!(absent.insert(identity(at)));
    }
    assert!(absent.contains(&owner(0).reference(), "red"), "used just now");
    absent.insert(identity(AbsentOwners::CAPACITY));
    assert_eq!(absent.iter().len(), 500);
    assert!(absent.contains(&owner(0).reference(), "red"));
    assert!(
        !absent.contains(&owner(1).reference(), "red"),
        "the least recently used"
    );
    assert!(absent.contains(&owner(2).reference(), "red"));
}

#[test]
fn a_dump_from_a_leaf_shows_its_whole_component() {
    let root = Object::new(CONFIG_MAP, "red", "root");
    let leaves = ["a", "b"].map(|name| Object::new(SECRET, "red", name).owned_by(&root));
    let other = Object::new(SECRET, "red", "c").owned_by(&Object::new(CONFIG_MAP, "red", "other"));
    for release in ["1.20.2", "1.36"] {
        let mut case = Case::new(release);
        for object in [&root, &leaves[0], &leaves[1], &other] {
            case.apply(object);
        }
        let filter = DotFilter::Connected(vec![leaves[0].meta.uid.clone()]);
        let dump = case.graph.dot(&filter).expect("no object owns itself");
        for shown in ["uid=u-root", "uid=u-a", "uid=u-b"] {
            assert!(dump.contains(shown), "{release}: {shown} in {dump}");
        }
        assert!(!dump.contains("uid=u-c"), "{release}: {dump}");
    }
}

#[test]
fn an_object_that_owns_itself_fails_the_old_dump_only() {
    let bare = Object::new(CONFIG_MAP, "red", "own");
    let own = bare.clone().owned_by(&bare);
    for (release, prints) in [("1.20.2", false), ("1.25", false), ("1.26", true), ("1.36", true)] {
        let mut case = Case::new(release);
        case.apply(&own);
        let dump = case.graph.dot(&DotFilter::All);
        match dump {
            Ok(dump) => assert!(
                prints && dump.contains("\"u-own\" -> \"u-own\";"),
                "{release}: {dump}"
            ),
            Err(edge) => assert!(!prints && edge.object.uid == own.meta.uid, "{release}"),
        }
    }
}

/// An owner with many dependents has an index of them: it stays right while they are deleted in any order.
#[test]
fn the_dependents_of_an_owner_are_those_that_remain() {
    let mut case = Case::new("1.36");
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    case.apply(&owner);
    let mut dependents: Vec<Object> = (0..80)
        .map(|at| Object::new(SECRET, "red", &format!("d{at}")).owned_by(&owner))
        .collect();
    for dependent in &dependents {
        case.apply(dependent);
    }
    let kind = case.graph.kind(SECRET.api_version, SECRET.kind);
    while !dependents.is_empty() {
        let removed = dependents.swap_remove(dependents.len() * 2 / 3);
        let object = Observed::of(kind, &removed.meta);
        case.graph.apply(&Event::Deleted { object }, &mut Vec::new());
        let owner = case.graph.node(&owner.meta.uid).expect("it was observed");
        let found = case.graph.dependents(owner).iter();
        let mut found: Vec<_> = found.map(|node| case.graph.identity(*node).name).collect();
        let mut expected: Vec<_> = dependents.iter().map(|one| one.meta.name.clone()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}

#[test]
fn the_graph_returns_references_as_they_were_observed() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    for flags in [(None, None), (Some(true), Some(false)), (Some(false), Some(true))] {
        let mut case = Case::new("1.36");
        let mut item = Object::new(SECRET, "red", "item").owned_by(&owner);
        (
            item.meta.owner_references[0].controller,
            item.meta.owner_references[0].block_owner_deletion,
        ) = flags;
        case.apply(&item);
        let node = case.graph.node(&item.meta.uid).expect("it was observed");
        let owners: Vec<OwnerReference> = case.graph.owners(node).collect();
        assert_eq!(owners, item.meta.owner_references.to_vec());
    }
}
