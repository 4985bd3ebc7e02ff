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

use std::time::Duration;

use kubegc_core::{
    ObjectMeta,
    record::{ObjectId, Record},
};

use crate::{
    Action, Context, Decision, FieldChange, Form, Missing, OnError, Reason, Sent, controller::require_version,
};

/// The code and the message of a reason.
pub(crate) type Text = (&'static str, &'static str);

/// A controller that protects objects with a finalizer, as data.
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
    /// Why an object that is being deleted is in use; `None` if nothing uses it.
    pub(crate) in_use: fn(&Context<'_>, &ObjectId, &Record) -> Result<Option<Text>, Missing>,
    /// The time after the deletion during which the finalizer of an unused object is not removed.
    pub(crate) grace: Duration,
    /// Why the finalizer is removed.
    pub(crate) unused: Text,
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
            in_use: |_, _, _| Ok(None),
            grace: Duration::ZERO,
            unused: ("Unused", "it is being deleted, and nothing uses it"),
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

    /// The decision about an object.
    pub(crate) fn decide(
        &self,
        cx: &Context<'_>,
        id: &ObjectId,
        record: &Record,
    ) -> Result<Decision, Missing> {
        if let Some(settled) = self.settled(cx, id, record)? {
            return Ok(settled);
        }
        if let Some((code, message)) = (self.in_use)(cx, id, record)? {
            return Ok(Decision::keep(id.clone(), Reason::new(code, message)));
        }
        let deleted_at = record.meta.deletion_timestamp;
        let free_at = deleted_at.map(|deleted_at| deleted_at.saturating_add(self.grace));
        if let Some(free_at) = free_at.filter(|free_at| *free_at > cx.now && !self.grace.is_zero()) {
            let message = format!("it was deleted less than {}s ago", self.grace.as_secs());
            let reason = Reason::new("DeletionRecent", message);
            return Ok(Decision::keep(id.clone(), reason).requeue_at(free_at));
        }
        self.remove(cx, id, record).map(Decision::act)
    }

    /// The decision about an object that is no candidate for the removal of the finalizer; `None` if it is
    /// one.
    pub(crate) fn settled(
        &self,
        cx: &Context<'_>,
        id: &ObjectId,
        record: &Record,
    ) -> Result<Option<Decision>, Missing> {
        let (code, message) = match (record.meta.is_deleting(), self.added) {
            _ if self.is_candidate(&record.meta) => return Ok(None),
            (true, _) => self.unprotected,
            (false, Some(text)) if !record.meta.has_finalizer(self.finalizer) => {
                let change = FieldChange::AddFinalizer(self.finalizer);
                let action = self.write(cx, id, record, text, change)?;
                return Ok(Some(Decision::act(action)));
            }
            (false, _) => self.protected,
        };
        Ok(Some(Decision::keep(id.clone(), Reason::new(code, message))))
    }

    /// Removes the finalizer from an object that nothing uses.
    pub(crate) fn remove(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Action, Missing> {
        let change = FieldChange::RemoveFinalizer(self.finalizer);
        self.write(cx, id, record, self.unused, change)
    }

    fn write(
        &self,
        cx: &Context<'_>,
        id: &ObjectId,
        record: &Record,
        (code, message): Text,
        change: FieldChange,
    ) -> Result<Action, Missing> {
        if self.requires_version {
            require_version(id, &record.meta)?;
        }
        let sent = match self.form {
            Form::Update => Sent::ResourceVersion,
            Form::Patch(_) => Sent::Nothing,
        };
        Ok(Action::new(id.resource, &record.meta, Reason::new(code, message))
            .write(cx.wire, sent, self.form, "", vec![change])
            .on_error(self.on_error))
    }
}
