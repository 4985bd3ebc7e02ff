//! Diagnoses: terminating objects and wrong owner references.

use kubegc_predict::{Assumptions, Cluster, Diagnosis};
use serde_json::{Value, json};

use crate::common;

fn cluster(version: &str, complete: &[&str], items: &[Value]) -> Cluster {
    common::of_release(version, items, complete, Assumptions::default())
}

fn item(api_version: &str, kind: &str, namespace: &str, name: &str, owners: Value) -> Value {
    let mut meta = json!({ "name": name, "uid": format!("uid-{namespace}-{name}"), "resourceVersion": "5", "ownerReferences": owners });
    if !namespace.is_empty() {
        meta["namespace"] = namespace.into();
    }
    json!({ "apiVersion": api_version, "kind": kind, "metadata": meta })
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid })
}

/// Dependents with API version, kind, name and uid of their owner.
const DEPENDENTS: &str = "\
right v1 ConfigMap config uid-shop-config
right-lower-case v1 configmap config uid-shop-config
right-of-cluster v1 Node node-1 uid--node-1
bad-version a/b/c ConfigMap config uid-shop-config
core-group core/v1 ConfigMap config uid-shop-config
upper-case v1 CONFIGMAP config uid-shop-config
plural v1 configmaps config uid-shop-config
old-version apps/v1beta1 Deployment web uid-web
unknown-kind example.com/v1 Widget w uid-w
other-namespace v1 ConfigMap elsewhere uid-test-elsewhere
other-name v1 ConfigMap renamed uid-shop-config
other-kind v1 Secret config uid-shop-config
other-uid v1 ConfigMap config uid-before-restore
missing v1 ConfigMap absent uid-absent
not-listed batch/v1 Job import uid-import
";

/// The cases of kubectl-check-ownerreferences, and more: each dependent with the problem of its references
/// and its fate in this version.
fn references(version: &str) -> Diagnosis {
    let config = "uid-shop-config";
    let dependent = |line: &str| {
        let [name, api_version, kind, of, uid] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        item(
            "v1",
            "Secret",
            "shop",
            name,
            json!([owner(api_version, kind, of, uid)]),
        )
    };
    let mut two = item("v1", "Secret", "shop", "two-controllers", json!([]));
    let controller = |name: &str, uid: &str| {
        let mut owner = owner("v1", "ConfigMap", name, uid);
        owner["controller"] = true.into();
        owner
    };
    two["metadata"]["ownerReferences"] = json!([
        controller("config", config),
        controller("other", "uid-shop-other")
    ]);
    let mut items = vec![
        item("v1", "ConfigMap", "shop", "config", json!([])),
        item("v1", "ConfigMap", "shop", "other", json!([])),
        item("v1", "ConfigMap", "test", "elsewhere", json!([])),
        item("v1", "Node", "", "node-1", json!([])),
    ];
    items.extend(DEPENDENTS.lines().map(dependent));
    let namespaced = json!([owner("v1", "ConfigMap", "config", config)]);
    let group = "rbac.authorization.k8s.io/v1";
    items.push(item(group, "ClusterRole", "", "role", namespaced));
    items.push(two);
    let complete = ["configmaps", "secrets", "nodes", "deployments", "clusterroles"];
    cluster(version, &complete, &items).doctor()
}

#[test]
fn wrong_references_have_a_problem_and_an_outcome() {
    let diagnosis = references("1.34");
    let found: Vec<(&str, &str, &str)> = diagnosis
        .references
        .iter()
        .map(|one| (&*one.object.name, one.problem, one.fate.word()))
        .collect();
    let mut expected = [
        ("bad-version", "ApiVersionInvalid", "kept"),
        ("core-group", "CoreGroup", "undetermined"),
        ("upper-case", "KindNotServed", "kept"),
        ("plural", "KindNotServed", "kept"),
        ("old-version", "KindNotServed", "kept"),
        ("unknown-kind", "KindUnknown", "undetermined"),
        ("other-namespace", "OtherNamespace", "deleted"),
        ("other-name", "OtherName", "deleted"),
        ("other-kind", "OtherKind", "deleted"),
        ("other-uid", "OtherUid", "deleted"),
        ("missing", "OwnerMissing", "deleted"),
        ("not-listed", "OwnerUnknown", "undetermined"),
        ("role", "OwnerNamespaced", "kept"),
        ("two-controllers", "SeveralControllers", "kept"),
    ];
    let mut found = found;
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert!(!diagnosis.is_healthy());
}

