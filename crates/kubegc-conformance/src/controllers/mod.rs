//! Replays recordings of upstream's other controllers.
//!
//! Each case has the objects in a controller's cache and on the API server. The controller runs against a
//! server in memory that responds like the recorder's. Its writes, events, errors and requeue times are
//! compared with the recorded ones, patches and bodies by the resulting object. The recorded requests run on
//! a copy of the same server, whose responses must be the recorded ones.

mod cases;
mod lines;
mod live;
mod outside;
mod server;

use serde_json::Value;

use crate::{Failure, Report, recording::Case};

pub(crate) fn replay(case: &Case<'_>, _: &mut Report) -> Result<(), Failure> {
    let case: Value = case.read()?;
    match server::text(&case, "mechanism") {
        "bootstrap_tokens" => cases::bootstrap_tokens(&case),
        "cloud_nodes" => cases::cloud_nodes(&case),
        "cronjob_history" => cases::cronjob_history(&case),
        "csr_cleaner" => cases::csr_cleaner(&case),
        "legacy_tokens" => cases::legacy_tokens(&case),
        "namespace_deletion" => cases::namespace_deletion(&case),
        "pod_certificate_requests" => cases::pod_certificate_requests(&case),
        "pod_gc" => cases::pod_gc(&case),
        "pv_protection" => cases::pv_protection(&case),
        "pv_reclaim" => cases::pv_reclaim(&case),
        "pvc_protection" => cases::pvc_protection(&case),
        "statefulset_pvc" => cases::statefulset_pvc(&case),
        "ttl_after_finished" => cases::ttl_after_finished(&case),
        other => Err(Failure::unreadable(format!("no controller for {other:?}"))),
    }
}
