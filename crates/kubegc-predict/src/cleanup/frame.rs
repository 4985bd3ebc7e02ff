//! The question of a clean-up forecast.

use std::{fmt, sync::Arc, time::Duration};

use kubegc_controllers::{Controller, default_controllers};
use kubegc_core::{KubernetesVersion, Timestamp};

use super::facts;
use crate::{Cluster, fate::Finding};

/// The period of a forecast and the controllers that run. Printed with the forecast.
///
/// The garbage collector and the kubelets are part of every forecast.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct CleanupFrame {
    /// When the dump was taken, and every controller started; `None`: when the newest thing in it happened, for dumps do not say.
    ///
    /// Too early, and what is due already looks as if it were due later; too late, and the other way round.
    pub now: Option<Timestamp>,
    /// How far to look. Default: a day.
    pub horizon: Duration,
    /// The controllers that run beside the garbage collector. Default: those that kube-controller-manager runs by default in the cluster's
    /// version. External provisioners that volumes of the dump name are added to them.
    pub controllers: Vec<Arc<dyn Controller>>,
}

impl CleanupFrame {
    /// The default for a version.
    #[must_use]
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            now: None,
            horizon: Duration::from_secs(24 * 60 * 60),
            controllers: default_controllers(version),
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
        let nodes = facts::nodes_not_in_dump(cluster);
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
        let defaults = default_controllers(KubernetesVersion::LATEST).into_iter();
        let names = defaults.map(|controller| controller.info().name);
        names.filter(|name| !self.runs(name))
    }

    /// What is assumed, one sentence each. Controllers that run are not listed.
    pub(super) fn assumptions(&self) -> Vec<String> {
        let mut assumed = vec!["all controllers start at the beginning".to_owned()];
        let off: Vec<&str> = self.disabled().collect();
        if !off.is_empty() {
            assumed.push(format!("these do not run: {}", off.join(", ")));
        }
        assumed
    }
}

impl fmt::Display for CleanupFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.assumptions().join("; "))
    }
}
