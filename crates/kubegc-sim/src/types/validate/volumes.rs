//! Volumes of pods and sources of persistent volumes.
//!
//! # Upstream
//! `ValidateVolumes` and its callees in `pkg/apis/core/validation/validation.go`, 1.20.2.

use kubegc_core::{Behavior, Quantity};
use serde_json::Value;

use super::super::field::{At, Check};
use super::{references, rules};
use crate::{formats, status::quoted};

/// The valid volumes of a pod, by name.
pub(super) type Volumes<'v> = Vec<(&'v str, At<'v>)>;

/// `ValidateVolumes`: the valid volumes.
pub(super) fn volumes<'v>(at: &At<'v>, c: &mut Check) -> Volumes<'v> {
    let mut valid: Volumes<'v> = Vec::new();
    for volume in at.items() {
        let before = c.causes.len();
        let name = volume.get("name");
        rules::apply("VolumeSource", &volume, c);
        if name.present(c) {
            name.label(c);
        }
        if valid.iter().any(|(known, _)| *known == name.text()) {
            name.duplicate(c);
        }
        if c.causes.len() == before {
            valid.push((name.text(), volume));
        }
    }
    valid
}

pub(super) fn size_limit(limit: &At<'_>, c: &mut Check) {
    if Quantity::parse(limit.text()).is_some_and(Quantity::is_negative) {
        limit.forbidden(c, "SizeLimit field must be a valid resource quantity");
    }
}

/// The portal of a volume with an initiator; upstream names the volume after both.
pub(super) fn portal(volume: &At<'_>, c: &mut Check) {
    let (name, source) = (volume.get("name"), volume.get("iscsi"));
    let length = name.text().len() + 1 + source.get("targetPortal").text().len();
    if source.get("initiatorName").is_set() && length > 64 {
        let problem = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                       iscsi.initiatorName is specified.";
        name.invalid(c, problem);
    }
}

pub(super) fn absolute(path: &At<'_>, c: &mut Check) {
    if !path.text().starts_with('/') {
        path.invalid(c, "must be an absolute path");
    }
}

/// A name that begins with `iqn`, `eui` or `naa` and has the corresponding format.
pub(super) fn initiator(at: &At<'_>, c: &mut Check) {
    let text = at.text();
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fits = if let Some(rest) = text.strip_prefix("iqn") {
        // `iqn.yyyy-mm.reversed.domain[:name]`
        let rest = rest.strip_prefix('.').unwrap_or_default();
        let (date, rest) = rest.split_once('.').unwrap_or((rest, ""));
        let dated = date.split_once('-').is_some_and(|(year, month)| {
            let digits =
                |text: &str, len| text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit());
            digits(year, 4) && digits(month, 2)
        });
        let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        dated && !rest.is_empty() && rest.chars().all(|c| name(c) || c == '_')
    } else if let Some(rest) = text.strip_prefix("eui.") {
        rest.len() == 16 && is_hex(rest)
    } else if let Some(rest) = text.strip_prefix("naa.") {
        rest.len() == 32 && is_hex(rest)
    } else {
        at.invalid(c, "must be valid format starting with iqn, eui, or naa");
        return;
    };
    if !fits {
        at.invalid(c, "must be valid format");
    }
}

pub(super) fn no_slash(name: &At<'_>, c: &mut Check) {
    if name.text().contains('/') {
        name.invalid(c, "must not contain '/'");
    }
}

pub(super) fn quobyte(source: &At<'_>, c: &mut Check) {
    const PROBLEM: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.get("registry");
    if registry.text().is_empty() {
        registry.required(c, PROBLEM);
    } else if source.get("tenant").text().len() >= 65 {
        source
            .get("tenant")
            .required(c, "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for pair in registry.text().split(',') {
            if pair.matches(':').count() != 1 {
                registry.invalid(c, PROBLEM);
            }
        }
    }
}

pub(super) fn flex_options(options: &At<'_>, c: &mut Check) {
    for (key, option) in options.entries() {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            option.invalid_as(
                c,
                &quoted(key),
                "kubernetes.io and k8s.io namespaces are reserved",
            );
        }
    }
}

/// Managed disks and others have URIs of different forms.
pub(super) fn disk_uri(source: &At<'_>, c: &mut Check) {
    let (kind, uri) = (source.get("kind"), source.get("diskURI"));
    let (prefix, supported) = match kind.text() {
        "Managed" => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => (
            "https://",
            "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
        ),
    };
    if kind.is_set() && !uri.text().starts_with(prefix) {
        uri.unsupported(c, &[supported]);
    }
}

