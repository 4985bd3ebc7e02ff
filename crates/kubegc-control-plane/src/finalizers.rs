//! The finalizers of Kubernetes and of well-known components, with their kinds, owners and first releases.
//!
//! `finalizers.txt` next to this file lists them. A finalizer that is not in [`FINALIZERS`] belongs to an
//! operator. A simulation keeps it.

use std::{sync::LazyLock, time::Duration};

/// A finalizer and its owner.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Finalizer {
    /// The name. One that ends with a slash is a prefix, one that begins with a dot a suffix.
    pub name: &'static str,
    /// The kinds on which its owner acts.
    pub kinds: &'static str,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{}", self.name())]
pub enum Owner {
    GarbageCollector,
    /// A controller of kube-controller-manager, by its name.
    Controller(&'static str),
    ApiServer,
    /// A component outside of kube-controller-manager that a simulation assumes to act: the cloud controller
    /// manager or a CSI sidecar.
    External(&'static str),
    /// An operator or add-on, which a simulation assumes not to act.
    Operator(&'static str),
}

impl Owner {
    /// Its name, which assumptions use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GarbageCollector => "garbage-collector-controller",
            Self::ApiServer => "kube-apiserver",
            Self::Controller(name) | Self::External(name) | Self::Operator(name) => name,
        }
    }

    /// The time within which it normally acts on an object that waits for nothing else; `None` if that
    /// differs from object to object, because something else may fail, such as a storage system.
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

/// The known finalizers, those of Kubernetes first.
pub static FINALIZERS: LazyLock<Vec<Finalizer>> = LazyLock::new(|| paragraphs().filter_map(read).collect());

fn paragraphs() -> impl Iterator<Item = &'static str> {
    let all = include_str!("finalizers.txt").split("\n\n");
    all.filter(|paragraph| !paragraph.starts_with('#'))
}

/// Reads a paragraph; `None` if it does not have the form that the head of the file describes.
fn read(paragraph: &'static str) -> Option<Finalizer> {
    let mut lines = paragraph.lines();
    let (name, rest) = lines.next()?.split_once(" | ")?;
    let (owner, since) = rest.split_once(" | ")?;
    let owner = match owner.split_once(' ') {
        None if owner == "collector" => Owner::GarbageCollector,
        None if owner == "server" => Owner::ApiServer,
        Some(("controller", name)) => Owner::Controller(name),
        Some(("external", name)) => Owner::External(name),
        Some(("operator", name)) => Owner::Operator(name),
        _ => return None,
    };
    Some(Finalizer {
        name,
        owner,
        since_minor: match since.strip_prefix("1.") {
            Some(minor) => minor.parse().ok()?,
            None => 0,
        },
        kinds: lines.next()?,
        removed: lines.next()?,
        if_removed: lines.next()?,
        external: lines.next().map(|kind| External {
            kind: kind.trim_end_matches(" each"),
            is_per_finalizer: kind.ends_with(" each"),
        }),
    })
}

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
pub fn find(name: &str) -> Option<&'static Finalizer> {
    FINALIZERS.iter().find(|known| {
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
    fn every_paragraph_is_a_finalizer() {
        assert_eq!(FINALIZERS.len(), paragraphs().count());
    }

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
