//! The requests that kube 5 sends, built by its own code, and what it reads from the responses.

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    api::{
        DeleteParams, GetParams, ListParams, ObjectList, PartialObjectMeta, Patch, PatchParams, PostParams,
        Preconditions, VersionMatch, WatchEvent, WatchParams,
    },
    core::{Request, Status, discovery::v2},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::world::{World, widgets, world};

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

/// Sends what kube built, adding the header that its client adds.
fn send(world: &mut World, request: http::Request<Vec<u8>>) -> (u16, Value) {
    let reply = world.perform(&request.map(Into::into));
    (reply.code, reply.json())
}

fn read<T: DeserializeOwned>(response: (u16, Value)) -> T {
    serde_json::from_value(response.1.clone()).unwrap_or_else(|error| panic!("{error}: {response:?}"))
}

#[test]
fn objects_go_there_and_back() {
    let mut world = world();
    let maps = Request::new(MAPS);
    let body = br#"{"metadata":{"name":"a"},"data":{"a":"1"}}"#.to_vec();
    let created: ConfigMap = read(send(
        &mut world,
        maps.create(&PostParams::default(), body).expect("valid"),
    ));
    assert_eq!(created.metadata.name.as_deref(), Some("a"));
    let got: ConfigMap = read(send(
        &mut world,
        maps.get("a", &GetParams::default()).expect("valid"),
    ));
    assert_eq!(got, created);
    let list: ObjectList<ConfigMap> = read(send(
        &mut world,
        maps.list(&ListParams::default().limit(500)).expect("valid"),
    ));
    assert_eq!(
        (list.items.len(), list.items[0].data.clone()),
        (1, created.data.clone())
    );
    let body = serde_json::to_vec(&got).expect("valid");
    let replaced: ConfigMap = read(send(
        &mut world,
        maps.replace("a", &PostParams::default(), body).expect("valid"),
    ));
    assert_eq!(replaced, created, "nothing changed");
    let meta: PartialObjectMeta<ConfigMap> = read(send(
        &mut world,
        maps.get_metadata("a", &GetParams::default()).expect("valid"),
    ));
    assert_eq!(meta.metadata, created.metadata);
    let metas: ObjectList<PartialObjectMeta<ConfigMap>> = read(send(
        &mut world,
        maps.list_metadata(&ListParams::default()).expect("valid"),
    ));
    assert_eq!(
        (metas.items.len(), metas.metadata.resource_version),
        (1, list.metadata.resource_version)
    );
    let missing = send(&mut world, maps.get("b", &GetParams::default()).expect("valid"));
    let status: Status = read(missing);
    assert!(status.is_not_found() && status.code == 404, "{status:?}");
}

#[test]
fn patches_carry_their_type_and_manager() {
    let mut world = world();
    world.config_maps("shop", &["a"]);
    let maps = Request::new(MAPS);
    let data = json!({"data": {"b": "2"}});
    let whole =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"c": "3"}});
    let operations = json!([{"op": "add", "path": "/data/d", "value": "4"}]);
    let operations = serde_json::from_value(operations).expect("a JSON patch");
    for (patch, key) in [
        (Patch::Merge(data.clone()), "b"),
        (Patch::Strategic(data), "b"),
        (Patch::Apply(whole), "c"),
        (Patch::Json(operations), "d"),
    ] {
        let params = PatchParams::apply("operator");
        let params = if matches!(patch, Patch::Apply(_)) {
            params.force()
        } else {
            params
        };
        let request = maps.patch("a", &params, &patch).expect("valid");
        let call = kubegc_testkit::http::read_call(&world.server, &request.clone().map(Into::into));
        assert_eq!(call.field_manager, "operator");
        let patched: ConfigMap = read(send(&mut world, request));
        assert!(patched.data.is_some_and(|data| data.contains_key(key)), "{key}");
    }
    let status = json!({"status": {"phase": "Running"}});
    world.create(
        "/api/v1/namespaces/shop/pods",
        &json!({"metadata": {"name": "p"}, "spec": {"containers": []}}),
    );
    let pods = Request::new("/api/v1/namespaces/shop/pods");
    let request = pods.patch_subresource("status", "p", &PatchParams::default(), &Patch::Merge(status));
    let pod: Pod = read(send(&mut world, request.expect("valid")));
    assert_eq!(
        pod.status.and_then(|status| status.phase).as_deref(),
        Some("Running")
    );
}

#[test]
fn deletions_carry_their_options() {
    let mut world = world();
    let held = json!({"metadata": {"name": "a", "finalizers": ["x.dev/hold"]}});
    let created = world.create(MAPS, &held);
    let maps = Request::new(MAPS);
    let stale = DeleteParams::default().preconditions(Preconditions {
        uid: Some("another".to_owned()),
        resource_version: None,
    });
    let refused: Status = read(send(&mut world, maps.delete("a", &stale).expect("valid")));
    assert!(refused.is_conflict(), "{refused:?}");
    let dry = DeleteParams::foreground().dry_run();
    let revision = world.server.revision();
    let (code, shown) = send(&mut world, maps.delete("a", &dry).expect("valid"));
    assert_eq!(
        (code, &shown["metadata"]["finalizers"]),
        (200, &json!(["x.dev/hold", "foregroundDeletion"]))
    );
    assert_eq!(world.server.revision(), revision);
    let exact = DeleteParams::orphan().preconditions(Preconditions {
        uid: created["metadata"]["uid"].as_str().map(str::to_owned),
        resource_version: created["metadata"]["resourceVersion"].as_str().map(str::to_owned),
    });
    let (code, kept) = send(&mut world, maps.delete("a", &exact).expect("valid"));
    assert_eq!(
        (code, &kept["metadata"]["finalizers"]),
        (200, &json!(["x.dev/hold", "orphan"]))
    );
    let all = maps.delete_collection(&DeleteParams::background(), &ListParams::default());
    let (code, list) = send(&mut world, all.expect("valid"));
    assert_eq!((code, &list["kind"]), (200, &json!("ConfigMapList")));
}

