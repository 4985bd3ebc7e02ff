//! DELETE: options, preconditions, the collector's finalizers, and responses.

use kubegc_core::deletion::DeleteOptionsSpec;
use kubegc_sim::Settings;
use serde_json::json;

use crate::world::{MERGE, expecting, grace, message, open_world, orphan_dependents, policy, world};

const HOLD: &str = "test.dev/hold";
const FOREGROUND: &str = "foregroundDeletion";

#[test]
fn s_1_conflicting_options_are_refused_before_the_object_is_read() {
    let both = DeleteOptionsSpec {
        orphan_dependents: Some(true),
        ..policy("Sideways")
    };
    for (options, expected) in [
        (
            DeleteOptionsSpec {
                orphan_dependents: Some(false),
                ..policy("Orphan")
            },
            r#"DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set"#,
        ),
        (
            policy("Sideways"),
            r#"DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sideways": supported values: "Foreground", "Background", "Orphan", "nil""#,
        ),
        (
            DeleteOptionsSpec {
                dry_run: vec!["Some".to_owned()],
                ..DeleteOptionsSpec::default()
            },
            r#"DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: "Some": supported values: "All""#,
        ),
    ] {
        let response = world().delete("Secret", "missing", &options);
        assert_eq!((response.code, message(&response)), (422, expected));
    }
    let response = world().delete("Secret", "missing", &both);
    let causes = response.status().unwrap().causes();
    let reasons: Vec<&str> = causes.iter().map(|cause| cause.reason).collect();
    assert_eq!(reasons, ["FieldValueInvalid", "FieldValueNotSupported"]);
    assert!(message(&response).contains("is invalid: [propagationPolicy"));
}

