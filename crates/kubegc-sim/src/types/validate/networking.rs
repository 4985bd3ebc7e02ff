//! Ingresses, ingress classes, network policies.
//!
//! # Upstream
//! [`pkg/apis/networking/validation`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/apis/networking/validation/validation.go).

use std::net::IpAddr;

use kubegc_core::Behavior;
use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::{go_strings, go_syntax, selector::label_selector, workloads::pinned};
use crate::formats;

type Object = Map<String, Value>;

/// `ValidateIngressCreate` and `ValidateIngressUpdate`. Requests of `v1beta1` have other names for some
/// fields.
pub(super) fn ingress(body: &Object, old: Option<&Object>, is_beta: bool, c: &mut Check) {
    let spec = At::root(body, "spec");
    let (rules, backend) = (spec.get("rules"), spec.get("defaultBackend"));
    let backend_name = if is_beta { "backend" } else { "defaultBackend" };
    if rules.is_empty() && !backend.is_set() {
        let problem = format!("either `{backend_name}` or `rules` must be specified");
        let shown = go_syntax::value(c.version, rules.decoded(c), "[]networking.IngressRule");
        spec.invalid_as(c, &shown, &problem);
    }
    if backend.is_set() {
        let backend = At {
            value: backend.value,
            path: spec.get(backend_name).path,
        };
        ingress_backend(&backend, is_beta, c);
    }
    let allows_wildcards = is_beta
        || old.is_some_and(|old| {
            At::root(old, "spec").get("rules").items().any(|rule| {
                let mut inner = Check::new(c.version, None);
                http(&rule, false, &mut inner);
                rule.get("host").text().contains('*') && !inner.causes.is_empty()
            })
        });
    for rule in rules.items() {
        let host = rule.get("host");
        let mut is_wildcard = false;
        if !host.text().is_empty() {
            if formats::parse_ip(host.text()).is_some() {
                host.invalid(c, "must be a DNS name, not an IP address");
            }
            is_wildcard = host.text().contains('*');
            host_name(&host, c);
        }
        if !is_wildcard || !allows_wildcards {
            http(&rule, is_beta, c);
        }
    }
    let bad_secret = |name: &str| !name.is_empty() && !formats::subdomain(c.version, name).is_empty();
    let allows_bad_secrets = is_beta
        || old.is_some_and(|old| {
            let mut secrets = At::root(old, "spec").get("tls").items();
            secrets.any(|tls| bad_secret(tls.get("secretName").text()))
        });
    for tls in spec.get("tls").items() {
        for host in tls.get("hosts").items() {
            host_name(&host, c);
        }
        let secret = tls.get("secretName");
        if !allows_bad_secrets && !secret.text().is_empty() {
            secret.subdomain(c);
        }
    }
    let class = spec.get("ingressClassName");
    if class.is_set() {
        class.subdomain(c);
    }
    let annotation = At::root(body, "metadata")
        .get("annotations")
        .key("kubernetes.io/ingress.class");
    let may_agree = c.since(27);
    if old.is_none()
        && annotation.is_set()
        && class.is_set()
        && !(may_agree && annotation.text() == class.text())
    {
        let named = At::root(body, "annotations").get("kubernetes.io/ingress.class");
        let problem = match may_agree {
            true => "must match `ingressClassName` when both are specified",
            false => "can not be set when the class field is also set",
        };
        named.invalid_as(c, &annotation.shown(), problem);
    }
}

fn host_name(host: &At<'_>, c: &mut Check) {
    if host.text().contains('*') {
        host.problems(c, formats::wildcard_subdomain(host.text()));
    } else {
        host.subdomain(c);
    }
}

