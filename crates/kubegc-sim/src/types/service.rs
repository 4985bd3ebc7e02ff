//! Cluster addresses and node ports of services.
//!
//! # Upstream
//! `pkg/registry/core/service/strategy.go` and `storage/rest.go`, 1.20.2 and 1.22.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    ops::RangeInclusive,
    sync::Arc,
};

use kubegc_core::{Behavior, KubernetesVersion};
use serde_json::{Map, Value, json};

use super::{
    defaults::{is_nil, is_reached_from_outside, text},
    validate::go_syntax,
};
use crate::{StoredObject, status::Cause};

type Object = Map<String, Value>;

/// The range of cluster addresses, `10.96.0.0/16`: its first address, and how many can be used.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const ADDRESSES: u32 = 65_534;
/// The range of node ports.
const NODE_PORTS: RangeInclusive<i64> = 30_000..=32_767;
/// The first node port that a dry run shows.
///
/// # Upstream
/// `AllocateNext` in
/// [`operation.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/registry/core/service/portallocator/operation.go).
const DRY_RUN_PORT: i64 = 32_769;

/// Services show the IP families of their cluster addresses.
const FAMILIES_ARE_SHOWN: Behavior = Behavior::since(21, 0, "the feature gate IPv6DualStack is on");

/// Policies for traffic are validated with the service, not after the allocation of its addresses.
pub(super) const POLICIES_ARE_VALIDATED_FIRST: Behavior =
    Behavior::since_about(23, "ValidateService of 1.23");

/// Addresses of load balancers say how traffic arrives.
pub(super) const ADDRESSES_HAVE_MODES: Behavior =
    Behavior::since(30, 0, "the feature gate LoadBalancerIPMode is on");

/// The part of `SetDefaults_Service` for the addresses of a load balancer.
pub(super) fn default_modes(service: &mut Object) {
    let kind = service.get("spec").and_then(|spec| spec.get("type"));
    if kind.and_then(Value::as_str) != Some("LoadBalancer") {
        return;
    }
    let addresses = service
        .get_mut("status")
        .and_then(|status| status.get_mut("loadBalancer")?.get_mut("ingress")?.as_array_mut());
    for address in addresses.into_iter().flatten().filter_map(Value::as_object_mut) {
        if !text(address, "ip").is_empty() && is_nil(address, "ipMode") {
            address.insert("ipMode".to_owned(), "VIP".into());
        }
    }
}

fn spec(object: &StoredObject) -> Option<&Object> {
    object.at(&["spec"])?.as_object()
}

fn spec_mut(object: &mut StoredObject) -> Option<&mut Object> {
    object.body_mut().get_mut("spec")?.as_object_mut()
}

fn needs_node_ports(spec: &Object) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
}

fn needs_health_check(spec: &Object) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

fn node_ports(spec: &Object) -> impl Iterator<Item = i64> {
    let ports = spec.get("ports").and_then(Value::as_array);
    ports
        .into_iter()
        .flatten()
        .filter_map(|port| port.get("nodePort")?.as_i64())
}

/// Makes `clusterIP` and `clusterIPs` consistent, and drops the fields of another service type.
pub(crate) fn prepare(new: &mut StoredObject, old: Option<&StoredObject>, version: KubernetesVersion) {
    clean(new, old, version);
    if version.has(FAMILIES_ARE_SHOWN)
        && let Some(spec) = spec_mut(new)
    {
        set_families(spec, old.and_then(self::spec));
    }
}

