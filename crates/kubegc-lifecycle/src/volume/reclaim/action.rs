//! What is done to a volume, and what the volume is afterwards.

use std::sync::Arc;

use kubegc_core::{DeleteOptions, Preconditions, ResourceVersion};

use super::{
    super::{ANNOTATION_BOUND_BY_CONTROLLER, ANNOTATION_MIGRATED_TO, Annotations, Holder, Phase, Volume},
    Reason,
};
use crate::object::{Act, Call, Change, Form, Object, Operation, Sent, Wire};

/// One step with a volume. Each rests on the success of those before it with the same volume.
#[expect(clippy::exhaustive_enums, reason = "an executor must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Writes the volume back with changed metadata, or free of its claim.
    Update {
        /// The volume.
        object: Object,
        /// What the decision rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
        /// What changes.
        changes: Vec<Change>,
    },
    /// Writes phase and message, and tells of it where there is something to tell.
    SetPhase {
        /// The volume.
        object: Object,
        /// What the decision rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
        /// The phase.
        phase: Phase,
        /// The message in the status; empty where there is none.
        message: String,
        /// The reason of the warning with the same message that follows.
        event: Option<&'static str>,
    },
    /// Only tells of the volume; the event is a normal one.
    Tell {
        /// The volume.
        object: Object,
        /// What the decision rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
        /// The event's reason.
        event: &'static str,
        /// The event's message.
        message: String,
    },
    /// Has the plugin delete what is behind the volume, or empty it.
    Ask {
        /// The volume.
        object: Object,
        /// What the decision rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
        /// What the plugin is to do.
        operation: Operation,
    },
    /// Deletes the volume.
    Delete {
        /// The volume.
        object: Object,
        /// What the decision rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
}

impl Action {
    /// Why this is done.
    #[must_use]
    pub const fn reason(&self) -> &Reason {
        match self {
            Self::Update { reason, .. }
            | Self::SetPhase { reason, .. }
            | Self::Tell { reason, .. }
            | Self::Ask { reason, .. }
            | Self::Delete { reason, .. } => reason,
        }
    }

    /// The volume as it is after the action has succeeded; `None` where it is gone, unless other finalizers hold it. Its version is not known then.
    #[must_use]
    pub fn applied_to(&self, volume: &Volume) -> Option<Volume> {
        let mut volume = volume.clone();
        match self {
            Self::Update { changes, .. } => changes.iter().for_each(|change| apply(change, &mut volume)),
            Self::SetPhase { phase, .. } => volume.phase = phase.clone(),
            Self::Tell { .. } | Self::Ask { .. } => return Some(volume),
            Self::Delete { .. } => return None,
        }
        volume.meta.resource_version = ResourceVersion::default();
        Some(volume)
    }
}

fn apply(change: &Change, volume: &mut Volume) {
    match change {
        Change::AddFinalizer(name) => volume.meta.finalizers.push((*name).into()),
        Change::RemoveFinalizer(name) => volume.meta.finalizers.retain(|other| **other != **name),
        Change::Annotation { .. } | Change::RemoveAnnotation(_) => {
            if let Some(annotations) = &mut volume.annotations {
                annotate(change, annotations);
            }
        }
        Change::RemoveClaimRef => volume.claim_ref = Holder::Nobody,
        Change::ReleaseClaimRef => {
            if let Holder::Claim(claim) = &mut volume.claim_ref {
                claim.uid = "".into();
            }
        }
        // No update of a volume has others.
        _ => {}
    }
}

fn annotate(change: &Change, annotations: &mut Annotations) {
    match change {
        Change::Annotation { key, value } if *key == ANNOTATION_MIGRATED_TO => {
            annotations.migrated_to = Some(value.as_str().into());
        }
        Change::RemoveAnnotation(key) if *key == ANNOTATION_MIGRATED_TO => annotations.migrated_to = None,
        Change::RemoveAnnotation(key) if *key == ANNOTATION_BOUND_BY_CONTROLLER => {
            annotations.is_bound_by_controller = false;
        }
        _ => {}
    }
}

impl Act for Action {
    fn object(&self) -> &Object {
        match self {
            Self::Update { object, .. }
            | Self::SetPhase { object, .. }
            | Self::Tell { object, .. }
            | Self::Ask { object, .. }
            | Self::Delete { object, .. } => object,
        }
    }

    fn expect(&self) -> &Preconditions {
        match self {
            Self::Update { expect, .. }
            | Self::SetPhase { expect, .. }
            | Self::Tell { expect, .. }
            | Self::Ask { expect, .. }
            | Self::Delete { expect, .. } => expect,
        }
    }

    /// # Upstream
    /// Writes are of whole objects, so that they carry uid and version. The deletion carries nothing.
    fn calls(&self, wire: Wire) -> Vec<Call> {
        let object = self.object().clone();
        let expect = self.expect().clone();
        let change = |subresource, changes| Call::Change {
            object: object.clone(),
            subresource,
            form: Form::Replace,
            expect: expect.clone(),
            changes,
        };
        let event = |is_warning, reason, message: &str| Call::Event {
            object: object.clone(),
            is_warning,
            reason,
            message: message.to_owned(),
        };
        match self {
            Self::Update { changes, .. } => vec![change("", changes.clone())],
            Self::SetPhase {
                phase,
                message,
                event: tells,
                ..
            } => {
                let phase = Change::Phase(Arc::from(phase.as_str()));
                let write = change("status", vec![phase, Change::Message(message.clone())]);
                let told = tells.map(|reason| event(true, reason, message));
                std::iter::once(write).chain(told).collect()
            }
            Self::Tell {
                event: reason,
                message,
                ..
            } => vec![event(false, *reason, message)],
            Self::Ask { operation, .. } => vec![Call::Outside {
                object,
                expect,
                operation: *operation,
            }],
            Self::Delete { .. } => {
                let options = DeleteOptions::default();
                vec![Call::delete(&object, &expect, wire, Sent::Nothing, options)]
            }
        }
    }
}
