//! Services, endpoints, endpoint slices.
//!
//! # Upstream
//! `ValidateService` and `ValidateEndpoints` in `pkg/apis/core/validation`, and
//! `pkg/apis/discovery/validation`, 1.20.2.

use std::net::IpAddr;

use kubegc_core::Behavior;
use serde_json::{Map, Value};

use super::super::{
    defaults::is_reached_from_outside,
    field::{At, Check},
    service::POLICIES_ARE_VALIDATED_FIRST,
};
use super::{
    go_syntax, handlers,
    networking::{self, parse_cidr},
    selector::labels,
    workloads::pinned,
};
use crate::{formats, status::quoted};

type Object = Map<String, Value>;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

fn is_headless(spec: &At<'_>, c: &Check) -> bool {
    if c.since(20) {
        let addresses = spec.get("clusterIPs");
        addresses.len() == 1 && addresses.items().all(|address| address.text() == "None")
    } else {
        spec.get("clusterIP").text() == "None"
    }
}

/// Load balancers may have the port that the kubelet uses.
const PORTS_OF_THE_KUBELET_ARE_EXPOSED: Behavior = Behavior::since(33, 0, "ValidateService of 1.33");
/// Each range of source addresses is refused for itself.
const RANGES_ARE_REFUSED_EACH: Behavior = Behavior::since(30, 0, "ValidateService of 1.30");
/// Traffic may be distributed to the same node or zone.
const TRAFFIC_STAYS_ON_NODES: Behavior =
    Behavior::since(34, 0, "the feature gate PreferSameTrafficDistribution is on");

/// `ValidateService`.
pub(super) fn service(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    topology_annotations(body, c);
    let (kind, ports) = (spec.get("type"), spec.get("ports"));
    let headless = is_headless(&spec, c);
    if ports.is_empty() && !headless && kind.text() != "ExternalName" {
        ports.required(c, "");
    }
    let first_address = if c.since(20) {
        spec.get("clusterIPs")
            .items()
            .next()
            .unwrap_or_else(|| spec.get("clusterIPs"))
    } else {
        spec.get("clusterIP")
    };
    match kind.text() {
        "LoadBalancer" => {
            const KUBELET: i64 = 10_250;
            let is_refused = !c.version.has(PORTS_OF_THE_KUBELET_ARE_EXPOSED);
            for port in ports.items() {
                if is_refused && port.get("port").number() == KUBELET {
                    let problem =
                        format!("may not expose port {KUBELET} externally since it is used by kubelet");
                    port.invalid_as(c, &KUBELET.to_string(), &problem);
                }
            }
            if headless {
                first_address.invalid(c, "may not be set to 'None' for LoadBalancer services");
            }
        }
        "NodePort" if headless => first_address.invalid(c, "may not be set to 'None' for NodePort services"),
        "ExternalName" => external_name(&spec, c),
        _ => {}
    }
    let mut names: Vec<&str> = Vec::new();
    for port in ports.items() {
        service_port(&port, ports.len() > 1, &mut names, c);
    }
    labels(&spec.get("selector"), c);
    let affinity = spec.get("sessionAffinity");
    affinity.one_of(c, &["ClientIP", "None"]);
    let config = spec.get("sessionAffinityConfig");
    match affinity.text() {
        "ClientIP" => {
            const SECONDS_MAX: i64 = 86_400;
            let timeout = config.get("clientIP").get("timeoutSeconds");
            if !(1..=SECONDS_MAX).contains(&timeout.number()) {
                timeout.invalid(c, &format!("must be greater than 0 and less than {SECONDS_MAX}"));
            }
        }
        "None" if config.is_set() => config.forbidden(c, "must not be set when session affinity is None"),
        _ => {}
    }
    cluster_addresses(&spec, c);
    for ip in spec.get("externalIPs").items() {
        let problems = formats::ip(c.version, ip.text());
        if problems.is_empty() {
            ordinary_ip(&ip, c);
        } else {
            ip.problems(c, problems);
        }
    }
    kind.one_of(c, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    unique_ports(&spec, c);
    source_ranges(body, &spec, c);
    let is_balanced = kind.text() == "LoadBalancer";
    if !c.version.has(POLICIES_ARE_VALIDATED_FIRST) {
        former_policies(&spec, c);
    }
    let allocate = spec.get("allocateLoadBalancerNodePorts");
    if allocate.is_set() && !is_balanced {
        allocate.forbidden(c, "may only be used when `type` is 'LoadBalancer'");
    }
    let class = spec.get("loadBalancerClass");
    if class.is_set() {
        if is_balanced {
            class.qualified_name(c);
        } else {
            class.forbidden(c, "may only be used when `type` is 'LoadBalancer'");
        }
    }
    if c.version.has(POLICIES_ARE_VALIDATED_FIRST) {
        external_policy(&spec, c);
        internal_policy(&spec, c);
    }
    let distribution = spec.get("trafficDistribution");
    let supported: &[&str] = match c.version.has(TRAFFIC_STAYS_ON_NODES) {
        true => &["PreferClose", "PreferSameZone", "PreferSameNode"],
        false => &["PreferClose"],
    };
    if distribution.is_set() && !supported.contains(&distribution.text()) {
        distribution.unsupported(c, supported);
    }
}

/// The addresses of a service and their families, before others are allocated.
pub(super) fn addresses(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    cluster_addresses(&spec, c);
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
    let (policy, families) = (spec.get("ipFamilyPolicy"), spec.get("ipFamilies"));
    if policy.text() == "SingleStack" {
        for (list, items) in [
            (spec.get("clusterIPs"), "cluster IPs"),
            (families.clone(), "IP families"),
        ] {
            if list.len() == 2 {
                let problem = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {items} are specified"
                );
                policy.invalid(c, &problem);
            }
        }
    }
    let all = spec.get("clusterIPs");
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

/// The annotations that ask for traffic within a zone agree.
fn topology_annotations(body: &Object, c: &mut Check) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let annotations = At::root(body, "metadata").get("annotations");
    let (mode, hints) = (
        annotations.key("service.kubernetes.io/topology-mode"),
        annotations.key(HINTS),
    );
    if c.since(27) && mode.is_set() && hints.is_set() && mode.text() != hints.text() {
        let problem = format!("must match annotations[{HINTS}] when both are specified");
        mode.invalid(c, &problem);
    }
}

