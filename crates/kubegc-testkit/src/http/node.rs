//! Requests that the node of a pod serves: logs, exec, attach and port forwarding.
//!
//! # Upstream
//! `LogLocation`, `streamLocation` and `validateContainer` in `pkg/registry/core/pod/strategy.go`, and
//! `ValidatePodLogOptions` in `pkg/apis/core/validation/validation.go`, 1.20.2.

use bytes::Bytes;
#[cfg(feature = "ws")]
use kubegc_core::Behavior;
use kubegc_core::Timestamp;
use kubegc_sim::{ApiServer, StoredObject};
use serde_json::Value;

use super::{
    Call,
    problem::{self, Cause, Refusal},
    query::Query,
    reply::{Outcome, Reply},
};

/// Whose process or log a request is about.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodTarget {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// The node that the pod runs on.
    pub node: String,
    /// The container: the one that the request names, or the only one. Empty for forwarded ports.
    pub container: String,
}

/// A request for the log of a container.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogRequest {
    /// The container.
    pub target: PodTarget,
    /// Whether the response streams as long as the container writes.
    pub follow: bool,
    /// Whether the log of the container's former instance is wanted.
    pub previous: bool,
    /// Whether each line begins with its time.
    pub timestamps: bool,
    /// The time from which on lines are wanted.
    pub since: Option<Timestamp>,
    /// Number of last lines requested.
    pub tail_lines: Option<u64>,
    /// Maximum number of bytes requested.
    pub limit_bytes: Option<u64>,
}

/// A request to run a command in a container, or to attach to its process.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExecRequest {
    /// The container.
    pub target: PodTarget,
    /// The command and its arguments; empty for an attachment.
    pub command: Vec<String>,
    /// Whether the client sends standard input.
    pub stdin: bool,
    /// Whether the client reads standard output.
    pub stdout: bool,
    /// Whether the client reads standard error.
    pub stderr: bool,
    /// Whether the process has a terminal.
    pub tty: bool,
}

/// A request to forward ports of a pod.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortForwardRequest {
    /// The pod.
    pub target: PodTarget,
    /// The ports.
    pub ports: Vec<u16>,
}

/// A request to a node.
#[expect(clippy::exhaustive_enums, reason = "a simulated node handles each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeRequest {
    /// The log of a container.
    Log(LogRequest),
    /// A command in a container.
    Exec(ExecRequest),
    /// An attachment to the process of a container.
    Attach(ExecRequest),
    /// Connections to ports.
    PortForward(PortForwardRequest),
}

/// A request that the server would pass on to a node.
#[derive(Clone, Debug)]
pub struct NodeCall {
    /// The request.
    pub(crate) request: NodeRequest,
    /// The response if the node cannot be reached.
    unreachable: Reply,
}

impl NodeCall {
    /// The request to the node.
    #[must_use]
    pub const fn request(&self) -> &NodeRequest {
        &self.request
    }

    /// The response of an API server that cannot reach the node.
    #[must_use]
    pub fn unreachable(self) -> http::Response<Bytes> {
        self.unreachable.into_http()
    }
}

impl NodeRequest {
    /// The pod, and the container if one is given.
    #[must_use]
    pub const fn target(&self) -> &PodTarget {
        match self {
            Self::Log(request) => &request.target,
            Self::Exec(request) | Self::Attach(request) => &request.target,
            Self::PortForward(request) => &request.target,
        }
    }
}

/// Whether nodes serve the requests for a subresource of pods.
pub(super) fn is_served_by_nodes(call: &Call) -> bool {
    call.group.is_empty()
        && call.resource == "pods"
        && matches!(&*call.subresource, "log" | "exec" | "attach" | "portforward")
}

