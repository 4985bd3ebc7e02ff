//! Sends HTTP requests and classifies their failures as store errors. No other module classifies failures.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use kube::{Client, client::Body, core::Status};
use kubegc_core::StoreError;
use serde_json::Value;
use tracing::Instrument as _;

use crate::{
    metrics,
    url::{Url, not_sent},
};

pub(crate) const JSON: &str = "application/json";
const USER_AGENT: &str = concat!("kubegc/", env!("CARGO_PKG_VERSION"));
/// Timeout of a request that is not a watch. The API server has the same timeout.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of a response: the metadata of a million objects has about this size. A longer one is not
/// from an API server.
const BODY_BYTES_MAX: usize = 1 << 30;

pub(crate) struct HttpRequest<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a Url,
    pub(crate) accept: &'a str,
    pub(crate) content: Option<(&'static str, Vec<u8>)>,
    /// The object that the request is about, by name.
    pub(crate) about: Option<&'a str>,
}

impl<'a> HttpRequest<'a> {
    pub(crate) const fn new(method: Method, url: &'a Url, accept: &'a str) -> Self {
        Self {
            method,
            url,
            accept,
            content: None,
            about: None,
        }
    }

    pub(crate) const fn get(url: &'a Url, accept: &'a str) -> Self {
        Self::new(Method::GET, url, accept)
    }

    pub(crate) fn content(mut self, media_type: &'static str, content: Vec<u8>) -> Self {
        self.content = Some((media_type, content));
        self
    }

    /// The same, about one object: only a 404 that names it proves that it does not exist.
    pub(crate) const fn about(mut self, name: &'a str) -> Self {
        self.about = Some(name);
        self
    }
}

/// Sends a request and reads its whole response.
pub(crate) async fn send(client: &Client, request: HttpRequest<'_>) -> Result<Bytes, StoreError> {
    let span = tracing::debug_span!("request", method = %request.method, url = request.url.as_str());
    async {
        let (method, about) = (request.method.clone(), request.about);
        let whole = async {
            let (parts, body) = open(client, request, false).await?.into_parts();
            let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
            let body = body.map_err(|error| unknown(&*error))?.to_bytes();
            match (check_status(parts.status, &parts.headers, &body), about) {
                (Err(StoreError::NotFound), Some(name)) if !proves_absence(&body, name) => {
                    Err(StoreError::Refused {
                        code: 404,
                        message: "the response does not say that this object does not exist".to_owned(),
                        retry_after: None,
                    })
                }
                (Err(error), _) => Err(error),
                (Ok(()), _) => Ok(body),
            }
        };
        let response = tokio::time::timeout(TIMEOUT, whole).await.unwrap_or_else(|_| {
            metrics::request("<error>", &method);
            Err(StoreError::Unknown {
                message: format!("no response within {} s", TIMEOUT.as_secs()),
            })
        });
        match &response {
            Ok(_) => tracing::debug!("responded"),
            Err(error) => tracing::debug!(%error, "failed"),
        }
        response
    }
    .instrument(span)
    .await
}

/// Sends a request and returns its response as a stream, with an unchecked status.
pub(crate) async fn open(
    client: &Client,
    request: HttpRequest<'_>,
    plain: bool,
) -> Result<http::Response<Body>, StoreError> {
    let method = request.method.clone();
    let mut head = Request::builder()
        .method(request.method)
        .uri(request.url.as_str())
        .header(header::ACCEPT, request.accept)
        .header(header::USER_AGENT, USER_AGENT);
    if plain {
        // A watch is read line by line as it arrives.
        head = head.header(header::ACCEPT_ENCODING, "identity");
    }
    let body = match request.content {
        Some((media_type, content)) => {
            head = head.header(header::CONTENT_TYPE, media_type);
            Body::from(content)
        }
        None => Body::empty(),
    };
    let built = head
        .body(body)
        .map_err(|error| not_sent(format!("{} cannot be sent: {error}", request.url.as_str())))?;
    let response = client.send(built).await;
    match &response {
        Ok(response) => metrics::request(response.status().as_str(), &method),
        Err(_) => metrics::request("<error>", &method),
    }
    response.map_err(|error| match &error {
        kube::Error::Api(status) => of_status(status),
        _ => unknown(&error),
    })
}

fn unknown(error: &dyn std::error::Error) -> StoreError {
    StoreError::Unknown {
        message: with_causes(error),
    }
}

/// The error and those of its causes that it does not contain, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        cause = error.source();
    }
    message
}

