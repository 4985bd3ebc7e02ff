//! Containers: names, ports, variables, mounts, resources, restarts.
//!
//! # Upstream
//! `validateContainers` and its callees in `pkg/apis/core/validation/validation.go`, 1.20.2 and newer.

use std::collections::BTreeSet;

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use super::{
    amounts::{container_resource, requirements},
    rules, security,
    volumes::Volumes,
};
use crate::status::quoted;

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
            rules::apply("RestartPolicyOfInit", &container, c);
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
            rules::apply("Lifecycle", &container, c);
            rules::apply("Probes", &container, c);
            continue;
        }
        rules::apply("InitContainer", &container, c);
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
            rules::apply("Lifecycle", &container, c);
            rules::apply("Probes", &container, c);
            rules::apply("RestartPolicy", &container, c);
            continue;
        }
        rules::apply("ContainerName", &container, c);
        if !names.insert(name.text()) {
            name.duplicate(c);
        }
        container.get("image").present(c);
        rules::apply("Lifecycle", &container, c);
        for key in ["livenessProbe", "startupProbe"] {
            rules::apply("LivenessProbe", &container.get(key), c);
        }
        rules::apply("TerminationMessage", &container, c);
        rules::apply("ReadinessProbe", &container.get("readinessProbe"), c);
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
    let others: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| pod.spec.get(list).items())
        .map(|other| other.get("name").text())
        .collect();
    let mut names = others.clone();
    for container in at.items() {
        common(&container, pod, c);
        rules::apply("Image", &container.get("image"), c);
        let (name, target) = (container.get("name"), container.get("targetContainerName"));
        if !names.insert(name.text()) {
            name.duplicate(c);
        }
        if !target.text().is_empty() && !others.contains(target.text()) {
            target.not_found(c);
        }
        rules::apply("EphemeralContainer", &container, c);
    }
}

/// `validateContainerCommon`.
fn common(container: &At<'_>, pod: &Pod<'_>, c: &mut Check) {
    rules::apply("ContainerName", container, c);
    container.get("image").present(c);
    rules::apply("TerminationMessage", container, c);
    parts(container, pod, c);
}

/// The lists and structs that every container may have.
fn parts(container: &At<'_>, pod: &Pod<'_>, c: &mut Check) {
    rules::apply("ContainerLists", container, c);
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

/// `validateResizePolicy`.
fn resize_policy(at: &At<'_>, spec: &At<'_>, c: &mut Check) {
    let mut names = BTreeSet::new();
    for item in at.items() {
        let (name, policy) = (item.get("resourceName"), item.get("restartPolicy"));
        if !names.insert(name.text()) {
            item.duplicate_as(c, &quoted(name.text()));
        }
        // Upstream omits the index.
        rules::apply("ResizePolicy", &item.placed(at), c);
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
        let name = claim.get("name").placed(&claim);
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

fn mounts(container: &At<'_>, volumes: &Volumes<'_>, c: &mut Check) {
    let at = container.get("volumeMounts");
    let mut paths = BTreeSet::new();
    for mount in at.items() {
        let (name, path) = (mount.get("name"), mount.get("mountPath"));
        name.present(c);
        if !volumes.iter().any(|(known, _)| *known == name.text()) {
            name.not_found(c);
        }
        path.present(c);
        if !paths.insert(path.text()) {
            path.invalid_as(c, &quoted(path.text()), "must be unique");
        }
        // Upstream omits the index.
        rules::apply("VolumeMount", &mount.placed(&at), c);
        let (sub, expression) = (mount.get("subPath"), mount.get("subPathExpr"));
        if !expression.text().is_empty() {
            if !sub.text().is_empty() {
                expression.invalid(c, "subPathExpr and subPath are mutually exclusive");
            }
            rules::apply("DescendingPath", &expression.under(&at, "subPathExpr"), c);
        }
        let propagation = mount.get("mountPropagation");
        if propagation.is_set() {
            let privileged = container.get("securityContext").get("privileged").flag();
            let named = propagation.under(&at, "mountPropagation");
            named.supported(c, &["Bidirectional", "HostToContainer", "None"]);
            if named.text() == "Bidirectional" && !privileged {
                named.forbidden(
                    c,
                    "Bidirectional mount propagation is available only to privileged containers",
                );
            }
        }
    }
}

fn devices(container: &At<'_>, volumes: &Volumes<'_>, c: &mut Check) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in container.get("volumeDevices").items() {
        let (name, path) = (device.get("name"), device.get("devicePath"));
        name.present(c);
        if names.contains(name.text()) {
            name.invalid(c, "must be unique");
        }
        match volumes.iter().find(|(known, _)| *known == name.text()) {
            None => name.not_found(c),
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
        if path.text().split('/').any(|part| part == "..") {
            path.invalid(c, "can not contain backsteps ('..')");
        } else {
            paths.insert(path.text());
        }
        if !name.text().is_empty() {
            names.insert(name.text());
        }
    }
}

/// A container may sleep for no time.
const SLEEP_MAY_BE_ZERO: Behavior =
    Behavior::since(33, 0, "the feature gate PodLifecycleSleepActionAllowZero is on");

/// `validateSleepAction`.
pub(super) fn sleep(at: &At<'_>, c: &mut Check) {
    let seconds = at.get("seconds").number();
    let may_be_zero = c.version.has(SLEEP_MAY_BE_ZERO);
    let least = i64::from(!may_be_zero);
    let Some(grace) = c
        .grace_period
        .filter(|grace| !(least..=*grace).contains(&seconds))
    else {
        return;
    };
    let bound = format!("less than terminationGracePeriodSeconds ({grace})");
    let problem = match c.version.minor() {
        _ if may_be_zero => format!("must be non-negative and {bound}"),
        32 => format!(
            "must be greater than 0 and {bound}. Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero \
             sleep."
        ),
        _ => format!("must be greater than 0 and {bound}"),
    };
    at.invalid_as(c, &seconds.to_string(), &problem);
}
