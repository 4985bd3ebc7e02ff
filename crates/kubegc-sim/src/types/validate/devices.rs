//! Classes, claims and slices of devices. CEL expressions are compiled elsewhere.
//!
//! # Upstream
//! [`pkg/apis/resource/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/resource/validation/validation.go).

use std::collections::BTreeSet;

use kubegc_core::Behavior;
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
/// The maximum number of devices of a slice where one of them has taints or consumes counters.
const ADVANCED_DEVICES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const TAINT_EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const NO_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest \
                          separated by '/'";
const ONE_KIND: &str = "exactly one of `exactly` or `firstAvailable` is required";
const SPEC: &str = "resource.ResourceClaimSpec";

/// Duplicates are errors of the item, not of its name.
const ITEMS_ARE_DUPLICATES: Behavior = Behavior::since_about(36, "validateSet of 1.36");
/// Empty parts of qualified names are invalid, not missing.
const PARTS_ARE_INVALID: Behavior = Behavior::since_about(36, "validateQualifiedName of 1.36");

/// The items of a list with a limited length; none of a longer one, which is an error.
fn at_most<'v>(list: &At<'v>, max: usize, c: &mut Check) -> Vec<At<'v>> {
    if list.len() > max {
        list.too_many(c, list.len(), max);
        return Vec::new();
    }
    list.items().collect()
}

/// An item with a name that no earlier one has.
fn unique<'v>(item: &At<'v>, key: &str, seen: &mut BTreeSet<&'v str>, c: &mut Check) {
    let name = item.get(key);
    if !seen.insert(name.text()) {
        let at = match c.version.has(ITEMS_ARE_DUPLICATES) {
            true => item,
            false => &name,
        };
        at.duplicate_as(c, &quoted(name.text()));
    }
}

/// `ValidateDeviceClass`.
pub(super) fn class(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    selectors(&spec.get("selectors"), c);
    for configuration in at_most(&spec.get("config"), ITEMS_MAX, c) {
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
    for selector in at_most(list, ITEMS_MAX, c) {
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

/// The metadata of objects that templates do not have, and its names in errors.
const OF_OBJECTS: [(&str, &str); 13] = [
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uid", "uID"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managedFields", "managedFields"),
];

/// `ValidateResourceClaimTemplate`.
pub(super) fn claim_template(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    let metadata = spec.get("metadata");
    labels(&metadata.get("labels"), c);
    annotations(&metadata.get("annotations"), c);
    for (key, name) in OF_OBJECTS {
        let is_zero = match metadata.get(key).decoded(c) {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            value => value.as_i64() == Some(0),
        };
        if !is_zero {
            metadata.get(name).forbidden(c, "cannot be set");
        }
    }
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
    let mut seen = BTreeSet::new();
    for request in at_most(&requests, ITEMS_MAX, c) {
        self::request(&request, c);
        unique(&request, "name", &mut seen, c);
    }
    for constraint in at_most(&constraints, ITEMS_MAX, c) {
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
    for configuration in at_most(&configurations, ITEMS_MAX, c) {
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
            let mut seen = BTreeSet::new();
            for subrequest in at_most(&available, SUBREQUESTS_MAX, c) {
                subrequest.get("name").label(c);
                device_request(&subrequest, c);
                unique(&subrequest, "name", &mut seen, c);
            }
        }
    }
}

/// Validates the fields that a request and a subrequest share.
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
        effect.one_of(c, &TAINT_EFFECTS);
    }
}

/// Names of requests, or of subrequests after a slash.
fn references(list: &At<'_>, names: &BTreeSet<String>, c: &mut Check) {
    let mut seen = BTreeSet::new();
    for name in at_most(list, ITEMS_MAX, c) {
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
        if !seen.insert(name.text()) {
            name.duplicate(c);
        }
    }
}

/// `validateFullyQualifiedName`: a domain, a slash and an identifier.
fn full_name(at: &At<'_>, c: &mut Check) {
    resource_name(at, at.text(), c);
    if !at.text().contains('/') {
        if c.version.has(PARTS_ARE_INVALID) {
            let problem = "a fully qualified name must be a domain and a name separated by a slash";
            at.invalid(c, problem);
        } else if !at.text().is_empty() {
            at.invalid(c, "must include a domain");
        }
    }
}