/// Reads a request for a node.
///
/// # Errors
/// 404 without the pod, 400 for a container that the pod does not have or a pod without a node, 422 for
/// options that contradict each other.
pub(super) fn respond(server: &ApiServer, call: &Call, query: &Query) -> Result<Outcome, Refusal> {
    let log = if call.subresource == "log" {
        Some(log_options(server, call, query)?)
    } else {
        None
    };
    let kind = server
        .resolve("", "v1", "pods")
        .map_err(|response| problem::of_response(&response))?;
    let pod = server
        .object(kind, &call.namespace, &call.name)
        .ok_or_else(|| problem::object_not_found("", "pods", &call.name))?;
    let container = if call.subresource == "portforward" {
        String::new()
    } else {
        container(pod, query.text("container"))?
    };
    let target = PodTarget {
        namespace: call.namespace.clone(),
        pod: call.name.clone(),
        node: pod.text_at(&["spec", "nodeName"]).to_owned(),
        container,
    };
    if target.node.is_empty() {
        // The log of a pod that was not scheduled is empty.
        return match log {
            Some(_) => Ok(Reply::plain(200, "").into()),
            None => Err(problem::bad_request(format!(
                "pod {} does not have a host assigned",
                call.name
            ))),
        };
    }
    let unreachable = unreachable(server, call, &target);
    let request = match log {
        Some(options) => NodeRequest::Log(LogRequest { target, ..options }),
        None if call.subresource == "portforward" => NodeRequest::PortForward(PortForwardRequest {
            target,
            ports: ports(query)?,
        }),
        None => {
            let flag = |key| query.flag(key) == Some(true);
            let request = ExecRequest {
                target,
                command: query.all("command").map(str::to_owned).collect(),
                stdin: flag("stdin"),
                stdout: flag("stdout"),
                stderr: flag("stderr"),
                tty: flag("tty"),
            };
            if call.subresource == "exec" {
                NodeRequest::Exec(request)
            } else {
                NodeRequest::Attach(ExecRequest {
                    command: Vec::new(),
                    ..request
                })
            }
        }
    };
    Ok(Outcome::Node(Box::new(NodeCall { request, unreachable })))
}

/// The options of a request for a log; its target is filled in later.
fn log_options(server: &ApiServer, call: &Call, query: &Query) -> Result<LogRequest, Refusal> {
    let number = |key: &'static str| {
        query.number(key).map_err(|text| {
            problem::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
        })
    };
    let (tail, limit, seconds) = (
        number("tailLines")?,
        number("limitBytes")?,
        number("sinceSeconds")?,
    );
    let time = query.text("sinceTime");
    let mut causes = Vec::new();
    let mut at_least = |field, value: Option<i64>, min: i64, why| {
        if let Some(value) = value.filter(|value| *value < min) {
            causes.push(Cause::invalid(field, &value.to_string(), why));
        }
    };
    at_least("tailLines", tail, 0, "must be greater than or equal to 0");
    at_least("limitBytes", limit, 1, "must be greater than 0");
    if time.is_empty() {
        at_least("sinceSeconds", seconds, 1, "must be greater than 0");
    } else if seconds.is_some() {
        let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        causes.push(Cause::forbidden("", why));
    }
    if !causes.is_empty() {
        return Err(problem::invalid("", "PodLogOptions", &call.name, &causes));
    }
    let since = if time.is_empty() {
        let seconds = seconds.map(|seconds| std::time::Duration::from_secs(seconds.unsigned_abs()));
        seconds.map(|seconds| server.now().saturating_sub(seconds))
    } else {
        let time = Timestamp::parse(time);
        Some(time.map_err(|error| problem::bad_request(format!("sinceTime: {error}")))?)
    };
    let flag = |key| query.flag(key) == Some(true);
    Ok(LogRequest {
        target: PodTarget {
            namespace: String::new(),
            pod: String::new(),
            node: String::new(),
            container: String::new(),
        },
        follow: flag("follow"),
        previous: flag("previous"),
        timestamps: flag("timestamps"),
        since,
        tail_lines: tail.map(i64::unsigned_abs),
        limit_bytes: limit.map(i64::unsigned_abs),
    })
}

