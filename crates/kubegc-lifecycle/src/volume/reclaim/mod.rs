//! Decides what becomes of a volume when its claim is gone: it stays, is emptied, or is deleted with what is behind it.
//!
//! [`Pass`] is one look of upstream's controller at one volume, as a state machine that asks and is answered: what the plugin says
//! decides what follows. [`Settings`] is the [`Planner`] that foresees the passes of all volumes under the assumption that every
//! call succeeds, plugins included.
//!
//! # Guarantees
//! Nothing is deleted or emptied before the volume, and in the same pass its claim, were read live and show that it is released, unless the caller says that its lists are as good as that
//! ([`Reads::AsListed`]). What is not known keeps the volume. A pass repeats harmlessly after any prefix of its calls.
//!
//! # Upstream
//! `pkg/controller/volume/persistentvolume/pv_controller.go` and `pv_controller_base.go`. Deviations, all to the safe side:
//! - A listed claim of another uid than the volume names is always read live; upstream does so in newer releases only.
//! - A volume that is read right before and has another uid, claim, policy or driver than when it was listed is left for the next look. Upstream
//!   goes by what it listed.
//! - A claim that was read live before the volume was shown as released is not read a second time; upstream looks into its cache there. A claim
//!   that was not is read live after the volume.
//! - What has no uid or version is not written.
//!
//! Left out:
//! - Binding, and with it the events about volume modes that differ; the plan says [`Reason::ModeMismatch`].
//! - The delay between attempts with one volume (a key for each operation and uid, one attempt at a time), which is the driver's.
//! - Where the last finalizer cannot be removed, upstream puts words of its own before the error in the status.
//!
//! [`Planner`]: kubegc_core::Planner
//! [`Reads::AsListed`]: crate::object::Reads::AsListed

mod action;
mod finalizers;
mod pass;
mod plan;
mod reason;
mod settings;
mod step;

pub use action::Action;
pub use pass::{Known, Pass};
pub use plan::{Facts, Summary};
pub use reason::Reason;
pub use settings::Settings;
pub use step::{Answer, Ending, Plugin, Step};