/// `validateQualifiedName`: an identifier, maybe after a domain and a slash.
fn resource_name(at: &At<'_>, name: &str, c: &mut Check) {
    const DOMAIN_MAX: usize = 63;
    let are_invalid = c.version.has(PARTS_ARE_INVALID);
    let missing = |problem: &str, c: &mut Check| match are_invalid {
        true => at.invalid_as(c, "\"\"", problem),
        false => at.required(c, problem),
    };
    if name.is_empty() && !are_invalid {
        at.required(c, "name required");
        return;
    }
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [name] => identifier(at, name, c),
        [domain, name] => {
            if domain.is_empty() {
                missing("the domain must not be empty", c);
            } else {
                if domain.len() > DOMAIN_MAX {
                    at.too_long(c, DOMAIN_MAX);
                }
                for problem in formats::subdomain(c.version, &domain.to_lowercase()) {
                    at.invalid_as(c, &quoted(domain), &problem);
                }
            }
            if name.is_empty() {
                missing("the name must not be empty", c);
            } else {
                identifier(at, name, c);
            }
        }
        // Upstream does not validate names with more slashes.
        _ => {}
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
    let mut seen = BTreeSet::new();
    for consumer in at_most(&reserved, CONSUMERS_MAX, c) {
        for key in ["resource", "name", "uid"] {
            consumer.get(key).present(c);
        }
        unique(&consumer, "uid", &mut seen, c);
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
    for result in at_most(&results, ITEMS_MAX, c) {
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
    let is_sent = |list: &At<'_>, c: &Check| !list.decoded(c).is_null();
    if is_sent(&devices, c) && is_sent(&counters, c) && c.since(35) {
        let problem = "only one of `sharedCounters` or `devices` is allowed";
        spec.invalid_as(c, "\"\"", problem);
    }
    let is_advanced = |device: At<'_>| {
        ["taints", "consumesCounters"]
            .iter()
            .any(|list| !device.get(list).is_empty())
    };
    let max = match c.since(35) && devices.items().any(is_advanced) {
        true => ADVANCED_DEVICES_MAX,
        false => DEVICES_MAX,
    };
    let selects_nodes = spec.get("perDeviceNodeSelection").flag();
    let mut seen = BTreeSet::new();
    for device in at_most(&devices, max, c) {
        self::device(&device, selects_nodes, c);
        unique(&device, "name", &mut seen, c);
    }
    if c.since(35) {
        let mut seen = BTreeSet::new();
        for set in at_most(&counters, COUNTER_SETS_MAX, c) {
            named_counters(&set, "name", c);
            unique(&set, "name", &mut seen, c);
        }
    }
}

/// `validateDevice`.
fn device(device: &At<'_>, selects_nodes: bool, c: &mut Check) {
    const ENTRIES_MAX: usize = 32;
    const TAINTS_MAX: usize = 16;
    const CONSUMED_SETS_MAX: usize = 2;
    device.get("name").label(c);
    let (attributes, capacity) = (device.get("attributes"), device.get("capacity"));
    let entries = attributes.len() + capacity.len();
    if entries > ENTRIES_MAX {
        let problem = format!("the total number of attributes and capacities must not exceed {ENTRIES_MAX}");
        device.invalid_as(c, &entries.to_string(), &problem);
    }
    for (name, attribute) in attributes.entries() {
        resource_name(&attributes, name, c);
        self::attribute(&attribute, c);
    }
    for (name, amount) in capacity.entries() {
        resource_name(&capacity, name, c);
        let policy = amount.get("requestPolicy");
        if policy.is_set() && !device.get("allowMultipleAllocations").flag() {
            policy.forbidden(c, "allowMultipleAllocations must be true");
        }
    }
    for taint in at_most(&device.get("taints"), TAINTS_MAX, c) {
        self::taint(&taint, c);
    }
    if c.since(35) {
        let mut seen = BTreeSet::new();
        for set in at_most(&device.get("consumesCounters"), CONSUMED_SETS_MAX, c) {
            named_counters(&set, "counterSet", c);
            unique(&set, "counterSet", &mut seen, c);
        }
    }
    nodes_of_device(device, selects_nodes, c);
    binding_conditions(device, c);
}

/// `validateDeviceAttribute`.
fn attribute(attribute: &At<'_>, c: &mut Check) {
    const VALUE_MAX: usize = 64;
    for key in ["string", "version"] {
        let value = attribute.get(key);
        if key == "version" && value.is_set() && !is_version(value.text()) {
            let problem = "must be a string compatible with semver.org spec 2.0.0";
            value.invalid(c, problem);
        }
        if value.text().len() > VALUE_MAX {
            value.too_long(c, VALUE_MAX);
        }
    }
    if attribute.len() != 1 {
        let shown = match attribute.is_empty() {
            true => "\"\"".to_owned(),
            false => go_syntax::value(c.version, attribute.value, "resource.DeviceAttribute"),
        };
        attribute.invalid_as(c, &shown, "exactly one value must be specified");
    }
}

/// Whether a text is a semantic version: three numbers, maybe identifiers after a dash and after a plus.
fn is_version(text: &str) -> bool {
    let is_number = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'))
    };
    let is_identifier = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let (text, build) = match text.split_once('+') {
        Some((text, build)) => (text, Some(build)),
        None => (text, None),
    };
    let (core, before) = match text.split_once('-') {
        Some((core, before)) => (core, Some(before)),
        None => (text, None),
    };
    let is_before = |part: &str| {
        is_identifier(part) && (is_number(part) || part.bytes().any(|byte| !byte.is_ascii_digit()))
    };
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && before.is_none_or(|before| before.split('.').all(is_before))
        && build.is_none_or(|build| build.split('.').all(is_identifier))
}

