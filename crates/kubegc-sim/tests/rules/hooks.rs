//! Admission webhooks of stored configurations; functions respond to them.

use std::sync::{Arc, Mutex};

use kubegc_core::{KindId, deletion::DeleteOptionsSpec};
use kubegc_sim::{Admission, AdmissionHook, ApiServer, Response};
use serde_json::{Value, json};

use crate::world::{MERGE, typed};

const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

fn server() -> ApiServer {
    let mut server = typed("1.31");
    server.call_webhooks();
    server
}

fn config_maps(server: &ApiServer) -> KindId {
    server.resolve("", "v1", "configmaps").unwrap()
}

/// Stores a configuration of webhooks for all requests, with these fields in addition to the required ones.
fn try_configure(server: &mut ApiServer, resource: &str, webhooks: &[(&str, Value)]) -> Response {
    let kind = server
        .resolve("admissionregistration.k8s.io", "v1", resource)
        .unwrap();
    let webhooks = webhooks.iter().map(|(name, more)| {
        let mut webhook = json!({
            "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "hook", "namespace": "ns"}},
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}],
        });
        let fields = more.as_object().unwrap().clone();
        webhook.as_object_mut().unwrap().extend(fields);
        webhook
    });
    let webhooks: Vec<Value> = webhooks.collect();
    server.create_json(
        kind,
        "",
        json!({"metadata": {"name": "all"}, "webhooks": webhooks}),
    )
}

fn configure(server: &mut ApiServer, resource: &str, webhooks: &[(&str, Value)]) {
    let created = try_configure(server, resource, webhooks);
    assert_eq!(created.code, 201, "{:?}", created.body);
}

