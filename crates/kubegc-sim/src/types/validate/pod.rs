//! Pods and pod templates.
//!
//! # Upstream
//! `ValidatePodSpec` and its callees in
//! [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/validation/validation.go),
//! 1.20.2 and newer.

use std::collections::BTreeSet;

use kubegc_core::{Behavior, Quantity};
use serde_json::Value;

use super::super::{
    field::{At, Check},
    qos,
};
use super::{amounts, apply};
use crate::{formats, status::quoted};

/// Search paths may have underscores, and one may be a dot.
const SEARCH_PATHS_ARE_RELAXED: Behavior =
    Behavior::since(33, 0, "the feature gate RelaxedDNSSearchValidation is on");

/// The costs of the deletion of pods are numbers.
const COSTS_ARE_NUMBERS: Behavior = Behavior::since(22, 0, "the feature gate PodDeletionCost is on");
/// Requests of containers need not be requested by the pod.
const MISSING_REQUESTS_ARE_SKIPPED: Behavior =
    Behavior::since_about(34, "validatePodResourceConsistency of 1.34");

fn pod_annotations(annotations: &At<'_>, spec: &At<'_>, c: &mut Check) {
    for (key, value) in annotations.entries() {
        if key == "kubernetes.io/config.mirror" && spec.get("nodeName").text().is_empty() {
            value.invalid(c, "must set spec.nodeName if mirror pod annotation is set");
        }
        if key == "controller.kubernetes.io/pod-deletion-cost" && c.version.has(COSTS_ARE_NUMBERS) {
            let text = value.text();
            let begins = text == "0" || text.starts_with(|c: char| matches!(c, '-' | '1'..='9'));
            if !begins || text.parse::<i32>().is_err() {
                value.invalid(c, "must be a 32bit integer");
            }
        }
        if key == "seccomp.security.alpha.kubernetes.io/pod"
            || key.starts_with("container.seccomp.security.alpha.kubernetes.io/")
        {
            let named = value.under(annotations, key);
            if let Some(rest) = value.text().strip_prefix("localhost/") {
                let (value, path) = (&Value::from(rest), named.path);
                apply("DescendingPath", &At { value, path }, c);
            } else if !matches!(value.text(), "runtime/default" | "docker/default" | "unconfined") {
                named.invalid(c, "must be a valid seccomp profile");
            }
        }
        if let Some(container) = key.strip_prefix("container.apparmor.security.beta.kubernetes.io/") {
            let lists = ["containers", "initContainers", "ephemeralContainers"];
            let mut names = lists.iter().flat_map(|list| spec.get(list).items());
            if !names.any(|one| one.get("name").text() == container) {
                value.invalid_as(c, &quoted(container), "container not found");
            }
            let profile = value.text();
            if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/")
            {
                value.invalid(c, &format!("invalid AppArmor profile name: {}", quoted(profile)));
            }
        }
    }
}

/// `ValidatePodSpecificAnnotations` of a pod.
pub(super) fn annotations_of_pod(pod: &At<'_>, c: &mut Check) {
    pod_annotations(&pod.get("metadata").get("annotations"), &pod.get("spec"), c);
}

/// The same of a template; upstream omits `metadata` from their paths.
pub(super) fn annotations_of_template(template: &At<'_>, c: &mut Check) {
    let own = template.get("metadata").get("annotations");
    pod_annotations(&own.under(template, "annotations"), &template.get("spec"), c);
}

/// The resources of a pod in addition to those of its containers, validated as the limits of a container.
pub(super) fn overhead(overhead: &At<'_>, c: &mut Check) {
    let limits = overhead.named("limits");
    let check_name = amounts::container_resource;
    amounts::requirements(&overhead.get("requests"), &limits, overhead, check_name, c);
}

/// `validatePodResources`: resources that the containers of a pod share.
pub(super) fn resources(spec: &At<'_>, c: &mut Check) {
    let at = spec.get("resources");
    let (requests, limits) = (at.get("requests"), at.get("limits"));
    let check_name = |name: &str, amount: &At<'_>, c: &mut Check| {
        let before = c.causes.len();
        amounts::resource_name(name, amount, c);
        let is_supported = matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
        if c.causes.len() == before && !is_supported {
            amount.unsupported_as(c, &quoted(name), &["cpu", "hugepages-", "memory"]);
        }
    };
    amounts::requirements(&requests, &limits, &at, check_name, c);
    let of = |at: &At<'_>| Quantity::parse(at.text()).unwrap_or_default();
    for (name, sum) in qos::amounts_of_containers(spec.value, "requests") {
        let request = requests.key(&name);
        let is_compared = request.is_set() || !c.version.has(MISSING_REQUESTS_ARE_SKIPPED);
        if is_compared && sum > of(&request) {
            let shown = quoted(&of(&request).to_string());
            let problem = format!("must be greater than or equal to aggregate container requests of {sum}");
            request.invalid_as(c, &shown, &problem);
        }
    }
    for (index, container) in spec.get("containers").items().enumerate() {
        for (name, amount) in container.get("resources").get("limits").entries() {
            let limit = limits.key(name);
            if limit.is_set() && of(&amount) > of(&limit) {
                let path = at.get(&format!("containers[{index}]")).key(name).get("limits");
                let problem = format!("must be less than or equal to pod limits of {}", limit.text());
                path.invalid_as(c, &amount.shown(), &problem);
            }
        }
    }
}

