//! Security contexts of pods and containers.
//!
//! # Upstream
//! `validatePodSpecSecurityContext` and `ValidateSecurityContext` in
//! `pkg/apis/core/validation/validation.go`, 1.20.2 and newer.

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use super::rules;

/// The port of the host is refused where it differs, before the port of the container; and templates get no
/// host ports by default.
const HOST_PORTS_ARE_REFUSED: Behavior = Behavior::since(
    28,
    0,
    "the feature gate DefaultHostNetworkHostPortsInPodTemplates is off",
);
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

/// `ValidateSecurityContext`.
pub(super) fn of_container(at: &At<'_>, pod: &At<'_>, c: &mut Check) {
    rules::apply("SecurityContext", at, c);
    let (proc_mount, users) = (at.get("procMount"), pod.get("hostUsers"));
    if proc_mount.text() == "Unmasked" && (!users.is_set() || users.flag()) && c.since(30) {
        proc_mount.invalid(c, "`hostUsers` must be false to use `Unmasked`");
    }
    rules::apply("SecurityContextProfiles", at, c);
}
