//! Sends requests to a small server and reads what comes back.

use std::fmt::Write as _;

use bytes::Bytes;
use http::Method;
use kubegc_core::{Catalog, KubernetesVersion, Timestamp};
use kubegc_sim::{ApiServer, Settings};
use kubegc_testkit::http::{AccessRules, ApiResponse, Call, Watch, WatchStep, read_call, respond_as};
use serde_json::{Value, json};

pub(crate) const MERGE: &str = "application/merge-patch+json";

/// A server with the namespaces `shop` and `bank`.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) rules: AccessRules,
}

/// A response, read.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) content_type: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) text: String,
    pub(crate) body: Bytes,
}

impl Reply {
    /// The body, which must be JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The message of a Status.
    pub(crate) fn message(&self) -> String {
        let body = self.json();
        assert_eq!(body["kind"], "Status", "{body}");
        body["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The version of an object or a list.
    pub(crate) fn revision(&self) -> String {
        text(&self.json()["metadata"]["resourceVersion"])
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn world() -> World {
    at_version("1.36")
}

pub(crate) fn at_version(version: &str) -> World {
    let version: KubernetesVersion = version.parse().expect("a release that kubegc knows");
    let settings = Settings {
        seed: 7,
        ..Settings::default()
    };
    let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(settings);
    server.set_now(Timestamp::from_secs(1_000_000));
    let mut world = World {
        server,
        rules: AccessRules::default(),
    };
    for namespace in ["shop", "bank"] {
        world.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}}));
    }
    world
}

pub(crate) fn request(
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> http::Request<Bytes> {
    let mut request = http::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.into()).expect("the tests write valid requests")
}

impl World {
    pub(crate) fn call(&self, method: Method, url: &str) -> Call {
        read_call(&self.server, &request(method, url, &[], ""))
    }

    pub(crate) fn respond(&mut self, request: &http::Request<Bytes>) -> ApiResponse {
        let call = read_call(&self.server, request);
        respond_as(&mut self.server, &call, request, "kubernetes-admin", &self.rules)
    }

    pub(crate) fn perform(&mut self, request: &http::Request<Bytes>) -> Reply {
        let response = match self.respond(request) {
            ApiResponse::Whole(response) => response,
            ApiResponse::Node(node) => node.unreachable,
            ApiResponse::Stream { .. } => panic!("a watch: {request:?}"),
        };
        let header = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = response.headers();
        Reply {
            code: response.status().as_u16(),
            content_type: headers.get("content-type").map(header).unwrap_or_default(),
            warnings: headers.get_all("warning").iter().map(header).collect(),
            text: String::from_utf8_lossy(response.body()).into_owned(),
            body: response.body().clone(),
        }
    }

