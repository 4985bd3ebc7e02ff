//! Classes, claims and slices of devices. CEL expressions are compiled elsewhere.
//!
//! # Upstream
//! [`pkg/apis/resource/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/resource/validation/validation.go).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::{
    go_syntax,
    pod::annotations,
    selector::{labels, node_selector},
    volumes::driver_name,
    workloads::pinned,
};
use crate::{formats, status::quoted};

type Object = Map<String, Value>;

/// The maximum number of selectors, requests, constraints and configurations.
const ITEMS_MAX: usize = 32;
const SUBREQUESTS_MAX: usize = 8;
const CONSUMERS_MAX: usize = 256;
const DEVICES_MAX: usize = 128;
const NO_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest \
                          separated by '/'";
const ONE_KIND: &str = "exactly one of `exactly` or `firstAvailable` is required";
const SPEC: &str = "resource.ResourceClaimSpec";

fn at_most(list: &At<'_>, max: usize, c: &mut Check) {
    if list.len() > max {
        list.too_many(c, list.len(), max);
    }
}

/// A name that no earlier item has.
fn unique<'v>(key: At<'v>, seen: &mut BTreeSet<&'v str>, c: &mut Check) {
    if !seen.insert(key.text()) {
        key.duplicate_as(c, &quoted(key.text()));
    }
}

/// `ValidateDeviceClass`.
pub(super) fn class(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    selectors(&spec.get("selectors"), c);
    let configurations = spec.get("config");
    at_most(&configurations, ITEMS_MAX, c);
    for configuration in configurations.items() {
        self::configuration(&configuration, c);
    }
    let name = spec.get("extendedResourceName");
    if name.is_set() {
        let is_extended = name.text().contains('/')
            && !name.text().starts_with("requests.")
            && !name.text().contains("kubernetes.io/")
            && formats::is_qualified_name(&format!("requests.{}", name.text()));
        if !is_extended {
            name.invalid(c, "must be a valid extended resource name");
        }
    }
}

fn selectors(list: &At<'_>, c: &mut Check) {
    at_most(list, ITEMS_MAX, c);
    for selector in list.items() {
        if !selector.get("cel").is_set() {
            selector.get("cel").required(c, "");
        }
    }
}

/// `validateDeviceConfiguration`.
fn configuration(at: &At<'_>, c: &mut Check) {
    let opaque = at.get("opaque");
    if !opaque.is_set() {
        opaque.required(c, "");
        return;
    }
    driver_name(&opaque.get("driver"), c);
    let parameters = opaque.get("parameters");
    match parameters.value {
        Value::Null => parameters.required(c, ""),
        Value::Object(_) => {}
        _ => parameters.invalid_as(c, "\"<value omitted>\"", "must be a valid JSON object"),
    }
}

/// `ValidateResourceClaim`.
pub(super) fn claim(body: &Object, c: &mut Check) {
    claim_spec(&At::root(body, "spec"), c);
}

/// `ValidateResourceClaimTemplate`.
pub(super) fn claim_template(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    let metadata = spec.get("metadata");
    labels(&metadata.get("labels"), c);
    annotations(&metadata.get("annotations"), c);
    claim_spec(&spec.get("spec"), c);
}

/// The immutable specification of claims and of their templates.
pub(super) fn spec_updated(body: &Object, old: &Object, ty: &str, c: &mut Check) {
    let (new, old) = (At::root(body, "spec"), At::root(old, "spec"));
    if new.value != old.value {
        let shown = go_syntax::value(c.version, new.decoded(c), ty);
        new.invalid_as(c, &shown, "field is immutable");
    }
}

/// The Go type of the specification of a kind.
pub(super) fn spec_type(kind: &str) -> &'static str {
    match kind {
        "ResourceClaimTemplate" => "resource.ResourceClaimTemplateSpec",
        _ => SPEC,
    }
}

/// The names of the requests of a claim, and of their subrequests after a slash.
fn request_names(devices: &At<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for request in devices.get("requests").items() {
        let name = request.get("name").text();
        names.insert(name.to_owned());
        for subrequest in request.get("firstAvailable").items() {
            names.insert(format!("{name}/{}", subrequest.get("name").text()));
        }
    }
    names
}

fn claim_spec(spec: &At<'_>, c: &mut Check) {
    let devices = spec.get("devices");
    let names = request_names(&devices);
    let (requests, constraints, configurations) = (
        devices.get("requests"),
        devices.get("constraints"),
        devices.get("config"),
    );
    at_most(&requests, ITEMS_MAX, c);
    let mut seen = BTreeSet::new();
    for request in requests.items() {
        self::request(&request, c);
        unique(request.get("name"), &mut seen, c);
    }
    at_most(&constraints, ITEMS_MAX, c);
    for constraint in constraints.items() {
        references(&constraint.get("requests"), &names, c);
        let (matching, distinct) = (
            constraint.get("matchAttribute"),
            constraint.get("distinctAttribute"),
        );
        if matching.is_set() {
            full_name(&matching, c);
        } else if distinct.is_set() {
            full_name(&distinct, c);
        } else if c.since(36) {
            let problem = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple \
                           fields are set";
            constraint.required(c, problem);
        } else {
            matching.required(c, "");
        }
    }
    at_most(&configurations, ITEMS_MAX, c);
    for configuration in configurations.items() {
        references(&configuration.get("requests"), &names, c);
        self::configuration(&configuration, c);
    }
}

