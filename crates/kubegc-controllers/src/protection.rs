//! The finalizers that keep objects until nothing uses them.
//!
//! | deleted | finalizer | decision |
//! |---|---|---|
//! | no | no | the finalizer is added, unless admission adds it |
//! | no | yes | the object is kept |
//! | yes | no | the object is kept |
//! | yes | yes | the controller decides whether something uses the object, and removes the finalizer if not |
//!
//! # Upstream
//! [`IsDeletionCandidate` and
//! `NeedToAddFinalizer`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/protectionutil/utils.go).

use kubegc_core::{
    ObjectMeta,
    record::{ObjectId, Record},
};

use crate::{
    Action, Context, Decision, FieldChange, Form, Missing, OnError, Reason, Sent, controller::require_version,
};

type Text = (&'static str, &'static str);

pub(crate) struct Protection {
    pub(crate) finalizer: &'static str,
    /// The form of writes. Updates carry the resourceVersion, patches nothing.
    pub(crate) form: Form,
    pub(crate) on_error: OnError,
    /// Whether nothing is decided if the resourceVersion is not known.
    pub(crate) requires_version: bool,
    /// Why an object that is not being deleted and has the finalizer is kept.
    pub(crate) protected: Text,
    /// Why an object that is being deleted without the finalizer is kept.
    pub(crate) unprotected: Text,
    /// Why the finalizer is added; `None` if it is not.
    pub(crate) added: Option<Text>,
}

impl Protection {
    /// A finalizer that is written by updates.
    pub(crate) const fn new(finalizer: &'static str) -> Self {
        Self {
            finalizer,
            form: Form::Update,
            on_error: OnError::Retry,
            requires_version: false,
            protected: ("Protected", "it has the finalizer and is not being deleted"),
            unprotected: ("Terminating", "it is being deleted without the finalizer"),
            added: Some(("Unprotected", "it does not have the finalizer")),
        }
    }

    /// The finalizer of a volume or claim.
    pub(crate) const fn of_storage(finalizer: &'static str) -> Self {
        Self {
            requires_version: true,
            protected: ("Protected", "it has its protection finalizer"),
            unprotected: (
                "Unprotected",
                "it is being deleted and has no protection finalizer",
            ),
            added: Some(("FinalizerMissing", "it has no protection finalizer")),
            ..Self::new(finalizer)
        }
    }

    /// Returns whether an object is being deleted and has the finalizer.
    pub(crate) fn is_candidate(&self, meta: &ObjectMeta) -> bool {
        meta.is_deleting() && meta.has_finalizer(self.finalizer)
    }

    /// The decision about an object that is no candidate for the removal of the finalizer; `None` if it is
    /// one.
    ///
    /// # Errors
    /// The finalizer is to be added, and the resourceVersion is not known.
    pub(crate) fn settled(
        &self,
        cx: &Context<'_>,
        id: &ObjectId,
        record: &Record,
    ) -> Result<Option<Decision>, Missing> {
        let (code, message) = match (record.meta.is_deleting(), self.added) {
            _ if self.is_candidate(&record.meta) => return Ok(None),
            (true, _) => self.unprotected,
            (false, Some((code, message))) if !record.meta.has_finalizer(self.finalizer) => {
                let change = FieldChange::AddFinalizer(self.finalizer);
                let action = self.write(cx, id, record, Reason::new(code, message), change)?;
                return Ok(Some(Decision::act(action)));
            }
            (false, _) => self.protected,
        };
        Ok(Some(Decision::keep(id.clone(), Reason::new(code, message))))
    }

    /// Removes the finalizer from an object that nothing uses.
    ///
    /// # Errors
    /// The resourceVersion is not known.
    pub(crate) fn remove(
        &self,
        cx: &Context<'_>,
        id: &ObjectId,
        record: &Record,
        reason: Reason,
    ) -> Result<Action, Missing> {
        let change = FieldChange::RemoveFinalizer(self.finalizer);
        self.write(cx, id, record, reason, change)
    }

    fn write(
        &self,
        cx: &Context<'_>,
        id: &ObjectId,
        record: &Record,
        reason: Reason,
        change: FieldChange,
    ) -> Result<Action, Missing> {
        if self.requires_version {
            require_version(id, &record.meta)?;
        }
        let sent = match self.form {
            Form::Update => Sent::ResourceVersion,
            Form::Patch(_) => Sent::Nothing,
        };
        Ok(Action::new(id.resource, &record.meta, reason)
            .write(cx.wire, sent, self.form, "", vec![change])
            .on_error(self.on_error))
    }
}
