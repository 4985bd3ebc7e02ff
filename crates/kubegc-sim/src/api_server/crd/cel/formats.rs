//! Named formats, such as `format.dns1123Label().validate(self.name)`.
//!
//! # Upstream
//! [`format.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/library/format.go).

use kubegc_core::KubernetesVersion;

use super::{super::string_formats, urls::Url, values::value};
use crate::formats;

/// A format, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format(pub(super) &'static str);
value!(Format, "kubernetes.NamedFormat");

impl Format {
    /// The texts are those of the latest release.
    pub(super) fn problems(self, text: &str) -> Vec<String> {
        let release = KubernetesVersion::LATEST;
        let unless = |problem: &str| match string_formats::fits(self.0, text) {
            true => Vec::new(),
            false => vec![problem.to_owned()],
        };
        let (kind, text) = match self.0.strip_suffix("Prefix") {
            Some(kind) => (kind, formats::masked_prefix(text)),
            None => (self.0, text.to_owned()),
        };
        match kind {
            "dns1123Label" => formats::label(release, &text),
            "dns1123Subdomain" => formats::subdomain(release, &text),
            "dns1035Label" => formats::dns_1035_label(&text),
            "qualifiedName" => formats::qualified_name(release, &text),
            "labelValue" => formats::label_value(release, &text),
            "uri" => Url::parse_request(&text).err().into_iter().collect(),
            "uuid" => unless("does not match the UUID format"),
            "byte" => unless("invalid base64"),
            "date" => unless("invalid date"),
            _ => unless("invalid datetime"),
        }
    }
}
