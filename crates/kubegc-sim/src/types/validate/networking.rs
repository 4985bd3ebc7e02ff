//! Ingresses, ingress classes, network policies.
//!
//! # Upstream
//! [`pkg/apis/networking/validation`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/apis/networking/validation/validation.go).

use std::net::IpAddr;

use kubegc_core::Behavior;

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

/// Errors in a range of addresses. Leading zeros and further bits are refused in new fields, and in
/// older ones since `StrictIPCIDRValidation`.
///
/// # Upstream
/// `IsValidCIDR` and `IsValidCIDRForLegacyField`.
fn cidr_problem(text: &str, is_strict: bool) -> Option<String> {
    let (address, digits) = text.split_once('/').unwrap_or((text, ""));
    let Some((network, length)) = parse_cidr(text) else {
        return Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned());
    };
    if !is_strict {
        return None;
    }
    let problem = match address.parse::<IpAddr>() {
        Ok(_) if digits.len() > 1 && digits.starts_with('0') => {
            "must not have leading 0s in IP or prefix length"
        }
        Err(_) => "must not have leading 0s in IP or prefix length",
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => "must not have an IPv4-mapped IPv6 address",
        Ok(ip) if ip != network => "must not have bits set beyond the prefix length",
        Ok(_) => {
            let canonical = format!("{network}/{length}");
            return (canonical != text)
                .then(|| format!("must be in canonical form ({})", quoted(&canonical)));
        }
    };
    Some(problem.to_owned())
}

/// Errors in a range of a field that is older than the strict rules. Other forms than the canonical
/// one stay allowed.
pub(super) fn legacy_cidr_problem(text: &str, c: &Check) -> Option<String> {
    let problem = cidr_problem(text, c.version.has(formats::ZEROS_ARE_REFUSED));
    problem.filter(|problem| !problem.starts_with("must be in canonical form"))
}

fn legacy_cidr(at: &At<'_>, c: &mut Check) -> Option<(IpAddr, u8)> {
    let range = parse_cidr(at.text());
    if !c.since(30) {
        if range.is_none() {
            at.invalid(c, "not a valid CIDR");
        }
    } else if let Some(problem) = legacy_cidr_problem(at.text(), c) {
        at.invalid(c, &problem);
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

/// `ValidateServiceCIDR`.
pub(super) fn service_ranges(spec: &At<'_>, c: &mut Check) {
    let ranges = spec.get("cidrs");
    let parsed = ranges.items().filter_map(|range| parse_cidr(range.text()));
    let families: Vec<bool> = parsed.map(|(network, _)| network.is_ipv4()).collect();
    if ranges.is_empty() {
        ranges.required(c, "at least one CIDR required");
    } else if ranges.len() > 2 {
        let shown = go_syntax::value(c.version, spec.value, "networking.ServiceCIDRSpec");
        ranges.invalid_as(c, &shown, "may only hold up to 2 values");
    } else if matches!(families[..], [first, second] if first == second) {
        let problem =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        ranges.invalid_typed(c, "[]string", problem);
    } else {
        for range in ranges.items() {
            if let Some(problem) = cidr_problem(range.text(), true) {
                range.invalid(c, &problem);
            }
        }
    }
}

/// `ValidateServiceCIDRUpdate`: a second range may be added.
pub(super) fn service_ranges_updated(spec: &At<'_>, c: &mut Check) {
    const IMMUTABLE: &str = "field is immutable";
    let (new, old) = (spec.get("cidrs"), c.old().get("spec").get("cidrs"));
    let extends = c.version.has(RANGES_CAN_BE_ADDED);
    let is_extended = extends && (old.len(), new.len()) == (1, 2);
    if old.len() != new.len() && !is_extended || !extends && new.value != old.value {
        let shown = go_syntax::value(c.version, new.decoded(c), "[]string");
        new.invalid_as(c, &shown, IMMUTABLE);
        return;
    }
    for (range, before) in new.items().zip(old.items()) {
        if range.text() != before.text() {
            range.invalid(c, IMMUTABLE);
        }
    }
    if is_extended {
        service_ranges(spec, c);
    }
}

/// A service CIDR of one range gets a second one.
const RANGES_CAN_BE_ADDED: Behavior = Behavior::since_about(34, "kubernetes #131261");
