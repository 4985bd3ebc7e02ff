//! Names, kinds, sets of dependents and dumps of the graph: it returns them as they were observed.

use kubegc_core::{ObjectMeta, Uid};
use kubegc_objects::{
    Graph,
    graph::{DeletionState, DotFilter, Event, Observed},
    settings::Semantics,
};

use crate::{
    common::cluster::{CONFIG_MAP, Object, SECRET, TENANT, WIDGET, version},
    graph_rules::Case,
};

/// Numbers of kinds and lengths of names that need one to three bytes, and enough removed names for the graph
/// to move the others.
#[test]
fn names_and_kinds_of_any_size_are_returned_as_they_were_observed() {
    let mut graph = Graph::new(Semantics::of(version("1.36")));
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
            let texts = graph.kind_texts(*graph_kind);
            assert_eq!((&**texts.0, &**texts.1), ("example.com/v1", &**kind));
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
    let mut graph = Graph::new(Semantics::of(version("1.36")));
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

/// Sets of dependents of any size, while the graph returns unused memory in between.
#[test]
fn a_smaller_graph_has_the_same_dependents() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let dependent = |at: usize| Object::new(SECRET, "red", &format!("d{at}")).owned_by(&owner);
    for count in [1, 2, 8, 31, 32, 33, 34, 70] {
        let mut case = Case::new("1.36");
        case.apply(&owner);
        let mut expected = Vec::new();
        for at in 0..count {
            // Seen again, it is no second dependent.
            case.apply(&dependent(at));
            case.apply(&dependent(at));
            if at % 7 == 0 {
                case.graph.shrink_to_fit();
            }
            expected.push(format!("d{at}"));
            expected.sort();
            assert_eq!(case.dependents(&owner), expected);
        }
        for at in (0..count).filter(|at| at % 3 != 1) {
            case.delete(&dependent(at));
            case.graph.shrink_to_fit();
            expected.retain(|name| *name != format!("d{at}"));
            assert_eq!(case.dependents(&owner), expected);
        }
        let mut left: Vec<String> = (0..count)
            .filter(|at| at % 3 == 1)
            .map(|at| format!("d{at}"))
            .collect();
        left.sort();
        assert_eq!(case.dependents(&owner), left);
        assert_eq!(case.graph.len(), left.len() + 1);
    }
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
    let waiting = DeletionState {
        deleting: true,
        orphan: false,
        foreground: true,
    };
    case.apply_state(&root, waiting, None);
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

/// The attributes of D-6: those up to the name, and the flags `missing`, `beingDeleted`,
/// `deletingDependents` and `virtual`.
fn vertex(id: &str, label: &str, texts: [&str; 5], flags: [bool; 4]) -> String {
    let [group, version, kind, namespace, name] = texts;
    let [missing, being_deleted, deleting_dependents, is_virtual] = flags;
    format!(
        "  {id} [
    label=\"{label}\"
    group=\"{group}\"
    version=\"{version}\"
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
}

/// The vertices of [`relations`] in the order of their uids, in the form of releases before 1.26 or of later
/// ones.
fn vertices(is_numbered: bool) -> [String; 5] {
    let none = [false; 4];
    [
        (
            ["", "v1", "Secret", "red", "a"],
            r"uid=u-a\nnamespace=red\nSecret.v1/a\n",
            none,
        ),
        (
            ["", "v1", "ConfigMap", "", "gone"],
            r"uid=u-gone\nnamespace=\nConfigMap.v1/gone\nmissingFromGraph\n",
            [true, false, false, false],
        ),
        (
            ["", "v1", "ConfigMap", "red", "guess"],
            r"uid=u-guess\nnamespace=red\nConfigMap.v1/guess\nvirtual\n",
            [false, false, false, true],
        ),
        (
            ["example.com", "v1", "Widget", "red", "lost"],
            r"uid=u-lost\nnamespace=red\nWidget.v1.example.com/lost\n",
            none,
        ),
        (
            ["example.com", "v1", "Tenant", "", "root"],
            r"uid=u-root\nnamespace=\nTenant.v1.example.com/root\nbeingDeleted,deletingDependents\n",
            [false, true, true, false],
        ),
    ]
    .map(|(texts, label, flags)| {
        if is_numbered {
            let number = ["a", "gone", "guess", "lost", "root"]
                .iter()
                .position(|name| *name == texts[4]);
            let id = number.expect("one of these").to_string();
            vertex(&id, &format!(r#"\"{label}\""#), texts, flags)
        } else {
            vertex(&format!("\"u-{}\"", texts[4]), label, texts, flags)
        }
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