/// The error of a status from a middleware of the client.
fn of_status(status: &Status) -> StoreError {
    let retry_after = status.details.as_ref().and_then(|details| {
        (details.retry_after_seconds > 0).then(|| u64::from(details.retry_after_seconds))
    });
    StoreError::from_status(
        status.code,
        status.message.clone(),
        retry_after.map(Duration::from_secs),
    )
}

/// Returns the error of a response whose status code is not a success.
pub(crate) fn check_status(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<(), StoreError> {
    if status.is_success() {
        return Ok(());
    }
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let from_header = || {
        let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
        text.trim().parse::<u64>().ok()
    };
    let retry_after = from_header().or_else(|| said["details"]["retryAfterSeconds"].as_u64());
    if status == StatusCode::GATEWAY_TIMEOUT && is_too_large_version(&said) {
        return Err(StoreError::Expired);
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(MESSAGE_BYTES_MAX)]);
    let message = match said["message"].as_str() {
        Some(message) if !message.is_empty() => message.to_owned(),
        _ if text.trim().is_empty() => status.to_string(),
        _ => text.trim().to_owned(),
    };
    let retry_after = retry_after.filter(|&seconds| seconds > 0);
    let retry_after = retry_after.map(Duration::from_secs);
    Err(StoreError::from_status(status.as_u16(), message, retry_after))
}

/// Whether the server has not reached the requested resourceVersion. Its response is a timeout.
///
/// # Upstream
/// `isTooLargeResourceVersionError` in [`reflector.go`, 1.36](
/// https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/client-go/tools/cache/reflector.go).
/// Releases before 1.19 give only this text.
fn is_too_large_version(said: &Value) -> bool {
    let mut causes = said["details"]["causes"].as_array().into_iter().flatten();
    let message = said["message"].as_str().unwrap_or_default();
    causes.any(|cause| cause["reason"] == "ResourceVersionTooLarge")
        || message.contains("Too large resource version")
}

/// Whether a 404 proves that this object does not exist. Proxies, and versions that are no longer served,
/// respond with 404 as well.
fn proves_absence(body: &[u8], name: &str) -> bool {
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    said["kind"] == "Status" && said["reason"] == "NotFound" && said["details"]["name"] == name
}

/// The error of a success that cannot be read.
pub(crate) fn unreadable(problem: impl std::fmt::Display) -> StoreError {
    StoreError::Unknown {
        message: format!("the response cannot be read: {problem}"),
    }
}

/// Maximum number of bytes of a response without a status that are part of a message.
const MESSAGE_BYTES_MAX: usize = 512;

/// The error of an `ERROR` event of a watch.
pub(crate) fn of_event(status: &Value) -> StoreError {
    let code = match status["reason"].as_str() {
        Some("Expired" | "Gone") => 410,
        _ => status["code"]
            .as_u64()
            .and_then(|code| u16::try_from(code).ok())
            .unwrap_or(500),
    };
    let retry_after = status["details"]["retryAfterSeconds"].as_u64();
    let message = status["message"].as_str().unwrap_or_default();
    StoreError::from_status(code, message.to_owned(), retry_after.map(Duration::from_secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code, `Retry-After` and body, and the error.
    const ROWS: &str = r#"
429||{"message":"text"}|Refused { code: 429, message: "text", retry_after: None }
429|3|{"message":"text"}|Refused { code: 429, message: "text", retry_after: Some(3s) }
429||{"message":"text","details":{"retryAfterSeconds":5}}|Refused { code: 429, message: "text", retry_after: Some(5s) }
429|soon|{"message":"text"}|Refused { code: 429, message: "text", retry_after: None }
504||{"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}|Expired
504||{"message":"Too large resource version: 9, current: 7"}|Expired
504||{"message":"late","details":{"causes":[{"reason":"Other"}]}}|Unknown { message: "late" }
500||{"message":"Too large resource version: 9"}|Unknown { message: "Too large resource version: 9" }
502|||Unknown { message: "502 Bad Gateway" }
502||<html>bad</html>|Unknown { message: "<html>bad</html>" }
"#;

    #[test]
    fn a_response_is_an_error_by_its_code_headers_and_status() {
        for row in ROWS.trim().lines() {
            let [code, header, body, expected] = row.split('|').collect::<Vec<_>>()[..] else {
                panic!("{row}")
            };
            let header = Some(header).filter(|header| !header.is_empty());
            let header = header.map(|text| (header::RETRY_AFTER, text.parse().expect("a header")));
            let headers: HeaderMap = header.into_iter().collect();
            let status = code.parse().expect("a code");
            let got = check_status(status, &headers, body.as_bytes());
            assert_eq!(format!("{:?}", got.expect_err(row)), expected);
        }
        let created = check_status(StatusCode::CREATED, &HeaderMap::new(), b"{}");
        assert_eq!(created, Ok(()));
    }
}
