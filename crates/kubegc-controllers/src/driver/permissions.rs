//! The permissions that a driver needs to run controllers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::record::Resource;

use crate::Controller;

/// The verbs that the requests of these controllers need, by API group and resource; a subresource follows
/// its resource after a slash. The group and the resource `*` mean all.
///
/// These are the verbs of the requests that a [`Performer`](super::Performer) sends. It reads an object
/// before it writes it, and sends updates as patches, except to the subresource `finalize`.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use kubegc_controllers::{Controller, TtlAfterFinished, driver::permissions};
/// use kubegc_core::KubernetesVersion;
/// let controllers: [Arc<dyn Controller>; 1] = [Arc::new(TtlAfterFinished::new(KubernetesVersion::LATEST))];
/// let permissions = permissions(&controllers);
/// let verbs = &permissions[&("batch", "jobs".to_owned())];
/// assert_eq!(Vec::from_iter(verbs), [&"delete", &"get", &"list", &"watch"]);
/// ```
pub fn permissions(
    controllers: &[Arc<dyn Controller>],
) -> BTreeMap<(&'static str, String), BTreeSet<&'static str>> {
    let mut all = BTreeMap::<_, BTreeSet<_>>::new();
    let mut add = |resource: Resource, subresource: &str, verbs: &[&'static str]| {
        let mut name = resource.plural().to_owned();
        if !subresource.is_empty() {
            name = format!("{name}/{subresource}");
        }
        all.entry((resource.group(), name)).or_default().extend(verbs);
    };
    for controller in controllers {
        let info = controller.info();
        for resource in info.resources {
            add(*resource, "", &["get", "list", "watch"]);
        }
        for (resource, subresource, verbs) in info.permissions {
            for verb in *verbs {
                match *verb {
                    "update" if *subresource != "finalize" => add(*resource, subresource, &["patch"]),
                    verb => add(*resource, subresource, &[verb]),
                }
                if matches!(*verb, "update" | "patch") {
                    add(*resource, "", &["get"]);
                }
            }
        }
    }
    for controller in controllers {
        let verbs = controller.info().verbs_on_all_resources;
        if !verbs.is_empty() {
            all.entry(("*", "*".to_owned())).or_default().extend(verbs);
        }
    }
    all
}
