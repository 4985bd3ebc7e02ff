//! Requests for certificates.
//!
//! # Upstream
//! [`pkg/apis/certificates/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/certificates/validation/validation.go),
//! except that keys, names and signatures are not verified.

use base64::{Engine, prelude::BASE64_STANDARD};
use kubegc_core::version::behavior::VALUES_ARE_JSON;
use serde_json::Value;

use super::super::field::{At, Check};
use super::asn1;
use crate::{formats, status::quoted};

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

/// `validateCertificateSigningRequest`. What the stored object has already is tolerated, and so is what the
/// beta version allowed.
pub(super) fn request(request: &At<'_>, c: &mut Check) {
    let is_beta = c.api == "v1beta1";
    let spec = request.get("spec");
    let old = Some(c.old()).filter(At::is_set);
    let old_spec = old.as_ref().map(|old| old.get("spec"));
    signed_content(&spec.get("request"), c);
    usages(
        &spec.get("usages"),
        old_spec.as_ref().map(|old| old.get("usages")),
        is_beta,
        c,
    );
    let signer = spec.get("signerName");
    let was_legacy = old_spec.is_some_and(|old| old.get("signerName").text() == LEGACY_SIGNER);
    if signer.text() == LEGACY_SIGNER && !was_legacy && !is_beta {
        signer.invalid(c, "the legacy signerName is not allowed via this API version");
    } else {
        signer_name(&signer, c);
    }
    let expiration = spec.get("expirationSeconds");
    if expiration.is_set() && expiration.number() < 600 {
        let problem = "may not specify a duration less than 600 seconds (10 minutes)";
        expiration.invalid(c, problem);
    }
    let status = request.get("status");
    let old_status = old.as_ref().map(|old| old.get("status"));
    let old_conditions = old_status.as_ref().map(|old| old.get("conditions"));
    conditions(&status.get("conditions"), old_conditions, is_beta, c);
    let certificate = status.get("certificate");
    let is_tolerated = old_status.is_some_and(|old| {
        let old = old.get("certificate");
        old.text() == certificate.text() || certificate_problem(old.text()).is_some()
    });
    if !is_tolerated
        && !is_beta
        && let Some(problem) = certificate_problem(certificate.text())
    {
        certificate.invalid_as(c, "\"<certificate data>\"", &problem);
    }
}

/// `validateCSR`, without the signature.
fn signed_content(request: &At<'_>, c: &mut Check) {
    let bytes = BASE64_STANDARD.decode(request.text()).unwrap_or_default();
    let problem = match pem_block(&String::from_utf8_lossy(&bytes)) {
        Some(block) if block.label == "CERTIFICATE REQUEST" => {
            match asn1::certificate_request(&block.content) {
                Ok(()) => return,
                Err(problem) => problem,
            }
        }
        _ => "PEM block type must be CERTIFICATE REQUEST".to_owned(),
    };
    if c.version.has(VALUES_ARE_JSON) {
        let shown = match request.decoded(c) {
            Value::Null => "null".to_owned(),
            _ => quoted(request.text()),
        };
        request.invalid_as(c, &shown, &problem);
        return;
    }
    let shown = match request.decoded(c) {
        Value::Null => "[]byte(nil)".to_owned(),
        _ => {
            let shown: Vec<String> = bytes.iter().map(|byte| format!("{byte:#x}")).collect();
            format!("[]byte{{{}}}", shown.join(", "))
        }
    };
    request.invalid_as(c, &shown, &problem);
}

struct Block<'t> {
    label: &'t str,
    content: Vec<u8>,
    has_headers: bool,
    /// The text after the block.
    rest: &'t str,
}

/// The first block of PEM data that can be read.
fn pem_block(text: &str) -> Option<Block<'_>> {
    const BEGIN: &str = "-----BEGIN ";
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let begins_line = at == 0 || rest[..at].ends_with('\n');
        rest = &rest[at + BEGIN.len()..];
        if begins_line && let Some(block) = block_of(rest) {
            return Some(block);
        }
    }
    None
}

/// The block whose label begins the text.
fn block_of(text: &str) -> Option<Block<'_>> {
    let (line, mut body) = text.split_once('\n')?;
    let label = line.trim_end().strip_suffix("-----")?;
    let mut has_headers = false;
    while let Some((line, after)) = body.split_once('\n')
        && line.contains(':')
    {
        has_headers = true;
        body = after;
    }
    let end = format!("-----END {label}-----");
    let at = body
        .find(&end)
        .filter(|at| *at == 0 || body[..*at].ends_with('\n'))?;
    let rest = &body[at + end.len()..];
    let after = rest.split_once('\n').map_or(rest, |(line, _)| line);
    if !after.trim().is_empty() {
        return None;
    }
    let content: String = body[..at].chars().filter(|c| !c.is_ascii_whitespace()).collect();
    Some(Block {
        label,
        content: BASE64_STANDARD.decode(content).ok()?,
        has_headers,
        rest,
    })
}

