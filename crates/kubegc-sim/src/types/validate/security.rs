//! Security contexts of pods and containers, and what belongs to an operating system.
//!
//! # Upstream
//! `validatePodSpecSecurityContext`, `ValidateSecurityContext`, `validateLinux` and `validateWindows` in
//! `pkg/apis/core/validation/validation.go`, 1.20.2 and newer.

use std::collections::BTreeSet;

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use super::{go_syntax, volumes::descending};
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

/// `validatePodSpecSecurityContext`.
pub(super) fn of_pod(spec: &At<'_>, c: &mut Check) {
    let context = spec.get("securityContext");
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context.get(key), c);
    }
    for group in context.get("supplementalGroups").items() {
        id(&group, c);
    }
    if spec.get("shareProcessNamespace").flag() && spec.get("hostPID").flag() {
        let problem = "ShareProcessNamespace and HostPID cannot both be enabled";
        context
            .get("shareProcessNamespace")
            .invalid_as(c, "true", problem);
    }
    sysctls(spec, &context.get("sysctls"), c);
    supported(
        &context.get("fsGroupChangePolicy"),
        &["Always", "OnRootMismatch"],
        c,
    );
    seccomp(&context.get("seccompProfile"), c);
    windows_options(&context.get("windowsOptions"), c);
    app_armor(&context.get("appArmorProfile"), c);
    supported(&context.get("supplementalGroupsPolicy"), &["Merge", "Strict"], c);
    // The feature gate `SELinuxMount` is off.
    supported(&context.get("seLinuxChangePolicy"), &["Recursive"], c);
}

/// One of these values, if it is set.
fn supported(at: &At<'_>, values: &[&str], c: &mut Check) {
    if at.is_set() && !values.contains(&at.text()) {
        at.unsupported(c, values);
    }
}

/// `validateHostUsers`.
pub(super) fn host_users(spec: &At<'_>, c: &mut Check) {
    let users = spec.get("hostUsers");
    if !users.is_set() || users.flag() {
        return;
    }
    // Upstream spells two of the paths differently.
    for (key, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec.get(key).flag() {
            let name = match c.since(34) {
                true => "hostUsers",
                false => "pod.Spec.HostUsers",
            };
            spec.get(shown).forbidden(c, &format!("when `{name}` is false"));
        }
    }
}