fn former_policies(spec: &At<'_>, c: &mut Check) {
    let policy = spec.get("externalTrafficPolicy");
    if !matches!(policy.text(), "" | "Cluster" | "Local") {
        policy.invalid(c, "ExternalTrafficPolicy must be empty, Cluster or Local");
    }
    let health = spec.get("healthCheckNodePort");
    if health.number() < 0 {
        health.invalid(c, "HealthCheckNodePort must be not less than 0");
    }
    internal_policy(spec, c);
}

fn internal_policy(spec: &At<'_>, c: &mut Check) {
    let internal = spec.get("internalTrafficPolicy");
    if internal.is_set() && !matches!(internal.text(), "Cluster" | "Local") {
        internal.unsupported(c, &["Cluster", "Local"]);
    }
}

/// `validateServiceExternalTrafficPolicy`.
fn external_policy(spec: &At<'_>, c: &mut Check) {
    let fields = spec.value.as_object();
    let (policy, health) = (spec.get("externalTrafficPolicy"), spec.get("healthCheckNodePort"));
    if !fields.is_some_and(|fields| is_reached_from_outside(fields, c.version)) {
        if !policy.text().is_empty() {
            let problem = match c.since(29) {
                true => "may only be set for externally-accessible services",
                false => "may only be set when `type` is 'NodePort' or 'LoadBalancer'",
            };
            policy.invalid(c, problem);
        }
    } else {
        policy.one_of(c, &["Cluster", "Local"]);
    }
    let needs_health = spec.get("type").text() == "LoadBalancer" && policy.text() == "Local";
    if !needs_health && health.number() != 0 {
        let problem = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        health.invalid(c, problem);
    } else if health.number() != 0 {
        health.problems(c, formats::port_number(health.number()));
    }
}

fn external_name(spec: &At<'_>, c: &mut Check) {
    const PROBLEM: &str = "may not be set for ExternalName services";
    if c.since(20) {
        if !spec.get("clusterIPs").is_empty() {
            spec.get("clusterIPs").forbidden(c, PROBLEM);
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if spec.get(key).is_set() {
                spec.get(key).forbidden(c, PROBLEM);
            }
        }
    } else if !spec.get("clusterIP").text().is_empty() {
        spec.get("clusterIP")
            .forbidden(c, "must be empty for ExternalName services");
    }
    let name = spec.get("externalName");
    let text = name.text().strip_suffix('.').unwrap_or(name.text());
    if text.is_empty() {
        name.required(c, "");
    }
    if !text.is_empty() {
        for problem in formats::subdomain(c.version, text) {
            name.invalid_as(c, &quoted(text), &problem);
        }
    }
}

