//! Says until when a certificate is valid, and makes one that is valid until then.
//!
//! Of a certificate nothing is read but its frame and that date.

use kubegc_core::{Timestamp, record::Certificate, time::Date};

use crate::encoding;

const NOT_PEM: &str = "expected the certificate associated with the CSR to be PEM encoded";
const NOT_PARSED: &str = "unable to parse certificate data";
const NONE_FOUND: &str = "no certificates found";

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// Reads the bytes of `status.certificate`: the first certificate in its first PEM block counts, and all of
/// that block must be certificates.
///
/// # Upstream
/// `isExpired` of the cleaner with `x509.ParseCertificates`. Deviation: names, keys, signatures and
/// extensions are not looked at, so a certificate that is bad there counts for its date.
pub(crate) fn read(bytes: &[u8]) -> Certificate {
    let Some(block) = encoding::first_pem_block(bytes) else {
        return Certificate::Malformed(NOT_PEM.into());
    };
    let mut rest = Der(&block);
    let mut first = None;
    // Each turn takes bytes.
    while !rest.0.is_empty() {
        match not_after(&mut rest) {
            Ok(time) => first = first.or(Some(time)),
            Err(error) => return Certificate::Malformed(format!("{NOT_PARSED}: x509: {error}").into()),
        }
    }
    first.map_or_else(
        || Certificate::Malformed(NONE_FOUND.into()),
        Certificate::NotAfter,
    )
}

/// Takes one certificate.
fn not_after(rest: &mut Der<'_>) -> Result<Timestamp, &'static str> {
    let mut certificate = rest.take(SEQUENCE).ok_or("malformed certificate")?;
    let mut content = certificate.take(SEQUENCE).ok_or("malformed tbs certificate")?;
    content.skip(VERSION);
    content.take(INTEGER).ok_or("malformed serial number")?;
    let malformed_algorithm = "malformed signature algorithm identifier";
    content.take(SEQUENCE).ok_or(malformed_algorithm)?;
    content.take(SEQUENCE).ok_or("malformed issuer")?;
    let mut validity = content.take(SEQUENCE).ok_or("malformed validity")?;
    validity.time()?;
    let time = validity.time()?;
    content.take(SEQUENCE).ok_or("malformed issuer")?;
    content.take(SEQUENCE).ok_or("malformed spki")?;
    certificate.take(SEQUENCE).ok_or(malformed_algorithm)?;
    certificate.take(BIT_STRING).ok_or("malformed signature")?;
    Ok(time)
}

/// What is left of a DER text.
#[derive(Clone, Copy)]
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Takes the next value, whatever it is: its tag and its content.
    fn next(&mut self) -> Option<(u8, Self)> {
        let [tag, length, rest @ ..] = self.0 else {
            return None;
        };
        // Nothing in a certificate's frame has a tag of several bytes.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = match length {
            0..=0x7f => (usize::from(*length), rest),
            // At most four bytes, and no more than it takes.
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                let value = digits
                    .iter()
                    .fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
                let is_short = digits.first() == Some(&0) || value < 0x80;
                (usize::try_from(value).ok().filter(|_| !is_short)?, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, Der(content)))
    }

    /// Takes the next value if it has this tag.
    fn take(&mut self, tag: u8) -> Option<Self> {
        let mut ahead = *self;
        let (found, content) = ahead.next()?;
        (found == tag).then(|| {
            *self = ahead;
            content
        })
    }

    /// Passes over the next value if it has this tag.
    fn skip(&mut self, tag: u8) {
        let _passed_over = self.take(tag);
    }

    fn time(&mut self) -> Result<Timestamp, &'static str> {
        if let Some(text) = self.take(UTC_TIME) {
            let mut digits = Digits(text.0);
            let year = digits.number(2).ok_or("malformed UTCTime")?;
            let century = if year < 50 { 2000 } else { 1900 };
            digits
                .rest_of_time(century + year, true)
                .ok_or("malformed UTCTime")
        } else if let Some(text) = self.take(GENERALIZED_TIME) {
            let mut digits = Digits(text.0);
            let year = digits.number(4).ok_or("malformed GeneralizedTime")?;
            digits
                .rest_of_time(year, false)
                .ok_or("malformed GeneralizedTime")
        } else {
            Err("unsupported time format")
        }
    }
}

