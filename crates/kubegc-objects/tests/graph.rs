//! The graph: its storage and indexes, its dumps, and the rules of releases before 1.20.

use std::collections::BTreeSet;

use kubegc_core::{ObjectMeta, ObjectRef, OwnerReference, Uid};
use kubegc_objects::{
    Graph,
    graph::{DeletionState, DotFilter, Effect, Event, NodeId, Observed},
};
use proptest::{collection::vec, prelude::*};

use crate::common::cluster::{CONFIG_MAP, Object, SECRET, TENANT, WIDGET, version};

const NOTHING: [&str; 0] = [];

struct Case {
    graph: Graph,
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
    fn new(release: &str) -> Self {
        Self {
            graph: Graph::new(version(release)),
        }
    }

    /// Applies an object and returns the queued nodes.
    fn apply(&mut self, object: &Object) -> Vec<String> {
        self.apply_state(object, DeletionState::default(), None)
    }

    fn apply_state(
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

    fn delete(&mut self, object: &Object) -> Vec<String> {
        let kind = self.graph.kind(object.kind.api_version, object.kind.kind);
        let object = Observed::of(kind, &object.meta);
        let mut effects = Vec::new();
        self.graph.apply(&Event::Deleted { object }, &mut effects);
        self.named(effects)
    }

    fn virtual_delete(&mut self, identity: &ObjectRef) -> Vec<String> {
        let mut effects = Vec::new();
        self.graph
            .apply(&Event::VirtualDeleted { identity }, &mut effects);
        self.named(effects)
    }

    fn node(&self, object: &Object) -> NodeId {
        self.graph
            .node(&object.meta.uid)
            .expect("the graph has a node for it")
    }

    /// The names of the dependents, sorted.
    fn dependents(&self, object: &Object) -> Vec<String> {
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
}

fn blocking(owner: &Object, block_owner_deletion: Option<bool>) -> OwnerReference {
    OwnerReference {
        block_owner_deletion,
        ..owner.reference()
    }
}

fn renamed(owner: &Object) -> OwnerReference {
    OwnerReference {
        name: "other".into(),
        ..owner.reference()
    }
}

/// E-10: a virtual delete removes the node, whatever it is named.
#[test]
fn up_to_1_19_an_owner_is_identified_by_its_uid_alone() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let foreign = Object::new(SECRET, "blue", "foreign").owned_by(&owner);
    let wrong = Object::new(SECRET, "red", "wrong").with(renamed(&owner));
    for release in ["1.13", "1.19"] {
        let mut case = Case::new(release);
        assert_eq!(case.apply(&foreign), ["configmap/owner -n blue"], "{release}");
        for object in [&owner, &foreign, &wrong] {
            assert_eq!(case.apply(object), NOTHING, "{release}");
        }
        let guess = case.graph.identity(case.node(&owner));
        assert_eq!(&*guess.namespace, "blue", "{release}: the wrong guess stays");
        let absent = ObjectRef {
            name: "another".into(),
            ..guess
        };
        let effects = [
            "absent configmap/another -n blue",
            "secret/foreign -n blue",
            "secret/wrong -n red",
        ];
        assert_eq!(case.virtual_delete(&absent), effects, "{release}");
        assert_eq!(case.graph.node(&owner.meta.uid), None, "{release}");
    }
}

#[test]
fn up_to_1_15_a_finalizer_that_appears_after_the_timestamp_is_ignored() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let both = ["secret/item -n red", "configmap/owner -n red"];
    for (release, waits) in [("1.13", false), ("1.15", false), ("1.16", true)] {
        let mut case = Case::new(release);
        case.apply(&owner);
        case.apply(&Object::new(SECRET, "red", "item").owned_by(&owner));
        case.apply_state(&owner, DELETING, Some(DeletionState::default()));
        let effects = case.apply_state(&owner, FOREGROUND, Some(DELETING));
        assert_eq!(effects, if waits { &both[..] } else { &[] }, "{release}");
        let node = case.node(&owner);
        assert_eq!(case.graph.is_deleting_dependents(node), waits, "{release}");
    }
}

