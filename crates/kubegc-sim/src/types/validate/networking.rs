//! Ingresses, network policies, services, endpoint slices.
//!
//! # Upstream
//! [`pkg/apis/networking/validation`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/apis/networking/validation/validation.go),
//! `ValidateService` in `pkg/apis/core/validation`, and `pkg/apis/discovery/validation`, 1.20.2.

use std::net::IpAddr;

use kubegc_core::Behavior;
use serde_json::json;

use super::super::{
    field::{At, Check},
    go_syntax,
};
use super::apply;
use crate::{
    formats::{self, masked, parse_cidr},
    status::quoted,
};

/// Whether the stored Ingress has an invalid rule with a wildcard, and an invalid name of a secret.
fn stored_problems(c: &Check) -> (bool, bool) {
    *c.stored_ingress.get_or_init(|| {
        let spec = c.old().get("spec");
        let is_invalid_rule = |rule: &At<'_>| {
            let mut inner = Check::new(c.version, None);
            apply("IngressRule", rule, &mut inner);
            !inner.causes.is_empty()
        };
        let mut rules = spec.get("rules").items();
        let mut secrets = spec.get("tls").items().map(|tls| tls.get("secretName"));
        (
            rules.any(|rule| rule.get("host").text().contains('*') && is_invalid_rule(&rule)),
            secrets.any(|name| {
                !name.text().is_empty() && !formats::subdomain(c.version, name.text()).is_empty()
            }),
        )
    })
}

/// A rule with a wildcard. Rules of stored objects that have one may be invalid, and so may those that are
/// sent in the first version.
pub(super) fn wildcard_rule(rule: &At<'_>, c: &mut Check) {
    if c.api != "v1beta1" && !stored_problems(c).0 {
        apply("IngressRule", rule, c);
    }
}

/// The secret of a host, unless a stored one is invalid.
pub(super) fn secret_name(secret: &At<'_>, c: &mut Check) {
    if !stored_problems(c).1 {
        secret.subdomain(c);
    }
}

/// The parts of a domain-prefixed path.
pub(super) fn domain_and_path(at: &At<'_>, c: &mut Check) {
    let (domain, path) = at.text().split_once('/').unwrap_or_default();
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
    let Some((network, length)) = legacy_cidr(&at.get("cidr"), c) else {
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

pub(super) fn external_name(name: &At<'_>, c: &mut Check) {
    let text = name.text().strip_suffix('.').unwrap_or(name.text());
    if text.is_empty() {
        name.required(c, "");
    } else {
        name.problems_of(c, text, formats::subdomain(c.version, text));
    }
}

/// The ports of a service are unique by protocol.
pub(super) fn unique_ports(ports: &At<'_>, c: &mut Check) {
    let mut numbers = Vec::new();
    for port in ports.items() {
        let key = (port.get("protocol").text(), port.get("port").number());
        if numbers.contains(&key) {
            let shown = json!({"protocol": key.0, "port": key.1});
            port.duplicate_as(c, &go_syntax::value(c.version, &shown, "core.ServicePort"));
        }
        numbers.push(key);
    }
}

/// Each range of source addresses is refused for itself.
const RANGES_ARE_REFUSED_EACH: Behavior = Behavior::since(30, 0, "ValidateService of 1.30");

/// The source addresses of load balancers, in the field or in the annotation before it.
pub(super) fn source_ranges(spec: &At<'_>, c: &mut Check) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let ranges = spec.get("loadBalancerSourceRanges");
    let annotation = c.root().get("metadata").get("annotations").key(ANNOTATION);
    let (at, shown, values) = if !ranges.is_empty() {
        let values = ranges.texts();
        let at = spec.get("LoadBalancerSourceRanges");
        (at, format!("[{}]", values.join(" ")), values)
    } else if annotation.is_set() {
        let values = annotation.text().split(',');
        let values = values.filter(|range| !range.trim().is_empty()).collect();
        (annotation.clone(), annotation.text().to_owned(), values)
    } else {
        return;
    };
    if spec.get("type").text() != "LoadBalancer" {
        at.forbidden(c, "may only be used when `type` is 'LoadBalancer'");
    }
    if c.version.has(RANGES_ARE_REFUSED_EACH) {
        for (index, range) in values.iter().enumerate() {
            let problems = formats::legacy_cidr(c.version, range.trim());
            let each = spec.get(&format!("LoadBalancerSourceRanges[{index}]"));
            let at = if ranges.is_empty() { &at } else { &each };
            at.problems_of(c, range.trim(), problems);
        }
    } else if values.iter().any(|range| parse_cidr(range.trim()).is_none()) {
        let problem = "must be a list of IP ranges. For example, 10.240.0.0/24,10.250.0.0/24 ";
        at.invalid_as(c, &quoted(&shown), problem);
    }
}

/// An address of an endpoint slice that is the name of a host.
pub(super) fn name_of_slice(address: &At<'_>, c: &mut Check) {
    let text = address.text();
    let name = text.strip_suffix('.').unwrap_or(text);
    let problems = formats::subdomain(c.version, name);
    if !problems.is_empty() {
        address.problems_of(c, name, problems);
    } else if !name.contains('.') {
        let problem = "should be a domain with at least two segments separated by dots";
        address.invalid_as(c, &quoted(name), problem);
    } else {
        for label in name
            .split('.')
            .filter(|label| label.len() > formats::NAME_PART_MAX)
        {
            address.problems_of(c, label, formats::label(c.version, label));
        }
    }
}