#[test]
fn s_2_a_missing_object_is_not_found() {
    let response = world().delete("Child", "a", &expecting(Some("u"), None));
    assert_eq!(
        (response.code, message(&response)),
        (404, r#"children.test.dev "a" not found"#)
    );
}

#[test]
fn s_5_preconditions_are_checked_uid_first_and_name_the_kind() {
    for (kind, subject) in [("ConfigMap", "ConfigMap"), ("Child", "Child.test.dev")] {
        let mut world = world();
        world.put(kind, "a", &[]);
        let version = world.get(kind, "a")["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned();
        let response = world.delete(kind, "a", &expecting(Some("other"), Some("0")));
        assert_eq!(response.code, 409);
        assert_eq!(
            message(&response),
            format!(
                "Operation cannot be fulfilled on {subject} \"a\": the UID in the precondition (other) does not match \
                 the UID in record (uid-a). The object might have been deleted and then recreated"
            )
        );
        let response = world.delete(kind, "a", &expecting(Some("uid-a"), Some("7")));
        assert_eq!(
            message(&response),
            format!(
                "Operation cannot be fulfilled on {subject} \"a\": the ResourceVersion in the precondition (7) does not \
                 match the ResourceVersion in record ({version}). The object might have been modified"
            )
        );
        let response = world.delete(kind, "a", &expecting(Some("uid-a"), Some(&version)));
        assert_eq!(response.code, 200);
    }
}

/// The object's finalizers after a DELETE with each kind of options; `None` where it is removed.
#[test]
fn s_8_to_s_10_policy_field_stored_finalizer_and_default_decide_in_this_order() {
    type Row<'a> = (&'a str, &'a [&'a str], [Option<&'a [&'a str]>; 6]);
    // Columns: nothing, Background, Foreground, Orphan, orphanDependents true, orphanDependents false.
    const ORPHAN: Option<&[&str]> = Some(&["orphan"]);
    const FG: Option<&[&str]> = Some(&[FOREGROUND]);
    const HELD: Option<&[&str]> = Some(&[HOLD]);
    const HELD_FG: Option<&[&str]> = Some(&[HOLD, FOREGROUND]);
    const HELD_ORPHAN: Option<&[&str]> = Some(&[HOLD, "orphan"]);
    let rows: [Row<'_>; 10] = [
        ("ConfigMap", &[], [None, None, FG, ORPHAN, ORPHAN, None]),
        ("Child", &[], [None, None, FG, ORPHAN, ORPHAN, None]),
        ("Job", &[], [ORPHAN, None, FG, ORPHAN, ORPHAN, None]),
        (
            "ReplicationController",
            &[],
            [ORPHAN, None, FG, ORPHAN, ORPHAN, None],
        ),
        ("ReplicaSet", &[], [None, None, FG, ORPHAN, ORPHAN, None]),
        ("Event", &["orphan"], [None, None, None, None, None, None]),
        (
            "ConfigMap",
            &[HOLD],
            [HELD, HELD, HELD_FG, HELD_ORPHAN, HELD_ORPHAN, HELD],
        ),
        ("ConfigMap", &["orphan"], [ORPHAN, None, FG, ORPHAN, ORPHAN, None]),
        ("Job", &[FOREGROUND], [FG, None, FG, ORPHAN, ORPHAN, None]),
        (
            "ConfigMap",
            &[FOREGROUND, HOLD],
            [
                Some(&[FOREGROUND, HOLD]),
                HELD,
                Some(&[FOREGROUND, HOLD]),
                HELD_ORPHAN,
                HELD_ORPHAN,
                HELD,
            ],
        ),
    ];
    for (kind, finalizers, columns) in rows {
        let options = [
            DeleteOptionsSpec::default(),
            policy("Background"),
            policy("Foreground"),
            policy("Orphan"),
            orphan_dependents(true),
            orphan_dependents(false),
        ];
        for (options, expected) in options.iter().zip(columns) {
            let mut world = world();
            world.put(kind, "a", finalizers);
            let response = world.delete(kind, "a", options);
            let at = format!("{kind} {finalizers:?} {options:?}");
            match expected {
                None => {
                    assert!(world.get(kind, "a").is_null(), "{at}");
                    assert_eq!(response.code, 200, "{at}");
                    assert_eq!(
                        response.status().unwrap().details.as_ref().unwrap().uid,
                        Some("uid-a".into()),
                        "{at}"
                    );
                }
                Some(expected) => {
                    assert_eq!(world.finalizers(kind, "a"), expected, "{at}");
                    assert!(response.object().unwrap().meta.is_deleting(), "{at}");
                    // S-17: only an explicit `orphanDependents: false` gets the response "accepted".
                    let accepted = options.orphan_dependents == Some(false);
                    assert_eq!(response.code, if accepted { 202 } else { 200 }, "{at}");
                }
            }
        }
    }
}

#[test]
fn s_7_without_a_collector_finalizers_do_not_change() {
    let mut world = open_world();
    let settings = Settings {
        garbage_collection: false,
        namespaces_must_exist: false,
        ..Settings::default()
    };
    world.server = world.server.with_settings(settings);
    world.put("ConfigMap", "a", &["orphan"]);
    world.delete("ConfigMap", "a", &policy("Foreground"));
    assert_eq!(world.finalizers("ConfigMap", "a"), ["orphan"]);
}

#[test]
fn s_9_the_other_finalizers_keep_their_order_and_an_equal_set_does_not_change() {
    let mut world = world();
    world.put("ConfigMap", "a", &["x.dev/a", FOREGROUND, "x.dev/b", "x.dev/a"]);
    world.delete("ConfigMap", "a", &policy("Orphan"));
    assert_eq!(
        world.finalizers("ConfigMap", "a"),
        ["x.dev/a", "x.dev/b", "x.dev/a", "orphan"]
    );
    world.put("ConfigMap", "b", &["x.dev/a", FOREGROUND, "x.dev/b", FOREGROUND]);
    world.delete("ConfigMap", "b", &policy("Foreground"));
    assert_eq!(
        world.finalizers("ConfigMap", "b"),
        ["x.dev/a", FOREGROUND, "x.dev/b", FOREGROUND]
    );
}