/// Objects with many owners are compared through an index. Up to 1.16 a second reference with a known uid is
/// ignored.
#[test]
fn g28_references_are_compared_by_uid_regardless_of_their_number() {
    let owner = |at: usize| Object::new(CONFIG_MAP, "red", &format!("o{at}"));
    for (release, duplicates_count) in [("1.16", false), ("1.36", true)] {
        for count in [1, 2, 16, 17, 40] {
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
            let first = item.meta.owner_references[0].clone();
            item.meta.owner_references.push(OwnerReference {
                name: "other".into(),
                ..first
            });
            let suspect: &[&str] = if duplicates_count {
                &["secret/item -n red"]
            } else {
                &[]
            };
            for _ in 0..2 {
                assert_eq!(case.apply(&item), suspect, "{release} {count}");
            }
        }
    }
}

/// The reason for the end of a foreground deletion states this number.
#[test]
fn g7_dependents_without_block_owner_deletion_are_counted() {
    let [owner, other] = ["owner", "other"].map(|name| Object::new(CONFIG_MAP, "red", name));
    let (yes, no) = (Some(true), Some(false));
    for (references, count) in [
        (vec![blocking(&owner, yes)], 0),
        (vec![blocking(&owner, None)], 1),
        (vec![blocking(&owner, None), blocking(&other, yes)], 1),
        (vec![blocking(&other, no), blocking(&owner, None)], 1),
        (vec![blocking(&owner, no), blocking(&other, None)], 0),
        (vec![blocking(&owner, None), blocking(&owner, yes)], 0),
        (vec![blocking(&owner, no), blocking(&owner, None)], 0),
    ] {
        let mut case = Case::new("1.36");
        case.apply(&owner);
        case.apply(&other);
        let mut item = Object::new(SECRET, "red", "item");
        item.meta.owner_references = references.iter().cloned().collect();
        case.apply(&item);
        let found = case
            .graph
            .dependents_without_block_owner_deletion(case.node(&owner));
        assert_eq!(found, count, "{references:?}");
    }
}

proptest! {
    /// Sets of any size, through changes in any order, while the graph returns unused memory in between.
    #[test]
    fn the_dependents_of_an_owner_are_those_that_remain(
        steps in vec((0..80_usize, 0..10_u8), 0..300),
    ) {
        let owner = Object::new(CONFIG_MAP, "red", "owner");
        let mut case = Case::new("1.36");
        case.apply(&owner);
        let mut expected = BTreeSet::new();
        for (at, step) in steps {
            let dependent = Object::new(SECRET, "red", &format!("d{at}")).owned_by(&owner);
            match step {
                0 => case.graph.shrink_to_fit(),
                1..=3 => {
                    expected.remove(&*dependent.meta.name);
                    case.delete(&dependent);
                }
                // Observed again, it is no second dependent.
                _ => {
                    expected.insert(dependent.meta.name.to_string());
                    case.apply(&dependent);
                }
            }
            prop_assert!(case.dependents(&owner).iter().eq(&expected));
        }
        prop_assert_eq!(case.graph.len(), expected.len() + 1);
    }
}

/// Numbers of kinds and lengths of names that need one to three bytes, and enough removed names for the graph
/// to move the others.
#[test]
fn names_and_kinds_of_any_size_are_returned_as_they_were_observed() {
    let mut graph = Graph::new(version("1.36"));
    let lengths = [0, 1, 126, 127, 128, 129, 255, 256, 16_383, 16_384, 20_000];
    // The kind with number 128 has a short name.
    let length_of = |at: usize| lengths[(at + 5) % lengths.len()];
    let named = |at: usize, length: usize| {
        let name = format!("{at}-").repeat(length.div_ceil(2))[..length].to_owned();
        ObjectMeta::new("red", &name, &format!("u-{at}-{length}"))
    };
    let kinds: Vec<_> = (0..400)
        .map(|at| {
            let kind = format!("Kind{at}");
            (graph.kind("example.com/v1", &kind), kind)
        })
        .collect();
    let observe = |graph: &mut Graph, at: usize, length: usize| {
        let meta = named(at, length);
        let object = Observed::of(kinds[at].0, &meta);
        graph.apply(&Event::Applied { object, old: None }, &mut Vec::new());
    };
    for at in 0..400 {
        observe(&mut graph, at, length_of(at));
    }
    for round in 0..3 {
        for (at, (graph_kind, kind)) in kinds.iter().enumerate() {
            let meta = named(at, length_of(at));
            let node = graph.node(&meta.uid).expect("it was observed");
            let identity = graph.identity(node);
            assert_eq!((&identity.name, &identity.uid), (&meta.name, &meta.uid));
            assert_eq!((&*identity.kind, &*identity.namespace), (&**kind, "red"));
            assert_eq!(&*identity.api_version, "example.com/v1");
            assert_eq!(graph.kind_of(node), *graph_kind);
            assert_eq!(graph.kind("example.com/v1", kind), *graph_kind);
        }
        // Long names come and go.
        for (at, (kind, _)) in kinds.iter().enumerate().take(300) {
            observe(&mut graph, at, 20_001 + round);
            let meta = named(at, 20_001 + round);
            let object = Observed::of(*kind, &meta);
            graph.apply(&Event::Deleted { object }, &mut Vec::new());
        }
        assert_eq!(graph.len(), 400);
        if round == 1 {
            graph.shrink_to_fit();
        }
    }
}

