//! Pods and pod templates.
//!
//! # Upstream
//! `ValidatePodSpec` and its callees in `pkg/apis/core/validation/validation.go`, 1.20.2.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::field::{At, Check};
use super::{
    container::{self, containers},
    selector::{label_selector, labels, node_selector, node_selector_term},
    volumes::{descending, volumes},
};
use crate::{formats, status::quoted};

/// A new pod.
pub(super) fn created(body: &Map<String, Value>, c: &mut Check) {
    whole(body, c);
    let spec = At::root(body, "spec");
    if !spec.get("ephemeralContainers").is_empty() {
        spec.get("ephemeralContainers")
            .forbidden(c, "cannot be set on create");
    }
}

/// `validatePodMetadataAndSpec`.
fn whole(body: &Map<String, Value>, c: &mut Check) {
    let metadata = At::root(body, "metadata");
    pod_annotations(&metadata.get("annotations"), &At::root(body, "spec"), c);
    let spec = At::root(body, "spec");
    pod_spec(&spec, c);
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
fn pod_annotations(annotations: &At<'_>, spec: &At<'_>, c: &mut Check) {
    for (key, value) in annotations.entries() {
        if key == "kubernetes.io/config.mirror" && spec.get("nodeName").text().is_empty() {
            value.invalid(c, "must set spec.nodeName if mirror pod annotation is set");
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
    pod_spec(&at.get("spec"), c);
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
pub(super) fn pod_spec(spec: &At<'_>, c: &mut Check) {
    let volumes = volumes(&spec.get("volumes"), c);
    containers(&spec.get("containers"), false, &volumes, c);
    container::init_containers(&spec.get("initContainers"), &spec.get("containers"), &volumes, c);
    spec.get("restartPolicy")
        .one_of(c, &["Always", "OnFailure", "Never"]);
    spec.get("dnsPolicy")
        .one_of(c, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    labels(&spec.get("nodeSelector"), c);
    security_context(spec, c);
    affinity(&spec.get("affinity"), c);
    dns_config(spec, c);
    for gate in spec.get("readinessGates").items() {
        gate.get("conditionType").qualified_name(c);
    }
    spread_constraints(&spec.get("topologySpreadConstraints"), c);
    for key in [
        "serviceAccountName",
        "nodeName",
        "priorityClassName",
        "runtimeClassName",
    ] {
        let name = spec.get(key);
        if name.is_set() && (!name.text().is_empty() || key == "runtimeClassName") {
            name.subdomain(c);
        }
    }
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.is_set() {
        deadline.problems(c, formats::in_range(deadline.number(), 1, i32::MAX.into()));
    }
    for key in ["hostname", "subdomain"] {
        if !spec.get(key).text().is_empty() {
            spec.get(key).label(c);
        }
    }
    tolerations(&spec.get("tolerations"), c);
    let aliases = spec.get("hostAliases");
    for alias in aliases.items() {
        let ip = alias.get("ip");
        if c.since(31) {
            for problem in formats::ip(c.version, ip.text()) {
                ip.invalid_as(c, &quoted(ip.text()), &problem);
            }
        } else if formats::parse_ip(ip.text()).is_none() {
            aliases
                .get("ip")
                .invalid_as(c, &ip.shown(), "must be valid IP address");
        }
        for name in alias.get("hostnames").items() {
            for problem in formats::subdomain(c.version, name.text()) {
                aliases.get("hostnames").invalid_as(c, &name.shown(), &problem);
            }
        }
    }
    let policy = spec.get("preemptionPolicy");
    if policy.is_set() {
        policy.one_of(c, &["PreemptLowerPriority", "Never"]);
    }
    if spec.get("overhead").is_set() {
        container::requirements(
            &spec.get("overhead"),
            &spec.get("overhead").get("limits"),
            None,
            c,
        );
    }
}

fn security_context(spec: &At<'_>, c: &mut Check) {
    let context = spec.get("securityContext");
    if spec.get("hostNetwork").flag() {
        for container in spec.get("containers").items() {
            for port in container.get("ports").items() {
                let number = port.get("containerPort");
                let host_port = port.get("hostPort").number();
                // Templates get no host ports by default since 1.28.
                if host_port != number.number() && !(host_port == 0 && c.since(28)) {
                    number.invalid(c, "must match `hostPort` when `hostNetwork` is true");
                }
            }
        }
    }
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        container::id(&context.get(key), c);
    }
    for group in context.get("supplementalGroups").items() {
        container::id(&group, c);
    }
    if spec.get("shareProcessNamespace").flag() && spec.get("hostPID").flag() {
        let problem = "ShareProcessNamespace and HostPID cannot both be enabled";
        context
            .get("shareProcessNamespace")
            .invalid_as(c, "true", problem);
    }
    sysctls(&context.get("sysctls"), c);
    let change = context.get("fsGroupChangePolicy");
    const CHANGES: [&str; 2] = ["Always", "OnRootMismatch"];
    if change.is_set() && !CHANGES.contains(&change.text()) {
        change.unsupported(c, &CHANGES);
    }
    container::seccomp(&context.get("seccompProfile"), c);
}

fn sysctls(at: &At<'_>, c: &mut Check) {
    const SEGMENT: &str = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let alphanumeric =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let fits = |name: &str| {
        name.len() <= formats::SUBDOMAIN_MAX
            && name.split('.').all(|part| {
                let bytes = part.as_bytes();
                let known = |byte: &u8| alphanumeric(Some(byte)) || matches!(byte, b'-' | b'_');
                alphanumeric(bytes.first()) && alphanumeric(bytes.last()) && bytes.iter().all(known)
            })
    };
    let mut names = BTreeSet::new();
    for sysctl in at.items() {
        let name = sysctl.get("name");
        if name.text().is_empty() {
            name.required(c, "");
        } else if !fits(name.text()) {
            let problem =
                format!("must have at most 253 characters and match regex ({SEGMENT}\\.)*{SEGMENT}");
            name.invalid(c, &problem);
        } else if names.contains(name.text()) {
            name.duplicate(c);
        }
        names.insert(name.text());
    }
}

fn affinity(at: &At<'_>, c: &mut Check) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let weight = |term: &At<'_>, c: &mut Check| {
        let weight = term.get("weight");
        if !(1..=100).contains(&weight.number()) {
            weight.invalid(c, "must be in the range 1-100");
        }
    };
    let node = at.get("nodeAffinity");
    if node.get(REQUIRED).is_set() {
        node_selector(&node.get(REQUIRED), c);
    }
    for term in node.get(PREFERRED).items() {
        weight(&term, c);
        node_selector_term(&term.get("preference"), c);
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let pods = at.get(key);
        for term in pods.get(REQUIRED).items() {
            pod_affinity_term(&term, c);
        }
        for term in pods.get(PREFERRED).items() {
            weight(&term, c);
            pod_affinity_term(&term.get("podAffinityTerm"), c);
        }
    }
}

fn pod_affinity_term(term: &At<'_>, c: &mut Check) {
    label_selector(&term.get("labelSelector"), c);
    label_selector(&term.get("namespaceSelector"), c);
    for name in term.get("namespaces").items() {
        for problem in formats::label(c.version, name.text()) {
            term.get("namespace").invalid_as(c, &name.shown(), &problem);
        }
    }
    let key = term.get("topologyKey");
    if key.text().is_empty() {
        key.required(c, "can not be empty");
    }
    key.qualified_name(c);
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
        if formats::parse_ip(server.text()).is_none() {
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
        for problem in formats::subdomain(c.version, text) {
            search.invalid_as(c, &quoted(text), &problem);
        }
    }
    for option in config.get("options").items() {
        if option.get("name").text().is_empty() {
            option.required(c, "must not be empty");
        }
    }
}

fn spread_constraints(at: &At<'_>, c: &mut Check) {
    const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    let all: Vec<At<'_>> = at.items().collect();
    for (index, constraint) in all.iter().enumerate() {
        let (skew, key) = (constraint.get("maxSkew"), constraint.get("topologyKey"));
        let action = constraint.get("whenUnsatisfiable");
        if skew.number() <= 0 {
            skew.invalid(c, "must be greater than zero");
        }
        if key.text().is_empty() {
            key.required(c, "can not be empty");
        }
        if !ACTIONS.contains(&action.text()) {
            action.unsupported(c, &ACTIONS);
        }
        let same = |other: &At<'_>| {
            other.get("topologyKey").text() == key.text()
                && other.get("whenUnsatisfiable").text() == action.text()
        };
        if all.iter().skip(index + 1).any(same) {
            let pair = quoted(&format!("{{{}, {}}}", key.text(), action.text()));
            constraint
                .get("{topologyKey, whenUnsatisfiable}")
                .duplicate_as(c, &pair);
        }
    }
}

/// `ValidateTolerations`.
pub(super) fn tolerations(at: &At<'_>, c: &mut Check) {
    for toleration in at.items() {
        let (key, operator) = (toleration.get("key"), toleration.get("operator"));
        let (value, effect) = (toleration.get("value"), toleration.get("effect"));
        if !key.text().is_empty() {
            key.qualified_name(c);
        } else if operator.text() != "Exists" {
            let problem =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            operator.invalid_as(c, &quoted(operator.text()), problem);
        }
        if toleration.get("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let problem = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            effect.invalid_as(c, &quoted(effect.text()), problem);
        }
        match operator.text() {
            "Equal" | "" => {
                let problems = formats::label_value(c.version, value.text());
                if !problems.is_empty() {
                    operator.invalid_as(c, &quoted(value.text()), &problems.join(";"));
                }
            }
            "Exists" => {
                if !value.text().is_empty() {
                    let seconds = if toleration.get("tolerationSeconds").is_set() {
                        "<ptr>"
                    } else {
                        "nil"
                    };
                    let shown = format!(
                        "core.Toleration{{Key:{}, Operator:\"Exists\", Value:{}, Effect:{}, TolerationSeconds:(*int64)({seconds})}}",
                        quoted(key.text()),
                        quoted(value.text()),
                        quoted(effect.text()),
                    );
                    operator.invalid_as(c, &shown, "value must be empty when `operator` is 'Exists'");
                }
            }
            _ => operator.unsupported(c, &["Equal", "Exists"]),
        }
        if !effect.text().is_empty() {
            taint_effect(&effect, c);
        }
    }
}

/// `validateTaintEffect`.
pub(super) fn taint_effect(effect: &At<'_>, c: &mut Check) {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !EFFECTS.contains(&effect.text()) {
        effect.unsupported(c, &EFFECTS);
    }
}

/// `ValidatePodUpdate`.
pub(super) fn updated(body: &Map<String, Value>, old: &Map<String, Value>, c: &mut Check) {
    whole(body, c);
    let (spec, old_spec) = (At::root(body, "spec"), At::root(old, "spec"));
    let annotations = At::root(body, "metadata").get("annotations");
    pinned_annotations(&annotations, &At::root(old, "metadata").get("annotations"), c);
    pod_annotations(&annotations, &spec, c);
    for list in ["containers", "initContainers"] {
        let containers = spec.get(list);
        if containers.len() != old_spec.get(list).len() {
            containers.forbidden(c, "pod updates may not add or remove containers");
            return;
        }
        for container in containers.items() {
            let image = container.get("image");
            if image.text().is_empty() {
                image.required(c, "");
            }
            if image.text().trim() != image.text() {
                image.invalid(c, "must not have leading or trailing whitespace");
            }
        }
    }
    let (deadline, old_deadline) = (
        spec.get("activeDeadlineSeconds"),
        old_spec.get("activeDeadlineSeconds"),
    );
    if deadline.is_set() {
        if !(0..=i64::from(i32::MAX)).contains(&deadline.number()) {
            deadline.invalid(c, &formats::not_between(0, i32::MAX.into()));
            return;
        }
        if old_deadline.is_set() && old_deadline.number() < deadline.number() {
            deadline.invalid(c, "must be less than or equal to previous value");
            return;
        }
    } else if old_deadline.is_set() {
        deadline.invalid(c, "must not update from a positive integer to nil value");
    }
    if !c.since(23) || spec.get("tolerations").value != old_spec.get("tolerations").value {
        added_tolerations(&spec.get("tolerations"), &old_spec.get("tolerations"), c);
    }
    let mut munged = spec.value.clone();
    if let Some(munged) = munged.as_object_mut() {
        for key in ["activeDeadlineSeconds", "tolerations"] {
            match old_spec.value.get(key) {
                Some(value) => munged.insert(key.to_owned(), value.clone()),
                None => munged.remove(key),
            };
        }
        for list in ["containers", "initContainers"] {
            let images: Vec<Value> = old_spec
                .get(list)
                .items()
                .map(|one| one.get("image").value.clone())
                .collect();
            let containers = munged.get_mut(list).and_then(Value::as_array_mut);
            for (container, image) in containers.into_iter().flatten().zip(images) {
                if let Some(container) = container.as_object_mut() {
                    match image {
                        Value::Null => container.remove("image"),
                        image => container.insert("image".to_owned(), image),
                    };
                }
            }
        }
        let was_negative = old_spec.get("terminationGracePeriodSeconds").number() < 0;
        if was_negative && munged.get("terminationGracePeriodSeconds") == Some(&json!(1)) {
            munged.remove("terminationGracePeriodSeconds");
            let old = old_spec.get("terminationGracePeriodSeconds").value.clone();
            munged.insert("terminationGracePeriodSeconds".to_owned(), old);
        }
    }
    if munged != *old_spec.value && c.since(27) {
        spec.forbidden(
            c,
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n",
        );
    } else if munged != *old_spec.value {
        let fields = if c.since(21) {
            "`spec.tolerations` (only additions to existing tolerations) or `spec.terminationGracePeriodSeconds` (allow \
             it to be set to 1 if it was previously negative)"
        } else {
            "`spec.tolerations` (only additions to existing tolerations)"
        };
        let joint = if c.since(21) { ", " } else { " or " };
        let problem = format!(
            "pod updates may not change fields other than `spec.containers[*].image`, \
             `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`{joint}{fields}\n"
        );
        spec.forbidden(c, &problem);
    }
}

/// Immutable annotations of pods.
fn pinned_annotations(new: &At<'_>, old: &At<'_>, c: &mut Check) {
    let is_app_armor = |key: &str| key.starts_with("container.apparmor.security.beta.kubernetes.io/");
    let is_mirror = |key: &str| key == "kubernetes.io/config.mirror";
    for (key, value) in old.entries() {
        if new.key(key).value == value.value {
            continue;
        }
        if is_app_armor(key) {
            new.key(key)
                .forbidden(c, "may not remove or update AppArmor annotations");
        }
        if is_mirror(key) {
            new.key(key)
                .forbidden(c, "may not remove or update mirror pod annotation");
        }
    }
    for (key, value) in new.entries().filter(|(key, _)| !old.key(key).is_set()) {
        if is_app_armor(key) {
            value.forbidden(c, "may not add AppArmor annotations");
        }
        if is_mirror(key) {
            value.forbidden(c, "may not add mirror pod annotation");
        }
    }
}

fn added_tolerations(new: &At<'_>, old: &At<'_>, c: &mut Check) {
    let but_seconds = |value: &Value| {
        let mut value = value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        value
    };
    let kept: Vec<Value> = new.items().map(|one| but_seconds(one.value)).collect();
    if old.items().any(|one| !kept.contains(&but_seconds(one.value))) {
        new.forbidden(
            c,
            "existing toleration can not be modified except its tolerationSeconds",
        );
        return;
    }
    tolerations(new, c);
}

/// `ValidatePodStatusUpdate`.
pub(super) fn status_updated(body: &Map<String, Value>, old: &Map<String, Value>, c: &mut Check) {
    let (status, old_status) = (At::root(body, "status"), At::root(old, "status"));
    let annotations = At::root(body, "metadata").get("annotations");
    pinned_annotations(&annotations, &At::root(old, "metadata").get("annotations"), c);
    pod_annotations(&annotations, &At::root(body, "spec"), c);
    let metadata = At::root(body, "metadata");
    for (index, condition) in status.get("conditions").items().enumerate() {
        let kind = condition.get("type");
        if !matches!(kind.text(), "PodScheduled" | "Ready" | "Initialized") {
            let path = metadata.get(&format!("conditions[{index}]")).get("Type");
            for problem in formats::qualified_name(c.version, kind.text()) {
                path.invalid_as(c, &kind.shown(), &problem);
            }
        }
    }
    let nominated = status.get("nominatedNodeName");
    if !nominated.text().is_empty() && nominated.text() != old_status.get("nominatedNodeName").text() {
        nominated.subdomain(c);
    }
    let policy = At::root(old, "spec").get("restartPolicy").text();
    for list in ["containerStatuses", "initContainerStatuses"] {
        restarted(&status.get(list), &old_status.get(list), policy, c);
    }
    for ip in status.get("podIPs").items() {
        for problem in formats::ip(c.version, ip.get("ip").text()) {
            ip.invalid_as(c, &ip.get("ip").shown(), &problem);
        }
    }
}

fn restarted(new: &At<'_>, old: &At<'_>, policy: &str, c: &mut Check) {
    if policy == "Always" {
        return;
    }
    for (index, old) in old.items().enumerate() {
        let ended = old.get("state").get("terminated");
        if !ended.is_set() || ended.get("exitCode").number() != 0 && policy == "OnFailure" {
            continue;
        }
        for status in new.items() {
            if status.get("name").text() == old.get("name").text()
                && !status.get("state").get("terminated").is_set()
            {
                let at = At {
                    value: new.value,
                    path: new.path.clone(),
                };
                let path = at.items().nth(index).unwrap_or(at);
                path.get("state")
                    .forbidden(c, "may not be transitioned to non-terminated state");
            }
        }
    }
}
