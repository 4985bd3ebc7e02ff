//! What is read of certificate signing requests.

use kubegc_lifecycle::{certificate::Certificate, fields::CertificateSigningRequest};

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
    let mut fields = CertificateSigningRequest::default();
    if let Ok(Some(status)) = status_of(reading, body) {
        fields.conditions = conditions(reading, status, |_| true).ok();
        fields.certificate = certificate(reading, status).unwrap_or_default();
    }
    fields
}

fn certificate(reading: &mut Reading<'_>, status: &Status<'_>) -> Result<Certificate, Unreadable> {
    let path = STATUS.field("certificate");
    let Some(text) = reading.value(&status.certificate, path)? else {
        return Ok(Certificate::None);
    };
    let text = text.as_str();
    if text.is_empty() {
        return Ok(Certificate::Empty);
    }
    Ok(match encoding::from_base64(text.as_bytes()) {
        Some(bytes) => x509::read(&bytes),
        None => {
            // There is one, whatever it is: dumps may have it blacked out.
            let Unreadable = reading.bad(path, "is not base64");
            Certificate::Unread
        }
    })
}
