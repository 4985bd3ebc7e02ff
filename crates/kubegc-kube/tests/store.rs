//! Requests and responses of each operation of the store.

use std::{sync::Arc, time::Duration};

use kubegc_core::{
    ApiResource, DeleteOptions, ObjectStore, PatchType, Preconditions, PropagationPolicy, ResourceVersion,
    Scope, StoreError, Uid,
    deletion::{Deleted, Propagation},
    store::{Address, WatchItem},
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
            assert!(
                matches!(error, Some(StoreError::Refused { code: 404, .. })),
                "{error:?}"
            );
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
    assert!(
        matches!(unnamed, Err(StoreError::Refused { code: 400, .. })),
        "not the whole collection"
    );
    assert!(script.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn reads_request_metadata_only() {
    let script = Script::of(vec![respond(200, &meta("web", "u", "7"))]);
    let pods = pods();
    let got = script.store().get(pod(&pods, "web")).await.expect("there");
    assert_eq!(
        (got.uid, got.resource_version),
        (Uid::new("u"), ResourceVersion::new("7"))
    );
    let request = script.requests().remove(0);
    assert_eq!(
        (request.line.as_str(), request.accept.as_str()),
        ("GET /api/v1/namespaces/shop/pods/web", META)
    );
}

#[tokio::test(start_paused = true)]
async fn lists_are_read_to_their_last_page() {
    let script = Script::of(vec![
        respond(200, &list("9", &["a", "b"], "more")),
        respond(200, &list("9", &["c"], "")),
    ]);
    let listed = script.store().list(&pods(), None).await.expect("listed");
    let names: Vec<&str> = listed.items.iter().map(|meta| &*meta.name).collect();
    assert_eq!(
        (names, listed.resource_version.as_str()),
        (vec!["a", "b", "c"], "9")
    );
    assert_eq!(
        script.lines(),
        [
            "GET /api/v1/pods?limit=500",
            "GET /api/v1/pods?limit=500&continue=more"
        ]
    );
    assert!(
        script
            .requests()
            .iter()
            .all(|request| request.accept == META_LIST)
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_next_page_is_expired_starts_again() {
    let pages = |times: usize| {
        let mut responses = Vec::new();
        for _ in 0..times {
            responses.push(respond(200, &list("9", &["old"], "more")));
            responses.push(status(410));
        }
        responses.push(respond(200, &list("12", &["a"], "more")));
        responses.push(respond(200, &list("12", &["b"], "")));
        responses
    };
    for times in 1..=3 {
        let script = Script::of(pages(times));
        let listed = script.store().list(&pods(), Some("shop")).await.expect("listed");
        let names: Vec<&str> = listed.items.iter().map(|meta| &*meta.name).collect();
        assert_eq!((names, listed.resource_version.as_str()), (vec!["a", "b"], "12"));
        assert_eq!(script.lines().len(), 2 * times + 2);
        assert_eq!(script.lines()[2], "GET /api/v1/namespaces/shop/pods?limit=500");
    }
    let script = Script::of(pages(4));
    assert_eq!(script.store().list(&pods(), None).await, Err(StoreError::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_list_for_a_watch_is_served_from_the_watch_cache_as_upstreams_reflector_requests() {
    let script = Script::of(vec![
        respond(200, &list("9", &["a"], "more")),
        respond(200, &list("9", &["b"], "")),
        respond(200, &list("12", &["c"], "")),
    ]);
    let (store, pods) = (script.store(), pods());
    let first = store.list_for_watch(&pods, &ResourceVersion::default()).await;
    let first = first.expect("listed");
    assert_eq!((first.items.len(), first.resource_version.as_str()), (2, "9"));
    let later = store.list_for_watch(&pods, &ResourceVersion::new("11")).await;
    assert_eq!(later.expect("listed").resource_version.as_str(), "12");
    assert_eq!(
        script.lines(),
        [
            "GET /api/v1/pods?limit=500&resourceVersion=0",
            "GET /api/v1/pods?limit=500&continue=more",
            "GET /api/v1/pods?resourceVersion=11",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_for_a_watch_is_consistent_if_the_server_does_not_have_the_version() {
    let too_large = json!({"kind": "Status", "code": 504, "reason": "Timeout",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}});
    for response in [status(410), respond(504, &too_large)] {
        let script = Script::of(vec![response, respond(200, &list("7", &["a"], ""))]);
        let listed = script
            .store()
            .list_for_watch(&pods(), &ResourceVersion::new("11"))
            .await;
        assert_eq!(listed.expect("listed").resource_version.as_str(), "7");
        assert_eq!(
            script.lines(),
            [
                "GET /api/v1/pods?resourceVersion=11",
                "GET /api/v1/pods?limit=500"
            ]
        );
    }
}

fn watch_lines(lines: &[Value]) -> ScriptedResponse {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    ScriptedResponse {
        code: 200,
        headers: Vec::new(),
        body,
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_delivers_changes_bookmarks_and_its_end() {
    let script = Script::of(vec![watch_lines(&[
        json!({"type": "ADDED", "object": meta("a", "u", "5")}),
        json!({"type": "MODIFIED", "object": meta("a", "u", "6")}),
        json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8", "creationTimestamp": null}}}),
        json!({"type": "SOMETHING", "object": meta("a", "u", "6")}),
        json!({"type": "DELETED", "object": meta("a", "u", "9")}),
    ])]);
    let mut watch = script
        .store()
        .watch(&pods(), &ResourceVersion::new("4"))
        .await
        .expect("opened");
    let mut seen = Vec::new();
    while let Some(item) = watch.next().await {
        seen.push(match item.expect("no failure") {
            WatchItem::Applied(meta) => format!("applied {}", meta.resource_version),
            WatchItem::Deleted(meta) => format!("deleted {}", meta.resource_version),
            WatchItem::Bookmark(version) => format!("bookmark {version}"),
        });
    }
    assert_eq!(seen, ["applied 5", "applied 6", "bookmark 8", "deleted 9"]);
    assert_eq!(watch.next().await, None, "the watch stays ended");
    let request = script.requests().remove(0);
    let expected = "&allowWatchBookmarks=true&resourceVersion=4";
    assert!(
        request
            .line
            .starts_with("GET /api/v1/pods?watch=true&timeoutSeconds=2"),
        "{}",
        request.line
    );
    assert!(
        request.line.ends_with(expected) && request.accept == META,
        "{request:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_error_event_is_classified_and_ends_the_watch() {
    let unknown = |message: &str| StoreError::Unknown {
        message: message.to_owned(),
    };
    for (line, expected) in [
        (
            json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}),
            StoreError::Expired,
        ),
        (
            json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}),
            StoreError::Expired,
        ),
        (
            json!({"type": "ERROR", "object": {"kind": "Status", "reason": "Gone", "message": "too old"}}),
            StoreError::Expired,
        ),
        (
            json!({"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd"}}),
            unknown("etcd"),
        ),
        (
            json!({"kind": "Status", "code": 504, "message": "late"}),
            unknown("late"),
        ),
    ] {
        let script = Script::of(vec![watch_lines(&[
            line,
            json!({"type": "ADDED", "object": meta("a", "u", "5")}),
        ])]);
        let mut watch = script
            .store()
            .watch(&pods(), &ResourceVersion::new("4"))
            .await
            .expect("opened");
        assert_eq!(watch.next().await, Some(Err(expected)));
        assert_eq!(watch.next().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_truncated_line_is_not_delivered() {
    let mut cut = watch_lines(&[json!({"type": "ADDED", "object": meta("a", "u", "5")})]);
    cut.body
        .push_str(r#"{"type":"DELETED","object":{"metadata":{"na"#);
    let mut watch = Script::of(vec![cut])
        .store()
        .watch(&pods(), &ResourceVersion::default())
        .await
        .expect("opened");
    assert!(matches!(watch.next().await, Some(Ok(WatchItem::Applied(_)))));
    assert_eq!(watch.next().await, None);
    let mut odd = watch_lines(&[]);
    odd.body
        .push_str("{\"type\":\"DELETED\",\"object\":{\"metadata\":{}}}\n");
    let mut watch = Script::of(vec![odd])
        .store()
        .watch(&pods(), &ResourceVersion::default())
        .await
        .expect("opened");
    assert!(matches!(
        watch.next().await,
        Some(Err(StoreError::Unknown { .. }))
    ));
}

#[tokio::test(start_paused = true)]
async fn subresources_are_replaced_as_a_whole() {
    let script = Script::of(vec![respond(200, &meta("web", "u", "8"))]);
    let (store, pods) = (script.store(), pods());
    let body = br#"{"spec":{"finalizers":[]}}"#;
    let written = store
        .replace_subresource(pod(&pods, "web"), "finalize", body)
        .await
        .expect("written");
    assert_eq!(written.resource_version, "8".into());
    assert_eq!(
        script.lines(),
        ["PUT /api/v1/namespaces/shop/pods/web/finalize?fieldManager=kubegc"]
    );
    let requests = script.requests();
    assert_eq!(requests[0].content_type, "application/json");
    assert_eq!(requests[0].body.as_bytes(), body);
}

#[tokio::test(start_paused = true)]
async fn patches_have_their_content_type_and_the_field_manager_kubegc() {
    for (format, media_type) in [
        (PatchType::Merge, "application/merge-patch+json"),
        (PatchType::Strategic, "application/strategic-merge-patch+json"),
        (PatchType::Json, "application/json-patch+json"),
    ] {
        let script = Script::of(vec![respond(200, &meta("web", "u", "8"))]);
        let (store, pods) = (script.store(), pods());
        store
            .patch(pod(&pods, "web"), format, b"[1]")
            .await
            .expect("patched");
        store
            .patch_subresource(pod(&pods, "web"), "status", format, b"[1]")
            .await
            .expect("patched");
        let base = "PATCH /api/v1/namespaces/shop/pods/web";
        assert_eq!(
            script.lines(),
            [
                format!("{base}?fieldManager=kubegc"),
                format!("{base}/status?fieldManager=kubegc"),
            ]
        );
        assert!(
            script
                .requests()
                .iter()
                .all(|request| request.content_type == media_type && request.body == "[1]")
        );
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
        assert_eq!(
            matches!(deleted, Ok(Deleted::Terminating(_))),
            stays,
            "{response}"
        );
        let request = script.requests().remove(0);
        assert_eq!(request.line, "DELETE /api/v1/namespaces/shop/pods/web");
        let expected =
            r#"{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u","resourceVersion":"7"},"#;
        assert_eq!(
            request.body,
            format!("{expected}\"propagationPolicy\":\"Background\"}}\n")
        );
    }
    let script = Script::of(vec![status(200)]);
    let store = script.store();
    let dry = DeleteOptions {
        dry_run: true,
        ..options(Some(Propagation::OrphanDependents(true)))
    };
    store.delete(pod(&pods, "web"), &dry).await.expect("deleted");
    store
        .delete_collection(&pods, "shop", &dry)
        .await
        .expect("deleted");
    let requests = script.requests();
    let body: Value = serde_json::from_str(&requests[0].body).expect("JSON");
    assert_eq!(
        (&body["dryRun"], &body["orphanDependents"]),
        (&json!(["All"]), &json!(true))
    );
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
        script
            .store()
            .replace_finalizers(pod(&pods, "web"), &version, &left)
            .await
            .expect("written");
        let requests = script.requests();
        assert_eq!(
            requests[1].line,
            "PUT /api/v1/namespaces/shop/pods/web?fieldManager=kubegc"
        );
        let body: Value = serde_json::from_str(&requests[1].body).expect("JSON");
        assert_eq!(body["metadata"]["resourceVersion"], "7");
        assert_eq!(body["metadata"]["finalizers"], expected);
        assert_eq!(body["spec"]["nodeName"], "n");
    }
}

#[tokio::test(start_paused = true)]
async fn whole_objects_have_apiversion_and_kind() {
    let page = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "a"}, "spec": {"x": 1}}]});
    let objects = Script::of(vec![respond(200, &page)])
        .store()
        .list_objects(&pods(), None)
        .await
        .expect("listed");
    let object: Value = serde_json::from_slice(&objects.items[0]).expect("JSON");
    assert_eq!(
        object,
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"x": 1}})
    );
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
        let got = kubegc_kube::version(&script.client())
            .await
            .ok()
            .map(|version| version.to_string());
        assert_eq!(got.as_deref(), expected, "{version}");
        assert_eq!(script.lines(), ["GET /version"]);
    }
}
