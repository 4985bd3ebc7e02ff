//! Containers: names, ports, variables, mounts, resources, restarts.
//!
//! # Upstream
//! `validateContainers` and its callees in `pkg/apis/core/validation/validation.go`, 1.20.2 and newer.

use std::collections::BTreeSet;

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use super::{
    amounts::{container_resource, requirements},
    handlers, references, security,
    volumes::{Volumes, descending, has_backsteps},
};
use crate::{formats, status::quoted};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Facts of a pod that the validation of its containers reads.
pub(super) struct Pod<'v> {
    pub(super) spec: At<'v>,
    /// The valid volumes.
    pub(super) volumes: Volumes<'v>,
}

/// The common part of a container is validated before its probes and hooks, which are validated only where
/// it may have them.
const COMMON_PART_IS_FIRST: Behavior = Behavior::since(25, 0, "validateContainers of 1.25");
/// Init containers may run beside the others.
const SIDECARS: Behavior = Behavior::since(29, 0, "the feature gate SidecarContainers is on");
/// Each container may have a policy and rules for its restarts.
const CONTAINERS_HAVE_RESTART_RULES: Behavior =
    Behavior::since(35, 0, "the feature gate ContainerRestartRules is on");
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// `validateInitContainers`.
pub(super) fn init_containers(at: &At<'_>, pod: &Pod<'_>, c: &mut Check) {
    let is_common_first = c.version.has(COMMON_PART_IS_FIRST);
    if !is_common_first && !at.is_empty() {
        containers(at, true, pod, c);
    }
    let others = pod.spec.get("containers");
    let mut names: BTreeSet<&str> = others.items().map(|other| other.get("name").text()).collect();
    for container in at.items() {
        if is_common_first {
            common(&container, pod, c);
            restart_policy(&container, true, c);
        }
        let name = container.get("name");
        if names.contains(name.text()) {
            name.duplicate(c);
        }
        if !name.text().is_empty() {
            names.insert(name.text());
        }
        let is_sidecar = c.version.has(SIDECARS) && container.get("restartPolicy").text() == "Always";
        if is_sidecar {
            handlers::lifecycle(&container, &pod.spec, c);
            handlers::probes(&container, &PROBES, &pod.spec, c);
            continue;
        }
        for (key, shown) in [
            ("lifecycle", "core.Lifecycle"),
            ("livenessProbe", "core.Probe"),
            ("readinessProbe", "core.Probe"),
            ("startupProbe", "core.Probe"),
        ] {
            let field = container.get(key);
            if !field.is_set() {
                continue;
            }
            match c.version.minor() {
                28.. => field.forbidden(
                    c,
                    "may not be set for init containers without restartPolicy=Always",
                ),
                25..28 => field.forbidden(c, "may not be set for init containers"),
                _ => field.invalid_typed(c, shown, "must not be set for init containers"),
            }
        }
    }
    if is_common_first {
        for container in at.items() {
            host_ports([container].into_iter(), c);
        }
    }
}

/// `validateContainers`.
pub(super) fn containers(at: &At<'_>, are_init: bool, pod: &Pod<'_>, c: &mut Check) {
    if at.is_empty() {
        at.required(c, "");
        return;
    }
    let is_common_first = c.version.has(COMMON_PART_IS_FIRST);
    let mut names = BTreeSet::new();
    for container in at.items() {
        let name = container.get("name");
        if is_common_first {
            common(&container, pod, c);
            if !names.insert(name.text()) {
                name.duplicate(c);
            }
            handlers::lifecycle(&container, &pod.spec, c);
            handlers::probes(&container, &PROBES, &pod.spec, c);
            restart_policy(&container, false, c);
            continue;
        }
        self::name(&container, c);
        if !names.insert(name.text()) {
            name.duplicate(c);
        }
        container.get("image").present(c);
        handlers::lifecycle(&container, &pod.spec, c);
        handlers::probes(&container, &["livenessProbe", "startupProbe"], &pod.spec, c);
        termination_message_policy(&container, c);
        handlers::probes(&container, &["readinessProbe"], &pod.spec, c);
        parts(&container, pod, c);
    }
    if are_init {
        for container in at.items() {
            host_ports([container].into_iter(), c);
        }
    } else {
        host_ports(at.items(), c);
    }
}

