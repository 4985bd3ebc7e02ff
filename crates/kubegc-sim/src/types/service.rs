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
    go_syntax,
    objects::{is_nil, objects_in, text},
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

/// Addresses and ports are allocated before the service is validated.
pub(crate) const ALLOCATED_FIRST: Behavior = Behavior::since(23, 0, "kubernetes #96684");

/// The address of the API server's own service.
fn servers_address() -> IpAddr {
    Ipv4Addr::from(u32::from(FIRST) + 1).into()
}

fn spec(object: &StoredObject) -> Option<&Object> {
    object.at(&["spec"])?.as_object()
}

fn is_external(spec: &Object) -> bool {
    text(spec, "type") == "ExternalName"
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

/// Keeps the node ports of a service that still has some, and drops those of one that no longer has any.
///
/// # Upstream
/// `patchAllocatedValues` and `dropTypeDependentFields` in
/// [`strategy.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/service/strategy.go).
pub(crate) fn prepare_ports(new: &mut StoredObject, old: &StoredObject, version: KubernetesVersion) {
    let (Some(spec), Some(old)) = (new.spec_mut(), spec(old)) else {
        return;
    };
    if version.minor() >= 21 && allocates_node_ports(old) && allocates_node_ports(spec) {
        let used: BTreeSet<i64> = node_ports(spec).collect();
        let known = old.get("ports").and_then(Value::as_array);
        for port in objects_in(spec, "ports") {
            // A port may change everything but its name; of equal names, the last one counts.
            let name = |port: Option<&Value>| port.and_then(Value::as_str).unwrap_or_default().to_owned();
            let own = name(port.get("name"));
            let mut others = known.into_iter().flatten().rev();
            let other = others.find(|other| name(other.get("name")) == own);
            let has_none = port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) == 0;
            if has_none
                && let Some(number) = other.and_then(|other| other.get("nodePort")?.as_i64())
                && !used.contains(&number)
            {
                port.insert("nodePort".to_owned(), number.into());
            }
        }
    }
    if needs_node_ports(old) && !needs_node_ports(spec) {
        let known: BTreeSet<i64> = node_ports(old).collect();
        if node_ports(spec).all(|port| port == 0 || known.contains(&port)) {
            for port in objects_in(spec, "ports") {
                port.remove("nodePort");
            }
        }
    }
}

/// Whether a service has a policy for the traffic from outside of the cluster.
fn is_reached_from_outside(spec: &Object, version: KubernetesVersion) -> bool {
    /// Before, external addresses of services did not count.
    const EXTERNAL_ADDRESSES_COUNT: Behavior = Behavior::since(29, 0, "SetDefaults_Service of 1.29");
    let addresses = || spec.get("externalIPs")?.as_array();
    match text(spec, "type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => {
            addresses().is_some_and(|all| !all.is_empty()) && version.has(EXTERNAL_ADDRESSES_COUNT)
        }
        _ => false,
    }
}

