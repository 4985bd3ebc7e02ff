//! Paths of URLs, and responses to unknown ones.

use bytes::Bytes;
use http::Method;
use kubegc_testkit::http::{Verb, read_call};
use serde_json::{Value, json};

use crate::world::{at_version, request, widgets, world};

/// Method, URL, verb, group, version, resource (with subresource), namespace, name.
type Read<'a> = (
    &'a str,
    &'a str,
    Verb,
    &'a str,
    &'a str,
    &'a str,
    &'a str,
    &'a str,
);

#[test]
fn urls_are_read_as_upstream_reads_them() {
    use Verb::*;
    let world = world();
    let cases: &[Read<'_>] = &[
        ("GET", "/api/v1/pods", List, "", "v1", "pods", "", ""),
        (
            "GET",
            "/api/v1/namespaces/shop/pods",
            List,
            "",
            "v1",
            "pods",
            "shop",
            "",
        ),
        (
            "GET",
            "/api/v1/namespaces/shop/pods/",
            List,
            "",
            "v1",
            "pods",
            "shop",
            "",
        ),
        (
            "GET",
            "/api/v1/namespaces/shop/pods?watch",
            Watch,
            "",
            "v1",
            "pods",
            "shop",
            "",
        ),
        (
            "GET",
            "/api/v1/pods?watch=1&limit=3",
            Watch,
            "",
            "v1",
            "pods",
            "",
            "",
        ),
        ("GET", "/api/v1/pods?watch=false", List, "", "v1", "pods", "", ""),
        (
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name%3Dweb",
            List,
            "",
            "v1",
            "pods",
            "",
            "web",
        ),
        (
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name%21%3Dweb",
            List,
            "",
            "v1",
            "pods",
            "",
            "",
        ),
        (
            "GET",
            "/api/v1/namespaces/shop/pods/web",
            Get,
            "",
            "v1",
            "pods",
            "shop",
            "web",
        ),
        (
            "GET",
            "/api/v1/namespaces/shop/pods/web?watch=true",
            Get,
            "",
            "v1",
            "pods",
            "shop",
            "web",
        ),
        (
            "HEAD",
            "/api/v1/namespaces/shop/pods/web",
            Get,
            "",
            "v1",
            "pods",
            "shop",
            "web",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/shop/pods/web/status",
            Patch,
            "",
            "v1",
            "pods/status",
            "shop",
            "web",
        ),
        (
            "POST",
            "/api/v1/namespaces/shop/pods/web/eviction",
            Create,
            "",
            "v1",
            "pods/eviction",
            "shop",
            "web",
        ),
        (
            "GET",
            "/api/v1/namespaces/shop/pods/web/proxy/a/b",
            Get,
            "",
            "v1",
            "pods/proxy/a/b",
            "shop",
            "web",
        ),
        ("GET", "/api/v1/namespaces", List, "", "v1", "namespaces", "", ""),
        (
            "GET",
            "/api/v1/namespaces/shop",
            Get,
            "",
            "v1",
            "namespaces",
            "shop",
            "shop",
        ),
        (
            "PUT",
            "/api/v1/namespaces/shop/finalize",
            Update,
            "",
            "v1",
            "namespaces/finalize",
            "shop",
            "shop",
        ),
        (
            "PUT",
            "/api/v1/namespaces/shop/status",
            Update,
            "",
            "v1",
            "namespaces/status",
            "shop",
            "shop",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/shop",
            Delete,
            "",
            "v1",
            "namespaces",
            "shop",
            "shop",
        ),
        (
            "GET",
            "/apis/apps/v1/deployments",
            List,
            "apps",
            "v1",
            "deployments",
            "",
            "",
        ),
        (
            "POST",
            "/apis/apps/v1/namespaces/shop/deployments",
            Create,
            "apps",
            "v1",
            "deployments",
            "shop",
            "",
        ),
        (
            "PUT",
            "/apis/apps/v1/namespaces/shop/deployments/web/scale",
            Update,
            "apps",
            "v1",
            "deployments/scale",
            "shop",
            "web",
        ),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/shop/deployments",
            DeleteCollection,
            "apps",
            "v1",
            "deployments",
            "shop",
            "",
        ),
        (
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            Get,
            "rbac.authorization.k8s.io",
            "v1",
            "clusterroles",
            "",
            "system:node",
        ),
        (
            "GET",
            "/api/v1/namespaces/shop/configmaps/a%20b",
            Get,
            "",
            "v1",
            "configmaps",
            "shop",
            "a b",
        ),
        ("OPTIONS", "/api/v1/pods", Unknown, "", "v1", "pods", "", ""),
        ("GET", "/api/v1/unheard", List, "", "v1", "unheard", "", ""),
        ("GET", "/api/v1", NonResource, "", "", "", "", ""),
        ("GET", "/apis/apps/v1", NonResource, "", "", "", "", ""),
        ("GET", "/", NonResource, "", "", "", "", ""),
        ("GET", "/version", NonResource, "", "", "", "", ""),
        ("GET", "/other/v1/pods", NonResource, "", "", "", "", ""),
    ];
    for &(method, url, verb, group, version, resource, namespace, name) in cases {
        let call = world.call(method.parse().expect("a method"), url);
        let read = (
            call.verb,
            &*call.group,
            &*call.version,
            &*call.qualified_resource(),
        );
        assert_eq!(read, (verb, group, version, resource), "{method} {url}");
        assert_eq!(
            (&*call.namespace, &*call.name),
            (namespace, name),
            "{method} {url}"
        );
        let served = world.server.resolve(group, version, &call.resource).ok();
        assert_eq!(
            call.kind,
            served.filter(|_| verb != NonResource),
            "{method} {url}"
        );
    }
}

