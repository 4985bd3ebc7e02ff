//! The structure of certificate requests in ASN.1, with the errors of Go's decoder.
//!
//! # Upstream
//! [`encoding/asn1`](https://github.com/golang/go/blob/go1.25.0/src/encoding/asn1/asn1.go) and
//! `ParseCertificateRequest` of
//! [`crypto/x509`](https://github.com/golang/go/blob/go1.25.0/src/crypto/x509/x509.go).

use std::fmt;

const SEQUENCE: u32 = 16;

/// The type of a field.
enum Type {
    Integer,
    BitString,
    ObjectIdentifier,
    /// One element of any type, required or optional.
    Any {
        optional: bool,
    },
    /// Elements of any type, with the context-specific tag 0.
    Tagged,
    /// A sequence with the name of its Go type.
    Sequence(&'static str, &'static [Self]),
}

const ALGORITHM: Type = Type::Sequence(
    "AlgorithmIdentifier",
    &[Type::ObjectIdentifier, Type::Any { optional: true }],
);
const PUBLIC_KEY: Type = Type::Sequence("publicKeyInfo", &[ALGORITHM, Type::BitString]);
const CONTENT: Type = Type::Sequence(
    "tbsCertificateRequest",
    &[
        Type::Integer,
        Type::Any { optional: false },
        PUBLIC_KEY,
        Type::Tagged,
    ],
);
const REQUEST: Type = Type::Sequence("certificateRequest", &[CONTENT, ALGORITHM, Type::BitString]);

/// Tag and length of an element, printed as Go prints them.
struct Header {
    class: u8,
    tag: u32,
    length: usize,
    is_compound: bool,
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            class,
            tag,
            length,
            is_compound,
        } = self;
        write!(
            f,
            "{{class:{class} tag:{tag} length:{length} isCompound:{is_compound}}}"
        )
    }
}

fn syntax(problem: &str) -> String {
    format!("asn1: syntax error: {problem}")
}

fn structure(problem: &str) -> String {
    format!("asn1: structure error: {problem}")
}

/// Checks the structure of a certificate request.
///
/// # Errors
/// The first error of Go's decoder.
pub(super) fn certificate_request(bytes: &[u8]) -> Result<(), String> {
    match field(bytes, 0, &REQUEST)? {
        end if end < bytes.len() => Err(syntax("trailing data")),
        _ => Ok(()),
    }
}

/// Reads a field at an offset; returns the offset after it. Depth is bounded by that of the types.
fn field(bytes: &[u8], offset: usize, ty: &Type) -> Result<usize, String> {
    let is_optional = matches!(ty, Type::Any { optional: true });
    if offset == bytes.len() {
        return match is_optional {
            true => Ok(offset),
            false => Err(syntax("sequence truncated")),
        };
    }
    let (header, start) = header(bytes, offset)?;
    let (class, tag, is_compound, name) = match ty {
        Type::Integer => (0, 2, false, "int"),
        Type::BitString => (0, 3, false, "BitString"),
        Type::ObjectIdentifier => (0, 6, false, "ObjectIdentifier"),
        Type::Any { .. } => (header.class, header.tag, header.is_compound, ""),
        Type::Tagged => (2, 0, true, ""),
        Type::Sequence(name, _) => (0, SEQUENCE, true, *name),
    };
    if (header.class, header.tag, header.is_compound) != (class, tag, is_compound) {
        let problem = format!(
            "tags don't match ({tag} vs {header}) {{optional:{is_optional} explicit:false application:false \
             private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}} \
             {name} @{start}"
        );
        return Err(structure(&problem));
    }
    let end = start + header.length;
    let Some(content) = bytes.get(start..end) else {
        return Err(syntax("data truncated"));
    };
    match ty {
        Type::Integer => integer(content)?,
        Type::BitString => bit_string(content)?,
        Type::ObjectIdentifier if content.is_empty() => {
            return Err(syntax("zero length OBJECT IDENTIFIER"));
        }
        Type::ObjectIdentifier | Type::Any { .. } => {}
        Type::Tagged => {
            let mut at = 0;
            while at < content.len() {
                at = field(content, at, &Type::Any { optional: false })?;
            }
        }
        Type::Sequence(_, fields) => {
            // More elements than fields are ignored.
            fields.iter().try_fold(0, |at, ty| field(content, at, ty))?;
        }
    }
    Ok(end)
}