/// Sets the IP families of a service with cluster addresses, and their policy: the cluster has IPv4 only.
///
/// # Upstream
/// `initIPFamilyFields` in
/// [`alloc.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/service/storage/alloc.go).
fn set_families(spec: &mut Object, old: Option<&Object>) {
    const FAMILIES: &str = "ipFamilies";
    const POLICY: &str = "ipFamilyPolicy";
    if text(spec, "type") == "ExternalName" {
        return;
    }
    for key in [FAMILIES, POLICY] {
        if is_nil(spec, key)
            && let Some(value) = old.and_then(|old| old.get(key))
        {
            spec.insert(key.to_owned(), value.clone());
        }
    }
    let is_set = |spec: &Object, key: &str| !is_nil(spec, key);
    let is_headless = text(spec, "clusterIP") == "None";
    let selects = spec
        .get("selector")
        .and_then(Value::as_object)
        .is_some_and(|selector| !selector.is_empty());
    if is_headless && !selects {
        if !is_set(spec, POLICY) {
            spec.insert(POLICY.to_owned(), "RequireDualStack".into());
        }
        if !is_set(spec, FAMILIES) {
            let families = match text(spec, POLICY) {
                "SingleStack" => json!(["IPv4"]),
                _ => json!(["IPv4", "IPv6"]),
            };
            spec.insert(FAMILIES.to_owned(), families);
        }
        return;
    }
    let is_many = |key: &str| {
        spec.get(key)
            .and_then(Value::as_array)
            .is_some_and(|list| list.len() > 1)
    };
    if !is_set(spec, POLICY) && !is_many(FAMILIES) && !is_many("clusterIPs") {
        spec.insert(POLICY.to_owned(), "SingleStack".into());
    }
    if !is_set(spec, FAMILIES) {
        let family = if text(spec, "clusterIP").contains(':') {
            "IPv6"
        } else {
            "IPv4"
        };
        spec.insert(FAMILIES.to_owned(), json!([family]));
    }
}

fn clean(new: &mut StoredObject, old: Option<&StoredObject>, version: KubernetesVersion) {
    let Some(spec) = spec_mut(new) else { return };
    let plural = version.minor() >= 20;
    let Some(old) = old.and_then(self::spec) else {
        if plural && is_nil(spec, "clusterIPs") && !text(spec, "clusterIP").is_empty() {
            let address = text(spec, "clusterIP").to_owned();
            spec.insert("clusterIPs".to_owned(), json!([address]));
        }
        return;
    };
    if version.minor() >= 21 {
        keep_allocated(spec, old);
    }
    let same_address = text(spec, "clusterIP") == text(old, "clusterIP");
    if plural {
        if same_address {
            if is_nil(spec, "clusterIPs")
                && let Some(addresses) = old.get("clusterIPs")
            {
                spec.insert("clusterIPs".to_owned(), addresses.clone());
            }
        } else if spec.get("clusterIPs") == old.get("clusterIPs") {
            match text(spec, "clusterIP").to_owned() {
                address if address.is_empty() => spec.remove("clusterIPs"),
                address => spec.insert("clusterIPs".to_owned(), json!([address])),
            };
        }
    }
    let is_external = |spec: &Object| text(spec, "type") == "ExternalName";
    if !is_external(old) && is_external(spec) && same_address {
        spec.remove("clusterIP");
        for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if spec.get(key) == old.get(key) {
                spec.remove(key);
            }
        }
    }
    if needs_node_ports(old) && !needs_node_ports(spec) {
        let known: BTreeSet<i64> = node_ports(old).collect();
        if node_ports(spec).all(|port| port == 0 || known.contains(&port)) {
            let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
                port.remove("nodePort");
            }
        }
    }
    let drop_same = |spec: &mut Object, key: &str| {
        if spec.get(key) == old.get(key) {
            spec.remove(key);
        }
    };
    if needs_health_check(old) && !needs_health_check(spec) {
        drop_same(spec, "healthCheckNodePort");
    }
    let has_policy = |spec: &Object| is_reached_from_outside(spec, version);
    if version.has(POLICIES_ARE_VALIDATED_FIRST) && has_policy(old) && !has_policy(spec) {
        drop_same(spec, "externalTrafficPolicy");
    }
    if text(old, "type") == "LoadBalancer" && text(spec, "type") != "LoadBalancer" {
        drop_same(spec, "allocateLoadBalancerNodePorts");
        drop_same(spec, "loadBalancerClass");
    }
}

