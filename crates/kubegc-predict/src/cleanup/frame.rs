//! What a cleanup forecast is asked, and what it takes for granted.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use kubegc_controllers::{
    Cloud, CloudNodeLifecycle, Controller, CronJobHistory, CsrCleaner, LegacyTokenCleaner,
    NamespaceController, PersistentVolumeBinder, PodCertificateRequestCleaner, PodGc, PvProtection,
    PvcProtection, StatefulSetClaims, Storage, TokenCleaner, TtlAfterFinished,
};
use kubegc_core::{KubernetesVersion, Timestamp};

use super::{facts, words::some_of};
use crate::{Cluster, fate::Finding};

/// The period of a forecast, the controllers that run, and what is assumed of everything outside of the cluster. Printed with the forecast.
///
/// The garbage collector, the namespace controller and the kubelets are part of every forecast.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct CleanupFrame {
    /// When the dump was taken, and every controller started; `None`: when the newest thing in it happened, for dumps do not say.
    ///
    /// Too early, and what is due already looks as if it were due later; too late, and the other way round.
    pub now: Option<Timestamp>,
    /// How far to look. Default: a day.
    pub horizon: Duration,
    /// The controllers that run. Default: those that clean up nodes, pods, jobs, tokens, certificate requests, claims and volumes, with
    /// upstream's defaults in the cluster's version. External provisioners that volumes of the dump name are added to them. Controllers of
    /// services, endpoints, attachments, resource claims and revisions are not part of forecasts yet.
    pub controllers: Vec<Arc<dyn Controller>>,
    /// What is known of the storage of the cluster. Default: nothing, beside what [`storage_is_deleted`](Self::storage_is_deleted) says.
    pub storage: Storage,
    /// What the cloud says of nodes, by name. Default: nothing. A node of which it says nothing stays, undecided unless it is ready.
    pub cloud: BTreeMap<Arc<str>, Instance>,
    /// Whether plugins and provisioners delete the storage that they are asked to delete. Default: they do. Otherwise they are not
    /// there, and their volumes stay, undecided.
    pub storage_is_deleted: bool,
}

/// What the cloud says of the instance behind a node.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    /// Whether it exists.
    pub exists: Cloud,
    /// Whether it is shut down.
    pub is_shutdown: Cloud,
}

impl Default for Instance {
    /// Nothing is known of it.
    fn default() -> Self {
        let unknown = || Cloud::Failed("not asked".into());
        Self {
            exists: unknown(),
            is_shutdown: unknown(),
        }
    }
}

impl CleanupFrame {
    /// The default for a version.
    #[must_use]
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            now: None,
            horizon: Duration::from_secs(24 * 60 * 60),
            controllers: forecast_controllers(version),
            storage: Storage::default(),
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

    /// The same with a controller in the place of the one of its name, or beside the others.
    #[must_use]
    pub fn with(mut self, controller: impl Controller + 'static) -> Self {
        let name = controller.info().name;
        let same = |known: &&mut Arc<dyn Controller>| known.info().name == name;
        match self.controllers.iter_mut().find(same) {
            Some(known) => *known = Arc::new(controller),
            None => self.controllers.push(Arc::new(controller)),
        }
        self
    }

    /// The same without the controller of a name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.controllers
            .retain(|controller| controller.info().name != name);
        self
    }

    /// The same with only the controllers of these names, such as `pod-garbage-collector-controller`.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Self {
        self.controllers
            .retain(|controller| names.contains(&controller.info().name));
        self
    }

    /// Whether a controller of this name runs.
    pub(super) fn runs(&self, name: &str) -> bool {
        self.controllers
            .iter()
            .any(|controller| controller.info().name == name)
    }

    /// The names of the default controllers that do not run.
    fn disabled(&self) -> impl Iterator<Item = &'static str> + '_ {
        let defaults = forecast_controllers(KubernetesVersion::LATEST).into_iter();
        let names = defaults.map(|controller| controller.info().name);
        // The namespace controller is part of every forecast.
        names.filter(|name| !self.runs(name) && *name != "namespace-controller")
    }

    /// What is assumed, one sentence each. Controllers that run are not listed.
    pub(super) fn assumptions(&self) -> Vec<String> {
        let mut told = vec!["all controllers start at the beginning".to_owned()];
        let off: Vec<&str> = self.disabled().collect();
        if !off.is_empty() {
            told.push(format!("these do not run: {}", off.join(", ")));
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

/// The controllers of a forecast, with upstream's defaults, by name.
fn forecast_controllers(version: KubernetesVersion) -> Vec<Arc<dyn Controller>> {
    vec![
        Arc::new(CsrCleaner::new(version)),
        Arc::new(CloudNodeLifecycle::new(version)),
        Arc::new(CronJobHistory::new(version)),
        Arc::new(LegacyTokenCleaner::new(version)),
        Arc::new(NamespaceController::new(version)),
        Arc::new(PersistentVolumeBinder::new(version)),
        Arc::new(PvProtection::new(version)),
        Arc::new(PvcProtection::new(version)),
        Arc::new(PodGc::new(version)),
        Arc::new(PodCertificateRequestCleaner::new(version)),
        Arc::new(StatefulSetClaims::new(version)),
        Arc::new(TokenCleaner::new(version)),
        Arc::new(TtlAfterFinished::new(version)),
    ]
}

/// How many nodes a sentence names.
const NODES_NAMED_MAX: usize = 8;
