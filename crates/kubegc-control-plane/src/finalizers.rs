//! The finalizers of Kubernetes and of well-known components, with their kinds, owners and first releases.
//!
//! A finalizer that is not in [`FINALIZERS`] belongs to an operator. A simulation keeps it.

use std::time::Duration;

use kubegc_core::metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};

/// A finalizer and its owner.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Finalizer {
    /// The name. One that ends with a slash is a prefix.
    pub name: &'static str,
    /// The kinds on which its owner acts.
    pub kinds: &'static str,
    /// The component that removes it.
    pub owner: Owner,
    /// When the owner removes it, as the end of a sentence.
    pub removed: &'static str,
    /// The minor release in which it first appeared.
    pub since_minor: u32,
    /// What a component outside of kube-controller-manager does at once, and what remains without it.
    pub external: Option<External>,
}

/// What a component outside of kube-controller-manager does about terminating objects.
#[expect(clippy::exhaustive_structs, reason = "facts of a table")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct External {
    /// The kind whose objects wait for nothing else: one that keeps the finalizer longer than
    /// [`OVERDUE`] shows that the component does not act.
    pub kind: &'static str,
    /// Whether each finalizer has a component of its own, such as the attacher of a CSI driver.
    pub is_per_finalizer: bool,
    /// What remains if the finalizer is removed by hand.
    pub leaks: &'static str,
}

/// The time after which a component certainly fails or does not run, although it normally needs seconds: its
/// longest backoff.
pub const OVERDUE: Duration = Duration::from_secs(300);

/// A component that removes a finalizer.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The garbage collector.
    GarbageCollector,
    /// A controller of kube-controller-manager, by its name.
    Controller(&'static str),
    /// kube-apiserver.
    ApiServer,
    /// A component outside of kube-controller-manager: the cloud controller manager, a CSI sidecar, an
    /// add-on.
    External(&'static str),
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::GarbageCollector => "garbage-collector-controller",
            Self::ApiServer => "kube-apiserver",
            Self::Controller(name) | Self::External(name) => name,
        })
    }
}

const fn entry(
    name: &'static str,
    kinds: &'static str,
    owner: Owner,
    since_minor: u32,
    removed: &'static str,
) -> Finalizer {
    Finalizer {
        name,
        kinds,
        owner,
        removed,
        since_minor,
        external: None,
    }
}

const fn of_external(
    finalizer: Finalizer,
    kind: &'static str,
    is_per_finalizer: bool,
    leaks: &'static str,
) -> Finalizer {
    let external = Some(External {
        kind,
        is_per_finalizer,
        leaks,
    });
    Finalizer {
        external,
        ..finalizer
    }
}

/// The known finalizers.
pub const FINALIZERS: &[Finalizer] = &[
    entry(
        FINALIZER_FOREGROUND,
        "any kind",
        Owner::GarbageCollector,
        6,
        "when no dependent with blockOwnerDeletion is left",
    ),
    entry(
        FINALIZER_ORPHAN,
        "any kind",
        Owner::GarbageCollector,
        4,
        "when its dependents no longer refer to it",
    ),
    entry(
        "kubernetes",
        "Namespace (spec.finalizers)",
        Owner::Controller("namespace-controller"),
        1,
        "when the namespace is empty",
    ),
    entry(
        "kubernetes.io/pvc-protection",
        "PersistentVolumeClaim",
        Owner::Controller("persistentvolumeclaim-protection-controller"),
        9,
        "when no pod uses the claim",
    ),
    entry(
        "kubernetes.io/pv-protection",
        "PersistentVolume",
        Owner::Controller("persistentvolume-protection-controller"),
        9,
        "when the volume is not bound",
    ),
    entry(
        "kubernetes.io/pv-controller",
        "PersistentVolume",
        Owner::Controller("persistentvolume-binder-controller"),
        23,
        "when the storage behind the volume is deleted",
    ),
    entry(
        "external-provisioner.volume.kubernetes.io/finalizer",
        "PersistentVolume",
        Owner::Controller("external-provisioner"),
        23,
        "when the storage behind the volume is deleted",
    ),
    entry(
        "batch.kubernetes.io/job-tracking",
        "Pod",
        Owner::Controller("job-controller"),
        22,
        "when the pod has been counted in the status of its Job, or the Job no longer exists",
    ),
    entry(
        "resource.kubernetes.io/delete-protection",
        "ResourceClaim",
        Owner::Controller("resource-claim-controller"),
        26,
        "when no pod uses the claim",
    ),
    entry(
        "kubernetes.io/vac-protection",
        "VolumeAttributesClass",
        Owner::Controller("volumeattributesclass-protection-controller"),
        31,
        "when no claim or volume uses the class",
    ),
    entry(
        "networking.k8s.io/service-cidr-finalizer",
        "ServiceCIDR",
        Owner::Controller("service-cidr-controller"),
        29,
        "when no IPAddress needs the range",
    ),
    entry(
        "customresourcecleanup.apiextensions.k8s.io",
        "CustomResourceDefinition",
        Owner::ApiServer,
        8,
        "when no custom resource of the kind is left",
    ),
    of_external(
        entry(
            "service.kubernetes.io/load-balancer-cleanup",
            "Service",
            Owner::External("cloud-controller-manager"),
            15,
            "when the load balancer is deleted",
        ),
        "Service",
        false,
        "the load balancer at the cloud provider, with its cost",
    ),
    of_external(
        entry(
            "external-attacher/",
            "PersistentVolume, VolumeAttachment",
            Owner::External("external-attacher"),
            11,
            "when the volume is detached",
        ),
        "VolumeAttachment",
        true,
        "the attachment of the volume to its node, where it may still be mounted",
    ),
    of_external(
        entry(
            "snapshot.storage.kubernetes.io/",
            "VolumeSnapshot, VolumeSnapshotContent, PersistentVolumeClaim",
            Owner::External("snapshot-controller"),
            17,
            "when the snapshot is deleted or no longer in progress",
        ),
        "VolumeSnapshotContent",
        false,
        "the snapshot in the storage, with its cost",
    ),
];

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
    FINALIZERS.iter().find(|known| {
        let is_prefix = known.name.ends_with('/');
        name == known.name || is_prefix && name.starts_with(known.name)
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
        ] {
            assert_eq!(
                find(name).map(|found| found.owner.to_string()).as_deref(),
                owner,
                "{name}"
            );
        }
    }
}
