//! Containers: names, ports, variables, mounts, probes, resources, security.
//!
//! # Upstream
//! `validateContainers` and its callees in `pkg/apis/core/validation/validation.go`, 1.20.2.

use std::collections::BTreeSet;

use kubegc_core::Quantity;

use super::super::field::{At, Check};
use super::{
    go_syntax, references,
    volumes::{Volumes, descending, has_backsteps},
};
use crate::{formats, status::quoted};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// `validateInitContainers`.
pub(super) fn init_containers(at: &At<'_>, others: &At<'_>, volumes: &Volumes<'_>, c: &mut Check) {
    if !at.is_empty() {
        containers(at, true, volumes, c);
    }
    let mut names: BTreeSet<&str> = others.items().map(|other| other.get("name").text()).collect();
    for container in at.items() {
        let name = container.get("name");
        if names.contains(name.text()) {
            name.duplicate(c);
        }
        if !name.text().is_empty() {
            names.insert(name.text());
        }
        let is_sidecar = c.since(29) && container.get("restartPolicy").text() == "Always";
        for (key, shown) in [
            ("lifecycle", "core.Lifecycle"),
            ("livenessProbe", "core.Probe"),
            ("readinessProbe", "core.Probe"),
            ("startupProbe", "core.Probe"),
        ] {
            let field = container.get(key);
            if !field.is_set() || is_sidecar {
                continue;
            }
            match c.since(29) {
                true => field.forbidden(
                    c,
                    "may not be set for init containers without restartPolicy=Always",
                ),
                false => field.invalid_typed(c, shown, "must not be set for init containers"),
            }
        }
    }
}

/// `validateContainers`.
pub(super) fn containers(at: &At<'_>, are_init: bool, volumes: &Volumes<'_>, c: &mut Check) {
    if at.is_empty() {
        at.required(c, "");
        return;
    }
    let mut names = BTreeSet::new();
    for container in at.items() {
        let name = container.get("name");
        if name.present(c) {
            name.label(c);
        }
        if !names.insert(name.text()) {
            name.duplicate(c);
        }
        container.get("image").present(c);
        let lifecycle = container.get("lifecycle");
        for hook in ["postStart", "preStop"] {
            if lifecycle.get(hook).is_set() {
                handler(&lifecycle.get(hook), c);
            }
        }
        let probes = ["livenessProbe", "startupProbe"].map(|key| container.get(key));
        for probe in probes {
            if probe.is_set() {
                self::probe(&probe, c);
                let threshold = probe.get("successThreshold");
                if threshold.number() != 1 {
                    threshold.invalid_as(c, &threshold.number().to_string(), "must be 1");
                }
            }
        }
        let policy = container.get("terminationMessagePolicy");
        match policy.text() {
            "File" | "FallbackToLogsOnError" => {}
            "" => policy.required(c, "must be 'File' or 'FallbackToLogsOnError'"),
            _ => policy.invalid(c, "must be 'File' or 'FallbackToLogsOnError'"),
        }
        let readiness = container.get("readinessProbe");
        if readiness.is_set() {
            probe(&readiness, c);
        }
        ports(&container.get("ports"), c);
        variables(&container.get("env"), c);
        variables_from(&container.get("envFrom"), c);
        mounts(&container, volumes, c);
        devices(&container, volumes, c);
        container
            .get("imagePullPolicy")
            .one_of(c, &["Always", "IfNotPresent", "Never"]);
        let resources = container.get("resources");
        requirements(
            &resources.get("requests"),
            &resources.get("limits"),
            Some(&resources),
            c,
        );
        security_context(&container.get("securityContext"), c);
    }
    let mut host_ports = BTreeSet::new();
    for container in at.items() {
        if are_init {
            host_ports.clear();
        }
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

fn probe(probe: &At<'_>, c: &mut Check) {
    handler(probe, c);
    for key in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        probe.get(key).not_negative(c);
    }
    let grace = probe.get("terminationGracePeriodSeconds");
    if grace.is_set() && grace.number() <= 0 {
        grace.invalid(c, "must be greater than 0");
    }
}

fn handler(at: &At<'_>, c: &mut Check) {
    let mut count = 0;
    for key in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let handler = at.get(key);
        if !handler.is_set() {
            continue;
        }
        count += 1;
        if count > 1 {
            handler.forbidden(c, "may not specify more than 1 handler type");
            continue;
        }
        match key {
            "exec" => {
                if handler.get("command").is_empty() {
                    handler.get("command").required(c, "");
                }
            }
            "httpGet" => {
                handler.get("path").present(c);
                port(&handler.get("port"), c);
                let scheme = handler.get("scheme");
                if !matches!(scheme.text(), "HTTP" | "HTTPS") {
                    scheme.unsupported(c, &["HTTP", "HTTPS"]);
                }
                for header in handler.get("httpHeaders").items() {
                    let name = header.get("name");
                    for problem in formats::header_name(name.text()) {
                        handler
                            .get("httpHeaders")
                            .invalid_as(c, &quoted(name.text()), &problem);
                    }
                }
            }
            "sleep" => {}
            _ => port(&handler.get("port"), c),
        }
    }
    if count == 0 {
        at.required(c, "must specify a handler type");
    }
}

