//! Why a job goes or stays, and why a cron job is written.

use std::fmt;

use kubegc_core::StoreError;

/// How a job ended.
#[expect(clippy::exhaustive_enums, reason = "a job succeeds or fails")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// It is complete.
    Successful,
    /// It failed.
    Failed,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Successful => "successful",
            Self::Failed => "failed",
        })
    }
}

/// Why a job goes or stays, and why a cron job is written or not.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Goes: there are too many of its class, and it is among the oldest.
    OverLimit {
        /// How it ended.
        class: Class,
        /// How many ended so.
        finished: usize,
        /// How many may stay.
        limit: i32,
    },
    /// Written: jobs of the cron job were deleted.
    JobsDeleted,
    /// Written: no job goes, and this release writes the status all the same.
    AlwaysWritten,
    /// Stays: enough others of its class go, or there are not too many.
    WithinLimit {
        /// How it ended.
        class: Class,
        /// How many ended so.
        finished: usize,
        /// How many may stay.
        limit: i32,
    },
    /// Stays: it has not finished.
    Unfinished,
    /// Stays: no cron job controls it.
    NotOfCronJob,
    /// Stays: its labels are not those of its cron job's template.
    LabelsDiffer,
    /// Stays: its cron job sets no limit for its class.
    LimitUnset {
        /// How it ended.
        class: Class,
    },
    /// Stays: the limit for its class is not known.
    LimitUnknown {
        /// How it ended.
        class: Class,
    },
    /// Stays: the limit for its class is negative.
    LimitInvalid {
        /// How it ended.
        class: Class,
        /// The limit.
        limit: i32,
    },
    /// Stays: too many of its class ended, or may have, and when one of them started is not known.
    StartTimeUnknown {
        /// How it ended.
        class: Class,
        /// How many ended so.
        finished: usize,
        /// How many may stay.
        limit: i32,
    },
    /// Stays: among those that are known it is not one too many, but there may be more, of which too little was read.
    PlaceUnknown {
        /// How it ended.
        class: Class,
        /// How many are known to have ended so.
        finished: usize,
        /// How many more may have.
        unread: usize,
        /// How many may stay.
        limit: i32,
    },
    /// Stays: its uid is not known.
    UidUnknown,
    /// Stays as it is: it could only be written back blindly, for the version in which it was read is not known.
    VersionUnknown,
    /// Stays: the uid or the version of its cron job is not known.
    CronJobUnknown,
    /// Stays: its status is not known.
    StatusUnknown,
    /// Stays: the labels of its cron job's template are not known.
    TemplateUnknown,
    /// Stays as it is: there is nothing to prune.
    NothingToPrune,
    /// Stays: it was listed twice, in two states.
    ListedTwice,
    /// Stays: its cron job was listed twice, in two states.
    CronJobListedTwice,
    /// Stays: jobs or cron jobs were not listed.
    NotListed,
    /// Odd: it goes with the history of a cron job that only shares the name with its controller.
    ControllerDiffers,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverLimit {
                class,
                finished,
                limit,
            } => write!(
                f,
                "{finished} {class} jobs, {limit} may stay, and this one is among the oldest"
            ),
            Self::JobsDeleted => f.write_str("jobs of it were deleted"),
            Self::AlwaysWritten => f.write_str("its status is written even where no job goes"),
            Self::WithinLimit {
                class,
                finished,
                limit,
            } => write!(f, "{finished} {class} jobs, {limit} may stay"),
            Self::Unfinished => f.write_str("has not finished"),
            Self::NotOfCronJob => f.write_str("is controlled by no cron job"),
            Self::LabelsDiffer => f.write_str("does not have the labels of its cron job's template"),
            Self::LimitUnset { class } => write!(f, "any number of {class} jobs may stay"),
            Self::LimitUnknown { class } => {
                write!(f, "how many {class} jobs may stay is not known")
            }
            Self::LimitInvalid { class, limit } => {
                write!(f, "the limit of {limit} {class} jobs is not valid")
            }
            Self::StartTimeUnknown {
                class,
                finished,
                limit,
            } => write!(
                f,
                "{finished} {class} jobs, {limit} may stay, and when one of them started is not known"
            ),
            Self::PlaceUnknown {
                class,
                finished,
                unread,
                limit,
            } => write!(
                f,
                "{finished} {class} jobs, {limit} may stay, and whether this one does hangs on {unread} that {} not read in full",
                if *unread == 1 { "was" } else { "were" }
            ),
            Self::UidUnknown => f.write_str("its uid is not known"),
            Self::VersionUnknown => f.write_str("the version in which it was read is not known"),
            Self::CronJobUnknown => f.write_str("the uid or the version of its cron job is not known"),
            Self::StatusUnknown => f.write_str("its status is not known"),
            Self::TemplateUnknown => f.write_str("the template of its cron job is not known"),
            Self::NothingToPrune => f.write_str("there is nothing to prune"),
            Self::ListedTwice => f.write_str("listed twice, in two states"),
            Self::CronJobListedTwice => f.write_str("its cron job was listed twice, in two states"),
            Self::NotListed => f.write_str("jobs or cron jobs were not listed"),
            Self::ControllerDiffers => {
                f.write_str("its controller only shares the name with the cron job whose history it is in")
            }
        }
    }
}

/// What a plan amounts to.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// How many jobs go.
    pub deleted: usize,
    /// Why nothing was planned: jobs or cron jobs were not listed.
    pub error: Option<StoreError>,
}