pub(super) fn csi(source: &At<'_>, c: &mut Check) {
    driver_name(&source.get("driver"), c);
    let secret = source.get("nodePublishSecretRef");
    if secret.is_set() {
        let name = secret.get("name");
        if name.text().is_empty() {
            // Before 1.25 the name ended with a blank.
            let blank = if c.since(25) { "" } else { " " };
            let named = source.get(&format!("nodePublishSecretRef{blank}"));
            named.get("name").required(c, "");
        } else {
            name.under(source, "name").subdomain(c);
        }
    }
}

/// The format of a missing name of a driver is not validated.
const MISSING_NAMES_ARE_ONLY_REQUIRED: Behavior = Behavior::since_about(36, "ValidateCSIDriverName of 1.36");

/// `ValidateCSIDriverName`.
pub(super) fn driver_name(name: &At<'_>, c: &mut Check) {
    if name.text().is_empty() {
        name.required(c, "");
        if c.version.has(MISSING_NAMES_ARE_ONLY_REQUIRED) {
            return;
        }
    }
    if name.text().len() > 63 {
        name.too_long(c, 63);
    }
    let problems = formats::subdomain(c.version, &name.text().to_lowercase());
    name.problems(c, problems);
}

/// Files with facts about the pod; upstream omits their position.
pub(super) fn downward_files(source: &At<'_>, c: &mut Check) {
    for file in source.get("items").items() {
        rules::apply("DownwardAPIVolumeFile", &file.placed(source), c);
    }
}

/// The parts of a projected volume, whose files have different paths.
pub(super) fn projected(source: &At<'_>, c: &mut Check) {
    let mut seen: Vec<&str> = Vec::new();
    for part in source.get("sources").items() {
        let [secret, map, api, token] =
            part.fields(["secret", "configMap", "downwardAPI", "serviceAccountToken"]);
        for from in [&secret, &map].into_iter().filter(|from| from.is_set()) {
            from.get("name").present(c);
            for item in from.get("items").items() {
                rules::apply("KeyToPath", &item, c);
                let path = item.get("path").text();
                if !path.is_empty() && seen.contains(&path) {
                    source.invalid_as(c, &from.get("name").shown(), "conflicting duplicate paths");
                }
                seen.push(path);
            }
        }
        for file in api.get("items").items() {
            let path = file.get("path");
            rules::apply("DownwardAPIVolumeFile", &file.placed(&api), c);
            if !path.text().is_empty() && seen.contains(&path.text()) {
                source.invalid_as(c, &path.shown(), "conflicting duplicate paths");
            }
            seen.push(path.text());
        }
        if token.is_set() {
            let seconds = token.get("expirationSeconds");
            if seconds.number() < 600 {
                seconds.invalid(c, "may not specify a duration less than 10 minutes");
            }
            if seconds.number() > 1 << 32 {
                seconds.invalid(c, "may not specify a duration larger than 2^32 seconds");
            }
            if token.get("path").text().is_empty() {
                source.get("path").required(c, "");
            }
        }
        if [secret, map, api, token]
            .iter()
            .filter(|from| from.is_set())
            .count()
            > 1
        {
            let per = if c.since(31) { " per source" } else { "" };
            part.forbidden(c, &format!("may not specify more than 1 volume type{per}"));
        }
    }
}

pub(super) fn field_of_file(field: &At<'_>, c: &mut Check) {
    const PATHS: [&str; 5] = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
    ];
    references::object_field(field, &PATHS, c);
}

/// `validateLocalNonReservedPath`.
pub(super) fn non_reserved(at: &At<'_>, c: &mut Check) {
    descending(at, c);
    if at.text().starts_with("..") && !at.text().starts_with("../") {
        at.invalid(c, "must not start with '..'");
    }
}

/// `validateLocalDescendingPath`.
pub(super) fn descending(at: &At<'_>, c: &mut Check) {
    if at.text().starts_with('/') {
        at.invalid(c, "must be a relative path");
    }
    no_backsteps(at, c);
}

/// `validatePathNoBacksteps`.
pub(super) fn no_backsteps(at: &At<'_>, c: &mut Check) {
    if has_backsteps(at.value) {
        at.invalid(c, "must not contain '..'");
    }
}

pub(super) fn has_backsteps(path: &Value) -> bool {
    path.as_str()
        .unwrap_or_default()
        .split('/')
        .any(|part| part == "..")
}
