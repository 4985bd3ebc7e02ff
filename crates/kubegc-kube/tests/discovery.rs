//! Both forms of discovery, and kinds that stay unknown.

use kubegc_core::{Catalog, DefaultDeletion, KubernetesVersion, ObjectStore, StoreError, store::Discovered};
use kubegc_kube::KubeStore;
use serde_json::{Value, json};

use crate::common::{RecordedRequest, Script, ScriptedResponse, respond, status};

const ALL: &str = "create,delete,deletecollection,get,list,patch,update,watch";

/// API version, resource, kind, scope, verbs.
const CLUSTER: &str = "
v1 pods Pod Namespaced all
v1 pods/status Pod Namespaced get
v1 bindings Binding Namespaced create
v1 nodes Node Cluster all
apps/v1 deployments Deployment Namespaced all
batch/v1 jobs Job Namespaced all
example.com/v2 widgets Widget Namespaced all
example.com/v1 widgets Widget Namespaced all
example.com/v1 gadgets Gadget Cluster list,get
metrics.k8s.io/v1beta1 nodes NodeMetrics Cluster get,list
templates.example.com/v1 processed Template Namespaced create
templates.example.com/v1 templates Template Namespaced all
";

/// The group version whose resources may have changed.
const STALE: &str = "metrics.k8s.io/v1beta1";

/// The distinct first words of lines, in order.
fn distinct(words: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut words: Vec<&str> = words.collect();
    words.dedup();
    words
}

fn api_versions() -> impl Iterator<Item = (&'static str, &'static str)> {
    let names = CLUSTER.trim().lines().filter_map(|line| line.split(' ').next());
    let names = distinct(names).into_iter();
    names.map(|name| name.split_once('/').unwrap_or(("", name)))
}

fn groups(core: bool) -> Vec<&'static str> {
    let names = api_versions().map(|(group, _)| group);
    distinct(names.filter(|name| name.is_empty() == core))
}

/// The resources of a group version in one of the two forms.
fn resources(api_version: &str, form: fn(&str, &str, &str, Value) -> Value) -> Vec<Value> {
    let lines = CLUSTER
        .trim()
        .lines()
        .map(|line| line.split(' ').collect::<Vec<&str>>());
    let read = |line: Vec<&str>| {
        let [of, name, kind, scope, verbs] = line[..] else {
            panic!("{line:?}")
        };
        let verbs = if verbs == "all" { ALL } else { verbs };
        let verbs: Vec<&str> = verbs.split(',').collect();
        (of == api_version).then(|| form(name, kind, scope, json!(verbs)))
    };
    lines.filter_map(read).collect()
}

fn joined(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn aggregated(core: bool) -> Value {
    let in_group = |group: &str| {
        let versions = api_versions().filter(|(of, _)| *of == group);
        let versions = versions.map(|(_, version)| {
            let api_version = joined(group, version);
            let freshness = if api_version == STALE { "Stale" } else { "Current" };
            let mut resources = resources(&api_version, |name, kind, scope, verbs| {
                json!({
                    "resource": name,
                    "responseKind": {"group": "", "version": "", "kind": kind},
                    "scope": scope,
                    "verbs": verbs,
                    "subresources": [{"subresource": "status"}],
                })
            });
            resources.retain(|resource| resource["resource"] != "pods/status");
            json!({"version": version, "freshness": freshness, "resources": resources})
        });
        json!({"metadata": {"name": group}, "versions": versions.collect::<Vec<_>>()})
    };
    let items: Vec<Value> = groups(core).into_iter().map(in_group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})
}

fn classic(request: &RecordedRequest) -> Option<ScriptedResponse> {
    let path = request.line.strip_prefix("GET ")?;
    let document = match path {
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/apis" => {
            let in_group = |group: &str| {
                let versions = api_versions().filter(|(of, _)| *of == group);
                let versions = versions.map(
                    |(group, version)| json!({"groupVersion": joined(group, version), "version": version}),
                );
                let versions: Vec<Value> = versions.collect();
                json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
            };
            let groups: Vec<Value> = groups(false).into_iter().map(in_group).collect();
            json!({"kind": "APIGroupList", "groups": groups})
        }
        path => {
            let (_, api_version) = path.trim_start_matches('/').split_once('/')?;
            if api_version == STALE {
                return Some(status(503));
            }
            let resources = resources(
                api_version,
                |name, kind, scope, verbs| json!({"name": name, "kind": kind, "namespaced": scope == "Namespaced", "verbs": verbs}),
            );
            json!({"kind": "APIResourceList", "resources": resources})
        }
    };
    Some(respond(200, &document))
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
    // Subresources are left out, stale versions too, and so is a second resource of a kind.
    assert_eq!(catalog.len(), 9, "{form}");
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
        let expected = (preferred, collectable, custom);
        assert_eq!(got, expected, "{form}: {group}/{version} {resource}");
    }
    let jobs = find("batch", "v1", "jobs").expect("there");
    let pods = find("", "v1", "pods").expect("there");
    // Fields of built-in kinds that discovery does not have.
    assert_eq!(jobs.default_deletion, DefaultDeletion::Orphan, "{form}");
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
    let requests = script.requests();
    let is_aggregated = |request: &RecordedRequest| request.accept.contains("as=APIGroupDiscoveryList");
    assert!(requests.iter().all(is_aggregated));
}

#[tokio::test(start_paused = true)]
async fn g10_servers_without_it_get_one_request_for_each_group_version() {
    let script = Script::new(classic);
    check(&discover(&script).await.expect("discovered"), "classic");
    let refusing = Script::new(|request| match request.accept.as_str() {
        "application/json" => classic(request),
        _ => Some(status(406)),
    });
    let discovered = discover(&refusing).await.expect("discovered");
    check(&discovered, "classic, after a refusal");
}

#[tokio::test(start_paused = true)]
async fn one_form_of_discovery_may_be_absent_but_not_unknown() {
    for (code, expected) in [(404, true), (403, true), (500, false), (429, false)] {
        let script = Script::new(move |request| match request.line.as_str() {
            "GET /apis" => Some(status(code)),
            _ => Some(respond(200, &aggregated(true))),
        });
        let discovered = discover(&script).await;
        // A passing failure must not drop all groups.
        assert_eq!(discovered.is_ok(), expected, "{code}");
        if let Ok(discovered) = discovered {
            assert_eq!(discovered.catalog.len(), 3);
        }
        let nothing = discover(&Script::new(move |_| Some(status(code)))).await;
        assert!(nothing.is_err(), "{code}: a cluster without any kind is none");
    }
}