/// `ValidatePortNumOrName`.
pub(super) fn port(at: &At<'_>, c: &mut Check) {
    match at.value.as_str() {
        Some(name) => at.problems(c, formats::port_name(c.version, name)),
        None => {
            for problem in formats::port_number(at.number()) {
                at.invalid_as(c, &at.number().to_string(), &problem);
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

fn variables(at: &At<'_>, c: &mut Check) {
    const FIELDS: [&str; 8] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.podIP",
        "status.podIPs",
    ];
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
        for key in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"] {
            let source = from.get(key);
            if !source.is_set() {
                continue;
            }
            count += 1;
            match key {
                "fieldRef" => references::object_field(&source, &FIELDS, c),
                "resourceFieldRef" => references::resource_field(&source, false, c),
                _ => references::key_selector(&source, c),
            }
        }
        let problem = if count == 0 {
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
            Some((_, volume)) if !volume.get("persistentVolumeClaim").is_set() => {
                name.invalid(
                    c,
                    "can only use volume source type of PersistentVolumeClaim for block mode",
                );
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

/// `ValidateResourceRequirements`. Of an overhead, both lists are limits, and `whole` is missing.
pub(super) fn requirements(requests: &At<'_>, limits: &At<'_>, whole: Option<&At<'_>>, c: &mut Check) {
    let (mut has_pages, mut has_compute) = (false, false);
    let requests_are_limits = whole.is_none();
    let both = [(limits, true), (requests, requests_are_limits)];
    for (list, are_limits) in both {
        for (name, amount) in list.entries() {
            container_resource(name, &amount, c);
            quantity(name, &amount, c);
            has_pages |= name.starts_with("hugepages-");
            has_compute |= matches!(name, "cpu" | "memory");
            if are_limits {
                continue;
            }
            let overcommits = is_native(name) && !name.starts_with("hugepages-");
            let value = Quantity::parse(amount.text());
            let limit = limits.key(name);
            if limit.is_set() {
                let of = if c.since(27) {
                    format!(" of {}", limit.text())
                } else {
                    String::new()
                };
                let limit = Quantity::parse(limit.text());
                if value != limit && !overcommits {
                    list.invalid_as(c, &amount.shown(), &format!("must be equal to {name} limit{of}"));
                } else if value > limit {
                    list.invalid_as(
                        c,
                        &amount.shown(),
                        &format!("must be less than or equal to {name} limit{of}"),
                    );
                }
            } else if !overcommits {
                limits.required(c, "Limit must be set for non overcommitable resources");
            }
        }
    }
    if let Some(whole) = whole
        && has_pages
        && !has_compute
    {
        whole.forbidden(c, "HugePages require cpu or memory");
    }
}

/// Whether a resource is native to Kubernetes.
fn is_native(name: &str) -> bool {
    !name.contains('/')
        || name
            .split_once('/')
            .is_some_and(|(domain, _)| domain.contains("kubernetes.io"))
}

/// `ValidateResourceQuantityValue`.
pub(super) fn quantity(name: &str, amount: &At<'_>, c: &mut Check) {
    let Some(value) = Quantity::parse(amount.text()) else {
        return;
    };
    if value.is_negative() {
        amount.invalid(c, "must be greater than or equal to 0");
    }
    let is_integer = matches!(
        name,
        "pods"
            | "services"
            | "replicationcontrollers"
            | "resourcequotas"
            | "secrets"
            | "configmaps"
            | "persistentvolumeclaims"
            | "services.nodeports"
            | "services.loadbalancers"
    ) || !is_native(name);
    if is_integer && !value.is_whole() {
        let shown = go_syntax::quantity(c.version, amount.decoded(c));
        amount.invalid_as(c, &shown, "must be an integer");
    }
}

/// The names of resources with a standard meaning.
pub(super) const STANDARD_RESOURCES: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// `validateResourceName`.
pub(super) fn resource_name(name: &str, at: &At<'_>, c: &mut Check) {
    let problems = formats::qualified_name(c.version, name);
    if !problems.is_empty() {
        for problem in problems {
            at.invalid_as(c, &quoted(name), &problem);
        }
    } else if !name.contains('/') && !STANDARD_RESOURCES.contains(&name) && !is_pages(name) {
        at.invalid_as(
            c,
            &quoted(name),
            "must be a standard resource type or fully qualified",
        );
    }
}

fn is_pages(name: &str) -> bool {
    name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

/// `validateContainerResourceName`.
pub(super) fn container_resource(name: &str, at: &At<'_>, c: &mut Check) {
    resource_name(name, at, c);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !name.starts_with("hugepages-") {
            at.invalid_as(c, &quoted(name), "must be a standard resource for containers");
        }
    } else if !is_native(name)
        && (name.starts_with("requests.") || !formats::is_qualified_name(&format!("requests.{name}")))
    {
        at.invalid_as(c, &quoted(name), "doesn't follow extended resource name standard");
    }
}

/// `IsValidUserID` and `IsValidGroupID`.
pub(super) fn id(at: &At<'_>, c: &mut Check) {
    if at.is_set() {
        at.problems(c, formats::in_range(at.number(), 0, i32::MAX.into()));
    }
}

/// `validateSeccompProfileField`.
pub(super) fn seccomp(at: &At<'_>, c: &mut Check) {
    const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
    if !at.is_set() {
        return;
    }
    let (kind, profile) = (at.get("type"), at.get("localhostProfile"));
    if kind.text().is_empty() {
        kind.required(c, "type is required when seccompProfile is set");
    } else if !TYPES.contains(&kind.text()) {
        kind.unsupported(c, &TYPES);
    }
    if kind.text() == "Localhost" {
        if profile.is_set() {
            descending(&profile, c);
        } else {
            profile.required(c, "must be set when seccomp type is Localhost");
        }
    } else if profile.is_set() {
        let shown = go_syntax::value(c.version, at.value, "core.SeccompProfile");
        profile.invalid_as(c, &shown, "can only be set when seccomp type is Localhost");
    }
}

/// `ValidateSecurityContext`.
fn security_context(at: &At<'_>, c: &mut Check) {
    id(&at.get("runAsUser"), c);
    id(&at.get("runAsGroup"), c);
    let proc_mount = at.get("procMount");
    if proc_mount.is_set() && !matches!(proc_mount.text(), "Default" | "Unmasked") {
        proc_mount.unsupported(c, &["Default", "Unmasked"]);
    }
    seccomp(&at.get("seccompProfile"), c);
    let escalation = at.get("allowPrivilegeEscalation");
    if escalation.is_set() && !escalation.flag() {
        let version = c.version;
        let shown = || go_syntax::value(version, at.value, "core.SecurityContext");
        if at.get("privileged").flag() {
            at.invalid_as(
                c,
                &shown(),
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            );
        }
        for capability in at.get("capabilities").get("add").items() {
            if capability.text() == "CAP_SYS_ADMIN" {
                let problem =
                    "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
                at.invalid_as(c, &shown(), problem);
            }
        }
    }
}
