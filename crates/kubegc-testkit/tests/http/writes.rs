//! Creating, replacing, patching: the stored object, the response, and dry runs.

use http::Method;
use kubegc_sim::StoredObject;
use serde_json::{Value, json};

use crate::world::{MERGE, World, text, widgets, world};

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";
const APPLY: &str = "application/apply-patch+yaml";

#[test]
fn a_life_of_one_object() {
    let mut world = world();
    let created = world.post(
        MAPS,
        &json!({"metadata": {"generateName": "web-"}, "data": {"a": "1"}}),
    );
    assert_eq!(created.code, 201);
    let name = text(&created.json()["metadata"]["name"]);
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    let url = format!("{MAPS}/{name}");
    let mut object = world.get(&url).json();
    assert_eq!(object, created.json());

    object["data"] = json!({"a": "2"});
    let replaced = world.send(Method::PUT, &url, &[], &object);
    assert_eq!(
        (replaced.code, &replaced.json()["data"]),
        (200, &json!({"a": "2"}))
    );
    let stale = world.send(Method::PUT, &url, &[], &object);
    assert_eq!(
        (stale.code, stale.json()["reason"].as_str()),
        (409, Some("Conflict"))
    );
    let again = world.post(MAPS, &json!({"metadata": {"name": name}}));
    assert_eq!(
        (again.code, again.json()["reason"].as_str()),
        (409, Some("AlreadyExists"))
    );

    for (content_type, patch, expected) in [
        (MERGE, json!({"data": {"b": "3"}}), json!({"a": "2", "b": "3"})),
        (
            "application/strategic-merge-patch+json",
            json!({"data": {"a": null}}),
            json!({"b": "3"}),
        ),
        (
            "application/json-patch+json",
            json!([{"op": "replace", "path": "/data/b", "value": "4"}]),
            json!({"b": "4"}),
        ),
    ] {
        let reply = world.send(Method::PATCH, &url, &[("content-type", content_type)], &patch);
        assert_eq!(
            (reply.code, &reply.json()["data"]),
            (200, &expected),
            "{content_type}"
        );
    }
    let odd = world.send(
        Method::PATCH,
        &url,
        &[("content-type", "application/json")],
        &json!({}),
    );
    assert_eq!(odd.code, 415);
    assert_eq!(world.delete(&url).code, 200);
    assert_eq!(world.get(&url).code, 404);
}

#[test]
fn server_side_apply_creates_and_then_changes() {
    let mut world = world();
    let url = format!("{MAPS}/a?fieldManager=test");
    let yaml = |value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: '{value}'}}\n")
    };
    for (value, code) in [("1", 201), ("2", 200)] {
        let request = crate::world::request(Method::PATCH, &url, &[("content-type", APPLY)], yaml(value));
        let reply = world.perform(&request);
        assert_eq!((reply.code, &reply.json()["data"]["a"]), (code, &json!(value)));
    }
    let without_field_manager = crate::world::request(
        Method::PATCH,
        &format!("{MAPS}/a"),
        &[("content-type", APPLY)],
        yaml("3"),
    );
    let reply = world.perform(&without_field_manager);
    assert_eq!(reply.code, 422);
    assert!(
        reply
            .message()
            .contains("fieldManager: Required value: is required for apply patch")
    );
    let forced = world.send(
        Method::PATCH,
        &format!("{MAPS}/a?force=true"),
        &[("content-type", MERGE)],
        &json!({}),
    );
    assert_eq!(forced.code, 422);
    let broken = crate::world::request(Method::PATCH, &url, &[("content-type", APPLY)], "a: [");
    assert_eq!(world.perform(&broken).code, 400);
}

