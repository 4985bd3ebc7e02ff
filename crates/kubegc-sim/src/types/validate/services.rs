//! Services, endpoints, endpoint slices.
//!
//! # Upstream
//! `ValidateService` and `ValidateEndpoints` in `pkg/apis/core/validation`, and
//! `pkg/apis/discovery/validation`, 1.20.2.

use kubegc_core::Behavior;
use serde_json::json;

use super::super::{
    field::{At, Check},
    go_syntax,
};
use crate::{
    formats::{self, parse_cidr},
    status::quoted,
};

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
    if text.is_empty() {
        address.required(c, "");
        return;
    }
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
