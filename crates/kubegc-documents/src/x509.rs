//! Expiry dates of certificates: read from PEM, and a minimal certificate with a given expiry date.

use std::time::Duration;

use kubegc_core::{Timestamp, record::Certificate};
use x509_cert::{
    Certificate as X509,
    der::{DateTime, Decode, Encode, asn1::GeneralizedTime},
};

use crate::encoding;

const NOT_PEM: &str = "expected the certificate associated with the CSR to be PEM encoded";
const NOT_PARSED: &str = "unable to parse certificate data: x509: malformed certificate";
const NONE_FOUND: &str = "no certificates found";

/// Reads the bytes of `status.certificate`: the first certificate of the first PEM block counts, and the
/// block must hold nothing but certificates.
///
/// # Upstream
/// [`isExpired`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/certificates/cleaner/cleaner.go)
/// of the cleaner with `x509.ParseCertificates`. Deviations: every parse error has the text of the most
/// common one; dates that DER forbids (without seconds, with a time zone) and dates before 1970 are parse
/// errors, which keeps the request; keys and extensions are not interpreted, so an error in their content is
/// no parse error.
pub(crate) fn read(bytes: &[u8]) -> Certificate {
    let Some(block) = encoding::first_pem_block(bytes) else {
        return Certificate::Malformed(NOT_PEM.into());
    };
    let mut rest = &*block;
    let mut first = None;
    while !rest.is_empty() {
        let Ok((certificate, behind)) = X509::from_der_partial(rest) else {
            return Certificate::Malformed(NOT_PARSED.into());
        };
        first.get_or_insert(certificate);
        rest = behind;
    }
    first.map_or_else(
        || Certificate::Malformed(NONE_FOUND.into()),
        |first| {
            let not_after = first.tbs_certificate().validity().not_after.to_unix_duration();
            // Dates beyond the range of `Timestamp` become its maximum.
            let seconds = i64::try_from(not_after.as_secs()).unwrap_or(i64::MAX);
            Certificate::NotAfter(Timestamp::from_secs(seconds))
        },
    )
}

/// Bytes that [`read`] as this certificate; `None` if no such bytes exist.
///
/// A parse error is written as another parse error. Dates are truncated to seconds, and to 1970 if earlier.
pub(crate) fn write(certificate: &Certificate) -> Option<Vec<u8>> {
    let pem = |block: &[u8]| encoding::to_pem("CERTIFICATE", block).into_bytes();
    match certificate {
        Certificate::Absent | Certificate::Empty => None,
        Certificate::NotAfter(time) => Some(pem(&valid_until(*time))),
        Certificate::Malformed(message) => Some(match &**message {
            NOT_PEM => b"?".to_vec(),
            NONE_FOUND => pem(b""),
            _ => pem(b"?"),
        }),
    }
}