fn http(rule: &At<'_>, is_beta: bool, c: &mut Check) {
    const TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    let http = rule.get("http");
    if !http.is_set() {
        return;
    }
    let paths = http.get("paths");
    if paths.is_empty() {
        paths.required(c, "");
    }
    for entry in paths.items() {
        let (kind, path) = (entry.get("pathType"), entry.get("path"));
        let is_absolute = path.text().starts_with('/');
        match kind.text() {
            _ if !kind.is_set() => {
                kind.required(c, "pathType must be specified");
                continue;
            }
            "Exact" | "Prefix" => {
                if !is_absolute {
                    path.invalid_as(c, &crate::status::quoted(path.text()), "must be an absolute path");
                }
                for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
                    if path.text().contains(sequence) {
                        path.invalid(c, &format!("must not contain '{sequence}'"));
                    }
                }
                for suffix in ["/..", "/."] {
                    if path.text().ends_with(suffix) {
                        path.invalid(c, &format!("cannot end with '{suffix}'"));
                    }
                }
            }
            "ImplementationSpecific" => {
                if !path.text().is_empty() && !is_absolute {
                    path.invalid(c, "must be an absolute path");
                }
            }
            _ => kind.unsupported(c, &TYPES),
        }
        ingress_backend(&entry.get("backend"), is_beta, c);
    }
}

fn ingress_backend(at: &At<'_>, is_beta: bool, c: &mut Check) {
    let (resource, service) = (at.get("resource"), at.get("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => at.invalid_as(c, "\"\"", "cannot set both resource and service backends"),
        (true, false) => typed_reference(&resource, c),
        (false, false) => at.invalid_as(c, "\"\"", "resource or service backend is required"),
        (false, true) => {
            let renamed = |field: At<'_>, beta: &str| At {
                path: if is_beta { at.get(beta).path } else { field.path },
                value: at.value,
            };
            let name = service.get("name");
            let shown = crate::status::quoted(name.text());
            let named = renamed(name.clone(), "serviceName");
            if name.text().is_empty() {
                named.required(c, "");
            } else {
                let problems = match c.version.has(formats::SERVICES_MAY_BEGIN_WITH_DIGITS) {
                    true => formats::label(c.version, name.text()),
                    false => formats::dns_1035_label(name.text()),
                };
                for problem in problems {
                    named.invalid_as(c, &shown, &problem);
                }
            }
            let port = service.get("port");
            let (name, number) = (port.get("name"), port.get("number"));
            match (!name.text().is_empty(), number.number() != 0) {
                (true, true) => at.invalid_as(c, "\"\"", "cannot set both port name & port number"),
                (true, false) => {
                    for problem in formats::port_name(c.version, name.text()) {
                        renamed(name.clone(), "servicePort").invalid_as(c, &name.shown(), &problem);
                    }
                }
                (false, true) => {
                    for problem in formats::port_number(number.number()) {
                        renamed(number.clone(), "servicePort").invalid_as(c, &number.shown(), &problem);
                    }
                }
                (false, false) => at.required(c, "port name or number is required"),
            }
        }
    }
}

/// Messages about empty fields of references do not repeat the name of the field.
const FIELDS_OF_REFERENCES_ARE_NOT_REPEATED: Behavior =
    Behavior::since(34, 0, "validateIngressTypedLocalObjectReference of 1.34");

fn typed_reference(at: &At<'_>, c: &mut Check) {
    let group = at.get("apiGroup");
    if group.is_set() {
        group.subdomain(c);
    }
    for key in ["kind", "name"] {
        let text = at.get(key);
        if text.text().is_empty() {
            let problem = match c.version.has(FIELDS_OF_REFERENCES_ARE_NOT_REPEATED) {
                true => String::new(),
                false => format!("{key} is required"),
            };
            text.required(c, &problem);
        } else {
            text.problems(c, formats::path_segment(text.text()));
        }
    }
}

/// `ValidateIngressClass`.
pub(super) fn ingress_class(body: &Object, c: &mut Check) {
    const CONTROLLER_MAX: usize = 250;
    let spec = At::root(body, "spec");
    let controller = spec.get("controller");
    if controller.text().len() > CONTROLLER_MAX {
        controller.too_long(c, CONTROLLER_MAX);
    }
    domain_prefixed_path(&controller, c);
    let parameters = spec.get("parameters");
    if !parameters.is_set() {
        return;
    }
    typed_reference(&parameters, c);
    let (scope, namespace) = (parameters.get("scope"), parameters.get("namespace"));
    if c.since(22) && !scope.is_set() {
        scope.required(c, "");
        return;
    }
    match scope.text() {
        "Namespace" => {
            if namespace.is_set() {
                namespace.label(c);
            } else {
                namespace.required(c, "`parameters.scope` is set to 'Namespace'");
            }
        }
        "Cluster" if namespace.is_set() => namespace.forbidden(c, "`parameters.scope` is set to 'Cluster'"),
        "Cluster" => {}
        _ if scope.is_set() || namespace.is_set() => {
            let text = Value::from(scope.text());
            let scope = At {
                value: &text,
                path: scope.path,
            };
            scope.unsupported(c, &["Cluster", "Namespace"]);
        }
        _ => {}
    }
}

