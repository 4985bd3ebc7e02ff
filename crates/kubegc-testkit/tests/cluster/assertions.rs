//! Texts of failing assertions.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolume, Secret};
use kube::{
    Api, Resource,
    api::{DeleteParams, PostParams},
};
use kubegc_core::KubernetesVersion;
use kubegc_testkit::{Cluster, Fault, Name, ObjectState, OwnerState, Rule, http::Verb};

use crate::support::{blocking_owner, config_map, config_maps, create, delete, owner};

/// The message of an assertion that fails.
fn message(assertion: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(assertion)).unwrap_err();
    *panic.downcast::<String>().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_live_object_is_reported_with_its_owners() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    let a = create(&api, &config_map("a", &[], &[])).await;
    let b = create(&api, &config_map("b", &[], &[])).await;
    let shared = create(&api, &config_map("shared", &[owner(&a), owner(&b)], &[])).await;
    delete(&api, "a", &DeleteParams::default()).await;
    assert_eq!(
        message(|| cluster.assert_collected(&shared)),
        "\
configmap/shared -n default
  expected: deleted
       got: not being deleted
  its owner configmap/a no longer exists
  its owner configmap/b exists
  requests:
    +0s client create configmaps default/shared -> 201
    +0s client delete configmaps default/a -> 200
  the cluster was not settled since the last write: call settle() first
  it is deleted once its owner configmap/b is deleted"
    );
    cluster.settle().await.unwrap();
    cluster.assert_survives(&shared);
    assert_eq!(
        message(|| cluster.assert_stuck(&b)),
        "\
configmap/b -n default
  expected: terminating, and waiting for more than its grace period
       got: not being deleted
  its dependents: configmap/shared -n default
  requests:
    +0s client create configmaps default/b -> 201
  it is deleted once a client deletes it: it has no owner"
    );
}

#[tokio::test(start_paused = true)]
async fn a_report_warns_of_a_release_that_is_not_known() {
    let version = KubernetesVersion::new(KubernetesVersion::MINOR_MAX + 1, 0).unwrap();
    let cluster = Cluster::builder().version(version).build().unwrap();
    let api = config_maps(&cluster);
    let a = create(&api, &config_map("a", &[], &[])).await;
    assert_eq!(cluster.fate(&a).warnings, Vec::from_iter(version.warning()));
    let warning = format!("\n  warning: {}", version.warning().unwrap());
    assert!(message(|| cluster.assert_collected(&a)).contains(&warning));
}

#[tokio::test(start_paused = true)]
async fn a_removed_object_is_reported_with_its_deleter_and_the_reason() {
    let cluster = Cluster::new();
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("my-operator"));
    let a = create(&api, &config_map("a", &[], &[])).await;
    let b = create(&api, &config_map("b", &[owner(&a)], &[])).await;
    delete(&api, "a", &DeleteParams::background()).await;
    cluster.settle().await.unwrap();
    cluster.assert_collected(&b);
    assert_eq!(
        message(|| cluster.assert_survives(&b)),
        "\
configmap/b -n default
  expected: not being deleted
       got: deleted
  its owner configmap/a no longer exists
  requests:
    +0s my-operator create configmaps default/b -> 201
    +0s my-operator delete configmaps default/a -> 200
    +0s garbage-collector delete configmaps default/b -> 200 because no owner of it is left"
    );
    // Another object under the name does not count, except if the test gives only the name.
    create(&api, &config_map("b", &[], &[])).await;
    cluster.assert_collected(&b);
    cluster.assert_survives(Name::of::<ConfigMap>("default", "b"));
    assert_eq!(cluster.fate(&b).state, ObjectState::Deleted { replaced: true });
}