#[test]
fn a_call_has_the_user_and_the_dry_run_flag() {
    let world = world();
    let agent = ("user-agent", "widget-operator/v1.2 (linux)");
    let pods = "/api/v1/namespaces/shop/pods";
    let dry_body = r#"{"dryRun":["All"]}"#;
    // Method, URL, body, dry run, field manager.
    for (method, url, body, dry_run, manager) in [
        (Method::POST, pods.to_owned(), "", false, "widget-operator"),
        (
            Method::POST,
            format!("{pods}?dryRun=All&fieldManager=me"),
            "",
            true,
            "me",
        ),
        (
            Method::GET,
            format!("{pods}?dryRun=All"),
            "",
            false,
            "widget-operator",
        ),
        (
            Method::DELETE,
            format!("{pods}/web"),
            dry_body,
            true,
            "widget-operator",
        ),
        (
            Method::DELETE,
            format!("{pods}/web?dryRun=All"),
            "{}",
            false,
            "widget-operator",
        ),
        (
            Method::DELETE,
            format!("{pods}/web?dryRun=All"),
            "",
            true,
            "widget-operator",
        ),
    ] {
        let call = read_call(&world.server, &request(method.clone(), &url, &[agent], body));
        assert_eq!(
            (call.dry_run, &*call.field_manager),
            (dry_run, manager),
            "{method} {url} {body}"
        );
        assert_eq!(call.user_agent, agent.1);
    }
    let call = read_call(
        &world.server,
        &request(Method::DELETE, &format!("{pods}/web"), &[], dry_body),
    );
    assert_eq!(call.to_string(), "delete v1 pods shop/web (dry run)");
    assert_eq!(
        world.call(Method::GET, "/version").to_string(),
        "request /version"
    );
}