/// Sets the function that responds for a webhook.
fn hook(server: &mut ApiServer, webhook: &str, review: impl Fn(&Value) -> Admission + Send + Sync + 'static) {
    server.set_admission_hook(webhook, AdmissionHook::new(review));
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
    configure(&mut server, VALIDATING, &[("check.x.dev", json!({}))]);
    hook(&mut server, "check.x.dev", |request| {
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
    });
    let denied = "admission webhook \"check.x.dev\" denied the request";
    let bad = create(&mut server, "a", json!({"data": {"a": "bad"}}));
    assert_eq!(refusal(&bad), (403, format!("{denied}: bad data")));
    assert_eq!(create(&mut server, "a", json!({"data": {"a": "kept"}})).code, 201);
    let kind = config_maps(&server);
    let changed = server.patch(kind, "ns", "a", MERGE, br#"{"data": {"a": "other"}}"#);
    assert_eq!(refusal(&changed), (400, format!("{denied} without explanation")));
    let changed = server.patch(kind, "ns", "a", MERGE, br#"{"data": {"b": "c"}}"#);
    assert_eq!(changed.code, 200);
    let deleted = server.delete(kind, "ns", "a", &DeleteOptionsSpec::default());
    assert_eq!(refusal(&deleted), (409, format!("{denied}: kept")));
    assert!(server.object(kind, "ns", "a").is_some());
}

#[test]
fn a_mutating_webhook_changes_the_object_before_validation() {
    let mut server = server();
    let labelled = json!({"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]});
    let selected = json!({"objectSelector": labelled});
    configure(&mut server, MUTATING, &[("change.x.dev", selected.clone())]);
    configure(&mut server, VALIDATING, &[("check.x.dev", selected)]);
    hook(&mut server, "change.x.dev", |request| {
        let name = request["name"].as_str().unwrap_or_default();
        let path = if name == "odd" { "/data/missing/b" } else { "/data" };
        Admission::Patch(json!([{"op": "add", "path": path, "value": {"changed": "yes"}}]))
    });
    hook(&mut server, "check.x.dev", |request| {
        assert_eq!(request["object"]["data"], json!({"changed": "yes"}), "{request}");
        Admission::Patch(json!([{"op": "remove", "path": "/data"}]))
    });
    assert_eq!(create(&mut server, "a", json!({})).code, 201);
    let kind = config_maps(&server);
    let data = |server: &ApiServer| server.object(kind, "ns", "a").unwrap().at(&["data"]).cloned();
    assert_eq!(data(&server), Some(json!({"changed": "yes"})));
    let changed = server.patch(kind, "ns", "a", MERGE, br#"{"data": {"changed": "no"}}"#);
    assert_eq!(changed.code, 200);
    assert_eq!(data(&server), Some(json!({"changed": "yes"})));
    let (code, message) = refusal(&create(&mut server, "odd", json!({})));
    assert_eq!(code, 500);
    assert!(
        message.starts_with("Internal error occurred: failed calling webhook \"change.x.dev\": "),
        "{message}"
    );
    let skipped = json!({"metadata": {"name": "skipped", "labels": {"skip": "1"}}});
    let skipped = server.create_json(kind, "ns", skipped);
    assert_eq!(skipped.object().unwrap().at(&["data"]), None);
}

#[test]
fn without_a_hook_the_failure_policy_decides() {
    for (policy, code) in [("Fail", 500), ("Ignore", 201)] {
        let mut server = server();
        let fields = json!({"failurePolicy": policy});
        configure(&mut server, VALIDATING, &[("check.x.dev", fields)]);
        let created = create(&mut server, "a", json!({}));
        assert_eq!(created.code, code, "{policy}");
        if code == 500 {
            assert_eq!(
                refusal(&created).1,
                "Internal error occurred: failed calling webhook \"check.x.dev\": failed to call webhook: no hook is \
                 set for it (ApiServer::set_admission_hook)"
            );
        }
    }
}

type Seen = Arc<Mutex<Vec<Value>>>;

/// A hook that allows everything and records the requests.
fn recording(server: &mut ApiServer, webhook: &str) -> Seen {
    let seen = Seen::default();
    let record = Arc::clone(&seen);
    hook(server, webhook, move |request| {
        record.lock().unwrap().push(request.clone());
        Admission::Allow
    });
    seen
}

#[test]
fn a_request_has_all_fields_of_an_admission_review() {
    let mut server = server();
    configure(&mut server, VALIDATING, &[("see.x.dev", json!({}))]);
    let seen = recording(&mut server, "see.x.dev");
    server.set_user("alice");
    server.set_field_manager("tool");
    assert_eq!(create(&mut server, "a", json!({})).code, 201);
    let kind = config_maps(&server);
    server.dry_run(|server| server.delete(kind, "ns", "a", &DeleteOptionsSpec::default()));
    let seen = seen.lock().unwrap();
    let [create, delete] = seen.as_slice() else {
        panic!("{seen:?}")
    };
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let mut expected = json!({
        "uid": create["uid"], "kind": kind, "resource": resource,
        "requestKind": kind, "requestResource": resource,
        "name": "a", "namespace": "ns", "operation": "CREATE",
        "userInfo": {"username": "alice", "groups": ["system:masters", "system:authenticated"]},
        "object": create["object"], "oldObject": null, "dryRun": false,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "fieldManager": "tool"},
    });
    assert_eq!(*create, expected);
    assert_eq!(create["object"]["metadata"]["name"], "a");
    expected["uid"] = delete["uid"].clone();
    expected["operation"] = "DELETE".into();
    expected["object"] = Value::Null;
    expected["oldObject"] = delete["oldObject"].clone();
    expected["dryRun"] = true.into();
    expected["options"] = json!({"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"});
    assert_eq!(*delete, expected);
    assert_eq!(delete["oldObject"]["metadata"]["name"], "a");
}

#[test]
fn a_mutating_webhook_with_reinvocation_is_called_again_if_another_one_changed_the_object() {
    for (policy, expected) in [("IfNeeded", 2), ("Never", 1)] {
        let mut server = server();
        let webhooks = [
            ("first.x.dev", json!({"reinvocationPolicy": policy})),
            ("second.x.dev", json!({"reinvocationPolicy": "IfNeeded"})),
            // Selected by the label that the second one adds.
            (
                "third.x.dev",
                json!({"objectSelector": {"matchLabels": {"second": "yes"}}}),
            ),
        ];
        configure(&mut server, MUTATING, &webhooks);
        let first = recording(&mut server, "first.x.dev");
        let second = Seen::default();
        let record = Arc::clone(&second);
        hook(&mut server, "second.x.dev", move |request| {
            record.lock().unwrap().push(request.clone());
            Admission::Patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"second": "yes"}}]))
        });
        let third = recording(&mut server, "third.x.dev");
        assert_eq!(create(&mut server, "a", json!({})).code, 201);
        let first = first.lock().unwrap();
        assert_eq!(first.len(), expected, "{policy}");
        let labels = |request: &Value| request["object"]["metadata"]["labels"]["second"].clone();
        assert_eq!(labels(&first[0]), Value::Null);
        if let Some(again) = first.get(1) {
            assert_eq!(labels(again), "yes");
        }
        // Nothing changed after it.
        assert_eq!(second.lock().unwrap().len(), 1);
        assert_eq!(third.lock().unwrap().len(), 1);
    }
}