fn service_port<'v>(port: &At<'v>, needs_name: bool, names: &mut Vec<&'v str>, c: &mut Check) {
    let name = port.get("name");
    if name.text().is_empty() {
        if needs_name {
            name.required(c, "");
        }
    } else {
        name.label(c);
        if names.contains(&name.text()) {
            name.duplicate(c);
        }
        names.push(name.text());
    }
    let number = port.get("port");
    for problem in formats::port_number(number.number()) {
        number.invalid_as(c, &number.number().to_string(), &problem);
    }
    port.get("protocol").one_of(c, &PROTOCOLS);
    handlers::port(&port.get("targetPort"), c);
    let protocol = port.get("appProtocol");
    if protocol.is_set() {
        protocol.qualified_name(c);
    }
}

fn cluster_addresses(spec: &At<'_>, c: &mut Check) {
    if spec.get("type").text() == "ExternalName" {
        return;
    }
    let (single, all) = (spec.get("clusterIP"), spec.get("clusterIPs"));
    if !c.since(20) {
        if !matches!(single.text(), "" | "None") {
            single.problems(c, formats::ip(c.version, single.text()));
        }
        return;
    }
    if single.text().is_empty() {
        if !all.is_empty() {
            let problem = match c.since(23) {
                true => "must be empty when `clusterIP` is not specified",
                false => "must be empty when clusterIP is empty",
            };
            all.invalid_typed(c, "[]string", problem);
        }
    } else if all.is_empty() {
        all.required(c, "");
    } else if all
        .items()
        .next()
        .is_none_or(|first| first.text() != single.text())
    {
        let problem = match c.since(23) {
            true => "first value must match `clusterIP`",
            false => "element [0] must match clusterIP",
        };
        all.invalid_typed(c, "[]string", problem);
    }
    if c.since(21) {
        families(spec, c);
    }
    let mut has_invalid = false;
    for (index, address) in all.items().enumerate() {
        if index == 0 && address.text() == "None" {
            if all.len() > 1 {
                has_invalid = true;
                all.invalid_typed(c, "[]string", "'None' must be the first and only value");
            }
            continue;
        }
        let problems = formats::ip(c.version, address.text());
        has_invalid |= !problems.is_empty();
        address.problems(c, problems);
    }
    if all.len() > 2 {
        all.invalid_typed(c, "[]string", "may only hold up to 2 values");
    }
    if has_invalid {
        return;
    }
    let ipv4 = all
        .items()
        .filter_map(|address| formats::parse_ip(address.text()))
        .filter(IpAddr::is_ipv4)
        .count();
    if all.len() > 1 && (ipv4 == 0 || ipv4 == all.len()) {
        all.invalid_typed(
            c,
            "[]string",
            "may specify no more than one IP for each IP family",
        );
    }
    if !c.since(21) || is_headless(spec, c) {
        return;
    }
    let families = spec.get("ipFamilies");
    for (index, (address, family)) in all.items().zip(families.items()).enumerate() {
        let own = if address.text().contains(':') {
            "IPv6"
        } else {
            "IPv4"
        };
        let expected = family.text();
        if matches!(expected, "IPv4" | "IPv6") && own != expected {
            let problem = format!("expected an {expected} value as indicated by `ipFamilies[{index}]`");
            address.invalid(c, &problem);
        }
    }
}

fn families(spec: &At<'_>, c: &mut Check) {
    const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    let mut seen: Vec<&str> = Vec::new();
    for family in spec.get("ipFamilies").items() {
        if !matches!(family.text(), "IPv4" | "IPv6") {
            family.unsupported(c, &["IPv4", "IPv6"]);
        }
        if seen.contains(&family.text()) {
            family.duplicate(c);
        }
        seen.push(family.text());
    }
    let policy = spec.get("ipFamilyPolicy");
    if policy.is_set() && !POLICIES.contains(&policy.text()) {
        policy.unsupported(c, &POLICIES);
    }
}

