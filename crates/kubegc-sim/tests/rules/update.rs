//! Writes to existing objects: the event of a removal, and problems that several layers find.

use serde_json::json;

use crate::world::{MERGE, message, owner, policy, world};

#[test]
fn s_20_removing_the_last_finalizer_of_a_terminating_object_removes_it_without_a_write() {
    for kind in ["ConfigMap", "Child", "ServiceAccount"] {
        let mut world = world();
        world.put(kind, "a", &["x.dev/a"]);
        world.delete(kind, "a", &policy("Background"));
        let stored = world.get(kind, "a");
        let before = world.server.revision();
        let mut object = stored.clone();
        object["metadata"]["finalizers"] = json!([]);
        object["metadata"]["labels"] = json!({"last": "words"});
        let response = world.update(kind, "a", object);
        let answered = response.object().unwrap();
        assert_eq!(response.code, 200);
        assert!(answered.meta.finalizers.is_empty() && answered.meta.labels.len() == 1);
        assert!(world.get(kind, "a").is_null());
        let events = world.server.events_since(world.kind(kind), before).unwrap();
        let events = Vec::from_iter(events);
        assert_eq!(events.len(), 1);
        let last = &events[0].object.meta;
        assert_eq!(last.finalizers, ["x.dev/a".into()], "the last stored state");
        assert!(last.labels.is_empty());
        assert_eq!(events[0].revision, before + 1);
        assert_eq!(last.resource_version.as_str(), (before + 1).to_string());
        assert_ne!(
            stored["metadata"]["resourceVersion"],
            last.resource_version.as_str()
        );
    }
}

/// Number of times each problem is found on an update: the layers of validation overlap, in other ways for
/// custom resources.
#[test]
fn problems_are_found_once_by_each_layer() {
    let two_controllers = ["o", "p"].map(|name| {
        let mut reference = owner(name);
        reference["controller"] = true.into();
        reference
    });
    let two_controllers = json!({"ownerReferences": two_controllers});
    let without_uid = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n"}]});
    let exclusive = json!({"finalizers": ["orphan", "foregroundDeletion"]});
    for (patch, kind, causes, count) in [
        (&two_controllers, "Secret", 4, 1),
        (&two_controllers, "Child", 3, 3),
        (&without_uid, "Secret", 4, 1),
        (&without_uid, "Child", 3, 1),
        (&exclusive, "Secret", 2, 1),
        (&exclusive, "Child", 1, 1),
    ] {
        let mut world = world();
        world.put(kind, "a", &[]);
        let response = world.patch(kind, "a", MERGE, &json!({"metadata": patch}));
        assert_eq!(response.code, 422);
        let found = response.status().unwrap().causes();
        assert_eq!(found.len(), causes, "{kind} {patch}");
        // Texts that print the pointers of a custom resource differ each time.
        let times = message(&response).matches(&found[0].message).count();
        assert_eq!(times, count, "{kind} {patch}");
    }
}