/// So many uids that some have equal hashes of 32 bits.
#[test]
fn g1_each_of_many_uids_has_its_own_node() {
    const COUNT: u32 = 140_000;
    const ODD: u128 = 0x9fb2_1c65_1e98_df25_a076_1d64_78bd_642f;
    let uid = |at: u32| Uid::from_uuid(u128::from(at).wrapping_mul(ODD).to_be_bytes());
    let mut graph = Graph::new(version("1.36"));
    let kind = graph.kind("v1", "Secret");
    let mut meta = ObjectMeta::new("red", "a", "");
    for at in 0..COUNT {
        meta.uid = uid(at);
        let object = Observed::of(kind, &meta);
        graph.apply(&Event::Applied { object, old: None }, &mut Vec::new());
    }
    assert_eq!(graph.len(), COUNT as usize);
    assert!((0..COUNT).all(|at| {
        graph
            .node(&uid(at))
            .is_some_and(|node| graph.uid(node) == uid(at))
    }));
    assert!((COUNT..2 * COUNT).all(|at| graph.node(&uid(at)).is_none()));
    for at in (0..COUNT).step_by(2) {
        meta.uid = uid(at);
        let object = Observed::of(kind, &meta);
        graph.apply(&Event::Deleted { object }, &mut Vec::new());
    }
    assert!((0..COUNT).all(|at| graph.node(&uid(at)).is_some() == (at % 2 == 1)));
}

/// An owner that is deleted in the foreground, its dependent, an object without relations, and one whose two
/// owners are unknown and removed.
fn relations(release: &str) -> Case {
    let root = Object::new(TENANT, "", "root");
    let gone = Object::new(CONFIG_MAP, "red", "gone");
    let lost = Object::new(WIDGET, "red", "lost")
        .owned_by(&gone)
        .owned_by(&Object::new(CONFIG_MAP, "red", "guess"));
    let mut case = Case::new(release);
    case.apply_state(&root, FOREGROUND, None);
    for object in [
        &Object::new(SECRET, "red", "a").owned_by(&root),
        &gone,
        &lost,
        &Object::new(SECRET, "red", "lone"),
    ] {
        case.apply(object);
    }
    case.delete(&gone);
    case
}