/// `validateEphemeralContainers`.
pub(super) fn ephemeral_containers(at: &At<'_>, pod: &Pod<'_>, c: &mut Check) {
    /// Fields that these containers cannot have, in the order of their validation.
    const FORBIDDEN: [&str; 9] = [
        "ports",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "restartPolicyRules",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
    ];
    const PROBLEM: &str = "cannot be set for an Ephemeral Container";
    let others: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| pod.spec.get(list).items())
        .map(|other| other.get("name").text())
        .collect();
    let mut names = others.clone();
    for container in at.items() {
        common(&container, pod, c);
        let image = container.get("image");
        if image.text().trim() != image.text() {
            image.invalid(c, "must not have leading or trailing whitespace");
        }
        let (name, target) = (container.get("name"), container.get("targetContainerName"));
        if !names.insert(name.text()) {
            name.duplicate(c);
        }
        if !target.text().is_empty() && !others.contains(target.text()) {
            target.not_found(c);
        }
        for key in FORBIDDEN {
            let field = container.get(key);
            let is_empty = field.value.as_object().is_some_and(serde_json::Map::is_empty);
            if field.is_set() && !is_empty {
                field.forbidden(c, PROBLEM);
            }
        }
        for mount in container.get("volumeMounts").items() {
            for key in ["subPath", "subPathExpr"] {
                if !mount.get(key).text().is_empty() {
                    mount.get(key).forbidden(c, PROBLEM);
                }
            }
        }
    }
}

/// `validateContainerCommon`.
fn common(container: &At<'_>, pod: &Pod<'_>, c: &mut Check) {
    name(container, c);
    container.get("image").present(c);
    termination_message_policy(container, c);
    parts(container, pod, c);
}

fn name(container: &At<'_>, c: &mut Check) {
    let name = container.get("name");
    if name.present(c) {
        name.label(c);
    }
}

fn termination_message_policy(container: &At<'_>, c: &mut Check) {
    const POLICIES: [&str; 2] = ["File", "FallbackToLogsOnError"];
    let policy = container.get("terminationMessagePolicy");
    if c.version.has(COMMON_PART_IS_FIRST) {
        policy.one_of(c, &POLICIES);
        return;
    }
    match policy.text() {
        "File" | "FallbackToLogsOnError" => {}
        "" => policy.required(c, "must be 'File' or 'FallbackToLogsOnError'"),
        _ => policy.invalid(c, "must be 'File' or 'FallbackToLogsOnError'"),
    }
}

/// The lists and structs that every container may have.
fn parts(container: &At<'_>, pod: &Pod<'_>, c: &mut Check) {
    ports(&container.get("ports"), c);
    variables(&container.get("env"), c);
    variables_from(&container.get("envFrom"), c);
    mounts(container, &pod.volumes, c);
    devices(container, &pod.volumes, c);
    container
        .get("imagePullPolicy")
        .one_of(c, &["Always", "IfNotPresent", "Never"]);
    let resources = container.get("resources");
    claims(&resources.get("claims"), &pod.spec, c);
    requirements(
        &resources.get("requests"),
        &resources.get("limits"),
        &resources,
        container_resource,
        c,
    );
    resize_policy(&container.get("resizePolicy"), &pod.spec, c);
    security::of_container(&container.get("securityContext"), &pod.spec, c);
}

/// `checkHostPortConflicts`.
fn host_ports<'v>(containers: impl Iterator<Item = At<'v>>, c: &mut Check) {
    let mut host_ports = BTreeSet::new();
    for container in containers {
        for port in container.get("ports").items() {
            let host = port.get("hostPort");
            if host.number() == 0 {
                continue;
            }
            let (protocol, ip) = (port.get("protocol").text(), port.get("hostIP").text());
            let key = format!("{protocol}/{ip}/{}", host.number());
            if !host_ports.insert(key.clone()) {
                host.duplicate_as(c, &quoted(&key));
            }
        }
    }
}

