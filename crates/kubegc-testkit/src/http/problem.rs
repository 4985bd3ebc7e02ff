//! Refusals of this layer, with the API server's messages.
//!
//! Refusals of objects come from the simulated server. This module's refusals concern HTTP: methods, media
//! types, query parameters, bodies that cannot be read.

pub(super) use kubegc_sim::Cause;
use kubegc_sim::{Details, Response, Status};

/// A refusal on its way to the client.
pub(super) type Refusal = Box<Status>;

fn refusal(code: u16, reason: &'static str, message: impl Into<String>) -> Refusal {
    Box::new(Status::new(code, reason, message))
}

fn about(code: u16, reason: &'static str, message: impl Into<String>, details: Details) -> Refusal {
    Box::new(Status::new(code, reason, message).with_details(details))
}

/// The refusal in a response of the simulated server.
pub(super) fn of_response(response: &Response) -> Refusal {
    match response.status() {
        Some(status) => Box::new(status.clone()),
        // Refusals are statuses.
        None => refusal(response.code, "", ""),
    }
}

/// The request makes no sense.
pub(super) fn bad_request(message: impl Into<String>) -> Refusal {
    refusal(400, "BadRequest", message)
}

/// The server fails in a way that it has no words for.
pub(super) fn internal(message: impl Into<String>) -> Refusal {
    refusal(500, "", message)
}

/// A node refuses a request.
pub(super) fn of_node(code: u16, text: &str) -> Refusal {
    match code {
        400 => bad_request(text),
        403 => refusal(403, "Forbidden", text),
        404 => refusal(404, "NotFound", text),
        500 => refusal(500, "InternalError", format!("Internal error occurred: {text}")),
        _ => refusal(code, "", text),
    }
}

/// A built-in group has no such version or resource.
pub(super) fn not_found() -> Refusal {
    let message = "the server could not find the requested resource";
    about(404, "NotFound", message, Details::default())
}

/// The object does not exist, or a custom resource has no such subresource.
pub(super) fn object_not_found(group: &str, resource: &str, name: &str) -> Refusal {
    let message = format!("{} {name:?} not found", qualified(group, resource));
    about(404, "NotFound", message, Details::new(name, group, resource))
}

/// A built-in resource does not take this method.
pub(super) fn method_not_allowed() -> Refusal {
    let message = "the server does not allow this method on the requested resource";
    about(405, "MethodNotAllowed", message, Details::default())
}

/// A custom resource does not take this verb.
pub(super) fn verb_not_supported(verb: &str, group: &str, resource: &str) -> Refusal {
    let message = format!("{verb} is not supported on resources of kind \"{resource}.{group}\"");
    about(
        405,
        "MethodNotAllowed",
        message,
        Details::new("", group, resource),
    )
}

/// The client accepts nothing that is served here.
pub(super) fn not_acceptable(accepted: &[&str]) -> Refusal {
    let message = format!(
        "only the following media types are accepted: {}",
        accepted.join(", ")
    );
    refusal(406, "NotAcceptable", message)
}

/// The client accepts nothing that the route of a built-in resource produces. The message lists the media
/// types, if there are any.
pub(super) fn route_not_acceptable(produced: &[&str]) -> Refusal {
    let mut message = "406: Not Acceptable".to_owned();
    if !produced.is_empty() {
        message = format!("{message}\n\nAvailable representations: {}", produced.join(", "));
    }
    about(406, "NotAcceptable", message, Details::default())
}

/// The requested form does not fit the result: a list, or a single object.
pub(super) fn form_does_not_fit(message: String) -> Refusal {
    refusal(406, "NotAcceptable", message)
}

/// The rules of the test deny the request.
pub(super) fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Refusal {
    let message = match (resource, name) {
        ("", _) => format!("forbidden: {why}"),
        (_, "") => format!("{} is forbidden: {why}", qualified(group, resource)),
        _ => format!("{} {name:?} is forbidden: {why}", qualified(group, resource)),
    };
    about(403, "Forbidden", message, Details::new(name, group, resource))
}

/// A named object does not fit the request.
pub(super) fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Refusal {
    let message = format!(
        "Operation cannot be fulfilled on {} {name:?}: {why}",
        qualified(group, resource)
    );
    about(409, "Conflict", message, Details::new(name, group, resource))
}

/// A resource as messages name it.
pub(crate) fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

/// The body is of a type that is not read here.
pub(super) fn unsupported_media_type(accepted: &[&str]) -> Refusal {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    );
    refusal(415, "UnsupportedMediaType", message)
}

/// The body is larger than the server reads.
pub(super) fn too_large(bytes_max: usize) -> Refusal {
    let message = format!("Request entity too large: limit is {bytes_max}");
    refusal(413, "RequestEntityTooLarge", message)
}

/// A list cannot be continued: `continue_token` leads to the rest as it is now.
pub(super) fn expired(message: &str, continue_token: Option<String>) -> Refusal {
    let mut refusal = refusal(410, "Expired", message);
    refusal.continue_token = continue_token;
    refusal
}

/// The requested version is not reached yet.
///
/// # Upstream
/// `NewTooLargeResourceVersionError` in `apiserver/pkg/storage/errors.go`, 1.20.2.
pub(super) fn too_large_resource_version(wanted: u64, current: u64) -> Refusal {
    let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
    let cause = Cause::new("ResourceVersionTooLarge", "", "Too large resource version");
    let mut details = Details::default().with_causes(vec![cause]);
    details.retry_after_seconds = Some(1);
    about(504, "Timeout", message, details)
}

/// The options of a request do not hold together.
pub(super) fn invalid_options(kind: &str, causes: &[Cause]) -> Refusal {
    invalid("meta.k8s.io", kind, "", causes)
}

/// The object of a client is invalid and is not stored.
pub(super) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Refusal {
    let mut texts: Vec<String> = Vec::new();
    for cause in causes {
        let text = match &*cause.field {
            "" => format!("<nil>: {}", cause.message),
            field => format!("{field}: {}", cause.message),
        };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let problems = match texts.as_slice() {
        [only] => only.clone(),
        _ => format!("[{}]", texts.join(", ")),
    };
    let message = format!("{} {name:?} is invalid: {problems}", qualified(group, kind));
    let details = Details::new(name, group, kind).with_causes(causes.to_vec());
    about(422, "Invalid", message, details)
}
