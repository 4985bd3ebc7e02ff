//! Services, endpoints, endpoint slices.
//!
//! # Upstream
//! `ValidateService` and `ValidateEndpoints` in `pkg/apis/core/validation`, and
//! `pkg/apis/discovery/validation`, 1.20.2.

use std::net::IpAddr;

use kubegc_core::Behavior;
use serde_json::json;

use super::super::{
    field::{At, Check},
    go_syntax,
};
use super::{apply, networking};
use crate::{
    formats::{self, parse_cidr},
    status::quoted,
};

fn is_headless(spec: &At<'_>, c: &Check) -> bool {
    if c.since(20) {
        spec.get("clusterIPs").texts() == ["None"]
    } else {
        spec.get("clusterIP").text() == "None"
    }
}

/// The addresses of a service and their families, before others are allocated.
pub(super) fn addresses(service: &At<'_>, c: &mut Check) {
    let spec = service.get("spec");
    apply("ClusterAddresses", &spec, c);
    if c.causes.is_empty() && spec.get("type").text() != "ExternalName" {
        stacks(&spec, c);
    }
}

/// Refuses IP families that a cluster with IPv4 only does not have.
///
/// # Upstream
/// `initIPFamilyFields` in
/// [`alloc.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/service/storage/alloc.go).
fn stacks(spec: &At<'_>, c: &mut Check) {
    let [policy, families, all] = spec.fields(["ipFamilyPolicy", "ipFamilies", "clusterIPs"]);
    if policy.text() == "SingleStack" {
        for (list, items) in [(&all, "cluster IPs"), (&families, "IP families")] {
            if list.len() == 2 {
                let problem = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {items} are specified"
                );
                policy.invalid(c, &problem);
            }
        }
    }
    for address in all.items().skip(families.len()) {
        if address.text().contains(':') {
            let shown = go_syntax::value(c.version, all.value, "[]string");
            address.invalid_as(c, &shown, "IPv6 is not configured on this cluster");
        }
    }
    let may_have_any = is_headless(spec, c) && spec.get("selector").is_empty();
    if may_have_any || !c.causes.is_empty() {
        return;
    }
    if policy.text() == "RequireDualStack" {
        policy.invalid(c, "this cluster is not configured for dual-stack services");
    }
    for family in families.items().filter(|family| family.text() != "IPv4") {
        family.invalid(c, "not configured on this cluster");
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

/// The families of valid addresses.
pub(super) fn address_families(spec: &At<'_>, c: &mut Check) {
    let all = spec.get("clusterIPs");
    let parsed = all
        .items()
        .filter_map(|address| formats::parse_ip(address.text()));
    let parsed: Vec<IpAddr> = parsed.collect();
    if parsed.len() != all.len() {
        return;
    }
    let ipv4 = parsed.iter().filter(|address| address.is_ipv4()).count();
    if all.len() > 1 && (ipv4 == 0 || ipv4 == all.len()) {
        all.invalid_typed(
            c,
            "[]string",
            "may specify no more than one IP for each IP family",
        );
    }
    if !c.since(21) {
        return;
    }
    let families = spec.get("ipFamilies").texts();
    for (index, (address, expected)) in all.items().zip(families).enumerate() {
        let own = if address.text().contains(':') {
            "IPv6"
        } else {
            "IPv4"
        };
        if matches!(expected, "IPv4" | "IPv6") && own != expected {
            let problem = format!("expected an {expected} value as indicated by `ipFamilies[{index}]`");
            address.invalid(c, &problem);
        }
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
            let Some(problem) = networking::legacy_cidr_problem(range.trim(), c) else {
                continue;
            };
            let each = spec.get(&format!("LoadBalancerSourceRanges[{index}]"));
            let at = if ranges.is_empty() { &at } else { &each };
            at.invalid_as(c, &quoted(range.trim()), &problem);
        }
    } else if values.iter().any(|range| parse_cidr(range.trim()).is_none()) {
        let problem = "must be a list of IP ranges. For example, 10.240.0.0/24,10.250.0.0/24 ";
        at.invalid_as(c, &quoted(&shown), problem);
    }
}

/// `validateUpgradeDowngradeClusterIPs`.
pub(super) fn addresses_updated(spec: &At<'_>, c: &mut Check) {
    let old = &c.old().get("spec");
    let is_external = |spec: &At<'_>| spec.get("type").text() == "ExternalName";
    if is_external(spec) || is_external(old) {
        return;
    }
    if !c.since(20) {
        let address = old.get("clusterIP");
        if !address.text().is_empty() {
            spec.get("clusterIP").immutable(c, address.value, "string");
        }
        return;
    }
    if is_headless(spec, c) && is_headless(old, c) {
        return;
    }
    let (new, old) = (spec.get("clusterIPs"), old.get("clusterIPs").texts());
    let shown = go_syntax::value(c.version, new.value, "[]string");
    let texts = new.texts();
    let invalid = |index: usize, problem: &str, c: &mut Check| {
        let at = spec.get(&format!("clusterIPs[{index}]"));
        at.invalid_as(c, &shown, problem);
    };
    const CHANGED: &str = "may not change once set";
    if old.len() == texts.len() {
        for index in (0..old.len()).filter(|&index| texts[index] != old[index]) {
            invalid(index, CHANGED, c);
        }
    } else if !old.is_empty() && texts.is_empty() {
        invalid(0, "primary clusterIP can not be unset", c);
    } else if old.first().is_some_and(|first| texts.first() != Some(first)) {
        invalid(0, CHANGED, c);
    }
    let policy = spec.get("ipFamilyPolicy");
    if old.len() > 1 && texts.len() == 1 && policy.text() != "SingleStack" {
        let problem = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        if c.since(23) {
            policy.invalid(c, problem);
        } else {
            invalid(0, &format!("`ipFamilyPolicy` {problem}"), c);
        }
    }
}

/// `ValidateNonSpecialIP`.
pub(super) fn ordinary_ip(at: &At<'_>, c: &mut Check) {
    let Some(ip) = formats::parse_ip(at.text()) else {
        at.invalid_as(c, &quoted(at.text()), "must be a valid IP address");
        return;
    };
    let (link_local, link_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (
            ip.segments()[0] & 0xffc0 == 0xfe80,
            ip.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    if ip.is_unspecified() {
        let text = if c.since(23) { at.text() } else { "0.0.0.0" };
        at.invalid(c, &format!("may not be unspecified ({text})"));
    }
    for (is_in, name, ipv4, ipv6) in [
        (ip.is_loopback(), "loopback", "127.0.0.0/8", "::1/128"),
        (link_local, "link-local", "169.254.0.0/16", "fe80::/10"),
        (
            link_multicast,
            "link-local multicast",
            "224.0.0.0/24",
            "ff02::/10",
        ),
    ] {
        if is_in {
            let both = format!("{ipv4}, {ipv6}");
            let range = if c.since(23) { &both } else { ipv4 };
            at.invalid(c, &format!("may not be in the {name} range ({range})"));
        }
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