/// `validateDeviceRequest`.
fn request(at: &At<'_>, c: &mut Check) {
    at.get("name").label(c);
    let (exactly, available) = (at.get("exactly"), at.get("firstAvailable"));
    match (exactly.is_set(), available.is_empty()) {
        (false, true) => at.required(c, ONE_KIND),
        (true, false) => {
            at.invalid_as(c, "null", &format!("{ONE_KIND}, but multiple fields are set"));
        }
        (true, true) => device_request(&exactly, c),
        (false, false) => {
            at_most(&available, SUBREQUESTS_MAX, c);
            let mut seen = BTreeSet::new();
            for subrequest in available.items() {
                subrequest.get("name").label(c);
                device_request(&subrequest, c);
                unique(subrequest.get("name"), &mut seen, c);
            }
        }
    }
}

/// What a request and a subrequest have in common.
fn device_request(at: &At<'_>, c: &mut Check) {
    let class = at.get("deviceClassName");
    if class.present(c) {
        class.subdomain(c);
    }
    selectors(&at.get("selectors"), c);
    let (mode, count) = (at.get("allocationMode"), at.get("count"));
    match mode.text() {
        "All" => {
            if count.number() != 0 {
                count.invalid(c, "must not be specified when allocationMode is 'All'");
            }
        }
        "ExactCount" => {
            if count.number() <= 0 {
                let shown = count.number().to_string();
                count.invalid_as(c, &shown, "must be greater than zero");
            }
        }
        _ => mode.unsupported(c, &["All", "ExactCount"]),
    }
    for toleration in at.get("tolerations").items() {
        self::toleration(&toleration, c);
    }
}

/// `validateDeviceToleration`.
fn toleration(at: &At<'_>, c: &mut Check) {
    let (key, value, operator, effect) = (
        at.get("key"),
        at.get("value"),
        at.get("operator"),
        at.get("effect"),
    );
    if !key.text().is_empty() {
        key.qualified_name(c);
    }
    match operator.text() {
        "Exists" if !value.text().is_empty() => {
            value.invalid(c, "must be empty for operator `Exists`");
        }
        "Exists" => {}
        "Equal" => value.problems(c, formats::label_value(c.version, value.text())),
        _ => operator.one_of(c, &["Equal", "Exists"]),
    }
    if !effect.text().is_empty() {
        effect.one_of(c, &["NoExecute", "NoSchedule", "None"]);
    }
}

/// Names of requests, or of subrequests after a slash.
fn references(list: &At<'_>, names: &BTreeSet<String>, c: &mut Check) {
    at_most(list, ITEMS_MAX, c);
    let mut seen = BTreeSet::new();
    for name in list.items() {
        let segments: Vec<&str> = name.text().split('/').collect();
        if segments.len() <= 2 {
            let version = c.version;
            for problem in segments.iter().flat_map(|part| formats::label(version, part)) {
                name.invalid_as(c, &name.shown(), &problem);
            }
        }
        if segments.len() > 2 || !names.contains(name.text()) {
            name.invalid(c, NO_REQUEST);
        }
        unique(name, &mut seen, c);
    }
}

/// `validateFullyQualifiedName`: a domain, a slash and an identifier.
fn full_name(at: &At<'_>, c: &mut Check) {
    if at.text().is_empty() {
        at.required(c, "name must not be empty");
        return;
    }
    let Some((domain, name)) = at.text().split_once('/') else {
        identifier(at, at.text(), c);
        at.invalid(c, "must include a domain");
        return;
    };
    if domain.is_empty() {
        at.required(c, "the domain must not be empty");
    } else {
        at.problems(c, formats::subdomain(c.version, domain));
    }
    if name.is_empty() {
        at.required(c, "the name must not be empty");
    } else {
        identifier(at, name, c);
    }
}

/// `IsCIdentifier`.
fn identifier(at: &At<'_>, name: &str, c: &mut Check) {
    const NAME_MAX: usize = 32;
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = !name.starts_with(|char: char| char.is_ascii_digit()) && name.bytes().all(is_known);
    if name.len() > NAME_MAX {
        at.too_long(c, NAME_MAX);
    }
    if !fits || name.is_empty() {
        let problem = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                       alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for \
                       validation is '[A-Za-z_][A-Za-z0-9_]*')";
        at.invalid_as(c, &quoted(name), problem);
    }
}

