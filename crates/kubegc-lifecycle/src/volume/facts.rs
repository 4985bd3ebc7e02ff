//! Fixes what the mechanisms read of volumes, claims and pods.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]
#![expect(clippy::exhaustive_enums, reason = "facts that callers build")]

use std::{fmt, sync::Arc};

use kubegc_core::{ObjectMeta, Uid};

use super::IN_TREE_PREFIX;

/// A volume, as far as its end depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Volume {
    /// Metadata.
    pub meta: ObjectMeta,
    /// `status.phase`.
    pub phase: Phase,
    /// `spec.persistentVolumeReclaimPolicy`.
    pub policy: Policy,
    /// `spec.claimRef`.
    pub claim_ref: Holder,
    /// `spec.volumeMode`; `None` means `Filesystem`, as the API has it.
    pub mode: Option<Arc<str>>,
    /// What its annotations say; `None` where they were not read, and nothing is decided then.
    pub annotations: Option<Annotations>,
    /// Whether this cluster has its provisioner's volumes handed over to a driver.
    pub migration: Migration,
}

impl Volume {
    /// A volume that a person made and nobody uses yet. Its policy is `Retain`, the default for such volumes.
    #[must_use]
    pub fn new(name: &str, uid: &str) -> Self {
        Self {
            meta: ObjectMeta::new("", name, uid),
            phase: Phase::Available,
            policy: Policy::Retain,
            claim_ref: Holder::Nobody,
            mode: None,
            annotations: Some(Annotations::default()),
            migration: Migration::Unknown,
        }
    }

    /// The claim that it belongs to, not one that it is only reserved for.
    pub(super) fn holder(&self) -> Option<&ClaimRef> {
        self.claim_ref.claim().filter(|claim| !claim.uid.is_empty())
    }

    /// Who provisioned the volume, as far as that is known.
    pub(super) fn provisioner(&self) -> Option<&Arc<str>> {
        self.annotations.as_ref()?.provisioned_by.as_ref()
    }

    /// Whether the provisioner is one within Kubernetes, by its name.
    pub(super) fn is_in_tree(&self) -> bool {
        self.provisioner()
            .is_some_and(|name| name.starts_with(IN_TREE_PREFIX))
    }

    /// The driver that has taken the volume over.
    pub(super) fn driver(&self) -> Option<&Arc<str>> {
        let driver = self.annotations.as_ref()?.migrated_to.as_ref();
        driver.filter(|driver| !driver.is_empty())
    }
}

/// What the annotations of a volume say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Annotations {
    /// Value of the annotation [`ANNOTATION_PROVISIONED_BY`](super::ANNOTATION_PROVISIONED_BY); `None` for volumes that a person made.
    pub provisioned_by: Option<Arc<str>>,
    /// Whether the annotation [`ANNOTATION_BOUND_BY_CONTROLLER`](super::ANNOTATION_BOUND_BY_CONTROLLER) is there.
    pub is_bound_by_controller: bool,
    /// Value of the annotation [`ANNOTATION_MIGRATED_TO`](super::ANNOTATION_MIGRATED_TO).
    pub migrated_to: Option<Arc<str>>,
}

/// Whose a volume is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Holder {
    /// Not read: nothing is decided on it.
    Unknown,
    /// There is no reference to a claim.
    Nobody,
    /// The volume belongs to this claim, or is reserved for one of its name.
    Claim(ClaimRef),
}

impl Holder {
    /// The claim, where there is a reference to one.
    #[must_use]
    pub const fn claim(&self) -> Option<&ClaimRef> {
        match self {
            Self::Claim(claim) => Some(claim),
            Self::Unknown | Self::Nobody => None,
        }
    }
}

/// Which claim a volume belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimRef {
    /// Namespace of the claim.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its uid; empty where the volume is only reserved for a claim of that name.
    pub uid: Uid,
}

impl ClaimRef {
    /// A reference.
    #[must_use]
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: Uid::new(uid),
        }
    }
}

impl fmt::Display for ClaimRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `status.phase` of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Not read: nothing is decided on it.
    Unknown,
    /// Not usable yet.
    Pending,
    /// Free for a claim.
    Available,
    /// In use by a claim.
    Bound,
    /// Its claim is gone.
    Released,
    /// What was to be done when its claim went has failed.
    Failed,
    /// Any other text, also the empty one of a new volume.
    Other(Arc<str>),
}

impl Phase {
    /// The text in the API; empty where it was not read.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unknown => "",
            Self::Pending => "Pending",
            Self::Available => "Available",
            Self::Bound => "Bound",
            Self::Released => "Released",
            Self::Failed => "Failed",
            Self::Other(text) => text,
        }
    }
}

impl From<&str> for Phase {
    fn from(text: &str) -> Self {
        match text {
            "Pending" => Self::Pending,
            "Available" => Self::Available,
            "Bound" => Self::Bound,
            "Released" => Self::Released,
            "Failed" => Self::Failed,
            other => Self::Other(other.into()),
        }
    }
}

