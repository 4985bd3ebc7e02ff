//! Responses in HTTP: status code, headers, body.

use bytes::Bytes;
use http::{
    HeaderValue,
    header::{CONTENT_TYPE, RETRY_AFTER, WARNING},
};
use kubegc_core::{Behavior, KubernetesVersion};
use kubegc_sim::Status;
use serde_json::Value;

use super::{
    accept::{Encoding, JSON},
    problem::{self, Refusal},
    protobuf,
};

/// A response before it is converted to HTTP.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) code: u16,
    body: Body,
    encoding: Encoding,
    /// Parameters of the media type of an object, such as `;v=v2`.
    pub(super) parameters: String,
    pub(super) warnings: Vec<String>,
}

#[derive(Clone, Debug)]
enum Body {
    Object(Value),
    /// A media type, and a text of it.
    Text(&'static str, &'static [u8]),
}

/// A path that nothing is served at gets a JSON Status, not a plain text. Its body is assumed to be that of
/// an unknown resource of a built-in group.
const UNKNOWN_PATHS_GET_A_STATUS: Behavior = Behavior::since(38, 0, "kubernetes #138219");

const PLAIN: &str = "text/plain; charset=utf-8";

impl Reply {
    const fn new(code: u16, body: Body) -> Self {
        Self {
            code,
            body,
            encoding: Encoding::Json,
            parameters: String::new(),
            warnings: Vec::new(),
        }
    }

    /// A response with an object, in JSON unless it is [encoded](Self::encoded) otherwise.
    pub(super) const fn object(code: u16, object: Value) -> Self {
        Self::new(code, Body::Object(object))
    }

    pub(super) const fn plain(code: u16, text: &'static str) -> Self {
        Self::text(code, PLAIN, text.as_bytes())
    }

    pub(super) const fn text(code: u16, content_type: &'static str, text: &'static [u8]) -> Self {
        Self::new(code, Body::Text(content_type, text))
    }

    pub(super) fn encoded(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    pub(super) fn page_not_found(version: KubernetesVersion) -> Self {
        if version.has(UNKNOWN_PATHS_GET_A_STATUS) {
            problem::unserved().into()
        } else {
            Self::plain(404, "404 page not found\n")
        }
    }

    pub(super) fn into_http(self) -> http::Response<Bytes> {
        let (content_type, body) = match &self.body {
            Body::Text(content_type, text) => ((*content_type).to_owned(), Bytes::from_static(text)),
            Body::Object(object) => match encode(object, self.encoding) {
                Ok(bytes) => {
                    let content_type = format!("{}{}", self.encoding.media_type(), self.parameters);
                    (content_type, bytes.into())
                }
                // Ends: the refusal is in JSON, which has every object.
                Err(why) => return Self::from(problem::internal(why)).into_http(),
            },
        };
        let mut response = http::Response::new(body);
        // Codes come from the server's own table of responses: all lie between 200 and 599.
        *response.status_mut() = http::StatusCode::from_u16(self.code).unwrap_or_default();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static(JSON);
        headers.insert(CONTENT_TYPE, content_type.try_into().unwrap_or(json));
        if let Body::Object(object) = &self.body
            && let Some(seconds) = object["details"]["retryAfterSeconds"].as_u64()
            && self.code >= 400
        {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        // A header cannot carry every text.
        for text in self.warnings {
            let plain = text.replace('\\', "\\\\").replace('"', "\\\"");
            let plain = plain.replace(char::is_control, "");
            if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{plain}\"").as_bytes()) {
                headers.append(WARNING, value);
            }
        }
        response
    }
}

fn encode(object: &Value, encoding: Encoding) -> Result<Vec<u8>, String> {
    if encoding == Encoding::Protobuf {
        return protobuf::encode(object);
    }
    // A value has text keys and finite numbers only: it can be written.
    let mut bytes = serde_json::to_vec(object).unwrap_or_default();
    bytes.push(b'\n');
    Ok(bytes)
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Self::object(refusal.code, refusal.to_json())
    }
}

pub(crate) fn refused(status: Status) -> http::Response<Bytes> {
    Reply::from(Box::new(status)).into_http()
}