/// A rule may restart all containers of the pod.
const RULES_RESTART_ALL: Behavior = Behavior::since(
    36,
    0,
    "the feature gate RestartAllContainersOnContainerExits is on",
);

/// The policy and the rules for the restarts of one container.
fn restart_policy(container: &At<'_>, is_init: bool, c: &mut Check) {
    const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
    const RULES_MAX: usize = 20;
    const CODES_MAX: usize = 255;
    let policy = container.get("restartPolicy");
    if !c.version.has(CONTAINERS_HAVE_RESTART_RULES) {
        if policy.is_set() && !is_init {
            policy.forbidden(c, "may not be set for non-init containers");
        } else if policy.is_set() && policy.text() != "Always" {
            policy.unsupported(c, &["Always"]);
        }
        return;
    }
    let rules = container.get("restartPolicyRules");
    if policy.is_set() && !POLICIES.contains(&policy.text()) {
        policy.unsupported(c, &POLICIES);
    } else if !policy.is_set() && !rules.is_empty() {
        policy.required(c, "must specify restartPolicy when restart rules are used");
    }
    if rules.len() > RULES_MAX {
        rules.too_many(c, rules.len(), RULES_MAX);
    }
    let actions: &[&str] = match c.version.has(RULES_RESTART_ALL) {
        true => &["Restart", "RestartAllContainers"],
        false => &["Restart"],
    };
    for rule in rules.items() {
        let action = rule.get("action");
        if !actions.contains(&action.text()) {
            action.unsupported(c, actions);
        }
        let codes = rule.get("exitCodes");
        if !codes.is_set() {
            codes.required(c, "must be specified");
            continue;
        }
        let operator = codes.get("operator");
        if !matches!(operator.text(), "In" | "NotIn") {
            operator.unsupported(c, &["In", "NotIn"]);
        }
        let values = codes.get("values");
        if values.len() > CODES_MAX {
            values.too_many(c, values.len(), CODES_MAX);
        }
    }
}

/// `validateResizePolicy`.
fn resize_policy(at: &At<'_>, spec: &At<'_>, c: &mut Check) {
    let mut names = BTreeSet::new();
    for item in at.items() {
        let (name, policy) = (item.get("resourceName"), item.get("restartPolicy"));
        if !names.insert(name.text()) {
            item.duplicate_as(c, &quoted(name.text()));
        }
        // Upstream omits the index.
        for (field, supported) in [
            (&name, ["cpu", "memory"]),
            (&policy, ["NotRequired", "RestartContainer"]),
        ] {
            let field = At {
                value: field.value,
                path: at.path.clone(),
            };
            field.one_of(c, &supported);
        }
        if spec.get("restartPolicy").text() == "Never" && policy.text() != "NotRequired" {
            let of = if c.since(36) { "pod " } else { "" };
            let problem = format!("must be 'NotRequired' when {of}`restartPolicy` is 'Never'");
            at.invalid_as(c, &quoted(policy.text()), &problem);
        }
    }
}

/// `validateResourceClaimNames`: the claims of a container are those of its pod.
fn claims(at: &At<'_>, spec: &At<'_>, c: &mut Check) {
    let known: BTreeSet<&str> = spec
        .get("resourceClaims")
        .items()
        .map(|claim| claim.get("name").text())
        .collect();
    let mut names = BTreeSet::new();
    for claim in at.items() {
        let name = At {
            value: claim.get("name").value,
            path: claim.path.clone(),
        };
        if name.text().is_empty() {
            name.required(c, "");
            continue;
        }
        if !names.insert((name.text(), claim.get("request").text())) {
            name.duplicate(c);
        }
        if !known.contains(name.text()) {
            let of_pod = match known.is_empty() {
                true => " which is empty".to_owned(),
                false => format!(": {}", known.iter().copied().collect::<Vec<_>>().join(", ")),
            };
            name.not_found(c);
            if let Some(cause) = c.causes.last_mut() {
                let detail = format!(": must be one of the names in pod.spec.resourceClaims{of_pod}");
                cause.message.push_str(&detail);
            }
        }
    }
}

