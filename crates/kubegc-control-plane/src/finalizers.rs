//! The finalizers of Kubernetes and of well-known components, with their kinds, owners and first releases.
//!
//! A finalizer that is not in [`FINALIZERS`] belongs to an operator. A simulation keeps it.

mod operators;

use std::time::Duration;

use kubegc_core::metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};

pub use self::operators::OPERATORS;

/// A finalizer and its owner.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Finalizer {
    /// The name. One that ends with a slash is a prefix, one that begins with a dot a suffix.
    pub name: &'static str,
    /// The kinds on which its owner acts.
    pub kinds: &'static str,
    /// The component that removes it.
    pub owner: Owner,
    /// When the owner removes it, as the end of a sentence.
    pub removed: &'static str,
    /// The minor release in which it first appeared; 0 if it is not of Kubernetes.
    pub since_minor: u32,
    /// The consequence of its removal by hand, as a clause.
    pub if_removed: &'static str,
    /// The act that a component outside of kube-controller-manager performs at once.
    pub external: Option<External>,
}

/// What a component outside of kube-controller-manager does about terminating objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct External {
    /// The kind whose objects wait for nothing else: one that keeps the finalizer longer than
    /// [`OVERDUE`] shows that the component does not act.
    pub kind: &'static str,
    /// Whether each finalizer has a component of its own, such as the attacher of a CSI driver.
    pub is_per_finalizer: bool,
}

/// The time after which a component certainly fails or does not run, although it normally needs less than a
/// minute: its longest backoff.
pub const OVERDUE: Duration = Duration::from_secs(300);

