//! What a cleanup forecast is asked, and what it takes for granted.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use kubegc_core::{KubernetesVersion, Timestamp};
use kubegc_lifecycle::{controller, node::Cloud};

/// From when to when to look, which mechanisms run, and what those outside of the cluster do. Printed with the forecast.
///
/// What the collector, the controller that empties namespaces and the kubelets do is part of every forecast: [`leases`] and [`namespaces`] in the settings
/// add nothing to it.
///
/// [`leases`]: controller::Settings::leases
/// [`namespaces`]: controller::Settings::namespaces
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanupFrame {
    /// When the dump was taken, and every controller started; `None`: when the newest thing in it happened, for dumps do not say.
    ///
    /// Too early, and what is due already looks as if it were due later; too late, and the other way round.
    pub now: Option<Timestamp>,
    /// How far to look. Default: a day.
    pub horizon: Duration,
    /// Which mechanisms run, and how. Default: all, with upstream's defaults in the cluster's version. Provisioners that are
    /// named by volumes of the dump are added to those in it.
    pub settings: controller::Settings,
    /// What the cloud says of nodes, by name. Default: nothing. A node of which it says nothing stays, undecided unless it is ready.
    pub cloud: BTreeMap<Arc<str>, Instance>,
    /// Whether plugins and provisioners delete the storage that they are asked to delete. Default: they do. Otherwise they are not
    /// there, and their volumes stay, undecided.
    pub storage_is_deleted: bool,
}

/// What the cloud says of the instance behind a node.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Instance {
    /// Whether it exists.
    pub exists: Cloud,
    /// Whether it is shut down.
    pub is_shutdown: Cloud,
}

impl CleanupFrame {
    /// The default for a version.
    #[must_use]
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            now: None,
            horizon: Duration::from_secs(24 * 60 * 60),
            settings: controller::Settings::new(version),
            cloud: BTreeMap::new(),
            storage_is_deleted: true,
        }
    }

    /// The same up to another horizon.
    #[must_use]
    pub const fn up_to(mut self, horizon: Duration) -> Self {
        self.horizon = horizon;
        self
    }

    /// The same from another time on.
    #[must_use]
    pub const fn from(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }
}

impl fmt::Display for CleanupFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all controllers start at the beginning; ")?;
        f.write_str(if self.storage_is_deleted {
            "storage is deleted when its volume is to go; "
        } else {
            "nobody deletes storage; "
        })?;
        match self.cloud.len() {
            0 => f.write_str("the cloud was not asked about nodes"),
            1 => f.write_str("the cloud was asked about one node"),
            nodes => write!(f, "the cloud was asked about {nodes} nodes"),
        }
    }
}
