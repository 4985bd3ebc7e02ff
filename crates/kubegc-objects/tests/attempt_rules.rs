//! Requests of attempts, in the cases that need certain responses.

use std::sync::Arc;

use kubegc_core::{ApiResource, Catalog, PatchType, PropagationPolicy, Timestamp};
use kubegc_objects::{
    Collector, Input, Operation, Output, Reason, Response, Settings, WatchEvent,
    collector::{AttemptError, Conclusion, WaitReason},
    settings::Hardening,
};

use crate::{
    collector_rules::{discovered, gone, orphaned_item, pull, resource, respond, world, world_with},
    common::{
        VERSIONS,
        cluster::{CONFIG_MAP, HOLD, NODE, Object, SECRET, TENANT, WIDGET, delete, id, version},
        world::World,
    },
};

#[test]
fn failed_requests_end_an_attempt_with_an_error_and_most_are_retried() {
    let failed = |world: &World, uid: &str| match world.conclusions(uid).last() {
        Some(Conclusion::Failed(AttemptError::RequestFailed {
            operation, response, ..
        })) => (*operation, response.clone()),
        other => panic!("{other:?}"),
    };
    for response in [
        Response::Unknown,
        Response::Refused { retry_after: None },
        Response::Unlisted,
    ] {
        let retries = u32::from(response != Response::Unlisted);
        for (reason, operation) in [
            ("VerifyItem", "read"),
            ("LookUpOwner", "read"),
            ("NoOwnerLeft", "deleted"),
        ] {
            // With a cache of no owners each owner is looked up.
            let mut world = world_with("1.36", &[&orphaned_item()], |settings| {
                settings.absent_owners_max = 0
            });
            let fits = |name: &str| name == "item" || reason == "LookUpOwner";
            assert!(world.run_to(|request| request.reason.name() == reason && fits(&request.target.name)));
            respond(&mut world, response.clone());
            assert_eq!(
                failed(&world, "u-item"),
                (operation, response.clone()),
                "{reason}"
            );
            assert_eq!(
                world.collector.explain(&"u-item".into()).failures,
                retries,
                "{reason} {response:?}"
            );
        }
    }
    // A patch.
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let item = Object::new(SECRET, "red", "item")
        .owned_by(&gone())
        .owned_by(&owner);
    let mut world = world("1.36", &[&owner, &item]);
    assert!(world.run_to(|request| request.reason.name() == "SomeOwnersAbsent"));
    respond(&mut world, Response::Invalid);
    assert_eq!(failed(&world, "u-item"), ("patched", Response::Invalid));
    world.settle();
    let live = item.live(&world.server).expect("one owner exists");
    assert_eq!(live.owner_references.to_vec(), [owner.reference()]);
}

#[test]
fn a12_the_second_delete_can_fail_as_well() {
    for release in ["1.34", "1.36"] {
        for strict in [false, true] {
            for response in [Response::Conflict, Response::NotFound, Response::Applied(None)] {
                let item = orphaned_item();
                let mut world = world_with(release, &[&item], |settings| {
                    if strict {
                        settings.hardening = Hardening::Strict;
                    }
                });
                let deletes = |request: &kubegc_objects::Request| request.reason.name() == "NoOwnerLeft";
                assert!(world.run_to(deletes));
                respond(&mut world, Response::Conflict);
                assert!(world.run_to(|request| request.reason == Reason::RecheckAfterConflict));
                // Another version of the object, with the same owners.
                let mut now = item.live(&world.server).expect("it exists");
                now.resource_version = "77".into();
                respond(&mut world, Response::Found(Arc::new(now)));
                assert!(world.run_to(deletes));
                let request = world.open_calls[0].request.clone();
                assert_eq!(request.expect.resource_version, Some("77".into()));
                assert_eq!(request.expect.uid, Some("u-item".into()));
                let Operation::Delete { wire, propagation } = request.operation else {
                    panic!("{request:?}");
                };
                assert_eq!(propagation, PropagationPolicy::Background);
                assert_eq!(wire.uid, Some("u-item".into()));
                assert_eq!(wire.resource_version, strict.then(|| "77".into()), "{release}");
                respond(&mut world, response.clone());
                let ended = world.conclusions("u-item");
                let case = format!("{release} {strict} {response:?}");
                match (&response, ended.last().expect("the attempt is over")) {
                    (Response::Applied(_), Conclusion::Deleted) => {}
                    (Response::NotFound, Conclusion::Absent) => assert_eq!(release, "1.36"),
                    (
                        _,
                        Conclusion::Failed(AttemptError::RequestFailed {
                            operation,
                            response: cause,
                            ..
                        }),
                    ) => {
                        assert_eq!((*operation, cause), ("deleted", &response), "{case}");
                        assert!(response == Response::Conflict || release == "1.34", "{case}");
                    }
                    other => panic!("{case}: {other:?}"),
                }
            }
        }
    }
}

