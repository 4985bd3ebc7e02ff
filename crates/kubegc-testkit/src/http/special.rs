//! Paths that name no resource: discovery, version, health, schemas.

use bytes::Bytes;
use http::{Method, header::ACCEPT};
use kubegc_core::{Behavior, KubernetesVersion};
use kubegc_sim::ApiServer;
use serde_json::{Value, json};

use super::{
    accept,
    call::segments,
    discovery,
    problem::{self, Refusal},
    reply::Reply,
    resources,
};

/// The media type with which clients request the schema.
const SCHEMA_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type of the response: `@` is not allowed in media types, and newer clients refuse to read it.
const SCHEMA_ANSWERED: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

pub(super) fn respond(
    server: &ApiServer,
    path: &str,
    request: &http::Request<Bytes>,
) -> Result<Reply, Refusal> {
    let parts: Vec<&str> = segments(path).collect();
    let found = match parts.as_slice() {
        ["healthz" | "livez" | "readyz"] => Some(Reply::plain(200, "ok")),
        ["api"] => Some(discovery::root(server, true, request.headers())?),
        ["apis"] => Some(discovery::root(server, false, request.headers())?),
        ["api", version] => described(server, request, "", discovery::resources(server, "", version))?,
        ["apis", group] => described(server, request, group, discovery::group(server, group))?,
        ["apis", group, version] => described(
            server,
            request,
            group,
            discovery::resources(server, group, version),
        )?,
        ["version"] => Some(Reply::object(200, version(server.version()))),
        ["openapi", "v2"] => Some(schema(request)),
        [] => Some(Reply::object(
            200,
            json!({"paths": PATHS.split(' ').collect::<Vec<_>>()}),
        )),
        _ => None,
    };
    match found {
        Some(_) if !matches!(*request.method(), Method::GET | Method::HEAD) => {
            Err(problem::method_not_allowed())
        }
        Some(reply) => Ok(reply),
        None => Ok(Reply::page_not_found(server.version())),
    }
}

const PATHS: &str = "/api /api/v1 /apis /healthz /livez /openapi/v2 /readyz /version";

/// The document of a group, in the encoding that the client accepts. Built-in groups refuse versions that
/// they do not have.
fn described(
    server: &ApiServer,
    request: &http::Request<Bytes>,
    group: &str,
    reply: Option<Reply>,
) -> Result<Option<Reply>, Refusal> {
    let is_builtin = resources::is_builtin(server, group);
    let Some(reply) = reply else {
        return if is_builtin {
            Err(problem::unserved())
        } else {
            Ok(None)
        };
    };
    if is_builtin {
        accept::route(request.headers(), server.version(), false)?;
    }
    let encoding = accept::plain(request.headers())?;
    Ok(Some(reply.encoded(encoding)))
}

/// `/version` says which releases the server emulates and stays compatible with.
const EMULATION_IS_SHOWN: Behavior = Behavior::since(33, 0, "kubernetes #128279");

fn version(version: KubernetesVersion) -> Value {
    let mut shown = json!({
        "major": "1",
        "minor": version.minor().to_string(),
        "gitVersion": format!("v{version}"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "gc",
        "platform": "linux/amd64",
    });
    if version.has(EMULATION_IS_SHOWN) {
        shown["emulationMajor"] = "1".into();
        shown["emulationMinor"] = version.minor().to_string().into();
        shown["minCompatibilityMajor"] = "1".into();
        shown["minCompatibilityMinor"] = version.minor().saturating_sub(1).to_string().into();
    }
    shown
}

/// A schema that defines nothing: clients then skip the validation that they would do themselves.
fn schema(request: &http::Request<Bytes>) -> Reply {
    // `openapi.v2.Document`: swagger "2.0", an info with title and version, no paths.
    const EMPTY: &[u8] = b"\x0a\x032.0\x12\x10\x0a\x0aKubernetes\x12\x02v1\x42\x00";
    let accepted = request.headers().get(ACCEPT);
    let accepted = accepted.and_then(|value| value.to_str().ok());
    if accepted.is_some_and(|text| text.contains(SCHEMA_ASKED)) {
        return Reply::text(200, SCHEMA_ANSWERED, EMPTY);
    }
    Reply::object(
        200,
        json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1"}, "paths": {}}),
    )
}
