//! The minimal RBAC rules for each function.
//!
//! | role | for |
//! |---|---|
//! | ClusterRole `kubegc-collect` | [`GarbageCollector::run`](crate::GarbageCollector::run) |
//! | ClusterRole `kubegc-snapshot` | [`snapshot`](crate::snapshot()) |
//! | ClusterRole `kubegc-events` | warnings, unless [`events`](crate::GarbageCollector::events) are off |
//! | Role `kubegc-leader-election` | the Lease, with the feature `leader-election` |
//!
//! [`for_controllers`] renders the roles of a [`ControllerManager`](crate::ControllerManager), which depend
//! on its controllers.
//!
//! By default every authenticated user can read `/version` and discovery (`system:discovery`); the rules
//! contain these permissions for clusters in which that was changed.
//!
//! ```yaml
#![doc = include_str!("../rbac.yaml")]
//! ```

use std::{collections::BTreeMap, sync::Arc};

use kubegc_controllers::{Controller, driver::permissions};

/// The rules as YAML, to be applied as they are.
pub const YAML: &str = include_str!("../rbac.yaml");

/// The minimal rules for a [`ControllerManager`](crate::ControllerManager) with these controllers, as YAML:
/// the ClusterRole `kubegc-controllers`, the ClusterRole `kubegc-events` for their Events, and the Role
/// `kubegc-controllers-leader-election` for a Lease of this namespace and name.
///
/// Without Events or leader election the corresponding documents are not needed.
///
/// # Examples
/// ```
/// use kubegc_controllers::select_controllers;
/// use kubegc_core::KubernetesVersion;
/// let controllers = select_controllers(KubernetesVersion::LATEST, &["pv-protection"])?;
/// let yaml = kubegc_kube::rbac::for_controllers(&controllers, "kube-system", "kubegc-controllers");
/// assert!(yaml.contains(r#"
/// - apiGroups: [""]
///   resources: ["persistentvolumes"]
///   verbs: ["get", "list", "watch", "patch"]
/// "#));
/// # Ok::<(), kubegc_controllers::UnknownController>(())
/// ```
pub fn for_controllers(
    controllers: &[Arc<dyn Controller>],
    lease_namespace: &str,
    lease_name: &str,
) -> String {
    let mut rules = BTreeMap::<(&str, Vec<&str>), Vec<String>>::new();
    for ((group, resource), granted) in permissions(controllers) {
        let mut verbs: Vec<&str> = granted.into_iter().collect();
        // Others follow.
        let place = |verb: &str| VERBS.split(' ').position(|known| known == verb);
        verbs.sort_by_key(|verb| place(verb).unwrap_or(usize::MAX));
        rules.entry((group, verbs)).or_default().push(resource);
    }
    let mut yaml = "# For these controllers:\n".to_owned();
    for controller in controllers {
        yaml.push_str(&format!("# - {}\n", controller.info().name));
    }
    yaml.push_str(&head("ClusterRole", "kubegc-controllers", None));
    for ((group, verbs), resources) in &rules {
        yaml.push_str(&rule(group, resources, None, verbs));
    }
    yaml.push_str(DISCOVERY);
    yaml.push_str("---\n# Events about the objects that controllers work on.\n");
    yaml.push_str(&head("ClusterRole", "kubegc-events", None));
    yaml.push_str(&rule("", &["events"], None, &["create"]));
    yaml.push_str("---\n# Leader election.\n");
    yaml.push_str(&head(
        "Role",
        "kubegc-controllers-leader-election",
        Some(lease_namespace),
    ));
    let group = "coordination.k8s.io";
    yaml.push_str(&rule(group, &["leases"], None, &["create"]));
    yaml.push_str(&rule(group, &["leases"], Some(lease_name), &["get", "patch"]));
    yaml
}

const VERBS: &str = "get list watch patch update delete deletecollection";

const DISCOVERY: &str = r#"- nonResourceURLs: ["/api", "/api/*", "/apis", "/apis/*", "/version"]
  verbs: ["get"]
"#;

fn head(kind: &str, name: &str, namespace: Option<&str>) -> String {
    let namespace = namespace.map_or_else(String::new, |namespace| format!("  namespace: {namespace:?}\n"));
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{namespace}rules:\n"
    )
}

fn rule(group: &str, resources: &[impl AsRef<str>], name: Option<&str>, verbs: &[&str]) -> String {
    let resources: Vec<&str> = resources.iter().map(AsRef::as_ref).collect();
    let name = name.map_or_else(String::new, |name| format!("  resourceNames: [{name:?}]\n"));
    format!("- apiGroups: [{group:?}]\n  resources: {resources:?}\n{name}  verbs: {verbs:?}\n")
}
