//! What a cleanup forecast is asked, and what it takes for granted.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use kubegc_core::{KubernetesVersion, Timestamp};
use kubegc_lifecycle::{
    controller::{self, Mechanism},
    node::Cloud,
    pod,
};

use super::{
    facts,
    words::{number, some_of},
};
use crate::{Cluster, fate::Finding};

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

    /// What is missing in the dump of what it asks for: nodes about which the cloud was asked, whose answers change nothing, and stateful sets that claims may
    /// belong to.
    ///
    /// # Complexity
    /// O(c log n) for c answers and claims, and n objects.
    #[must_use]
    pub fn findings(&self, cluster: &Cluster) -> Vec<Finding> {
        let nodes = facts::nodes_not_in_dump(cluster, self);
        nodes.chain(facts::sets_not_in_dump(cluster, self)).collect()
    }

    /// Whether a mechanism takes part in the forecast.
    pub(super) const fn runs(&self, mechanism: Mechanism) -> bool {
        match mechanism {
            // They are part of every forecast.
            Mechanism::Leases | Mechanism::Namespaces => true,
            // Those that volumes name come with the controller that releases these.
            Mechanism::ExternalVolumes => {
                self.settings.runs(mechanism) || self.settings.runs(Mechanism::Volumes)
            }
            _ => self.settings.runs(mechanism),
        }
    }

    /// How many pods that have ended may stay; `None`: all.
    pub(super) fn terminated_pods_max(&self) -> Option<usize> {
        let threshold = self.settings.pods.as_ref()?.terminated_threshold;
        usize::try_from(threshold).ok().filter(|&threshold| threshold > 0)
    }

    /// What is taken for granted, each in a sentence of its own. What runs as it does everywhere is not told.
    pub(super) fn assumptions(&self) -> Vec<String> {
        let mut told = vec!["all controllers start at the beginning".to_owned()];
        let off: Vec<&str> = Mechanism::ALL
            .into_iter()
            .filter(|&mechanism| !self.runs(mechanism))
            .map(Mechanism::actor)
            .collect();
        if !off.is_empty() {
            told.push(format!("these do not run: {}", off.join(", ")));
        }
        if let Some(pods) = &self.settings.pods
            && pods.terminated_threshold != pod::Settings::new(KubernetesVersion::LATEST).terminated_threshold
        {
            told.push(match self.terminated_pods_max() {
                Some(max) => format!("no more than {} that have ended may stay", number(max, "pod")),
                None => "all pods that have ended may stay".to_owned(),
            });
        }
        told.push(if self.storage_is_deleted {
            "storage is deleted when its volume is to go".to_owned()
        } else {
            "nobody deletes storage".to_owned()
        });
        let nodes: Vec<String> = self.cloud.keys().map(ToString::to_string).collect();
        told.push(match &*nodes {
            [] => "the cloud was not asked about nodes".to_owned(),
            [node] => format!("the cloud was asked about node {node}"),
            nodes => format!(
                "the cloud was asked about {} nodes: {}",
                nodes.len(),
                some_of(nodes.to_vec(), NODES_NAMED_MAX).join(", ")
            ),
        });
        told
    }
}

impl fmt::Display for CleanupFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.assumptions().join("; "))
    }
}

/// How many nodes a sentence names.
const NODES_NAMED_MAX: usize = 8;