#[tokio::test(start_paused = true)]
async fn a_terminating_object_is_reported_with_its_finalizers() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    let a = create(&api, &config_map("a", &[], &[])).await;
    let b = create(&api, &config_map("b", &[blocking_owner(&a)], &["shop/hold"])).await;
    delete(&api, "a", &DeleteParams::foreground()).await;
    cluster.settle().await.unwrap();
    assert_eq!(
        message(|| cluster.assert_collected(&a)),
        "\
configmap/a -n default
  expected: deleted
       got: terminating, waiting for foregroundDeletion
  its dependents: configmap/b -n default
  requests:
    +0s client create configmaps default/a -> 201
    +0s client delete configmaps default/a -> 200
  it is deleted once these dependents are deleted: configmap/b -n default"
    );
    assert_eq!(
        cluster.fate(&b).to_string(),
        "\
configmap/b -n default is terminating, waiting for shop/hold
  its owner configmap/a is being deleted and waits for its dependents
  requests:
    +0s client create configmaps default/b -> 201
    +0s client delete configmaps default/a -> 200
    +0s garbage-collector delete configmaps default/b -> 200 because its only remaining owner is being deleted in the foreground and waits for it
  it is deleted once its controller removes finalizer shop/hold"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_never_existed_is_reported_with_similar_ones() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    create(&api, &config_map("settings", &[], &[])).await;
    cluster.settle().await.unwrap();
    let slip = Name::of::<ConfigMap>("default", "setings");
    assert_eq!(
        message(|| cluster.assert_collected(&slip)),
        "configmap/setings -n default\n  expected: deleted\n       got: never existed; its kind has settings"
    );
    let nothing = Name::of::<ConfigMap>("kube-public", "x");
    assert_eq!(
        message(|| cluster.assert_survives(&nothing)),
        "configmap/x -n kube-public\n  expected: not being deleted\n       got: never existed, nor any other object of its kind"
    );
}

/// A typing error in a kind, and a forgotten definition.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_reported() {
    let cluster = Cluster::new();
    for (api_version, kind, hint) in [
        ("apps/v1", "Deploymnt", "did you mean apps/v1 Deployment?"),
        ("v1", "Deployment", "did you mean apps/v1 Deployment?"),
        ("v1", "pods", "did you mean v1 Pod?"),
        (
            "example.com/v1",
            "Website",
            "give its CustomResourceDefinition to the cluster",
        ),
    ] {
        let message = message(|| cluster.assert_collected(Name::new(api_version, kind, "default", "a")));
        let expected = format!("got: of a kind that the cluster does not serve; {hint}");
        assert!(message.ends_with(&expected), "{message}");
    }
}

/// The requests of an operator that lacks a definition and a permission.
#[tokio::test(start_paused = true)]
async fn failed_requests_of_a_client_are_reported() {
    let cluster = Cluster::new();
    let a = create(&config_maps(&cluster), &config_map("a", &[], &[])).await;
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("my-operator"));
    let refused = Rule::new(Fault::status(403)).on(Verb::List);
    cluster.faults().add(refused.client("my-operator").times(2));
    for _ in 0..2 {
        api.list(&Default::default()).await.unwrap_err();
    }
    api.get("no-such-object").await.unwrap_err();
    let kind = kube::core::GroupVersionKind::gvk("example.com", "v1", "Website");
    let websites = kube::core::ApiResource::from_gvk(&kind);
    let websites: Api<kube::core::DynamicObject> =
        Api::default_namespaced_with(cluster.client_as("my-operator"), &websites);
    websites.list(&Default::default()).await.unwrap_err();
    let settled = cluster.settle().await.unwrap();
    let message = message(|| cluster.assert_collected(&a));
    let failures = "
  failed requests of clients:
    +0s my-operator list configmaps default/ -> 403 (injected: refused)
    +0s my-operator list websites.example.com default/ -> 404
";
    assert!(message.contains(failures), "{message}");
    assert_eq!(cluster.fate(&a).failures.len(), 2);
    assert_eq!(settled.to_string(), "quiet\n");
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_settle_is_reported() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    let hint = "the cluster was not settled since the last write: call settle() first";
    let held = create(&api, &config_map("held", &[], &["shop/hold"])).await;
    delete(&api, "held", &DeleteParams::default()).await;
    // The control plane has nothing to do, but an operator could remove the finalizer.
    let forgotten = message(|| cluster.assert_collected(&held));
    assert!(forgotten.contains(hint), "{forgotten}");
    cluster.settle().await.unwrap();
    let stuck = message(|| cluster.assert_collected(&held));
    assert!(!stuck.contains("settle"), "{stuck}");
    cluster.advance(Duration::from_secs(1)).await;
    assert!(cluster.fate(&held).to_string().contains(hint));
}

