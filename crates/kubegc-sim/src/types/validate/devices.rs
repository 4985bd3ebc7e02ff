//! Classes, claims and slices of devices. CEL expressions are compiled elsewhere.
//!
//! # Upstream
//! [`pkg/apis/resource/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/resource/validation/validation.go).

use std::collections::BTreeSet;

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use crate::{formats, status::quoted};

/// Empty parts of qualified names are invalid, not missing.
const PARTS_ARE_INVALID: Behavior = Behavior::since_about(36, "validateQualifiedName of 1.36");

/// The names of the requests of a claim or of a template of one, and of their subrequests after a slash.
fn request_names(spec: &At<'_>) -> BTreeSet<String> {
    let spec = match spec.get("spec").is_set() {
        true => spec.get("spec"),
        false => spec.clone(),
    };
    let mut names = BTreeSet::new();
    for request in spec.get("devices").get("requests").items() {
        let name = request.get("name").text();
        names.insert(name.to_owned());
        for subrequest in request.get("firstAvailable").items() {
            names.insert(format!("{name}/{}", subrequest.get("name").text()));
        }
    }
    names
}

/// The name of a request of the claim, or of a subrequest after a slash.
pub(super) fn request_name(name: &At<'_>, c: &mut Check) {
    let segments: Vec<&str> = name.text().split('/').collect();
    if segments.len() <= 2 {
        let version = c.version;
        let problems = segments.iter().flat_map(|part| formats::label(version, part));
        name.problems(c, problems.collect());
    }
}

pub(super) fn is_request(name: &At<'_>, c: &Check<'_>) -> bool {
    name.text().matches('/').count() < 2 && request_names(&c.root().get("spec")).contains(name.text())
}

/// Whether a claim gets consumers.
pub(super) fn added_consumers(reserved: &At<'_>, c: &Check<'_>) -> bool {
    let before = At::of_object(reserved.old(c));
    let is_new = |consumer: At<'_>| before.items().all(|other| other.value != consumer.value);
    reserved.items().any(is_new)
}

/// `validateFullyQualifiedName`: a domain, a slash and an identifier.
pub(super) fn full_name(at: &At<'_>, c: &mut Check) {
    resource_name(at, c);
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
pub(super) fn resource_name(at: &At<'_>, c: &mut Check) {
    const DOMAIN_MAX: usize = 63;
    let name = at.text();
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

pub(super) fn pool_name(name: &At<'_>, c: &mut Check) {
    for part in name.text().split('/') {
        name.problems_of(c, part, formats::subdomain(c.version, part));
    }
}

/// The number of attributes and capacities of a device.
pub(super) fn attributes(device: &At<'_>, c: &mut Check) {
    const ENTRIES_MAX: usize = 32;
    let entries = device.get("attributes").len() + device.get("capacity").len();
    if entries > ENTRIES_MAX {
        let problem = format!("the total number of attributes and capacities must not exceed {ENTRIES_MAX}");
        device.invalid_as(c, &entries.to_string(), &problem);
    }
}

/// Exactly one of some fields says which nodes reach devices.
fn one_of(at: &At<'_>, fields: &[&str], problem: &str, if_many: &str, c: &mut Check) {
    let is_given = |field: &At<'_>| field.flag() || !field.text().is_empty() || field.value.is_object();
    let given = fields.iter().filter(|key| is_given(&at.get(key)));
    let given: Vec<String> = given.map(|key| format!("`{key}`")).collect();
    match given.as_slice() {
        [_] => {}
        [] => at.required(c, problem),
        _ => {
            let shown = quoted(&format!("{{{}}}", given.join(", ")));
            at.invalid_as(c, &shown, &format!("{problem}{if_many}"));
        }
    }
}

pub(super) fn nodes_of_device(device: &At<'_>, c: &mut Check) {
    let problem = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                   `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    one_of(device, &["nodeName", "nodeSelector", "allNodes"], problem, "", c);
}

pub(super) fn nodes_of_slice(spec: &At<'_>, c: &mut Check) {
    let fields = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
    let problem =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    one_of(spec, &fields, problem, ", but multiple fields are set", c);
}