/// What is left of a date.
struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    /// So many digits.
    fn number(&mut self, count: usize) -> Option<u16> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let add = |value, byte: &u8| byte.is_ascii_digit().then(|| value * 10 + u16::from(byte - b'0'));
        let value = digits.iter().try_fold(0, add)?;
        self.0 = rest;
        Some(value)
    }

    /// All behind the year. Seconds may be missing in the shorter form.
    fn rest_of_time(&mut self, year: u16, may_lack_seconds: bool) -> Option<Timestamp> {
        let small = |number: u16| u8::try_from(number).ok();
        let (month, day) = (small(self.number(2)?)?, small(self.number(2)?)?);
        let (hour, minute) = (self.number(2)?, self.number(2)?);
        let second = match self.number(2) {
            None if may_lack_seconds => 0,
            second => second?,
        };
        let zone_seconds = match self.0 {
            b"Z" => 0,
            [sign @ (b'+' | b'-'), zone @ ..] => {
                let mut zone = Digits(zone);
                let (hours, minutes) = (i64::from(zone.number(2)?), i64::from(zone.number(2)?));
                let is_whole = zone.0.is_empty() && hours <= 24 && minutes < 60;
                let seconds = (hours * 60 + minutes) * 60;
                is_whole.then_some(if *sign == b'+' { seconds } else { -seconds })?
            }
            _ => return None,
        };
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = i64::from(Date::new(year, month, day)?.days_since_epoch());
        let of_day = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
        // A date out of reach becomes the nearest that can be told.
        Some(Timestamp::from_secs(days * 86_400 + of_day - zone_seconds))
    }
}

/// The bytes that read back as this; `None` where there are none.
///
/// A certificate that could not be parsed stays one that cannot be parsed, with a message of ours. Dates lose
/// what is beyond their seconds.
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

/// A certificate that says nothing but until when it is valid.
fn valid_until(time: Timestamp) -> Vec<u8> {
    let value = |tag: u8, content: &[u8]| {
        let mut bytes = vec![tag];
        match u8::try_from(content.len()) {
            Ok(length) if length < 0x80 => bytes.push(length),
            // None of the contents below reaches 256 bytes.
            length => bytes.extend([0x81, length.unwrap_or(u8::MAX)]),
        }
        bytes.extend_from_slice(content);
        bytes
    };
    let empty = value(SEQUENCE, b"");
    let until = value(GENERALIZED_TIME, generalized(time).as_bytes());
    let from = value(GENERALIZED_TIME, b"00000101000000Z");
    let validity = value(SEQUENCE, &[from, until].concat());
    let serial = value(INTEGER, &[1]);
    let content = [&serial, &empty, &empty, &validity, &empty, &empty].map(Vec::as_slice);
    let content = value(SEQUENCE, &content.concat());
    let signature = value(BIT_STRING, &[0]);
    value(SEQUENCE, &[content, empty, signature].concat())
}

