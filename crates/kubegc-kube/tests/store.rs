//! Requests and responses of each operation of the store.

use std::{sync::Arc, time::Duration};

use kubegc_core::{
    ApiResource, DeleteOptions, ObjectStore, PatchType, Preconditions, PropagationPolicy, ResourceVersion,
    Scope, StoreError, Uid,
    deletion::{Deleted, Propagation},
    store::{Address, MetaList, WatchItem},
};
use serde_json::{Value, json};

use crate::common::{Script, ScriptedResponse, meta, pod, pods, respond, status};

const META: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const META_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

fn list(version: &str, names: &[&str], continues: &str) -> Value {
    let items: Vec<Value> = names.iter().map(|name| meta(name, name, "1")).collect();
    json!({"kind": "PartialObjectMetadataList", "metadata": {"resourceVersion": version, "continue": continues}, "items": items})
}

/// The errors of a read and of the writes of a pod.
async fn errors(script: &Script, namespace: &str, name: &str) -> [Option<StoreError>; 3] {
    let (store, resource) = (script.store(), pods());
    let address = Address {
        resource: &resource,
        namespace,
        name,
    };
    [
        store.get(address).await.err(),
        store.delete(address, &DeleteOptions::default()).await.err(),
        store.patch(address, PatchType::Merge, b"{}").await.err(),
    ]
}