/// Copies allocated values that the new object omits.
fn keep_allocated(spec: &mut Object, old: &Object) {
    let is_external = |spec: &Object| text(spec, "type") == "ExternalName";
    if !is_external(old) && !is_external(spec) {
        for key in ["clusterIP", "clusterIPs"] {
            if (is_nil(spec, key) || text(spec, key).is_empty() && key == "clusterIP")
                && let Some(value) = old.get(key)
            {
                spec.insert(key.to_owned(), value.clone());
            }
        }
    }
    if needs_node_ports(old) && needs_node_ports(spec) {
        let mut used: BTreeSet<i64> = node_ports(spec).collect();
        let known = old.get("ports").and_then(Value::as_array);
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            let same = |other: &&Value| {
                other.get("port") == port.get("port") && other.get("protocol") == port.get("protocol")
            };
            let other = known.into_iter().flatten().find(same);
            if is_nil(port, "nodePort")
                && let Some(number) = other.and_then(|other| other.get("nodePort")?.as_i64())
                && used.insert(number)
            {
                port.insert("nodePort".to_owned(), number.into());
            }
        }
    }
    if needs_health_check(old)
        && needs_health_check(spec)
        && is_nil(spec, "healthCheckNodePort")
        && let Some(number) = old.get("healthCheckNodePort")
    {
        spec.insert("healthCheckNodePort".to_owned(), number.clone());
    }
}

/// The address that the next service gets.
pub(crate) fn next_address(services: &[Arc<StoredObject>], refused: u32) -> String {
    let taken: BTreeSet<&str> = services
        .iter()
        .filter_map(|service| Some(text(spec(service)?, "clusterIP")))
        .collect();
    free_address(&taken, refused).unwrap_or_default()
}

/// The first free address after those of refused services. The API server's own service has the first one.
fn free_address(taken: &BTreeSet<&str>, refused: u32) -> Option<String> {
    let first = refused.saturating_add(2).min(ADDRESSES);
    let mut free = (first..=ADDRESSES)
        .chain(2..first)
        .map(|at| Ipv4Addr::from(u32::from(FIRST) + at).to_string());
    free.find(|address| !taken.contains(address.as_str()))
}

