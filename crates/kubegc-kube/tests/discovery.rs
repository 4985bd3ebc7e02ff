//! Both forms of discovery, and kinds that stay unknown.

use kubegc_core::{Catalog, DefaultDeletion, KubernetesVersion, ObjectStore, StoreError, store::Discovered};
use kubegc_kube::KubeStore;
use serde_json::{Value, json};

use crate::common::{RecordedRequest, Script, ScriptedResponse, respond, status};

const ALL: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// group, version, fresh, [(resource, kind, namespaced, verbs)]
type Served<'a> = (
    &'a str,
    &'a str,
    bool,
    &'a [(&'a str, &'a str, bool, &'a [&'a str])],
);

const CLUSTER: [Served<'static>; 7] = [
    (
        "",
        "v1",
        true,
        &[
            ("pods", "Pod", true, &ALL),
            ("pods/status", "Pod", true, &["get"]),
            ("bindings", "Binding", true, &["create"]),
            ("nodes", "Node", false, &ALL),
        ],
    ),
    ("apps", "v1", true, &[("deployments", "Deployment", true, &ALL)]),
    ("batch", "v1", true, &[("jobs", "Job", true, &ALL)]),
    ("example.com", "v2", true, &[("widgets", "Widget", true, &ALL)]),
    (
        "example.com",
        "v1",
        true,
        &[
            ("widgets", "Widget", true, &ALL),
            ("gadgets", "Gadget", false, &["list", "get"]),
        ],
    ),
    (
        "metrics.k8s.io",
        "v1beta1",
        false,
        &[("nodes", "NodeMetrics", false, &["get", "list"])],
    ),
    (
        "templates.example.com",
        "v1",
        true,
        &[
            ("processed", "Template", true, &["create"]),
            ("templates", "Template", true, &ALL),
        ],
    ),
];

fn groups(core: bool) -> Vec<&'static str> {
    let mut names: Vec<&str> = CLUSTER
        .iter()
        .map(|served| served.0)
        .filter(|name| name.is_empty() == core)
        .collect();
    names.dedup();
    names
}

