//! Laws that hold for any sequence of requests.

use kubegc_core::deletion::DeleteOptionsSpec;
use kubegc_sim::{EventType, Response};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{MERGE, STRATEGIC, World, grace, orphan_dependents, owner, policy, world};

const KINDS: [&str; 5] = ["ConfigMap", "Child", "Pod", "Job", "Boss"];
const FINALIZERS: [&str; 4] = ["x.dev/a", "x.dev/b", "orphan", "foregroundDeletion"];

#[derive(Clone, Debug)]
enum Request {
    Create(Vec<&'static str>),
    Delete(DeleteOptionsSpec),
    SetFinalizers(Vec<&'static str>),
    SetOwners(Vec<&'static str>),
    RemoveOwner(&'static str),
    Label(u8),
}

fn finalizers() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(&FINALIZERS[..]), 0..3)
}

fn options() -> impl Strategy<Value = DeleteOptionsSpec> {
    prop_oneof![
        Just(DeleteOptionsSpec::default()),
        prop::sample::select(vec!["Orphan", "Background", "Foreground"]).prop_map(policy),
        any::<bool>().prop_map(orphan_dependents),
        (0_i64..40).prop_map(grace),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let names = || prop::sample::select(vec!["o", "p"]);
    prop_oneof![
        finalizers().prop_map(Request::Create),
        options().prop_map(Request::Delete),
        finalizers().prop_map(Request::SetFinalizers),
        prop::collection::vec(names(), 0..3).prop_map(Request::SetOwners),
        names().prop_map(Request::RemoveOwner),
        (0_u8..2).prop_map(Request::Label),
    ]
}

/// Requests on one of two objects of one of the kinds.
fn requests() -> impl Strategy<Value = Vec<(&'static str, &'static str, Request)>> {
    let kind = prop::sample::select(&KINDS[..]);
    let name = prop::sample::select(vec!["a", "b"]);
    prop::collection::vec((kind, name, request()), 1..40)
}

fn send(world: &mut World, kind: &str, name: &str, request: &Request) -> Response {
    match request {
        Request::Create(finalizers) => world.create(
            kind,
            json!({"metadata": {"name": name, "finalizers": finalizers}, "spec": {"nodeName": "n"}}),
        ),
        Request::Delete(options) => world.delete(kind, name, options),
        Request::SetFinalizers(finalizers) => world.patch(
            kind,
            name,
            MERGE,
            &json!({"metadata": {"finalizers": finalizers}}),
        ),
        Request::SetOwners(owners) => {
            let owners: Vec<Value> = owners.iter().map(|name| owner(name)).collect();
            world.patch(
                kind,
                name,
                MERGE,
                &json!({"metadata": {"ownerReferences": owners}}),
            )
        }
        Request::RemoveOwner(gone) => {
            let patch = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": format!("uid-{gone}")}]}});
            world.patch(kind, name, STRATEGIC, &patch)
        }
        Request::Label(value) => {
            let labels = json!({"l": value.to_string()});
            world.patch(kind, name, MERGE, &json!({"metadata": {"labels": labels}}))
        }
    }
}

proptest! {
    #[test]
    fn a_request_adds_a_revision_exactly_if_it_adds_an_event(requests in requests()) {
        let mut world = world();
        for (kind, name, request) in &requests {
            let before = world.server.revision();
            let stored = world.get(kind, name);
            let response = send(&mut world, kind, name, request);
            let events: Vec<u64> =
                world.server.changes_since(before).map(|change| change.event.revision).collect();
            let expected: Vec<u64> = (before + 1..=world.server.revision()).collect();
            prop_assert_eq!(&events, &expected);
            prop_assert!(events.len() <= 2);
            if !response.is_success() {
                prop_assert!(events.is_empty(), "a refusal changes nothing");
            }
            if events.is_empty() {
                prop_assert_eq!(world.get(kind, name), stored);
            }
        }
    }

    #[test]
    fn the_events_determine_the_whole_state(requests in requests()) {
        let mut world = world();
        let start = world.server.revision();
        for (kind, name, request) in &requests {
            send(&mut world, kind, name, request);
        }
        for kind in KINDS {
            let mut replayed = std::collections::BTreeMap::new();
            for event in world.server.events_since(world.kind(kind), start).unwrap() {
                let name = event.object.meta.name.clone();
                match event.event_type {
                    EventType::Added => prop_assert!(replayed.insert(name, event.object.clone()).is_none()),
                    EventType::Modified => prop_assert!(replayed.insert(name, event.object.clone()).is_some()),
                    EventType::Deleted => prop_assert!(replayed.remove(&name).is_some()),
                }
            }
            let stored = world.server.objects(world.kind(kind), None);
            prop_assert_eq!(stored, replayed.into_values().collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_stored_terminating_object_waits_for_a_finalizer_or_a_grace_period(requests in requests()) {
        let mut world = world();
        for (kind, name, request) in &requests {
            send(&mut world, kind, name, request);
            let meta = world.get(kind, name)["metadata"].clone();
            let held = meta["finalizers"].is_array() || meta["deletionGracePeriodSeconds"].as_i64() > Some(0);
            prop_assert!(meta["deletionTimestamp"].is_null() || held, "{}", meta);
        }
    }

    #[test]
    fn s_9_a_repeated_deletion_changes_nothing(
        kind in prop::sample::select(&KINDS[..]), finalizers in finalizers(), options in options(),
    ) {
        let mut world = world();
        let created = send(&mut world, kind, "a", &Request::Create(finalizers));
        prop_assume!(created.code == 201);
        let delete = Request::Delete(options);
        send(&mut world, kind, "a", &delete);
        let (once, revision) = (world.get(kind, "a"), world.server.revision());
        prop_assume!(!once.is_null());
        send(&mut world, kind, "a", &delete);
        prop_assert_eq!(world.get(kind, "a"), once);
        prop_assert_eq!(world.server.revision(), revision);
    }

    #[test]
    fn a_clone_with_the_same_requests_has_the_same_state(requests in requests(), split in 0_usize..40) {
        let mut one = world();
        let split = split.min(requests.len());
        for (kind, name, request) in &requests[..split] {
            send(&mut one, kind, name, request);
        }
        let mut two = one.clone();
        for (kind, name, request) in &requests[split..] {
            let responses = [&mut one, &mut two].map(|world| send(world, kind, name, request));
            prop_assert_eq!(&responses[0], &responses[1]);
        }
    }

    /// Simple patches are decided without building JSON values; the general path must give the same result.
    #[test]
    fn the_fast_path_of_a_patch_equals_the_general_one(
        before in requests(), request in request(), kind in prop::sample::select(&KINDS[..]),
    ) {
        let mut short = world();
        for (kind, name, request) in &before {
            send(&mut short, kind, name, request);
        }
        let (format, mut patch) = match &request {
            Request::SetFinalizers(finalizers) => (MERGE, json!({"metadata": {"finalizers": finalizers}})),
            Request::SetOwners(owners) => {
                let owners: Vec<Value> = owners.iter().map(|name| owner(name)).collect();
                (MERGE, json!({"metadata": {"ownerReferences": owners}}))
            }
            Request::RemoveOwner(gone) => {
                let directive = json!([{"$patch": "delete", "uid": format!("uid-{gone}")}]);
                (STRATEGIC, json!({"metadata": {"ownerReferences": directive}}))
            }
            _ => return Ok(()),
        };
        let mut long = short.clone();
        let response = short.patch(kind, "a", format, &patch);
        // A field that changes nothing, and that the fast path does not know.
        patch["metadata"]["labels"] = json!({});
        let expected = long.patch(kind, "a", format, &patch);
        prop_assert_eq!(response, expected);
        prop_assert_eq!(short.get(kind, "a"), long.get(kind, "a"));
    }

    #[test]
    fn no_body_makes_the_server_panic(body in prop::collection::vec(any::<u8>(), 0..64), format in 0_usize..3) {
        let format = [MERGE, STRATEGIC, crate::world::JSON][format];
        let mut world = world();
        world.put("Secret", "a", &["x.dev/a"]);
        let kind = world.kind("Secret");
        let response = world.server.patch(kind, "ns", "a", format, &body);
        prop_assert!((200..=500).contains(&response.code));
    }
}