/// `?` in a test prints errors with `Debug`.
#[test]
fn errors_are_printed_as_their_messages() {
    let error = Cluster::builder()
        .yaml("{apiVersion: v1, kind: Website}")
        .build()
        .unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_pending_change_is_not_settled() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    let a = create(&api, &config_map("a", &[], &[])).await;
    let b = create(&api, &config_map("b", &[owner(&a)], &[])).await;
    delete(&api, "a", &DeleteParams::background()).await;
    let expected = "and the control plane has more to do, after which it is deleted: call settle() first";
    for message in [
        message(|| cluster.assert_survives(&b)),
        message(|| cluster.assert_collected(&b)),
    ] {
        assert!(message.contains(expected), "{message}");
    }
    // The simulation of the next steps changed nothing.
    assert!(api.get("b").await.is_ok());
    assert_eq!(cluster.audit().by("garbage-collector").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_lists_its_remaining_content() {
    let cluster = Cluster::builder()
        .namespace("shop")
        .yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop, finalizers: [shop/hold]}}")
        .build()
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    delete(&namespaces, "shop", &DeleteParams::default()).await;
    cluster.settle().await.unwrap();
    let shop = cluster.object::<Namespace>("", "shop");
    cluster.assert_stuck(&shop);
    let text = cluster.fate(&shop).to_string();
    let state = "namespace/shop is terminating, waiting for kubernetes\n";
    let content =
        "it is deleted once its content is deleted: configmap/a -n shop, serviceaccount/default -n shop";
    assert!(text.starts_with(state) && text.ends_with(content), "{text}");
}

#[tokio::test(start_paused = true)]
async fn owners_in_other_namespaces_are_reported() {
    let cluster = Cluster::builder()
        .namespace("shop")
        .yaml(
            "
apiVersion: v1
kind: ConfigMap
metadata: {name: a, uid: u-a}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: shop, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a, uid: u-a}]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: v, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a, uid: u-a}]}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /v}}
---
apiVersion: v1
kind: Secret
metadata: {name: s, ownerReferences: [{apiVersion: shop/v1, kind: Cart, name: c, uid: u-c}]}
",
        )
        .build()
        .unwrap();
    cluster.settle().await.unwrap();
    // An owner in another namespace does not count: upstream deletes the dependent, and warns.
    let b = cluster.fate(Name::of::<ConfigMap>("shop", "b"));
    assert_eq!(b.state, ObjectState::Deleted { replaced: false });
    assert_eq!(b.warnings.len(), 1, "{b}");
    let volume = Name::of::<PersistentVolume>("", "v");
    cluster.assert_survives(&volume);
    let text = cluster.fate(&volume).to_string();
    let out_of_reach = "its owner configmap/a is namespaced, and its dependent is cluster-scoped";
    assert!(text.contains(out_of_reach), "{text}");
    let secret = cluster.fate(Name::of::<Secret>("default", "s"));
    assert!(secret.owners[0].retry.is_some(), "{secret}");
    assert_eq!(secret.deleted_once, ["the kind of its owner cart/c is served"]);
}

#[tokio::test(start_paused = true)]
async fn kinds_of_different_groups_may_share_a_plural() {
    let cluster = Cluster::builder()
        .yaml(
            "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: configmaps.test.dev}
spec:
  group: test.dev
  scope: Namespaced
  names: {kind: ConfigMap, plural: configmaps}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
",
        )
        .build()
        .unwrap();
    let kind = kube::core::GroupVersionKind::gvk("test.dev", "v1", "ConfigMap");
    let resource = kube::core::ApiResource::from_gvk(&kind);
    let others: Api<kube::core::DynamicObject> = Api::default_namespaced_with(cluster.client(), &resource);
    let [a, b] = ["a", "b"].map(|name| kube::core::DynamicObject::new(name, &resource));
    create(&others, &a).await;
    others.delete("a", &DeleteParams::default()).await.unwrap();
    create(&others, &b).await;
    create(&config_maps(&cluster), &config_map("b", &[], &[])).await;
    let never = cluster.fate(Name::of::<ConfigMap>("default", "a"));
    let has_never_existed = matches!(never.state, ObjectState::NeverExisted { .. });
    assert!(has_never_existed, "{never:?}");
    let there = cluster.fate(Name::of::<ConfigMap>("default", "b"));
    assert_eq!((there.state, there.requests.len()), (ObjectState::Exists, 1));
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_never_existed_is_not_reported_as_deleted() {
    let cluster = Cluster::builder()
        .namespace("shop")
        .without_collector()
        .yaml(
            "
apiVersion: v1
kind: ConfigMap
metadata: {name: a, uid: u-a}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: b
  namespace: shop
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: a, uid: u-a}
  - {apiVersion: v1, kind: ConfigMap, name: c, uid: u-c}
  - {apiVersion: v1, kind: Node, name: node-1, uid: u-n}
  - {apiVersion: v1, kind: ConfigMap, name: b, uid: u-other}
",
        )
        .build()
        .unwrap();
    let b = Name::of::<ConfigMap>("shop", "b");
    let states: Vec<OwnerState> = cluster.fate(&b).owners.iter().map(|owner| owner.state).collect();
    assert_eq!(
        states,
        [
            OwnerState::InOtherNamespace,
            OwnerState::NeverExisted { namespaced: true },
            OwnerState::NeverExisted { namespaced: false },
            OwnerState::OtherUid,
        ]
    );
    assert_eq!(
        cluster.fate(&b).to_string(),
        "\
configmap/b -n shop is not being deleted
  its owner configmap/a exists only in another namespace: owner references name objects of the namespace of their dependent
  its owner configmap/c never existed in this namespace
  its owner node/node-1 never existed
  its owner configmap/b never existed with this uid: its name belongs to another object
  it is deleted once the collector finds that no owner exists; this cluster runs no collector, a real one does"
    );
    // An owner that existed before the first request counts as deleted after its deletion.
    delete(&config_maps(&cluster), "a", &DeleteParams::default()).await;
    let mut dependent = config_map("d", &[], &[]);
    let mut gone = owner(&cluster.find::<ConfigMap>("shop", "b").unwrap());
    (gone.name, gone.uid) = ("a".to_owned(), "u-a".to_owned());
    dependent.metadata.owner_references = Some(vec![gone]);
    let dependent = create(&config_maps(&cluster), &dependent).await;
    assert_eq!(cluster.fate(&dependent).owners[0].state, OwnerState::Deleted);
}