    pub(crate) fn send(
        &mut self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Reply {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.perform(&request(method, url, headers, body))
    }

    pub(crate) fn get(&mut self, url: &str) -> Reply {
        self.get_as(url, "application/json")
    }

    pub(crate) fn get_as(&mut self, url: &str, accept: &str) -> Reply {
        self.send(Method::GET, url, &[("accept", accept)], &Value::Null)
    }

    pub(crate) fn post(&mut self, url: &str, body: &Value) -> Reply {
        self.send(Method::POST, url, &[], body)
    }

    pub(crate) fn patch(&mut self, url: &str, body: &Value) -> Reply {
        self.send(Method::PATCH, url, &[("content-type", MERGE)], body)
    }

    pub(crate) fn delete(&mut self, url: &str) -> Reply {
        self.send(Method::DELETE, url, &[], &Value::Null)
    }

    /// Sends the requests of a transcript: a line each, `METHOD URL body -> code message`. A body may be absent,
    /// and begins with its media type in parentheses if that is not JSON.
    pub(crate) fn transcript(&mut self, expected: &str) {
        let mut transcript = String::new();
        for line in expected.trim().lines() {
            let asked = line.split_once(" -> ").map_or(line, |(asked, _)| asked);
            let (method, rest) = asked.split_once(' ').expect("a method and a URL");
            let (url, body) = rest.split_once(' ').unwrap_or((rest, ""));
            let (media_type, body) = match body.strip_prefix('(').and_then(|body| body.split_once(')')) {
                Some((media_type, body)) => (media_type, body.trim_start()),
                None => ("application/json", body),
            };
            let method = method.parse().expect("a method");
            let headers = [("content-type", media_type)];
            let reply = self.perform(&request(method, url, &headers, body.to_owned()));
            let body: Value = serde_json::from_str(&reply.text).unwrap_or_else(|_| json!(reply.text));
            let message = body.get("message").unwrap_or(&body).as_str().unwrap_or_default();
            let outcome = format!("{} {}", reply.code, message.lines().next().unwrap_or_default());
            writeln!(transcript, "{asked} -> {}", outcome.trim_end()).expect("a string");
        }
        assert_eq!(transcript.trim(), expected.trim());
    }

    /// Creates an object, which must succeed.
    pub(crate) fn create(&mut self, url: &str, body: &Value) -> Value {
        let reply = self.post(url, body);
        assert_eq!(reply.code, 201, "{}", reply.text);
        reply.json()
    }

    /// Creates config maps of these names in a namespace.
    pub(crate) fn config_maps(&mut self, namespace: &str, names: &[&str]) {
        for name in names {
            let body = json!({"metadata": {"name": name, "labels": {"app": name}}, "data": {"a": "1"}});
            self.create(&format!("/api/v1/namespaces/{namespace}/configmaps"), &body);
        }
    }

    pub(crate) fn watch(&mut self, url: &str) -> Watch {
        let request = request(Method::GET, url, &[("accept", "application/json")], "");
        match self.respond(&request) {
            ApiResponse::Stream { head, watch } => {
                assert_eq!(head.status(), 200);
                watch
            }
            other => panic!("no watch: {other:?}"),
        }
    }

    pub(crate) fn advance_s(&mut self, seconds: i64) {
        let now = self.server.now().as_secs() + seconds;
        self.server.set_now(Timestamp::from_secs(now));
    }

    /// The events of a watch until it waits or ends, and whether it ended.
    pub(crate) fn lines(&self, watch: &mut Watch) -> (Vec<Value>, bool) {
        let mut lines = Vec::new();
        for _ in 0..10_000 {
            match watch.poll(&self.server) {
                WatchStep::Lines(bytes) => {
                    let text = str::from_utf8(&bytes).expect("lines are text");
                    assert!(text.ends_with('\n'), "{text}");
                    lines.extend(text.lines().map(|line| {
                        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"))
                    }));
                }
                WatchStep::Wait { .. } => return (lines, false),
                WatchStep::End => return (lines, true),
            }
        }
        panic!("the watch never rests");
    }

    /// The types and names of the next events of a watch.
    pub(crate) fn seen(&self, watch: &mut Watch) -> String {
        let (lines, ended) = self.lines(watch);
        assert!(!ended, "{lines:?}");
        let event = |line: &Value| {
            [&line["type"], &line["object"]["metadata"]["name"]]
                .map(text)
                .join(" ")
        };
        lines.iter().map(event).collect::<Vec<_>>().join(", ")
    }
}

/// A CustomResourceDefinition of widgets, with everything that discovery reports.
pub(crate) fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {
                "plural": "widgets",
                "singular": "widget",
                "kind": "Widget",
                "listKind": "WidgetList",
                "shortNames": ["wd"],
                "categories": ["all", "example"],
            },
            "versions": [
                {"name": "v1alpha1", "served": true, "storage": false, "schema": {}},
                {
                    "name": "v1",
                    "served": true,
                    "storage": true,
                    "schema": {},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                    },
                },
            ],
        },
    })
}