#[test]
fn repairs_keep_correct_references() {
    let diagnosis = references("1.34");
    let command = |name: &str| {
        let mut found = diagnosis
            .references
            .iter()
            .filter(|one| *one.object.name == *name);
        let fix = found.next().and_then(|one| one.fix.clone());
        fix.map(|fix| fix.command).unwrap_or_default()
    };
    assert_eq!(
        command("other-uid"),
        "kubectl patch secrets other-uid -n shop --type=json -p '[\
         {\"op\":\"test\",\"path\":\"/metadata/ownerReferences/0/uid\",\"value\":\"uid-before-restore\"},\
         {\"op\":\"replace\",\"path\":\"/metadata/ownerReferences/0/uid\",\"value\":\"uid-shop-config\"}]'"
    );
    assert!(command("missing").contains("\"op\":\"remove\",\"path\":\"/metadata/ownerReferences/0\""));
    assert!(
        command("upper-case").contains("\"value\":\"ConfigMap\""),
        "{}",
        command("upper-case")
    );
    assert!(
        command("old-version").contains("\"value\":\"apps/v1\""),
        "{}",
        command("old-version")
    );
    assert_eq!(command("not-listed"), "");
    assert!(
        command("role").starts_with("kubectl patch clusterroles.rbac.authorization.k8s.io role --type=json")
    );
}

/// Before 1.20 an owner in another namespace counts, and the order of events decides about namespaced owners
/// of cluster-scoped objects.
#[test]
fn outcomes_are_those_of_the_version() {
    let fate = |version: &str, name: &str| {
        let diagnosis = references(version);
        let found = diagnosis.references.iter().find(|one| *one.object.name == *name);
        found.map(|one| one.fate.word())
    };
    assert_eq!(fate("1.19", "missing"), Some("deleted"));
    assert_eq!(fate("1.19", "role"), Some("undetermined"));
    assert_eq!(fate("1.34", "role"), Some("kept"));
    assert_eq!(fate("1.19", "other-namespace"), Some("kept"));
    assert_eq!(fate("1.34", "other-namespace"), Some("deleted"));
}

