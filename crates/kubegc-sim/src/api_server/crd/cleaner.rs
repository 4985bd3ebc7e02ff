//! The controller that deletes the custom resources of a deleted CustomResourceDefinition.
//!
//! Upstream runs it inside the API server. Here the caller steps it and controls when it acts.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_core::{DeleteOptions, KindId, Timestamp, Uid, backoff::doubled};

use super::{FINALIZER_CRD_CLEANUP, defines, is_established, kinds_of, set_condition};
use crate::{
    ApiServer, Filter, StoredObject,
    api_server::{kinds::Special, write::Part},
};

/// The controller that deletes the custom resources of a deleted CustomResourceDefinition, then removes its
/// finalizer.
///
/// # Upstream
/// [`CRDFinalizer.sync`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go).
///
/// The example of [`CrdRegistration`](super::CrdRegistration) runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrdCleaner {
    attempts: BTreeMap<Uid, Attempt>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Attempt {
    failures: u32,
    /// Whether the condition of the definition says that the clean-up is in progress.
    begun: bool,
    next_at: Option<Timestamp>,
    /// The time since which the controller waits for the instances to be removed.
    waiting_since: Option<Timestamp>,
}

/// The result of a step of a [`CrdCleaner`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrdStep {
    /// There is no definition to clean up.
    Idle,
    /// The controller did something for this definition; there may be more to do.
    Worked { name: Arc<str> },
    /// Nothing is due before this time.
    Waiting { until: Timestamp },
}

/// The interval at which the controller counts the remaining instances.
const POLL: Duration = Duration::from_secs(5);
/// The timeout of one attempt to remove the instances.
const PATIENCE: Duration = Duration::from_secs(60);

impl CrdCleaner {
    /// Performs the next step for the first definition, by name, that is due.
    pub fn step(&mut self, server: &mut ApiServer) -> CrdStep {
        let Some(kind) = definition_kind(server) else {
            return CrdStep::Idle;
        };
        let mut until: Option<Timestamp> = None;
        for object in server.objects(kind, None) {
            if !object.meta.is_deleting() || !object.meta.has_finalizer(FINALIZER_CRD_CLEANUP) {
                continue;
            }
            let attempt = self.attempts.entry(object.meta.uid.clone()).or_default();
            if let Some(next_at) = attempt.next_at
                && next_at > server.now
            {
                until = Some(until.map_or(next_at, |until| until.min(next_at)));
                continue;
            }
            let name = Arc::clone(&object.meta.name);
            if attempt.advance(server, kind, &object) {
                self.attempts.remove(&object.meta.uid);
            }
            return CrdStep::Worked { name };
        }
        until.map_or(CrdStep::Idle, |until| CrdStep::Waiting { until })
    }
}

/// The kind of definitions, in the first version that the server has.
pub(super) fn definition_kind(server: &ApiServer) -> Option<KindId> {
    let mut kinds = server.shape.catalog.iter().map(|(kind, _)| kind);
    kinds.find(|kind| {
        let known = &server.shape.kinds[kind.index()];
        known.special == Special::CustomResourceDefinition && known.served
    })
}

impl Attempt {
    /// Performs the next step for one definition; returns whether the definition is finished.
    fn advance(&mut self, server: &mut ApiServer, kind: KindId, object: &Arc<StoredObject>) -> bool {
        self.next_at = None;
        if !self.begun {
            self.begun = true;
            self.write(server, kind, object, "InstanceDeletionInProgress", false);
            return false;
        }
        let (group, plural) = defines(object);
        let overlaps = server.shape.catalog.iter().any(|(_, resource)| {
            !resource.custom && *resource.group == *group && *resource.resource == *plural
        });
        if overlaps {
            return self.write(server, kind, object, "OverlappingBuiltInResource", true);
        }
        let instances = kinds_of(server, object).first().copied();
        let Some(instances) = instances.filter(|_| is_established(object)) else {
            return self.write(server, kind, object, "NeverEstablished", true);
        };
        let Some(since) = self.waiting_since else {
            if delete_instances(server, instances) {
                self.waiting_since = Some(server.now);
            } else if self.write(server, kind, object, "InstanceDeletionFailed", false) {
                self.retry_later(server.now);
            }
            return false;
        };
        if server.len(instances) == 0 {
            return self.write(server, kind, object, "InstanceDeletionCompleted", true);
        }
        if server.now.since(since) < PATIENCE {
            self.next_at = Some(server.now.saturating_add(POLL));
        } else if self.write(server, kind, object, "InstanceDeletionCheck", false) {
            self.retry_later(server.now);
        }
        false
    }

    /// Writes the condition through the status endpoint, which for definitions also writes finalizers. If the
    /// server refuses the write, retries later. `is_last`: whether the definition is released. Returns
    /// whether it was written.
    fn write(
        &mut self,
        server: &mut ApiServer,
        kind: KindId,
        existing: &Arc<StoredObject>,
        reason: &str,
        is_last: bool,
    ) -> bool {
        let mut object = StoredObject::clone(existing);
        set_condition(&mut object, "Terminating", !is_last, reason, server.now);
        if is_last {
            let finalizers = &mut object.meta.finalizers;
            finalizers.retain(|finalizer| **finalizer != *FINALIZER_CRD_CLEANUP);
        }
        // The object was read in this step: only an admission webhook refuses the write.
        let response = server.replace(kind, existing, object, Part::Status, None, Vec::new());
        if response.is_err() {
            self.retry_later(server.now);
        }
        response.is_ok()
    }

    fn retry_later(&mut self, now: Timestamp) {
        let delay = doubled(
            [Duration::from_millis(5), Duration::from_secs(1_000)],
            self.failures,
        );
        *self = Self {
            failures: self.failures.saturating_add(1),
            next_at: Some(now.saturating_add(delay)),
            ..Self::default()
        };
    }
}

/// Deletes the instances in every namespace, without options: existing finalizers decide. As upstream, no
/// webhook is called, and none converts: the storage version is used.
fn delete_instances(server: &mut ApiServer, kind: KindId) -> bool {
    let namespaces = server
        .table(kind)
        .map(|table| table.namespaces())
        .unwrap_or_default();
    namespaces.iter().all(|namespace| {
        let options = DeleteOptions::default();
        let everything = Filter::default();
        let delete = |server: &mut ApiServer| {
            server.delete_collection_with(kind, Some(namespace), &everything, &options)
        };
        server.without_webhooks(delete).is_success()
    })
}