fn ports(at: &At<'_>, c: &mut Check) {
    let mut names = BTreeSet::new();
    for port in at.items() {
        let name = port.get("name");
        if !name.text().is_empty() {
            let problems = formats::port_name(c.version, name.text());
            if !problems.is_empty() {
                name.problems(c, problems);
            } else if !names.insert(name.text()) {
                name.duplicate(c);
            }
        }
        let number = port.get("containerPort");
        if number.number() == 0 {
            number.required(c, "");
        } else {
            number.problems(c, formats::port_number(number.number()));
        }
        let host = port.get("hostPort");
        if host.number() != 0 {
            host.problems(c, formats::port_number(host.number()));
        }
        port.get("protocol").one_of(c, &PROTOCOLS);
    }
}

/// Variables may be read from files.
const VARIABLES_ARE_READ_FROM_FILES: Behavior = Behavior::since(35, 0, "the feature gate EnvFiles is on");

fn variables(at: &At<'_>, c: &mut Check) {
    const FIELDS: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        HOST_IPS,
        "status.podIP",
        "status.podIPs",
    ];
    const HOST_IPS: &str = "status.hostIPs";
    let mut fields = FIELDS.to_vec();
    fields.retain(|field| *field != HOST_IPS || c.since(28));
    for variable in at.items() {
        let name = variable.get("name");
        if name.present(c) {
            name.problems(c, formats::variable_name(c.version, name.text()));
        }
        let from = variable.get("valueFrom");
        if !from.is_set() {
            continue;
        }
        let mut count = 0;
        let sources = [
            "fieldRef",
            "resourceFieldRef",
            "configMapKeyRef",
            "secretKeyRef",
            "fileKeyRef",
        ];
        for key in sources {
            let source = from.get(key);
            if !source.is_set() {
                continue;
            }
            count += 1;
            match key {
                "fieldRef" => references::object_field(&source, &fields, c),
                "resourceFieldRef" => references::resource_field(&source, false, c),
                "fileKeyRef" => references::file_key(&source, c),
                _ => references::key_selector(&source, c),
            }
        }
        let problem = if count == 0 && c.version.has(VARIABLES_ARE_READ_FROM_FILES) {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        } else if count == 0 {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        } else if !variable.get("value").text().is_empty() {
            "may not be specified when `value` is not empty"
        } else if count > 1 {
            "may not have more than one field specified at a time"
        } else {
            continue;
        };
        from.invalid_as(c, "\"\"", problem);
    }
}

fn variables_from(at: &At<'_>, c: &mut Check) {
    for source in at.items() {
        let prefix = source.get("prefix");
        if !prefix.text().is_empty() {
            prefix.problems(c, formats::variable_name(c.version, prefix.text()));
        }
        let mut count = 0;
        for key in ["configMapRef", "secretRef"] {
            let reference = source.get(key);
            if !reference.is_set() {
                continue;
            }
            count += 1;
            let name = reference.get("name");
            if name.text().is_empty() {
                name.required(c, "");
            } else {
                name.subdomain(c);
            }
        }
        if count == 0 {
            at.invalid_as(c, "\"\"", "must specify one of: `configMapRef` or `secretRef`");
        } else if count > 1 {
            at.invalid_as(c, "\"\"", "may not have more than one field specified at a time");
        }
    }
}

