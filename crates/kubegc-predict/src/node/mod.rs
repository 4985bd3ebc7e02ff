//! Forecast of a node's garbage collection, with reasons: containers, sandboxes, logs, images, and the time
//! at which the disk is full enough for more.
//!
//! [`node_forecast`] runs the planners of `kubegc-node` in the order in which a kubelet would, each on the
//! state that the previous one leaves. Missing facts (when an image was last used, which layers it shares)
//! are part of the forecast, as an [`Assumption`].

mod change;
mod forecast;
pub(crate) mod json;
mod report;

pub use change::{Change, Growth};
pub use forecast::{
    Assumption, Disk, Due, ImageInUseByDigest, NodeForecast, NodeFrame, PressureForecast, RecordsKnown,
    WhatIf, node_forecast, what_if,
};