#[test]
fn a_webhook_that_changes_an_immutable_field_fails() {
    let mut server = server();
    configure(&mut server, MUTATING, &[("change.x.dev", json!({}))]);
    assert_eq!(recording(&mut server, "change.x.dev").lock().unwrap().len(), 0);
    assert_eq!(create(&mut server, "a", json!({})).code, 201);
    hook(&mut server, "change.x.dev", |_| {
        Admission::Patch(json!([{"op": "add", "path": "/data", "value": {}}]))
    });
    let kind = config_maps(&server);
    let deleted = server.delete(kind, "ns", "a", &DeleteOptionsSpec::default());
    assert_eq!(
        refusal(&deleted),
        (
            500,
            "Internal error occurred: admission webhook \"change.x.dev\" attempted to modify the object, which is not \
             supported for this operation"
                .to_owned()
        )
    );
}

#[test]
fn webhooks_review_subresources_in_the_kind_of_their_bodies() {
    let mut server = server();
    configure(&mut server, VALIDATING, &[("see.x.dev", json!({}))]);
    let seen = recording(&mut server, "see.x.dev");
    let kind = |server: &ApiServer, group: &str, plural: &str| server.resolve(group, "v1", plural).unwrap();
    let (pods, deployments) = (kind(&server, "", "pods"), kind(&server, "apps", "deployments"));
    let spec = json!({"containers": [{"name": "c", "image": "c:1"}]});
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    assert_eq!(server.create_json(pods, "ns", pod).code, 201);
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": spec},
    }});
    assert_eq!(server.create_json(deployments, "ns", deployment).code, 201);
    seen.lock().unwrap().clear();
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let binding = server.create_subresource(pods, "ns", "p", "binding", binding);
    assert_eq!(binding.code, 201);
    let eviction = json!({"metadata": {"name": "p", "namespace": "ns"}});
    let eviction = server.create_subresource(pods, "ns", "p", "eviction", eviction);
    assert_eq!(eviction.code, 201);
    let scale = json!({"metadata": {"name": "d"}, "spec": {"replicas": 3}});
    let scaled = server.update_subresource(deployments, "ns", "d", "scale", scale);
    assert_eq!(scaled.code, 200);
    let status = br#"{"status": {"replicas": 3}}"#;
    let patched = server.patch_subresource(deployments, "ns", "d", "status", MERGE, status);
    assert_eq!(patched.code, 200);
    let seen = seen.lock().unwrap();
    let shown = seen.iter().map(|request| {
        let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
        let fields = "/operation /resource/resource /subResource /kind/kind /object/kind /oldObject/kind";
        let texts: Vec<&str> = fields.split(' ').map(text).collect();
        texts.join(" ")
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "CREATE pods binding Binding Binding -",
            "CREATE pods eviction Eviction Eviction -",
            "UPDATE deployments scale Scale Scale Scale",
            "UPDATE deployments status Deployment Deployment Deployment",
        ]
    );
    let scaled = &seen[2];
    assert_eq!(
        (
            &scaled["oldObject"]["spec"]["replicas"],
            &scaled["object"]["spec"]["replicas"]
        ),
        (&json!(1), &json!(3))
    );
}

