//! Refusals of this layer, with the API server's messages.
//!
//! Refusals of objects come from the simulated server. This module's refusals concern HTTP: methods, media
//! types, query parameters, bodies that cannot be read.

pub(super) use kubegc_sim::{
    Cause,
    status::{Refusal, bad_request, internal, invalid_options, refusal, unserved},
};
use kubegc_sim::{Details, Response, status::qualified};

/// The refusal in a response of the simulated server.
pub(super) fn of_response(response: &Response) -> Refusal {
    match response.status() {
        Some(status) => Box::new(status.clone()),
        // Refusals are statuses.
        None => refusal(response.code, "", "", None),
    }
}

/// The object does not exist, or a custom resource has no such subresource.
pub(super) fn object_not_found(group: &str, resource: &str, name: &str) -> Refusal {
    let message = format!("{} {name:?} not found", qualified(resource, group));
    refusal(404, "NotFound", message, Details::new(name, group, resource))
}

/// A built-in resource does not take this method.
pub(super) fn method_not_allowed() -> Refusal {
    let message = "the server does not allow this method on the requested resource";
    refusal(405, "MethodNotAllowed", message, Details::default())
}

/// The client accepts nothing that is served here.
pub(super) fn not_acceptable(accepted: &[&str]) -> Refusal {
    let message = format!(
        "only the following media types are accepted: {}",
        accepted.join(", ")
    );
    refusal(406, "NotAcceptable", message, None)
}

/// The client accepts nothing that the route of a built-in resource produces. The message lists the media
/// types, if there are any.
pub(super) fn route_not_acceptable(produced: &[&str]) -> Refusal {
    let mut message = "406: Not Acceptable".to_owned();
    if !produced.is_empty() {
        message = format!("{message}\n\nAvailable representations: {}", produced.join(", "));
    }
    refusal(406, "NotAcceptable", message, Details::default())
}

/// The rules of the test deny the request.
pub(super) fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Refusal {
    let message = match (resource, name) {
        ("", _) => format!("forbidden: {why}"),
        (_, "") => format!("{} is forbidden: {why}", qualified(resource, group)),
        _ => format!("{} {name:?} is forbidden: {why}", qualified(resource, group)),
    };
    refusal(403, "Forbidden", message, Details::new(name, group, resource))
}

pub(super) fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Refusal {
    let message = format!(
        "Operation cannot be fulfilled on {} {name:?}: {why}",
        qualified(resource, group)
    );
    refusal(409, "Conflict", message, Details::new(name, group, resource))
}

/// A list cannot be continued: `continue_token` leads to the rest as it is now.
pub(super) fn expired(message: &str, continue_token: Option<String>) -> Refusal {
    let mut refusal = refusal(410, "Expired", message, None);
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
    refusal(504, "Timeout", message, details)
}

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
    let message = format!("{} {name:?} is invalid: {problems}", qualified(kind, group));
    let details = Details::new(name, group, kind).with_causes(causes.to_vec());
    refusal(422, "Invalid", message, details)
}