/// A 404 of a proxy, or of a server that no longer serves the version, does not prove absence: otherwise the
/// dependents of the object would be deleted.
#[tokio::test(start_paused = true)]
async fn a_404_that_does_not_name_the_object_does_not_prove_its_absence() {
    for body in [
        json!({"kind": "Status", "code": 404, "message": "not found"}),
        json!({"kind": "Status", "reason": "NotFound", "details": {"name": "other"}}),
        json!({"kind": "Status", "reason": "NotFound", "details": {}}),
        json!({"kind": "Status", "details": {"name": "web"}}),
        json!({"reason": "NotFound", "details": {"name": "web"}}),
        json!("page not found"),
    ] {
        let script = Script::of(vec![respond(404, &body)]);
        for error in errors(&script, "shop", "web").await {
            let is_refused = matches!(error, Some(StoreError::Refused { code: 404, .. }));
            assert!(is_refused, "{error:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lost_and_invalid_responses_make_the_outcome_unknown() {
    for script in [
        Script::new(|_| None),
        Script::of(vec![respond(200, &json!("neither status nor object"))]),
        Script::of(vec![respond(200, &json!({"kind": "Pod", "metadata": {}}))]),
    ] {
        for error in errors(&script, "shop", "web").await {
            assert!(matches!(error, Some(StoreError::Unknown { .. })), "{error:?}");
        }
    }
    // An object with another name, another namespace, or none of the required fields.
    for metadata in [
        json!({"name": "other", "namespace": "shop", "uid": "u"}),
        json!({"name": "web", "namespace": "elsewhere", "uid": "u"}),
        json!({"name": "web", "namespace": "shop"}),
    ] {
        let object = json!({"kind": "PartialObjectMetadata", "metadata": metadata});
        let [error, ..] = errors(&Script::of(vec![respond(200, &object)]), "shop", "web").await;
        assert!(matches!(error, Some(StoreError::Unknown { .. })), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_operation_classifies_failures() {
    let no_web = json!({"kind": "Status", "code": 404, "reason": "NotFound", "details": {"name": "web"}});
    let mut limited = status(429);
    limited.headers.push(("retry-after", "7"));
    let refused = StoreError::Refused {
        code: 429,
        message: "code 429".to_owned(),
        retry_after: Some(Duration::from_secs(7)),
    };
    let message = "code 500".to_owned();
    for (response, expected) in [
        (respond(404, &no_web), StoreError::NotFound),
        (limited, refused),
        (status(500), StoreError::Unknown { message }),
    ] {
        let script = Script::of(vec![response]);
        let (store, pods) = (script.store(), pods());
        let watch = store.watch(&pods, &ResourceVersion::new("5")).await;
        let others = [store.list(&pods, None).await.err(), watch.err()];
        for error in errors(&script, "shop", "web").await.into_iter().chain(others) {
            assert_eq!(error, Some(expected.clone()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_with_the_wrong_scope_are_not_found_without_a_request() {
    let script = Script::of(vec![respond(200, &meta("a", "u", "1"))]);
    let (store, pods) = (script.store(), pods());
    for error in errors(&script, "", "a").await {
        assert_eq!(error, Some(StoreError::NotFound));
    }
    let nodes = ApiResource::new("v1", "Node", "nodes", Scope::Cluster);
    let address = Address {
        resource: &nodes,
        namespace: "shop",
        name: "a",
    };
    assert_eq!(store.get(address).await, Err(StoreError::NotFound));
    let unnamed = store.delete(pod(&pods, ""), &DeleteOptions::default()).await;
    let is_refused = matches!(unnamed, Err(StoreError::Refused { code: 400, .. }));
    assert!(is_refused, "not the whole collection");
    assert!(script.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn reads_request_metadata_only() {
    let script = Script::of(vec![respond(200, &meta("web", "u", "7"))]);
    let pods = pods();
    let got = script.store().get(pod(&pods, "web")).await.expect("there");
    assert_eq!(got.uid, Uid::new("u"));
    assert_eq!(got.resource_version, ResourceVersion::new("7"));
    let request = script.requests().remove(0);
    assert_eq!(request.line, "GET /api/v1/namespaces/shop/pods/web");
    assert_eq!(request.accept, META);
}

/// The names in a list and its version.
fn names(listed: &MetaList) -> (Vec<&str>, &str) {
    let names = listed.items.iter().map(|meta| &*meta.name);
    (names.collect(), listed.resource_version.as_str())
}

#[tokio::test(start_paused = true)]
async fn lists_are_read_to_their_last_page() {
    let script = Script::of(vec![
        respond(200, &list("9", &["a", "b"], "more")),
        respond(200, &list("9", &["c"], "")),
    ]);
    let listed = script.store().list(&pods(), None).await.expect("listed");
    assert_eq!(names(&listed), (vec!["a", "b", "c"], "9"));
    let pages = [
        "GET /api/v1/pods?limit=500",
        "GET /api/v1/pods?limit=500&continue=more",
    ];
    assert_eq!(script.lines(), pages);
    let requests = script.requests();
    assert!(requests.iter().all(|request| request.accept == META_LIST));
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_next_page_is_expired_starts_again() {
    let pages = |times: usize| {
        let old = || [respond(200, &list("9", &["old"], "more")), status(410)];
        let mut responses: Vec<_> = (0..times).flat_map(|_| old()).collect();
        responses.push(respond(200, &list("12", &["a"], "more")));
        responses.push(respond(200, &list("12", &["b"], "")));
        responses
    };
    for times in 1..=3 {
        let script = Script::of(pages(times));
        let listed = script.store().list(&pods(), Some("shop")).await.expect("listed");
        assert_eq!(names(&listed), (vec!["a", "b"], "12"));
        assert_eq!(script.lines().len(), 2 * times + 2);
        assert_eq!(script.lines()[2], "GET /api/v1/namespaces/shop/pods?limit=500");
    }
    let script = Script::of(pages(4));
    assert_eq!(script.store().list(&pods(), None).await, Err(StoreError::Expired));
}

/// As upstream's reflector requests it: from the watch cache, or consistent if the server does not have the
/// version.
#[tokio::test(start_paused = true)]
async fn a_list_for_a_watch_is_served_from_the_watch_cache_if_it_has_the_version() {
    let too_large = json!({"kind": "Status", "code": 504, "reason": "Timeout",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}});
    let page = |name: &str, more: &str| respond(200, &list("12", &[name], more));
    for (since, responses, queries, expected) in [
        (
            "",
            vec![page("a", "more"), page("b", "")],
            "?limit=500&resourceVersion=0 ?limit=500&continue=more",
            vec!["a", "b"],
        ),
        ("11", vec![page("a", "")], "?resourceVersion=11", vec!["a"]),
        (
            "11",
            vec![status(410), page("a", "")],
            "?resourceVersion=11 ?limit=500",
            vec!["a"],
        ),
        (
            "11",
            vec![respond(504, &too_large), page("a", "")],
            "?resourceVersion=11 ?limit=500",
            vec!["a"],
        ),
    ] {
        let script = Script::of(responses);
        let (store, since) = (script.store(), ResourceVersion::new(since));
        let listed = store.list_for_watch(&pods(), &since).await.expect("listed");
        assert_eq!(names(&listed), (expected, "12"));
        let lines = queries.split(' ').map(|query| format!("GET /api/v1/pods{query}"));
        assert_eq!(script.lines(), lines.collect::<Vec<_>>());
    }
}

/// A watch from version 4 that gets these lines, and what it delivers until its end.
async fn watched(body: String) -> (Script, Vec<Result<String, StoreError>>) {
    let script = Script::of(vec![ScriptedResponse {
        code: 200,
        headers: Vec::new(),
        body,
    }]);
    let store = script.store();
    let mut watch = store
        .watch(&pods(), &ResourceVersion::new("4"))
        .await
        .expect("opened");
    let mut seen = Vec::new();
    while let Some(item) = watch.next().await {
        seen.push(item.map(|item| match item {
            WatchItem::Applied(meta) => format!("applied {}", meta.resource_version),
            WatchItem::Deleted(meta) => format!("deleted {}", meta.resource_version),
            WatchItem::Bookmark(version) => format!("bookmark {version}"),
        }));
    }
    assert_eq!(watch.next().await, None, "the watch stays ended");
    (script, seen)
}

#[tokio::test(start_paused = true)]
async fn a_watch_delivers_changes_bookmarks_and_its_end() {
    let lines = [
        json!({"type": "ADDED", "object": meta("a", "u", "5")}),
        json!({"type": "MODIFIED", "object": meta("a", "u", "6")}),
        json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8", "creationTimestamp": null}}}),
        json!({"type": "SOMETHING", "object": meta("a", "u", "6")}),
        json!({"type": "DELETED", "object": meta("a", "u", "9")}),
    ];
    // The last line is truncated: it is not delivered.
    let cut = r#"{"type":"DELETED","object":{"metadata":{"na"#;
    let (script, seen) = watched(lines.map(|line| format!("{line}\n")).concat() + cut).await;
    let expected = ["applied 5", "applied 6", "bookmark 8", "deleted 9"];
    assert_eq!(seen, expected.map(|text| Ok(text.to_owned())));
    let request = script.requests().remove(0);
    let (start, end) = (
        "GET /api/v1/pods?watch=true&timeoutSeconds=2",
        "&allowWatchBookmarks=true&resourceVersion=4",
    );
    assert!(
        request.line.starts_with(start) && request.line.ends_with(end),
        "{request:?}"
    );
    assert_eq!(request.accept, META);
}

#[tokio::test(start_paused = true)]
async fn an_error_event_is_classified_and_ends_the_watch() {
    for (line, expected) in [
        (
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#,
            None,
        ),
        (r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#, None),
        (
            r#"{"type":"ERROR","object":{"kind":"Status","reason":"Gone"}}"#,
            None,
        ),
        (
            r#"{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd"}}"#,
            Some("etcd"),
        ),
        (r#"{"kind":"Status","code":504,"message":"late"}"#, Some("late")),
    ] {
        let later = json!({"type": "ADDED", "object": meta("a", "u", "5")});
        let (_, seen) = watched(format!("{line}\n{later}\n")).await;
        let unknown = |message: &str| StoreError::Unknown {
            message: message.to_owned(),
        };
        assert_eq!(seen, [Err(expected.map_or(StoreError::Expired, unknown))]);
    }
    let (_, seen) = watched("{\"type\":\"DELETED\",\"object\":{\"metadata\":{}}}\n".to_owned()).await;
    assert!(
        matches!(seen.as_slice(), [Err(StoreError::Unknown { .. })]),
        "{seen:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn writes_have_their_content_type_and_the_field_manager_kubegc() {
    let pods = pods();
    let web = pod(&pods, "web");
    let base = "/api/v1/namespaces/shop/pods/web";
    for (format, media_type) in [
        (PatchType::Merge, "application/merge-patch+json"),
        (PatchType::Strategic, "application/strategic-merge-patch+json"),
        (PatchType::Json, "application/json-patch+json"),
    ] {
        let script = Script::of(vec![respond(200, &meta("web", "u", "8"))]);
        let store = script.store();
        let patched = store.patch(web, format, b"[1]").await;
        assert_eq!(patched.expect("patched").resource_version, "8".into());
        let status = store.patch_subresource(web, "status", format, b"[1]").await;
        status.expect("patched");
        // Subresources are replaced as a whole.
        let finalized = store.replace_subresource(web, "finalize", b"[1]").await;
        assert_eq!(finalized.expect("written").resource_version, "8".into());
        assert_eq!(
            script.lines(),
            [
                format!("PATCH {base}?fieldManager=kubegc"),
                format!("PATCH {base}/status?fieldManager=kubegc"),
                format!("PUT {base}/finalize?fieldManager=kubegc"),
            ]
        );
        let media_types = [media_type, media_type, "application/json"];
        for (request, media_type) in script.requests().iter().zip(media_types) {
            assert_eq!((&*request.content_type, &*request.body), (media_type, "[1]"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deletes_send_upstreams_fields_and_report_whether_the_object_remains() {
    let options = |propagation| DeleteOptions {
        propagation,
        preconditions: Preconditions {
            uid: Some(Uid::new("u")),
            resource_version: Some(ResourceVersion::new("7")),
        },
        ..DeleteOptions::default()
    };
    let marked = |grace: Option<i64>, finalizers: &[&str]| {
        let mut object = meta("web", "u", "8");
        object["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:05Z".into();
        object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        object["metadata"]["finalizers"] = json!(finalizers);
        object
    };
    let pods = pods();
    for (response, stays) in [
        (json!({"kind": "Status", "status": "Success"}), false),
        (meta("web", "u", "8"), false),
        (marked(Some(0), &[]), false),
        (marked(Some(30), &[]), true),
        (marked(Some(0), &["orphan"]), true),
        (marked(None, &[]), true),
    ] {
        let script = Script::of(vec![respond(200, &response)]);
        let policy = Some(Propagation::Policy(PropagationPolicy::Background));
        let deleted = script.store().delete(pod(&pods, "web"), &options(policy)).await;
        let is_terminating = matches!(deleted, Ok(Deleted::Terminating(_)));
        assert_eq!(is_terminating, stays, "{response}");
        let request = script.requests().remove(0);
        assert_eq!(request.line, "DELETE /api/v1/namespaces/shop/pods/web");
        let expected = r#"{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u","resourceVersion":"7"},"propagationPolicy":"Background"}"#;
        assert_eq!(request.body, format!("{expected}\n"));
    }
    let script = Script::of(vec![status(200)]);
    let store = script.store();
    let dry = DeleteOptions {
        dry_run: true,
        ..options(Some(Propagation::OrphanDependents(true)))
    };
    store.delete(pod(&pods, "web"), &dry).await.expect("deleted");
    let deleted = store.delete_collection(&pods, "shop", &dry).await;
    deleted.expect("deleted");
    let requests = script.requests();
    let body: Value = serde_json::from_str(&requests[0].body).expect("JSON");
    assert_eq!(body["dryRun"], json!(["All"]));
    assert_eq!(body["orphanDependents"], true);
    assert_eq!(requests[1].line, "DELETE /api/v1/namespaces/shop/pods");
    assert!(requests[1].body.contains("dryRun"), "{}", requests[1].body);
}

#[tokio::test(start_paused = true)]
async fn finalizers_are_replaced_in_the_whole_object_at_the_version_read() {
    let whole = json!({"kind": "Pod", "metadata": {"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "9",
        "finalizers": ["a", "orphan"]}, "spec": {"nodeName": "n"}});
    let pods = pods();
    for (left, expected) in [(vec!["a"], json!(["a"])), (vec![], Value::Null)] {
        let script = Script::of(vec![respond(200, &whole)]);
        let left: Vec<Arc<str>> = left.into_iter().map(Arc::from).collect();
        let version = ResourceVersion::new("7");
        let (store, web) = (script.store(), pod(&pods, "web"));
        let written = store.replace_finalizers(web, &version, &left).await;
        written.expect("written");
        let requests = script.requests();
        let put = "PUT /api/v1/namespaces/shop/pods/web?fieldManager=kubegc";
        assert_eq!(requests[1].line, put);
        let body: Value = serde_json::from_str(&requests[1].body).expect("JSON");
        assert_eq!(body["metadata"]["resourceVersion"], "7");
        assert_eq!(body["metadata"]["finalizers"], expected);
        assert_eq!(body["spec"]["nodeName"], "n");
    }
}

#[tokio::test(start_paused = true)]
async fn whole_objects_have_apiversion_and_kind() {
    let page = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "a"}, "spec": {"x": 1}}]});
    let store = Script::of(vec![respond(200, &page)]).store();
    let objects = store.list_objects(&pods(), None).await.expect("listed");
    let object: Value = serde_json::from_slice(&objects.items[0]).expect("JSON");
    let whole = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"x": 1}});
    assert_eq!(object, whole);
}

#[tokio::test(start_paused = true)]
async fn the_version_of_the_server_is_read_if_it_is_supported() {
    for (version, expected) in [
        ("v1.20.2", Some("1.20.2")),
        ("v1.33.1+k3s1", Some("1.33.1")),
        ("v2.0.0", None),
        ("v1.99.0", Some("1.99.0")),
        ("v1.12.0", None),
    ] {
        let info = json!({"major": "1", "minor": "20+", "gitVersion": version, "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
        let script = Script::of(vec![respond(200, &info)]);
        let got = kubegc_kube::version(&script.client()).await.ok();
        let got = got.map(|version| version.to_string());
        assert_eq!(got.as_deref(), expected, "{version}");
        assert_eq!(script.lines(), ["GET /version"]);
    }
}
