//! The helpers of syncs.

use super::*;
use crate::workloads::plan::{
    count, counts, int, items, map, pod_of, seconds, selects_template, set, set_condition, time_of, with,
};

fn stored(fields: Value) -> StoredObject {
    Manifest::read(merged(&json!({"metadata": {"name": "a"}}), fields))
        .unwrap()
        .object
}

#[test]
fn fields_have_defaults() {
    let object = stored(json!({"spec": {"a": 5, "b": "x", "c": [1], "d": -5, "e": {"f": 1}}}));
    let numbers = ["a", "b", "d", "none"].map(|field| int(&object, &["spec", field]));
    assert_eq!(numbers, [Some(5), None, Some(-5), None]);
    let counted = ["a", "b", "d", "none"].map(|field| count(&object, &["spec", field]));
    assert_eq!(counted, [5, 0, 0, 0]);
    let times = ["a", "d", "none"].map(|field| seconds(&object, field).as_secs());
    assert_eq!(times, [5, 0, 0]);
    assert_eq!(items(&object, &["spec", "c"]), [json!(1)]);
    assert!(items(&object, &["spec", "a"]).is_empty());
    assert_eq!(map(&object, &["spec", "e"]), json!({"f": 1}));
    assert_eq!(map(&object, &["spec", "a"]), json!({}));
    assert_eq!(time_of(&time(7)), Some(at(7)));
    assert_eq!((time_of(&json!("x")), time_of(&json!(7))), (None, None));
}

#[test]
fn values_are_set_in_copies() {
    let object = stored(json!({"spec": {"a": 5, "b": {"c": 1}}}));
    for (path, expected) in [
        (&["spec", "b", "c"][..], json!({"spec": {"a": 5, "b": {"c": 9}}})),
        (
            &["spec", "b", "d"][..],
            json!({"spec": {"a": 5, "b": {"c": 1, "d": 9}}}),
        ),
        (
            &["spec", "a", "x"][..],
            json!({"spec": {"a": {"x": 9}, "b": {"c": 1}}}),
        ),
        (
            &["status", "x"][..],
            json!({"spec": {"a": 5, "b": {"c": 1}}, "status": {"x": 9}}),
        ),
    ] {
        let changed = with(&object, path, 9.into());
        assert_eq!(Value::Object(changed.body.as_deref().unwrap().clone()), expected);
        assert_eq!(changed.meta, object.meta);
    }
    let mut new = json!({"metadata": {}});
    set(&mut new, "labels", "a", "b");
    set(&mut new, "labels", "c", "d");
    assert_eq!(new, json!({"metadata": {"labels": {"a": "b", "c": "d"}}}));
}

#[test]
fn a_condition_keeps_the_time_of_its_status() {
    let mut conditions = vec![
        json!({"type": "a", "status": "True", "lastTransitionTime": 1}),
        json!({"type": "b"}),
    ];
    set_condition(
        &mut conditions,
        &json!(2),
        ("a", "True"),
        ("", String::new()),
        None,
    );
    let expected = [
        json!({"type": "b"}),
        json!({"type": "a", "status": "True", "lastTransitionTime": 1}),
    ];
    assert_eq!(conditions, expected);
    let probe = Some(("lastProbeTime", json!(3)));
    set_condition(
        &mut conditions,
        &json!(2),
        ("a", "False"),
        ("Why", "because".to_owned()),
        probe,
    );
    let expected = json!({
        "type": "a", "status": "False", "lastTransitionTime": 2, "reason": "Why", "message": "because",
        "lastProbeTime": 3,
    });
    assert_eq!(conditions, [json!({"type": "b"}), expected]);
    let shown = counts(&["a"], &[("a", 0), ("b", 0), ("c", 3)]);
    assert_eq!(Value::Object(shown), json!({"a": 0, "c": 3}));
}

#[test]
fn the_selector_must_match_the_template() {
    let template = json!({"metadata": {"labels": {"app": "web", "tier": "x"}}});
    for (selector, expected) in [
        (json!({"matchLabels": {"app": "web"}}), true),
        (json!({"matchLabels": {"app": "db"}}), false),
        (json!({"matchLabels": {}}), false),
        (json!(null), false),
        (json!("x"), false),
    ] {
        let object = stored(json!({"spec": {"selector": selector, "template": template}}));
        assert_eq!(selects_template(&object), expected, "{selector}");
    }
}

#[test]
fn a_pod_has_the_metadata_of_its_template() {
    let template = json!({
        "metadata": {
            "name": "no", "labels": {"a": "b"}, "annotations": null, "finalizers": ["shop/hold"], "namespace": "no",
        },
        "spec": {"x": 1},
    });
    let owner = ObjectMeta::new("shop", "web", "u1");
    let reference = json!({
        "apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": "u1", "controller": true,
        "blockOwnerDeletion": true,
    });
    let mut expected = json!({
        "metadata": {
            "name": "web-0", "labels": {"a": "b"}, "finalizers": ["shop/hold"], "ownerReferences": [reference],
        },
        "spec": {"x": 1},
    });
    assert_eq!(pod_of(&template, Kind::Job, &owner, Some("web-0")), expected);
    expected["metadata"].as_object_mut().unwrap().remove("name");
    expected["metadata"]["generateName"] = "web-".into();
    assert_eq!(pod_of(&template, Kind::Job, &owner, None), expected);
}

#[test]
fn kinds_are_known_by_group_and_name() {
    for (version, minor, kind, expected) in [
        ("v1", 36, "Pod", Some(Kind::Pod)),
        ("v1", 36, "Secret", None),
        ("apps/v1", 36, "Deployment", Some(Kind::Deployment)),
        ("policy/v1beta1", 20, "PodDisruptionBudget", Some(Kind::Budget)),
        ("policy/v1", 36, "PodDisruptionBudget", Some(Kind::Budget)),
        ("v1", 36, "PersistentVolume", Some(Kind::Volume)),
    ] {
        let world = World::of(KubernetesVersion::new(minor, 0).unwrap(), []);
        let id = world.server.catalog().mapping(version, kind).unwrap();
        assert_eq!(
            Kind::of(&world.server.catalog()[id]),
            expected,
            "{version} {kind}"
        );
        if let Some(expected) = expected {
            assert_eq!(expected.id(&world.server), Some(id));
            assert_eq!(expected.is_beta(&world.server), version.contains("beta"));
            assert_eq!(Kind::named(kind), Some(expected));
        }
    }
    assert_eq!(Kind::named("Shop"), None);
    let other =
        kubegc_core::ApiResource::new("example.com/v1", "Pod", "pods", kubegc_core::Scope::Namespaced);
    assert_eq!(Kind::of(&other), None);
}

#[test]
fn a_plan_is_due_at_the_earliest_time() {
    let mut plan = Plan::of(Kind::Job, &stored(json!({})));
    for (time, expected) in [
        (None, None),
        (Some(5), Some(5)),
        (Some(7), Some(5)),
        (None, Some(5)),
        (Some(3), Some(3)),
    ] {
        plan.due_at(time.map(at));
        assert_eq!(plan.due, expected.map(at));
    }
}
