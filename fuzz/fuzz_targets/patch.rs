//! Patches objects of a simulated API server with any bytes, and with what the collector's builders make of
//! any references.
#![no_main]

use std::sync::Arc;

use kubegc_core::{
    KindId, ObjectMeta, OwnerReference, PatchType, Timestamp, Uid, metadata::FINALIZER_FOREGROUND,
    version::behavior,
};
use kubegc_fuzz::{Choices, catalog};
use kubegc_objects::patch::Change;
use kubegc_sim::{ApiServer, Settings, StoredObject};
use libfuzzer_sys::fuzz_target;

const FORMATS: [PatchType; 3] = [PatchType::Strategic, PatchType::Merge, PatchType::Json];

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    if choices.flag() {
        any_bytes(&mut choices);
    } else {
        what_is_built(&mut choices);
    }
});

fn server(choices: &mut Choices<'_>) -> ApiServer {
    let settings = Settings {
        namespaces_must_exist: false,
        ..Settings::default()
    };
    ApiServer::new(choices.version(), catalog(0xff)).with_settings(settings)
}

/// Whatever is sent: no panic, a code that the API has, and nothing changes unless it was carried out.
fn any_bytes(choices: &mut Choices<'_>) {
    let mut server = server(choices);
    let (api_version, kind, namespaced) = choices.kind();
    let Some(kind) = server.catalog().mapping(api_version, kind) else {
        return;
    };
    let meta = choices.meta(namespaced);
    let (namespace, name) = (Arc::clone(&meta.namespace), Arc::clone(&meta.name));
    server
        .insert(kind, meta)
        .expect("the kind is there and the name is not empty");
    let before = stored(&server, kind, &namespace, &name).expect("just stored");
    let body = choices.0;
    for format in FORMATS {
        let mut server = server.clone();
        let revision = server.revision();
        let response = server.patch(kind, &namespace, &name, format.content_type(), body);
        let after = stored(&server, kind, &namespace, &name);
        assert!(
            matches!(response.code, 200 | 400 | 404 | 409 | 413 | 415 | 422 | 500),
            "{}",
            response.code
        );
        if response.code != 200 {
            assert_eq!(
                (server.revision(), after.as_ref()),
                (revision, Some(&before)),
                "refused with {}",
                response.code
            );
            continue;
        }
        let Some(after) = after else {
            assert!(
                before.meta.is_deleting(),
                "a patch removes only terminating objects"
            );
            continue;
        };
        let (old, new) = (&before.meta, &after.meta);
        assert_eq!(
            (&new.uid, &new.name, &new.namespace),
            (&old.uid, &old.name, &old.namespace)
        );
        assert_eq!(new.deletion_timestamp, old.deletion_timestamp);
        if old.is_deleting() {
            assert!(
                new.finalizers.iter().all(|name| old.finalizers.contains(name)),
                "a finalizer was added too late"
            );
        }
        assert_eq!(
            new.resource_version == old.resource_version,
            server.revision() == revision
        );
    }
}