/// `ValidateIngressClassUpdate`, except `ValidateIngressClass`.
pub(super) fn ingress_class_updated(body: &Object, old: &Object, c: &mut Check) {
    pinned(
        &At::root(body, "spec"),
        &At::root(old, "spec"),
        "controller",
        "string",
        c,
    );
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
            let problem = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            at.invalid(c, problem);
            return;
        }
    };
    for problem in formats::subdomain(c.version, domain) {
        at.invalid_as(c, &crate::status::quoted(domain), &problem);
    }
    let known = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    if !path.chars().all(known) {
        let problem = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        at.invalid_as(c, &crate::status::quoted(path), problem);
    }
}

/// `ValidateNetworkPolicySpec`.
pub(super) fn network_policy(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    label_selector(&spec.get("podSelector"), c);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.get(list).items() {
            for port in rule.get("ports").items() {
                policy_port(&port, c);
            }
            for peer in rule.get(peers).items() {
                policy_peer(&peer, c);
            }
        }
    }
    let types = spec.get("policyTypes");
    if types.len() > 2 {
        let texts: Vec<&str> = types.items().map(|one| one.text()).collect();
        let shown = go_strings(c.version, &texts).replacen("[]string", "[]networking.PolicyType", 1);
        types.invalid_as(c, &shown, "may not specify more than two policyTypes");
        return;
    }
    for kind in types.items() {
        if !matches!(kind.text(), "Ingress" | "Egress") {
            kind.unsupported(c, &["Ingress", "Egress"]);
        }
    }
}

fn policy_port(at: &At<'_>, c: &mut Check) {
    let (protocol, port, end) = (at.get("protocol"), at.get("port"), at.get("endPort"));
    const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
    if protocol.is_set() && !PROTOCOLS.contains(&protocol.text()) {
        protocol.unsupported(c, &PROTOCOLS);
    }
    if !port.is_set() {
        if end.is_set() {
            end.invalid(c, "may not be specified when `port` is not specified");
        }
        return;
    }
    if port.value.is_string() {
        if end.is_set() {
            end.invalid(c, "may not be specified when `port` is non-numeric");
        }
        port.problems(c, formats::port_name(c.version, port.text()));
        return;
    }
    port.problems(c, formats::port_number(port.number()));
    if end.is_set() {
        if end.number() < port.number() {
            end.invalid_as(c, &port.shown(), "must be greater than or equal to `port`");
        }
        end.problems(c, formats::port_number(end.number()));
    }
}

