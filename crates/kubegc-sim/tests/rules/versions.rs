//! Differences between releases that need more than a row of `releases.txt`.

use serde_json::json;

use crate::world::{MERGE, STRATEGIC, message, policy, world, world_of};

#[test]
fn s_27_the_response_shows_the_deletions_revision_only_in_newer_releases() {
    for (version, deletion) in [("1.25.0", false), ("1.26.0", true)] {
        let mut world = world_of(version);
        world.put("ServiceAccount", "a", &[]);
        let response = world.delete("ServiceAccount", "a", &policy("Background"));
        let shown = response
            .object()
            .unwrap()
            .meta
            .resource_version
            .as_str()
            .to_owned();
        let revision = world.server.revision();
        let expected = if deletion { revision } else { revision - 1 };
        assert_eq!(shown, expected.to_string(), "{version}");
    }
}

/// A `Status` in the response to a finished deletion has no version before 1.38.
#[test]
fn s_27_the_status_of_a_deletion_has_its_revision_from_1_38_on() {
    for (version, has_version) in [("1.20.2", false), ("1.37.0", false), ("1.38.0", true)] {
        let mut world = world_of(version);
        world.put("ConfigMap", "a", &[]);
        let response = world.delete("ConfigMap", "a", &policy("Background"));
        let expected = if has_version {
            json!({"resourceVersion": world.server.revision().to_string()})
        } else {
            json!({})
        };
        let status = response.status().unwrap();
        assert_eq!(
            (response.code, &status.to_json()["metadata"]),
            (200, &expected),
            "{version}"
        );
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

#[test]
fn p_7_applies_are_a_format_from_1_16_on_and_parameters_of_a_format_are_ignored() {
    let expected = "the body of the request was in an unknown format - accepted media types include: \
                    application/json-patch+json, application/merge-patch+json";
    let response = world_of("1.13.0").patch("Child", "missing", STRATEGIC, &json!("nonsense"));
    assert_eq!((response.code, message(&response)), (415, expected));
    let mut world = world();
    world.put("Secret", "a", &[]);
    let with_charset = format!("{MERGE}; charset=utf-8");
    assert_eq!(world.patch("Secret", "a", &with_charset, &json!({})).code, 200);
}
