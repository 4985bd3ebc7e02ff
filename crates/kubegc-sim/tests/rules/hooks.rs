//! Admission webhooks of stored configurations, answered by functions.

use kubegc_core::{Catalog, KindId, deletion::DeleteOptionsSpec};
use kubegc_sim::{Admission, AdmissionHook, ApiServer, Response, Settings};
use serde_json::{Value, json};

const MERGE: &str = "application/merge-patch+json";

fn server() -> ApiServer {
    let version = "1.31".parse().unwrap();
    let settings = Settings {
        types: true,
        namespaces_must_exist: false,
        ..Settings::default()
    };
    let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(settings);
    server.call_webhooks();
    server
}

fn config_maps(server: &ApiServer) -> KindId {
    server.resolve("", "v1", "configmaps").unwrap()
}

/// Stores a configuration with one webhook for ConfigMaps that are not labelled `skip`.
fn configure(server: &mut ApiServer, resource: &str, name: &str, policy: &str) {
    let kind = server
        .resolve("admissionregistration.k8s.io", "v1", resource)
        .unwrap();
    let configuration = json!({"metadata": {"name": name}, "webhooks": [{
        "name": name, "failurePolicy": policy, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "hook", "namespace": "ns"}},
        "objectSelector": {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]},
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }],
    }]});
    let created = server.create_json(kind, "", configuration);
    assert_eq!(created.code, 201, "{:?}", created.body);
}

fn create(server: &mut ApiServer, name: &str, more: Value) -> Response {
    let mut object = json!({"metadata": {"name": name}});
    object
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let kind = config_maps(server);
    server.create_json(kind, "ns", object)
}

fn refusal(response: &Response) -> (u16, String) {
    let status = response.status().unwrap_or_else(|| panic!("{:?}", response.body));
    (status.code, status.message.clone())
}

#[test]
fn a_validating_webhook_refuses_writes_and_deletions() {
    let mut server = server();
    configure(
        &mut server,
        "validatingwebhookconfigurations",
        "check.x.dev",
        "Fail",
    );
    server.set_admission_hook(
        "check.x.dev",
        AdmissionHook::new(|request| {
            let (new, old) = (
                &request["object"]["data"]["a"],
                &request["oldObject"]["data"]["a"],
            );
            match request["operation"].as_str() {
                Some("CREATE") if *new == "bad" => Admission::Deny {
                    code: 403,
                    message: "bad data".to_owned(),
                },
                Some("UPDATE") if new != old => Admission::Deny {
                    code: 0,
                    message: String::new(),
                },
                Some("DELETE") if *old == "kept" => Admission::Deny {
                    code: 409,
                    message: "kept".to_owned(),
                },
                _ => Admission::Allow,
            }
        }),
    );
    let denied = "admission webhook \"check.x.dev\" denied the request";
    let bad = create(&mut server, "a", json!({"data": {"a": "bad"}}));
    assert_eq!(refusal(&bad), (403, format!("{denied}: bad data")));
    assert_eq!(create(&mut server, "a", json!({"data": {"a": "kept"}})).code, 201);
    let kind = config_maps(&server);
    let changed = server.patch(kind, "ns", "a", MERGE, br#"{"data": {"a": "other"}}"#);
    assert_eq!(refusal(&changed), (400, format!("{denied} without explanation")));
    assert_eq!(
        server
            .patch(kind, "ns", "a", MERGE, br#"{"data": {"b": "c"}}"#)
            .code,
        200
    );
    let deleted = server.delete(kind, "ns", "a", &DeleteOptionsSpec::default());
    assert_eq!(refusal(&deleted), (409, format!("{denied}: kept")));
    assert!(server.object(kind, "ns", "a").is_some());
}

#[test]
fn a_mutating_webhook_changes_what_is_validated_and_stored() {
    let mut server = server();
    configure(
        &mut server,
        "mutatingwebhookconfigurations",
        "change.x.dev",
        "Fail",
    );
    configure(
        &mut server,
        "validatingwebhookconfigurations",
        "check.x.dev",
        "Fail",
    );
    server.set_admission_hook(
        "change.x.dev",
        AdmissionHook::new(|request| {
            let name = request["name"].as_str().unwrap_or_default();
            let path = if name == "odd" { "/data/missing/b" } else { "/data" };
            Admission::Patch(json!([{"op": "add", "path": path, "value": {"changed": "yes"}}]))
        }),
    );
    server.set_admission_hook(
        "check.x.dev",
        AdmissionHook::new(|request| {
            assert_eq!(request["object"]["data"], json!({"changed": "yes"}), "{request}");
            Admission::Patch(json!([{"op": "remove", "path": "/data"}]))
        }),
    );
    assert_eq!(create(&mut server, "a", json!({})).code, 201);
    let kind = config_maps(&server);
    let data = |server: &ApiServer| server.object(kind, "ns", "a").unwrap().at(&["data"]).cloned();
    assert_eq!(data(&server), Some(json!({"changed": "yes"})));
    assert_eq!(
        server
            .patch(kind, "ns", "a", MERGE, br#"{"data": {"changed": "no"}}"#)
            .code,
        200
    );
    assert_eq!(data(&server), Some(json!({"changed": "yes"})));
    let (code, message) = refusal(&create(&mut server, "odd", json!({})));
    assert_eq!(code, 500);
    assert!(
        message.starts_with("Internal error occurred: failed calling webhook \"change.x.dev\": "),
        "{message}"
    );
    let skipped = json!({"metadata": {"name": "skipped", "labels": {"skip": "1"}}});
    assert_eq!(
        server
            .create_json(kind, "ns", skipped)
            .object()
            .unwrap()
            .at(&["data"]),
        None
    );
}

#[test]
fn without_a_function_the_failure_policy_decides() {
    for (policy, code) in [("Fail", 500), ("Ignore", 201)] {
        let mut server = server();
        configure(
            &mut server,
            "validatingwebhookconfigurations",
            "check.x.dev",
            policy,
        );
        let created = create(&mut server, "a", json!({}));
        assert_eq!(created.code, code, "{policy}");
        if code == 500 {
            assert_eq!(
                refusal(&created).1,
                "Internal error occurred: failed calling webhook \"check.x.dev\": failed to call webhook: no function of the \
                 caller plays it"
            );
        }
    }
}
