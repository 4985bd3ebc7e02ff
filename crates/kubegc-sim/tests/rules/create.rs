//! Equal owner references of new objects, and generated names.

use serde_json::json;

use crate::world::{owner, world_of};

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