/// A component that removes a finalizer.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    GarbageCollector,
    /// A controller of kube-controller-manager, by its name.
    Controller(&'static str),
    /// kube-apiserver.
    ApiServer,
    /// A component outside of kube-controller-manager that a simulation assumes to act: the cloud controller
    /// manager or a CSI sidecar.
    External(&'static str),
    /// An operator or add-on, which a simulation assumes not to act.
    Operator(&'static str),
}

impl Owner {
    /// Its name, which assumptions use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GarbageCollector => "garbage-collector-controller",
            Self::ApiServer => "kube-apiserver",
            Self::Controller(name) | Self::External(name) | Self::Operator(name) => name,
        }
    }

    /// The time within which it normally acts on an object that waits for nothing else; `None` if that
    /// differs from object to object, because something else may fail, such as a storage system.
    #[must_use]
    pub fn acts_within(self) -> Option<Duration> {
        match self {
            Self::Controller("persistentvolume-binder-controller" | "external-provisioner")
            | Self::Operator(_) => None,
            Self::External(_) | Self::Controller("pod-garbage-collector-controller") => {
                Some(Duration::from_secs(60))
            }
            Self::GarbageCollector | Self::Controller(_) | Self::ApiServer => Some(Duration::from_secs(15)),
        }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

const fn entry(
    name: &'static str,
    kinds: &'static str,
    owner: Owner,
    since_minor: u32,
    removed: &'static str,
    if_removed: &'static str,
) -> Finalizer {
    Finalizer {
        name,
        kinds,
        owner,
        removed,
        since_minor,
        if_removed,
        external: None,
    }
}

const fn of_external(finalizer: Finalizer, kind: &'static str, is_per_finalizer: bool) -> Finalizer {
    let external = Some(External {
        kind,
        is_per_finalizer,
    });
    Finalizer {
        external,
        ..finalizer
    }
}

/// The finalizers of Kubernetes.
pub const FINALIZERS: &[Finalizer] = &[
    entry(
        FINALIZER_FOREGROUND,
        "any kind",
        Owner::GarbageCollector,
        6,
        "when no dependent with blockOwnerDeletion is left",
        "its dependents are deleted later, when the collector runs again",
    ),
    entry(
        FINALIZER_ORPHAN,
        "any kind",
        Owner::GarbageCollector,
        4,
        "when its dependents no longer refer to it",
        "its dependents still refer to it, and are deleted when the collector runs again",
    ),
    entry(
        "kubernetes",
        "Namespace (spec.finalizers)",
        Owner::Controller("namespace-controller"),
        1,
        "when the namespace is empty",
        "its content stays in etcd, and is there again in a namespace of its name",
    ),
    entry(
        "kubernetes.io/pvc-protection",
        "PersistentVolumeClaim",
        Owner::Controller("persistentvolumeclaim-protection-controller"),
        9,
        "when no pod uses the claim",
        "the volume can be deleted while a pod uses it",
    ),
    entry(
        "kubernetes.io/pv-protection",
        "PersistentVolume",
        Owner::Controller("persistentvolume-protection-controller"),
        9,
        "when the volume is not bound",
        "the claim loses its volume while it is used",
    ),
    entry(
        "kubernetes.io/pv-controller",
        "PersistentVolume",
        Owner::Controller("persistentvolume-binder-controller"),
        23,
        "when the storage behind the volume is deleted",
        "this leaks the storage behind the volume, with its cost",
    ),
    entry(
        "external-provisioner.volume.kubernetes.io/finalizer",
        "PersistentVolume",
        Owner::Controller("external-provisioner"),
        23,
        "when the storage behind the volume is deleted",
        "this leaks the storage behind the volume, with its cost",
    ),
    entry(
        "batch.kubernetes.io/job-tracking",
        "Pod",
        Owner::Controller("job-controller"),
        22,
        "when the pod has been counted in the status of its Job, or the Job no longer exists",
        "the pod may not be counted in the status of its Job",
    ),
    entry(
        "resource.kubernetes.io/delete-protection",
        "ResourceClaim",
        Owner::Controller("resourceclaim-controller"),
        26,
        "when no pod uses the claim",
        "the devices can be given to another pod while a pod uses them",
    ),
    entry(
        "kubernetes.io/vac-protection",
        "VolumeAttributesClass",
        Owner::Controller("volumeattributesclass-protection-controller"),
        31,
        "when no claim or volume uses the class",
        "claims and volumes still name the class",
    ),
    entry(
        "networking.k8s.io/service-cidr-finalizer",
        "ServiceCIDR",
        Owner::Controller("service-cidr-controller"),
        29,
        "when no IPAddress needs the range",
        "Services keep addresses out of every range",
    ),
    entry(
        "customresourcecleanup.apiextensions.k8s.io",
        "CustomResourceDefinition",
        Owner::ApiServer,
        8,
        "when no custom resource of the kind is left",
        "its custom resources stay in etcd, and are there again with a definition of its name",
    ),
    of_external(
        entry(
            "service.kubernetes.io/load-balancer-cleanup",
            "Service",
            Owner::External("cloud-controller-manager"),
            15,
            "when the load balancer is deleted",
            "this leaks the load balancer at the cloud provider, with its cost",
        ),
        "Service",
        false,
    ),
    of_external(
        entry(
            "external-attacher/",
            "PersistentVolume, VolumeAttachment",
            Owner::External("external-attacher"),
            11,
            "when the volume is detached",
            "this leaks the attachment of the volume to its node, where it may still be mounted",
        ),
        "VolumeAttachment",
        true,
    ),
    of_external(
        entry(
            "snapshot.storage.kubernetes.io/",
            "VolumeSnapshot, VolumeSnapshotContent, PersistentVolumeClaim",
            Owner::External("snapshot-controller"),
            17,
            "when the snapshot is deleted or no longer in progress",
            "this leaks the snapshot in the storage, with its cost",
        ),
        "VolumeSnapshotContent",
        false,
    ),
];

/// The names of the components outside of kube-controller-manager that a simulation assumes to act.
pub fn external_components() -> impl Iterator<Item = &'static str> {
    FINALIZERS.iter().filter_map(|finalizer| match finalizer.owner {
        Owner::External(component) => Some(component),
        _ => None,
    })
}

/// The entry of a finalizer.
///
/// # Examples
/// ```
/// use kubegc_control_plane::finalizers::{Owner, find};
/// let found = find("external-attacher/csi-example-com").map(|finalizer| finalizer.owner);
/// assert_eq!(found, Some(Owner::External("external-attacher")));
/// assert_eq!(find("example.com/hold"), None);
/// ```
#[must_use]
pub fn find(name: &str) -> Option<&'static Finalizer> {
    FINALIZERS.iter().chain(OPERATORS).find(|known| {
        let (is_prefix, is_suffix) = (known.name.ends_with('/'), known.name.starts_with('.'));
        name == known.name
            || is_prefix && name.starts_with(known.name)
            || is_suffix && name.ends_with(known.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_are_found_by_name_or_prefix() {
        for (name, owner) in [
            ("foregroundDeletion", Some("garbage-collector-controller")),
            ("kubernetes", Some("namespace-controller")),
            ("kubernetes.io", None),
            (
                "customresourcecleanup.apiextensions.k8s.io",
                Some("kube-apiserver"),
            ),
            ("external-attacher/csi", Some("external-attacher")),
            ("external-attacher", None),
            ("snapshot.storage.kubernetes.io/x", Some("snapshot-controller")),
            ("shop/hold", None),
            ("cephcluster.ceph.rook.io", Some("rook-ceph-operator")),
            ("longhorn.io", Some("longhorn-manager")),
            ("longhorn.io.example.org", None),
            ("wrangler.cattle.io/auth", Some("rancher")),
        ] {
            assert_eq!(
                find(name).map(|found| found.owner.to_string()).as_deref(),
                owner,
                "{name}"
            );
        }
    }
}
