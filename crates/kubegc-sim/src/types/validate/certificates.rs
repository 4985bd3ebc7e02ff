//! Requests for certificates, and certificates of API services.
//!
//! # Upstream
//! [`pkg/apis/certificates/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/certificates/validation/validation.go),
//! except that keys, names and signatures are not verified.

use std::sync::LazyLock;

use base64::{Engine, prelude::BASE64_STANDARD};
use kubegc_core::version::behavior::VALUES_ARE_JSON;
use regex::Regex;
use serde_json::Value;
use x509_cert::{
    der::{Decode, ErrorKind},
    request::CertReq,
};

use super::super::{
    field::{At, Check},
    go_syntax,
};
use crate::{formats, status::quoted};

/// `validateCSR`, without the signature. Problems of the structure have two texts only.
pub(super) fn signed_content(request: &At<'_>, c: &mut Check) {
    let bytes = BASE64_STANDARD.decode(request.text()).unwrap_or_default();
    let problem = match blocks(&bytes).first() {
        Some(block) if block.label == "CERTIFICATE REQUEST" => match CertReq::from_der(&block.content) {
            Ok(_) => return,
            Err(error) if matches!(error.kind(), ErrorKind::Incomplete { .. }) => {
                "asn1: syntax error: truncated tag or length"
            }
            Err(_) => "asn1: structure error: tags don't match",
        },
        _ => "PEM block type must be CERTIFICATE REQUEST",
    };
    let shown = match (c.version.has(VALUES_ARE_JSON), request.decoded(c)) {
        (true, Value::Null) => "null".to_owned(),
        (true, _) => quoted(request.text()),
        (false, Value::Null) => "[]byte(nil)".to_owned(),
        (false, _) => format!("[]byte{{{}}}", go_syntax::bytes(&bytes)),
    };
    request.invalid_as(c, &shown, problem);
}

struct Block {
    label: String,
    content: Vec<u8>,
    has_headers: bool,
}

/// The blocks of PEM data that can be read.
fn blocks(bytes: &[u8]) -> Vec<Block> {
    const BLOCK: &str = "(?ms)^-----BEGIN ([^\n]*)-----[ \t\r]*$(.*?)^-----END ([^\n]*)-----[ \t\r]*$";
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(BLOCK).ok());
    let text = String::from_utf8_lossy(bytes);
    let found = PATTERN.iter().flat_map(|pattern| pattern.captures_iter(&text));
    let found = found.filter(|block| block[1] == block[3]);
    let read = found.filter_map(|block| {
        let (headers, lines): (Vec<_>, Vec<_>) = block[2].lines().partition(|line| line.contains(':'));
        let content: String = lines.iter().flat_map(|line| line.split_whitespace()).collect();
        Some(Block {
            label: block[1].to_owned(),
            content: BASE64_STANDARD.decode(content).ok()?,
            has_headers: !headers.is_empty(),
        })
    });
    read.collect()
}

/// `validateCertificate`. Certificates are not parsed.
pub(super) fn certificate(certificate: &At<'_>, c: &mut Check) {
    let bytes = BASE64_STANDARD.decode(certificate.text()).unwrap_or_default();
    let blocks = blocks(&bytes);
    let problem = if bytes.is_empty() {
        return;
    } else if let Some(other) = blocks.iter().find(|block| block.label != "CERTIFICATE") {
        format!(
            "only CERTIFICATE PEM blocks are allowed, found {}",
            quoted(&other.label)
        )
    } else if blocks.iter().any(|block| block.has_headers) {
        "no PEM block headers are permitted".to_owned()
    } else if blocks.is_empty() {
        "must contain at least one CERTIFICATE PEM block".to_owned()
    } else {
        return;
    };
    certificate.invalid_as(c, "\"<certificate data>\"", &problem);
}

/// `ValidateSignerName`.
pub(super) fn signer_name(signer: &At<'_>, c: &mut Check) {
    const PATH_MAX: usize = formats::SUBDOMAIN_MAX + formats::NAME_PART_MAX + 1;
    let parts: Vec<&str> = signer.text().split('/').collect();
    let [domain, path] = parts[..] else {
        let problem = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        signer.invalid(c, problem);
        return;
    };
    if domain.len() > formats::SUBDOMAIN_MAX {
        signer.too_long(c, formats::SUBDOMAIN_MAX);
    }
    let version = c.version;
    let label = |label: &str| formats::label(version, label);
    let subdomain = |label: &str| formats::subdomain(version, label);
    first_problems(signer, domain, label, c);
    if !domain.contains('.') {
        let problem = "should be a domain with at least two segments separated by dots";
        signer.invalid_as(c, &quoted(domain), problem);
    }
    first_problems(signer, path, subdomain, c);
    if signer.text().len() > formats::SUBDOMAIN_MAX + PATH_MAX + 1 {
        signer.too_long(c, formats::SUBDOMAIN_MAX + PATH_MAX + 1);
    }
}

/// The problems of the first invalid label of a part of the name.
fn first_problems(signer: &At<'_>, part: &str, problems: impl Fn(&str) -> Vec<String>, c: &mut Check) {
    let mut found = part.split('.').map(|label| (label, problems(label)));
    let Some((label, found)) = found.find(|(_, found)| !found.is_empty()) else {
        return;
    };
    for problem in found {
        let problem = format!("validating label {}: {problem}", quoted(label));
        signer.invalid_as(c, &quoted(part), &problem);
    }
}

/// Whether an earlier condition contradicts this one.
pub(super) fn contradicts(condition: &At<'_>, c: &Check<'_>) -> bool {
    let opposite = match condition.get("type").text() {
        "Approved" => "Denied",
        "Denied" => "Approved",
        _ => return false,
    };
    let list = c.root().get("status").get("conditions");
    let mut earlier = list
        .items()
        .take_while(|other| !std::ptr::eq(other.value, condition.value));
    earlier.any(|other| other.get("type").text() == opposite)
}

/// Local API services have no bundle.
pub(super) fn bundle(bundle: &At<'_>, c: &mut Check) {
    let bytes = BASE64_STANDARD.decode(bundle.text()).unwrap_or_default().len();
    if bytes > 0 {
        let shown = quoted(&format!("{bytes} bytes"));
        bundle.invalid_as(c, &shown, "local APIServices may not have a caBundle");
    }
}
