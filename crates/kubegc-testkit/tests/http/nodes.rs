//! Responses of the server to requests that nodes would serve.

use serde_json::{Value, json};

use crate::world::{World, world};

const PODS: &str = "/api/v1/namespaces/shop/pods";

fn pod(world: &mut World, name: &str, node: &str, containers: &[&str]) {
    let named = |names: &[&str]| {
        names
            .iter()
            .map(|name| json!({"name": name}))
            .collect::<Vec<Value>>()
    };
    let mut spec = json!({"containers": named(containers), "initContainers": named(&["setup"])});
    if !node.is_empty() {
        spec["nodeName"] = node.into();
    }
    world.create(PODS, &json!({"metadata": {"name": name}, "spec": spec}));
}

#[test]
fn requests_that_no_node_answers_are_refused_as_a_real_server_does() {
    let mut world = world();
    world.create(
        "/api/v1/nodes",
        &json!({"metadata": {"name": "node-1"}, "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}),
    );
    pod(&mut world, "one", "node-1", &["app"]);
    pod(&mut world, "two", "node-1", &["app", "side"]);
    pod(&mut world, "new", "", &["app"]);
    pod(&mut world, "lost", "node-2", &["app"]);
    world.transcript(
        r#"
GET /api/v1/namespaces/shop/pods/gone/log -> 404 pods "gone" not found
GET /api/v1/namespaces/shop/pods/one/log?container=nope -> 400 container nope is not valid for pod one
GET /api/v1/namespaces/shop/pods/two/log -> 400 a container name must be specified for pod two, choose one of: [app side] or one of the init containers: [setup]
GET /api/v1/namespaces/shop/pods/new/log -> 200
GET /api/v1/namespaces/shop/pods/new/exec?command=ls -> 400 pod new does not have a host assigned
GET /api/v1/namespaces/shop/pods/new/portforward?ports=80 -> 400 pod new does not have a host assigned
GET /api/v1/namespaces/shop/pods/lost/log -> 404 nodes "node-2" not found
GET /api/v1/namespaces/shop/pods/lost/exec?command=ls -> 404 nodes "node-2" not found
GET /api/v1/namespaces/shop/pods/one/log -> 500 Get "https://10.0.0.1:10250/containerLogs/shop/one/app": dial tcp 10.0.0.1:10250: connect: connection refused (no closure of the test serves this log: see Nodes::on_log)
GET /api/v1/namespaces/shop/pods/two/attach?container=setup -> 500 error dialing backend: dial tcp 10.0.0.1:10250: connect: connection refused (nodes of a simulated cluster serve logs only)
POST /api/v1/namespaces/shop/pods/one/exec?command=ls -> 500 error dialing backend: dial tcp 10.0.0.1:10250: connect: connection refused (nodes of a simulated cluster serve logs only)
POST /api/v1/namespaces/shop/pods/two/portforward?ports=80 -> 500 error dialing backend: dial tcp 10.0.0.1:10250: connect: connection refused (nodes of a simulated cluster serve logs only)
GET /api/v1/namespaces/shop/pods/one/log?tailLines=-1&limitBytes=0 -> 422 PodLogOptions "one" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, limitBytes: Invalid value: 0: must be greater than 0]
GET /api/v1/namespaces/shop/pods/one/log?tailLines=few -> 400 strconv.ParseInt: parsing "few": invalid syntax
GET /api/v1/namespaces/shop/pods/one/log?sinceSeconds=5&sinceTime=2026-01-01T00:00:00Z -> 422 PodLogOptions "one" is invalid: <nil>: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified
POST /api/v1/namespaces/shop/pods/one/log -> 405 the server does not allow this method on the requested resource
"#,
    );
}
