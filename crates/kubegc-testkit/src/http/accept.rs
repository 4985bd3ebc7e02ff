//! Content negotiation: objects, metadata, tables, and the two forms of discovery.
//!
//! # Upstream
//! `NegotiateMediaTypeOptions` in `apiserver/pkg/endpoints/handlers/negotiation/negotiate.go`, and
//! `goautoneg.ParseAccept`, 1.20.2.

use http::{HeaderMap, header::ACCEPT};

use super::{
    problem::{self, Refusal},
    reply::JSON,
};

/// The form in which objects are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As they are.
    Object,
    /// Metadata alone: `PartialObjectMetadata`.
    Partial(MetaVersion),
    /// Metadata alone of each object of a list: `PartialObjectMetadataList`.
    PartialList(MetaVersion),
    /// Columns for people: `Table`.
    Table(MetaVersion),
}

/// Version of `meta.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    pub(super) const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }

    fn read(version: &str) -> Option<Self> {
        match version {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }
}

/// The requested version of aggregated discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregated {
    V2,
    V2Beta1,
}

/// The form for objects.
///
/// # Errors
/// 406 if nothing in the header is served.
pub(super) fn objects(headers: &HeaderMap) -> Result<Form, Refusal> {
    first_accepted(headers, |clause| {
        let Some(kind) = clause.parameter("as") else {
            return Some(Form::Object);
        };
        if clause.parameter("g") != Some("meta.k8s.io") || clause.is_wild() {
            return None;
        }
        let version = MetaVersion::read(clause.parameter("v")?)?;
        match kind {
            "PartialObjectMetadata" => Some(Form::Partial(version)),
            "PartialObjectMetadataList" => Some(Form::PartialList(version)),
            "Table" => Some(Form::Table(version)),
            _ => None,
        }
    })
}

/// The form for `/api` and `/apis`: `None` is the plain one. `newest` is the newest aggregated form that the
/// release serves.
///
/// # Errors
/// 406 if nothing in the header is served.
pub(super) fn discovery(
    headers: &HeaderMap,
    newest: Option<Aggregated>,
) -> Result<Option<Aggregated>, Refusal> {
    first_accepted(headers, |clause| {
        let Some(kind) = clause.parameter("as") else {
            return Some(None);
        };
        if kind != "APIGroupDiscoveryList" || clause.parameter("g") != Some("apidiscovery.k8s.io") {
            return None;
        }
        match (clause.parameter("v")?, newest?) {
            ("v2", Aggregated::V2) => Some(Some(Aggregated::V2)),
            ("v2beta1", _) => Some(Some(Aggregated::V2Beta1)),
            _ => None,
        }
    })
}

/// Refuses a client that takes no JSON.
pub(super) fn plain(headers: &HeaderMap) -> Result<(), Refusal> {
    first_accepted(headers, |clause| clause.parameter("as").is_none().then_some(()))
}

/// The best of the clauses that `serve` can serve; no header at all takes anything.
fn first_accepted<T>(headers: &HeaderMap, serve: impl Fn(&Clause<'_>) -> Option<T>) -> Result<T, Refusal> {
    let mut header = String::new();
    for value in headers.get_all(ACCEPT) {
        if !header.is_empty() {
            header.push(',');
        }
        header.push_str(&String::from_utf8_lossy(value.as_bytes()));
    }
    if header.trim().is_empty() {
        header = JSON.to_owned();
    }
    let mut clauses: Vec<Clause<'_>> = header.split(',').filter_map(Clause::read).collect();
    // Stable: equals stay in the order of the header.
    clauses.sort_by_key(|clause| (std::cmp::Reverse(clause.quality), clause.wildness()));
    clauses
        .iter()
        .filter(|clause| clause.takes_json())
        .find_map(serve)
        .ok_or_else(|| problem::not_acceptable(&[JSON]))
}

/// One media range of the header.
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

    fn is_wild(&self) -> bool {
        self.wildness() > 0
    }

    fn takes_json(&self) -> bool {
        let charset = self.parameter("charset").unwrap_or("utf-8");
        matches!((self.main, self.sub), ("*", "*") | ("application", "*" | "json"))
            && charset.eq_ignore_ascii_case("utf-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !text.is_empty() {
            headers.insert(ACCEPT, text.parse().expect("the tests write valid headers"));
        }
        headers
    }

    #[test]
    fn the_first_form_that_is_served_wins() {
        use MetaVersion::{V1, V1Beta1};
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        for (text, expected) in [
            ("", Some(Form::Object)),
            ("*/*", Some(Form::Object)),
            ("application/*", Some(Form::Object)),
            ("application/json", Some(Form::Object)),
            ("application/json; charset=utf-8", Some(Form::Object)),
            ("application/json, */*;q=0.1", Some(Form::Object)),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/yaml", None),
            ("text/html", None),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some(Form::Object),
            ),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                Some(Form::Partial(V1)),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1",
                Some(Form::PartialList(V1Beta1)),
            ),
            (kubectl, Some(Form::Table(V1))),
            (
                "application/json;as=Table;v=v2;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io",
                Some(Form::Table(V1Beta1)),
            ),
            ("application/json;as=Table;v=v1;g=other", None),
            (
                "application/json;q=0.1,application/json;as=Table;v=v1;g=meta.k8s.io;q=0.9",
                Some(Form::Table(V1)),
            ),
            (
                "*/*,application/json;as=Table;v=v1;g=meta.k8s.io",
                Some(Form::Table(V1)),
            ),
            ("nonsense", None),
        ] {
            assert_eq!(objects(&header(text)).ok(), expected, "{text}");
        }
    }

    #[test]
    fn aggregated_discovery_is_for_those_who_ask_and_releases_that_have_it() {
        use Aggregated::{V2, V2Beta1};
        let kube = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        for (newest, expected) in [(None, None), (Some(V2Beta1), Some(V2Beta1)), (Some(V2), Some(V2))] {
            assert_eq!(discovery(&header(kube), newest), Ok(expected));
            assert_eq!(discovery(&header("application/json"), newest), Ok(None));
        }
        assert!(
            discovery(
                &header("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
                None
            )
            .is_err()
        );
    }
}
