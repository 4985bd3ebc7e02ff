//! Content negotiation: objects, metadata, tables, and the two forms of discovery.
//!
//! # Upstream
//! `NegotiateMediaTypeOptions` in `apiserver/pkg/endpoints/handlers/negotiation/negotiate.go`, and
//! `goautoneg.ParseAccept`, 1.20.2.

use http::{HeaderMap, header::ACCEPT};
use kubegc_core::{Behavior, KubernetesVersion};

use super::problem::{self, Refusal};

pub(super) const JSON: &str = "application/json";
pub(super) const YAML: &str = "application/yaml";
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media types of objects, best first, in the order of the encodings.
pub(super) const MEDIA_TYPES: [&str; 3] = [JSON, YAML, PROTOBUF];
const STREAMS: [&str; 2] = [
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    /// JSON, as a part of YAML.
    Yaml,
    Protobuf,
}

impl Encoding {
    const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    pub(super) const fn media_type(self) -> &'static str {
        MEDIA_TYPES[self as usize]
    }

    /// The media type of a watch.
    ///
    /// # Upstream
    /// `serveWatchHandler` in `apiserver/pkg/endpoints/handlers/watch.go`, 1.36.
    pub(super) const fn stream_type(self) -> &'static str {
        match self {
            Self::Json | Self::Yaml => JSON,
            Self::Protobuf => STREAMS[1],
        }
    }
}

