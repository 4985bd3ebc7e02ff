//! The HTTP API of the simulated API server: paths, parameters, headers and bodies.
//!
//! Pure and synchronous: the input is an HTTP request and a simulated [`ApiServer`], the result a response or
//! a [`Watch`]. There are no sockets, no clock and no runtime: the time is [`ApiServer::now`]. The simulated
//! server implements deletion, finalizers and validation. This module reads paths, parameters, headers and
//! bodies, and writes discovery, lists, tables and events.
//!
//! # Where it differs from a real API server
//!
//! | Subject | A real server | Here |
//! |---|---|---|
//! | Authentication, authorization, priority and fairness | decide who may do what, and when | rules of the caller refuse requests and decide access reviews ([`respond_as`]); there is no authentication, and no request waits |
//! | Media types | JSON, YAML, protobuf, and CBOR behind a gate | JSON, YAML, and protobuf for the built-in kinds up to 1.36. Responses in YAML are JSON, which is a part of YAML |
//! | `/openapi/v2` | describes every kind | is valid and empty: `kubectl apply` skips its own validation (no `--validate=false` needed), `kubectl explain` knows nothing, and `--dry-run=server` is refused by releases of `kubectl` that look there for it |
//! | `/openapi/v3`, `/metrics`, `/logs`, `watch/` paths | are served | 404 |
//! | `fieldValidation` | warns of unknown and repeated fields, or refuses them | does so for unknown fields of kinds with a type or schema, in JSON and YAML bodies and in patches; the repeated fields of JSON patches and the fields of definitions are not checked |
//! | Lists | are ordered by their keys in etcd | are ordered by namespace, then name |
//! | `continue` tokens | last as long as etcd keeps the revision (5 minutes) | are exact as long as the server keeps the changes since ([`Settings::events_max`](kubegc_sim::Settings)); after that 410 with a token that goes on in the present |
//! | Past versions | as they were stored | reconstructed by undoing later changes; objects that were loaded without an event have always existed |
//! | A version in the future | lists wait 3 s, then 504 | 504 at once |
//! | `timeoutSeconds` of a watch that does not say | 30 to 60 minutes at random | 30 minutes of simulated time |
//! | Bookmarks | every minute or so, and about 2 s before the timeout | every 60 s of simulated time, and 2 s before the timeout; with nothing but metadata |
//! | Tables | the columns of the release | those of 1.20 with what 1.32 and 1.36 changed, and those of a definition; of a JSONPath, names, positions, `*` and filters with `==` and `!=` |
//! | `log` | is passed on to the node | pod, container and options are checked, and the request is handed to the caller as [`ApiResponse::Node`] |
//! | `exec`, `attach`, `portforward` | are passed on to the node | pod and container are checked, and the response is that of a server that cannot reach the node |
//! | `token` | a signed token | a token with the same claims and no signature (`alg: none`); token reviews know it, requests may carry it without effect |
//! | `proxy` | is served by nodes and the server | 404; see [`ApiServer::subresources`] for what there is |
//! | Evictions | respect the status of disruption budgets, which a controller writes | likewise; no controller writes it, and until a client does, a budget is "still being processed" |
//! | Dry runs | run admission and store nothing | run everything on a copy of the server; a service shows the address and ports that it would get |
//! | Definitions | convert by webhooks | convert by functions of the caller ([`ApiServer::set_converter`]), as if all objects were stored in the present storage version. CEL rules are run with the feature `cel` and [`Settings::types`](kubegc_sim::Settings), as far as [`ApiServer`] covers them; the costs of evaluations are not limited. Definitions of `v1beta1` are converted and not validated |
//! | YAML of an apply | is YAML 1.1: `y` and `on` are booleans | is YAML 1.2, with other error texts |
//! | Headers | `Audit-Id`, `Cache-Control`, flow control | none of them |

mod accept;
mod access;
mod body;
mod call;
mod cells;
mod deprecated;
mod discovery;
mod json_path;
mod node;
mod options;
mod page;
mod problem;
mod protobuf;
mod query;
mod read;
mod render;
mod reply;
mod resources;
mod review;
mod special;
mod table;
mod target;
mod token;
mod watch;
mod write;

use bytes::Bytes;
use http::{HeaderValue, header::CONTENT_TYPE};
use kubegc_core::KindId;
use kubegc_sim::ApiServer;

pub use access::AccessRules;
pub(crate) use body::BYTES_MAX;
pub use call::{Call, Verb, read_call};
pub(crate) use node::refused_by_node;
pub use node::{LogRequest, NodeCall, PodTarget};
pub use watch::{Watch, WatchStep};

use access::Requester;
pub(crate) use access::attributes;
pub(crate) use protobuf::{decode, is_object};
pub(crate) use reply::refused;

use problem::Refusal;
use query::Query;
use render::View;
use reply::Reply;
use table::{Rows, Table};

/// The response to a request.
#[derive(Clone, Debug)]
pub enum ApiResponse {
    Whole(http::Response<Bytes>),
    /// A streamed response: its body is the events of the watch, until the watch ends.
    Stream {
        head: http::Response<()>,
        watch: Watch,
    },
    /// A request for a log, which the kubelet of the pod's node serves.
    Node(Box<NodeCall>),
}

