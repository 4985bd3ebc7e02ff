//! The outcome of background deletion, restated without graph, queues or calls: the rule itself, applied
//! until nothing changes.

use std::collections::BTreeMap;

use kubegc_sim::ApiServer;

use super::cluster::Object;

/// The remaining objects by uid, with their state.
pub(crate) type Remains = BTreeMap<String, Remnant>;

/// The state of a remaining object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remnant {
    /// It remains, with these owners.
    Lives(Vec<String>),
    /// It is terminating and has a finalizer.
    Held,
}

/// The outcome of the background deletion of one object.
pub(crate) fn fixpoint(objects: &[Object], deleted: usize) -> Remains {
    let mut there: BTreeMap<usize, bool> = (0..objects.len()).map(|at| (at, false)).collect();
    delete(objects, &mut there, deleted);
    loop {
        let present = |dependent: &Object, there: &BTreeMap<usize, bool>| -> Vec<String> {
            let references = dependent.meta.owner_references.iter();
            let named = references.filter(|reference| {
                there.keys().map(|&at| &objects[at]).any(|owner| {
                    owner.reference().api_version == reference.api_version
                        && owner.reference().kind == reference.kind
                        && owner.meta.name == reference.name
                        && owner.meta.uid == reference.uid
                        && [&dependent.meta.namespace, &"".into()].contains(&&owner.meta.namespace)
                })
            });
            named.map(|reference| reference.uid.to_string()).collect()
        };
        let doomed = there.iter().find(|&(&at, &deleting)| {
            !deleting
                && !objects[at].meta.owner_references.is_empty()
                && present(&objects[at], &there).is_empty()
        });
        let Some((&doomed, _)) = doomed else {
            let remnant = |(&at, &deleting): (&usize, &bool)| {
                let remnant = if deleting {
                    Remnant::Held
                } else {
                    Remnant::Lives(present(&objects[at], &there))
                };
                (objects[at].meta.uid.to_string(), remnant)
            };
            return there.iter().map(remnant).collect();
        };
        delete(objects, &mut there, doomed);
    }
}

fn delete(objects: &[Object], there: &mut BTreeMap<usize, bool>, at: usize) {
    if objects[at].meta.finalizers.is_empty() {
        there.remove(&at);
    } else {
        there.insert(at, true);
    }
}

/// The same for the objects of a server.
pub(crate) fn remains(objects: &[Object], server: &ApiServer) -> Remains {
    let remnant = |object: &Object| {
        let meta = object.live(server)?;
        let owners = meta
            .owner_references
            .iter()
            .map(|reference| reference.uid.to_string());
        let remnant = if meta.is_deleting() {
            Remnant::Held
        } else {
            Remnant::Lives(owners.collect())
        };
        Some((meta.uid.to_string(), remnant))
    };
    objects.iter().filter_map(remnant).collect()
}
