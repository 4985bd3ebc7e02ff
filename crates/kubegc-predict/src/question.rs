//! What a forecast is asked.

use std::{sync::Arc, time::Duration};

use kubegc_controllers::{Controller, default_controllers};
use kubegc_core::{KubernetesVersion, Timestamp};

use crate::Intent;

/// A question to a [`Cluster`](crate::Cluster): what happens if these deletes are requested at this time.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use kubegc_core::{DeleteOptions, KubernetesVersion};
/// use kubegc_predict::{Assumptions, Cluster, Fate, Intent, Question};
/// use kubegc_snapshot::Reader;
///
/// let version = KubernetesVersion::LATEST;
/// let mut reader = Reader::new(version).complete("all");
/// reader.read("dump.yaml", &b"
/// apiVersion: v1
/// kind: PersistentVolumeClaim
/// metadata: {namespace: shop, name: data, uid: u1, finalizers: [kubernetes.io/pvc-protection]}
/// "[..])?;
/// let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
/// let claim = "shop/PersistentVolumeClaim/data".parse()?;
/// let question = Question::new(version).delete(Intent::delete(claim, DeleteOptions::default()));
/// let forecast = cluster.forecast(&question)?;
/// assert!(matches!(forecast.fates[0].fate, Fate::Deleted { .. }), "no pod uses the claim");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[expect(clippy::exhaustive_structs, reason = "callers build it")]
#[derive(Clone, Debug)]
pub struct Question {
    /// The deletes, in order. Without any, the question is what happens anyway.
    pub intents: Vec<Intent>,
    /// When the dump was taken and the first delete is requested. Default: when the newest thing in the dump happened.
    pub now: Option<Timestamp>,
    /// How far to look. Default: until nothing changes any longer.
    pub horizon: Option<Duration>,
    /// Whether the answer has what happens anyway, too. Default: only without intents.
    pub everything: bool,
    /// The controllers that run beside the garbage collector. Default: those that kube-controller-manager runs by default.
    pub controllers: Vec<Arc<dyn Controller>>,
}

impl Question {
    /// What happens anyway in a cluster of this version.
    #[must_use]
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
}