#[test]
#[cfg(feature = "cel")]
fn match_conditions_select_requests() {
    let condition = |expression: &str| json!([{"name": "c.x.dev/a", "expression": expression}]);
    let is_called = |conditions: Value, policy: &str| {
        let mut server = server();
        let fields = json!({"matchConditions": conditions, "failurePolicy": policy});
        configure(&mut server, VALIDATING, &[("see.x.dev", fields)]);
        let seen = recording(&mut server, "see.x.dev");
        server.set_user("system:node:n");
        let created = create(&mut server, "a", json!({"data": {"size": "big"}}));
        let calls = seen.lock().unwrap().len();
        if created.code == 201 {
            Ok(calls == 1)
        } else {
            Err(refusal(&created))
        }
    };
    for (expression, expected) in [
        ("object.data.size == 'big'", true),
        ("object.data.size == 'small'", false),
        ("request.operation == 'CREATE' && oldObject == null", true),
        ("!request.userInfo.username.startsWith('system:node:')", false),
        ("'system:masters' in request.userInfo.groups", true),
        ("request.resource.group == '' && request.dryRun == false", true),
        ("!has(object.metadata.labels)", true),
    ] {
        assert_eq!(
            is_called(condition(expression), "Fail"),
            Ok(expected),
            "{expression}"
        );
    }
    // A false condition takes precedence over a failing one.
    let mixed = json!([
        {"name": "a", "expression": "object.data.missing == 'x'"},
        {"name": "b", "expression": "false"},
    ]);
    assert_eq!(is_called(mixed, "Fail"), Ok(false));
    let failing = "object.data.missing == 'x'";
    assert_eq!(is_called(condition(failing), "Ignore"), Ok(false));
    let why = |problem: &str| (403, format!("configmaps \"a\" is forbidden: {problem}"));
    assert_eq!(
        is_called(condition(failing), "Fail"),
        Err(why(
            "expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
        ))
    );
    let authorizer = "authorizer.group('').resource('pods').check('get').allowed()";
    assert_eq!(is_called(condition(authorizer), "Ignore"), Ok(false));
}

#[test]
#[cfg(feature = "cel")]
fn match_conditions_that_do_not_compile_are_refused() {
    let problem = |conditions: Value| {
        let mut server = server();
        let fields = json!({"matchConditions": conditions});
        refusal(&try_configure(&mut server, MUTATING, &[("see.x.dev", fields)])).1
    };
    let message = problem(json!([{"name": "a", "expression": "request.user == 'x'"}]));
    assert!(
        message.contains("webhooks[0].matchConditions[0].expression: Invalid value: \"request.user == 'x'\": compilation failed: ")
            && message.contains("undefined field 'user'"),
        "{message}"
    );
    let message = problem(json!([{"name": "a", "expression": "'text'"}]));
    assert!(message.ends_with("must evaluate to bool"), "{message}");
    let message = problem(json!([{"name": "a", "expression": "true"}, {"name": "a", "expression": " "}]));
    assert!(
        message.contains("matchConditions[1].name: Duplicate value: \"a\""),
        "{message}"
    );
    assert!(
        message.contains("matchConditions[1].expression: Required value"),
        "{message}"
    );
}

#[test]
fn namespaces_and_equivalent_versions_select_webhooks() {
    let mut server = server();
    let namespaces = server.resolve("", "v1", "namespaces").unwrap();
    for (name, label) in [("blue", "blue"), ("ns", "red")] {
        let namespace = json!({"metadata": {"name": name, "labels": {"color": label}}});
        assert_eq!(server.create_json(namespaces, "", namespace).code, 201);
    }
    let rules = |resource: &str, version: &str| json!([{"apiGroups": ["autoscaling", ""], "apiVersions": [version], "resources": [resource], "operations": ["*"]}]);
    let webhooks = [
        (
            "blue.x.dev",
            json!({
                "rules": rules("configmaps", "v1"),
                "namespaceSelector": {"matchLabels": {"color": "blue"}},
            }),
        ),
        (
            "exact.x.dev",
            json!({"rules": rules("horizontalpodautoscalers", "v1"), "matchPolicy": "Exact"}),
        ),
        (
            "equivalent.x.dev",
            json!({"rules": rules("horizontalpodautoscalers", "v1"), "matchPolicy": "Equivalent"}),
        ),
    ];
    configure(&mut server, VALIDATING, &webhooks);
    let [blue, exact, equivalent] = webhooks.map(|(name, _)| recording(&mut server, name));
    let kind = config_maps(&server);
    for namespace in ["blue", "ns"] {
        let created = server.create_json(kind, namespace, json!({"metadata": {"name": "a"}}));
        assert_eq!(created.code, 201);
    }
    let blue = blue.lock().unwrap();
    assert_eq!(
        blue.iter()
            .map(|request| &request["namespace"])
            .collect::<Vec<_>>(),
        ["blue"]
    );
    let scaler = server
        .resolve("autoscaling", "v2", "horizontalpodautoscalers")
        .unwrap();
    let object = json!({"metadata": {"name": "a"}, "spec": {
        "maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
    }});
    assert_eq!(server.create_json(scaler, "ns", object).code, 201);
    assert_eq!(
        (exact.lock().unwrap().len(), equivalent.lock().unwrap().len()),
        (0, 1)
    );
}