#[test]
fn watches_are_read_line_by_line() {
    let mut world = world();
    world.config_maps("shop", &["a"]);
    let maps = Request::new(MAPS);
    let params = WatchParams::default().initial_events();
    let watch = |request: http::Request<Vec<u8>>, world: &mut World| {
        let request = request.map(Into::into);
        let kubegc_testkit::http::ApiResponse::Stream { watch, .. } = world.respond(&request) else {
            panic!("no watch: {}", request.uri());
        };
        watch
    };
    let mut list = watch(maps.watch(&params, "0").expect("valid"), &mut world);
    let events: Vec<WatchEvent<ConfigMap>> = typed(&world.lines(&mut list).0);
    assert!(matches!(&events[0], WatchEvent::Added(map) if map.metadata.name.as_deref() == Some("a")));
    let WatchEvent::Bookmark(bookmark) = &events[1] else {
        panic!("{events:?}");
    };
    assert_eq!(
        bookmark
            .metadata
            .annotations
            .get("k8s.io/initial-events-end")
            .map(String::as_str),
        Some("true")
    );
    assert_eq!(
        bookmark.metadata.resource_version,
        world.server.revision().to_string()
    );

    let revision = world.server.revision();
    let old = watch(
        maps.watch(&WatchParams::default(), "1").expect("valid"),
        &mut world,
    );
    let mut metas = watch(
        maps.watch_metadata(&WatchParams::default().labels("app=a"), &revision.to_string())
            .expect("valid"),
        &mut world,
    );
    world.patch(
        &format!("{MAPS}/a"),
        &json!({"metadata": {"labels": {"app": "z"}}}),
    );
    let events: Vec<WatchEvent<PartialObjectMeta<ConfigMap>>> = typed(&world.lines(&mut metas).0);
    assert!(matches!(&events[..], [WatchEvent::Deleted(meta)] if meta.metadata.name.as_deref() == Some("a")));
    world.server.prune_events(world.server.revision());
    let events: Vec<WatchEvent<ConfigMap>> = typed(&world.lines(&mut { old }).0);
    assert!(
        matches!(&events[..], [WatchEvent::Error(status)] if status.code == 410),
        "{events:?}"
    );
}

fn typed<T: DeserializeOwned>(lines: &[Value]) -> Vec<T> {
    let read =
        |line: &Value| serde_json::from_value(line.clone()).unwrap_or_else(|error| panic!("{error}: {line}"));
    lines.iter().map(read).collect()
}

#[test]
fn lists_follow_their_parameters() {
    let mut world = world();
    world.config_maps("shop", &["a", "b", "c"]);
    let maps = Request::new(MAPS);
    let mut names = Vec::new();
    let mut params = ListParams::default().limit(2);
    loop {
        let list: ObjectList<ConfigMap> = read(send(&mut world, maps.list(&params).expect("valid")));
        names.extend(list.items.iter().filter_map(|map| map.metadata.name.clone()));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = ListParams::default().limit(2).continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["a", "b", "c"]);
    let revision = world.server.revision().to_string();
    world.config_maps("shop", &["d"]);
    for (params, expected) in [
        (ListParams::default().labels("app in (a,c)"), 2),
        (ListParams::default().fields("metadata.name=b"), 1),
        (
            ListParams::default().at(&revision).matching(VersionMatch::Exact),
            3,
        ),
        (ListParams::default().match_any(), 4),
    ] {
        let list: ObjectList<ConfigMap> = read(send(&mut world, maps.list(&params).expect("valid")));
        assert_eq!(list.items.len(), expected, "{params:?}");
    }
}

#[test]
fn discovery_is_read_in_both_forms() {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList, APIVersions};
    let mut world = world();
    world.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &widgets(),
    );
    let read = |world: &mut World, url: &str| world.send(Method::GET, url, &[], &Value::Null).json();
    let groups: APIGroupList = serde_json::from_value(read(&mut world, "/apis")).expect("groups");
    assert!(groups.groups.iter().any(|group| group.name == "example.com"));
    let versions: APIVersions = serde_json::from_value(read(&mut world, "/api")).expect("versions");
    assert_eq!(versions.versions, ["v1"]);
    let list: APIResourceList =
        serde_json::from_value(read(&mut world, "/apis/example.com/v1")).expect("resources");
    assert_eq!(
        list.resources[0].short_names.as_deref(),
        Some(&["wd".to_owned()][..])
    );
    let info: k8s_openapi::apimachinery::pkg::version::Info =
        serde_json::from_value(read(&mut world, "/version")).expect("a version");
    assert_eq!(info.git_version, "v1.36.0");
    for path in ["/api", "/apis"] {
        let reply = world.get_as(path, v2::ACCEPT_AGGREGATED_DISCOVERY_V2);
        let list: v2::APIGroupDiscoveryList =
            serde_json::from_str(&reply.text).expect("aggregated discovery");
        assert!(!list.items.is_empty(), "{path}");
    }
}