#[test]
fn s_13_a_second_request_may_add_swap_and_drop_and_dropping_the_last_removes() {
    let mut world = world();
    world.put("ConfigMap", "a", &[HOLD]);
    for (options, expected) in [
        (policy("Background"), vec![HOLD]),
        (policy("Foreground"), vec![HOLD, FOREGROUND]),
        (policy("Orphan"), vec![HOLD, "orphan"]),
        (DeleteOptionsSpec::default(), vec![HOLD, "orphan"]),
    ] {
        let response = world.delete("ConfigMap", "a", &options);
        assert_eq!(response.code, 200);
        assert_eq!(world.finalizers("ConfigMap", "a"), expected);
    }
    world.patch(
        "ConfigMap",
        "a",
        MERGE,
        &json!({"metadata": {"finalizers": ["orphan"]}}),
    );
    let response = world.delete("ConfigMap", "a", &policy("Background"));
    assert_eq!(response.status().unwrap().to_json()["status"], "Success");
    assert!(world.get("ConfigMap", "a").is_null());
}

#[test]
fn s_15_marking_bumps_the_generation_once_and_keeps_an_earlier_date() {
    let mut world = world();
    world.put("Child", "a", &[HOLD]);
    assert_eq!(world.get("Child", "a")["metadata"]["generation"], 1);
    world.delete("Child", "a", &policy("Foreground"));
    let first = world.get("Child", "a")["metadata"].clone();
    assert_eq!(first["generation"], 2);
    assert_eq!(first["deletionGracePeriodSeconds"], 0);
    assert_eq!(first["deletionTimestamp"], "1970-01-12T13:46:40Z");
    world.tick(60);
    world.delete("Child", "a", &policy("Orphan"));
    let second = world.get("Child", "a")["metadata"].clone();
    assert_eq!(second["generation"], 2);
    assert_eq!(second["deletionTimestamp"], first["deletionTimestamp"]);
    world.put("ConfigMap", "a", &[HOLD]);
    world.delete("ConfigMap", "a", &grace(30));
    let meta = world.get("ConfigMap", "a")["metadata"].clone();
    assert!(
        meta.get("generation").is_none(),
        "kinds without generation get none"
    );
    assert_eq!(meta["deletionGracePeriodSeconds"], 0, "nor a grace period");
}

#[test]
fn s_17_the_response_to_a_finished_deletion_depends_on_the_kind() {
    for (kind, with_object) in [
        ("ConfigMap", false),
        ("Secret", false),
        ("Job", false),
        ("Child", false),
        ("Boss", false),
        ("ClusterRole", false),
        ("ServiceAccount", true),
        ("Pod", true),
    ] {
        let mut world = world();
        world.put(kind, "a", &[]);
        let response = world.delete(kind, "a", &policy("Background"));
        assert_eq!(response.object().is_some(), with_object, "{kind}");
        assert!(world.get(kind, "a").is_null(), "{kind}");
    }
    let mut world = world();
    world.put("Job", "a", &[]);
    let response = world.delete("Job", "a", &policy("Background"));
    let details = response.status().unwrap().to_json()["details"].clone();
    assert_eq!(
        details,
        json!({"name": "a", "group": "batch", "kind": "jobs", "uid": "uid-a"})
    );
}

#[test]
fn s_19_a_dry_run_responds_and_changes_nothing() {
    let mut world = world();
    world.put("ConfigMap", "a", &[]);
    world.put("ConfigMap", "b", &[HOLD]);
    let before = world.server.revision();
    for (name, kept) in [("a", false), ("b", true)] {
        let options = DeleteOptionsSpec {
            dry_run: vec!["All".to_owned()],
            ..policy("Background")
        };
        let response = world.delete("ConfigMap", name, &options);
        assert_eq!(
            (response.code, response.object().is_some()),
            (200, kept),
            "{name}"
        );
        assert!(!world.get("ConfigMap", name).is_null());
    }
    assert_eq!(world.server.revision(), before);
}
