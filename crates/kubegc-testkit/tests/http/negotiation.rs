//! The form of responses: objects, metadata, tables.

use serde_json::{Value, json};

use crate::world::world;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

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