pub(super) fn search_paths(searches: &At<'_>, c: &mut Check) {
    let max = if c.since(26) { 2048 } else { 256 };
    let characters: usize = searches.items().map(|search| search.text().len() + 1).sum();
    if characters > max + 1 {
        let problem =
            format!("must not have more than {max} characters (including spaces) in the search list");
        searches.invalid_typed(c, "[]string", &problem);
    }
    for search in searches.items() {
        let text = search.text().strip_suffix('.').unwrap_or(search.text());
        let problems = match c.version.has(SEARCH_PATHS_ARE_RELAXED) {
            true if search.text() == "." => Vec::new(),
            true => formats::subdomain_with_underscores(text),
            false => formats::subdomain(c.version, text),
        };
        search.problems_of(c, text, problems);
    }
}

/// Profiles of AppArmor in fields and in annotations must be the same.
///
/// # Upstream
/// `validateAppArmorAnnotationsAndFieldsMatchOnCreate`.
pub(super) fn app_armor_matches(pod: &At<'_>, c: &mut Check) {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let (spec, annotations) = (pod.get("spec"), pod.get("metadata").get("annotations"));
    if !c.since(30) || spec.get("os").get("name").text() == "windows" {
        return;
    }
    let of_pod = spec.get("securityContext").get("appArmorProfile");
    for container in ["initContainers", "containers"]
        .iter()
        .flat_map(|list| spec.get(list).items())
    {
        let own = container.get("securityContext").get("appArmorProfile");
        let profile = if own.is_set() { &own } else { &of_pod };
        let annotation = annotations.key(&format!("{PREFIX}{}", container.get("name").text()));
        if !annotation.is_set() || !profile.is_set() {
            continue;
        }
        let (text, name) = (annotation.text(), profile.get("localhostProfile").text());
        let has_type = match profile.get("type").text() {
            "Unconfined" => text == "unconfined",
            "RuntimeDefault" => text == "runtime/default",
            "Localhost" => text.starts_with("localhost/"),
            _ => true,
        };
        if !has_type {
            let kind = own.get("type");
            kind.forbidden(c, "apparmor type in annotation and field must match");
        } else if text.strip_prefix("localhost/").is_some_and(|given| given != name) {
            let field = own.get("localhostProfile");
            field.forbidden(c, "apparmor profile in annotation and field must match");
        }
    }
}

/// `checkHostPortConflicts` of a list of containers, or of one init container.
pub(super) fn host_ports(containers: &At<'_>, c: &mut Check) {
    let all = containers.items();
    let one = containers.value.is_object().then(|| containers.clone());
    let mut host_ports = BTreeSet::new();
    for port in all
        .chain(one)
        .flat_map(|container| container.get("ports").items())
    {
        let host = port.get("hostPort");
        let (protocol, ip) = (port.get("protocol").text(), port.get("hostIP").text());
        let key = format!("{protocol}/{ip}/{}", host.number());
        if host.number() != 0 && !host_ports.insert(key.clone()) {
            host.duplicate_as(c, &quoted(&key));
        }
    }
}

/// `validateTopologySpreadConstraints`: of equal constraints, each but the last one is reported.
pub(super) fn spread_constraints(at: &At<'_>, c: &mut Check) {
    fn pair<'v>(constraint: &At<'v>) -> [&'v str; 2] {
        ["topologyKey", "whenUnsatisfiable"].map(|key| constraint.get(key).text())
    }
    for (index, constraint) in at.items().enumerate() {
        apply("SpreadConstraint", &constraint, c);
        let [key, action] = pair(&constraint);
        if at
            .items()
            .skip(index + 1)
            .any(|other| pair(&other) == [key, action])
        {
            let shown = quoted(&format!("{{{key}, {action}}}"));
            let both = constraint.get("{topologyKey, whenUnsatisfiable}");
            both.duplicate_as(c, &shown);
        }
        apply("TopologySpreadConstraint", &constraint, c);
    }
}

/// The key of a field with one, such as `metadata.labels['key']`.
pub(super) fn subscript(reference: &At<'_>, c: &mut Check) {
    let path = reference.get("fieldPath");
    let text = path.text();
    let Some((field, key)) = text.strip_suffix("']").and_then(|text| text.split_once("['")) else {
        return;
    };
    let problems = match field {
        "metadata.annotations" => formats::qualified_name(c.version, &key.to_lowercase()),
        "metadata.labels" => formats::qualified_name(c.version, key),
        _ => {
            let problem =
                format!("error converting fieldPath: field label does not support subscript: {text}");
            path.invalid(c, &problem);
            return;
        }
    };
    reference.problems_of(c, key, problems);
}

/// Begins the validation of a pod or template: no volume is valid yet.
pub(super) fn no_volumes(_: &At<'_>, c: &mut Check) {
    c.volumes.clear();
}

/// Adds a valid volume.
pub(super) fn add_volume(volume: &At<'_>, c: &mut Check) {
    let sources = volume.fields(["persistentVolumeClaim", "ephemeral"]);
    let may_be_device = sources.iter().any(At::is_set);
    c.volumes
        .push((volume.get("name").text().to_owned(), may_be_device));
}

/// Whether a valid volume has this name.
pub(super) fn is_volume(name: &At<'_>, c: &Check<'_>) -> bool {
    c.volumes.iter().any(|(known, _)| known == name.text())
}

/// Whether the valid volume of this name may be a block device.
pub(super) fn is_device(name: &At<'_>, c: &Check<'_>) -> bool {
    let mut named = c.volumes.iter().filter(|(known, _)| known == name.text());
    named.next().is_some_and(|(_, may_be_device)| *may_be_device)
}