#[test]
fn subresources_write_their_part() {
    let mut world = world();
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1}});
    world.create("/apis/apps/v1/namespaces/shop/deployments", &deployment);
    let url = "/apis/apps/v1/namespaces/shop/deployments/web";
    let status = json!({"spec": {"replicas": 5}, "status": {"readyReplicas": 1}});
    let written = world.patch(&format!("{url}/status"), &status).json();
    assert_eq!(
        (&written["spec"]["replicas"], &written["status"]["readyReplicas"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(world.get(&format!("{url}/status")).json(), written);

    let mut scale = world.get(&format!("{url}/scale")).json();
    assert_eq!(
        (&scale["kind"], &scale["apiVersion"]),
        (&json!("Scale"), &json!("autoscaling/v1"))
    );
    scale["spec"]["replicas"] = json!(4);
    let before = text(&scale["metadata"]["resourceVersion"]);
    let dry = world
        .send(Method::PUT, &format!("{url}/scale?dryRun=All"), &[], &scale)
        .json();
    assert_eq!(
        (
            &dry["spec"]["replicas"],
            text(&dry["metadata"]["resourceVersion"])
        ),
        (&json!(4), before)
    );
    assert_eq!(world.get(url).json()["spec"]["replicas"], 1);
    assert_eq!(
        world.send(Method::PUT, &format!("{url}/scale"), &[], &scale).code,
        200
    );
    assert_eq!(world.get(url).json()["spec"]["replicas"], 4);

    let pods = "/api/v1/namespaces/shop/pods";
    world.create(
        pods,
        &json!({"metadata": {"name": "a"}, "spec": {"containers": []}}),
    );
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    assert_eq!(world.post("/api/v1/namespaces/shop/bindings", &binding).code, 201);
    assert_eq!(world.get(&format!("{pods}/a")).json()["spec"]["nodeName"], "n1");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": "shop"}});
    assert_eq!(world.post(&format!("{pods}/a/eviction"), &eviction).code, 201);
    assert_ne!(
        world.get(&format!("{pods}/a")).json()["metadata"]["deletionTimestamp"],
        Value::Null
    );
}

#[test]
fn a_dry_run_answers_and_changes_nothing() {
    let mut world = world();
    world.config_maps("shop", &["a", "held"]);
    world.patch(
        &format!("{MAPS}/held"),
        &json!({"metadata": {"finalizers": ["x.dev/hold"]}}),
    );
    world.delete(&format!("{MAPS}/held"));
    let a = world.get(&format!("{MAPS}/a")).json();
    let delete_body = json!({"dryRun": ["All"]});
    // Method, URL, content type, body, code, whether the response is an object.
    let cases = [
        (
            Method::POST,
            format!("{MAPS}?dryRun=All"),
            "application/json",
            json!({"metadata": {"name": "new"}}),
            201,
        ),
        (
            Method::POST,
            format!("{MAPS}?dryRun=All"),
            "application/json",
            json!({"metadata": {"name": "a"}}),
            409,
        ),
        (
            Method::PUT,
            format!("{MAPS}/a?dryRun=All"),
            "application/json",
            json!({"metadata": {"name": "a"}}),
            200,
        ),
        (
            Method::PATCH,
            format!("{MAPS}/a?dryRun=All"),
            MERGE,
            json!({"data": {"z": "1"}}),
            200,
        ),
        (
            Method::PATCH,
            format!("{MAPS}/held?dryRun=All"),
            MERGE,
            json!({"metadata": {"finalizers": null}}),
            200,
        ),
        (
            Method::DELETE,
            format!("{MAPS}/a?dryRun=All"),
            "application/json",
            Value::Null,
            200,
        ),
        (
            Method::DELETE,
            format!("{MAPS}/a"),
            "application/json",
            delete_body.clone(),
            200,
        ),
        (
            Method::DELETE,
            format!("{MAPS}?dryRun=All"),
            "application/json",
            Value::Null,
            200,
        ),
        (
            Method::DELETE,
            MAPS.to_owned(),
            "application/json",
            delete_body,
            200,
        ),
        (
            Method::POST,
            format!("{MAPS}?dryRun=Some"),
            "application/json",
            json!({"metadata": {"name": "new"}}),
            422,
        ),
        (
            Method::DELETE,
            format!("{MAPS}/a?dryRun=Some"),
            "application/json",
            Value::Null,
            422,
        ),
    ];
    for (method, url, content_type, body, code) in cases {
        let before = (world.server.revision(), everything(&world));
        let reply = world.send(method.clone(), &url, &[("content-type", content_type)], &body);
        assert_eq!(reply.code, code, "{method} {url}: {}", reply.text);
        assert!(
            (world.server.revision(), everything(&world)) == before,
            "{method} {url}"
        );
        if matches!(method, Method::PUT | Method::PATCH) && url.contains("/a?") {
            assert_eq!(
                reply.json()["metadata"]["resourceVersion"],
                a["metadata"]["resourceVersion"],
                "{url}"
            );
        }
    }
    let created = world
        .post(
            &format!("{MAPS}?dryRun=All"),
            &json!({"metadata": {"name": "new"}}),
        )
        .json();
    assert_eq!(created["metadata"].get("resourceVersion"), None);
    assert_ne!(text(&created["metadata"]["uid"]), "");
    assert_eq!(
        world.post(&format!("{MAPS}?dryRun=Some"), &json!({})).message(),
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: []string{\"Some\"}: supported values: \"All\""
    );
}

fn everything(world: &World) -> Vec<std::sync::Arc<StoredObject>> {
    let kinds = world.server.catalog().iter();
    kinds
        .flat_map(|(kind, _)| world.server.objects(kind, None))
        .collect()
}

#[test]
fn parameters_of_writes_are_checked() {
    let mut world = world();
    for (query, wanted) in [
        (
            format!("fieldManager={}", "x".repeat(129)),
            "fieldManager: Too long: must have at most 128 bytes",
        ),
        (
            "fieldManager=a%00b".to_owned(),
            "invalid character U+0000 (at position 1)",
        ),
        (
            "fieldValidation=Sometimes".to_owned(),
            "fieldValidation: Unsupported value: \"Sometimes\"",
        ),
    ] {
        let reply = world.post(&format!("{MAPS}?{query}"), &json!({"metadata": {"name": "a"}}));
        assert_eq!(reply.code, 422, "{query}");
        assert!(reply.message().contains(wanted), "{query}: {}", reply.text);
    }
    let reply = world.post(
        &format!("{MAPS}?fieldManager=me&fieldValidation=Strict"),
        &json!({"metadata": {"name": "a"}}),
    );
    assert_eq!(reply.code, 201);
}

#[test]
fn warnings_become_headers() {
    let mut world = world();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"});
    let reply = world.post(
        MAPS,
        &json!({"metadata": {"name": "a", "ownerReferences": [owner, owner]}}),
    );
    assert_eq!((reply.code, reply.warnings.len()), (201, 1));
    assert!(reply.warnings[0].starts_with("299 - \".metadata.ownerReferences contains duplicate entries"));
    assert!(reply.warnings[0].ends_with('"'));
}

#[test]
fn custom_resources_are_written_like_others() {
    let mut world = world();
    world.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &widgets(),
    );
    let url = "/apis/example.com/v1/namespaces/shop/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"replicas": 2}, "status": {"replicas": 9}});
    world.create(url, &widget);
    let list = world.get(url).json();
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("WidgetList"), &json!("Widget"))
    );
    assert_eq!(
        world
            .patch(&format!("{url}/a/status"), &json!({"status": {"replicas": 2}}))
            .code,
        200
    );
    let scale = world.get(&format!("{url}/a/scale")).json();
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["replicas"]),
        (&json!(2), &json!(2))
    );
    let alpha = "/apis/example.com/v1alpha1/namespaces/shop/widgets";
    assert_eq!(
        world.get(&format!("{alpha}/a")).json()["apiVersion"],
        "example.com/v1alpha1"
    );
    assert_eq!(world.get(&format!("{alpha}/a/scale")).code, 404);
    let wrong = world.post(
        url,
        &json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "b"}}),
    );
    assert_eq!(wrong.code, 400);
}