fn unique_ports(spec: &At<'_>, c: &mut Check) {
    let ports = spec.get("ports");
    let (mut node_ports, mut numbers) = (Vec::new(), Vec::new());
    for port in ports.items() {
        let node_port = port.get("nodePort");
        if spec.get("type").text() == "ClusterIP" && node_port.number() != 0 {
            node_port.forbidden(c, "may not be used when `type` is 'ClusterIP'");
        }
    }
    for port in ports.items() {
        let node_port = port.get("nodePort");
        let key = (port.get("protocol").text(), node_port.number());
        if node_port.number() != 0 && node_ports.contains(&key) {
            node_port.duplicate(c);
        }
        node_ports.push(key);
    }
    for port in ports.items() {
        let key = (port.get("protocol").text(), port.get("port").number());
        if numbers.contains(&key) {
            let shown = serde_json::json!({"protocol": key.0, "port": key.1});
            let shown = go_syntax::value(c.version, &shown, "core.ServicePort");
            port.duplicate_as(c, &shown);
        }
        numbers.push(key);
    }
}

fn source_ranges(body: &Object, spec: &At<'_>, c: &mut Check) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let ranges = spec.get("loadBalancerSourceRanges");
    let annotation = At::root(body, "metadata").get("annotations").key(ANNOTATION);
    let (at, shown, values) = if !ranges.is_empty() {
        let values: Vec<&str> = ranges.items().map(|range| range.text()).collect();
        let at = spec.get("LoadBalancerSourceRanges");
        (at, format!("[{}]", values.join(" ")), values)
    } else if annotation.is_set() {
        let values: Vec<&str> = annotation
            .text()
            .split(',')
            .filter(|range| !range.trim().is_empty())
            .collect();
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

/// `ValidateServiceUpdate`, except `ValidateService`.
pub(super) fn service_updated(body: &Object, old: &Object, c: &mut Check) {
    let (spec, old) = (At::root(body, "spec"), At::root(old, "spec"));
    addresses_updated(&spec, &old, c);
    let is_balanced = |spec: &At<'_>| spec.get("type").text() == "LoadBalancer";
    let (class, old_class) = (spec.get("loadBalancerClass"), old.get("loadBalancerClass"));
    if c.since(22) && is_balanced(&spec) && is_balanced(&old) && class.value != old_class.value {
        class.invalid(c, "may not change once set");
    }
    let checks_health =
        |spec: &At<'_>| is_balanced(spec) && spec.get("externalTrafficPolicy").text() == "Local";
    let health = spec.get("healthCheckNodePort");
    if c.version.has(POLICIES_ARE_VALIDATED_FIRST)
        && checks_health(&spec)
        && checks_health(&old)
        && health.number() != old.get("healthCheckNodePort").number()
    {
        health.forbidden(c, "field is immutable");
    }
}

/// `validateUpgradeDowngradeClusterIPs`.
fn addresses_updated(spec: &At<'_>, old: &At<'_>, c: &mut Check) {
    let is_external = |spec: &At<'_>| spec.get("type").text() == "ExternalName";
    if is_external(spec) || is_external(old) {
        return;
    }
    if !c.since(20) {
        let address = old.get("clusterIP");
        if !address.text().is_empty() {
            pinned(spec, old, "clusterIP", "string", c);
        }
        return;
    }
    if is_headless(spec, c) && is_headless(old, c) {
        return;
    }
    let (new, old) = (spec.get("clusterIPs"), old.get("clusterIPs"));
    let item = |at: &At<'_>, index: usize| at.items().nth(index).map(|item| item.text().to_owned());
    let path = |index: usize| At {
        value: new.value,
        path: spec.get(&format!("clusterIPs[{index}]")).path,
    };
    const CHANGED: &str = "may not change once set";
    let shown = go_syntax::value(c.version, new.value, "[]string");
    if old.len() == new.len() {
        for index in (0..old.len()).filter(|&index| item(&old, index) != item(&new, index)) {
            path(index).invalid_as(c, &shown, CHANGED);
        }
    } else if !old.is_empty() && new.is_empty() {
        path(0).invalid_as(c, &shown, "primary clusterIP can not be unset");
    } else if !old.is_empty() && item(&old, 0) != item(&new, 0) {
        path(0).invalid_as(c, &shown, CHANGED);
    }
    if old.len() > 1 && new.len() == 1 && spec.get("ipFamilyPolicy").text() != "SingleStack" {
        if c.since(23) {
            let problem = "must be set to 'SingleStack' when releasing the secondary clusterIP";
            spec.get("ipFamilyPolicy").invalid(c, problem);
        } else {
            let problem =
                "`ipFamilyPolicy` must be set to 'SingleStack' when releasing the secondary clusterIP";
            path(0).invalid_as(c, &shown, problem);
        }
    }
}

/// `ValidateServiceExternalTrafficFieldsCombination`, after the service is otherwise valid.
pub(super) fn traffic_fields(body: &Object, c: &mut Check) {
    if c.version.has(POLICIES_ARE_VALIDATED_FIRST) {
        return;
    }
    let spec = At::root(body, "spec");
    let (kind, policy) = (spec.get("type").text(), spec.get("externalTrafficPolicy"));
    if !matches!(kind, "LoadBalancer" | "NodePort") && !policy.text().is_empty() {
        policy.invalid(
            c,
            "ExternalTrafficPolicy can only be set on NodePort and LoadBalancer service",
        );
    }
    let health = spec.get("healthCheckNodePort");
    let needs_health = kind == "LoadBalancer" && policy.text() == "Local";
    if !needs_health && health.number() != 0 {
        let problem =
            "HealthCheckNodePort can only be set on LoadBalancer service with ExternalTrafficPolicy=Local";
        health.invalid(c, problem);
    }
}

/// `ValidateNonSpecialIP`.
fn ordinary_ip(at: &At<'_>, c: &mut Check) {
    let Some(ip) = formats::parse_ip(at.text()) else {
        at.invalid_as(c, &quoted(at.text()), "must be a valid IP address");
        return;
    };
    let both = |ipv4: &str, ipv6: &str, c: &Check| {
        if c.since(23) {
            format!("{ipv4}, {ipv6}")
        } else {
            ipv4.to_owned()
        }
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
    if ip.is_loopback() {
        let range = both("127.0.0.0/8", "::1/128", c);
        at.invalid(c, &format!("may not be in the loopback range ({range})"));
    }
    if link_local {
        let range = both("169.254.0.0/16", "fe80::/10", c);
        at.invalid(c, &format!("may not be in the link-local range ({range})"));
    }
    if link_multicast {
        let range = both("224.0.0.0/24", "ff02::/10", c);
        at.invalid(
            c,
            &format!("may not be in the link-local multicast range ({range})"),
        );
    }
}

/// `ValidateEndpoints`.
pub(super) fn endpoints(body: &Object, c: &mut Check) {
    for subset in At::root(body, "subsets").items() {
        let lists = ["addresses", "notReadyAddresses"].map(|list| subset.get(list));
        if lists.iter().all(At::is_empty) {
            subset.required(c, "must specify `addresses` or `notReadyAddresses`");
        }
        for address in lists.iter().flat_map(At::items) {
            let ip = address.get("ip");
            for problem in formats::ip(c.version, ip.text()) {
                ip.invalid_as(c, &quoted(ip.text()), &problem);
            }
            if !address.get("hostname").text().is_empty() {
                address.get("hostname").label(c);
            }
            if address.get("nodeName").is_set() {
                address.get("nodeName").subdomain(c);
            }
            ordinary_ip(&ip, c);
        }
        let ports = subset.get("ports");
        for port in ports.items() {
            let (name, number) = (port.get("name"), port.get("port"));
            if !name.text().is_empty() {
                name.label(c);
            } else if ports.len() > 1 {
                name.required(c, "");
            }
            for problem in formats::port_number(number.number()) {
                number.invalid_as(c, &number.number().to_string(), &problem);
            }
            port.get("protocol").one_of(c, &PROTOCOLS);
            if port.get("appProtocol").is_set() {
                port.get("appProtocol").qualified_name(c);
            }
        }
    }
}

/// `ValidateEndpointSlice`.
pub(super) fn endpoint_slice(body: &Object, c: &mut Check) {
    const ENDPOINTS_MAX: usize = 1000;
    const ADDRESSES_MAX: usize = 100;
    const TOPOLOGY_MAX: usize = 16;
    let kind = At::root(body, "addressType");
    kind.one_of(c, &["FQDN", "IPv4", "IPv6"]);
    let endpoints = At::root(body, "endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        endpoints.too_many(c, endpoints.len(), ENDPOINTS_MAX);
    } else {
        for endpoint in endpoints.items() {
            let addresses = endpoint.get("addresses");
            if addresses.is_empty() {
                addresses.required(c, "must contain at least 1 address");
            } else if addresses.len() > ADDRESSES_MAX {
                addresses.too_many(c, addresses.len(), ADDRESSES_MAX);
            }
            for address in addresses.items() {
                slice_address(&addresses, &address, kind.text(), c);
            }
            if endpoint.get("nodeName").is_set() {
                endpoint.get("nodeName").subdomain(c);
            }
            let topology = At {
                value: endpoint.get("deprecatedTopology").value,
                path: endpoint
                    .get(if c.since(21) {
                        "deprecatedTopology"
                    } else {
                        "topology"
                    })
                    .path,
            };
            if topology.len() > TOPOLOGY_MAX {
                topology.too_many(c, topology.len(), TOPOLOGY_MAX);
            }
            labels(&topology, c);
            if endpoint.get("hostname").is_set() {
                endpoint.get("hostname").label(c);
            }
            zone_hints(&endpoint.get("hints").get("forZones"), c);
        }
    }
    let ports = At::root(body, "ports");
    let ports_max = if c.since(21) { 20_000 } else { 100 };
    if ports.len() > ports_max {
        ports.too_many(c, ports.len(), ports_max);
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for port in ports.items() {
        let name = port.get("name");
        if !name.text().is_empty() {
            name.label(c);
        }
        if names.contains(&name.text()) {
            name.duplicate_as(c, &quoted(name.text()));
        }
        names.push(name.text());
        port.get("protocol").one_of(c, &PROTOCOLS);
        if port.get("appProtocol").is_set() {
            port.get("appProtocol").qualified_name(c);
        }
    }
}

/// `validateHints`.
fn zone_hints(zones: &At<'_>, c: &mut Check) {
    const ZONES_MAX: usize = 8;
    if zones.len() > ZONES_MAX {
        zones.too_many(c, zones.len(), ZONES_MAX);
        return;
    }
    let mut seen: Vec<String> = Vec::new();
    for zone in zones.items() {
        let name = zone.get("name");
        if seen.iter().any(|known| known == name.text()) {
            name.duplicate(c);
        } else {
            seen.push(name.text().to_owned());
        }
        for problem in formats::label_value(c.version, name.text()) {
            name.invalid(c, &problem);
        }
    }
}

fn slice_address(all: &At<'_>, address: &At<'_>, kind: &str, c: &mut Check) {
    let parsed = formats::parse_ip(address.text());
    match kind {
        "IPv4" | "IPv6" if c.since(33) => {
            for problem in formats::ip(c.version, address.text()) {
                address.invalid_as(c, &quoted(address.text()), &problem);
            }
            let Some(ip) = parsed else { return };
            if ip.is_ipv4() != (kind == "IPv4") {
                let problem = format!("must be an {kind} address");
                all.invalid_as(c, &quoted(address.text()), &problem);
            }
            ordinary_ip(address, c);
        }
        "IPv4" | "IPv6" => {
            let fits = parsed.is_some_and(|ip| ip.is_ipv4() == (kind == "IPv4"));
            if !fits {
                address.invalid_as(
                    c,
                    &quoted(address.text()),
                    &format!("must be a valid {kind} address"),
                );
            }
            ordinary_ip(address, c);
        }
        "FQDN" => {
            let text = address.text();
            if text.is_empty() {
                address.required(c, "");
                return;
            }
            let name = text.strip_suffix('.').unwrap_or(text);
            let problems = formats::subdomain(c.version, name);
            if !problems.is_empty() {
                for problem in problems {
                    address.invalid_as(c, &quoted(name), &problem);
                }
            } else if name.split('.').count() < 2 {
                let problem = "should be a domain with at least two segments separated by dots";
                address.invalid_as(c, &quoted(name), problem);
            } else {
                for label in name
                    .split('.')
                    .filter(|label| label.len() > formats::NAME_PART_MAX)
                {
                    for problem in formats::label(c.version, label) {
                        address.invalid_as(c, &quoted(label), &problem);
                    }
                }
            }
        }
        _ => {}
    }
}

/// `ValidateEndpointSliceUpdate`, except `ValidateEndpointSlice`.
pub(super) fn endpoint_slice_updated(body: &Object, old: &Object, c: &mut Check) {
    if body.get("addressType") != old.get("addressType") {
        At::root(body, "addressType").invalid(c, "field is immutable");
    }
}