#[tokio::test(start_paused = true)]
async fn a_fate_belongs_to_one_uid() {
    let cluster = Cluster::builder().without_collector().build().unwrap();
    let api = config_maps(&cluster);
    let owned = config_map("a", &[], &[]);
    let first = create(&api, &owned).await;
    api.create(&PostParams::default(), &owned).await.unwrap_err();
    delete(&api, "a", &DeleteParams::default()).await;
    let refused = Rule::new(Fault::status(403)).on(Verb::Create);
    cluster.faults().add(refused.resource("configmaps"));
    api.create(&PostParams::default(), &owned).await.unwrap_err();
    let second = create(&api, &owned).await;
    // The dependent names the second one: the deletion of the first is not a cause.
    let dependent = create(&api, &config_map("b", &[owner(&second)], &[])).await;
    delete(&api, "a", &DeleteParams::background()).await;
    cluster.settle().await.unwrap();

    let uid = |object: &ConfigMap| object.metadata.uid.clone().unwrap();
    let by_name = cluster.fate(Name::of::<ConfigMap>("default", "a"));
    assert_eq!(
        by_name.to_string(),
        format!(
            "\
configmap/a -n default is deleted
  an earlier object had this name (uid {}): not shown here
  requests:
    +0s client create configmaps default/a -> 403 (injected: refused)
    +0s client create configmaps default/a -> 201
    +0s client delete configmaps default/a -> 200",
            uid(&first)
        )
    );
    assert_eq!(by_name.object.uid.unwrap().to_string(), uid(&second));
    let first = cluster.fate(&first);
    assert_eq!(
        first.requests.to_string(),
        "\
+0s client create configmaps default/a -> 201
+0s client create configmaps default/a -> 409
+0s client delete configmaps default/a -> 200
"
    );
    assert!(first.earlier.is_empty());
    assert_eq!(
        cluster.fate(&dependent).requests.to_string(),
        "\
+0s client create configmaps default/b -> 201
+0s client delete configmaps default/a -> 200
"
    );
}

/// kube's `owner_ref` and `controller_owner_ref` leave `blockOwnerDeletion` unset, so no dependent blocks
/// its owner.
#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_that_nothing_blocks_names_the_missing_flag() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    let a = create(&api, &config_map("a", &[], &[])).await;
    let controller = a.controller_owner_ref(&()).unwrap();
    for name in ["b", "c", "d"] {
        let dependent = config_map(name, std::slice::from_ref(&controller), &["shop/hold"]);
        create(&api, &dependent).await;
    }
    delete(&api, "a", &DeleteParams::foreground()).await;
    let settled = cluster.settle().await.unwrap();
    assert_eq!(
        settled.calls.verb(Verb::Patch).to_string(),
        "+0s garbage-collector patch configmaps default/a -> 200 because none of its 3 dependents blocks its \
         deletion: blockOwnerDeletion is not set in their owner references\n"
    );
    // The failing assertion names the reason to a test that expects the owner to wait.
    let text = message(|| cluster.assert_stuck(&a));
    for part in [
        "configmap/a -n default\n  expected: terminating",
        "blockOwnerDeletion is not set in their owner references",
    ] {
        assert!(text.contains(part), "{text}");
    }
}
