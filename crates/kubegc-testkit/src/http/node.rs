//! Requests that the node of a pod serves. The log of a container is handed to the caller; commands,
//! attachments and forwarded ports get the response of a server that cannot reach the node.
//!
//! # Upstream
//! `LogLocation`, `streamLocation` and `validateContainer` in `pkg/registry/core/pod/strategy.go`, and
//! `ValidatePodLogOptions` in `pkg/apis/core/validation/validation.go`, 1.20.2.

use bytes::Bytes;
use kubegc_core::Timestamp;
use kubegc_sim::{ApiServer, StoredObject};

use super::{
    Call, Outcome,
    problem::{self, Cause, Refusal},
    query::Query,
    reply::Reply,
    target::core_object,
};

/// The container whose log a request is about.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodTarget {
    pub namespace: String,
    pub pod: String,
    pub node: String,
    /// The container: the one that the request names, or the only one.
    pub container: String,
}

/// A request for the log of a container.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogRequest {
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

/// A request that the server would pass on to a node.
#[derive(Clone, Debug)]
pub struct NodeCall {
    pub request: LogRequest,
    /// The response of an API server that cannot reach the node.
    pub unreachable: http::Response<Bytes>,
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
    let pod = core_object(server, "pods", &call.namespace, &call.name)?;
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
    Ok(match (log, target.node.is_empty()) {
        (Some(options), false) => {
            let unreachable = unreachable(server, call, &target).into_http();
            let request = LogRequest { target, ..options };
            Outcome::Node(Box::new(NodeCall { request, unreachable }))
        }
        // The log of a pod that was not scheduled is empty.
        (Some(_), true) => Outcome::Whole(Reply::plain(200, "")),
        (None, false) => Outcome::Whole(unreachable(server, call, &target)),
        (None, true) => {
            let message = format!("pod {} does not have a host assigned", call.name);
            return Err(problem::bad_request(message));
        }
    })
}

/// The options of a request for a log; its target is filled in later.
fn log_options(server: &ApiServer, call: &Call, query: &Query) -> Result<LogRequest, Refusal> {
    let (tail, limit) = (query.number("tailLines")?, query.number("limitBytes")?);
    let seconds = query.number("sinceSeconds")?;
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
        target: PodTarget::default(),
        follow: flag("follow"),
        previous: flag("previous"),
        timestamps: flag("timestamps"),
        since,
        tail_lines: tail.map(i64::unsigned_abs),
        limit_bytes: limit.map(i64::unsigned_abs),
    })
}

fn names<'a>(pod: &'a StoredObject, key: &str) -> Vec<&'a str> {
    let containers = pod.list_at(&["spec", key]).iter();
    containers
        .filter_map(|container| container.get("name")?.as_str())
        .collect()
}

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

/// The response of a server that cannot reach the node.
fn unreachable(server: &ApiServer, call: &Call, target: &PodTarget) -> Reply {
    let node = &target.node;
    let known = match core_object(server, "nodes", "", node) {
        Ok(known) => known,
        Err(refusal) => return refusal.into(),
    };
    let addresses = known.list_at(&["status", "addresses"]);
    let address = addresses.first().and_then(|address| address["address"].as_str());
    let address = address.unwrap_or(node);
    let refused = format!("dial tcp {address}:10250: connect: connection refused");
    let message = if call.subresource == "log" {
        let path = [&*target.namespace, &target.pod, &target.container].join("/");
        format!(
            "Get \"https://{address}:10250/containerLogs/{path}\": {refused} (no closure of the test serves this log: \
             see Nodes::on_log)"
        )
    } else {
        format!("error dialing backend: {refused} (nodes of a simulated cluster serve logs only)")
    };
    problem::internal(message).into()
}

/// The response that carries a kubelet's refusal.
///
/// # Upstream
/// `GenericHttpResponseChecker.Check` in `apiserver/pkg/registry/generic/rest/response_checker.go`, 1.20.2.
pub(crate) fn refused_by_node(code: u16, text: &str) -> http::Response<Bytes> {
    let reason = match code {
        400 => "BadRequest",
        403 => "Forbidden",
        404 => "NotFound",
        500 => "InternalError",
        _ => "",
    };
    let begin = if code == 500 {
        "Internal error occurred: "
    } else {
        ""
    };
    let refusal = problem::refusal(code, reason, format!("{begin}{text}"), None);
    Reply::from(refusal).into_http()
}
