//! The writes that are validated and admitted.

use kubegc_core::{ApiResource, KindId, ObjectMeta};

use crate::StoredObject;

/// The part of an object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The object itself.
    Whole,
    Status,
    /// `finalize` of a namespace.
    Finalize,
    /// `scale`: the object with another number of replicas.
    Scale,
    /// `approval` of a certificate signing request: the conditions.
    Approval,
    /// `binding` of a pod: its node.
    Binding,
    /// `ephemeralcontainers` of a pod.
    EphemeralContainers,
    /// `resize` of a pod: the resources of its containers.
    Resize,
    /// `eviction` of a pod: its deletion.
    Eviction,
}

/// A write of an object that is validated and admitted.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(super) kind: KindId,
    pub(super) part: Part,
    pub(super) new: &'a StoredObject,
    /// The object that it replaces; `None` for a new one.
    pub(super) old: Option<&'a StoredObject>,
}

impl Part {
    /// The name of the subresource; empty for the object itself.
    pub(super) const fn subresource(self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::Scale => "scale",
            Self::Approval => "approval",
            Self::Binding => "binding",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Eviction => "eviction",
        }
    }

    /// Whether webhooks and policies review the object. Others are reviewed in their own form.
    pub(super) const fn is_reviewed(self) -> bool {
        !matches!(self, Self::Binding | Self::Scale | Self::Eviction)
    }

    pub(super) const fn can_increment_generation(self) -> bool {
        !matches!(
            self,
            Self::Status | Self::Finalize | Self::Approval | Self::Binding | Self::Eviction
        )
    }
}

/// A request that webhooks and policies review.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) kind: KindId,
    pub(super) part: Part,
    /// The kind of the body, if it is not that of the object: that of an eviction, binding or scale.
    pub(super) body: Option<&'a ApiResource>,
    /// The object before the request.
    pub(super) old: Option<&'a StoredObject>,
    /// The object as it will be stored; `None` where it is deleted.
    pub(super) new: Option<&'a StoredObject>,
    pub(super) dry_run: bool,
}

impl<'a> Request<'a> {
    /// A request whose body has the kind of the object.
    pub(super) const fn new(
        kind: KindId,
        part: Part,
        old: Option<&'a StoredObject>,
        new: Option<&'a StoredObject>,
    ) -> Self {
        Self {
            kind,
            part,
            body: None,
            old,
            new,
            dry_run: false,
        }
    }

    pub(super) const fn operation(self) -> &'static str {
        match (self.part, self.old, self.new) {
            (Part::Binding | Part::Eviction, ..) | (_, None, _) => "CREATE",
            (_, _, Some(_)) => "UPDATE",
            (_, _, None) => "DELETE",
        }
    }

    /// The object after the request, or else before it.
    pub(super) fn object(self) -> Option<&'a StoredObject> {
        self.new.or(self.old)
    }

    /// The metadata of the object before and after the request, as far as it exists.
    pub(super) fn metas(self) -> impl Iterator<Item = &'a ObjectMeta> {
        let objects = [self.old, self.new].into_iter().flatten();
        objects.map(|object| &*object.meta)
    }
}
