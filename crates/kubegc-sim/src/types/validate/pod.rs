//! Pods and pod templates.
//!
//! # Upstream
//! `ValidatePodSpec` and its callees in `pkg/apis/core/validation/validation.go`, 1.20.2 and newer.

use std::collections::BTreeSet;

use kubegc_core::{Behavior, Quantity};
use serde_json::{Map, Value};

use super::super::{
    field::{At, Check},
    qos,
};
use super::{
    amounts,
    container::{self, containers},
    scheduling, security,
    selector::labels,
    volumes::{descending, volumes},
};
use crate::{formats, status::quoted};

/// Each address of a name server and each search path is shown where it is.
const ADDRESSES_ARE_VALIDATED_ALIKE: Behavior = Behavior::since(30, 0, "kubernetes #122550");
/// Search paths may have underscores, and one may be a dot.
const SEARCH_PATHS_ARE_RELAXED: Behavior =
    Behavior::since(33, 0, "the feature gate RelaxedDNSSearchValidation is on");

/// The costs of the deletion of pods are numbers.
const COSTS_ARE_NUMBERS: Behavior = Behavior::since(22, 0, "the feature gate PodDeletionCost is on");
/// Requests of containers need not be requested by the pod.
const MISSING_REQUESTS_ARE_SKIPPED: Behavior =
    Behavior::since_about(34, "validatePodResourceConsistency of 1.34");

/// A new pod.
pub(super) fn created(body: &Map<String, Value>, c: &mut Check) {
    whole(body, c);
    let spec = At::root(body, "spec");
    if !spec.get("ephemeralContainers").is_empty() {
        spec.get("ephemeralContainers")
            .forbidden(c, "cannot be set on create");
    }
    let node = spec.get("nodeName");
    if !node.text().is_empty() && !spec.get("schedulingGates").is_empty() {
        node.forbidden(c, "cannot be set until all schedulingGates have been cleared");
    }
    let annotations = At::root(body, "metadata").get("annotations");
    security::app_armor_matches(&annotations, &spec, c);
}

