//! DELETE: conflicting options, and the collector's finalizers.

use crate::world::{message, open_world, policy, world};
use kubegc_core::deletion::DeleteOptionsSpec;
use kubegc_sim::Settings;

const FOREGROUND: &str = "foregroundDeletion";

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
fn s_1_every_conflict_of_the_options_is_a_cause() {
    let options = DeleteOptionsSpec {
        orphan_dependents: Some(true),
        ..policy("Sideways")
    };
    let response = world().delete("Secret", "missing", &options);
    let causes = response.status().unwrap().causes();
    let reasons: Vec<&str> = causes.iter().map(|cause| cause.reason).collect();
    assert_eq!(reasons, ["FieldValueInvalid", "FieldValueNotSupported"]);
    assert!(message(&response).contains("is invalid: [propagationPolicy"));
}
