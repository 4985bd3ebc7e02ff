//! Says which owners a claim should have, whether it has them, and how its references must change.
//!
//! # Upstream
//! `isClaimOwnerUpToDate` and `updateClaimOwnerRefForSetAndPod` in `stateful_set_utils.go`.

use kubegc_core::{ObjectMeta, OwnerReference};

use super::{Retention, Settings, StatefulSet};

/// Group and version, and kind, of stateful sets.
pub(super) const SET: (&str, &str) = ("apps/v1", "StatefulSet");
/// Those of pods.
pub(super) const POD: (&str, &str) = ("v1", "Pod");

/// Somebody who may own a claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    api_version: &'static str,
    kind: &'static str,
    meta: &'a ObjectMeta,
}

impl<'a> Owner<'a> {
    pub(super) const fn new((api_version, kind): (&'static str, &'static str), meta: &'a ObjectMeta) -> Self {
        Self {
            api_version,
            kind,
            meta,
        }
    }

    /// The reference to this owner.
    pub(super) fn reference(&self, is_controller: bool) -> OwnerReference {
        let flag = is_controller.then_some(true);
        OwnerReference {
            api_version: self.api_version.into(),
            kind: self.kind.into(),
            name: self.meta.name.clone(),
            uid: self.meta.uid.clone(),
            controller: flag,
            block_owner_deletion: flag,
        }
    }

    /// Whether a reference means an object of this name, whatever its uid (L7.2).
    fn matches(&self, reference: &OwnerReference) -> bool {
        *reference.api_version == *self.api_version
            && *reference.kind == *self.kind
            && reference.name == self.meta.name
    }

    fn is_owner_in(&self, references: &[OwnerReference]) -> bool {
        references.iter().any(|reference| reference.uid == self.meta.uid)
    }

    /// Whether the first reference of this name means a former object.
    fn is_stale_in(&self, references: &[OwnerReference]) -> bool {
        let first = references.iter().find(|reference| self.matches(reference));
        first.is_some_and(|reference| reference.uid != self.meta.uid)
    }
}

/// Whether references name a former pod of this name, while there is no pod of it (L7.10).
pub(super) fn names_former_pod(references: &[OwnerReference], pod_name: &str) -> bool {
    let first = references
        .iter()
        .find(|reference| (&*reference.api_version, &*reference.kind) == POD && *reference.name == *pod_name);
    first.is_some_and(|reference| !reference.uid.is_empty())
}

/// How things stand between a claim and its owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing is to be done.
    UpToDate,
    /// It belongs to a former set or pod.
    Stale,
    /// Somebody else controls it, and it has no reference of ours.
    Foreign,
    /// Its references must become these.
    Wrong {
        references: Vec<OwnerReference>,
        /// Somebody else controls it, or a former set or pod of ours.
        is_foreign: bool,
        /// Nobody but a former set or pod of ours makes it so.
        is_former: bool,
    },
}

impl Standing {
    /// Whether upstream warns of a foreign controller when it comes to write.
    pub(super) const fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign | Self::Wrong { is_foreign: true, .. })
    }
}

/// Compares the owners of a claim with those that the policy wants.
pub(super) fn standing(
    settings: &Settings,
    set: &StatefulSet,
    pod: &ObjectMeta,
    is_in_range: bool,
    references: &[OwnerReference],
) -> Standing {
    let owners = Owners {
        set: Owner::new(SET, &set.meta),
        pod: Owner::new(POD, pod),
        wants: wants(set, is_in_range),
        retains: set.policy() == (&Retention::Retain, &Retention::Retain),
    };
    if settings.owners_are_controllers {
        owners.as_controllers(references)
    } else {
        owners.as_plain(references)
    }
}

/// Which of the two should own the claim (L7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Nobody,
    Set,
    Pod,
}

const fn wants(set: &StatefulSet, is_in_range: bool) -> Wanted {
    match (set.policy(), is_in_range) {
        ((Retention::Delete, _), false) => Wanted::Pod,
        ((_, Retention::Delete), _) => Wanted::Set,
        _ => Wanted::Nobody,
    }
}

struct Owners<'a> {
    set: Owner<'a>,
    pod: Owner<'a>,
    wants: Wanted,
    /// Whether both halves of the policy retain.
    retains: bool,
}

impl Owners<'_> {
    const fn wanted(&self) -> Option<&Owner<'_>> {
        match self.wants {
            Wanted::Nobody => None,
            Wanted::Set => Some(&self.set),
            Wanted::Pod => Some(&self.pod),
        }
    }

    fn is_as_wanted(&self, references: &[OwnerReference]) -> bool {
        self.set.is_owner_in(references) == (self.wants == Wanted::Set)
            && self.pod.is_owner_in(references) == (self.wants == Wanted::Pod)
    }

    fn is_ours(&self, reference: &OwnerReference) -> bool {
        reference.uid == self.set.meta.uid || reference.uid == self.pod.meta.uid
    }

    /// L7.4 and L7.6.
    fn as_controllers(&self, references: &[OwnerReference]) -> Standing {
        if self.set.is_stale_in(references) || self.pod.is_stale_in(references) {
            return Standing::Stale;
        }
        let is_foreign = !self.retains && references.iter().any(|reference| self.is_foreign(reference));
        let holds = references.iter().any(|reference| self.is_ours(reference));
        if is_foreign && !holds {
            return Standing::Foreign;
        }
        let are_controllers = references
            .iter()
            .filter(|reference| self.is_ours(reference))
            .all(|reference| reference.controller == Some(true));
        if !is_foreign && are_controllers && self.is_as_wanted(references) {
            return Standing::UpToDate;
        }
        let others = references
            .iter()
            .filter(|reference| !self.set.matches(reference) && !self.pod.matches(reference));
        let mut references: Vec<OwnerReference> = others.cloned().collect();
        let is_former = is_foreign && !references.iter().any(|other| other.controller == Some(true));
        if !is_foreign {
            references.extend(self.wanted().map(|owner| owner.reference(true)));
        }
        Standing::Wrong {
            references,
            is_foreign,
            is_former,
        }
    }

    /// L7.5.
    fn is_foreign(&self, reference: &OwnerReference) -> bool {
        if self.set.matches(reference) {
            reference.uid != self.set.meta.uid
        } else if self.pod.matches(reference) {
            reference.uid != self.pod.meta.uid
        } else {
            reference.controller == Some(true)
        }
    }

    /// L7.12: by uid alone, and plain references.
    fn as_plain(&self, references: &[OwnerReference]) -> Standing {
        if self.is_as_wanted(references) {
            return Standing::UpToDate;
        }
        let wanted = self.wanted();
        let stays = |reference: &&OwnerReference| {
            !self.is_ours(reference) || wanted.is_some_and(|owner| reference.uid == owner.meta.uid)
        };
        let mut references: Vec<OwnerReference> = references.iter().filter(stays).cloned().collect();
        if let Some(owner) = wanted.filter(|owner| !owner.is_owner_in(&references)) {
            references.push(owner.reference(false));
        }
        Standing::Wrong {
            references,
            is_foreign: false,
            is_former: false,
        }
    }
}
