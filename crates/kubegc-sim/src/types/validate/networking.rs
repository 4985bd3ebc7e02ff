//! Ingresses, ingress classes, network policies.
//!
//! # Upstream
//! [`pkg/apis/networking/validation`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/apis/networking/validation/validation.go).

use std::net::IpAddr;

use super::super::field::{At, Check};
use super::apply;
use crate::{
    formats::{self, masked, parse_cidr},
    status::quoted,
};

/// A rule with a wildcard. Rules of stored objects that have one may be invalid, and so may those that are sent
/// in the first version.
pub(super) fn wildcard_rule(rule: &At<'_>, c: &mut Check) {
    let is_invalid = |rule: &At<'_>| {
        let mut inner = Check::new(c.version, None);
        apply("IngressRule", rule, &mut inner);
        !inner.causes.is_empty()
    };
    let mut stored = c.old().get("spec").get("rules").items();
    let may_stay = stored.any(|rule| rule.get("host").text().contains('*') && is_invalid(&rule));
    if c.api != "v1beta1" && !may_stay {
        apply("IngressRule", rule, c);
    }
}

/// The secret of a host, unless a stored one is invalid.
pub(super) fn secret_name(secret: &At<'_>, c: &mut Check) {
    let is_invalid = |name: &str| !name.is_empty() && !formats::subdomain(c.version, name).is_empty();
    let mut stored = c.old().get("spec").get("tls").items();
    if !stored.any(|tls| is_invalid(tls.get("secretName").text())) {
        secret.subdomain(c);
    }
}

/// `IsDomainPrefixedPath`.
pub(super) fn domain_prefixed_path(at: &At<'_>, c: &mut Check) {
    let text = at.text();
    if text.is_empty() {
        at.required(c, "");
        return;
    }
    let (domain, path) = match text.split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => (domain, path),
        _ => {
            at.invalid(c, "must be a domain-prefixed path (such as \"acme.io/foo\")");
            return;
        }
    };
    at.problems_of(c, domain, formats::subdomain(c.version, domain));
    let known = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    if !path.chars().all(known) {
        let problem = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        at.invalid_as(c, &quoted(path), problem);
    }
}

fn legacy_cidr(at: &At<'_>, c: &mut Check) -> Option<(IpAddr, u8)> {
    let range = parse_cidr(at.text());
    if !c.since(30) {
        if range.is_none() {
            at.invalid(c, "not a valid CIDR");
        }
    } else {
        at.problems(c, formats::legacy_cidr(c.version, at.text()));
    }
    range
}

pub(super) fn ip_block(at: &At<'_>, c: &mut Check) {
    let cidr = at.get("cidr");
    if cidr.text().is_empty() {
        cidr.required(c, "");
        return;
    }
    let Some((network, length)) = legacy_cidr(&cidr, c) else {
        return;
    };
    for except in at.get("except").items() {
        let Some((inner, inner_length)) = legacy_cidr(&except, c) else {
            return;
        };
        if masked(inner, length) != masked(network, length) || length >= inner_length {
            except.invalid(c, "must be a strict subset of `cidr`");
        }
    }
}
