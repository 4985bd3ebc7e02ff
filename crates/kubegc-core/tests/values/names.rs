//! Names, uids, metadata and versions.

use std::{collections::BTreeSet, hash::BuildHasher, sync::Arc};

use foldhash::fast::FixedState;

use kubegc_core::{
    KubernetesVersion, ObjectMeta, ObjectRef, OwnerReference, ResourceVersion, SharedMeta, Timestamp, Uid,
    identity::{join_api_version, kubectl_name, split_api_version},
    node_facts::{Container, ContainerImage, ContainerState, Image, PodIdentity, label},
    version::Behavior,
};

fn owner(api_version: &str, kind: &str, controller: Option<bool>) -> OwnerReference {
    OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: "web".into(),
        uid: "u1".into(),
        controller,
        block_owner_deletion: None,
    }
}

#[test]
fn an_identity_prints_in_kubectls_form() {
    let object = ObjectRef::new("apps/v1", "Deployment", "shop", "web", "u1");
    assert_eq!((object.group(), object.version()), ("apps", "v1"));
    assert_eq!(object.short(), "deployment/web -n shop");
    let node = ObjectRef::new("v1", "Node", "", "a", "u2");
    assert_eq!((node.group(), node.version()), ("", "v1"));
    assert_eq!(node.short(), "node/a");
    assert_eq!(node.to_string(), "node/a");
    for (group, text) in [
        ("", "kind/a"),
        ("apps", "kind/a"),
        ("scheduling.k8s.io", "kind/a"),
        ("x.dev", "kind.x.dev/a"),
    ] {
        assert_eq!(kubectl_name(group, "Kind", "", "a"), text);
    }
    for api_version in ["v1", "apps/v1"] {
        let (group, version) = split_api_version(api_version);
        assert_eq!(join_api_version(group, version), api_version);
    }
}

#[test]
fn uids_compare_and_print_as_text() {
    let [uuid, text, empty] = ["0b5f9a3e-58a1-4b0e-9f0a-7c2d4e6f8a9b", "u1", ""].map(Uid::new);
    assert!(!uuid.is_empty() && !text.is_empty() && empty.is_empty());
    assert_eq!(empty, Uid::default());
    assert_ne!(uuid, text);
    assert_ne!(uuid, Uid::new("0b5f9a3e-58a1-4b0e-9f0a-7c2d4e6f8a9c"));
    assert_ne!(text, Uid::new("u2"));
    let bytes = *uuid.as_uuid().expect("a canonical UUID");
    assert_eq!(Uid::from_uuid(bytes), uuid);
    assert_eq!(
        format!("{text} {text:?} {}", &*uuid.text()),
        format!("u1 Uid(u1) {uuid}")
    );
    assert_eq!(Uid::from("u1".to_owned()), text);
    // The order is that of texts.
    let sorted = ["", "0b5f", "0b5f9a3e-58a1-4b0e-9f0a-7c2d4e6f8a9b", "fff", "u1"].map(Uid::new);
    assert!(sorted.is_sorted());
    assert!(uuid < Uid::new("0b5f9a3e-58a1-4b0e-9f0a-7c2d4e6f8a9c") && empty < text);
    let of_bytes = Uid::from_uuid(bytes);
    let uids = BTreeSet::from([&uuid, &text, &empty, &of_bytes]);
    assert_eq!(uids.len(), 3);
    let hash = |uid: &Uid| FixedState::default().hash_one(uid);
    let hashes = BTreeSet::from([&uuid, &text, &empty, &of_bytes].map(hash));
    assert_eq!(hashes.len(), 3);
}

#[test]
fn controllers_and_finalizers_of_an_object_are_found() {
    let mut meta = ObjectMeta::new("shop", "web-0", "u2");
    assert_eq!((meta.is_deleting(), meta.controller()), (false, None));
    let controller = owner("apps/v1", "ReplicaSet", Some(true));
    meta.owner_references.extend([
        owner("v1", "ConfigMap", None),
        owner("v1", "Secret", Some(false)),
        controller.clone(),
        owner("batch/v1", "Job", Some(true)),
    ]);
    meta.finalizers = vec!["a".into(), "b".into()];
    meta.deletion_timestamp = Some(Timestamp::EPOCH);
    assert_eq!((meta.is_deleting(), meta.controller()), (true, Some(&controller)));
    assert!(meta.has_finalizer("a") && meta.has_finalizer("b") && !meta.has_finalizer("c"));
    assert_eq!(controller.short(), "replicaset/web");
    assert_eq!(controller.to_string(), "apps/v1/ReplicaSet web (uid u1)");
    for (block_owner_deletion, is_blocking) in [(None, false), (Some(false), false), (Some(true), true)] {
        let reference = OwnerReference {
            block_owner_deletion,
            ..controller.clone()
        };
        assert_eq!(reference.is_blocking(), is_blocking);
    }
}