/// `validateDeviceTaint`.
fn taint(taint: &At<'_>, c: &mut Check) {
    taint.get("key").qualified_name(c);
    let (value, effect) = (taint.get("value"), taint.get("effect"));
    if !value.text().is_empty() {
        value.problems(c, formats::label_value(c.version, value.text()));
    }
    effect.one_of(c, &TAINT_EFFECTS);
}

/// `validateCounterSet` and `validateDeviceCounterConsumption`.
fn named_counters(set: &At<'_>, key: &str, c: &mut Check) {
    const COUNTERS_MAX: usize = 32;
    let (name, counters) = (set.get(key), set.get("counters"));
    if name.present(c) {
        name.label(c);
    }
    if counters.is_empty() {
        counters.required(c, "");
    } else if counters.len() > COUNTERS_MAX {
        counters.too_many(c, counters.len(), COUNTERS_MAX);
    } else {
        for (name, _) in counters.entries() {
            for problem in formats::label(c.version, name) {
                counters.invalid_as(c, &quoted(name), &problem);
            }
        }
    }
}

/// The nodes that reach a device, if the devices of the slice differ in them.
fn nodes_of_device(device: &At<'_>, selects_nodes: bool, c: &mut Check) {
    const FIELDS: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                          `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let [name, selector, all] = ["nodeName", "nodeSelector", "allNodes"].map(|key| device.get(key));
    if !selects_nodes {
        if [&name, &selector, &all].iter().any(|field| field.is_set()) {
            let problem = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is \
                           set to true in the ResourceSlice spec";
            device.invalid_as(c, "null", problem);
        }
        return;
    }
    let mut set = Vec::new();
    if !name.text().is_empty() {
        set.push("`nodeName`");
        name.subdomain(c);
    } else if name.is_set() {
        name.invalid(c, "must not be empty");
    }
    if selector.is_set() {
        set.push("`nodeSelector`");
        node_selector(&selector, c);
    }
    if all.flag() {
        set.push("`allNodes`");
    } else if all.is_set() {
        all.invalid(c, "must be either unset or set to true");
    }
    match set.as_slice() {
        [_] => {}
        [] => device.required(c, FIELDS),
        _ => {
            let shown = quoted(&format!("{{{}}}", set.join(", ")));
            device.invalid_as(c, &shown, FIELDS);
        }
    }
}

/// `validateDeviceBindingParameters`.
fn binding_conditions(device: &At<'_>, c: &mut Check) {
    const CONDITIONS_MAX: usize = 4;
    let (conditions, failures) = (
        device.get("bindingConditions"),
        device.get("bindingFailureConditions"),
    );
    for list in [&conditions, &failures] {
        for condition in at_most(list, CONDITIONS_MAX, c) {
            condition.qualified_name(c);
        }
    }
    let mut known = BTreeSet::new();
    for condition in conditions.items() {
        if !known.insert(condition.text()) {
            condition.duplicate(c);
        }
    }
    let mut seen = BTreeSet::new();
    for failure in failures.items() {
        if !seen.insert(failure.text()) {
            failure.duplicate(c);
        }
        if known.contains(failure.text()) {
            let problem = "bindingFailureConditions must not overlap with bindingConditions";
            failure.invalid(c, problem);
        }
    }
    if conditions.is_empty() && !failures.is_empty() {
        let shown = conditions.decoded(c).to_string();
        let problem = "bindingConditions are required to use bindingFailureConditions";
        conditions.invalid_as(c, &shown, problem);
    }
    if failures.is_empty() && !conditions.is_empty() {
        let shown = failures.decoded(c).to_string();
        let problem = "bindingFailureConditions are required to use bindingConditions";
        failures.invalid_as(c, &shown, problem);
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
