//! Fields of certificate signing requests.

use kubegc_core::record::{Certificate, CertificateSigningRequest};

use super::{
    STATUS,
    node::conditions,
    reading::{Reading, Unreadable},
    status_of,
};
use crate::{
    body::{Body, Status},
    encoding, x509,
};

pub(super) fn request(reading: &mut Reading<'_>, body: &Body<'_>) -> CertificateSigningRequest {
    let status = status_of(reading, body);
    CertificateSigningRequest {
        conditions: reading.field(status, |reading, status| conditions(reading, status, |_| true)),
        certificate: reading.field(status, certificate),
    }
}

fn certificate(reading: &mut Reading<'_>, status: &Status<'_>) -> Result<Certificate, Unreadable> {
    let path = STATUS.field("certificate");
    let Some(text) = reading.value(&status.certificate, path)? else {
        return Ok(Certificate::Absent);
    };
    let text = text.as_str();
    if text.is_empty() {
        return Ok(Certificate::Empty);
    }
    match encoding::from_base64(text.as_bytes()) {
        Some(bytes) => Ok(x509::read(&bytes)),
        // Dumps may have it redacted.
        None => Err(reading.bad(path, "is not base64")),
    }
}