#[test]
fn the_field_manager_of_a_request_is_that_of_this_request_alone() {
    let mut world = world();
    world.server.set_field_manager("before");
    let a = json!({"metadata": {"name": "a"}});
    for (query, code) in [
        ("fieldManager=me", 201),
        ("fieldManager=me&dryRun=All", 409),
        ("fieldManager=me&fieldValidation=Odd", 422),
        ("", 409),
    ] {
        assert_eq!(world.post(&format!("{MAPS}?{query}"), &a).code, code, "{query}");
        assert_eq!(world.server.field_manager(), "before", "{query}");
    }
}

#[test]
fn unknown_fields_are_refused_warned_of_or_ignored() {
    let mut world = world();
    let settings = kubegc_sim::Settings {
        types: true,
        ..world.server.settings().clone()
    };
    world.server = world.server.clone().with_settings(settings);
    let object = json!({"metadata": {"name": "a"}, "dta": {"a": "b"}});
    let reply = world.post(&format!("{MAPS}?fieldValidation=Strict"), &object);
    assert_eq!(
        (reply.code, reply.message()),
        (
            400,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dta\""
                .to_owned()
        )
    );
    let warning = "299 - \"unknown field \\\"dta\\\"\"".to_owned();
    for (query, warnings) in [
        ("dryRun=All&fieldValidation=Ignore", vec![]),
        ("dryRun=All&fieldValidation=Warn", vec![warning.clone()]),
        ("", vec![warning]),
    ] {
        let reply = world.post(&format!("{MAPS}?{query}"), &object);
        assert_eq!((reply.code, reply.warnings), (201, warnings), "{query}");
    }
    let patch = json!({"dta": {"a": "c"}});
    let headers = [("content-type", MERGE)];
    let reply = world.send(
        Method::PATCH,
        &format!("{MAPS}/a?fieldValidation=Strict"),
        &headers,
        &patch,
    );
    assert_eq!(
        (reply.code, reply.message()),
        (
            422,
            " \"\" is invalid: patch: Invalid value: \"{\\\"dta\\\":{\\\"a\\\":\\\"c\\\"}}\": strict decoding error: unknown \
             field \"dta\""
                .to_owned()
        )
    );
}
