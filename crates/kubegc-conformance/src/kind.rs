//! Finds the kind of case of a line: by the file's name if it is one of the known names, by the content
//! elsewhere and where the content is requests to an API server.

/// The kinds of recorded cases.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The graph builder and the two workers, driven step by step.
    GraphSequence,
    /// Upstream's own scenarios of contradictory references.
    ConflictingData,
    /// The bytes of one patch.
    Patch,
    /// A scenario recorded from a real cluster.
    Scenario,
    /// Outcomes of a scenario whose inputs are in the file without `-1worker`.
    CompactScenario,
    /// A kubelet's container garbage collection.
    ContainerGc,
    /// A kubelet's image garbage collection.
    ImageGc,
    /// The validation of an image policy.
    ImageGcPolicy,
    /// Which resource an eviction signal reclaims.
    SignalReclaim,
    /// One of the other controllers.
    Controller,
    /// The outcome of deletions in a whole control plane.
    Forecast,
    /// Requests to an API server and its responses.
    Requests,
}

/// Prefixes of file names up to the first `.`; the first that fits counts.
const PREFIXES: [(&str, Kind); 7] = [
    ("graph_sequences", Kind::GraphSequence),
    ("conflicting_data", Kind::ConflictingData),
    ("patches", Kind::Patch),
    ("container_gc", Kind::ContainerGc),
    ("image_gc_policy", Kind::ImageGcPolicy),
    ("image_gc", Kind::ImageGc),
    ("signal_reclaim", Kind::SignalReclaim),
];

/// The suffix of files in compact form.
pub(crate) const COMPACT: &str = "-1worker";

impl Kind {
    /// The kind in a file's name. `stem` is the name up to the first `.`.
    #[must_use]
    pub fn of_name(stem: &str) -> Option<Self> {
        if stem.ends_with(COMPACT) {
            return Some(Self::CompactScenario);
        }
        PREFIXES
            .iter()
            .find(|(prefix, _)| stem.starts_with(prefix))
            .map(|&(_, kind)| kind)
    }

    /// The kind that a line's keys show.
    #[must_use]
    pub fn of_keys(keys: &serde_json::Map<String, serde_json::Value>) -> Option<Self> {
        let has = |key: &str| keys.contains_key(key);
        if has("mechanism") && has("case") {
            Some(Self::Controller)
        } else if has("requests") && has("managedFields") {
            Some(Self::Requests)
        } else if has("before") && has("intent") && has("fates") {
            Some(Self::Forecast)
        } else if has("steps") && has("outcomes") {
            Some(Self::Scenario)
        } else if has("outcomes") && has("name") {
            Some(Self::CompactScenario)
        } else if has("steps") && has("ids") {
            Some(Self::GraphSequence)
        } else if has("steps") && has("semantics") {
            Some(Self::ConflictingData)
        } else if has("kind") && has("body") {
            Some(Self::Patch)
        } else if has("rounds") && has("outcomes") {
            Some(Self::ImageGc)
        } else if has("call") && has("outcomes") {
            Some(Self::ContainerGc)
        } else if has("high_threshold_percent") || has("low_threshold_percent") {
            Some(Self::ImageGcPolicy)
        } else if has("signal") {
            Some(Self::SignalReclaim)
        } else {
            None
        }
    }
}

/// The release in a file's name, for cases without one.
pub(crate) fn semantics_of_name(stem: &str) -> &'static str {
    if stem.ends_with("_latest") {
        "latest"
    } else if stem.ends_with("_128") {
        "1.28"
    } else {
        "1.20.2"
    }
}