fn aggregated(core: bool) -> Value {
    let items: Vec<Value> = groups(core)
        .into_iter()
        .map(|group| {
            let versions: Vec<Value> = CLUSTER
                .iter()
                .filter(|served| served.0 == group)
                .map(|(_, version, fresh, resources)| {
                    let resources: Vec<Value> = resources
                        .iter()
                        .filter(|resource| !resource.0.contains('/'))
                        .map(|(name, kind, namespaced, verbs)| {
                            let scope = if *namespaced { "Namespaced" } else { "Cluster" };
                            json!({"resource": name, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": scope,
                                "verbs": verbs, "subresources": [{"subresource": "status"}]})
                        })
                        .collect();
                    json!({"version": version, "freshness": if *fresh { "Current" } else { "Stale" }, "resources": resources})
                })
                .collect();
            json!({"metadata": {"name": group}, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})
}

fn classic(request: &RecordedRequest) -> Option<ScriptedResponse> {
    let path = request.line.strip_prefix("GET ")?;
    if path == "/api" {
        return Some(respond(200, &json!({"kind": "APIVersions", "versions": ["v1"]})));
    }
    if path == "/apis" {
        let groups: Vec<Value> = groups(false)
            .into_iter()
            .map(|group| {
                let versions: Vec<Value> = CLUSTER
                    .iter()
                    .filter(|served| served.0 == group)
                    .map(|served| json!({"groupVersion": format!("{group}/{}", served.1), "version": served.1}))
                    .collect();
                json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
            })
            .collect();
        return Some(respond(200, &json!({"kind": "APIGroupList", "groups": groups})));
    }
    let found = CLUSTER.iter().find(|(group, version, ..)| {
        path == if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        }
    });
    let (_, _, fresh, resources) = found?;
    if !fresh {
        return Some(status(503));
    }
    let resources: Vec<Value> = resources
        .iter()
        .map(|(name, kind, namespaced, verbs)| json!({"name": name, "kind": kind, "namespaced": namespaced, "verbs": verbs}))
        .collect();
    Some(respond(
        200,
        &json!({"kind": "APIResourceList", "resources": resources}),
    ))
}

async fn discover(script: &Script) -> Result<Discovered, StoreError> {
    KubeStore::new(script.client(), KubernetesVersion::LATEST)
        .discover()
        .await
}

fn check(discovered: &Discovered, form: &str) {
    let catalog: &Catalog = &discovered.catalog;
    let failed: Vec<&String> = discovered.failed.keys().collect();
    assert_eq!(failed, ["metrics.k8s.io/v1beta1"], "{form}");
    let find = |group: &str, version: &str, resource: &str| {
        catalog
            .by_resource(group, version, resource)
            .map(|kind| &catalog[kind])
    };
    assert_eq!(
        catalog.len(),
        9,
        "{form}: subresources are left out, stale versions too, and so is a second resource of a kind"
    );
    assert!(find("metrics.k8s.io", "v1beta1", "nodes").is_none(), "{form}");
    for (group, version, resource, preferred, collectable, custom) in [
        ("", "v1", "pods", true, true, false),
        ("", "v1", "bindings", true, false, false),
        ("example.com", "v2", "widgets", true, true, true),
        ("example.com", "v1", "widgets", false, true, true),
        // Only the older version has it.
        ("example.com", "v1", "gadgets", true, false, true),
        ("templates.example.com", "v1", "templates", true, true, true),
    ] {
        let found = find(group, version, resource).unwrap_or_else(|| panic!("{form}: {resource} is there"));
        let got = (found.preferred, found.verbs.collectable(), found.custom);
        assert_eq!(
            got,
            (preferred, collectable, custom),
            "{form}: {group}/{version} {resource}"
        );
    }
    let jobs = find("batch", "v1", "jobs").expect("there");
    let pods = find("", "v1", "pods").expect("there");
    assert_eq!(
        jobs.default_deletion,
        DefaultDeletion::Orphan,
        "{form}: fields of built-in kinds that discovery does not have"
    );
    assert!(pods.delete_returns_object && pods.verbs.list, "{form}");
    assert!(!find("", "v1", "nodes").expect("there").is_namespaced(), "{form}");
}

#[tokio::test(start_paused = true)]
async fn g10_aggregated_discovery_takes_two_requests() {
    let script = Script::new(|request| Some(respond(200, &aggregated(request.line == "GET /api"))));
    check(&discover(&script).await.expect("discovered"), "aggregated");
    let mut lines = script.lines();
    lines.sort();
    assert_eq!(lines, ["GET /api", "GET /apis"]);
    assert!(
        script
            .requests()
            .iter()
            .all(|request| request.accept.contains("as=APIGroupDiscoveryList"))
    );
}

#[tokio::test(start_paused = true)]
async fn g10_servers_without_it_get_one_request_for_each_group_version() {
    let script = Script::new(classic);
    check(&discover(&script).await.expect("discovered"), "classic");
    let refusing = Script::new(|request| match request.accept.as_str() {
        "application/json" => classic(request),
        _ => Some(status(406)),
    });
    check(
        &discover(&refusing).await.expect("discovered"),
        "classic, after a refusal",
    );
}

#[tokio::test(start_paused = true)]
async fn one_form_of_discovery_may_be_absent_but_not_unknown() {
    for (code, expected) in [(404, true), (403, true), (500, false), (429, false)] {
        let script = Script::new(move |request| match request.line.as_str() {
            "GET /apis" => Some(status(code)),
            _ => Some(respond(200, &aggregated(true))),
        });
        let discovered = discover(&script).await;
        assert_eq!(
            discovered.is_ok(),
            expected,
            "{code}: dropping all groups because of a passing failure"
        );
        if let Ok(discovered) = discovered {
            assert_eq!(discovered.catalog.len(), 3);
        }
        let nothing = discover(&Script::new(move |_| Some(status(code)))).await;
        assert!(nothing.is_err(), "{code}: a cluster without any kind is none");
    }
}