/// The vertices of [`relations`] in the order of their uids, with the attributes of D-6, in the form of releases
/// before 1.26 or of later ones.
fn vertices(is_numbered: bool) -> [String; 5] {
    let mut numbers = 0..5;
    [
        ["Secret", "", "red", "a", ""],
        ["ConfigMap", "", "", "gone", r"missingFromGraph\n"],
        ["ConfigMap", "", "red", "guess", r"virtual\n"],
        ["Widget", "example.com", "red", "lost", ""],
        [
            "Tenant",
            "example.com",
            "",
            "root",
            r"beingDeleted,deletingDependents\n",
        ],
    ]
    .map(|[kind, group, namespace, name, words]| {
        let dot = if group.is_empty() { "" } else { "." };
        let label = format!(r"uid=u-{name}\nnamespace={namespace}\n{kind}.v1{dot}{group}/{name}\n{words}");
        let (id, label) = match numbers.next() {
            Some(number) if is_numbered => (number.to_string(), format!(r#"\"{label}\""#)),
            _ => (format!("\"u-{name}\""), label),
        };
        let [missing, being_deleted, deleting_dependents, is_virtual] =
            ["missing", "beingDeleted", "deletingDependents", "virtual"].map(|word| words.contains(word));
        format!(
            "  {id} [
    label=\"{label}\"
    group=\"{group}\"
    version=\"v1\"
    kind=\"{kind}\"
    namespace=\"{namespace}\"
    name=\"{name}\"
    uid=\"u-{name}\"
    missing=\"{missing}\"
    beingDeleted=\"{being_deleted}\"
    deletingDependents=\"{deleting_dependents}\"
    virtual=\"{is_virtual}\"
  ];
"
        )
    })
}

#[test]
fn d3_to_d8_a_dump_shows_everything_that_has_relations() {
    let header = "strict digraph full {\n";
    for release in ["1.26", "1.36"] {
        let expected = format!(
            "{header}  // Node definitions.\n{}  // Edge definitions.\n  \"u-a\" -> \"u-root\";\n  \
             \"u-lost\" -> \"u-gone\";\n  \"u-lost\" -> \"u-guess\";\n}}\n",
            vertices(false).concat()
        );
        assert_eq!(relations(release).graph.dot(&DotFilter::All), Ok(expected));
    }
    for release in ["1.13", "1.20.2", "1.25"] {
        let expected = format!(
            "{header}  // Node definitions.\n{}\n  // Edge definitions.\n  0 -> 4;\n  3 -> 1;\n  3 -> 2;\n}}",
            vertices(true).concat()
        );
        assert_eq!(relations(release).graph.dot(&DotFilter::All), Ok(expected));
    }
}

#[test]
fn d2_a_part_of_the_graph_is_shown_on_request() {
    let case = relations("1.36");
    let [a, gone, guess, lost, root] = vertices(false);
    let to_root = "  \"u-a\" -> \"u-root\";\n";
    let others = "  \"u-lost\" -> \"u-gone\";\n  \"u-lost\" -> \"u-guess\";\n";
    for (uids, nodes, edges) in [
        (&["u-a"][..], format!("{a}{root}"), to_root.to_owned()),
        (&["u-root"], format!("{a}{root}"), to_root.to_owned()),
        (&["u-guess"], format!("{gone}{guess}{lost}"), others.to_owned()),
        (
            &["u-lost", "u-unknown", "u-a"],
            format!("{a}{gone}{guess}{lost}{root}"),
            format!("{to_root}{others}"),
        ),
        (&["u-lone"], String::new(), String::new()),
        (&["u-gone", "u-unknown"], String::new(), String::new()),
        (&[], String::new(), String::new()),
    ] {
        let filter = DotFilter::Connected(uids.iter().map(|&uid| uid.into()).collect());
        let expected = match nodes.is_empty() {
            true => "strict digraph full {\n}\n".to_owned(),
            false => format!(
                "strict digraph full {{\n  // Node definitions.\n{nodes}  // Edge definitions.\n{edges}}}\n"
            ),
        };
        assert_eq!(case.graph.dot(&filter), Ok(expected), "{uids:?}");
    }
    let old = relations("1.20.2");
    let nothing = old.graph.dot(&DotFilter::Connected(Vec::new()));
    assert_eq!(nothing.as_deref(), Ok("strict digraph full {\n}"));
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

#[test]
fn d5_the_description_of_a_missing_owner_does_not_depend_on_the_order_of_events() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let dependents = [("d1", "Widget"), ("d2", "Gadget")].map(|(name, kind)| {
        let reference = OwnerReference {
            kind: kind.into(),
            ..owner.reference()
        };
        Object::new(SECRET, "red", name).with(reference)
    });
    let [first, second] = [[0, 1], [1, 0]].map(|order| {
        let mut case = Case::new("1.36");
        for at in order {
            case.apply(&dependents[at]);
        }
        case.delete(&owner);
        case.graph.dot(&DotFilter::All).expect("sorted dumps draw all")
    });
    assert!(first.contains("\n    kind=\"Gadget\"\n"), "{first}");
    assert_eq!(first, second);
}