/// `ValidateAppArmorProfileField`.
fn app_armor(at: &At<'_>, c: &mut Check) {
    const NAME_MAX: usize = 4095;
    const NEEDED: &str = "must be set when AppArmor type is Localhost";
    if !at.is_set() {
        return;
    }
    let (kind, profile) = (at.get("type"), at.get("localhostProfile"));
    match kind.text() {
        "Localhost" => {
            if !profile.is_set() || profile.text().is_empty() {
                profile.required(c, NEEDED);
            } else if profile.text().trim() != profile.text() {
                profile.invalid(c, "must not be padded with whitespace");
            }
            if profile.text().len() > NAME_MAX {
                profile.too_long(c, NAME_MAX);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if profile.is_set() {
                profile.invalid(c, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => kind.required(c, "type is required when appArmorProfile is set"),
        _ => kind.unsupported(c, &["Localhost", "RuntimeDefault", "Unconfined"]),
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

/// `validateWindowsSecurityContextOptions`.
fn windows_options(at: &At<'_>, c: &mut Check) {
    const CREDENTIALS_MAX: usize = 64 * 1024;
    let (name, credentials) = (at.get("gmsaCredentialSpecName"), at.get("gmsaCredentialSpec"));
    if name.is_set() {
        name.subdomain(c);
    }
    if credentials.is_set() && credentials.text().is_empty() {
        credentials.invalid(c, "gmsaCredentialSpec cannot be an empty string");
    }
    if credentials.text().len() > CREDENTIALS_MAX {
        let problem = "gmsaCredentialSpec size must be under 64 KiB";
        credentials.invalid(c, problem);
    }
    let user = at.get("runAsUserName");
    if user.is_set() && user.text().is_empty() {
        user.invalid(c, "runAsUserName cannot be an empty string");
    } else if user.is_set() {
        user_name(&user, c);
    }
}

/// The name of a user of Windows: a domain and a backslash may precede it.
fn user_name(at: &At<'_>, c: &mut Check) {
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

/// `validateOS`, `validateLinux` and `validateWindows`.
pub(super) fn operating_system(spec: &At<'_>, c: &mut Check) {
    let os = spec.get("os");
    if !os.is_set() {
        return;
    }
    let name = os.get("name");
    match name.text() {
        "" if c.since(34) => name.required(c, ""),
        "" => name.required(c, "cannot be empty"),
        "linux" => linux(spec, c),
        "windows" => windows(spec, c),
        _ => os.unsupported_as(c, &name.shown(), &["linux", "windows"]),
    }
}

/// The security contexts of the containers of a pod.
fn contexts_of_containers<'v>(spec: &At<'v>) -> impl Iterator<Item = At<'v>> {
    let lists = ["initContainers", "containers", "ephemeralContainers"].map(|list| spec.get(list));
    lists
        .into_iter()
        .flat_map(|list| list.items())
        .map(|container| container.get("securityContext"))
}

fn linux(spec: &At<'_>, c: &mut Check) {
    const PROBLEM: &str = "windows options cannot be set for a linux pod";
    for context in [spec.get("securityContext")]
        .into_iter()
        .chain(contexts_of_containers(spec))
    {
        let options = context.get("windowsOptions");
        if options.is_set() {
            options.forbidden(c, PROBLEM);
        }
    }
}

fn windows(spec: &At<'_>, c: &mut Check) {
    /// The fields of a pod: whether they are in its security context, and their names.
    const OF_POD: [(bool, &str); 15] = [
        (true, "appArmorProfile"),
        (true, "seLinuxOptions"),
        (false, "hostUsers"),
        (false, "hostPID"),
        (false, "hostIPC"),
        (true, "seccompProfile"),
        (true, "fsGroup"),
        (true, "fsGroupChangePolicy"),
        (true, "sysctls"),
        (false, "shareProcessNamespace"),
        (true, "runAsUser"),
        (true, "runAsGroup"),
        (true, "supplementalGroups"),
        (true, "supplementalGroupsPolicy"),
        (true, "seLinuxChangePolicy"),
    ];
    const OF_CONTAINERS: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    const PROBLEM: &str = "cannot be set for a windows pod";
    for (in_context, key) in OF_POD {
        let field = match in_context {
            true => spec.get("securityContext").get(key),
            false => spec.get(key),
        };
        let is_off = matches!(key, "hostPID" | "hostIPC") && !field.flag();
        if field.is_set() && !is_off {
            field.forbidden(c, PROBLEM);
        }
    }
    for context in contexts_of_containers(spec) {
        for key in OF_CONTAINERS {
            if context.get(key).is_set() {
                context.get(key).forbidden(c, PROBLEM);
            }
        }
    }
}

/// `validateSysctls`.
fn sysctls(spec: &At<'_>, at: &At<'_>, c: &mut Check) {
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
    for sysctl in at.items() {
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
pub(super) fn of_container(at: &At<'_>, pod: &At<'_>, c: &mut Check) {
    id(&at.get("runAsUser"), c);
    id(&at.get("runAsGroup"), c);
    let proc_mount = at.get("procMount");
    if proc_mount.is_set() && !matches!(proc_mount.text(), "Default" | "Unmasked") {
        proc_mount.unsupported(c, &["Default", "Unmasked"]);
    }
    let users = pod.get("hostUsers");
    if proc_mount.text() == "Unmasked" && (!users.is_set() || users.flag()) && c.since(30) {
        let problem = "`hostUsers` must be false to use `Unmasked`";
        proc_mount.invalid(c, problem);
    }
    seccomp(&at.get("seccompProfile"), c);
    windows_options(&at.get("windowsOptions"), c);
    app_armor(&at.get("appArmorProfile"), c);
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
