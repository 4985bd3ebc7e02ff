//! Deletes PodCertificateRequests by their age.
//!
//! The rule is [L4.9](crate::rules#l4-9).
//!
//! A request that is being deleted is not deleted again. Upstream does so in each sync, without an effect.
//!
//! # Upstream
//! [`handle`](https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/controller/certificates/cleaner/pcrcleaner.go)
//! in `pcrcleaner.go`, wired by `newPodCertificateRequestCleanerController` in
//! `cmd/kube-controller-manager/app/certificates.go`.

use std::time::Duration;

use kubegc_core::{
    Behavior, KubernetesVersion,
    record::{ObjectId, Record, Resource},
};

use crate::{
    Context, Controller, Decision, Info, Missing, OnError, Reason, Sent, Timing, controller::Reads as _,
};

/// The feature gate `PodCertificateRequest` brings the API and the controller: alpha from 1.34, beta from
/// 1.35, off by default. Without it there are no requests either.
const POD_CERTIFICATE_REQUEST: Behavior =
    Behavior::since(34, 0, "feature gate PodCertificateRequest is alpha");
/// The controller takes age and period as parameters, and deletes by uid.
const V1BETA1: Behavior = Behavior::since(35, 0, "certificates.k8s.io/v1beta1 PodCertificateRequest");

#[derive(Clone, Copy, Debug)]
pub struct PodCertificateRequestCleaner {
    version: KubernetesVersion,
    /// The age at which a request is deleted.
    pub threshold: Duration,
}

impl PodCertificateRequestCleaner {
    /// Upstream's parameters in a release.
    pub const fn new(version: KubernetesVersion) -> Self {
        let minutes = if version.has(V1BETA1) { 15 } else { 30 };
        Self {
            version,
            threshold: Duration::from_secs(minutes * 60),
        }
    }
}

const RESOURCE: Resource = Resource::PodCertificateRequests;

static INFO: Info = Info {
    name: "podcertificaterequest-cleaner-controller",
    summary: "deletes old PodCertificateRequests",
    resources: &[RESOURCE],
    permissions: &[(RESOURCE, "", &["delete"])],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/controller/certificates/cleaner/pcrcleaner.go",
    ..Info::BASE
};

impl Controller for PodCertificateRequestCleaner {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn timing(&self) -> Timing {
        let minutes = if self.version.has(V1BETA1) { 5 } else { 60 };
        Timing::every(Duration::from_secs(minutes * 60))
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        if !self.version.has(POD_CERTIFICATE_REQUEST) {
            return id.keep("Disabled", "the feature gate PodCertificateRequest is off");
        }
        if record.meta.is_deleting() {
            return id.keep("Terminating", "it is being deleted");
        }
        // A request without a creation time is as old as Go's zero time.
        if let Some(created) = record.meta.creation_timestamp {
            let Some(due) = created.checked_add(self.threshold) else {
                return id.keep("NeverExpires", "it expires after the year 2262");
            };
            if due > cx.now {
                let reason = Reason::new(
                    "Young",
                    format!("it is deleted when it is {}s old", self.threshold.as_secs()),
                );
                return Ok(Decision::keep(id.clone(), reason).requeue_at(due));
            }
        }
        let message = format!("it is at least {}s old", self.threshold.as_secs());
        let (sent, on_error, prefix) = if self.version.has(V1BETA1) {
            let prefix = format!(
                "unable to delete PodCertificateRequest \"{}/{}\": ",
                id.namespace, id.name
            );
            (Sent::Uid, OnError::ReportUnlessNotFound, prefix)
        } else {
            let prefix = format!("unable to delete PCR \"{}\": ", id.name);
            (Sent::Nothing, OnError::Report, prefix)
        };
        let action = cx.delete(id, record, Reason::new("Expired", message), sent, on_error);
        Ok(action.error_prefix(prefix).into())
    }
}