#[test]
fn shared_metadata_is_copied_when_it_changes() {
    let meta = ObjectMeta::new("shop", "web", "u1");
    let shared = SharedMeta::from(meta.clone());
    let mut changed = shared.clone();
    changed.name = "other".into();
    assert_eq!((&*shared.name, &*changed.name), ("web", "other"));
    assert!(shared == meta && changed != meta);
    assert_eq!(format!("{shared:?}"), format!("{meta:?}"));
    assert_eq!(ObjectMeta::from(shared.clone()), meta);
    let pointer = Arc::<ObjectMeta>::from(shared);
    let copied = SharedMeta::from(Arc::clone(&pointer));
    assert!(Arc::ptr_eq(&pointer, &copied.into()), "no copy is made");
}

#[test]
fn versions_of_objects_are_texts() {
    let version = ResourceVersion::from("17");
    assert_eq!((version.as_str(), version.is_empty()), ("17", false));
    assert_eq!(format!("{version} {version:?}"), "17 ResourceVersion(17)");
    assert!(ResourceVersion::default().is_empty());
}

#[test]
fn times_are_counted_in_seconds_and_nanoseconds() {
    for (nanos, seconds) in [
        (0, 0),
        (999_999_999, 0),
        (1_500_000_000, 1),
        (-1, -1),
        (-1_000_000_000, -1),
    ] {
        let time = Timestamp::from_nanos(nanos);
        assert_eq!((time.as_secs(), time.as_nanos()), (seconds, nanos));
        assert_eq!(time.truncate_to_secs(), Timestamp::from_secs(seconds));
    }
}

#[test]
fn the_labels_of_a_container_name_its_pod() {
    let pod = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|&(key, value)| (key.into(), value.into()));
        PodIdentity::from_labels(&labels.collect())
    };
    let expected = PodIdentity {
        uid: "u1".into(),
        namespace: "shop".into(),
        name: "web-0".into(),
    };
    let labels = [
        (label::POD_NAME, "web-0"),
        (label::POD_NAMESPACE, "shop"),
        (label::POD_UID, "u1"),
        (label::CONTAINER_NAME, "server"),
    ];
    assert_eq!(pod(&labels), expected);
    assert_eq!(pod(&labels[3..]), PodIdentity::default());
    let labels: Vec<_> = labels
        .iter()
        .map(|&(key, value)| (key.into(), value.into()))
        .collect();
    let container = |pod| Container::new("c1", pod, "server", ContainerState::Exited, Timestamp::EPOCH);
    let expected = Container {
        state: ContainerState::Exited,
        attempt: 0,
        created_at: Timestamp::EPOCH,
        name: Some("server".into()),
        pod: expected,
        id: "c1".into(),
        sandbox_id: "".into(),
        image: ContainerImage::default(),
        labels: labels.iter().cloned().collect(),
        annotations: [].into(),
    };
    assert_eq!(container(expected.pod.clone()), expected);
    let without_pod = container(PodIdentity::default());
    assert_eq!(without_pod.labels, labels.into_iter().skip(3).collect());
}

#[test]
fn a_behavior_has_a_first_release() {
    let behavior = Behavior::since(20, 3, "kubernetes #1");
    assert!(behavior.is_certain() && !Behavior::since_about(18, "a guess").is_certain());
    for (text, has) in [
        ("1.19.9", false),
        ("1.20.2", false),
        ("1.20.3", true),
        ("1.21.0", true),
    ] {
        let version: KubernetesVersion = text.parse().expect("a version");
        assert_eq!(version.has(behavior), has, "{text}");
    }
}

#[test]
fn an_image_is_named_by_its_first_tag_or_digest() {
    let mut image = Image {
        id: "sha256:1".into(),
        ..Image::default()
    };
    assert_eq!(image.name(), "sha256:1");
    image.digests = vec!["web@sha256:2".into()];
    assert_eq!(image.name(), "web@sha256:2");
    image.tags = vec!["web:1".into(), "web:2".into()];
    assert_eq!(image.name(), "web:1");
}
