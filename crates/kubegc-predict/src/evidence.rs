//! Components outside of kube-controller-manager that the dump shows not to act.

use std::{sync::Arc, time::Duration};

use kubegc_control_plane::finalizers::{self, OVERDUE, Owner};
use kubegc_core::{ObjectRef, Timestamp};

use crate::{Assumptions, Cluster, cluster::DELETING, run::deletion_requested_at};

/// A component that has not removed its finalizer although it normally does so within seconds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Silent {
    pub(crate) component: &'static str,
    /// The object that has waited longest.
    pub(crate) object: ObjectRef,
    /// How long it has waited.
    pub(crate) lasted: Duration,
}

/// The components that do not act: an object that waits for nothing else has been terminating for more than
/// [`OVERDUE`]. Components about which something is assumed by name are not among them.
///
/// # Complexity
/// O(t) for t terminating objects.
pub(crate) fn silent(cluster: &Cluster, now: Timestamp, assumptions: &Assumptions) -> Vec<Silent> {
    let mut found: Vec<Silent> = Vec::new();
    if !assumptions.external_controllers_run {
        return found;
    }
    let facts = cluster.edges.facts.iter().enumerate();
    for (position, _) in facts.filter(|(_, facts)| **facts & DELETING != 0) {
        let Some(view) = cluster.snapshot.view(position) else {
            continue;
        };
        let meta = view.meta();
        let lasted = deletion_requested_at(&meta).map(|since| now.since(since));
        let Some(lasted) = lasted.filter(|lasted| *lasted > OVERDUE) else {
            continue;
        };
        let components = view
            .finalizers()
            .filter_map(|name| component_of(name, view.kind()));
        for component in components.filter(|component| !assumptions.acting.contains_key(*component)) {
            match found.iter_mut().find(|known| known.component == component) {
                Some(known) if known.lasted >= lasted => {}
                Some(known) => (known.object, known.lasted) = (view.object_ref(), lasted),
                None => found.push(Silent {
                    component,
                    object: view.object_ref(),
                    lasted,
                }),
            }
        }
    }
    found
}

/// The component that removes a finalizer of an object of this kind at once.
fn component_of(finalizer: &Arc<str>, kind: &str) -> Option<&'static str> {
    let known = finalizers::find(finalizer)?;
    match known.owner {
        Owner::External(component) => known
            .external
            .filter(|external| external.kind == kind)
            .map(|_| component),
        _ => None,
    }
}