/// The form in which objects are returned, with its API version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Object,
    /// Metadata alone: `PartialObjectMetadata`.
    Partial(&'static str),
    /// Metadata alone of each object of a list: `PartialObjectMetadataList`.
    PartialList(&'static str),
    /// Columns for people: `Table`.
    Table(&'static str),
}

/// A version of `meta.k8s.io`, with its group.
fn meta_version(version: &str) -> Option<&'static str> {
    match version {
        "v1" => Some("meta.k8s.io/v1"),
        "v1beta1" => Some("meta.k8s.io/v1beta1"),
        _ => None,
    }
}

/// The form and the encoding for objects. `is_encodable` says whether protobuf has the kind: only metadata of
/// other kinds is returned in protobuf, and tables never are.
///
/// # Upstream
/// `AllowsMediaTypeTransform` of `RequestScope` in
/// [`rest.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/endpoints/handlers/rest.go).
pub(super) fn objects(headers: &HeaderMap, is_encodable: bool) -> Result<(Form, Encoding), Refusal> {
    first_accepted(headers, |clause, encoding| {
        let is_binary = encoding == Encoding::Protobuf;
        let Some(kind) = clause.parameter("as") else {
            return (is_encodable || !is_binary).then_some(Form::Object);
        };
        if clause.parameter("g") != Some("meta.k8s.io") || clause.wildness() > 0 {
            return None;
        }
        let version = meta_version(clause.parameter("v")?)?;
        match kind {
            "PartialObjectMetadata" => Some(Form::Partial(version)),
            "PartialObjectMetadataList" => Some(Form::PartialList(version)),
            "Table" if !is_binary => Some(Form::Table(version)),
            _ => None,
        }
    })
}

/// The form for `/api` and `/apis`: a version of the aggregated form, or `None` for the plain one. `served`
/// are the versions of the release.
pub(super) fn discovery(
    headers: &HeaderMap,
    served: &[&'static str],
) -> Result<(Option<&'static str>, Encoding), Refusal> {
    first_accepted(headers, |clause, _| {
        let Some(kind) = clause.parameter("as") else {
            return Some(None);
        };
        if kind != "APIGroupDiscoveryList" || clause.parameter("g") != Some("apidiscovery.k8s.io") {
            return None;
        }
        let wanted = clause.parameter("v")?;
        let version = served.iter().find(|version| **version == wanted)?;
        Some(Some(*version))
    })
}

/// The encoding of what has no other form: other discovery documents, and refusals.
pub(super) fn plain(headers: &HeaderMap) -> Result<Encoding, Refusal> {
    let found = first_accepted(headers, |clause, _| {
        clause.parameter("as").is_none().then_some(())
    });
    found.map(|((), encoding)| encoding)
}

/// Refusals of routes list the media types.
const ROUTES_LIST_MEDIA_TYPES: Behavior = Behavior::since(25, 0, "go-restful 3.8.0");

/// Refuses what the route of a built-in resource or discovery document does not produce, whatever the form.
/// Lists are streamed, too.
///
/// # Upstream
/// `detectRoute` in [`jsr311.go`](https://github.com/emicklei/go-restful/blob/v3.8.0/jsr311.go), and the
/// media types of the routes in `apiserver/pkg/endpoints/installer.go`, 1.36.
pub(super) fn route(headers: &HeaderMap, version: KubernetesVersion, is_list: bool) -> Result<(), Refusal> {
    let header = header(headers);
    let mut ranges = header
        .split(',')
        .map(|clause| clause.split(';').next().unwrap_or_default().trim());
    if header.trim().is_empty() || ranges.any(|range| range == "*/*" || MEDIA_TYPES.contains(&range)) {
        return Ok(());
    }
    if !version.has(ROUTES_LIST_MEDIA_TYPES) {
        return Err(problem::route_not_acceptable(&[]));
    }
    let streams: &[&str] = if is_list { &STREAMS } else { &[] };
    Err(problem::route_not_acceptable(
        &[MEDIA_TYPES.as_slice(), streams].concat(),
    ))
}

/// Refuses a watch in an encoding that has no stream.
pub(super) fn stream(encoding: Encoding) -> Result<(), Refusal> {
    if encoding == Encoding::Yaml {
        return Err(problem::not_acceptable(&STREAMS));
    }
    Ok(())
}

fn header(headers: &HeaderMap) -> String {
    let values = headers.get_all(ACCEPT).iter().filter(|value| !value.is_empty());
    let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
    values.collect::<Vec<_>>().join(",")
}

/// The best of the clauses that `serve` can serve, with the encoding; no header at all takes anything.
fn first_accepted<T>(
    headers: &HeaderMap,
    serve: impl Fn(&Clause<'_>, Encoding) -> Option<T>,
) -> Result<(T, Encoding), Refusal> {
    let mut header = header(headers);
    if header.trim().is_empty() {
        header = JSON.to_owned();
    }
    let mut clauses: Vec<Clause<'_>> = header.split(',').filter_map(Clause::read).collect();
    // Stable: equals stay in the order of the header.
    clauses.sort_by_key(|clause| (std::cmp::Reverse(clause.quality), clause.wildness()));
    let offers = clauses
        .iter()
        .flat_map(|clause| Encoding::ALL.map(|encoding| (clause, encoding)));
    offers
        .filter(|(clause, encoding)| clause.takes(*encoding))
        .find_map(|(clause, encoding)| Some((serve(clause, encoding)?, encoding)))
        .ok_or_else(|| problem::not_acceptable(&MEDIA_TYPES))
}

struct Clause<'a> {
    main: &'a str,
    sub: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    /// In thousandths.
    quality: u32,
}

impl<'a> Clause<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (main, sub) = match parts.next()? {
            "" => return None,
            "*" => ("*", "*"),
            range => range.split_once('/')?,
        };
        let mut clause = Self {
            main: main.trim(),
            sub: sub.trim(),
            parameters: Vec::new(),
            quality: 1000,
        };
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            if key == "q" {
                // Saturating: a value that is not a number counts as zero.
                clause.quality = (value.parse::<f64>().unwrap_or(0.0) * 1000.0) as u32;
            } else {
                clause.parameters.push((key, value));
            }
        }
        Some(clause)
    }

    fn parameter(&self, key: &str) -> Option<&'a str> {
        let found = self.parameters.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| *value).filter(|value| !value.is_empty())
    }

    fn wildness(&self) -> u8 {
        u8::from(self.main == "*") + u8::from(self.sub == "*")
    }

    fn takes(&self, encoding: Encoding) -> bool {
        let (main, sub) = encoding.media_type().split_once('/').unwrap_or_default();
        let is_in_range = (self.main == "*" && self.sub == "*")
            || (self.main == main && (self.sub == "*" || self.sub == sub));
        let charset = self.parameter("charset").unwrap_or("utf-8");
        let streams = match self.parameter("stream") {
            Some(schema) => schema == "watch" && encoding != Encoding::Yaml,
            None => true,
        };
        is_in_range && charset.eq_ignore_ascii_case("utf-8") && streams
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers, the form and encoding for a built-in kind, and `same` or those for a kind without a message.
    const ROWS: &str = r#"
-> Object Json; same
*/* -> Object Json; same
application/* -> Object Json; same
application/json; charset=utf-8 -> Object Json; same
application/json, */*;q=0.1 -> Object Json; same
application/cbor -> none; same
nonsense -> none; same
application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1 -> Partial("meta.k8s.io/v1") Json; same
application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1 -> PartialList("meta.k8s.io/v1beta1") Json; same
application/json;as=Table;v=v1;g=meta.k8s.io,application/json -> Table("meta.k8s.io/v1") Json; same
application/json;as=Table;v=v2;g=meta.k8s.io,application/json -> Object Json; same
application/json;as=Table;v=v1;g=other -> none; same
application/json;q=0.1,application/json;as=Table;v=v1;g=meta.k8s.io;q=0.9 -> Table("meta.k8s.io/v1") Json; same
*/*,application/json;as=Table;v=v1;g=meta.k8s.io -> Table("meta.k8s.io/v1") Json; same
application/vnd.kubernetes.protobuf -> Object Protobuf; none
application/vnd.kubernetes.protobuf,application/json -> Object Protobuf; Object Json
application/json;q=0.5,application/vnd.kubernetes.protobuf;q=0.9 -> Object Protobuf; Object Json
application/vnd.kubernetes.protobuf;stream=watch -> Object Protobuf; none
application/vnd.kubernetes.protobuf;stream=other -> none; same
application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1 -> Partial("meta.k8s.io/v1") Protobuf; same
application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1 -> none; same
application/yaml -> Object Yaml; same
application/yaml;stream=watch -> none; same
application/*;stream=watch -> Object Json; same
"#;

    #[test]
    fn the_first_form_that_is_served_wins() {
        for row in ROWS.trim().lines() {
            let (accepted, expected) = row.split_once("-> ").expect("an arrow");
            let (built_in, other) = expected.split_once("; ").expect("two forms");
            let other = if other == "same" { built_in } else { other };
            let mut headers = HeaderMap::new();
            if !accepted.is_empty() {
                headers.insert(ACCEPT, accepted.parse().expect("a header"));
            }
            for (is_encodable, expected) in [(true, built_in), (false, other)] {
                let found = match objects(&headers, is_encodable) {
                    Ok((form, encoding)) => format!("{form:?} {encoding:?}"),
                    Err(_) => "none".to_owned(),
                };
                assert_eq!(found, expected, "{row}");
            }
        }
    }
}