/// Performs a request that was read by [`read_call`]. It always returns a response; errors are responses of
/// the kind `Status`.
///
/// # Complexity
/// That of the request on the server; a list of n objects takes O(n log n), discovery O(n log n) for n kinds.
///
/// # Examples
/// ```
/// use bytes::Bytes;
/// use kubegc_core::{Catalog, KubernetesVersion};
/// use kubegc_sim::ApiServer;
/// use kubegc_testkit::http::{ApiResponse, Verb, respond, read_call};
/// let version = KubernetesVersion::LATEST;
/// let mut server = ApiServer::new(version, Catalog::builtin(version));
/// let body = Bytes::from_static(br#"{"metadata": {"name": "shop"}}"#);
/// let request = http::Request::post("/api/v1/namespaces").body(body)?;
/// let call = read_call(&server, &request);
/// assert_eq!((call.verb, &*call.resource), (Verb::Create, "namespaces"));
/// let ApiResponse::Whole(response) = respond(&mut server, &call, &request) else { panic!("no watch was requested") };
/// assert_eq!(response.status(), 201);
/// # Ok::<(), http::Error>(())
/// ```
pub fn respond(server: &mut ApiServer, call: &Call, request: &http::Request<Bytes>) -> ApiResponse {
    respond_as(server, call, request, "kubernetes-admin", &AccessRules::default())
}

/// Performs a request of a user with these access rules: as [`respond`], and with a 403 response if they deny
/// the request.
///
/// # Complexity
/// As [`respond`], and linear in the number of rules.
pub fn respond_as(
    server: &mut ApiServer,
    call: &Call,
    request: &http::Request<Bytes>,
    user: &str,
    rules: &AccessRules,
) -> ApiResponse {
    let mut reply = match route(server, call, request, Requester { user, rules }) {
        Ok(Outcome::Node(node)) => return ApiResponse::Node(node),
        Ok(Outcome::Stream(watch)) => {
            let mut head = http::Response::new(());
            let content_type = HeaderValue::from_static(watch.media_type());
            head.headers_mut().insert(CONTENT_TYPE, content_type);
            return ApiResponse::Stream { head, watch };
        }
        Ok(Outcome::Whole(reply)) => reply,
        Err(refusal) => refusal.into(),
    };
    // A refusal is in the encoding that the client accepts, else in JSON: see `WriteObjectNegotiated` in
    // https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/endpoints/handlers/responsewriters/writers.go
    if reply.code >= 400
        && let Ok(encoding) = accept::plain(request.headers())
    {
        reply = reply.encoded(encoding);
    }
    ApiResponse::Whole(reply.into_http())
}

enum Outcome {
    Whole(Reply),
    Stream(Watch),
    Node(Box<NodeCall>),
}

fn route(
    server: &mut ApiServer,
    call: &Call,
    request: &http::Request<Bytes>,
    requester: Requester<'_>,
) -> Result<Outcome, Refusal> {
    let method = request.method().as_str().to_ascii_lowercase();
    let attributes = attributes(requester.user, call, &method);
    if !requester.rules.allows(&attributes) {
        let why = access::forbidden(&attributes);
        return Err(problem::forbidden(&call.group, &call.resource, &call.name, &why));
    }
    body::within_bounds(request)?;
    if call.verb == Verb::NonResource {
        return special::respond(server, &call.path, request).map(Outcome::Whole);
    }
    let kind = match target::find(server, call, request.method()) {
        Ok(kind) => kind,
        Err(reply) => return Ok(Outcome::Whole(*reply)),
    };
    let query = Query::read(request.uri().query());
    if node::is_served_by_nodes(call) {
        return node::respond(server, call, &query);
    }
    let deprecation = match &*call.subresource {
        "" | "status" => deprecated::warning(server, kind),
        _ => None,
    };
    let outcome = respond_with(server, call, kind, &query, request, requester);
    let Some(warning) = deprecation else {
        return outcome;
    };
    let mut reply = match outcome {
        Ok(Outcome::Whole(reply)) => reply,
        Ok(other) => return Ok(other),
        Err(refusal) => Reply::from(refusal),
    };
    reply.warnings.insert(0, warning);
    Ok(Outcome::Whole(reply))
}

fn respond_with(
    server: &mut ApiServer,
    call: &Call,
    kind: KindId,
    query: &Query,
    request: &http::Request<Bytes>,
    requester: Requester<'_>,
) -> Result<Outcome, Refusal> {
    let resource = server.catalog()[kind].clone();
    let is_builtin = !resource.custom;
    if is_builtin {
        let is_list = matches!(call.verb, Verb::List | Verb::Watch);
        accept::route(request.headers(), server.version(), is_list)?;
    }
    let is_encodable = is_builtin && protobuf::has_message(&resource.api_version(), &resource.kind);
    let (form, encoding) = accept::objects(request.headers(), is_encodable)?;
    let mut table = Table::default();
    if let accept::Form::Table(_) = form {
        let rows = match Rows::of(query) {
            Err(why) if !call.verb.is_write() => return Err(why),
            rows => rows.unwrap_or_default(),
        };
        let declared = resources::printer_columns(server, kind);
        table = Table::new(server.version(), &resource, &declared, rows);
    }
    let view = View {
        version: server.version(),
        form,
        encoding,
        list_kind: resources::of(server, kind).list_kind,
        resource,
        table,
    };
    let request = ObjectRequest {
        call,
        kind,
        query,
        http: request,
        view,
        requester,
    };
    if call.verb.is_write() {
        let reply = write::respond(server, &request)?;
        Ok(Outcome::Whole(reply.encoded(encoding)))
    } else {
        read::respond(server, request)
    }
}

/// A request for objects of a kind, and the form that it wants them in.
struct ObjectRequest<'a> {
    call: &'a Call,
    kind: KindId,
    query: &'a Query,
    http: &'a http::Request<Bytes>,
    view: View,
    requester: Requester<'a>,
}
