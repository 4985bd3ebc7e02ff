//! Decides how the body of a request is read: JSON or YAML, within bounds.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::{
    problem::{self, Refusal},
    reply::JSON,
};

/// How large a body may be.
///
/// # Upstream
/// `MaxRequestBodyBytes` in `apiserver/pkg/server/config.go`, 1.20.2.
pub(crate) const BYTES_MAX: usize = 3 * 1024 * 1024;

const YAML: &str = "application/yaml";

/// Refuses bodies that are too large, whatever is in them.
pub(super) fn within_bounds(request: &http::Request<Bytes>) -> Result<(), Refusal> {
    if request.body().len() > BYTES_MAX {
        return Err(problem::too_large(BYTES_MAX));
    }
    Ok(())
}

/// Reads a body that must hold a document. `kind` is what it should be, for the message.
///
/// # Errors
/// 415 for anything but JSON and YAML, 400 for what cannot be read.
pub(super) fn object(request: &http::Request<Bytes>, kind: &str) -> Result<Value, Refusal> {
    let unreadable = |format: &str, why: String| {
        problem::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {format} parse error: {why}"
        ))
    };
    match content_type(request) {
        "" | JSON => {
            serde_json::from_slice(request.body()).map_err(|error| unreadable("json", error.to_string()))
        }
        YAML => yaml(request.body()).map_err(|why| unreadable("yaml", why)),
        _ => Err(problem::unsupported_media_type(&[JSON, YAML])),
    }
}

/// Reads YAML, of which JSON is a part. The reader's own budget bounds depth, nodes and the growth of aliases.
pub(super) fn yaml(body: &[u8]) -> Result<Value, String> {
    let text = str::from_utf8(body).map_err(|error| error.to_string())?;
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

/// The media type of the body, without parameters; empty where the header is missing.
pub(super) fn content_type(request: &http::Request<Bytes>) -> &str {
    let header = request.headers().get(CONTENT_TYPE);
    let text = header.and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}
