//! Request bodies: JSON, YAML or protobuf, within size limits.

use std::fmt;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use kubegc_core::ApiResource;
use kubegc_sim::{json_kind, json_syntax_error};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

use super::{
    accept::{JSON, MEDIA_TYPES, PROTOBUF, YAML},
    problem::{self, Refusal},
    protobuf::{self, Undecodable},
};

/// Maximum size of a body.
///
/// # Upstream
/// `MaxRequestBodyBytes` in `apiserver/pkg/server/config.go`, 1.20.2.
pub(crate) const BYTES_MAX: usize = 3 * 1024 * 1024;

pub(super) fn within_bounds(request: &http::Request<Bytes>) -> Result<(), Refusal> {
    if request.body().len() > BYTES_MAX {
        let message = format!("Request entity too large: limit is {BYTES_MAX}");
        return Err(problem::refusal(413, "RequestEntityTooLarge", message, None));
    }
    Ok(())
}

/// Reads a body that must hold an object of a resource. `kind` is the expected kind, which a subresource may
/// have of its own.
///
/// # Errors
/// 415 for other media types, 400 for unreadable bodies.
///
/// # Upstream
/// `transformDecodeError` in `apiserver/pkg/endpoints/handlers/rest.go`, 1.20.2.
pub(super) fn object(
    request: &http::Request<Bytes>,
    resource: &ApiResource,
    kind: &str,
) -> Result<Value, Refusal> {
    document(request, (&resource.api_version(), kind))?.map_err(|why| {
        let problem = why.problem;
        problem::bad_request(match why.kind {
            Some((api_version, read)) => {
                let version = api_version.rsplit('/').next().unwrap_or_default();
                let problem = if resource.custom {
                    NOT_MARSHALABLE
                } else {
                    &problem
                };
                format!("{read} in version {version:?} cannot be handled as a {kind}: {problem}")
            }
            None => {
                let excerpt = excerpt(request.body());
                format!("the object provided is unrecognized (must be of type {kind}): {problem} ({excerpt})")
            }
        })
    })
}

/// The problem of custom resources in protobuf, whatever is in them.
const NOT_MARSHALABLE: &str = "object *unstructured.Unstructured does not implement the protobuf marshalling interface \
     and cannot be encoded to a protobuf message";

/// Reads a body; the inner error is the reason why it holds no object. `default` is the API version and kind
/// of one in protobuf that does not say them.
pub(super) fn document(
    request: &http::Request<Bytes>,
    default: (&str, &str),
) -> Result<Result<Value, Undecodable>, Refusal> {
    let body = request.body();
    let read = match content_type(request) {
        "" | JSON => serde_json::from_slice::<Value>(body)
            .map_err(|error| json_syntax_error(body).unwrap_or_else(|| error.to_string())),
        YAML => yaml(body),
        PROTOBUF => return Ok(protobuf::decode(body, default)),
        _ => {
            let message = format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                MEDIA_TYPES.join(", ")
            );
            return Err(problem::refusal(415, "UnsupportedMediaType", message, None));
        }
    };
    let unreadable = |why: String| Undecodable {
        kind: None,
        problem: format!("couldn't get version/kind; json parse error: {why}"),
    };
    Ok(read.map_err(unreadable).and_then(|value| match value {
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        Value::Object(_) => Ok(value),
        other => Err(unreadable(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            json_kind(&other)
        ))),
    }))
}

/// The beginning of a body, as refusals show it: in hexadecimal digits if it is not an object.
fn excerpt(body: &[u8]) -> String {
    const BYTES_MAX: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let shown = body.get(..BYTES_MAX).unwrap_or(body);
    let mut text = if body.first() == Some(&b'{') {
        String::from_utf8_lossy(shown).into_owned()
    } else {
        shown.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    if body.len() > BYTES_MAX {
        text.push_str(" ...");
    }
    text
}

/// Reads YAML, of which JSON is a part. The last value of a repeated key is used. The reader's own budget
/// bounds depth, nodes and the growth of aliases.
pub(super) fn yaml(body: &[u8]) -> Result<Value, String> {
    let text = str::from_utf8(body).map_err(|error| error.to_string())?;
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: DuplicateKeyPolicy::LastWins,
    };
    let read = serde_saphyr::from_str_with_options::<Yaml>(text, options);
    let problem = |error: serde_saphyr::Error| {
        format!(
            "error converting YAML to JSON: yaml: {}",
            go_yaml_error(text, &error.to_string())
        )
    };
    read.map(|yaml| yaml.0).map_err(problem)
}

/// The error of Go's reader, which finds an unclosed flow collection at the end of the text. Other errors are
/// those of the reader used here.
fn go_yaml_error(text: &str, error: &str) -> String {
    let unclosed = [("unclosed bracket '['", ']'), ("unclosed bracket '{'", '}')];
    match unclosed.into_iter().find(|(problem, _)| error.contains(problem)) {
        Some((_, end)) => format!(
            "line {}: did not find expected ',' or '{end}'",
            text.lines().count()
        ),
        None => error.lines().next().unwrap_or_default().to_owned(),
    }
}

/// A document that is read as YAML 1.1, whose keys are scalars of any type: the key `y` is `true`.
///
/// # Upstream
/// `convertToJSONableObject` in [`sigs.k8s.io/yaml`](https://github.com/kubernetes-sigs/yaml/blob/v1.2.0/yaml.go).
struct Yaml(Value);

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Yaml, E> {
        Ok(Yaml(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Yaml, E> {
        Ok(Yaml(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Yaml, E> {
        Ok(Yaml(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Yaml, E> {
        Ok(Yaml(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Yaml, E> {
        Ok(Yaml(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Yaml, E> {
        Ok(Yaml(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Yaml, E> {
        Ok(Yaml(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Yaml, A::Error> {
        let mut list = Vec::new();
        while let Some(Yaml(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Yaml(Value::Array(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Yaml, A::Error> {
        let mut fields = serde_json::Map::new();
        while let Some((Yaml(key), Yaml(value))) = entries.next_entry()? {
            let key = match key {
                Value::String(key) => key,
                Value::Bool(_) | Value::Number(_) => key.to_string(),
                other => {
                    return Err(de::Error::custom(format!("unsupported map key {other}")));
                }
            };
            fields.insert(key, value);
        }
        Ok(Yaml(Value::Object(fields)))
    }
}

/// The media type of the body, without parameters; empty if the header is missing.
pub(super) fn content_type(request: &http::Request<Bytes>) -> &str {
    let header = request.headers().get(CONTENT_TYPE);
    let text = header.and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}