/// `validateCertificate`: the problem of an issued certificate, in base64. Certificates are not parsed.
fn certificate_problem(encoded: &str) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(encoded).unwrap_or_default();
    if bytes.is_empty() {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes);
    let (mut rest, mut blocks) = (&*text, 0);
    while let Some(block) = pem_block(rest) {
        if block.label != "CERTIFICATE" {
            let found = quoted(block.label);
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {found}"));
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        (rest, blocks) = (block.rest, blocks + 1);
    }
    (blocks == 0).then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

fn usages(list: &At<'_>, old: Option<At<'_>>, is_beta: bool, c: &mut Check) {
    let is_known = |usage: &At<'_>| USAGES.contains(&usage.text());
    if list.is_empty() {
        list.required(c, "");
    }
    let allows_unknown = is_beta
        || old
            .as_ref()
            .is_some_and(|old| !old.items().all(|usage| is_known(&usage)));
    if !allows_unknown {
        for usage in list.items().filter(|usage| !is_known(usage)) {
            usage.unsupported(c, &USAGES);
        }
    }
    let allows_repeated = is_beta || old.is_some_and(|old| repeated(&old).next().is_some());
    if !allows_repeated {
        for usage in repeated(list) {
            usage.duplicate(c);
        }
    }
}

/// The items that equal an earlier one.
fn repeated<'v>(list: &At<'v>) -> impl Iterator<Item = At<'v>> + use<'v> {
    let mut seen: Vec<&'v str> = Vec::new();
    list.items().filter(move |item| {
        let is_repeated = seen.contains(&item.text());
        seen.push(item.text());
        is_repeated
    })
}

/// `ValidateSignerName`.
fn signer_name(signer: &At<'_>, c: &mut Check) {
    const PATH_MAX: usize = formats::SUBDOMAIN_MAX + formats::NAME_PART_MAX + 1;
    if signer.text().is_empty() {
        signer.required(c, "");
        return;
    }
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

/// `validateConditions`.
fn conditions(list: &At<'_>, old: Option<At<'_>>, is_beta: bool, c: &mut Check) {
    let types = |list: &At<'_>| -> Vec<String> {
        let types = list
            .items()
            .map(|condition| condition.get("type").text().to_owned());
        types.collect()
    };
    let before = old.as_ref().map(types).unwrap_or_default();
    let had = |kind: &str| before.iter().any(|other| other == kind);
    let mut kinds = before.iter().enumerate();
    let had_repeated = kinds.any(|(index, kind)| before[..index].contains(kind));
    let allows_both = is_beta || had(APPROVED) && had(DENIED);
    let mut seen: Vec<&str> = Vec::new();
    for condition in list.items() {
        let (kind, status) = (condition.get("type"), condition.get("status"));
        if kind.text().is_empty() && !is_beta && !had("") {
            kind.required(c, "");
        }
        let (allowed, opposite): (&[&str], _) = match kind.text() {
            APPROVED => (&["True"], DENIED),
            DENIED => (&["True"], APPROVED),
            FAILED => (&["True"], ""),
            _ => (&["False", "True", "Unknown"], ""),
        };
        status.one_of(c, allowed);
        if !opposite.is_empty() && seen.contains(&opposite) && !allows_both {
            let problem = "Approved and Denied conditions are mutually exclusive";
            list.invalid_as(c, &quoted(kind.text()), problem);
        }
        if seen.contains(&kind.text()) && !is_beta && !had_repeated {
            kind.duplicate(c);
        }
        seen.push(kind.text());
    }
}

/// `validateCertificateSigningRequestUpdate`, after the rules for every request.
fn updated(request: &At<'_>, is_approval: bool, c: &mut Check) {
    let (status, old) = (request.get("status"), c.old().get("status"));
    let conditions = status.get("conditions");
    let count = |status: &At<'_>, kind: &str| {
        let conditions = status.get("conditions").items();
        conditions
            .filter(|condition| condition.get("type").text() == kind)
            .count()
    };
    for kind in [APPROVED, DENIED, FAILED] {
        if count(&status, kind) < count(&old, kind) {
            let problem = format!("updates may not remove a condition of type {}", quoted(kind));
            conditions.forbidden(c, &problem);
        }
    }
    // Conditions that remain are those of the stored object.
    for kind in [APPROVED, DENIED] {
        if !is_approval && count(&status, kind) > count(&old, kind) {
            let problem = format!("updates may not add a condition of type {}", quoted(kind));
            conditions.forbidden(c, &problem);
        }
    }
    let (certificate, before) = (status.get("certificate"), old.get("certificate"));
    if certificate.text() != before.text() && !is_approval && !before.text().is_empty() {
        certificate.forbidden(c, "updates may not modify existing certificate content");
    }
}

pub(super) fn status_updated(request: &At<'_>, c: &mut Check) {
    updated(request, false, c);
}

pub(super) fn approval_updated(request: &At<'_>, c: &mut Check) {
    updated(request, true, c);
}
