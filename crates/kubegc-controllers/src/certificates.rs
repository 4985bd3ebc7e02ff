//! The cleaners of certificate requests.
//!
//! A request that is being deleted is not deleted again. Upstream does so in each sync, without an effect.

use kubegc_core::record::{Certificate, CertificateSigningRequest};

use crate::prelude::*;

/// The condition `Failed` has a deadline, and an empty certificate is none.
const CERTIFICATES_V1: Behavior = Behavior::since(19, 0, "certificates.k8s.io/v1");
/// A certificate that cannot be parsed does not keep its request.
const MALFORMED_IS_TOLERATED: [Behavior; 3] = [
    Behavior::since(20, 10, "kubernetes #103949"),
    Behavior::since(21, 4, "kubernetes #103948"),
    Behavior::since(22, 0, "kubernetes #103823"),
];
/// Approved requests that were never issued have a deadline.
const UNISSUED_IS_CLEANED: Behavior = Behavior::since(35, 0, "kubernetes #133116");

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
const NONE: Duration = Duration::ZERO;

/// Go's error for an empty certificate, if one counts as issued.
const NOT_PEM: &str = "expected the certificate associated with the CSR to be PEM encoded";

/// The cleaner of CertificateSigningRequests: it deletes those that are settled, abandoned, or whose
/// certificate has expired. Upstream has no flags for the ages.
///
/// The rules are [L4.1](crate::rules#l4-1) to [L4.8](crate::rules#l4-8).
///
/// # Upstream
/// [`handle`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/certificates/cleaner/cleaner.go)
/// in `cleaner.go`.
#[derive(Clone, Copy, Debug)]
pub struct CsrCleaner {
    version: KubernetesVersion,
    /// The age of the approval after which a request is deleted that was never issued; `None` keeps it.
    /// Default: 24 h since 1.35.
    pub unissued_age: Option<Duration>,
    /// Whether a request is skipped whose certificate cannot be parsed. Default: until 1.20.9 and 1.21.3.
    pub skips_malformed: bool,
}

impl CsrCleaner {
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            version,
            unissued_age: version.has(UNISSUED_IS_CLEANED).then_some(DAY),
            skips_malformed: !version.has_change(&MALFORMED_IS_TOLERATED),
        }
    }

    /// Whether an empty certificate, as opposed to none, counts as issued.
    const fn is_empty_issued(&self) -> bool {
        !self.version.has(CERTIFICATES_V1)
    }

    /// The rule that deletes the request first, and the first instant at which it does; `None` if none does.
    fn deadline(
        &self,
        record: &Record,
        csr: &CertificateSigningRequest,
        conditions: &[Condition],
    ) -> Option<(Timestamp, Reason)> {
        let certificate = csr.certificate.known();
        let (is_issued, is_unissued) = match certificate {
            None => (false, false),
            Some(Certificate::Absent) => (false, true),
            Some(Certificate::Empty) => (self.is_empty_issued(), !self.is_empty_issued()),
            Some(Certificate::NotAfter(_) | Certificate::Malformed(_)) => (true, false),
        };
        let updated = |condition_type| {
            let conditions = conditions.iter().filter(|known| is(known, condition_type));
            conditions
                .filter_map(|condition| condition.last_update_time)
                .min()
        };
        let [approved, denied, failed] = ["Approved", "Denied", "Failed"].map(updated);
        let is_approved = conditions.iter().any(|condition| is(condition, "Approved"));
        let end = match certificate {
            Some(Certificate::NotAfter(end)) if is_approved => Some(*end),
            _ => None,
        };
        let pending = record.meta.creation_timestamp.filter(|_| conditions.is_empty());
        let issued = approved.filter(|_| is_issued);
        let failed = failed.filter(|_| self.version.has(CERTIFICATES_V1));
        let unissued = approved.filter(|_| is_unissued).zip(self.unissued_age);
        let unissued = unissued.and_then(|(at, age)| older_than(at, age));
        let older = |time: Option<Timestamp>, age| older_than(time?, age);
        let never_issued = "it was approved, and no certificate was issued";
        let rules = [
            (older(issued, HOUR), "Issued", "its certificate was issued"),
            (older(denied, HOUR), "Denied", "it was denied"),
            (older(failed, HOUR), "Failed", "it has failed"),
            (
                older(pending, DAY),
                "Pending",
                "it was neither approved nor denied",
            ),
            (older(end, NONE), "CertificateExpired", "its certificate expires"),
            (unissued, "Unissued", never_issued),
        ];
        let due = rules.into_iter();
        let due = due.filter_map(|(at, code, message)| Some((at?, Reason::new(code, message))));
        due.min_by_key(|(at, _)| *at)
    }
}

fn is(condition: &Condition, condition_type: &str) -> bool {
    *condition.condition_type == *condition_type
}

