//! The form of responses: objects, metadata, tables.

use serde_json::{Value, json};

use crate::world::{PARTIAL, PARTIAL_LIST, at_version, world};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

#[test]
fn objects_and_lists_take_the_form_that_is_asked_for() {
    let mut world = world();
    world.config_maps("shop", &["a", "b"]);
    let (list, one) = ("/api/v1/configmaps", "/api/v1/namespaces/shop/configmaps/a");
    let beta = PARTIAL_LIST.replace("v=v1", "v=v1beta1");
    let kubectl = format!("{TABLE},{},application/json", TABLE.replace("v=v1", "v=v1beta1"));
    let list_meta = "meta.k8s.io/v1 PartialObjectMetadataList";
    for (url, accept, code, kind) in [
        (one, "*/*", 200, "v1 ConfigMap"),
        (one, "text/html", 406, "v1 Status"),
        (one, PARTIAL_LIST, 406, "v1 Status"),
        (one, &kubectl, 200, "meta.k8s.io/v1 Table"),
        (list, PARTIAL_LIST, 200, list_meta),
        (list, &beta, 200, &*list_meta.replace("v1", "v1beta1")),
        (list, PARTIAL, 406, "v1 Status"),
        ("/api/v1", "text/html", 406, "v1 Status"),
        ("/apis/apps/v1", "*/*", 200, "v1 APIResourceList"),
    ] {
        let reply = world.get_as(url, accept);
        let body = reply.json();
        let found = ["apiVersion", "kind"].map(|key| body[key].as_str().unwrap_or_default());
        assert_eq!(
            (reply.code, &*found.join(" ")),
            (code, kind),
            "{url} {accept}: {body}"
        );
        assert_eq!(reply.content_type, "application/json", "{url} {accept}");
    }
}

#[test]
fn tables_have_the_cells_of_kubectl() {
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
    world.advance_s(125);
    for (url, columns, cells) in [
        (
            "/api/v1/namespaces/shop/pods",
            "Name,Ready,Status,Restarts,Age,IP,Node,Nominated Node,Readiness Gates",
            r#"["web","1/2","Running","3","2m5s","<none>","n","<none>","<none>"]"#,
        ),
        (
            "/api/v1/namespaces?fieldSelector=metadata.name%3Dshop",
            "Name,Status,Age",
            r#"["shop","Active","2m5s"]"#,
        ),
        ("/api/v1/configmaps", "Name,Data,Age", r#"["a",1,"2m5s"]"#),
    ] {
        let table = world.get_as(url, TABLE).json();
        let definitions = table["columnDefinitions"].as_array().expect("columns");
        let names: Vec<&str> = definitions
            .iter()
            .map(|column| column["name"].as_str().expect("a name"))
            .collect();
        let row = &table["rows"][0];
        assert_eq!(
            (&*names.join(","), &*row["cells"].to_string()),
            (columns, cells),
            "{url}"
        );
        assert_eq!(row["object"]["kind"], "PartialObjectMetadata", "{url}");
    }
    let without_objects = world
        .get_as("/api/v1/configmaps?includeObject=None", TABLE)
        .json();
    assert_eq!(without_objects["rows"][0].get("object"), Some(&Value::Null));
}

#[test]
fn events_of_a_watch_have_the_version_that_is_asked_for() {
    let mut world = at_version("1.20");
    let ingress = json!({"metadata": {"name": "web"}, "spec": {}});
    world.create("/apis/networking.k8s.io/v1/namespaces/shop/ingresses", &ingress);
    for version in ["networking.k8s.io/v1", "extensions/v1beta1"] {
        let mut watch = world.watch(&format!("/apis/{version}/ingresses?watch=1"));
        let (lines, _) = world.lines(&mut watch);
        assert_eq!(lines[0]["object"]["apiVersion"], version);
    }
}