fn policy_peer(at: &At<'_>, c: &mut Check) {
    let (pods, namespaces, block) = (
        at.get("podSelector"),
        at.get("namespaceSelector"),
        at.get("ipBlock"),
    );
    label_selector(&pods, c);
    label_selector(&namespaces, c);
    if block.is_set() {
        ip_block(&block, c);
    }
    let count = [&pods, &namespaces, &block]
        .into_iter()
        .filter(|peer| peer.is_set())
        .count();
    if count == 0 {
        at.required(c, "must specify a peer");
    } else if count > 1 && block.is_set() {
        at.forbidden(c, "may not specify both ipBlock and another peer");
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
            let quoted = crate::status::quoted(&canonical);
            return (canonical != text).then(|| format!("must be in canonical form ({quoted})"));
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

fn ip_block(at: &At<'_>, c: &mut Check) {
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

/// `ValidateIPAddress`, except the name.
pub(super) fn address(body: &Object, c: &mut Check) {
    let parent = At::root(body, "spec").get("parentRef");
    if !parent.is_set() {
        parent.required(c, "");
        return;
    }
    if !parent.get("group").text().is_empty() {
        parent.get("group").subdomain(c);
    }
    for (key, is_required) in [("resource", true), ("name", true), ("namespace", false)] {
        let text = parent.get(key);
        if !text.text().is_empty() {
            text.problems(c, formats::path_segment(text.text()));
        } else if is_required {
            text.required(c, "");
        }
    }
}

/// `ValidateIPAddressUpdate`.
pub(super) fn address_updated(body: &Object, old: &Object, c: &mut Check) {
    let (spec, old) = (At::root(body, "spec"), At::root(old, "spec"));
    pinned(&spec, &old, "parentRef", "*networking.ParentReference", c);
}

/// `ValidateServiceCIDR`.
pub(super) fn service_ranges(body: &Object, c: &mut Check) {
    let ranges = At::root(body, "spec").get("cidrs");
    if ranges.is_empty() {
        ranges.required(c, "at least one CIDR required");
        return;
    }
    if ranges.len() > 2 {
        let spec = At::root(body, "spec");
        let shown = go_syntax::value(c.version, spec.value, "networking.ServiceCIDRSpec");
        ranges.invalid_as(c, &shown, "may only hold up to 2 values");
        return;
    }
    let parsed: Vec<bool> = ranges
        .items()
        .filter_map(|range| parse_cidr(range.text()))
        .map(|(network, _)| network.is_ipv4())
        .collect();
    if let [first, second] = parsed.as_slice()
        && first == second
    {
        let problem =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        ranges.invalid_typed(c, "[]string", problem);
        return;
    }
    for range in ranges.items() {
        if let Some(problem) = cidr_problem(range.text(), true) {
            range.invalid(c, &problem);
        }
    }
}

/// `ValidateServiceCIDRUpdate`: a second range may be added.
pub(super) fn service_ranges_updated(body: &Object, old: &Object, c: &mut Check) {
    const IMMUTABLE: &str = "field is immutable";
    let (new, old) = (
        At::root(body, "spec").get("cidrs"),
        At::root(old, "spec").get("cidrs"),
    );
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
        service_ranges(body, c);
    }
}

/// A service CIDR of one range gets a second one.
const RANGES_CAN_BE_ADDED: Behavior = Behavior::since_about(34, "kubernetes #131261");

/// `net.ParseCIDR`: the network and the length of its mask.
pub(super) fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address = formats::parse_ip(address)?;
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let length: u8 = length.parse().ok()?;
    let fits = length <= if address.is_ipv4() { 32 } else { 128 };
    fits.then(|| masked(address, length).map(|network| (network, length)))?
}

/// The address without the bits after the mask; `None` for a mask that is too long for the family.
fn masked(address: IpAddr, length: u8) -> Option<IpAddr> {
    let length = u32::from(length);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(length)?).unwrap_or(0);
            Some(IpAddr::V4((u32::from(address) & mask).into()))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(length)?).unwrap_or(0);
            Some(IpAddr::V6((u128::from(address) & mask).into()))
        }
    }
}

/// `ValidateLoadBalancerStatus`.
pub(super) fn load_balancer(at: &At<'_>, is_service: bool, c: &mut Check) {
    for ingress in at.get("ingress").items() {
        let (ip, host) = (ingress.get("ip"), ingress.get("hostname"));
        if !ip.text().is_empty() && c.since(30) {
            ip.problems(c, formats::ip(c.version, ip.text()));
        } else if !ip.text().is_empty() && formats::parse_ip(ip.text()).is_none() {
            ip.invalid(c, "must be a valid IP address");
        }
        let mode = ingress.get("ipMode");
        if is_service && mode.is_set() {
            if ip.text().is_empty() {
                mode.forbidden(c, "may not be specified when `ip` is not set");
            } else if !matches!(mode.text(), "Proxy" | "VIP") {
                mode.unsupported(c, &["Proxy", "VIP"]);
            }
        }
        if !host.text().is_empty() {
            host.subdomain(c);
            if formats::parse_ip(host.text()).is_some() {
                host.invalid(c, "must be a DNS name, not an IP address");
            }
        }
    }
}