/// `validatePodMetadataAndSpec`.
pub(super) fn whole(body: &Map<String, Value>, c: &mut Check) {
    let metadata = At::root(body, "metadata");
    pod_annotations(&metadata.get("annotations"), &At::root(body, "spec"), c);
    let spec = At::root(body, "spec");
    pod_spec(&spec, true, c);
    if spec.get("serviceAccountName").text().is_empty() {
        for volume in spec.get("volumes").items() {
            for source in volume.get("projected").get("sources").items() {
                let token = source.get("serviceAccountToken");
                if token.is_set() {
                    token.forbidden(c, "must not be specified when serviceAccountName is not set");
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for container in spec.get(list).items() {
            let image = container.get("image");
            if image.text().trim() != image.text() {
                image.invalid(c, "must not have leading or trailing whitespace");
            }
        }
    }
}

/// `ValidatePodSpecificAnnotations`.
pub(super) fn pod_annotations(annotations: &At<'_>, spec: &At<'_>, c: &mut Check) {
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
        let named = annotations.named(key);
        if key == "seccomp.security.alpha.kubernetes.io/pod"
            || key.starts_with("container.seccomp.security.alpha.kubernetes.io/")
        {
            let text = value.text();
            let named = At {
                value: value.value,
                path: named.path,
            };
            match text {
                "runtime/default" | "docker/default" | "unconfined" => {}
                _ => match text.strip_prefix("localhost/") {
                    Some(rest) => {
                        let rest = Value::from(rest);
                        let rest = At {
                            value: &rest,
                            path: named.path,
                        };
                        descending(&rest, c);
                    }
                    None => named.invalid(c, "must be a valid seccomp profile"),
                },
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

/// `ValidatePodTemplateSpec`.
pub(super) fn template(at: &At<'_>, c: &mut Check) {
    template_metadata(at, c);
    pod_spec(&at.get("spec"), false, c);
    let ephemeral = at.get("spec").get("ephemeralContainers");
    if !ephemeral.is_empty() {
        ephemeral.forbidden(c, "ephemeral containers not allowed in pod template");
    }
}

/// Labels and annotations of a template. Upstream omits `metadata` from their paths.
pub(super) fn template_metadata(at: &At<'_>, c: &mut Check) {
    let [own_labels, own_annotations] = ["labels", "annotations"].map(|key| At {
        value: at.get("metadata").get(key).value,
        path: at.get(key).path,
    });
    labels(&own_labels, c);
    annotations(&own_annotations, c);
    pod_annotations(&own_annotations, &at.get("spec"), c);
}

/// `ValidateAnnotations`.
pub(super) fn annotations(at: &At<'_>, c: &mut Check) {
    const BYTES_MAX: usize = 256 * 1024;
    let mut bytes = 0;
    for (key, value) in at.entries() {
        bytes += key.len() + value.text().len();
        let shown = quoted(key);
        for problem in formats::qualified_name(c.version, &key.to_lowercase()) {
            at.invalid_as(c, &shown, &problem);
        }
    }
    if bytes > BYTES_MAX {
        at.too_long(c, BYTES_MAX);
    }
}

/// `ValidatePodSpec`.
fn pod_spec(spec: &At<'_>, is_pod: bool, c: &mut Check) {
    let pod = container::Pod {
        spec: spec.clone(),
        volumes: volumes(&spec.get("volumes"), c),
    };
    resource_claims(&spec.get("resourceClaims"), c);
    containers(&spec.get("containers"), false, &pod, c);
    container::init_containers(&spec.get("initContainers"), &pod, c);
    container::ephemeral_containers(&spec.get("ephemeralContainers"), &pod, c);
    resources(spec, c);
    security::host_ports(spec, is_pod, c);
    spec.get("restartPolicy")
        .one_of(c, &["Always", "OnFailure", "Never"]);
    spec.get("dnsPolicy")
        .one_of(c, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    labels(&spec.get("nodeSelector"), c);
    security::of_pod(spec, c);
    scheduling::affinity(&spec.get("affinity"), c);
    dns_config(spec, c);
    for gate in spec.get("readinessGates").items() {
        gate.get("conditionType").qualified_name(c);
    }
    scheduling::gates(&spec.get("schedulingGates"), c);
    scheduling::spread_constraints(&spec.get("topologySpreadConstraints"), c);
    security::host_users(spec, c);
    hostname_override(spec, c);
    let name = |key: &str, c: &mut Check| {
        if !spec.get(key).text().is_empty() {
            spec.get(key).subdomain(c);
        }
    };
    name("serviceAccountName", c);
    name("nodeName", c);
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.is_set() {
        deadline.problems(c, formats::in_range(deadline.number(), 1, i32::MAX.into()));
    }
    for key in ["hostname", "subdomain"] {
        if !spec.get(key).text().is_empty() {
            spec.get(key).label(c);
        }
    }
    scheduling::tolerations(&spec.get("tolerations"), c);
    host_aliases(&spec.get("hostAliases"), c);
    name("priorityClassName", c);
    if spec.get("runtimeClassName").is_set() {
        spec.get("runtimeClassName").subdomain(c);
    }
    let policy = spec.get("preemptionPolicy");
    if policy.is_set() {
        policy.one_of(c, &["PreemptLowerPriority", "Never"]);
    }
    let overhead = spec.get("overhead");
    // An overhead is validated as the limits of a container.
    let limits = At {
        value: overhead.value,
        path: overhead.get("limits").path,
    };
    let check_name = amounts::container_resource;
    amounts::requirements(&overhead.get("requests"), &limits, &overhead, check_name, c);
    security::operating_system(spec, c);
}

/// `validatePodHostName`.
fn hostname_override(spec: &At<'_>, c: &mut Check) {
    const BYTES_MAX: usize = 64;
    let name = spec.get("hostnameOverride");
    if !name.is_set() {
        return;
    }
    for key in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.get(key).flag() {
            name.forbidden(c, &format!("may not be specified when {key} is true"));
        }
    }
    if name.text().len() > BYTES_MAX {
        name.too_long(c, BYTES_MAX);
    }
    name.subdomain(c);
}

/// `ValidateHostAliases`.
fn host_aliases(aliases: &At<'_>, c: &mut Check) {
    for alias in aliases.items() {
        let ip = alias.get("ip");
        if c.version.has(ADDRESSES_ARE_VALIDATED_ALIKE) {
            for problem in formats::ip(c.version, ip.text()) {
                ip.invalid_as(c, &quoted(ip.text()), &problem);
            }
        } else if formats::parse_ip(ip.text()).is_none() {
            aliases
                .get("ip")
                .invalid_as(c, &ip.shown(), "must be valid IP address");
        }
        for name in alias.get("hostnames").items() {
            if c.version.has(ADDRESSES_ARE_VALIDATED_ALIKE) {
                name.subdomain(c);
                continue;
            }
            for problem in formats::subdomain(c.version, name.text()) {
                aliases.get("hostnames").invalid_as(c, &name.shown(), &problem);
            }
        }
    }
}

/// `validatePodResourceClaims`.
fn resource_claims(at: &At<'_>, c: &mut Check) {
    let mut names = BTreeSet::new();
    for claim in at.items() {
        let name = claim.get("name");
        if name.text().is_empty() {
            name.required(c, "");
        } else if !names.insert(name.text()) {
            name.duplicate(c);
        } else {
            name.label(c);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"].map(|key| claim.get(key));
        let problem = match sources.each_ref().map(At::is_set) {
            [true, true] => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            [false, false] => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => "",
        };
        if !problem.is_empty() {
            claim.invalid_typed(c, "core.PodResourceClaim", problem);
        }
        for source in sources.iter().filter(|source| source.is_set()) {
            source.subdomain(c);
        }
    }
}

/// `validatePodResources`: resources that the containers of a pod share.
fn resources(spec: &At<'_>, c: &mut Check) {
    let at = spec.get("resources");
    if !at.is_set() {
        return;
    }
    if spec.get("os").get("name").text() == "windows" {
        at.forbidden(c, "may not be set for a windows pod");
        return;
    }
    let (claims, requests, limits) = (at.get("claims"), at.get("requests"), at.get("limits"));
    if !claims.is_empty() {
        claims.forbidden(c, "claims may not be set for Resources at pod-level");
    }
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

fn dns_config(spec: &At<'_>, c: &mut Check) {
    let config = spec.get("dnsConfig");
    let servers = config.get("nameservers");
    if spec.get("dnsPolicy").text() == "None" {
        if !config.is_set() {
            config.required(c, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.is_empty() {
            servers.required(
                c,
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            );
            return;
        }
    }
    let version = c.version;
    let texts =
        |at: &At<'_>| super::go_strings(version, &at.items().map(|item| item.text()).collect::<Vec<_>>());
    if servers.len() > 3 {
        servers.invalid_as(c, &texts(&servers), "must not have more than 3 nameservers");
    }
    for server in servers.items() {
        if c.version.has(ADDRESSES_ARE_VALIDATED_ALIKE) {
            server.problems(c, formats::ip(c.version, server.text()));
        } else if formats::parse_ip(server.text()).is_none() {
            server.invalid(c, "must be valid IP address");
        }
    }
    let (paths_max, characters_max) = if c.since(26) { (32, 2048) } else { (6, 256) };
    let searches = config.get("searches");
    if searches.len() > paths_max {
        let problem = format!("must not have more than {paths_max} search paths");
        searches.invalid_as(c, &texts(&searches), &problem);
    }
    let characters = searches
        .items()
        .map(|search| search.text().len() + 1)
        .sum::<usize>();
    if characters > characters_max + 1 {
        let problem = format!(
            "must not have more than {characters_max} characters (including spaces) in the search list"
        );
        searches.invalid_as(c, &texts(&searches), &problem);
    }
    for search in searches.items() {
        let text = search.text().strip_suffix('.').unwrap_or(search.text());
        let problems = match c.version.has(SEARCH_PATHS_ARE_RELAXED) {
            true if search.text() == "." => Vec::new(),
            true => formats::subdomain_with_underscores(text),
            false => formats::subdomain(c.version, text),
        };
        for problem in problems {
            search.invalid_as(c, &quoted(text), &problem);
        }
    }
    for option in config.get("options").items() {
        if option.get("name").text().is_empty() {
            option.required(c, "must not be empty");
        }
    }
}
