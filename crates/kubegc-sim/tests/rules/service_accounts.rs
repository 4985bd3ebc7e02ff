//! Service accounts of namespaces and pods.

use kubegc_core::{Catalog, KindId, KubernetesVersion, deletion::DeleteOptionsSpec};
use kubegc_sim::{ApiServer, Response, Settings};
use serde_json::{Value, json};

fn server(version: &str) -> ApiServer {
    let version: KubernetesVersion = version.parse().unwrap();
    let settings = Settings {
        types: true,
        service_accounts: true,
        ..Settings::default()
    };
    let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(settings);
    let namespaces = kind(&server, "namespaces");
    let created = server.create_json(namespaces, "", json!({"metadata": {"name": "ns"}}));
    assert_eq!(created.code, 201);
    server
}

fn kind(server: &ApiServer, plural: &str) -> KindId {
    server.resolve("", "v1", plural).unwrap()
}

fn pod(server: &mut ApiServer, name: &str, more: Value) -> Response {
    let mut spec = json!({
        "containers": [{"name": "c", "image": "c:1"}],
        "initContainers": [{"name": "i", "image": "i:1"}],
    });
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let pods = kind(server, "pods");
    server.create_json(pods, "ns", json!({"metadata": {"name": name}, "spec": spec}))
}

fn spec(response: &Response) -> Value {
    assert_eq!(response.code, 201, "{:?}", response.body);
    response.object().unwrap().at(&["spec"]).unwrap().clone()
}

#[test]
fn a_namespace_has_its_default_account() {
    let mut server = server("1.30");
    let accounts = kind(&server, "serviceaccounts");
    let uid = |server: &ApiServer| {
        server
            .object(accounts, "ns", "default")
            .map(|object| object.meta.uid.clone())
    };
    let first = uid(&server).unwrap();
    server.delete(accounts, "ns", "default", &DeleteOptionsSpec::default());
    let second = uid(&server).unwrap();
    assert_ne!(first, second);
    // A terminating namespace gets no other one.
    let namespaces = kind(&server, "namespaces");
    server.delete(namespaces, "", "ns", &DeleteOptionsSpec::default());
    server.delete(accounts, "ns", "default", &DeleteOptionsSpec::default());
    assert_eq!(uid(&server), None);
}

#[test]
fn a_pod_gets_the_account_its_token_and_its_pull_secrets() {
    let mut server = server("1.30");
    let accounts = kind(&server, "serviceaccounts");
    let patch = br#"{"imagePullSecrets": [{"name": "registry"}]}"#;
    server.patch(accounts, "ns", "default", "application/merge-patch+json", patch);
    let created = spec(&pod(&mut server, "a", json!({})));
    assert_eq!(
        (&created["serviceAccountName"], &created["serviceAccount"]),
        (&json!("default"), &json!("default"))
    );
    assert_eq!(created["imagePullSecrets"], json!([{"name": "registry"}]));
    let volume = created["volumes"][0]["name"].as_str().unwrap();
    assert!(
        volume.starts_with("kube-api-access-") && volume.len() == 21,
        "{volume}"
    );
    let mount = json!([{
        "name": volume, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }]);
    for list in ["containers", "initContainers"] {
        assert_eq!(created[list][0]["volumeMounts"], mount);
    }
    assert_eq!(
        created["volumes"],
        json!([{"name": volume, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ]}}])
    );
    let other = spec(&pod(&mut server, "b", json!({})));
    assert_ne!(other["volumes"][0]["name"], created["volumes"][0]["name"]);
}

#[test]
fn a_pod_may_have_its_own_account_or_no_token() {
    let mut server = server("1.30");
    let missing = pod(&mut server, "a", json!({"serviceAccountName": "builder"}));
    let status = missing.status().unwrap();
    assert_eq!(
        (status.code, &*status.message),
        (
            403,
            "pods \"a\" is forbidden: error looking up service account ns/builder: serviceaccount \"builder\" not found"
        )
    );
    let accounts = kind(&server, "serviceaccounts");
    let account = json!({"metadata": {"name": "builder"}, "automountServiceAccountToken": false});
    assert_eq!(server.create_json(accounts, "ns", account).code, 201);
    let own = pod(&mut server, "a", json!({"serviceAccountName": "builder"}));
    assert_eq!(spec(&own).get("volumes"), None);
    let requested = json!({"serviceAccountName": "builder", "automountServiceAccountToken": true});
    assert_eq!(
        spec(&pod(&mut server, "b", requested))["volumes"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let refuses = json!({"automountServiceAccountToken": false});
    assert_eq!(spec(&pod(&mut server, "c", refuses)).get("volumes"), None);
    let mounted = json!({
        "initContainers": null,
        "containers": [{"name": "c", "image": "c:1", "volumeMounts": [
            {"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ]}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    });
    assert_eq!(
        spec(&pod(&mut server, "d", mounted))["volumes"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn older_releases_add_no_volume() {
    let mut old = server("1.20.2");
    let created = spec(&pod(&mut old, "a", json!({})));
    assert_eq!(
        (&created["serviceAccountName"], created.get("volumes")),
        (&json!("default"), None)
    );
}