fn names<'a>(pod: &'a StoredObject, key: &str) -> Vec<&'a str> {
    let containers = pod.at(&["spec", key]).and_then(Value::as_array);
    let containers = containers.into_iter().flatten();
    containers
        .filter_map(|container| container.get("name")?.as_str())
        .collect()
}

/// The container that is meant.
fn container(pod: &StoredObject, requested: &str) -> Result<String, Refusal> {
    let name = &pod.meta.name;
    let (containers, init) = (names(pod, "containers"), names(pod, "initContainers"));
    if !requested.is_empty() {
        let ephemeral = names(pod, "ephemeralContainers");
        let mut known = containers.iter().chain(&init).chain(&ephemeral);
        return if known.any(|known| *known == requested) {
            Ok(requested.to_owned())
        } else {
            Err(problem::bad_request(format!(
                "container {requested} is not valid for pod {name}"
            )))
        };
    }
    let mut message = format!("a container name must be specified for pod {name}");
    match containers.as_slice() {
        [only] => return Ok((*only).to_owned()),
        [] => {}
        several => {
            message.push_str(&format!(", choose one of: [{}]", several.join(" ")));
            if !init.is_empty() {
                message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
        }
    }
    Err(problem::bad_request(message))
}

fn ports(query: &Query) -> Result<Vec<u16>, Refusal> {
    let texts: Vec<&str> = query.all("ports").flat_map(|ports| ports.split(',')).collect();
    if texts.is_empty() {
        return Err(problem::bad_request("query parameter \"port\" is required"));
    }
    texts
        .into_iter()
        .map(|text| match text.parse() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(problem::bad_request(format!(
                "port {text:?} must be between 1 and 65535"
            ))),
        })
        .collect()
}

/// The response if no closure is registered for the node.
fn unreachable(server: &ApiServer, call: &Call, target: &PodTarget) -> Reply {
    let node = &target.node;
    let known = server.resolve("", "v1", "nodes").ok();
    let known = known.and_then(|kind| server.object(kind, "", node));
    let Some(known) = known else {
        return problem::object_not_found("", "nodes", node).into();
    };
    let addresses = known.at(&["status", "addresses"]).and_then(Value::as_array);
    let address = addresses.into_iter().flatten().next();
    let address = address
        .and_then(|address| address["address"].as_str())
        .unwrap_or(node);
    let closure = match &*call.subresource {
        "log" => "on_log",
        "exec" => "on_exec",
        "attach" => "on_attach",
        _ => "on_port_forward",
    };
    let refused = format!(
        "dial tcp {address}:10250: connect: connection refused (no closure of the test plays this node: see Nodes::{closure})"
    );
    let message = if call.subresource == "log" {
        let PodTarget {
            namespace,
            pod,
            container,
            ..
        } = target;
        format!("Get \"https://{address}:10250/containerLogs/{namespace}/{pod}/{container}\": {refused}")
    } else {
        format!("error dialing backend: {refused}")
    };
    problem::internal(message).into()
}

/// The response that carries a kubelet's refusal.
///
/// # Upstream
/// `GenericHttpResponseChecker.Check` in `apiserver/pkg/registry/generic/rest/response_checker.go`, 1.20.2.
#[cfg(feature = "client")]
pub(crate) fn refused_by_node(code: u16, text: &str) -> http::Response<Bytes> {
    Reply::from(problem::of_node(code, text)).into_http()
}

/// Streams can be closed one by one over WebSockets.
#[cfg(feature = "ws")]
const STREAMS_ARE_CLOSED: Behavior = Behavior::since(30, 0, "TranslateStreamCloseWebsocketRequests, beta");

/// The WebSocket subprotocols that a release supports, best first.
#[cfg(feature = "ws")]
pub(crate) fn subprotocols(server: &ApiServer) -> &'static [&'static str] {
    const BOTH: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
    if server.version().has(STREAMS_ARE_CLOSED) {
        &BOTH
    } else {
        &BOTH[1..]
    }
}