/// `ValidateResourceClaimStatusUpdate`.
pub(super) fn claim_status(body: &Object, old: &Object, is_deleting: bool, c: &mut Check) {
    let (status, old_status) = (At::root(body, "status"), At::root(old, "status"));
    let (reserved, allocation) = (status.get("reservedFor"), status.get("allocation"));
    at_most(&reserved, CONSUMERS_MAX, c);
    let mut seen = BTreeSet::new();
    for consumer in reserved.items() {
        for key in ["resource", "name", "uid"] {
            consumer.get(key).present(c);
        }
        unique(consumer.get("uid"), &mut seen, c);
    }
    if !reserved.is_empty() && !allocation.is_set() {
        reserved.forbidden(c, "may not be specified when `allocated` is not set");
    } else if is_deleting {
        let before: Vec<&Value> = old_status
            .get("reservedFor")
            .items()
            .map(|consumer| consumer.value)
            .collect();
        if reserved.items().any(|consumer| !before.contains(&consumer.value)) {
            let problem =
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            reserved.forbidden(c, problem);
        }
    }
    if allocation.is_set() && old_status.get("allocation").is_set() {
        pinned(
            &status,
            &old_status,
            "allocation",
            "*resource.AllocationResult",
            c,
        );
    } else if allocation.is_set() {
        let names = request_names(&At::root(body, "spec").get("devices"));
        allocated(&allocation, &names, c);
    }
}

/// `validateAllocationResult`.
fn allocated(at: &At<'_>, names: &BTreeSet<String>, c: &mut Check) {
    let results = at.get("devices").get("results");
    at_most(&results, ITEMS_MAX, c);
    for result in results.items() {
        let request = result.get("request");
        if !names.contains(request.text()) {
            request.invalid(c, NO_REQUEST);
        }
        driver_name(&result.get("driver"), c);
        pool_name(&result.get("pool"), c);
        result.get("device").label(c);
    }
    if at.get("nodeSelector").is_set() {
        node_selector(&at.get("nodeSelector"), c);
    }
}

fn pool_name(name: &At<'_>, c: &mut Check) {
    if !name.present(c) {
        return;
    }
    if name.text().len() > formats::SUBDOMAIN_MAX {
        name.too_long(c, formats::SUBDOMAIN_MAX);
    }
    for part in name.text().split('/') {
        for problem in formats::subdomain(c.version, part) {
            name.invalid_as(c, &quoted(part), &problem);
        }
    }
}

/// `ValidateResourceSlice` and its update.
pub(super) fn slice(body: &Object, old: Option<&Object>, c: &mut Check) {
    let spec = At::root(body, "spec");
    driver_name(&spec.get("driver"), c);
    let pool = spec.get("pool");
    pool_name(&pool.get("name"), c);
    let (count, generation) = (pool.get("resourceSliceCount"), pool.get("generation"));
    if count.number() <= 0 {
        count.invalid_as(c, &count.number().to_string(), "must be greater than zero");
    }
    if generation.number() < 0 {
        generation.invalid(c, "must be greater than or equal to zero");
    }
    if let Some(old) = old {
        let old = At::root(old, "spec");
        pinned(&pool, &old.get("pool"), "name", "string", c);
        pinned(&spec, &old, "driver", "string", c);
        pinned(&spec, &old, "nodeName", "*string", c);
    }
    nodes_of_slice(&spec, c);
    let (devices, counters) = (spec.get("devices"), spec.get("sharedCounters"));
    if !devices.is_empty() && !counters.is_empty() && c.since(35) {
        let problem = "only one of `sharedCounters` or `devices` is allowed";
        spec.invalid_as(c, "\"\"", problem);
    }
    at_most(&devices, DEVICES_MAX, c);
    let mut seen = BTreeSet::new();
    for device in devices.items() {
        device.get("name").label(c);
        for (_, attribute) in device.get("attributes").entries() {
            if attribute.len() != 1 {
                let shown = match attribute.is_empty() {
                    true => "\"\"".to_owned(),
                    false => go_syntax::value(c.version, attribute.value, "resource.DeviceAttribute"),
                };
                attribute.invalid_as(c, &shown, "exactly one value must be specified");
            }
        }
        unique(device.get("name"), &mut seen, c);
    }
}

/// Exactly one of the fields says which nodes reach the devices.
fn nodes_of_slice(spec: &At<'_>, c: &mut Check) {
    const FIELDS: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is \
                          required";
    let mut set = Vec::new();
    let name = spec.get("nodeName");
    if name.is_set() && name.text().is_empty() {
        name.invalid(c, "must be either unset or set to a non-empty string");
    } else if name.is_set() {
        set.push("`nodeName`");
        name.subdomain(c);
    }
    let selector = spec.get("nodeSelector");
    if selector.is_set() {
        set.push("`nodeSelector`");
        node_selector(&selector, c);
        let terms = selector.get("nodeSelectorTerms");
        if terms.len() != 1 {
            let problem = "must have exactly one node selector term";
            terms.invalid_typed(c, "[]core.NodeSelectorTerm", problem);
        }
    }
    for (key, shown) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
    ] {
        let flag = spec.get(key);
        if flag.flag() {
            set.push(shown);
        } else if flag.is_set() {
            flag.invalid(c, "must be either unset or set to true");
        }
    }
    match set.as_slice() {
        [_] => {}
        [] => spec.required(c, FIELDS),
        _ => {
            let shown = quoted(&format!("{{{}}}", set.join(", ")));
            spec.invalid_as(c, &shown, &format!("{FIELDS}, but multiple fields are set"));
        }
    }
}
