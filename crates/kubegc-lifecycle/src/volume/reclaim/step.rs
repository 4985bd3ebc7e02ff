//! What a pass wants next, the answers it takes, and how it ends.

use kubegc_core::StoreError;

use super::{
    super::{Claim, ClaimRef, Volume},
    Action, Reason,
};
use crate::object::Operation;

/// What a pass wants next. Every step but the last is answered once.
#[expect(clippy::exhaustive_enums, reason = "a driver must handle each")]
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Read this claim, live. Answer: [`Answer::Claim`].
    ReadClaim(ClaimRef),
    /// Read the volume, live. Answer: [`Answer::Volume`].
    ReadVolume,
    /// Find the plugin that does this to the volume. Answer: [`Answer::Plugin`].
    FindPlugin(Operation),
    /// Do this. Answer: [`Answer::Done`], or [`Answer::Volume`] as it was written; the plugin may also answer [`Answer::InUse`] or
    /// [`Answer::PluginFailed`].
    Perform(Action),
    /// The pass is over.
    Done(Ending),
}

/// What became of a step.
///
/// An answer of the wrong kind is taken as a failure.
#[expect(clippy::exhaustive_enums, reason = "drivers only build these")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The claim as it is now. There being none is `Failed(StoreError::NotFound)`.
    Claim(Claim),
    /// The volume as it is now.
    Volume(Volume),
    /// Who does it.
    Plugin(Plugin),
    /// It is done. After a write, [`Volume`](Self::Volume) is the better answer: the version that the next write expects is not known otherwise.
    Done,
    /// The plugin cannot delete what is behind the volume yet, because it is in use.
    InUse {
        /// The plugin's message.
        message: String,
    },
    /// The plugin failed.
    PluginFailed {
        /// The plugin's message.
        message: String,
    },
    /// The call failed.
    Failed(StoreError),
}

/// Who deletes or empties what is behind a volume.
#[expect(clippy::exhaustive_enums, reason = "drivers only build these")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Plugin {
    /// Not known. Nothing is deleted on that.
    #[default]
    Unknown,
    /// A plugin at hand.
    Known,
    /// Somebody outside: nothing is to be done here.
    External,
    /// There should be one and is not, or it could not be made ready.
    Missing {
        /// Why not.
        message: String,
    },
}

/// How a pass ended.
#[expect(clippy::exhaustive_enums, reason = "a driver must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The deletion of the volume was asked for, or there was none any more to delete.
    Deleted,
    /// The volume stays.
    Kept(Reason),
    /// Something failed, so the volume stays and is tried again: at the next resync at the latest, and not before its own delay has passed.
    Failed(Reason),
}

pub(super) fn message(answer: Answer) -> String {
    match answer {
        Answer::PluginFailed { message } | Answer::InUse { message } => message,
        Answer::Failed(error) => error.to_string(),
        Answer::Claim(_) | Answer::Volume(_) | Answer::Plugin(_) | Answer::Done => misfit().to_string(),
    }
}

pub(super) fn read_failed(answer: Answer) -> Step {
    let message = message(answer);
    Step::Done(Ending::Failed(Reason::ReadFailed { message }))
}

pub(super) fn write_failed(message: String) -> Step {
    Step::Done(Ending::Failed(Reason::WriteFailed { message }))
}

pub(super) fn misfit() -> StoreError {
    StoreError::Unknown {
        message: "the answer does not fit the question".to_owned(),
    }
}
