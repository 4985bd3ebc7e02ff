//! The objects that a cluster begins with, and why one cannot be built.

use kubegc_testkit::Cluster;

/// Objects, and how the error begins.
const REFUSED: &str = r#"
kind: [ => the YAML text cannot be read:
{a: 1} => an object without kind and name: this version of Kubernetes serves no "" in ""
3 => an object without kind and name: this version
{apiVersion: shop/v1, kind: Cart, metadata: {name: c}} => Cart/c: this version of Kubernetes serves no "Cart" in "shop/v1", and no definition among the objects does
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: gone}} => gone/Secret/s: the API server refuses it: 404 namespaces "gone" not found
{apiVersion: v1, kind: Secret, metadata: {name: s, finalizers: hold}} => Secret/s: metadata.finalizers: Invalid value
{apiVersion: v1, kind: Secret, metadata: {name: s, ownerReferences: [{apiVersion: v1, kind: Pod, name: p}]}} => Secret/s: its owner reference to Pod/p has no uid, and there is no such object before it
"#;

#[test]
fn a_build_error_names_its_cause() {
    for row in REFUSED.trim().lines() {
        let (yaml, expected) = row.split_once(" => ").unwrap();
        let error = Cluster::builder().yaml(yaml).build().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{yaml}: {error}");
    }
}

#[test]
fn objects_begin_with_the_uid_status_and_owner_that_they_are_given() {
    let cluster = Cluster::builder()
        .yaml(
            "
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: p, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a}]}
  status: {phase: Running}
- {apiVersion: v1, kind: Namespace, metadata: {name: default}}
---
",
        )
        .yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, uid: u-1}}")
        .build();
    assert_eq!(
        cluster.unwrap_err().to_string(),
        "Pod/p: its owner reference to ConfigMap/a has no uid, and there is no such object before it"
    );
    let cluster = Cluster::builder()
        .yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, uid: u-1}}")
        .yaml(
            "
apiVersion: v1
kind: Pod
metadata: {name: p, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a}]}
spec: {containers: [{name: c, image: c}]}
status: {phase: Running}
",
        )
        .build()
        .unwrap();
    let pod: k8s_openapi::api::core::v1::Pod = cluster.find("default", "p").unwrap();
    assert_eq!(pod.metadata.owner_references.unwrap()[0].uid, "u-1");
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(
        pod.metadata.creation_timestamp.unwrap().0.to_string(),
        "2026-01-01T00:00:00Z"
    );
}
