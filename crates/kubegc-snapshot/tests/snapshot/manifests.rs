//! Manifests: objects without uid, namespace or status, as people write them.

use kubegc_snapshot::{Problem, Snapshot};

use crate::common::{findings, reader};

const APP: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, template: {}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  namespace: shop
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web}]
---
apiVersion: v1
kind: Secret
metadata:
  name: web
  namespace: shop
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: web, uid: u7}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
";

fn snapshot(text: &str) -> Snapshot {
    let mut reader = reader().complete("all").default_namespace("test");
    let read = reader.read("app.yaml", text.as_bytes());
    read.unwrap_or_else(|error| panic!("{}", error.full_text()));
    reader.finish().expect("whole")
}

#[test]
fn objects_without_uid_are_identified_by_name() {
    let snapshot = snapshot(APP);
    let uid = |kind: &str| {
        let object = snapshot.objects().find(|object| **object.kind() == *kind);
        object.expect("read").uid().to_string()
    };
    assert_eq!(uid("Deployment"), "assumed:apps/Deployment/shop/web");
    assert_eq!(uid("ConfigMap"), "u7", "the uid in the Secret's owner reference");
    let config_map = snapshot.find("", "ConfigMap", "shop", "web").expect("read");
    assert_eq!(
        config_map.meta().owner_references[0].uid.to_string(),
        uid("Deployment")
    );
    assert!(
        snapshot
            .objects()
            .all(|object| !object.is_flawed() && !object.has_flawed_meta())
    );
    assert!(snapshot.completeness.of("apps", "Deployment").is_complete());
    assert_eq!(
        snapshot.finding_counts.keys().collect::<Vec<_>>(),
        [&Problem::Assumed]
    );
    assert!(findings(&snapshot).contains(
        &"Assumed: app.yaml, document 3: ConfigMap shop/web: metadata.ownerReferences[0].uid: missing: assumed:apps/Deployment/shop/web is assumed"
            .to_owned()
    ));
}

#[test]
fn a_claim_without_namespace_is_a_new_one_in_the_default_namespace() {
    let snapshot = snapshot(APP);
    let claim = snapshot.find("", "PersistentVolumeClaim", "test", "data");
    let finalizers = claim.expect("read").meta().finalizers;
    assert_eq!(
        finalizers.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["kubernetes.io/pvc-protection"]
    );
}

#[test]
fn references_that_disagree_leave_the_uid_unknown() {
    let other = APP
        .replace("kind: Secret", "kind: Service")
        .replace("uid: u7", "uid: u8");
    let (_, service) = other.split_once("kind: Service").expect("there");
    let (service, _) = service.split_once("---").expect("there");
    let snapshot = snapshot(&format!("{APP}---\napiVersion: v1\nkind: Service{service}"));
    let config_map = snapshot.find("", "ConfigMap", "shop", "web").expect("read");
    assert!(config_map.has_flawed_meta() && config_map.uid().is_empty());
    assert_eq!(snapshot.finding_counts[&Problem::NoUid], 1);
    assert!(!snapshot.completeness.of("", "ConfigMap").is_complete());
}

#[test]
fn a_reference_without_uid_to_an_absent_object_is_incomplete() {
    let snapshot = snapshot(&APP.replace("kind: Deployment, name: web}", "kind: Deployment, name: api}"));
    assert!(findings(&snapshot).contains(
        &"IncompleteOwner: app.yaml, document 3: ConfigMap shop/web: metadata.ownerReferences[0].uid: missing"
            .to_owned()
    ));
}

#[test]
fn the_output_of_helm_template_is_manifests() {
    let text = "---\n# Source: web/templates/account.yaml\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: web\n\
                ---\n# Source: web/templates/app.yaml\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n";
    let snapshot = snapshot(text);
    let names: Vec<String> = snapshot
        .objects()
        .map(|object| object.object_ref().short())
        .collect();
    assert_eq!(names, ["serviceaccount/web -n test", "deployment/web -n test"]);
}
