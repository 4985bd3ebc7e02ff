//! One request to the simulated server, as the recorder sent it.

use std::{fmt::Write as _, sync::LazyLock};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use kubegc_sim::ApiServer;
use kubegc_testkit::http::{AccessRules, ApiResponse, WatchStep, read_call, respond_as};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::{Request, Response, USER, matching::Matcher};
use crate::failure::pattern;

/// Sends a request, its placeholders replaced by what was received before. `bodies` are the responses so far.
///
/// Returns the request as text, and the response.
pub(super) fn run(
    server: &mut ApiServer,
    request: &Request,
    matcher: &Matcher,
    bodies: &[Value],
) -> (String, Response) {
    let path = matcher.filled(&request.path);
    let query = list_versions(&matcher.filled(&request.query), bodies);
    let uri = if query.is_empty() {
        path
    } else {
        format!("{path}?{query}")
    };
    let shown = format!("{} {uri}", request.method);
    let body = match (&request.raw_body, &request.body) {
        (Some(text), _) => matcher.filled(text),
        (None, Value::Null) => String::new(),
        (None, body) => {
            let mut body = matcher.filled_value(body);
            fill_dates(&mut body, bodies);
            ascii(&body.to_string())
        }
    };
    let mut builder = http::Request::builder()
        .method(&*request.method)
        .uri(uri)
        .header(
            USER_AGENT,
            request.user_agent.as_deref().unwrap_or("recorder/1.0"),
        )
        .header(ACCEPT, request.accept.as_deref().unwrap_or("application/json"));
    if let Some(content_type) = &request.content_type {
        builder = builder.header(CONTENT_TYPE, content_type);
    }
    let sent = match builder.body(Bytes::from(body)) {
        Ok(sent) => sent,
        Err(problem) => {
            let body = json!({"raw": format!("the request cannot be sent: {problem}")});
            return (shown, Response { code: 0, body });
        }
    };
    let call = read_call(server, &sent);
    let whole = |response: &http::Response<Bytes>| (response.status(), read(response.body()));
    let (status, body) = match respond_as(server, &call, &sent, USER, &AccessRules::default()) {
        ApiResponse::Whole(response) => whole(&response),
        ApiResponse::Node(node) => whole(&node.unreachable),
        ApiResponse::Stream { head, mut watch } => {
            let mut events = Vec::new();
            // Ends: nothing changes meanwhile, and each wait leads to the next event or to the timeout.
            loop {
                match watch.poll(server) {
                    WatchStep::Lines(lines) => events.extend(
                        lines
                            .split(|&byte| byte == b'\n')
                            .filter(|line| !line.is_empty())
                            .map(read),
                    ),
                    WatchStep::Wait { until: Some(until) } => server.set_now(until),
                    WatchStep::Wait { until: None } | WatchStep::End => break,
                }
            }
            (head.status(), json!({"events": events}))
        }
    };
    let code = status.as_u16();
    (shown, Response { code, body })
}

/// A body as recordings hold it.
fn read(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| json!({"raw": String::from_utf8_lossy(body)}))
}

/// Replaces `<listrv:N>` by the version of the list that the response N is.
fn list_versions(query: &str, bodies: &[Value]) -> String {
    static LIST: LazyLock<Regex> = LazyLock::new(|| pattern("<listrv:([^>]*)>"));
    let version = |placeholder: &Captures<'_>| {
        let list = placeholder[1].parse::<usize>().ok();
        let list = list.and_then(|index| bodies.get(index));
        let version = list.and_then(|list| list.pointer("/metadata/resourceVersion")?.as_str());
        version.unwrap_or_default().to_owned()
    };
    LIST.replace_all(query, version).into_owned()
}

/// Replaces the dates of an object that was received before: each by the one that was at its place.
fn fill_dates(object: &mut Value, bodies: &[Value]) {
    let identity = |value: &Value| [value["kind"].clone(), value["metadata"]["name"].clone()];
    let sent = identity(object);
    let mut received: Vec<&Value> = bodies
        .iter()
        .rev()
        .filter(|body| identity(body) == sent)
        .collect();
    received.extend(bodies.iter().rev());
    let mut pending = vec![(String::new(), object)];
    // Ends: each value is visited once.
    while let Some((path, value)) = pending.pop() {
        match value {
            Value::Object(fields) => pending.extend(fields.iter_mut().map(|(key, value)| {
                let key = key.replace('~', "~0").replace('/', "~1");
                (format!("{path}/{key}"), value)
            })),
            Value::Array(items) => {
                let items = items.iter_mut().enumerate();
                pending.extend(items.map(|(index, value)| (format!("{path}/{index}"), value)));
            }
            Value::String(text) if matches!(text.as_str(), "<time>" | "<microtime>") => {
                let mut found = received.iter().filter_map(|body| body.pointer(&path));
                if let Some(date) = found.find(|date| date.is_string()) {
                    *value = date.clone();
                }
            }
            _ => {}
        }
    }
}

/// A JSON text whose characters beyond ASCII are escaped.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        if char.is_ascii() {
            text.push(char);
        } else {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing to a String does not fail.
                let _infallible = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text
}
