//! Sends HTTP requests to a small server: paths, headers and bodies from a grammar, or any bytes.
#![no_main]

use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use kubegc_core::{Catalog, Timestamp};
use kubegc_fuzz::Choices;
use kubegc_sim::{ApiServer, Settings};
use kubegc_testkit::http::{ApiResponse, Watch, WatchStep, read_call, respond};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const VERSIONS: [&str; 4] = ["1.15", "1.20", "1.28", "1.36"];

const METHODS: [Method; 8] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::GET,
    Method::HEAD,
    Method::OPTIONS,
];

const ROOTS: [&str; 12] = [
    "/api/v1",
    "/apis/apps/v1",
    "/apis/example.com/v1",
    "/apis/apiextensions.k8s.io/v1",
    "/apis/policy/v1",
    "/apis/authorization.k8s.io/v1",
    "/api",
    "/apis",
    "/apis/example.com",
    "/version",
    "/openapi/v2",
    "/healthz",
];

const RESOURCES: [&str; 12] = [
    "configmaps",
    "pods",
    "deployments",
    "widgets",
    "namespaces",
    "customresourcedefinitions",
    "nodes",
    "bindings",
    "selfsubjectaccessreviews",
    "poddisruptionbudgets",
    "componentstatuses",
    "unheard",
];

const NAMES: [&str; 8] = [
    "a",
    "b",
    "c",
    "shop",
    "widgets.example.com",
    "a%2Fb",
    "%41",
    "x y",
];

const PARTS: [&str; 7] = [
    "status", "scale", "eviction", "binding", "finalize", "exec", "proxy/x",
];

const PARAMETERS: [&str; 30] = [
    "watch=1",
    "watch=1&resourceVersion=3",
    "watch=1&allowWatchBookmarks=true&timeoutSeconds=90",
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1",
    "limit=1",
    "limit=2&continue=7b2276223a226d6574612e6b38732e696f2f7631222c227276223a352c226e616d657370616365223a2273686f70222c226e616d65223a2261227d",
    "continue=zz",
    "resourceVersion=4&resourceVersionMatch=Exact",
    "resourceVersion=0",
    "resourceVersion=99999999999999999999",
    "labelSelector=app%3Da",
    "labelSelector=app+in+(a,b),!c",
    "labelSelector=((",
    "fieldSelector=metadata.name%3Da",
    "fieldSelector=status.phase%21%3DRunning",
    "fieldSelector=%5C%2C%3D",
    "dryRun=All",
    "dryRun=Some",
    "fieldManager=fuzz",
    "fieldManager=fuzz&force=true",
    "fieldValidation=Strict",
    "propagationPolicy=Foreground",
    "propagationPolicy=Orphan&gracePeriodSeconds=-1",
    "orphanDependents=true",
    "gracePeriodSeconds=9223372036854775807",
    "timeoutSeconds=9223372036854775807",
    "limit=-9223372036854775808",
    "includeObject=Object",
    "pretty=true",
    "%zz=%",
];

