//! Deletes the content of terminating namespaces, and then the finalizer that keeps them.
//!
//! The rules are [L10.1](crate::rules#l10-1) to [L10.11](crate::rules#l10-11).
//!
//! Content that could not be discovered, deleted or listed keeps the namespace. Every sync sends the deletes
//! again for objects that are already being deleted. In addition to its [`Info::permissions`], the controller
//! needs `list`, `delete` and `deletecollection` on all namespaced resources.
//!
//! # Order
//! Upstream iterates over the resources in the random order of a map. Here they are sorted by group, version
//! and resource. The order decides nothing but which of several errors comes first.
//!
//! # Upstream
//! [`Delete` and `deleteAllContent`][deleter] in `namespaced_resources_deleter.go`,
//! [`updateConditions`][conditions] in `status_condition_utils.go`, and [`worker`][controller] in
//! `namespace_controller.go`. Differences:
//! - The limit of ten retries a second for all namespaces together is left out.
//! - The verbs of a resource are those of the discovery of this sync; upstream remembers those of its first
//!   discovery.
//! - Releases before 1.16.15, 1.17.12, 1.18.9 and 1.19.0 also remember, until they restart, which resource
//!   has returned 404 or 405 for a list or a collection, and can therefore leave content behind (kubernetes
//!   #93790). Here each sync sends the requests again.
//!
//! [deleter]: https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/namespace/deletion/namespaced_resources_deleter.go
//! [conditions]: https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/namespace/deletion/status_condition_utils.go
//! [controller]: https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/namespace/namespace_controller.go

mod content;
mod deleter;
mod remaining;

use self::{deleter::Deleter, remaining::Remaining};
use crate::prelude::*;

/// The finalizer in `spec.finalizers` that the controller removes.
const FINALIZER_KUBERNETES: &str = "kubernetes";

/// Conditions report failures of discovery, parsing and deletion.
const REPORTS_FAILURES: Behavior = Behavior::since(16, 0, "kubernetes #73405");
/// Conditions report what remains.
const REPORTS_REMAINING: Behavior = Behavior::since(17, 0, "kubernetes #82189");
/// The feature gate `OrderedNamespaceDeletion`: beta and on from 1.33, locked from 1.34; off where it was
/// backported.
const DELETES_PODS_FIRST: Behavior = Behavior::since(33, 0, "feature gate OrderedNamespaceDeletion is on");

#[derive(Clone, Copy, Debug)]
pub struct NamespaceController {
    /// Whether other content is deleted only after the last pod. Off, terminating pods may lose their
    /// ConfigMaps and NetworkPolicies.
    pub deletes_pods_first: bool,
    version: KubernetesVersion,
    /// Whether resources are deleted in the order of discovery instead of the order of their names.
    pub follows_discovery_order: bool,
}

impl NamespaceController {
    /// Upstream's defaults in a release.
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            deletes_pods_first: version.has(DELETES_PODS_FIRST),
            version,
            follows_discovery_order: false,
        }
    }
}

static INFO: Info = Info {
    name: "namespace-controller",
    summary: "deletes the content of terminating namespaces and then their finalizer",
    resources: &[Resource::Namespaces],
    // The delay protects against API servers that have not observed the deletion and still create objects in
    // the namespace.
    timing: Timing {
        event_delay: Duration::from_secs(5),
        resync: Some(Duration::from_secs(300)),
        backoff: [Duration::from_millis(5), Duration::from_secs(60)],
        ..Timing::DEFAULT
    },
    permissions: &[
        (Resource::Namespaces, "status", &["update"]),
        (Resource::Namespaces, "finalize", &["update"]),
    ],
    // For the content of namespaces.
    verbs_on_all_resources: &["list", "delete", "deletecollection"],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/namespace/namespace_controller.go",
    ..Info::BASE
};

impl Controller for NamespaceController {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn affected(&self, _cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        let is_deleting = change.new.is_some_and(|new| new.meta.is_deleting());
        if change.resource == Resource::Namespaces && is_deleting {
            keys.push(change.key.clone());
        }
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        if !record.meta.is_deleting() {
            return Ok(Decision::keep(id.clone(), not_deleted()));
        }
        let (settings, name, wire, now) = (*self, Arc::clone(&id.name), cx.wire, cx.now);
        let begin = move |port| {
            let name = Arc::clone(&name);
            Deleter {
                settings,
                name,
                wire,
                now,
                port,
            }
            .delete()
        };
        Ok(Steps::new(id.clone(), begin).into())
    }
}

fn not_deleted() -> Reason {
    Reason::new("NotDeleted", "it is not being deleted")
}
