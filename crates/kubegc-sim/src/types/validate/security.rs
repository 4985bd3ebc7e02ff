//! Security contexts of pods and containers.
//!
//! # Upstream
//! `validatePodSpecSecurityContext` and `ValidateSecurityContext` in
//! `pkg/apis/core/validation/validation.go`, 1.20.2 and newer.

use std::collections::BTreeSet;

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use super::{go_syntax, rules};
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

/// Containers that share the processes of the pod do not have those of the host.
pub(super) fn process_namespaces(spec: &At<'_>, c: &mut Check) {
    if spec.get("shareProcessNamespace").flag() && spec.get("hostPID").flag() {
        let shared = spec.get("securityContext").get("shareProcessNamespace");
        let problem = "ShareProcessNamespace and HostPID cannot both be enabled";
        shared.invalid_as(c, "true", problem);
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

/// The name of a user of Windows: a domain and a backslash may precede it.
pub(super) fn user_name(at: &At<'_>, c: &mut Check) {
    const DOMAIN_MAX: usize = 256;
    const USER_MAX: usize = 104;
    let text = at.text();
    if text.chars().any(|c| c.is_ascii_control()) {
        at.invalid(c, "runAsUserName cannot contain control characters");
        return;
    }
    if text.matches('\\').count() > 1 {
        at.invalid(c, "runAsUserName cannot contain more than one backslash");
        return;
    }
    let (domain, user) = match text.split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, text),
    };
    if let Some(domain) = domain {
        if domain.len() >= DOMAIN_MAX {
            let problem = format!("runAsUserName's Domain length must be under {DOMAIN_MAX} characters");
            at.invalid(c, &problem);
        }
        if !is_domain(domain) {
            at.invalid(
                c,
                "runAsUserName's Domain doesn't match the NetBios nor the DNS format",
            );
        }
    }
    if user.is_empty() {
        at.invalid(c, "runAsUserName's User cannot be empty");
    } else if user.len() > USER_MAX {
        let problem = format!("runAsUserName's User length must not be longer than {USER_MAX} characters");
        at.invalid(c, &problem);
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        at.invalid(c, "runAsUserName's User cannot contain only periods or spaces");
    }
    const EXCLUDED: &str = "\"/\\:;|=,+*?<>@[]";
    if user.contains(|c: char| EXCLUDED.contains(c)) {
        let problem = format!("runAsUserName's User cannot contain the following characters: {EXCLUDED}");
        at.invalid(c, &problem);
    }
}

/// Whether a domain has a NetBIOS name or a DNS name.
fn is_domain(domain: &str) -> bool {
    let is_short = (1..=15).contains(&domain.len()) && !domain.starts_with('.');
    let is_net_bios = is_short && !domain.contains(|c: char| "\\/:*?<>|\"".contains(c));
    let is_name = |part: &str| {
        let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.ends_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(is_inner)
    };
    is_net_bios || domain.split('.').all(is_name)
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

/// Only profiles of the node have names.
pub(super) fn superfluous_profile(profile: &At<'_>, c: &mut Check) {
    let shown = go_syntax::value(c.version, profile.value, "core.SeccompProfile");
    let name = profile.get("localhostProfile");
    name.invalid_as(c, &shown, "can only be set when seccomp type is Localhost");
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

/// Privileged containers escalate.
pub(super) fn privilege_escalation(at: &At<'_>, c: &mut Check) {
    let escalation = at.get("allowPrivilegeEscalation");
    if !escalation.is_set() || escalation.flag() {
        return;
    }
    let added = at.get("capabilities").get("add").texts();
    let added = added.into_iter().filter(|name| *name == "CAP_SYS_ADMIN");
    let privileged = at.get("privileged").flag().then_some("`privileged` to true");
    for other in privileged
        .into_iter()
        .chain(added.map(|_| "`capabilities.Add` CAP_SYS_ADMIN"))
    {
        let problem = format!("cannot set `allowPrivilegeEscalation` to false and {other}");
        at.invalid_typed(c, "core.SecurityContext", &problem);
    }
}
