//! Refusals of this layer, with the API server's messages.
//!
//! Refusals of objects come from the simulated server. This module's refusals concern HTTP: methods, media
//! types, query parameters, bodies that cannot be read.

use kubegc_sim::{Response, Status};
use serde_json::{Map, Value, json};

/// A refusal on its way to the client.
pub(super) type Refusal = Box<Problem>;

/// A failure as a response of the kind `Status` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) code: u16,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) details: Option<Value>,
    /// The token with which a client may continue a list that it cannot finish at its first revision.
    pub(super) continue_token: Option<String>,
}

/// One problem of a request's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) reason: &'static str,
    pub(super) field: &'static str,
    pub(super) message: String,
}

impl Problem {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Refusal {
        Box::new(Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        })
    }

    /// The response in its JSON form.
    pub(super) fn to_json(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), token.as_str().into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

impl Cause {
    pub(super) fn forbidden(field: &'static str, why: &str) -> Self {
        Self {
            reason: "FieldValueForbidden",
            field,
            message: format!("Forbidden: {why}"),
        }
    }

    pub(super) fn invalid(field: &'static str, shown: &str, why: &str) -> Self {
        Self {
            reason: "FieldValueInvalid",
            field,
            message: format!("Invalid value: {shown}: {why}"),
        }
    }

    pub(super) fn required(field: &'static str, why: &str) -> Self {
        Self {
            reason: "FieldValueRequired",
            field,
            message: format!("Required value: {why}"),
        }
    }

    /// `shown` is the value as the server prints it.
    pub(super) fn not_supported(field: &'static str, shown: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        Self {
            reason: "FieldValueNotSupported",
            field,
            message: format!(
                "Unsupported value: {shown}: supported values: {}",
                supported.join(", ")
            ),
        }
    }
}

/// The refusal in a response of the simulated server.
pub(super) fn of_response(response: &Response) -> Refusal {
    let Some(status) = response.status() else {
        // Refusals are statuses.
        return Problem::new(response.code, "", "");
    };
    of_status(status)
}

/// A refusal of the simulated server.
pub(super) fn of_status(status: &Status) -> Refusal {
    let mut problem = Problem::new(status.code, status.reason, &*status.message);
    problem.details = status.to_json().get("details").cloned();
    problem
}

/// The request makes no sense.
pub(super) fn bad_request(message: impl Into<String>) -> Refusal {
    Problem::new(400, "BadRequest", message)
}

/// The server fails in a way that it has no words for.
pub(super) fn internal(message: impl Into<String>) -> Refusal {
    Problem::new(500, "", message)
}

/// A node refuses a request.
#[cfg(feature = "client")]
pub(super) fn of_node(code: u16, text: &str) -> Refusal {
    match code {
        400 => bad_request(text),
        403 => Problem::new(403, "Forbidden", text),
        404 => Problem::new(404, "NotFound", text),
        500 => Problem::new(500, "InternalError", format!("Internal error occurred: {text}")),
        _ => Problem::new(code, "", text),
    }
}

/// A built-in group has no such version or resource.
pub(super) fn not_found() -> Refusal {
    let mut problem = Problem::new(
        404,
        "NotFound",
        "the server could not find the requested resource",
    );
    problem.details = Some(json!({}));
    problem
}

/// The object does not exist, or a custom resource has no such subresource.
pub(super) fn object_not_found(group: &str, resource: &str, name: &str) -> Refusal {
    let message = format!("{} {name:?} not found", qualified(group, resource));
    let mut problem = Problem::new(404, "NotFound", message);
    let mut details = json!({"name": name, "kind": resource});
    if !group.is_empty() {
        details["group"] = group.into();
    }
    problem.details = Some(details);
    problem
}

/// A built-in resource does not take this method.
pub(super) fn method_not_allowed() -> Refusal {
    let message = "the server does not allow this method on the requested resource";
    let mut problem = Problem::new(405, "MethodNotAllowed", message);
    problem.details = Some(json!({}));
    problem
}

/// A custom resource does not take this verb.
pub(super) fn verb_not_supported(verb: &str, group: &str, resource: &str) -> Refusal {
    let message = format!("{verb} is not supported on resources of kind \"{resource}.{group}\"");
    let mut problem = Problem::new(405, "MethodNotAllowed", message);
    problem.details = Some(json!({"group": group, "kind": resource}));
    problem
}

/// The client accepts nothing that is served here.
pub(super) fn not_acceptable(accepted: &[&str]) -> Refusal {
    let message = format!(
        "only the following media types are accepted: {}",
        accepted.join(", ")
    );
    Problem::new(406, "NotAcceptable", message)
}

/// The requested form does not fit the result: a list, or a single object.
pub(super) fn form_does_not_fit(message: String) -> Refusal {
    Problem::new(406, "NotAcceptable", message)
}

/// The rules of the test deny the request.
pub(super) fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Refusal {
    let message = match (resource, name) {
        ("", _) => format!("forbidden: {why}"),
        (_, "") => format!("{} is forbidden: {why}", qualified(group, resource)),
        _ => format!("{} {name:?} is forbidden: {why}", qualified(group, resource)),
    };
    let mut problem = Problem::new(403, "Forbidden", message);
    let mut details = Map::new();
    for (key, text) in [("name", name), ("group", group), ("kind", resource)] {
        if !text.is_empty() {
            details.insert(key.to_owned(), text.into());
        }
    }
    problem.details = Some(details.into());
    problem
}

/// A named object does not fit the request.
pub(super) fn conflict(resource: &str, name: &str, why: &str) -> Refusal {
    let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
    let mut problem = Problem::new(409, "Conflict", message);
    problem.details = Some(json!({"name": name, "kind": resource}));
    problem
}

/// A resource as messages name it.
fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

/// The body is of a type that is not read here.
pub(super) fn unsupported_media_type(accepted: &[&str], hint: &str) -> Refusal {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}{hint}",
        accepted.join(", ")
    );
    Problem::new(415, "UnsupportedMediaType", message)
}

/// The body is larger than the server reads.
pub(super) fn too_large(bytes_max: usize) -> Refusal {
    let message = format!("Request entity too large: limit is {bytes_max}");
    Problem::new(413, "RequestEntityTooLarge", message)
}

/// A list cannot be continued: `continue_token` leads to the rest as it is now.
pub(super) fn expired(message: &str, continue_token: Option<String>) -> Refusal {
    let mut problem = Problem::new(410, "Expired", message);
    problem.continue_token = continue_token;
    problem
}

/// The requested version is not reached yet.
///
/// # Upstream
/// `NewTooLargeResourceVersionError` in `apiserver/pkg/storage/errors.go`, 1.20.2.
pub(super) fn too_large_resource_version(wanted: u64, current: u64) -> Refusal {
    let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
    let mut problem = Problem::new(504, "Timeout", message);
    problem.details = Some(json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }));
    problem
}

/// The options of a request do not hold together.
pub(super) fn invalid_options(kind: &str, causes: &[Cause]) -> Refusal {
    invalid("meta.k8s.io", kind, "", causes)
}

/// The object of a client is invalid and is not stored.
pub(super) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Refusal {
    let mut texts: Vec<String> = Vec::new();
    for cause in causes {
        let text = match cause.field {
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
    let mut problem = Problem::new(422, "Invalid", message);
    let causes: Vec<Value> = causes
        .iter()
        .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
        .collect();
    let mut details = json!({"kind": kind, "causes": causes});
    for (key, text) in [("name", name), ("group", group)] {
        if !text.is_empty() {
            details[key] = text.into();
        }
    }
    problem.details = Some(details);
    problem
}
