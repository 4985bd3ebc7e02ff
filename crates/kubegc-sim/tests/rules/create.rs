//! Owner references of new objects, and generated names.

use serde_json::{Value, json};

use crate::world::{owner, world, world_of};

/// Field, message, and how often the problem is found, when an object is created with these references.
#[test]
fn s_30_references_are_checked_for_form_alone() {
    let without = |key: &str| {
        let mut reference = owner("o");
        reference.as_object_mut().unwrap().remove(key);
        reference
    };
    let with = |key: &str, value: &str| {
        let mut reference = owner("o");
        reference[key] = value.into();
        reference
    };
    let event = r#"v1.OwnerReference{APIVersion:"v1", Kind:"Event", Name:"o", UID:"uid-o", Controller:(*bool)(nil), BlockOwnerDeletion:(*bool)(nil)}"#;
    for (reference, field, problem) in [
        (
            without("apiVersion"),
            ".apiVersion",
            r#""": version must not be empty"#.to_owned(),
        ),
        (
            with("apiVersion", "apps/"),
            ".apiVersion",
            r#""apps/": version must not be empty"#.to_owned(),
        ),
        (
            with("apiVersion", "a/b/c"),
            ".apiVersion",
            r#""a/b/c": version must not be empty"#.to_owned(),
        ),
        (
            without("kind"),
            ".kind",
            r#""": kind must not be empty"#.to_owned(),
        ),
        (
            without("name"),
            ".name",
            r#""": name must not be empty"#.to_owned(),
        ),
        (without("uid"), ".uid", r#""": uid must not be empty"#.to_owned()),
        (
            with("kind", "Event"),
            "",
            format!("{event}: /v1, Kind=Event is disallowed from being an owner"),
        ),
    ] {
        for kind in ["Secret", "Child"] {
            let mut world = world();
            let response = world.create(
                kind,
                json!({"metadata": {"name": "a", "ownerReferences": [reference]}}),
            );
            let causes = response.status().unwrap().causes();
            assert_eq!((response.code, causes.len()), (422, 1), "{reference}");
            assert_eq!(causes[0].field, format!("metadata.ownerReferences{field}"));
            assert_eq!(causes[0].message, format!("Invalid value: {problem}"));
        }
    }
    let fine: [Value; 3] = [
        owner("nowhere"),
        with("kind", "NoSuchKind"),
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "name": "e", "uid": "u"}),
    ];
    for reference in fine {
        let response = world().create(
            "Secret",
            json!({"metadata": {"name": "a", "ownerReferences": [reference]}}),
        );
        assert_eq!(response.code, 201, "{reference}");
    }
}

#[test]
fn s_30_one_reference_may_be_the_controller() {
    let controller = |name: &str| {
        let mut reference = owner(name);
        reference["controller"] = true.into();
        reference
    };
    let response = world().create(
        "Child",
        json!({"metadata": {"name": "a", "ownerReferences": [controller("o"), controller("p")]}}),
    );
    assert_eq!(response.code, 422);
    let shown = |name: &str| {
        format!(
            r#"v1.OwnerReference{{APIVersion:"v1", Kind:"ConfigMap", Name:"{name}", UID:"uid-{name}", Controller:(*bool)(<ptr>), BlockOwnerDeletion:(*bool)(nil)}}"#
        )
    };
    assert_eq!(
        response.status().unwrap().causes()[0].message,
        format!(
            "Invalid value: []v1.OwnerReference{{{}, {}}}: Only one reference can have Controller set to true. \
             Found \"true\" in references for o and p",
            shown("o"),
            shown("p")
        )
    );
}

#[test]
fn s_31_equal_references_are_dropped_with_a_warning_since_1_20() {
    let mut other = owner("o");
    other["blockOwnerDeletion"] = true.into();
    for (version, references, kept, warned) in [
        ("1.19.0", vec![owner("o"), owner("o")], 2, false),
        ("1.20.0", vec![owner("o"), owner("o")], 1, true),
        ("1.20.2", vec![owner("o"), other.clone(), owner("o")], 2, true),
        ("1.20.2", vec![owner("o"), other], 2, false),
    ] {
        let mut world = world_of(version);
        let response = world.create(
            "Secret",
            json!({"metadata": {"name": "a", "ownerReferences": references}}),
        );
        assert_eq!(response.object().unwrap().meta.owner_references.len(), kept);
        let expected = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, \
             and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: uid-o";
        let expected: &[&str] = if warned { &[expected] } else { &[] };
        assert_eq!(response.warnings, expected);
    }
}

#[test]
fn a_generated_name_that_is_taken_is_drawn_again_from_1_31_on() {
    for (version, code) in [("1.30.0", 409), ("1.31.0", 201)] {
        let mut world = world_of(version);
        let generated = || json!({"metadata": {"generateName": "a-"}});
        let name = |response: &kubegc_sim::Response| response.object().map(|object| object.meta.name.clone());
        let drawn = name(&world.clone().create("ConfigMap", generated())).unwrap();
        // The same random name, predicted: an object whose creation draws no name already has it.
        world.put("ConfigMap", &drawn, &[]);
        let twin = world.clone();
        let response = world.create("ConfigMap", generated());
        assert_eq!(response.code, code, "{version}");
        if code == 201 {
            let other = name(&response).unwrap();
            assert!(other.starts_with("a-") && other != drawn);
            let mut twin = twin;
            assert_eq!(
                name(&twin.create("ConfigMap", generated())),
                Some(other),
                "the seed decides"
            );
        }
    }
}