const ACCEPTS: [&str; 9] = [
    "application/json",
    "*/*",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/vnd.kubernetes.protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/json;q=NaN,*/*;q=-1",
];

const TYPES: [&str; 8] = [
    "application/json",
    "application/yaml",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain;charset=x",
];

const BODIES: [&str; 22] = [
    "",
    "{}",
    "[]",
    r#"{"metadata":{"name":"a"}}"#,
    r#"{"metadata":{"name":"b","labels":{"app":"a"},"finalizers":["x.dev/hold"]},"data":{"a":"1"}}"#,
    r#"{"metadata":{"generateName":"g-"},"spec":{"replicas":1}}"#,
    r#"{"metadata":{"finalizers":null}}"#,
    r#"{"metadata":{"labels":{"app":"b"}},"status":{"phase":"Running"}}"#,
    r#"{"spec":{"replicas":7}}"#,
    r#"[{"op":"add","path":"/metadata/labels","value":{"app":"a"}}]"#,
    r#"[{"op":"remove","path":"/metadata"}]"#,
    r#"{"propagationPolicy":"Foreground","preconditions":{"uid":"x"}}"#,
    r#"{"kind":"DeleteOptions","dryRun":["All"]}"#,
    r#"{"dryRun":["Some"],"gracePeriodSeconds":0}"#,
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"2"}}"#,
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\nspec: {replicas: 2}\n",
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget","shortNames":["wd"]},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas"}}}]}}"#,
    r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a","namespace":"shop"}}"#,
    r#"{"metadata":{"name":"a"},"target":{"kind":"Node","name":"n"}}"#,
    r#"{"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"a"}}},"metadata":{"name":"a"}}"#,
    r#"{"metadata":{"name":"shop"},"spec":{"finalizers":[]}}"#,
    r#"{"metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":"u"},{"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":"u"}]}}"#,
];

/// A server of each release, with a namespace, a definition and a few objects.
static SERVERS: LazyLock<Vec<ApiServer>> = LazyLock::new(|| {
    let begin = |version: &&str| {
        let version = version.parse().expect("a release that kubegc knows");
        let settings = Settings {
            // Few enough for watchers to fall behind.
            events_max: 12,
            ..Settings::default()
        };
        let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(settings);
        for (url, body) in [
            ("/api/v1/namespaces", BODIES[20]),
            (
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                BODIES[16],
            ),
            ("/api/v1/namespaces/shop/configmaps", BODIES[3]),
            ("/api/v1/namespaces/shop/pods", BODIES[3]),
            ("/apis/apps/v1/namespaces/shop/deployments", BODIES[4]),
        ] {
            let request = Request::post(url).body(Bytes::from_static(body.as_bytes()));
            let request = request.expect("a valid request");
            let call = read_call(&server, &request);
            let _created = respond(&mut server, &call, &request);
        }
        server
    };
    VERSIONS.iter().map(begin).collect()
});

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let mut server = choices.of(&SERVERS).clone();
    let mut watches: Vec<(Watch, bool)> = Vec::new();
    for _ in 0..12 {
        if choices.is_over() {
            break;
        }
        let Some(request) = request(&mut choices) else {
            continue;
        };
        let before = server.revision();
        let call = read_call(&server, &request);
        let response = respond(&mut server, &call, &request);
        if call.dry_run || !call.verb.is_write() {
            assert_eq!(server.revision(), before, "{call}");
        }
        match response {
            ApiResponse::Whole(response) => {
                inspect(&response);
            }
            ApiResponse::Node(node) => {
                inspect(&node.unreachable);
            }
            ApiResponse::Stream { head, watch } => {
                assert_eq!(head.status(), 200);
                let is_json = head.headers()[header::CONTENT_TYPE] == "application/json";
                watches.push((watch, is_json));
            }
        }
        match choices.below(8) {
            0 => {
                let now = server.now().as_secs();
                server.set_now(Timestamp::from_secs(now + 61));
            }
            1 => server.prune_events(before),
            _ => {}
        }
        for (watch, is_json) in &mut watches {
            follow(watch, *is_json, &server);
        }
    }
});

/// What claims to be JSON is JSON, and refusals are statuses that say their code.
fn inspect(response: &http::Response<Bytes>) {
    let code = response.status().as_u16();
    assert!((200..600).contains(&code), "{code}");
    let content_type = response.headers().get(header::CONTENT_TYPE).expect("a content type");
    if !content_type.as_bytes().starts_with(b"application/json") {
        return;
    }
    let body: Value = serde_json::from_slice(response.body()).expect("JSON");
    if code >= 400 {
        assert_eq!(
            (body["kind"].as_str(), body["code"].as_u64()),
            (Some("Status"), Some(u64::from(code)))
        );
    }
}

/// A watch comes to rest, and says whole lines of JSON or whole frames of protobuf.
fn follow(watch: &mut Watch, is_json: bool, server: &ApiServer) {
    for _ in 0..1000 {
        match watch.poll(server) {
            WatchStep::Wait { .. } | WatchStep::End => return,
            WatchStep::Lines(frames) if !is_json => {
                let mut rest = &frames[..];
                while !rest.is_empty() {
                    let (length, after) = rest.split_first_chunk::<4>().expect("a length");
                    let (frame, after) = after.split_at(u32::from_be_bytes(*length) as usize);
                    assert!(
                        frame.starts_with(b"\x0a"),
                        "a frame begins with the type of the event"
                    );
                    rest = after;
                }
            }
            WatchStep::Lines(lines) => {
                assert_eq!(lines.last(), Some(&b'\n'));
                for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    let event: Value = serde_json::from_slice(line).expect("a line is JSON");
                    let known = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"];
                    assert!(known.iter().any(|known| event["type"] == *known), "{event}");
                    assert!(event["object"].is_object(), "{event}");
                }
            }
        }
    }
    panic!("the watch never rests");
}

/// The next request; `None` where the bytes are none that HTTP carries.
fn request(choices: &mut Choices<'_>) -> Option<Request<Bytes>> {
    let method = choices.of(&METHODS).clone();
    let uri: Uri = path(choices).parse().ok()?;
    let mut request = Request::builder().method(method).uri(uri);
    for (name, known) in [(header::ACCEPT, &ACCEPTS[..]), (header::CONTENT_TYPE, &TYPES[..])] {
        request = set(request, choices, name, known)?;
    }
    let body = if choices.below(8) == 7 {
        choices.text()
    } else {
        (*choices.of(&BODIES)).to_owned()
    };
    request.body(body.into()).ok()
}

fn set(
    request: http::request::Builder,
    choices: &mut Choices<'_>,
    name: HeaderName,
    known: &[&str],
) -> Option<http::request::Builder> {
    let text = match choices.below(16) {
        0..4 => return Some(request),
        15 => choices.text(),
        _ => (*choices.of(known)).to_owned(),
    };
    let value = HeaderValue::from_bytes(text.as_bytes()).ok()?;
    Some(request.header(name, value))
}

fn path(choices: &mut Choices<'_>) -> String {
    let mut path = (*choices.of(&ROOTS)).to_owned();
    let shape = choices.byte();
    if shape == 255 {
        return format!("/{}", choices.text());
    }
    if shape & 1 == 1 {
        path += "/namespaces/shop";
    }
    if shape & 6 != 0 {
        path = format!("{path}/{}", choices.of(&RESOURCES));
    }
    if shape & 24 == 24 {
        path = format!("{path}/{}", choices.of(&NAMES));
        if shape & 32 == 32 {
            path = format!("{path}/{}", choices.of(&PARTS));
        }
    }
    for at in 0..shape >> 6 {
        path += if at == 0 { "?" } else { "&" };
        path += *choices.of::<&str>(&PARAMETERS);
    }
    path
}