/// A certificate without names, key and signature, in DER.
fn valid_until(time: Timestamp) -> Vec<u8> {
    // Serial number 1, algorithm Ed25519, no issuer, then the validity's header.
    const BEFORE_DATES: &[u8] = b"\x30\x4a\x30\x3e\x02\x01\x01\x30\x05\x06\x03\x2b\x65\x70\x30\x00\x30\x22";
    // No subject, an empty Ed25519 key, then algorithm and signature.
    const AFTER_DATES: &[u8] = b"\x30\x00\x30\x0a\x30\x05\x06\x03\x2b\x65\x70\x03\x01\x00\
        \x30\x05\x06\x03\x2b\x65\x70\x03\x01\x00";
    // The latest possible time represents any later one.
    let since_epoch = Duration::from_secs(u64::try_from(time.as_secs()).unwrap_or(0));
    let date = match DateTime::from_unix_duration(since_epoch) {
        Ok(date) if time != Timestamp::from_nanos(i64::MAX) => date,
        _ => DateTime::INFINITY,
    };
    // A date of four digits per year always has an encoding.
    let date = GeneralizedTime::from_date_time(date).to_der().unwrap_or_default();
    [BEFORE_DATES, &date, &date, AFTER_DATES].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of OpenSSL, from 2026-03-01T12:00:00Z to 2027-03-01T12:00:00Z, the oldest version.
    const SHORT: &str = "-----BEGIN CERTIFICATE-----
MIIBGDCBywIUWke9/VGsn1zy4kaYvHaXUfFapzcwBQYDK2VwMC8xFTATBgNVBAoM
DHN5c3RlbTpub2RlczEWMBQGA1UEAwwNc3lzdGVtOm5vZGU6YTAeFw0yNjAzMDEx
MjAwMDBaFw0yNzAzMDExMjAwMDBaMC8xFTATBgNVBAoMDHN5c3RlbTpub2RlczEW
MBQGA1UEAwwNc3lzdGVtOm5vZGU6YTAqMAUGAytlcAMhAJ6uUgXJulkA8zI+bPNk
ysB8o1yM2NWiD6JeKJDy+1XhMAUGAytlcANBAPc2Ep8nIakFpkq1E6jM891TNQ3J
wjJExX/fk3YCZMqISiPVb7+LhgKm63pCihAMbmwaFXngZ5SQUV8c8HAzTQU=
-----END CERTIFICATE-----
";
    /// Of OpenSSL, version 3. Its end is after 2049, so it has the longer form of dates.
    const LONG: &str = "-----BEGIN CERTIFICATE-----
MIIBLjCB4aADAgECAhQVaSTCPDDEOmKl8a8xyUjwAwONCjAFBgMrZXAwDDEKMAgG
A1UEAwwBYTAgFw0yNjExMjIwOTI1MDBaGA8yMDU5MDkzMDA5MjUwMFowDDEKMAgG
A1UEAwwBYTAqMAUGAytlcAMhAJ6uUgXJulkA8zI+bPNkysB8o1yM2NWiD6JeKJDy
+1Xho1MwUTAdBgNVHQ4EFgQUs3RMnbC7bW1HC8SJ00xUleP5SnYwHwYDVR0jBBgw
FoAUs3RMnbC7bW1HC8SJ00xUleP5SnYwDwYDVR0TAQH/BAUwAwEB/zAFBgMrZXAD
QQCOvI4IdwNeMZlAOVYn6lgJR0gH9Yp4Uxwx7uwZyAu2mYbHCPodBJdKxzmhYdyz
kxSZyTPgzPbZUI5rIFr4LfII
-----END CERTIFICATE-----
";

    fn until(text: &str) -> Certificate {
        Certificate::NotAfter(Timestamp::parse(text).expect("a date"))
    }

    fn message(bytes: &[u8]) -> String {
        match read(bytes) {
            Certificate::Malformed(message) => message.to_string(),
            other => format!("{other:?}"),
        }
    }

    fn der(pem: &str) -> Vec<u8> {
        encoding::first_pem_block(pem.as_bytes()).expect("a block")
    }

    fn pem(block: &[u8]) -> Vec<u8> {
        encoding::to_pem("ANYTHING", block).into_bytes()
    }

    #[test]
    fn real_certificates_are_read() {
        assert_eq!(read(SHORT.as_bytes()), until("2027-03-01T12:00:00Z"));
        assert_eq!(read(LONG.as_bytes()), until("2059-09-30T09:25:00Z"));
    }

    #[test]
    fn the_first_certificate_of_the_first_block_counts() {
        let two_blocks = format!("{SHORT}{LONG}");
        assert_eq!(read(two_blocks.as_bytes()), until("2027-03-01T12:00:00Z"));
        let one_block = pem(&[der(LONG), der(SHORT)].concat());
        assert_eq!(read(&one_block), until("2059-09-30T09:25:00Z"));
    }

    #[test]
    fn bad_data_is_refused_as_upstream_refuses_it() {
        let short = der(SHORT);
        for (bytes, expected) in [
            (b"".to_vec(), NOT_PEM),
            (b"no certificate".to_vec(), NOT_PEM),
            (short.clone(), NOT_PEM),
            (pem(b""), NONE_FOUND),
            (pem(b"?"), NOT_PARSED),
            (pem(&short[..100]), NOT_PARSED),
            (pem(&[&short[..], b"?"].concat()), NOT_PARSED),
        ] {
            assert_eq!(message(&bytes), expected);
        }
    }

    #[test]
    fn written_values_are_read() {
        let at = |nanos: i64| Certificate::NotAfter(Timestamp::from_nanos(nanos));
        for certificate in [
            at(0),
            at(i64::MAX),
            until("1970-01-01T00:00:01Z"),
            until("2262-04-11T23:47:16Z"),
            until("2026-11-22T09:25:01Z"),
            Certificate::Malformed(NOT_PEM.into()),
            Certificate::Malformed(NONE_FOUND.into()),
            Certificate::Malformed("unable to parse certificate data: x509: malformed certificate".into()),
        ] {
            let bytes = write(&certificate).expect("there is something to write");
            assert_eq!(read(&bytes), certificate);
        }
        let earliest = write(&at(i64::MIN)).expect("there is something to write");
        assert_eq!(read(&earliest), at(0));
    }

    #[test]
    fn dates_are_utc_or_generalized_time() {
        let written = valid_until(Timestamp::from_nanos(0));
        let at = written
            .windows(2)
            .rposition(|bytes| bytes == b"\x18\x0f")
            .expect("a date");
        for (digits, expected) in [
            ("19700101000000Z", Some("1970-01-01T00:00:00Z")),
            ("20600229000000Z", Some("2060-02-29T00:00:00Z")),
            ("20600230000000Z", None),
            ("20600229240000Z", None),
            ("2060022900000.Z", None),
            ("206002290000-01", None),
        ] {
            let mut bytes = written.clone();
            bytes[at + 2..at + 17].copy_from_slice(digits.as_bytes());
            let expected = expected.map_or(Certificate::Malformed(NOT_PARSED.into()), until);
            assert_eq!(read(&pem(&bytes)), expected, "{digits}");
        }
    }
}