/// Allocates the missing addresses and ports of a valid service. `services` are the existing ones, `refused`
/// the number of services that were refused after an address was drawn. A dry run
/// allocates no address before 1.22, and node ports beyond those in use.
///
/// # Errors
/// A requested address or port is taken, or out of its range.
pub(crate) fn allocate(
    services: &[Arc<StoredObject>],
    new: &mut StoredObject,
    old: Option<&StoredObject>,
    version: KubernetesVersion,
    is_dry_run: bool,
    refused: u32,
) -> Result<(), Vec<Cause>> {
    let own = new.meta.uid.clone();
    let others = || {
        services
            .iter()
            .filter(|other| other.meta.uid != own)
            .filter_map(|other| spec(other))
    };
    let old = old.and_then(spec);
    let Some(spec) = spec_mut(new) else { return Ok(()) };
    let mut errors = Vec::new();
    if text(spec, "type") != "ExternalName" {
        let taken: BTreeSet<&str> = others().map(|other| text(other, "clusterIP")).collect();
        let address = text(spec, "clusterIP").to_owned();
        if address.is_empty() {
            if (!is_dry_run || version.minor() >= 22)
                && let Some(address) = free_address(&taken, refused)
            {
                if version.minor() >= 20 {
                    spec.insert("clusterIPs".to_owned(), json!([address]));
                }
                spec.insert("clusterIP".to_owned(), address.into());
            }
        } else if address != "None" && old.is_none_or(|old| text(old, "clusterIP") != address) {
            let in_range =
                |ip: Ipv4Addr| (1..=ADDRESSES).contains(&u32::from(ip).wrapping_sub(u32::from(FIRST)));
            let problem = match address.parse::<IpAddr>() {
                Ok(IpAddr::V4(ip)) if !in_range(ip) => {
                    Some("provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/16")
                }
                _ if taken.contains(address.as_str()) => Some("provided IP is already allocated"),
                _ => None,
            };
            if let Some(problem) = problem {
                // The messages are those of releases that allocate for several families.
                let problem = match problem.starts_with("provided IP is not") && version.minor() >= 33 {
                    true => "the provided network does not match the current range",
                    false => problem,
                };
                let problem = match version.minor() {
                    ..20 => problem.to_owned(),
                    20 => format!("failed to allocated ip:{address} with error:{problem}"),
                    _ => format!("failed to allocate IP {address}: {problem}"),
                };
                let (field, shown) = if version.minor() >= 20 {
                    (
                        "spec.clusterIPs",
                        go_syntax::value(version, &json!([address]), "[]string"),
                    )
                } else {
                    ("spec.clusterIP", crate::status::quoted(&address))
                };
                errors.push(Cause::invalid(field, &shown, &problem));
            }
        }
    }
    let mut taken: BTreeSet<i64> = others()
        .flat_map(|other| node_ports(other).chain(other.get("healthCheckNodePort").and_then(Value::as_i64)))
        .collect();
    if needs_node_ports(spec) {
        allocate_ports(spec, old, &mut taken, is_dry_run, &mut errors);
    }
    if needs_health_check(spec)
        && is_nil(spec, "healthCheckNodePort")
        && let Some(free) = NODE_PORTS.rev().find(|port| !taken.contains(port))
    {
        spec.insert("healthCheckNodePort".to_owned(), free.into());
    }
    let has_policy = |spec: &Object| is_reached_from_outside(spec, version);
    if old.is_some_and(has_policy) && !has_policy(spec) {
        spec.remove("externalTrafficPolicy");
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn allocate_ports(
    spec: &mut Object,
    old: Option<&Object>,
    taken: &mut BTreeSet<i64>,
    is_dry_run: bool,
    errors: &mut Vec<Cause>,
) {
    let kept: BTreeSet<i64> = old.into_iter().flat_map(node_ports).collect();
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    let mut ports: Vec<&mut Object> = ports
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
        .collect();
    // The same number may serve several protocols of one port.
    let mut own = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let number = port.get("nodePort").and_then(Value::as_i64).unwrap_or(0);
        if number == 0 || !own.insert(number) || kept.contains(&number) {
            continue;
        }
        let problem = if !NODE_PORTS.contains(&number) {
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        } else if taken.contains(&number) {
            "provided port is already allocated"
        } else {
            continue;
        };
        let field = format!("spec.ports[{index}].nodePort");
        errors.push(Cause::invalid(field, &number.to_string(), problem));
    }
    taken.extend(own.iter().chain(&kept));
    let mut given: Vec<(i64, Value, i64)> = Vec::new();
    for port in &mut ports {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        let protocol = port.get("protocol").cloned().unwrap_or_default();
        let shared = given
            .iter()
            .find(|(other, at, _)| *other == number && *at != protocol);
        match port
            .get("nodePort")
            .and_then(Value::as_i64)
            .filter(|node_port| *node_port != 0)
        {
            Some(node_port) => given.push((number, protocol, node_port)),
            None => {
                let next = || match is_dry_run {
                    true => given
                        .iter()
                        .map(|(_, _, node_port)| node_port + 1)
                        .max()
                        .or(Some(DRY_RUN_PORT)),
                    false => NODE_PORTS.clone().find(|free| !taken.contains(free)),
                };
                let free = shared.map(|(_, _, node_port)| *node_port).or_else(next);
                if let Some(free) = free {
                    taken.insert(free);
                    port.insert("nodePort".to_owned(), free.into());
                    given.push((number, protocol, free));
                }
            }
        }
    }
}
