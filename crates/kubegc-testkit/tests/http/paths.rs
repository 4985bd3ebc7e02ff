//! Paths of URLs, responses to unknown ones, and bodies that cannot be read.

use http::Method;
use kubegc_testkit::http::{Verb, read_call};
use serde_json::{Value, json};

use crate::world::{at_version, request, widgets, world};

const READ: &str = "
GET /api/v1/pods -> list v1 pods
GET /api/v1/namespaces/shop/pods -> list v1 pods shop/
GET /api/v1/namespaces/shop/pods/ -> list v1 pods shop/
GET /api/v1/namespaces/shop/pods?watch -> watch v1 pods shop/
GET /api/v1/pods?watch=1&limit=3 -> watch v1 pods
GET /api/v1/pods?watch=false -> list v1 pods
GET /api/v1/pods?fieldSelector=metadata.name%3Dweb -> list v1 pods web
GET /api/v1/pods?fieldSelector=metadata.name%21%3Dweb -> list v1 pods
GET /api/v1/namespaces/shop/pods/web -> get v1 pods shop/web
GET /api/v1/namespaces/shop/pods/web?watch=true -> get v1 pods shop/web
HEAD /api/v1/namespaces/shop/pods/web -> get v1 pods shop/web
PATCH /api/v1/namespaces/shop/pods/web/status -> patch v1 pods/status shop/web
POST /api/v1/namespaces/shop/pods/web/eviction -> create v1 pods/eviction shop/web
GET /api/v1/namespaces/shop/pods/web/proxy/a/b -> get v1 pods/proxy/a/b shop/web
GET /api/v1/namespaces -> list v1 namespaces
GET /api/v1/namespaces/shop -> get v1 namespaces shop/shop
PUT /api/v1/namespaces/shop/finalize -> update v1 namespaces/finalize shop/shop
PUT /api/v1/namespaces/shop/status -> update v1 namespaces/status shop/shop
DELETE /api/v1/namespaces/shop -> delete v1 namespaces shop/shop
GET /apis/apps/v1/deployments -> list apps/v1 deployments
POST /apis/apps/v1/namespaces/shop/deployments -> create apps/v1 deployments shop/
PUT /apis/apps/v1/namespaces/shop/deployments/web/scale -> update apps/v1 deployments/scale shop/web
DELETE /apis/apps/v1/namespaces/shop/deployments -> deletecollection apps/v1 deployments shop/
GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode -> get rbac.authorization.k8s.io/v1 clusterroles system:node
GET /api/v1/namespaces/shop/configmaps/a%20b -> get v1 configmaps shop/a b
DELETE /api/v1/pods?dryRun=All -> deletecollection v1 pods (dry run)
OPTIONS /api/v1/pods -> unknown v1 pods
GET /api/v1/unheard -> list v1 unheard
GET /api/v1 -> request /api/v1
GET /apis/apps/v1 -> request /apis/apps/v1
GET / -> request /
GET /version -> request /version
GET /other/v1/pods -> request /other/v1/pods
";

#[test]
fn urls_are_read_as_upstream_reads_them() {
    let world = world();
    for line in READ.trim().lines() {
        let (asked, expected) = line.split_once(" -> ").expect("an arrow");
        let (method, url) = asked.split_once(' ').expect("a method");
        let call = world.call(method.parse().expect("a method"), url);
        assert_eq!(call.to_string(), expected, "{asked}");
        let served = world.server.resolve(&call.group, &call.version, &call.resource);
        let kind = served.ok().filter(|_| call.verb != Verb::NonResource);
        assert_eq!(call.kind, kind, "{asked}");
    }
}

#[test]
fn a_call_has_the_user_and_the_dry_run_flag() {
    let world = world();
    let agent = ("user-agent", "widget-operator/v1.2 (linux)");
    let dry_body = r#"{"dryRun":["All"]}"#;
    for (method, url, body, dry_run, manager) in [
        ("POST", "", "", false, "widget-operator"),
        ("POST", "?dryRun=All&fieldManager=me", "", true, "me"),
        ("GET", "?dryRun=All", "", false, "widget-operator"),
        ("DELETE", "/web", dry_body, true, "widget-operator"),
        ("DELETE", "/web?dryRun=All", "{}", false, "widget-operator"),
        ("DELETE", "/web?dryRun=All", "", true, "widget-operator"),
    ] {
        let url = format!("/api/v1/namespaces/shop/pods{url}");
        let method = method.parse().expect("a method");
        let call = read_call(&world.server, &request(method, &url, &[agent], body));
        assert_eq!(
            (call.dry_run, &*call.field_manager, &*call.user_agent),
            (dry_run, manager, agent.1),
            "{call} {body}"
        );
    }
}

