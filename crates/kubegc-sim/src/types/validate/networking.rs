//! Ingresses, ingress classes, network policies.
//!
//! # Upstream
//! [`pkg/apis/networking/validation`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/apis/networking/validation/validation.go).

use std::net::IpAddr;

use super::super::{
    field::{At, Check},
    go_syntax,
};
use super::apply;
use crate::{
    formats::{self, masked, parse_cidr},
    status::quoted,
};

/// Requests of the first version have other names for some fields.
fn is_beta(c: &Check) -> bool {
    c.api == "v1beta1"
}

/// `ValidateIngressCreate` and `ValidateIngressUpdate`.
pub(super) fn ingress(spec: &At<'_>, c: &mut Check) {
    let (rules, backend) = (spec.get("rules"), spec.get("defaultBackend"));
    let backend_name = if is_beta(c) { "backend" } else { "defaultBackend" };
    if backend.is_set() {
        apply("IngressBackend", &backend.under(spec, backend_name), c);
    } else if rules.is_empty() {
        let problem = format!("either `{backend_name}` or `rules` must be specified");
        let shown = go_syntax::value(c.version, rules.decoded(c), "[]networking.IngressRule");
        spec.invalid_as(c, &shown, &problem);
    }
    let old = c.old().get("spec");
    let allows_wildcards = is_beta(c)
        || old.get("rules").items().any(|rule| {
            let mut inner = Check::new(c.version, None);
            apply("IngressRule", &rule, &mut inner);
            rule.get("host").text().contains('*') && !inner.causes.is_empty()
        });
    for rule in rules.items() {
        let host = rule.get("host");
        if !host.text().is_empty() {
            if formats::parse_ip(host.text()).is_some() {
                host.invalid(c, "must be a DNS name, not an IP address");
            }
            apply("HostName", &host, c);
        }
        if !(host.text().contains('*') && allows_wildcards) {
            apply("IngressRule", &rule, c);
        }
    }
    let bad_secret = |name: &str| !name.is_empty() && !formats::subdomain(c.version, name).is_empty();
    let mut secrets = old.get("tls").items();
    let allows_bad_secrets = is_beta(c) || secrets.any(|tls| bad_secret(tls.get("secretName").text()));
    for tls in spec.get("tls").items() {
        for host in tls.get("hosts").items() {
            apply("HostName", &host, c);
        }
        let secret = tls.get("secretName");
        if !allows_bad_secrets && !secret.text().is_empty() {
            secret.subdomain(c);
        }
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
