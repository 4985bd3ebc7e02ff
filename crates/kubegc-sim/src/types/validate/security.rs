//! Security contexts of pods and containers.
//!
//! # Upstream
//! `validatePodSpecSecurityContext` and `ValidateSecurityContext` in
//! `pkg/apis/core/validation/validation.go`, 1.20.2 and newer.

use std::collections::BTreeSet;

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use super::rules;
use crate::formats;

/// The port of the host is refused where it differs, before the port of the container; and templates get no
/// host ports by default.
const HOST_PORTS_ARE_REFUSED: Behavior = Behavior::since(
    28,
    0,
    "the feature gate DefaultHostNetworkHostPortsInPodTemplates is off",
);
const SYSCTLS_MAY_HAVE_SLASHES: Behavior = Behavior::since(23, 0, "kubernetes #102393");
/// Pods in a namespace of the host set none of its sysctls.
const SYSCTLS_OF_THE_HOST_ARE_REFUSED: Behavior = Behavior::since(29, 0, "ValidateHostSysctl of 1.29");

/// `validatePodHostNetworkDeps`.
pub(super) fn host_ports(spec: &At<'_>, is_pod: bool, c: &mut Check) {
    if !spec.get("hostNetwork").flag() {
        return;
    }
    for container in spec.get("containers").items() {
        for port in container.get("ports").items() {
            let (number, host) = (port.get("containerPort"), port.get("hostPort"));
            if host.number() == number.number() {
                continue;
            }
            if !c.version.has(HOST_PORTS_ARE_REFUSED) {
                number.invalid(c, "must match `hostPort` when `hostNetwork` is true");
            } else if is_pod || host.number() != 0 {
                let shown = host.number().to_string();
                host.invalid_as(c, &shown, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

/// Profiles of AppArmor in fields and in annotations must be the same.
///
/// # Upstream
/// `validateAppArmorAnnotationsAndFieldsMatchOnCreate`.
pub(super) fn app_armor_matches(annotations: &At<'_>, spec: &At<'_>, c: &mut Check) {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
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

/// `validateSysctls`.
pub(super) fn sysctls(spec: &At<'_>, c: &mut Check) {
    const SEGMENT: &str = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let allows_slashes = c.version.has(SYSCTLS_MAY_HAVE_SLASHES);
    let alphanumeric =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_separator = |char: char| char == '.' || char == '/' && allows_slashes;
    let fits = |name: &str| {
        name.len() <= formats::SUBDOMAIN_MAX
            && name.split(is_separator).all(|part| {
                let bytes = part.as_bytes();
                let known = |byte: &u8| alphanumeric(Some(byte)) || matches!(byte, b'-' | b'_');
                alphanumeric(bytes.first()) && alphanumeric(bytes.last()) && bytes.iter().all(known)
            })
    };
    let mut names = BTreeSet::new();
    for sysctl in spec.get("securityContext").get("sysctls").items() {
        let name = sysctl.get("name");
        if name.text().is_empty() {
            name.required(c, "");
        } else if !fits(name.text()) {
            let pattern = match allows_slashes {
                true => format!("^({SEGMENT}[\\./])*{SEGMENT}$"),
                false => format!("({SEGMENT}\\.)*{SEGMENT}"),
            };
            let problem = format!("must have at most 253 characters and match regex {pattern}");
            name.invalid(c, &problem);
        } else if names.contains(name.text()) {
            name.duplicate(c);
        }
        names.insert(name.text());
        if c.version.has(SYSCTLS_OF_THE_HOST_ARE_REFUSED) {
            namespaced_sysctl(spec, &name, c);
        }
    }
}

/// `ValidateHostSysctl`.
fn namespaced_sysctl(spec: &At<'_>, name: &At<'_>, c: &mut Check) {
    const OF_IPC: [&str; 4] = ["kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue."];
    let text = name.text();
    let dotted = text.replace('/', ".");
    let is_of_ipc = OF_IPC.iter().any(|prefix| dotted.starts_with(prefix));
    if spec.get("hostNetwork").flag() && dotted.starts_with("net.") {
        name.invalid(c, "may not be specified when 'hostNetwork' is true");
    } else if spec.get("hostIPC").flag() && is_of_ipc {
        name.invalid(c, "may not be specified when 'hostIPC' is true");
    }
}

/// `ValidateSecurityContext`.
pub(super) fn of_container(at: &At<'_>, pod: &At<'_>, c: &mut Check) {
    rules::apply("SecurityContext", at, c);
    let (proc_mount, users) = (at.get("procMount"), pod.get("hostUsers"));
    if proc_mount.text() == "Unmasked" && (!users.is_set() || users.flag()) && c.since(30) {
        proc_mount.invalid(c, "`hostUsers` must be false to use `Unmasked`");
    }
    rules::apply("SecurityContextProfiles", at, c);
}