#[test]
fn missing_objects_and_paths_get_upstreams_responses() {
    let mut world = world();
    world.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &widgets(),
    );
    let shop = "/api/v1/namespaces/shop";
    // Method, URL, code, text in the response.
    for (method, url, code, wanted) in [
        ("GET", "/nowhere".to_owned(), 404, "404 page not found"),
        (
            "GET",
            "/apis/unheard.example.com/v1/things".to_owned(),
            404,
            "404 page not found",
        ),
        (
            "GET",
            "/apis/unheard.example.com".to_owned(),
            404,
            "404 page not found",
        ),
        (
            "GET",
            "/apis/example.com/v1/gadgets".to_owned(),
            404,
            "404 page not found",
        ),
        (
            "GET",
            "/api/v1/unheard".to_owned(),
            404,
            "could not find the requested resource",
        ),
        (
            "GET",
            "/api/v1/namespaces//pods".to_owned(),
            404,
            "could not find",
        ),
        ("GET", "/api/v1/pods/web".to_owned(), 404, "could not find"),
        ("GET", format!("{shop}/nodes"), 404, "could not find"),
        ("GET", format!("{shop}/pods/web/proxy"), 404, "could not find"),
        (
            "GET",
            format!("{shop}/pods/web"),
            404,
            r#"pods \"web\" not found"#,
        ),
        (
            "POST",
            "/api/v1/pods".to_owned(),
            405,
            "does not allow this method",
        ),
        (
            "DELETE",
            "/api/v1/pods".to_owned(),
            405,
            "does not allow this method",
        ),
        (
            "DELETE",
            "/api/v1/namespaces".to_owned(),
            405,
            "does not allow this method",
        ),
        (
            "POST",
            format!("{shop}/pods/web"),
            405,
            "does not allow this method",
        ),
        ("PUT", format!("{shop}/pods"), 405, "does not allow this method"),
        (
            "DELETE",
            format!("{shop}/pods/web/status"),
            405,
            "does not allow this method",
        ),
        (
            "HEAD",
            format!("{shop}/pods/web"),
            405,
            "does not allow this method",
        ),
        (
            "OPTIONS",
            format!("{shop}/pods"),
            405,
            "does not allow this method",
        ),
        (
            "GET",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(),
            405,
            "does not allow",
        ),
        ("POST", "/version".to_owned(), 405, "does not allow this method"),
        (
            "POST",
            "/apis/example.com/v1/namespaces/shop/widgets/a".to_owned(),
            405,
            r#"create is not supported on resources of kind \"widgets.example.com\""#,
        ),
    ] {
        let reply = world.send(method.parse().expect("a method"), &url, &[], &Value::Null);
        assert_eq!(reply.code, code, "{method} {url}: {}", reply.text);
        assert!(reply.text.contains(wanted), "{method} {url}: {}", reply.text);
        if wanted != "404 page not found" {
            assert_eq!(reply.json()["code"], code, "{method} {url}");
            assert_eq!(reply.json()["status"], "Failure");
        }
    }
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
    let large = format!(
        r#"{{"metadata":{{"name":"a"}},"data":{{"a":"{}"}}}}"#,
        "x".repeat(3 << 20)
    );
    let deep = "[".repeat(200);
    let deep_yaml = format!("a: {}", "[".repeat(500));
    let many = format!(
        "a: &a [x,x,x,x,x,x,x,x,x]\n{}",
        (0..30).fold(String::new(), |text, at| {
            let before = if at == 0 {
                "a".to_owned()
            } else {
                format!("b{}", at - 1)
            };
            text + &format!("b{at}: &b{at} [*{before},*{before},*{before},*{before}]\n")
        })
    );
    let yaml = "application/yaml";
    for (content_type, body, code) in [
        ("application/json", large, 413),
        ("application/json", "{".to_owned(), 400),
        ("application/json", String::new(), 400),
        ("application/json", "[]".to_owned(), 400),
        ("application/json", deep, 400),
        (yaml, deep_yaml, 400),
        (yaml, many, 400),
        (yaml, "a: [".to_owned(), 400),
        ("application/vnd.kubernetes.protobuf", "k8s\0".to_owned(), 415),
        ("text/plain", "{}".to_owned(), 415),
        (
            "application/json; charset=utf-8",
            r#"{"metadata":{"name":"json"}}"#.to_owned(),
            201,
        ),
        ("", r#"{"metadata":{"name":"plain"}}"#.to_owned(), 201),
        (yaml, "metadata:\n  name: yaml\ndata:\n  a: '1'\n".to_owned(), 201),
    ] {
        let headers = [("content-type", content_type)];
        let headers = if content_type.is_empty() {
            &[][..]
        } else {
            &headers[..]
        };
        let before = world.server.revision();
        let reply = world.perform(&request(Method::POST, url, headers, Bytes::from(body.clone())));
        let start: String = body.chars().take(40).collect();
        assert_eq!(reply.code, code, "{content_type} {start}: {}", reply.text);
        assert_eq!(world.server.revision() > before, code == 201, "{start}");
    }
    assert_eq!(
        world.get(&format!("{url}/yaml")).json()["data"],
        json!({"a": "1"})
    );
}
