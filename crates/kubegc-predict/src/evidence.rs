//! Components outside of kube-controller-manager that the dump shows not to act.

use std::{sync::Arc, time::Duration};

use kubegc_control_plane::finalizers::{self, OVERDUE, Owner};
use kubegc_core::{ObjectRef, Timestamp};

use crate::{Assumptions, Cluster, cluster::DELETING, run::deletion_requested_at};

/// A component that has not removed its finalizer although it normally does so within seconds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Silent {
    pub(crate) component: &'static str,
    /// The component, or its finalizer where each finalizer has a component of its own.
    pub(crate) name: Arc<str>,
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
        let is_assumed = |name: &str| assumptions.acting.contains_key(name);
        for (component, name) in components.filter(|(one, name)| !is_assumed(one) && !is_assumed(name)) {
            match found.iter_mut().find(|known| known.name == name) {
                Some(known) if known.lasted >= lasted => {}
                Some(known) => (known.object, known.lasted) = (view.object_ref(), lasted),
                None => found.push(Silent {
                    component,
                    name,
                    object: view.object_ref(),
                    lasted,
                }),
            }
        }
    }
    found
}

/// The component that removes a finalizer of an object of this kind at once, and its name in assumptions.
fn component_of(finalizer: &Arc<str>, kind: &str) -> Option<(&'static str, Arc<str>)> {
    let known = finalizers::find(finalizer)?;
    let external = known.external.filter(|external| external.kind == kind)?;
    let Owner::External(component) = known.owner else {
        return None;
    };
    let name = match external.is_per_finalizer {
        true => Arc::clone(finalizer),
        false => component.into(),
    };
    Some((component, name))
}