/// `parseTagAndLength`: the header at an offset that is in range, and the offset after it.
fn header(bytes: &[u8], offset: usize) -> Result<(Header, usize), String> {
    const LENGTH_MAX: usize = 1 << 23;
    let mut rest = bytes[offset..].iter().copied();
    let mut next = || rest.next().ok_or_else(|| syntax("truncated tag or length"));
    let first = next()?;
    let (mut tag, mut read) = (u32::from(first & 0x1f), 1);
    if tag == 0x1f {
        tag = 0;
        loop {
            let byte = next().map_err(|_| syntax("truncated base 128 integer"))?;
            read += 1;
            if tag > (u32::MAX >> 8) {
                return Err(structure("base 128 integer too large"));
            }
            tag = (tag << 7) | u32::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                break;
            }
        }
        if tag < 0x1f {
            return Err(syntax("non-minimal tag"));
        }
    }
    let second = next()?;
    read += 1;
    let mut length = usize::from(second & 0x7f);
    if second & 0x80 != 0 {
        let count = length;
        if count == 0 {
            return Err(syntax("indefinite length found (not DER)"));
        }
        length = 0;
        for _ in 0..count {
            let byte = next()?;
            read += 1;
            if length >= LENGTH_MAX {
                return Err(structure("length too large"));
            }
            length = (length << 8) | usize::from(byte);
            if length == 0 {
                return Err(structure("superfluous leading zeros in length"));
            }
        }
        if length < 0x80 {
            return Err(structure("non-minimal length"));
        }
    }
    let header = Header {
        class: first >> 6,
        tag,
        length,
        is_compound: first & 0x20 != 0,
    };
    Ok((header, offset + read))
}

fn integer(content: &[u8]) -> Result<(), String> {
    match content {
        [] => Err(structure("empty integer")),
        [0, second, ..] if second & 0x80 == 0 => Err(structure("integer not minimally-encoded")),
        [0xff, second, ..] if second & 0x80 != 0 => Err(structure("integer not minimally-encoded")),
        _ if content.len() > 8 => Err(structure("integer too large")),
        _ => Ok(()),
    }
}

fn bit_string(content: &[u8]) -> Result<(), String> {
    match content {
        [] => Err(syntax("zero length BIT STRING")),
        [padding, rest @ ..] => {
            let last = rest.last().copied().unwrap_or(0);
            let is_invalid =
                *padding > 7 || rest.is_empty() && *padding > 0 || last & ((1_u16 << padding) - 1) as u8 != 0;
            match is_invalid {
                true => Err(syntax("invalid padding bits in BIT STRING")),
                false => Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_those_of_go() {
        let mismatch = "asn1: structure error: tags don't match (16 vs {class:0 tag:2 length:1 isCompound:false}) \
                        {optional:false explicit:false application:false private:false defaultValue:<nil> \
                        tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false} tbsCertificateRequest @2";
        for (bytes, expected) in [
            (&[][..], "asn1: syntax error: sequence truncated"),
            (&[0x30][..], "asn1: syntax error: truncated tag or length"),
            (
                &[0x30, 0x80, 0x30][..],
                "asn1: syntax error: indefinite length found (not DER)",
            ),
            (
                &[0x30, 4, 0x30, 5, 2, 1][..],
                "asn1: syntax error: data truncated",
            ),
            (&[0x30, 3, 2, 1, 1][..], mismatch),
        ] {
            assert_eq!(certificate_request(bytes), Err(expected.to_owned()));
        }
    }

    #[test]
    fn a_request_of_the_right_structure_is_accepted() {
        let algorithm = [0x30, 3, 6, 1, 0x2a];
        let key = [&[0x30, 9][..], &algorithm, &[3, 2, 0, 4]].concat();
        let content = [&[0x30, 18, 2, 1, 0, 0x30, 0][..], &key, &[0xa0, 0]].concat();
        let request = [&[0x30, 29][..], &content, &algorithm, &[3, 2, 0, 4]].concat();
        assert_eq!(certificate_request(&request), Ok(()));
        let longer = [&request[..], &[0]].concat();
        assert_eq!(
            certificate_request(&longer),
            Err("asn1: syntax error: trailing data".to_owned())
        );
    }
}