/// The date without its fraction; the last one of all for a time that only stands for a later one.
fn generalized(time: Timestamp) -> String {
    if time == Timestamp::from_nanos(i64::MAX) {
        return "99991231235959Z".to_owned();
    }
    if time == Timestamp::from_nanos(i64::MIN) {
        return "00000101000000Z".to_owned();
    }
    let of_day = time.as_secs().rem_euclid(86_400);
    let date = time.utc_date().to_string().replace('-', "");
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{date}{hour:02}{minute:02}{second:02}Z")
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
    /// Of OpenSSL, version 3, so long that its end needs the longer form of dates.
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
    fn bad_data_is_named_as_upstream_names_it() {
        let parse = |problem: &str| format!("unable to parse certificate data: x509: {problem}");
        let short = der(SHORT);
        let changed = |at: usize, byte: u8| {
            let mut bytes = short.clone();
            bytes[at] = byte;
            pem(&bytes)
        };
        for (bytes, expected) in [
            (b"".to_vec(), NOT_PEM.to_owned()),
            (b"no certificate".to_vec(), NOT_PEM.to_owned()),
            (short.clone(), NOT_PEM.to_owned()),
            (pem(b""), NONE_FOUND.to_owned()),
            (pem(b"?"), parse("malformed certificate")),
            (pem(&short[..100]), parse("malformed certificate")),
            (pem(&[&short[..], b"?"].concat()), parse("malformed certificate")),
            (changed(0, 0x31), parse("malformed certificate")),
            (changed(4, 0x31), parse("malformed tbs certificate")),
            (changed(7, 0x03), parse("malformed serial number")),
            (
                changed(29, 0x31),
                parse("malformed signature algorithm identifier"),
            ),
            (changed(36, 0x31), parse("malformed issuer")),
            (changed(85, 0x31), parse("malformed validity")),
            (changed(87, 0x16), parse("unsupported time format")),
            (changed(89, b'x'), parse("malformed UTCTime")),
            (changed(93, b'9'), parse("malformed UTCTime")),
        ] {
            assert_eq!(message(&bytes), expected);
        }
        assert_eq!(short[29..31], [SEQUENCE, 5]);
        assert_eq!((short[36], short[85], short[87]), (SEQUENCE, SEQUENCE, UTC_TIME));
    }

    #[test]
    fn dates_are_read_as_go_reads_them() {
        let time = |tag: u8, text: &str| {
            let length = u8::try_from(text.len()).expect("short");
            Der(&[&[tag, length], text.as_bytes()].concat()).time()
        };
        let at = |text: &str| Timestamp::parse(text).expect("a date");
        for (tag, text, expected) in [
            (UTC_TIME, "260301120000Z", at("2026-03-01T12:00:00Z")),
            (UTC_TIME, "2603011200Z", at("2026-03-01T12:00:00Z")),
            (UTC_TIME, "500101000000Z", at("1950-01-01T00:00:00Z")),
            (UTC_TIME, "491231235959Z", at("2049-12-31T23:59:59Z")),
            (UTC_TIME, "260301120000+0130", at("2026-03-01T10:30:00Z")),
            (UTC_TIME, "2603011200-0045", at("2026-03-01T12:45:00Z")),
            (GENERALIZED_TIME, "20600229000000Z", at("2060-02-29T00:00:00Z")),
            (
                GENERALIZED_TIME,
                "99991231235959Z",
                Timestamp::from_nanos(i64::MAX),
            ),
            (
                GENERALIZED_TIME,
                "00000101000000Z",
                Timestamp::from_nanos(i64::MIN),
            ),
        ] {
            assert_eq!(time(tag, text), Ok(expected), "{text}");
        }
        for (tag, text) in [
            (UTC_TIME, ""),
            (UTC_TIME, "260230120000Z"),
            (UTC_TIME, "260301240000Z"),
            (UTC_TIME, "260301120060Z"),
            (UTC_TIME, "260301120000"),
            (UTC_TIME, "260301120000z"),
            (UTC_TIME, "260301120000.5Z"),
            (UTC_TIME, "260301120000+01"),
            (UTC_TIME, "260301120000+0199"),
            (UTC_TIME, "20260301120000Z"),
            (GENERALIZED_TIME, "202603011200Z"),
            (GENERALIZED_TIME, "260301120000Z"),
        ] {
            assert!(time(tag, text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_are_strict() {
        let values: [(&[u8], bool); 10] = [
            (&[SEQUENCE, 0], true),
            (&[SEQUENCE, 1, 0], true),
            (&[SEQUENCE, 2, 0], false),
            (&[SEQUENCE, 0x80, 0, 0], false),
            (&[SEQUENCE, 0x81, 1, 0], false),
            (&[SEQUENCE, 0x82, 0, 0x80], false),
            (&[SEQUENCE, 0x85, 0, 0, 0, 0, 1, 0], false),
            (&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff], false),
            (&[0x3f, 1, 0], false),
            (&[SEQUENCE], false),
        ];
        for (bytes, is_value) in values {
            assert_eq!(Der(bytes).next().is_some(), is_value, "{bytes:x?}");
        }
        let long = [&[SEQUENCE, 0x81, 0x80][..], &[0; 0x80]].concat();
        assert_eq!(
            Der(&long).take(SEQUENCE).map(|content| content.0.len()),
            Some(0x80)
        );
    }

    #[test]
    fn what_is_written_is_read() {
        let at = |nanos: i64| Certificate::NotAfter(Timestamp::from_nanos(nanos));
        for certificate in [
            at(0),
            at(i64::MAX),
            at(i64::MIN),
            until("1700-01-01T00:00:01Z"),
            until("2262-04-11T23:47:16Z"),
            until("2026-11-22T09:25:01Z"),
            Certificate::Malformed(NOT_PEM.into()),
            Certificate::Malformed(NONE_FOUND.into()),
            Certificate::Malformed("unable to parse certificate data: x509: malformed certificate".into()),
        ] {
            let bytes = write(&certificate).expect("there is something to write");
            assert_eq!(read(&bytes), certificate);
        }
    }
}
