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
    NodeCall, Watch,
    accept::Encoding,
    problem::{self, Refusal},
};

/// A response before it is converted to HTTP.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) code: u16,
    body: Body,
    pub(super) warnings: Vec<String>,
    retry_after_s: Option<u64>,
}

#[derive(Clone, Debug)]
enum Body {
    Object {
        object: Value,
        encoding: Encoding,
        /// Parameters of the media type, such as `;v=v2`.
        parameters: String,
    },
    Bytes(&'static str, Bytes),
}

pub(super) enum Outcome {
    Whole(Reply),
    Stream(Watch),
    Node(Box<NodeCall>),
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        Self::Whole(reply)
    }
}

pub(super) const JSON: &str = "application/json";
/// A path that nothing is served at gets a JSON Status, not a plain text. Its body is assumed to be that of
/// an unknown resource of a built-in group.
const UNKNOWN_PATHS_GET_A_STATUS: Behavior = Behavior::since(38, 0, "kubernetes #138219");

const PLAIN: &str = "text/plain; charset=utf-8";

impl Reply {
    /// A response with an object, in JSON unless it is [encoded](Self::encoded) otherwise.
    pub(super) fn object(code: u16, object: Value) -> Self {
        let retry_after_s = object["details"]["retryAfterSeconds"].as_u64();
        Self {
            code,
            body: Body::Object {
                object,
                encoding: Encoding::Json,
                parameters: String::new(),
            },
            warnings: Vec::new(),
            retry_after_s: retry_after_s.filter(|_| code >= 400),
        }
    }

    pub(super) fn plain(code: u16, text: &'static str) -> Self {
        Self::bytes(code, PLAIN, text.as_bytes())
    }

    pub(super) fn bytes(code: u16, content_type: &'static str, body: &'static [u8]) -> Self {
        Self {
            code,
            body: Body::Bytes(content_type, Bytes::from_static(body)),
            warnings: Vec::new(),
            retry_after_s: None,
        }
    }

    pub(super) fn encoded(mut self, with: Encoding) -> Self {
        if let Body::Object { encoding, .. } = &mut self.body {
            *encoding = with;
        }
        self
    }

    pub(super) fn with_parameters(mut self, of_type: String) -> Self {
        if let Body::Object { parameters, .. } = &mut self.body {
            *parameters = of_type;
        }
        self
    }

    pub(super) fn page_not_found(version: KubernetesVersion) -> Self {
        if version.has(UNKNOWN_PATHS_GET_A_STATUS) {
            problem::not_found().into()
        } else {
            Self::plain(404, "404 page not found\n")
        }
    }

    pub(super) fn into_http(self) -> http::Response<Bytes> {
        let (content_type, body) = match self.body {
            Body::Bytes(content_type, body) => (HeaderValue::from_static(content_type), body),
            Body::Object {
                object,
                encoding,
                parameters,
            } => match encoding.encode(&object) {
                Ok(bytes) => {
                    let content_type = format!("{}{parameters}", encoding.media_type());
                    let json = HeaderValue::from_static(JSON);
                    (HeaderValue::try_from(content_type).unwrap_or(json), bytes.into())
                }
                // Ends: the refusal is in JSON, which has every object.
                Err(why) => return Self::from(problem::internal(why)).into_http(),
            },
        };
        let mut response = http::Response::new(body);
        // Codes come from the server's own table of responses: all lie between 200 and 599.
        *response.status_mut() = http::StatusCode::from_u16(self.code).unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, content_type);
        if let Some(seconds) = self.retry_after_s {
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

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Self::object(refusal.code, refusal.to_json())
    }
}

pub(crate) fn refused(status: Status) -> http::Response<Bytes> {
    Reply::from(Box::new(status)).into_http()
}