fn mounts(container: &At<'_>, volumes: &Volumes<'_>, c: &mut Check) {
    let at = container.get("volumeMounts");
    let devices: Vec<At<'_>> = container.get("volumeDevices").items().collect();
    let mut paths = BTreeSet::new();
    for mount in at.items() {
        let (name, path) = (mount.get("name"), mount.get("mountPath"));
        name.present(c);
        if !volumes.iter().any(|(known, _)| *known == name.text()) {
            name_not_found(&name, c);
        }
        path.present(c);
        if !paths.insert(path.text()) {
            path.invalid_as(c, &quoted(path.text()), "must be unique");
        }
        if devices
            .iter()
            .any(|device| device.get("name").text() == name.text())
        {
            name.invalid_as(c, &quoted(name.text()), "must not already exist in volumeDevices");
        }
        if devices
            .iter()
            .any(|device| device.get("devicePath").text() == path.text())
        {
            path.invalid_as(
                c,
                &quoted(path.text()),
                "must not already exist as a path in volumeDevices",
            );
        }
        recursive_read_only(&mount, &at, c);
        // Upstream omits the index.
        let (sub, expression) = (mount.get("subPath"), mount.get("subPathExpr"));
        let without_position = |field: &At<'_>, key: &str, c: &mut Check| {
            let field = At {
                value: field.value,
                path: at.get(key).path,
            };
            descending(&field, c);
        };
        if !sub.text().is_empty() {
            without_position(&sub, "subPath", c);
        }
        if !expression.text().is_empty() {
            if !sub.text().is_empty() {
                expression.invalid(c, "subPathExpr and subPath are mutually exclusive");
            }
            without_position(&expression, "subPathExpr", c);
        }
        let propagation = mount.get("mountPropagation");
        if propagation.is_set() {
            const MODES: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
            let privileged = container.get("securityContext").get("privileged").flag();
            let named = At {
                value: propagation.value,
                path: at.get("mountPropagation").path,
            };
            if !MODES.contains(&named.text()) {
                named.unsupported(c, &MODES);
            }
            if named.text() == "Bidirectional" && !privileged {
                named.forbidden(
                    c,
                    "Bidirectional mount propagation is available only to privileged containers",
                );
            }
        }
    }
}

/// `validateMountRecursiveReadOnly`.
fn recursive_read_only(mount: &At<'_>, mounts: &At<'_>, c: &mut Check) {
    let (mode, propagation) = (
        mount.get("recursiveReadOnly"),
        mount.get("mountPropagation").text(),
    );
    let named = At {
        value: mode.value,
        path: mounts.get("recursiveReadOnly").path,
    };
    match mode.text() {
        "" if !mode.is_set() => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.get("readOnly").flag() {
                named.forbidden(c, "may only be specified when readOnly is true");
            }
            if !matches!(propagation, "" | "None") {
                named.forbidden(
                    c,
                    "may only be specified when mountPropagation is None or not specified",
                );
            }
        }
        _ => named.unsupported(c, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn name_not_found(name: &At<'_>, c: &mut Check) {
    if name.is_set() {
        name.not_found(c);
    } else {
        let empty = serde_json::Value::from("");
        let name = At {
            value: &empty,
            path: name.path.clone(),
        };
        name.not_found(c);
    }
}

fn devices(container: &At<'_>, volumes: &Volumes<'_>, c: &mut Check) {
    let mounts: Vec<At<'_>> = container.get("volumeMounts").items().collect();
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in container.get("volumeDevices").items() {
        let (name, path) = (device.get("name"), device.get("devicePath"));
        name.present(c);
        if names.contains(name.text()) {
            name.invalid(c, "must be unique");
        }
        match volumes.iter().find(|(known, _)| *known == name.text()) {
            None => name_not_found(&name, c),
            Some((_, volume))
                if !volume.get("persistentVolumeClaim").is_set() && !volume.get("ephemeral").is_set() =>
            {
                let or = match c.since(22) {
                    true => " or Ephemeral",
                    false => "",
                };
                let problem =
                    format!("can only use volume source type of PersistentVolumeClaim{or} for block mode");
                name.invalid(c, &problem);
            }
            Some(_) => {}
        }
        path.present(c);
        if paths.contains(path.text()) {
            path.invalid(c, "must be unique");
        }
        if has_backsteps(path.value) {
            path.invalid(c, "can not contain backsteps ('..')");
        } else {
            paths.insert(path.text());
        }
        if mounts.iter().any(|mount| mount.get("name").text() == name.text()) {
            name.invalid(c, "must not already exist in volumeMounts");
        }
        if mounts
            .iter()
            .any(|mount| mount.get("mountPath").text() == path.text())
        {
            path.invalid(c, "must not already exist as a path in volumeMounts");
        }
        if !name.text().is_empty() {
            names.insert(name.text());
        }
    }
}