/// What becomes of a volume when its claim is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    /// Not read: nothing is decided on it.
    Unknown,
    /// It stays as it is, for a person to see to.
    Retain,
    /// It goes, with what is behind it.
    Delete,
    /// It is emptied and offered again. Deprecated upstream.
    Recycle,
    /// Any other text.
    Other(Arc<str>),
}

impl From<&str> for Policy {
    fn from(text: &str) -> Self {
        match text {
            "Retain" => Self::Retain,
            "Delete" => Self::Delete,
            "Recycle" => Self::Recycle,
            other => Self::Other(other.into()),
        }
    }
}

/// Whether volumes of a provisioner within Kubernetes are handed over to a CSI driver in this cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Migration {
    /// Not known. A volume of such a provisioner is then left alone.
    #[default]
    Unknown,
    /// They are not.
    Off,
    /// They are.
    On {
        /// To this driver.
        driver: Arc<str>,
    },
}

/// A claim, as far as the mechanisms read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Metadata.
    pub meta: ObjectMeta,
    /// `spec.volumeName`: the volume that it is bound to; empty while there is none.
    pub volume_name: Arc<str>,
    /// `spec.volumeMode`; `None` means `Filesystem`, as the API has it.
    pub mode: Option<Arc<str>>,
}

impl Claim {
    /// A claim that is not bound.
    #[must_use]
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            meta: ObjectMeta::new(namespace, name, uid),
            volume_name: "".into(),
            mode: None,
        }
    }

    /// The same claim, bound to a volume.
    #[must_use]
    pub fn bound_to(mut self, volume: &str) -> Self {
        self.volume_name = volume.into();
        self
    }
}

/// A pod, as far as it uses claims.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pod {
    /// Metadata.
    pub meta: ObjectMeta,
    /// `spec.nodeName`; empty while the pod is not scheduled, `None` where it was not read.
    pub node_name: Option<Arc<str>>,
    /// `status.phase`, any text.
    pub phase: Arc<str>,
    /// `spec.volumes`; `None` where they were not read. Such a pod may use any claim of its namespace.
    pub volumes: Option<Vec<PodVolume>>,
}

impl Pod {
    /// A running pod without volumes.
    #[must_use]
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            meta: ObjectMeta::new(namespace, name, uid),
            node_name: Some("node".into()),
            phase: "Running".into(),
            volumes: Some(Vec::new()),
        }
    }

    /// The same pod with one more volume, named `data`.
    #[must_use]
    pub fn with(mut self, source: Source) -> Self {
        let name = "data".into();
        let volumes = self.volumes.get_or_insert_default();
        volumes.push(PodVolume { name, source });
        self
    }

    /// Whether it has ended and will not run again.
    pub(super) fn is_terminated(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }

    /// Whether it is known to be on no node.
    pub(super) fn is_unscheduled(&self) -> bool {
        self.node_name.as_ref().is_some_and(|node| node.is_empty())
    }

    /// Whether enough of it was read to tell which claims it protects. A claim that it brings along is known as its own by the pod's uid.
    pub(super) fn tells_protected_claims(&self) -> bool {
        let knows_itself = self.node_name.is_some() && !self.meta.uid.is_empty();
        let tells = |source: &Source| match source {
            Source::Claim(_) => self.node_name.is_some(),
            Source::Ephemeral => knows_itself,
            Source::Other => true,
        };
        let volumes = self.volumes.as_ref();
        let is_told = volumes.is_some_and(|volumes| volumes.iter().all(|volume| tells(&volume.source)));
        self.is_unscheduled() || is_told
    }

    /// The names of the claims that its volumes stand for, and whether each is one that the pod brings along.
    pub(super) fn claim_names(&self) -> impl Iterator<Item = (Arc<str>, bool)> + '_ {
        self.volumes.iter().flatten().filter_map(|volume| {
            let claim = volume.claim(&self.meta.name)?;
            Some((claim, volume.source == Source::Ephemeral))
        })
    }
}

/// One volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodVolume {
    /// Its name in the pod.
    pub name: Arc<str>,
    /// Where it comes from.
    pub source: Source,
}

impl PodVolume {
    /// The claim that the volume stands for, in a pod of this name.
    #[must_use]
    pub fn claim(&self, pod: &str) -> Option<Arc<str>> {
        match &self.source {
            Source::Claim(name) => Some(Arc::clone(name)),
            Source::Ephemeral => Some(format!("{pod}-{}", self.name).into()),
            Source::Other => None,
        }
    }
}

/// Where a pod's volume comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// `persistentVolumeClaim`: the claim of this name.
    Claim(Arc<str>),
    /// `ephemeral`: a claim named `<pod>-<volume>`, which goes with the pod.
    Ephemeral,
    /// Anything else: no claim stands behind it.
    Other,
}