/// The item is a cluster-scoped custom resource, and its dependent made the graph guess a namespace for it.
#[test]
fn p6_the_read_before_a_merge_patch_uses_the_guessed_namespace_unless_strict() {
    for (hardening, is_found) in [(Hardening::AsUpstream, false), (Hardening::Strict, true)] {
        let owner = Object::new(NODE, "", "owner");
        let item = Object::new(TENANT, "", "item")
            .owned_by(&Object::new(NODE, "", "gone"))
            .owned_by(&owner);
        let leaf = Object::new(SECRET, "red", "leaf").owned_by(&item);
        let mut world = world_with("1.36", &[&owner], |settings| settings.hardening = hardening);
        world.settle();
        item.insert(&mut world.server);
        leaf.insert(&mut world.server);
        let secrets = world.monitor_of(id(&world.server, SECRET));
        world.watched(secrets, WatchEvent::Apply(Arc::new(leaf.meta.clone())));
        // The attempt at the guessed node starts before its object is observed.
        let mut reads = Vec::new();
        while let Output::Call(call) = world.poll() {
            let request = &call.request;
            if request.reason == Reason::ReadBeforePatch {
                reads.push(request.target.namespace.to_string());
                if !request.target.namespace.is_empty() {
                    respond(&mut world, Response::NotFound);
                    continue;
                }
            }
            world.commit(0);
            world.respond(0);
        }
        // No monitor has the item yet: a live read.
        assert_eq!(reads, [if is_found { "" } else { "red" }]);
        let released = item.live(&world.server).expect("an owner exists");
        assert_eq!(released.owner_references.len() == 1, is_found, "{hardening:?}");
        let ended = world.conclusions("u-item");
        match ended[0] {
            Conclusion::Released => assert!(is_found),
            Conclusion::Failed(AttemptError::RequestFailed {
                operation, response, ..
            }) => {
                assert!(!is_found);
                assert_eq!((*operation, response), ("read", &Response::NotFound));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn o2_and_o3_dependents_that_cannot_be_patched_keep_the_owner() {
    for release in VERSIONS {
        let owner = Object::new(CONFIG_MAP, "red", "owner");
        let dependents = ["a", "b", "c"].map(|name| Object::new(WIDGET, "red", name).owned_by(&owner));
        let mut world = world(release, &[&owner, &dependents[0], &dependents[1], &dependents[2]]);
        world.settle();
        delete(&mut world.server, &owner, Some(PropagationPolicy::Orphan));
        world.deliver_all();
        let (patches, why) = pull(&mut world);
        assert_eq!(
            (patches.len(), why),
            (3, WaitReason::Responses),
            "{release}: concurrently"
        );
        respond(&mut world, Response::Unknown);
        // A dependent that no longer exists is no failure.
        respond(&mut world, Response::NotFound);
        respond(&mut world, Response::UnsupportedMediaType);
        assert_eq!(
            pull(&mut world).0,
            ["OwnerOrphans"],
            "{release}: the other format"
        );
        let format = match &world.open_calls[0].request.operation {
            Operation::Patch { format, .. } => *format,
            other => panic!("{other:?}"),
        };
        assert_eq!(format, PatchType::Merge);
        respond(&mut world, Response::Refused { retry_after: None });
        let (more, _) = pull(&mut world);
        assert_eq!(more, [""; 0], "{release}: the finalizer stays");
        let Some(Conclusion::Failed(AttemptError::Orphaning {
            dependents,
            failed,
            first,
            owner: named,
        })) = world.conclusions("u-owner").last().copied()
        else {
            panic!("{release}: {:?}", world.conclusions("u-owner"));
        };
        assert_eq!(
            (*dependents, *failed, named.short().as_str()),
            (3, 2, "configmap/owner -n red")
        );
        assert!(matches!(
            &**first,
            AttemptError::RequestFailed {
                operation: "patched",
                response: Response::Unknown,
                ..
            }
        ));
        world.settle();
        assert_eq!(owner.live(&world.server), None, "{release}");
        for dependent in ["a", "b", "c"] {
            let dependent = Object::new(WIDGET, "red", dependent);
            let live = dependent.live(&world.server).expect("it is orphaned");
            assert!(live.owner_references.is_empty(), "{release}");
        }
    }
}

#[test]
fn f1_a_finalizer_is_removed_from_what_was_read() {
    let owner = Object::new(CONFIG_MAP, "red", "owner").with_finalizer(HOLD);
    for release in VERSIONS {
        let mut world = world(release, &[&owner]);
        world.settle();
        delete(&mut world.server, &owner, Some(PropagationPolicy::Orphan));
        assert!(world.run_to(|request| request.reason == Reason::ReadBeforeFinalizer));
        respond(&mut world, Response::Unknown);
        pull(&mut world);
        let Some(Conclusion::Failed(AttemptError::CannotFinalize {
            owner: named,
            response,
        })) = world.conclusions("u-owner").last().copied()
        else {
            panic!("{release}: {:?}", world.conclusions("u-owner"));
        };
        assert_eq!(
            (named.short().as_str(), response),
            ("configmap/owner -n red", &Response::Unknown)
        );
        assert!(
            world.run_to(|request| request.reason == Reason::DependentsReleased),
            "{release}"
        );
        let live = owner.live(&world.server).expect("it is held");
        let request = world.open_calls[0].request.clone();
        assert_eq!(
            request.expect.resource_version.as_ref(),
            Some(&live.resource_version)
        );
        match (&request.operation, release) {
            (Operation::Put { read_at, finalizers }, "1.13") => {
                assert_eq!(
                    (read_at, &**finalizers),
                    (&live.resource_version, &[HOLD.into()][..])
                );
            }
            (
                Operation::Patch {
                    format: PatchType::Merge,
                    body,
                },
                _,
            ) => {
                let expected = format!(
                    r#"{{"metadata":{{"resourceVersion":"{}","finalizers":["{HOLD}"]}}}}"#,
                    live.resource_version
                );
                assert_eq!(String::from_utf8_lossy(body), expected, "{release}");
            }
            other => panic!("{release}: {other:?}"),
        }
        respond(&mut world, Response::Refused { retry_after: None });
        pull(&mut world);
        assert!(matches!(
            world.conclusions("u-owner").last(),
            Some(Conclusion::Failed(AttemptError::RequestFailed {
                operation: "patched",
                ..
            }))
        ));
        world.settle();
        let live = owner.live(&world.server).expect("it is held");
        assert_eq!(live.finalizers, [HOLD.into()], "{release}");
    }
}

#[test]
fn w7_an_attempt_uses_the_version_that_the_graph_has_now() {
    for (refresh, expected) in [(false, "example.com/v1beta1"), (true, "example.com/v1")] {
        let [old, new] = ["example.com/v1beta1", "example.com/v1"].map(|version| resource(version, "Widget"));
        let mut settings = Settings::new(version("1.36"));
        settings.semantics.refresh_api_version = refresh;
        settings.discovery_period = None;
        let mut collector = Collector::new(settings);
        let secrets = resource("v1", "Secret");
        discovered(&mut collector, &[old.clone(), secrets.clone()], &[]);
        let watch = |collector: &mut Collector, api_version: &str, events: Vec<WatchEvent>| {
            let found = collector
                .monitors()
                .find(|(_, known, _)| known.api_version() == api_version);
            let monitor = found.expect("it is monitored").0;
            for event in events {
                let input = Input::Watch { monitor, event };
                collector
                    .handle(Timestamp::EPOCH, input)
                    .expect("it is monitored");
            }
        };
        let owner = Object::new(WIDGET, "red", "owner");
        let mut middle = Object::new(WIDGET, "red", "middle").blocking(&owner);
        middle.meta.owner_references[0].api_version = "example.com/v1beta1".into();
        let listed = |meta: &kubegc_core::ObjectMeta| {
            vec![
                WatchEvent::Init,
                WatchEvent::InitApply(vec![Arc::new(meta.clone())]),
                WatchEvent::InitDone,
            ]
        };
        watch(&mut collector, "example.com/v1beta1", listed(&owner.meta));
        watch(&mut collector, "v1", listed(&middle.meta));
        // The owner is queued because it is unblocked. Then it is served in another version.
        middle.meta.owner_references.clear();
        watch(
            &mut collector,
            "v1",
            vec![WatchEvent::Apply(Arc::new(middle.meta.clone()))],
        );
        discovered_without_polling(&mut collector, &[old, new, secrets]);
        let mut newer = owner.meta.clone();
        newer.resource_version = "2".into();
        let mut first = None;
        // The new monitor must be pulled before it delivers.
        loop {
            match collector.poll_output() {
                Output::Watch(_) => {
                    watch(
                        &mut collector,
                        "example.com/v1",
                        vec![WatchEvent::Apply(Arc::new(newer.clone()))],
                    );
                }
                Output::Call(call) => {
                    first.get_or_insert(call.request);
                }
                Output::Wait(_) => break,
                _ => {}
            }
        }
        let request = first.expect("the queued owner or the suspect item is verified");
        assert_eq!(
            (&*request.target.name, &*request.target.api_version),
            ("owner", expected)
        );
    }
}

fn discovered_without_polling(collector: &mut Collector, resources: &[ApiResource]) {
    let mut catalog = Catalog::new();
    for resource in resources {
        catalog.add(resource.clone()).expect("different names");
    }
    let input = Input::Catalog {
        catalog: Arc::new(catalog),
        failed: Vec::new(),
    };
    collector
        .handle(Timestamp::EPOCH, input)
        .expect("the clock does not advance");
}