fn terminating(mut item: Value, finalizers: &[&str]) -> Value {
    item["metadata"]["finalizers"] = finalizers.into();
    item["metadata"]["deletionTimestamp"] = "2026-05-01T10:00:00Z".into();
    item["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    item["metadata"]["creationTimestamp"] = "2026-05-01T09:00:00Z".into();
    item
}

#[test]
fn stuck_objects_name_the_finalizer_and_its_component() {
    let mut operator = item("apps/v1", "Deployment", "widgets-system", "controller", json!([]));
    operator["metadata"]["labels"] = json!({ "app.kubernetes.io/name": "acme-operator" });
    operator["metadata"]["creationTimestamp"] = "2026-05-03T10:00:00Z".into();
    let items = [
        operator,
        terminating(
            item("v1", "ConfigMap", "shop", "it's", json!([])),
            &["acme.example.com/hold"],
        ),
        terminating(
            item("v1", "ConfigMap", "shop", "other", json!([])),
            &["unheard.of/hold"],
        ),
        terminating(
            item("v1", "PersistentVolumeClaim", "shop", "data", json!([])),
            &["kubernetes.io/pvc-protection"],
        ),
    ];
    let cluster = cluster("1.34", &["all"], &items);
    let diagnosis = cluster.doctor();
    let text = diagnosis.to_text(8);
    for part in [
        "3 causes keep 3 objects in deletion; 0 objects are being deleted; 0 owner references wrong, 0 that the dump cannot confirm",
        "finalizer acme.example.com/hold of an operator, which does not remove it, since 2026-05-01 10:00:00 UTC (2d)",
        "blocks: configmap/it's -n shop (2d)",
        "should act: the operator, perhaps deployment/controller -n widgets-system",
        "fix: kubectl logs deployment/controller -n widgets-system",
        "fix: kubectl patch configmaps 'it'\\''s' -n shop --type=json -p '[{\"op\":\"test\",",
        "evidence: no workload of the dump has a similar name\n",
        "persistentvolumeclaim-protection-controller does not act, since 2026-05-01 10:00:00 UTC (2d)",
        "evidence: persistentvolumeclaim/data -n shop has waited for it for 2d, and it normally acts within 15s",
        "fix: kubectl get pods -n kube-system -l component=kube-controller-manager",
        "risk: persistentvolumeclaim-protection-controller does not clean up: the volume can be deleted while a pod",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let one = diagnosis.to_text(1);
    assert!(one.contains("and 2 more"), "{one}");
    let found = diagnosis.to_json();
    assert_eq!(
        found["terminating"][0]["foreignFinalizers"][0]["name"],
        "acme.example.com/hold"
    );
    assert_eq!(found["terminating"][0]["fate"], "terminating");
}

/// Up to 1.15 two groups serve Deployments: the owner is there, under the other group.
#[test]
fn an_owner_of_another_group_is_never_absent() {
    let items = [
        item("apps/v1", "Deployment", "shop", "web", json!([])),
        item(
            "v1",
            "Secret",
            "shop",
            "a",
            json!([owner("extensions/v1beta1", "Deployment", "web", "uid-shop-web")]),
        ),
    ];
    let cluster = cluster("1.15", &["deployments", "secrets"], &items);
    let secret = cluster
        .pending()
        .fates
        .iter()
        .find(|fate| *fate.object.kind == *"Secret");
    assert_ne!(secret.map(|fate| fate.fate.word()), Some("deleted"));
}

#[test]
fn a_healthy_cluster_has_no_findings() {
    let owned = item(
        "v1",
        "Secret",
        "shop",
        "a",
        json!([owner("v1", "ConfigMap", "config", "uid-shop-config")]),
    );
    let cluster = cluster(
        "1.34",
        &["all"],
        &[item("v1", "ConfigMap", "shop", "config", json!([])), owned],
    );
    let diagnosis = cluster.doctor();
    assert!(diagnosis.is_healthy());
    assert_eq!(
        diagnosis.to_text(8),
        "0 causes keep 0 objects in deletion; 0 objects are being deleted; 0 owner references wrong, 0 that the dump cannot confirm\n"
    );
}

#[test]
fn sarif_has_a_result_for_each_problem() {
    let diagnosis = references("1.34");
    let log = diagnosis.to_sarif();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let results = run["results"].as_array().expect("a list");
    assert_eq!(results.len(), diagnosis.references.len());
    let rules: Vec<&Value> = run["tool"]["driver"]["rules"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|rule| &rule["id"])
        .collect();
    for (result, reference) in results.iter().zip(&diagnosis.references) {
        assert_eq!(result["ruleId"], reference.problem);
        assert!(rules.contains(&&result["ruleId"]), "{rules:?}");
        let level = if reference.is_certain { "error" } else { "note" };
        assert_eq!(result["level"], level);
        let location = &result["locations"][0]["logicalLocations"][0];
        assert_eq!(location["fullyQualifiedName"], reference.object.short());
    }
}

/// The conditions of a namespace name finalizers of content that is not in the dump.
#[test]
fn finalizers_of_unseen_content_are_named() {
    let mut namespace = terminating(item("v1", "Namespace", "", "shop", json!([])), &[]);
    namespace["spec"] = json!({ "finalizers": ["kubernetes"] });
    let condition = |kind: &str, message: &str| json!({ "type": kind, "status": "True", "message": message });
    namespace["status"] = json!({ "phase": "Terminating", "conditions": [
        condition(
            "NamespaceContentRemaining",
            "Some resources are remaining: challenges.acme.cert-manager.io has 3 resource instances",
        ),
        condition(
            "NamespaceFinalizersRemaining",
            "Some content in the namespace has finalizers remaining: finalizer.acme.cert-manager.io in 3 resource instances",
        ),
    ] });
    let diagnosis = cluster("1.34", &[], &[namespace]).doctor();
    let [cause] = diagnosis.causes.as_slice() else {
        panic!("{}", diagnosis.to_text(8))
    };
    assert_eq!(
        cause.message,
        "finalizer finalizer.acme.cert-manager.io of cert-manager, which does not remove it"
    );
    assert_eq!(cause.actor, "cert-manager");
    assert_eq!(
        cause.fixes[0].command,
        "kubectl get challenges.acme.cert-manager.io -n shop -o json"
    );
}

/// Neither the operator nor kubectl can remove a finalizer while a webhook refuses updates.
#[test]
fn a_webhook_that_refuses_the_removal_of_a_finalizer_is_a_cause() {
    let mut webhook = item(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "",
        "policy",
        json!([]),
    );
    let rule = |operation: &str| {
        json!([{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["configmaps"],
        }])
    };
    let held = terminating(
        item("v1", "ConfigMap", "shop", "held", json!([])),
        &["example.com/hold"],
    );
    let rows: [(&str, &[&str]); 2] = [
        ("UPDATE", &["WebhookRefuses", "OperatorFinalizer"]),
        ("CREATE", &["OperatorFinalizer"]),
    ];
    for (operation, words) in rows {
        webhook["webhooks"] = json!([{
            "name": "check.example.org",
            "failurePolicy": "Fail",
            "clientConfig": { "service": { "namespace": "tools", "name": "gone" } },
            "rules": rule(operation),
        }]);
        let diagnosis = cluster("1.34", &["all"], &[webhook.clone(), held.clone()]).doctor();
        let causes = diagnosis.causes.iter().filter(|cause| !cause.blocks.is_empty());
        let found: Vec<&str> = causes.map(|cause| cause.cause).collect();
        assert_eq!(found, words, "{operation}");
    }
}

/// The dump of one claim does not show which pods use it, and it has been terminating for two hours.
#[test]
fn an_object_that_has_been_terminating_for_long_is_not_healthy() {
    let claim = terminating(
        item("v1", "PersistentVolumeClaim", "shop", "data", json!([])),
        &["kubernetes.io/pvc-protection"],
    );
    let mut clock = item("v1", "ConfigMap", "shop", "clock", json!([]));
    for (now, is_healthy) in [("2026-05-01T12:00:00Z", false), ("2026-05-01T10:04:00Z", true)] {
        clock["metadata"]["creationTimestamp"] = now.into();
        let diagnosis = cluster("1.34", &[], &[claim.clone(), clock.clone()]).doctor();
        assert_eq!(diagnosis.is_healthy(), is_healthy, "{now}");
        let causes = diagnosis.causes.iter().map(|cause| cause.message.clone());
        let causes: Vec<String> = causes.collect();
        let is_named = |cause: &String| {
            cause.starts_with(
                "persistentvolumeclaim/data -n shop is waiting for finalizer kubernetes.io/pvc-protection",
            ) && cause.ends_with("the list of pods is not complete: not listed")
        };
        assert_eq!(causes.len(), usize::from(!is_healthy), "{now}: {causes:?}");
        assert!(causes.iter().all(is_named), "{causes:?}");
    }
}

/// The condition of a namespace is all that the dump has.
#[test]
fn a_condition_alone_names_who_refuses() {
    let user = "system:serviceaccount:kube-system:namespace-controller";
    let forbidden =
        format!("widgets.example.com is forbidden: User \"{user}\" cannot list resource \"widgets\"");
    for (message, actor, command) in [
        (
            "Internal error occurred: failed calling webhook \"check.example.org\": failed to call webhook: x",
            "the administrator of webhook check.example.org",
            "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o json",
        ),
        (
            forbidden.as_str(),
            "the administrator of the cluster's authorization",
            "kubectl auth can-i --list --as=system:serviceaccount:kube-system:namespace-controller",
        ),
        (
            "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            "the administrator of the policy that refuses",
            "kubectl delete validatingadmissionpolicybinding b",
        ),
    ] {
        let mut namespace = terminating(item("v1", "Namespace", "", "shop", json!([])), &[]);
        namespace["spec"] = json!({ "finalizers": ["kubernetes"] });
        namespace["status"] = json!({ "phase": "Terminating", "conditions": [{
            "type": "NamespaceDeletionContentFailure",
            "status": "True",
            "message": format!("Failed to delete all resource types, 1 remaining: {message}"),
        }] });
        let diagnosis = cluster("1.34", &[], &[namespace]).doctor();
        let mut causes = diagnosis.causes.iter();
        let cause = causes
            .find(|cause| cause.cause == "RequestRefused")
            .expect(message);
        assert_eq!((&*cause.actor, &*cause.fixes[0].command), (actor, command));
    }
}

/// The provisioner of a volume may be absent, or fail.
#[test]
fn a_volume_whose_storage_is_not_deleted_is_no_healthy_one() {
    let name = "external-provisioner.volume.kubernetes.io/finalizer";
    let mut volume = terminating(item("v1", "PersistentVolume", "", "disk", json!([])), &[name]);
    volume["metadata"]["annotations"] = json!({ "pv.kubernetes.io/provisioned-by": "csi.example.com" });
    volume["spec"] = json!({
        "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": { "namespace": "shop", "name": "data", "uid": "gone" },
        "csi": { "driver": "csi.example.com", "volumeHandle": "1" },
    });
    volume["status"] = json!({ "phase": "Released" });
    let mut clock = item("v1", "ConfigMap", "shop", "clock", json!([]));
    clock["metadata"]["creationTimestamp"] = "2026-05-01T12:00:00Z".into();
    let diagnosis = cluster("1.34", &["all"], &[volume, clock]).doctor();
    let text = diagnosis.to_text(8);
    for part in [
        "external-provisioner does not act, since 2026-05-01 10:00:00 UTC (2h)",
        "evidence: persistentvolume/disk has waited for it for 2h: it does not run, or cannot delete the storage",
        "fix: kubectl describe persistentvolumes disk",
        "this leaks the storage behind the volume, with its cost",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}
