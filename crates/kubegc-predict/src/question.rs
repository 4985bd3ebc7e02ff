//! The input of a forecast: intents, horizon, and controllers.

use std::{sync::Arc, time::Duration};

use kubegc_controllers::{Controller, default_controllers};
use kubegc_core::{KubernetesVersion, Timestamp};

use crate::Intent;

/// A question to a [`Cluster`](crate::Cluster): what happens if these deletes are requested at this time.
///
/// # Examples
/// ```
/// # use kubegc_core::DeleteOptions;
/// # use kubegc_predict::Intent;
/// # let cluster = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/owner_and_key.in"));
/// use std::time::Duration;
/// use kubegc_predict::Question;
/// let delete = Intent::delete("shop/ConfigMap/owner".parse()?, DeleteOptions::default());
/// let question = Question::new(cluster.version()).delete(delete).up_to(Duration::from_secs(3_600));
/// assert_eq!(cluster.forecast(&question)?.counts()["deleted"], 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Question {
    /// The deletes, in order. Without any, the question is what happens anyway.
    pub intents: Vec<Intent>,
    /// The time of the dump, of the start of every controller, and of the first delete. Default: the time of
    /// the newest event in the dump.
    pub now: Option<Timestamp>,
    /// The length of the period. Default: until nothing changes any more.
    pub horizon: Option<Duration>,
    /// Whether the forecast includes the changes that happen without the deletes. Default: only if there are
    /// none.
    pub everything: bool,
    /// The controllers that run in addition to the garbage collector. Default: those that
    /// kube-controller-manager runs by default. External provisioners named by volumes of the dump are added.
    pub controllers: Vec<Arc<dyn Controller>>,
}

impl Question {
    /// A question without intents, for a cluster of this version.
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            intents: Vec::new(),
            now: None,
            horizon: None,
            everything: false,
            controllers: default_controllers(version),
        }
    }

    /// The same with one more delete.
    #[must_use]
    pub fn delete(mut self, intent: Intent) -> Self {
        self.intents.push(intent);
        self
    }

    /// The same at this time.
    #[must_use]
    pub const fn at(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// The same up to this time after the beginning.
    #[must_use]
    pub const fn up_to(mut self, horizon: Duration) -> Self {
        self.horizon = Some(horizon);
        self
    }

    /// The same with a controller that replaces the one of its name, or runs in addition to the others.
    #[must_use]
    pub fn with(mut self, controller: impl Controller + 'static) -> Self {
        let name = controller.info().name;
        let mut known = self.controllers.iter_mut();
        match known.find(|known| known.info().name == name) {
            Some(known) => *known = Arc::new(controller),
            None => self.controllers.push(Arc::new(controller)),
        }
        self
    }

    /// The same without the controller of a name, such as `pod-garbage-collector-controller`.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.controllers
            .retain(|controller| controller.info().name != name);
        self
    }

    /// The same with only the controllers of these names.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Self {
        self.controllers
            .retain(|controller| names.contains(&controller.info().name));
        self
    }
}