/// What the builders make is JSON and removes what it says, and nothing else.
fn what_is_built(choices: &mut Choices<'_>) {
    let mut server = server(choices);
    let version = server.version();
    let config_maps = server
        .catalog()
        .mapping("v1", "ConfigMap")
        .expect("in the catalog");
    let widgets = server
        .catalog()
        .mapping("example.com/v1", "Widget")
        .expect("in the catalog");
    let meta = owned(choices, version.has(behavior::DELETE_REFERENCES_UID_FIRST));
    let removed: Vec<Uid> = (0..1 + choices.below(2))
        .map(|_| choices.of(&meta.owner_references).uid.clone())
        .collect();
    for kind in [config_maps, widgets] {
        server
            .insert(kind, meta.clone())
            .expect("the kind is there and the name is not empty");
    }
    let built = |server: &ApiServer, kind, change: &Change, format| {
        let stored = stored(server, kind, "a", "n").expect("just stored");
        let read = ObjectMeta {
            resource_version: stored.meta.resource_version.clone(),
            finalizers: stored.meta.finalizers.clone(),
            ..meta.clone()
        };
        change.body(version, format, &read)
    };
    let kept: Vec<OwnerReference> = meta
        .owner_references
        .iter()
        .filter(|one| !removed.contains(&one.uid))
        .cloned()
        .collect();

    let mut world = server.clone();
    let change = Change::RemoveOwners(removed.clone());
    let body = built(&world, config_maps, &change, PatchType::Strategic).expect("a patch");
    assert_eq!(
        references(&apply(&mut world, config_maps, PatchType::Strategic, &body)),
        kept
    );
    let body = built(&world, widgets, &change, PatchType::Merge).expect("a patch");
    assert_eq!(
        references(&apply(&mut world, widgets, PatchType::Merge, &body)),
        kept
    );
    assert_eq!(
        references(&stored(&world, config_maps, "a", "n").expect("still there")),
        kept
    );

    let mut world = server.clone();
    let unblocked = |force: bool| -> Vec<OwnerReference> {
        let unblock = |one: &OwnerReference| {
            let block_owner_deletion = if force || one.is_blocking() {
                Some(false)
            } else {
                one.block_owner_deletion
            };
            OwnerReference {
                block_owner_deletion,
                ..one.clone()
            }
        };
        meta.owner_references.iter().map(unblock).collect()
    };
    let change = Change::Unblock(meta.owner_references.to_vec());
    let body = built(&world, config_maps, &change, PatchType::Strategic).expect("a patch");
    assert_eq!(
        references(&apply(&mut world, config_maps, PatchType::Strategic, &body)),
        unblocked(false)
    );
    let body = built(&world, widgets, &change, PatchType::Merge).expect("a patch");
    assert_eq!(
        references(&apply(&mut world, widgets, PatchType::Merge, &body)),
        unblocked(true)
    );

    for kind in [config_maps, widgets] {
        let mut world = server.clone();
        let finalizers = stored(&world, kind, "a", "n")
            .expect("just stored")
            .meta
            .finalizers
            .clone();
        let change = Change::RemoveFinalizer(FINALIZER_FOREGROUND.into());
        match built(&world, kind, &change, PatchType::Merge) {
            None => assert!(!meta.has_finalizer(FINALIZER_FOREGROUND)),
            Some(body) => {
                let after = apply(&mut world, kind, PatchType::Merge, &body);
                let left: Vec<_> = finalizers
                    .iter()
                    .filter(|name| &***name != FINALIZER_FOREGROUND)
                    .cloned()
                    .collect();
                assert_eq!(after.meta.finalizers, left);
                assert!(
                    !left.is_empty() || stored(&world, kind, "a", "n").is_none(),
                    "it was to go with its last finalizer"
                );
            }
        }
    }
}

/// An object that is being deleted, with references that the API server takes.
fn owned(choices: &mut Choices<'_>, any_uid: bool) -> ObjectMeta {
    let mut meta = ObjectMeta::new("a", "n", &if any_uid { choices.text() } else { choices.uid() });
    meta.deletion_timestamp = Some(Timestamp::from_secs(1));
    meta.deletion_grace_period_seconds = Some(0);
    for finalizer in ["example.com/hold", FINALIZER_FOREGROUND] {
        if choices.flag() {
            meta.finalizers.push(finalizer.into());
        }
    }
    if meta.finalizers.is_empty() {
        meta.finalizers.push("example.com/hold".into());
    }
    for at in 0..1 + choices.below(4) {
        let mut reference = choices.reference();
        reference.controller = reference.controller.filter(|_| at == 0);
        reference.name = choices.text().into();
        if any_uid {
            reference.uid = choices.text().into();
        }
        // Two references with one uid are merged into one by the strategic form of `unblock`.
        if meta
            .owner_references
            .iter()
            .all(|other| other.uid != reference.uid)
        {
            meta.owner_references.push(reference);
        }
    }
    meta
}

fn apply(server: &mut ApiServer, kind: KindId, format: PatchType, body: &[u8]) -> Arc<StoredObject> {
    let text = String::from_utf8_lossy(body);
    let parsed: Result<serde_json::Value, _> = serde_json::from_slice(body);
    assert!(parsed.is_ok(), "not JSON: {text}");
    let response = server.patch(kind, "a", "n", format.content_type(), body);
    match response.object() {
        Some(object) if response.code == 200 => Arc::clone(object),
        _ => panic!("{} {:?} for {text}", response.code, response.status()),
    }
}

fn references(object: &StoredObject) -> Vec<OwnerReference> {
    object.meta.owner_references.to_vec()
}

fn stored(server: &ApiServer, kind: KindId, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
    server.object(kind, namespace, name).cloned()
}
