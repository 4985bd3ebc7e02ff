//! The recorded forms, as they are on disk. Missing fields have their zero value; unknown fields are refused.

use serde::{Deserialize, Serialize, de::IgnoredAny};

/// A run over containers, sandboxes and logs.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ContainerCase {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "note")]
    _note: IgnoredAny,
    #[serde(rename = "runs")]
    _runs: IgnoredAny,
    pub(super) call: String,
    pub(super) now: i64,
    pub(super) policy: ContainerPolicy,
    pub(super) all_sources_ready: bool,
    pub(super) evict_non_deleted_pods: bool,
    pub(super) pods: Vec<Pod>,
    pub(super) containers: Vec<Container>,
    pub(super) sandboxes: Vec<Sandbox>,
    pub(super) log_dirs: Vec<LogDirectory>,
    pub(super) read_dir_fails: bool,
    pub(super) symlinks: Vec<Symlink>,
    pub(super) list_fails: ListFails,
    pub(super) tie_over_12: bool,
    pub(super) distinct_outcomes: usize,
    pub(super) outcomes: Vec<ContainerOutcome>,
    pub(super) upstream_checked: bool,
    pub(super) upstream_remaining: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ContainerPolicy {
    pub(super) min_age: i64,
    /// Negative: any number.
    pub(super) max_per_pod_container: i64,
    /// Negative: any number.
    pub(super) max_containers: i64,
}

/// The responses of the pod workers.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Pod {
    pub(super) uid: String,
    pub(super) content_removed: bool,
    pub(super) runtime_removed: bool,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Container {
    pub(super) id: String,
    pub(super) pod_uid: String,
    pub(super) name: String,
    pub(super) sandbox_id: String,
    pub(super) state: ContainerState,
    pub(super) created_at: i64,
    pub(super) attempt: u32,
    pub(super) stop_fails: bool,
    pub(super) remove_fails: bool,
    pub(super) status_nil: bool,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum ContainerState {
    #[default]
    Created,
    Running,
    Exited,
    Unknown,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Sandbox {
    pub(super) id: String,
    pub(super) pod_uid: String,
    pub(super) state: SandboxState,
    pub(super) created_at: i64,
    pub(super) attempt: u32,
    pub(super) stop_fails: bool,
    pub(super) remove_fails: bool,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum SandboxState {
    #[default]
    Ready,
    NotReady,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LogDirectory {
    pub(super) name: String,
    pub(super) remove_fails: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Symlink {
    pub(super) path: String,
    pub(super) stat: Stat,
    pub(super) remove_fails: bool,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stat {
    #[default]
    Exists,
    NotExist,
    OtherError,
}

/// Which listings fail.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum ListFails {
    #[default]
    #[serde(rename = "")]
    None,
    First,
    All,
    Sandboxes,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ContainerOutcome {
    pub(super) batches: Vec<Batch>,
    pub(super) stop_attempted: Vec<String>,
    pub(super) removed_containers: Vec<String>,
    pub(super) sandbox_stop_attempted: Vec<String>,
    pub(super) removed_sandboxes: Vec<String>,
    pub(super) log_dir_attempts: Vec<String>,
    pub(super) symlink_attempts: Vec<String>,
    pub(super) error: String,
}

/// One call of "remove the oldest".
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Batch {
    pub(super) phase: String,
    /// Empty for the node as a whole.
    pub(super) unit: String,
    pub(super) attempts: Vec<String>,
}

/// Rounds over images, on one set of records.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ImageCase {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "note")]
    _note: IgnoredAny,
    #[serde(rename = "runs")]
    _runs: IgnoredAny,
    #[serde(rename = "clock_skew")]
    _clock_skew: bool,
    #[serde(rename = "duplicate_ids")]
    _duplicate_ids: bool,
    #[serde(rename = "overflow")]
    _overflow: bool,
    pub(super) semantics: String,
    pub(super) policy: ImagePolicy,
    pub(super) began_gc: i64,
    pub(super) runtime_class_in_image_cri_api: bool,
    pub(super) sandbox_image: String,
    pub(super) rounds: Vec<Round>,
    pub(super) distinct_outcomes: usize,
    pub(super) outcomes: Vec<Vec<RoundOutcome>>,
    pub(super) upstream_expect: Option<UpstreamExpect>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ImagePolicy {
    pub(super) high_threshold_percent: i32,
    pub(super) low_threshold_percent: i32,
    pub(super) min_age: i64,
    pub(super) max_age: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Round {
    pub(super) now: i64,
    pub(super) detect_now: Option<i64>,
    pub(super) call: Call,
    pub(super) detect_zero: bool,
    pub(super) bytes_to_free: i64,
    pub(super) images: Vec<Image>,
    pub(super) used: Vec<Used>,
    pub(super) remove_fails: Vec<String>,
    pub(super) list_error: ListError,
    pub(super) fs: FileSystem,
    pub(super) sandbox_ref: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Call {
    #[default]
    Detect,
    Gc,
    DeleteUnused,
    FreeSpace,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Image {
    pub(super) id: String,
    pub(super) size: i64,
    pub(super) pinned: bool,
    pub(super) handler: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Used {
    pub(super) id: String,
    pub(super) handler: String,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ListError {
    #[default]
    #[serde(rename = "")]
    None,
    Images,
    Pods,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FileSystem {
    pub(super) capacity: Option<u64>,
    pub(super) available: Option<u64>,
    pub(super) error: bool,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RoundOutcome {
    pub(super) removed: Vec<Attempt>,
    pub(super) failed: Vec<Attempt>,
    pub(super) eviction_order: Vec<Vec<String>>,
    pub(super) usage_percent: Option<i64>,
    pub(super) amount_to_free: Option<i64>,
    pub(super) freed: Option<i64>,
    pub(super) error: String,
    pub(super) error_text: String,
    pub(super) events: Vec<String>,
    pub(super) records: Vec<Record>,
}

/// Id, handler, reason.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Attempt(pub(super) String, pub(super) String, pub(super) String);

/// Key, first detected, last used, size, pinned.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Record(
    pub(super) String,
    pub(super) Option<i64>,
    pub(super) Option<i64>,
    pub(super) i64,
    pub(super) bool,
);

/// The assertions of upstream's test after the last round; missing fields are not asserted.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct UpstreamExpect {
    pub(super) images_left: Option<usize>,
    pub(super) freed: Option<i64>,
    pub(super) records: Option<usize>,
    pub(super) error: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PolicyCase {
    pub(super) high_threshold_percent: i32,
    pub(super) low_threshold_percent: i32,
    pub(super) error: String,
}

/// The functions that a node under pressure calls for a signal.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SignalCase {
    pub(super) semantics: String,
    pub(super) dedicated_image_fs: bool,
    pub(super) split_container_image_fs: bool,
    pub(super) signal: String,
    pub(super) in_map: bool,
    pub(super) functions: Vec<String>,
}
