//! In which form responses come.

use http::Method;
use serde_json::{Value, json};

use crate::world::{PARTIAL, PARTIAL_LIST, world};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const KUBECTL: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

#[test]
fn objects_and_lists_take_the_form_that_is_asked_for() {
    let mut world = world();
    world.config_maps("shop", &["a", "b"]);
    let list = "/api/v1/namespaces/shop/configmaps";
    let one = "/api/v1/namespaces/shop/configmaps/a";
    let beta = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1";
    // URL, Accept, code, kind, apiVersion.
    for (url, accept, code, kind, api_version) in [
        (one, "application/json", 200, "ConfigMap", "v1"),
        (one, "*/*", 200, "ConfigMap", "v1"),
        (
            one,
            "application/vnd.kubernetes.protobuf,application/json",
            200,
            "ConfigMap",
            "v1",
        ),
        (one, "application/vnd.kubernetes.protobuf", 406, "Status", "v1"),
        (one, "text/html", 406, "Status", "v1"),
        (one, PARTIAL, 200, "PartialObjectMetadata", "meta.k8s.io/v1"),
        (one, PARTIAL_LIST, 406, "Status", "v1"),
        (one, KUBECTL, 200, "Table", "meta.k8s.io/v1"),
        (list, "application/json", 200, "ConfigMapList", "v1"),
        (
            list,
            PARTIAL_LIST,
            200,
            "PartialObjectMetadataList",
            "meta.k8s.io/v1",
        ),
        (
            list,
            beta,
            200,
            "PartialObjectMetadataList",
            "meta.k8s.io/v1beta1",
        ),
        (list, PARTIAL, 406, "Status", "v1"),
        (list, KUBECTL, 200, "Table", "meta.k8s.io/v1"),
        (
            "/api/v1",
            "application/vnd.kubernetes.protobuf",
            406,
            "Status",
            "v1",
        ),
        (
            "/apis/apps/v1",
            "application/vnd.kubernetes.protobuf,*/*",
            200,
            "APIResourceList",
            "v1",
        ),
    ] {
        let reply = world.get_as(url, accept);
        let body = reply.json();
        assert_eq!(reply.code, code, "{url} {accept}: {body}");
        assert_eq!(
            (&body["kind"], &body["apiVersion"]),
            (&json!(kind), &json!(api_version)),
            "{url} {accept}"
        );
        assert_eq!(reply.content_type, "application/json", "{url} {accept}");
    }
}

#[test]
fn metadata_comes_without_anything_else_and_lists_do_not_repeat_the_kind() {
    let mut world = world();
    world.config_maps("shop", &["a"]);
    let url = "/api/v1/namespaces/shop/configmaps";
    let whole = world.get(url).json();
    let item = &whole["items"][0];
    assert_eq!((&item["kind"], &item["data"]), (&Value::Null, &json!({"a": "1"})));
    let partial = world.get_as(url, PARTIAL_LIST).json();
    let shown = &partial["items"][0];
    assert_eq!(shown["metadata"], item["metadata"]);
    assert_eq!(shown["kind"], "PartialObjectMetadata");
    assert_eq!(shown.as_object().map(serde_json::Map::len), Some(3));
    assert_eq!(partial["metadata"], whole["metadata"]);
    // Writes take the form as well.
    let headers = [("accept", PARTIAL), ("content-type", crate::world::MERGE)];
    let patch = json!({"metadata": {"labels": {"x": "y"}}});
    let patched = world
        .send(Method::PATCH, &format!("{url}/a"), &headers, &patch)
        .json();
    assert_eq!(
        (&patched["kind"], &patched["data"]),
        (&json!("PartialObjectMetadata"), &Value::Null)
    );
    assert_eq!(patched["metadata"]["labels"]["x"], "y");
}

#[test]
fn tables_have_the_columns_of_kubectl() {
    let mut world = world();
    let pod = json!({
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n"},
    });
    world.create("/api/v1/namespaces/shop/pods", &pod);
    let status = json!({"status": {"phase": "Running", "containerStatuses": [
        {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}}}, {"name": "b", "ready": false, "restartCount": 1},
    ]}});
    world.patch("/api/v1/namespaces/shop/pods/web/status", &status);
    world.config_maps("shop", &["a"]);
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 3}});
    world.create("/apis/apps/v1/namespaces/shop/deployments", &deployment);
    world.advance_s(125);
    for (url, columns, cells) in [
        (
            "/api/v1/namespaces/shop/pods",
            json!([
                "Name",
                "Ready",
                "Status",
                "Restarts",
                "Age",
                "IP",
                "Node",
                "Nominated Node",
                "Readiness Gates"
            ]),
            json!([
                "web", "1/2", "Running", 3, "2m5s", "<none>", "n", "<none>", "<none>"
            ]),
        ),
        (
            "/api/v1/namespaces/shop/pods/web",
            json!([
                "Name",
                "Ready",
                "Status",
                "Restarts",
                "Age",
                "IP",
                "Node",
                "Nominated Node",
                "Readiness Gates"
            ]),
            json!([
                "web", "1/2", "Running", 3, "2m5s", "<none>", "n", "<none>", "<none>"
            ]),
        ),
        (
            "/api/v1/namespaces?fieldSelector=metadata.name%3Dshop",
            json!(["Name", "Status", "Age"]),
            json!(["shop", "Active", "2m5s"]),
        ),
        (
            "/api/v1/configmaps",
            json!(["Name", "Data", "Age"]),
            json!(["a", 1, "2m5s"]),
        ),
        (
            "/apis/apps/v1/deployments",
            json!([
                "Name",
                "Ready",
                "Up-to-date",
                "Available",
                "Age",
                "Containers",
                "Images",
                "Selector"
            ]),
            json!(["web", "0/3", 0, 0, "2m5s", "", "", ""]),
        ),
    ] {
        let table = world.get_as(url, TABLE).json();
        let names: Vec<Value> = table["columnDefinitions"]
            .as_array()
            .expect("columns")
            .iter()
            .map(|column| column["name"].clone())
            .collect();
        assert_eq!(
            (json!(names), &table["rows"][0]["cells"]),
            (columns, &cells),
            "{url}"
        );
        assert_eq!(
            table["rows"][0]["object"]["kind"], "PartialObjectMetadata",
            "{url}"
        );
    }
    let url = "/api/v1/configmaps?includeObject=";
    let without_objects = world.get_as(&format!("{url}None"), TABLE).json();
    assert_eq!(without_objects["rows"][0].get("object"), Some(&Value::Null));
    let whole = world.get_as(&format!("{url}Object"), TABLE).json();
    assert_eq!(whole["rows"][0]["object"]["data"], json!({"a": "1"}));
}

#[test]
fn objects_show_the_version_that_is_asked_for() {
    let mut world = crate::world::at_version("1.20");
    let ingress = json!({"metadata": {"name": "web"}, "spec": {}});
    world.create("/apis/networking.k8s.io/v1/namespaces/shop/ingresses", &ingress);
    for version in [
        "networking.k8s.io/v1",
        "networking.k8s.io/v1beta1",
        "extensions/v1beta1",
    ] {
        let url = format!("/apis/{version}/namespaces/shop/ingresses");
        assert_eq!(world.get(&format!("{url}/web")).json()["apiVersion"], version);
        let mut watch = world.watch(&format!("{url}?watch=1"));
        let (lines, _) = world.lines(&mut watch);
        assert_eq!(lines[0]["object"]["apiVersion"], version);
    }
}
