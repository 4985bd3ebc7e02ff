//! The Kubernetes version of the dumped cluster, as far as the dump contains it.

use std::sync::Arc;

use kubegc_core::KubernetesVersion;
use serde_json::Value;

use crate::Place;

#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub enum VersionSource {
    /// `status.nodeInfo.kubeletVersion` of the node with the newest kubelet. The API server is never older,
    /// and may be newer.
    #[display("a kubelet")]
    Kubelet,
    /// The API server: `kubectl version -o json`, `kubectl get --raw /version`, or the
    /// `cluster-info/cluster_version.json` of a support bundle.
    #[display("the API server")]
    ApiServer,
}

/// The Kubernetes version of the dumped cluster.
///
/// # Examples
/// ```
/// use kubegc_core::KubernetesVersion;
/// use kubegc_snapshot::{Reader, VersionSource};
/// let version = br#"{"serverVersion": {"major": "1", "minor": "28", "gitVersion": "v1.28.3-gke.100"}}"#;
/// let mut reader = Reader::new(KubernetesVersion::LATEST);
/// reader.read("version.json", &version[..])?;
/// let snapshot = reader.finish()?;
/// let detected = snapshot.detected_version().expect("the API server's");
/// assert_eq!(detected.version, KubernetesVersion::new(28, 3).expect("known"));
/// assert_eq!(detected.source, VersionSource::ApiServer);
/// assert_eq!(detected.to_string(), "v1.28.3-gke.100 by the API server in version.json, document 1");
/// # Ok::<(), kubegc_snapshot::SnapshotError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{text} by {source} in {place}")]
pub struct DetectedVersion {
    pub source: VersionSource,
    /// The release, or the oldest one that kubegc knows.
    pub version: KubernetesVersion,
    /// The text as the dump has it, such as `v1.28.3-gke.100`.
    pub text: Arc<str>,
    pub place: Place,
}

impl DetectedVersion {
    /// Reads a version; `None` if the text is none.
    pub(crate) fn read(text: &str, source: VersionSource, place: &Place) -> Option<Self> {
        let version = text.parse().ok().or_else(|| oldest(text))?;
        Some(Self {
            source,
            version,
            text: text.into(),
            place: place.clone(),
        })
    }

    /// Whether this one decides: of the better source, then the newer one. Equal ones are ordered by place,
    /// so that the order of reading changes nothing.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        let rank = |one: &Self| (one.source, one.version.minor(), one.version.patch());
        let (mine, theirs) = (rank(self), rank(other));
        mine > theirs || (mine == theirs && (&self.text, &self.place) < (&other.text, &other.place))
    }
}

/// The oldest known release, for a text that names an older one.
fn oldest(text: &str) -> Option<KubernetesVersion> {
    let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
    if parts.next() != Some("1") {
        return None;
    }
    let minor: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
    let minor: u16 = minor.parse().ok()?;
    KubernetesVersion::new(minor.max(KubernetesVersion::MINOR_MIN), 0).ok()
}

/// The version in a document without a kind, if it is one of the known documents about versions.
pub(crate) fn of_document(document: &Value) -> Option<&str> {
    let text = |path: &str| document.pointer(path).and_then(Value::as_str);
    text("/serverVersion/gitVersion")
        .or_else(|| text("/info/gitVersion"))
        .or_else(|| text("/gitVersion").filter(|_| document.get("major").is_some()))
        .or_else(|| text("/Server Version"))
}