/// Whether the ports of a service get node ports where they have none.
fn allocates_node_ports(spec: &Object) -> bool {
    let is_off = spec.get("allocateLoadBalancerNodePorts").and_then(Value::as_bool) == Some(false);
    needs_node_ports(spec) && !(is_off && text(spec, "type") == "LoadBalancer")
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

/// Allocates the missing addresses and ports of a service. `services` are the existing ones, `refused`
/// the number of services that were refused after an address was drawn. A dry run
/// allocates no address before 1.22, then that of the network, and node ports beyond those in use.
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
    let is_servers_own = (&*new.meta.namespace, &*new.meta.name) == ("default", "kubernetes");
    let others = || {
        services
            .iter()
            .filter(|other| other.meta.uid != own)
            .filter_map(|other| spec(other))
    };
    let old = old.and_then(spec);
    let Some(spec) = new.spec_mut() else { return Ok(()) };
    let mut errors = Vec::new();
    if !is_external(spec) {
        let taken: BTreeSet<&str> = others().map(|other| text(other, "clusterIP")).collect();
        let address = text(spec, "clusterIP").to_owned();
        if address.is_empty() {
            let address = match is_dry_run {
                true => (version.minor() >= 22).then(|| FIRST.to_string()),
                false => free_address(&taken, refused),
            };
            if let Some(address) = address {
                if version.minor() >= 20 {
                    spec.insert("clusterIPs".to_owned(), json!([address]));
                }
                spec.insert("clusterIP".to_owned(), address.into());
            }
        } else if address != "None"
            && old.is_none_or(|old| match version.has(ALLOCATED_FIRST) {
                true => text(old, "type") == "ExternalName",
                false => text(old, "clusterIP") != address,
            })
        {
            let in_range =
                |ip: Ipv4Addr| (1..=ADDRESSES).contains(&u32::from(ip).wrapping_sub(u32::from(FIRST)));
            let is_servers = address.parse::<IpAddr>() == Ok(servers_address()) && !is_servers_own;
            let is_outside = matches!(address.parse::<IpAddr>(), Ok(IpAddr::V4(ip)) if !in_range(ip));
            // The messages are those of releases that allocate for several families.
            let problem = if is_outside && version.minor() >= 33 && !is_dry_run {
                Some("the provided network does not match the current range".to_owned())
            } else if is_outside {
                let address = match version.has(ALLOCATED_FIRST) {
                    true => format!("the provided IP ({address})"),
                    false => "provided IP".to_owned(),
                };
                let range = "10.96.0.0/16";
                Some(format!(
                    "{address} is not in the valid range. The range of valid IPs is {range}"
                ))
            } else if is_servers || taken.contains(address.as_str()) {
                Some("provided IP is already allocated".to_owned())
            } else {
                None
            };
            if let Some(problem) = problem {
                let problem = match version.minor() {
                    ..20 => problem,
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
    if version.has(ALLOCATED_FIRST) && !errors.is_empty() {
        return Err(errors);
    }
    let mut taken: BTreeSet<i64> = others()
        .flat_map(|other| node_ports(other).chain(other.get("healthCheckNodePort").and_then(Value::as_i64)))
        .collect();
    let mut drawn = Vec::new();
    if needs_node_ports(spec) {
        drawn = allocate_ports(spec, old, &mut taken, is_dry_run, &mut errors);
    }
    if version.has(ALLOCATED_FIRST) {
        errors.truncate(1);
    }
    if needs_health_check(spec) && is_nil(spec, "healthCheckNodePort") {
        let free = match is_dry_run {
            true => Some(dry_run_port(&drawn)),
            false => NODE_PORTS.rev().find(|port| !taken.contains(port)),
        };
        if let Some(free) = free {
            spec.insert("healthCheckNodePort".to_owned(), free.into());
        }
    }
    let has_policy = |spec: &Object| is_reached_from_outside(spec, version);
    if old.is_some_and(has_policy) && !has_policy(spec) {
        spec.remove("externalTrafficPolicy");
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The node port that a dry run shows after these.
fn dry_run_port(drawn: &[i64]) -> i64 {
    drawn.iter().max().map_or(DRY_RUN_PORT, |last| last + 1)
}

/// Allocates the missing node ports; returns those that the service did not have.
///
/// # Upstream
/// `initNodePorts` and `updateNodePorts` in
/// [`alloc.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/service/storage/alloc.go).
fn allocate_ports(
    spec: &mut Object,
    old: Option<&Object>,
    taken: &mut BTreeSet<i64>,
    is_dry_run: bool,
    errors: &mut Vec<Cause>,
) -> Vec<i64> {
    let kept: BTreeSet<i64> = old.into_iter().flat_map(node_ports).collect();
    let is_allocated = allocates_node_ports(spec);
    let mut ports: Vec<&mut Object> = objects_in(spec, "ports").collect();
    let number = |port: &Object, key: &str| port.get(key).and_then(Value::as_i64).unwrap_or(0);
    let mut drawn = Vec::new();
    let mut of_ports: Vec<(i64, i64)> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let requested = number(port, "nodePort");
        let pair = (number(port, "port"), requested);
        let is_again = match old {
            // A new service may have the same number only for several protocols of a port.
            None => of_ports.contains(&pair),
            Some(_) => drawn.contains(&requested),
        };
        if requested == 0 || is_again || kept.contains(&requested) {
            continue;
        }
        of_ports.push(pair);
        let is_drawn = drawn.contains(&requested);
        drawn.push(requested);
        let problem = if !is_dry_run && !NODE_PORTS.contains(&requested) {
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        } else if is_drawn || taken.contains(&requested) {
            "provided port is already allocated"
        } else {
            continue;
        };
        let field = format!("spec.ports[{index}].nodePort");
        errors.push(Cause::invalid(field, &requested.to_string(), problem));
    }
    taken.extend(drawn.iter().chain(&kept));
    // A new service may serve several protocols of one port with the same number.
    let mut shared = if old.is_none() { of_ports } else { Vec::new() };
    for port in &mut ports {
        if !is_allocated || number(port, "nodePort") != 0 {
            continue;
        }
        let own = number(port, "port");
        let same = shared.iter().find(|(other, _)| *other == own);
        let free = match same {
            Some((_, node_port)) => Some(*node_port),
            None if is_dry_run => Some(dry_run_port(&drawn)),
            None => NODE_PORTS.clone().find(|free| !taken.contains(free)),
        };
        let Some(free) = free else { continue };
        if same.is_none() {
            drawn.push(free);
            taken.insert(free);
            if old.is_none() {
                shared.push((own, free));
            }
        }
        port.insert("nodePort".to_owned(), free.into());
    }
    drawn
}