/// The first instant at which a time is older than an age, which it must exceed.
fn older_than(time: Timestamp, age: Duration) -> Option<Timestamp> {
    time.checked_add(age)?.checked_add(Duration::from_nanos(1))
}

static SIGNING_REQUESTS: Info = Info {
    name: "certificatesigningrequest-cleaner-controller",
    summary: "deletes CertificateSigningRequests that are settled, forgotten, or expired",
    resources: &[Resource::CertificateSigningRequests],
    timing: Timing::every(HOUR),
    permissions: &[(Resource::CertificateSigningRequests, "", &["delete"])],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/certificates/cleaner/cleaner.go",
    ..Info::BASE
};

impl Controller for CsrCleaner {
    fn info(&self) -> &'static Info {
        &SIGNING_REQUESTS
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        if record.meta.is_deleting() {
            return id.keep("Terminating", "it is being deleted");
        }
        let csr = id.body(record, Record::certificate_signing_request)?;
        let certificate = id.read(&csr.certificate, "status.certificate");
        if self.skips_malformed {
            match certificate.clone()? {
                Certificate::Malformed(error) => return id.keep("MalformedCertificate", error.to_string()),
                Certificate::Empty if self.is_empty_issued() => {
                    return id.keep("MalformedCertificate", NOT_PEM);
                }
                _ => {}
            }
        }
        let conditions = id.read(&csr.conditions, "status.conditions")?;
        let first = self.deadline(record, csr, conditions);
        // Whether an approved request was issued decides which deadline it has.
        let is_approved = conditions.iter().any(|condition| is(condition, "Approved"));
        if let Err(missing) = &certificate
            && is_approved
            && first.as_ref().is_none_or(|(at, _)| *at > cx.now)
        {
            let unknown = Decision::unknown(id.clone(), missing.clone());
            let at = first.into_iter().map(|(at, _)| at);
            return Ok(at.fold(unknown, Decision::requeue_at));
        }
        match first {
            Some((at, reason)) if at <= cx.now => {
                let action = cx.delete(id, record, reason, Sent::Nothing, OnError::Report);
                let prefix = format!("unable to delete CSR \"{}\": ", id.name);
                Ok(action.error_prefix(prefix).into())
            }
            Some((at, reason)) => {
                let message = format!("{reason}; it is deleted after {at}");
                Ok(id.keep("NotExpired", message)?.requeue_at(at))
            }
            // The API server always sets it.
            None if conditions.is_empty() && record.meta.creation_timestamp.is_none() => {
                Err(Missing::field(id, "metadata.creationTimestamp"))
            }
            None => id.keep("NoDeadline", "no rule sets a deadline for it"),
        }
    }
}

/// The feature gate `PodCertificateRequest` brings the API and the controller: alpha from 1.34, beta from
/// 1.35, off by default. Without it there are no requests either.
const POD_CERTIFICATE_REQUEST: Behavior =
    Behavior::since(34, 0, "feature gate PodCertificateRequest is alpha");
/// The controller takes age and period as parameters, and deletes by uid.
const V1BETA1: Behavior = Behavior::since(35, 0, "certificates.k8s.io/v1beta1 PodCertificateRequest");

/// The cleaner of PodCertificateRequests: it deletes them by their age.
///
/// The rule is [L4.9](crate::rules#l4-9).
///
/// # Upstream
/// [`handle`](https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/controller/certificates/cleaner/pcrcleaner.go)
/// in `pcrcleaner.go`, wired by `newPodCertificateRequestCleanerController` in
/// `cmd/kube-controller-manager/app/certificates.go`.
#[derive(Clone, Copy, Debug)]
pub struct PodCertificateRequestCleaner {
    version: KubernetesVersion,
    /// The age at which a request is deleted.
    pub threshold: Duration,
}

impl PodCertificateRequestCleaner {
    pub const fn new(version: KubernetesVersion) -> Self {
        let minutes = if version.has(V1BETA1) { 15 } else { 30 };
        Self {
            version,
            threshold: Duration::from_secs(minutes * 60),
        }
    }
}

static POD_CERTIFICATES: Info = Info {
    name: "podcertificaterequest-cleaner-controller",
    summary: "deletes old PodCertificateRequests",
    resources: &[Resource::PodCertificateRequests],
    permissions: &[(Resource::PodCertificateRequests, "", &["delete"])],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/controller/certificates/cleaner/pcrcleaner.go",
    ..Info::BASE
};

impl Controller for PodCertificateRequestCleaner {
    fn info(&self) -> &'static Info {
        &POD_CERTIFICATES
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
                let message = format!("it is deleted when it is {}s old", self.threshold.as_secs());
                return Ok(id.keep("Young", message)?.requeue_at(due));
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