#[test]
fn missing_objects_and_paths_get_upstreams_responses() {
    let mut world = world();
    world.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &widgets(),
    );
    world.transcript(
        r#"
GET /nowhere -> 404 404 page not found
GET /apis/unheard.example.com/v1/things -> 404 404 page not found
GET /apis/unheard.example.com -> 404 404 page not found
GET /apis/example.com/v1/gadgets -> 404 404 page not found
GET /api/v9 -> 404 the server could not find the requested resource
GET /apis/apps/v9 -> 404 the server could not find the requested resource
GET /api/v1/unheard -> 404 the server could not find the requested resource
GET /api/v1/namespaces//pods -> 404 the server could not find the requested resource
GET /api/v1/pods/web -> 404 the server could not find the requested resource
GET /api/v1/namespaces/shop/nodes -> 404 the server could not find the requested resource
GET /api/v1/namespaces/shop/pods/web/proxy -> 404 the server could not find the requested resource
GET /api/v1/namespaces/shop/pods/web -> 404 pods "web" not found
POST /api/v1/pods -> 405 the server does not allow this method on the requested resource
DELETE /api/v1/pods -> 405 the server does not allow this method on the requested resource
DELETE /api/v1/namespaces -> 405 the server does not allow this method on the requested resource
POST /api/v1/namespaces/shop/pods/web -> 405 the server does not allow this method on the requested resource
PUT /api/v1/namespaces/shop/pods -> 405 the server does not allow this method on the requested resource
DELETE /api/v1/namespaces/shop/pods/web/status -> 405 the server does not allow this method on the requested resource
HEAD /api/v1/namespaces/shop/pods/web -> 405 the server does not allow this method on the requested resource
OPTIONS /api/v1/namespaces/shop/pods -> 405 the server does not allow this method on the requested resource
POST /version -> 405 the server does not allow this method on the requested resource
POST /apis/example.com/v1/namespaces/shop/widgets/a -> 405 create is not supported on resources of kind "widgets.example.com"
"#,
    );
}

#[test]
fn an_unknown_path_gets_a_json_status_from_1_38_on() {
    for (version, message) in [
        ("1.37", None),
        ("1.38", Some("the server could not find the requested resource")),
    ] {
        for url in [
            "/nowhere",
            "/apis/unheard.example.com",
            "/apis/unheard.example.com/v1/things",
        ] {
            let reply = at_version(version).perform(&request(Method::GET, url, &[], ""));
            let status: Option<Value> = serde_json::from_str(&reply.text).ok();
            let got = status.as_ref().and_then(|status| status["message"].as_str());
            assert_eq!((reply.code, got), (404, message), "{version} {url}");
        }
    }
}

#[test]
fn health_version_and_schema_are_answered() {
    let mut world = at_version("1.20.2");
    for path in ["/healthz", "/livez", "/readyz?verbose"] {
        let reply = world.get(path);
        assert_eq!((reply.code, &*reply.text), (200, "ok"));
    }
    let version = world.get("/version").json();
    assert_eq!(
        (&version["major"], &version["minor"]),
        (&json!("1"), &json!("20"))
    );
    assert_eq!(version["gitVersion"], "v1.20.2");
    assert_eq!(world.get("/openapi/v2").json()["swagger"], "2.0");
    let requested = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let answered = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let schema = world.get_as("/openapi/v2", requested);
    assert_eq!((&*schema.content_type, schema.text.len()), (answered, 25));
    assert_eq!(world.get("/openapi/v3").code, 404);
}

#[test]
fn bodies_are_bounded_and_of_known_types() {
    let mut world = world();
    let url = "/api/v1/namespaces/shop/configmaps";
    let large = format!(r#"{{"data":{{"a":"{}"}}}}"#, "x".repeat(3 << 20));
    let deep = "[".repeat(200);
    let deep_yaml = format!("a: {}", "[".repeat(500));
    let mut many = "a: &a [x,x,x,x,x,x,x,x,x]\nb0: &b0 [*a,*a,*a,*a]\n".to_owned();
    for (at, before) in (1..30).zip(0..) {
        many += &format!("b{at}: &b{at} [*b{before},*b{before},*b{before},*b{before}]\n");
    }
    let (json, yaml) = ("application/json", "application/yaml");
    let protobuf = "application/vnd.kubernetes.protobuf";
    for (content_type, body, code) in [
        (json, &*large, 413),
        (json, "{", 400),
        (json, "", 400),
        (json, "[]", 400),
        (json, &deep, 400),
        (yaml, &deep_yaml, 400),
        (yaml, &many, 400),
        (yaml, "a: [", 400),
        (protobuf, "k8s\0", 400),
        (protobuf, "{}", 400),
        (protobuf, "", 400),
        ("application/cbor", "{}", 415),
        ("text/plain", "{}", 415),
        (
            &format!("{json}; charset=utf-8"),
            r#"{"metadata":{"name":"json"}}"#,
            201,
        ),
        ("", r#"{"metadata":{"name":"plain"}}"#, 201),
        (yaml, "metadata:\n  name: yaml\ndata:\n  a: '1'\n", 201),
    ] {
        let headers = [("content-type", content_type)];
        let headers = headers.get(usize::from(content_type.is_empty())..).expect("one");
        let before = world.server.revision();
        let reply = world.perform(&request(Method::POST, url, headers, body.to_owned()));
        let start: String = body.chars().take(40).collect();
        assert_eq!(reply.code, code, "{content_type} {start}: {}", reply.text);
        assert_eq!(world.server.revision() > before, code == 201, "{start}");
    }
    let read = world.get(&format!("{url}/yaml")).json();
    assert_eq!(read["data"], json!({"a": "1"}));
    let posted = |content_type| request(Method::POST, url, &[("content-type", content_type)], "k8s\0");
    assert_eq!(
        world.perform(&posted("application/cbor")).message(),
        "the body of the request was in an unknown format - accepted media types include: application/json, \
         application/yaml, application/vnd.kubernetes.protobuf"
    );
    assert_eq!(
        world.perform(&posted(protobuf)).message(),
        "the object provided is unrecognized (must be of type ConfigMap): empty body (6b387300)"
    );
}
