//! Volumes of pods and sources of persistent volumes.
//!
//! # Upstream
//! `ValidateVolumes` and its callees in `pkg/apis/core/validation/validation.go`, 1.20.2.

use kubegc_core::{Behavior, Quantity};
use serde_json::Value;

use super::super::field::{At, Check};
use super::{pod::annotations, references, selector::labels, storage::claim_spec};

/// The sources, in the order of their validation: the field, the name in paths, the name where there are
/// several, and the required fields.
type Source = (&'static str, &'static str, &'static str, &'static [&'static str]);
const SOURCES: [Source; 30] = [
    ("emptyDir", "emptyDir", "emptyDir", &[]),
    ("hostPath", "hostPath", "hostPath", &["path"]),
    ("gitRepo", "gitRepo", "gitRepo", &["repository"]),
    (
        "gcePersistentDisk",
        "persistentDisk",
        "gcePersistentDisk",
        &["pdName"],
    ),
    (
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        &["volumeID"],
    ),
    ("secret", "secret", "secret", &["secretName"]),
    ("nfs", "nfs", "nfs", &["server", "path"]),
    ("iscsi", "iscsi", "iscsi", &["targetPortal"]),
    ("glusterfs", "glusterfs", "glusterfs", &["endpoints", "path"]),
    ("flocker", "flocker", "flocker", &[]),
    (
        "persistentVolumeClaim",
        "persistentVolumeClaim",
        "persistentVolumeClaim",
        &["claimName"],
    ),
    ("rbd", "rbd", "rbd", &["monitors", "image"]),
    ("cinder", "cinder", "cinder", &["volumeID"]),
    ("cephfs", "cephfs", "cephFS", &["monitors"]),
    ("quobyte", "quobyte", "quobyte", &["volume"]),
    ("downwardAPI", "downwardAPI", "downwarAPI", &[]),
    ("fc", "fc", "fc", &[]),
    ("flexVolume", "flexVolume", "flexVolume", &["driver"]),
    ("configMap", "configMap", "configMap", &["name"]),
    (
        "azureFile",
        "azureFile",
        "azureFile",
        &["secretName", "shareName"],
    ),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", &["volumePath"]),
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "photonPersistentDisk",
        &["pdID"],
    ),
    (
        "portworxVolume",
        "portworxVolume",
        "portworxVolume",
        &["volumeID"],
    ),
    ("azureDisk", "azureDisk", "azureDisk", &["diskName", "diskURI"]),
    ("storageos", "storageos", "storageos", &["volumeName"]),
    ("projected", "projected", "projected", &[]),
    (
        "scaleIO",
        "scaleIO",
        "scaleIO",
        &["gateway", "system", "volumeName"],
    ),
    ("csi", "csi", "csi", &[]),
    ("ephemeral", "ephemeral", "ephemeral", &["volumeClaimTemplate"]),
    ("image", "image", "image", &["reference"]),
];

/// The valid volumes of a pod, by name.
pub(super) type Volumes<'v> = Vec<(&'v str, At<'v>)>;

/// `ValidateVolumes`: the valid volumes.
pub(super) fn volumes<'v>(at: &At<'v>, c: &mut Check) -> Volumes<'v> {
    let mut valid: Volumes<'v> = Vec::new();
    for volume in at.items() {
        let before = c.causes.len();
        let name = volume.get("name");
        sources(&volume, c);
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

fn sources(volume: &At<'_>, c: &mut Check) {
    let mut is_first = true;
    for (field, path, other_path, required) in SOURCES {
        let source = volume.get(field);
        if !source.is_set() {
            continue;
        }
        if !is_first {
            volume
                .get(other_path)
                .forbidden(c, "may not specify more than 1 volume type");
            continue;
        }
        is_first = false;
        let source = At {
            value: source.value,
            path: volume.get(path).path,
        };
        for key in required {
            source.get(key).present(c);
        }
        specific(volume, field, &source, c);
    }
}

fn specific(volume: &At<'_>, field: &str, source: &At<'_>, c: &mut Check) {
    match field {
        "emptyDir" => {
            let limit = source.get("sizeLimit");
            if Quantity::parse(limit.text()).is_some_and(Quantity::is_negative) {
                limit.forbidden(c, "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => host_path(source, c),
        "gitRepo" => descending(&source.get("directory"), c),
        "gcePersistentDisk" | "awsElasticBlockStore" => partition(source, c),
        "secret" | "configMap" => {
            mode(&source.get("defaultMode"), c);
            for item in source.get("items").items() {
                key_to_path(&item, c);
            }
        }
        "nfs" => nfs(source, c),
        "iscsi" => {
            iscsi(source, c);
            let name = volume.get("name");
            let long = name.text().len() + 1 + source.get("targetPortal").text().len() > 64;
            if source.get("initiatorName").is_set() && long {
                let problem = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                               iscsi.initiatorName is specified.";
                name.invalid(c, problem);
            }
        }
        "flocker" => flocker(source, c),
        "cinder" | "storageos" => {
            if source.get("secretRef").is_set() {
                source.get("secretRef").get("name").present(c);
            }
            if field == "storageos" {
                storage_os(source, c);
            }
        }
        "quobyte" => quobyte(source, c),
        "downwardAPI" => {
            mode(&source.get("defaultMode"), c);
            for file in source.get("items").items() {
                // Upstream omits the index.
                let file = At {
                    value: file.value,
                    path: source.path.clone(),
                };
                downward_file(&file, c);
            }
        }
        "fc" => fibre_channel(source, c),
        "flexVolume" => flex(source, c),
        "azureDisk" => azure_disk(source, c),
        "projected" => projected(source, c),
        "csi" => csi(source, c),
        "ephemeral" => {
            let template = source.get("volumeClaimTemplate");
            if template.is_set() {
                let metadata = template.get("metadata");
                annotations(&metadata.get("annotations"), c);
                labels(&metadata.get("labels"), c);
                claim_spec(&template.get("spec"), c);
            }
        }
        "image" => source
            .get("pullPolicy")
            .one_of(c, &["Always", "IfNotPresent", "Never"]),
        _ => {}
    }
}

/// Checks of a source of a persistent volume that pods have as well.
pub(super) fn shared_source(field: &str, source: &At<'_>, c: &mut Check) {
    let known = SOURCES.iter().find(|(known, ..)| *known == field);
    for key in known.map_or(&[][..], |(.., required)| required) {
        source.get(key).present(c);
    }
    match field {
        "hostPath" => host_path(source, c),
        "gcePersistentDisk" | "awsElasticBlockStore" => partition(source, c),
        "nfs" => nfs(source, c),
        "iscsi" => iscsi(source, c),
        "flocker" => flocker(source, c),
        "storageos" => storage_os(source, c),
        "quobyte" => quobyte(source, c),
        "fc" => fibre_channel(source, c),
        "flexVolume" => flex(source, c),
        "azureDisk" => azure_disk(source, c),
        _ => {}
    }
}

fn host_path(source: &At<'_>, c: &mut Check) {
    let path = source.get("path");
    if path.text().is_empty() {
        return;
    }
    no_backsteps(&path, c);
    let kind = source.get("type");
    const TYPES: [&str; 8] = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    if kind.is_set() && !TYPES.contains(&kind.text()) {
        kind.unsupported(c, &TYPES);
    }
}

fn partition(source: &At<'_>, c: &mut Check) {
    let partition = source.get("partition");
    if !(0..=255).contains(&partition.number()) {
        // Upstream allows zero as well.
        partition.invalid(c, "must be between 1 and 255, inclusive");
    }
}

fn nfs(source: &At<'_>, c: &mut Check) {
    let path = source.get("path");
    if !path.text().starts_with('/') {
        path.invalid(c, "must be an absolute path");
    }
}

fn iscsi(source: &At<'_>, c: &mut Check) {
    let iqn = source.get("iqn");
    if iqn.present(c) {
        initiator(&iqn, c);
    }
    let lun = source.get("lun");
    if !(0..=255).contains(&lun.number()) {
        lun.invalid(c, "must be between 0 and 255, inclusive");
    }
    if source.get("chapAuthDiscovery").flag() || source.get("chapAuthSession").flag() {
        let secret = source.get("secretRef");
        if !secret.is_set() {
            secret.required(c, "");
        }
    }
    let name = source.get("initiatorName");
    if name.is_set() {
        let name = At {
            value: name.value,
            path: source.get("initiatorname").path,
        };
        initiator(&name, c);
    }
}

/// A name that begins with `iqn`, `eui` or `naa` and has the corresponding format.
fn initiator(at: &At<'_>, c: &mut Check) {
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

fn flocker(source: &At<'_>, c: &mut Check) {
    let name = source.get("datasetName");
    match (
        name.text().is_empty(),
        source.get("datasetUUID").text().is_empty(),
    ) {
        (true, true) => source.required(c, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            let problem = "datasetName and datasetUUID can not be specified simultaneously";
            source.invalid_as(c, "\"resource\"", problem);
        }
        _ => {}
    }
    if name.text().contains('/') {
        name.invalid(c, "must not contain '/'");
    }
}

fn storage_os(source: &At<'_>, c: &mut Check) {
    for key in ["volumeName", "volumeNamespace"] {
        let name = source.get(key);
        if !name.text().is_empty() {
            name.label(c);
        }
    }
}

fn quobyte(source: &At<'_>, c: &mut Check) {
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

fn fibre_channel(source: &At<'_>, c: &mut Check) {
    let names = source.get("targetWWNs");
    match (names.is_empty(), source.get("wwids").is_empty()) {
        (true, true) => names.required(c, "must specify either targetWWNs or wwids, but not both"),
        (false, false) => {
            let texts: Vec<&str> = names.items().map(|item| item.text()).collect();
            let shown = super::go_strings(c.version, &texts);
            names.invalid_as(
                c,
                &shown,
                "targetWWNs and wwids can not be specified simultaneously",
            );
        }
        _ => {}
    }
    if !names.is_empty() {
        let lun = source.get("lun");
        if !lun.is_set() {
            lun.required(c, "lun is required if targetWWNs is specified");
        } else if !(0..=255).contains(&lun.number()) {
            lun.invalid(c, "must be between 0 and 255, inclusive");
        }
    }
}

fn flex(source: &At<'_>, c: &mut Check) {
    for (key, option) in source.get("options").entries() {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let shown = crate::status::quoted(key);
            option.invalid_as(c, &shown, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn azure_disk(source: &At<'_>, c: &mut Check) {
    let (caching, kind, uri) = (
        source.get("cachingMode"),
        source.get("kind"),
        source.get("diskURI"),
    );
    const CACHING: [&str; 3] = ["None", "ReadOnly", "ReadWrite"];
    const KINDS: [&str; 3] = ["Dedicated", "Managed", "Shared"];
    if caching.is_set() && !CACHING.contains(&caching.text()) {
        caching.unsupported(c, &CACHING);
    }
    if kind.is_set() && !KINDS.contains(&kind.text()) {
        kind.unsupported(c, &KINDS);
    }
    if kind.text() == "Managed" && !uri.text().starts_with("/subscriptions/") {
        let supported =
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
        uri.unsupported(c, &[supported]);
    }
    if kind.is_set() && kind.text() != "Managed" && !uri.text().starts_with("https://") {
        uri.unsupported(
            c,
            &["https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"],
        );
    }
}

fn csi(source: &At<'_>, c: &mut Check) {
    driver_name(&source.get("driver"), c);
    let secret = source.get("nodePublishSecretRef");
    if secret.is_set() {
        let name = secret.get("name");
        if name.text().is_empty() {
            // Before 1.25 the name ended with a blank.
            let path = if c.since(25) {
                "nodePublishSecretRef"
            } else {
                "nodePublishSecretRef "
            };
            source.get(path).get("name").required(c, "");
        } else {
            let name = At {
                value: name.value,
                path: source.get("name").path,
            };
            name.subdomain(c);
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
    let problems = crate::formats::subdomain(c.version, &name.text().to_lowercase());
    name.problems(c, problems);
}

fn projected(source: &At<'_>, c: &mut Check) {
    mode(&source.get("defaultMode"), c);
    let mut seen: Vec<String> = Vec::new();
    for part in source.get("sources").items() {
        let mut count = 0;
        for kind in ["secret", "configMap"] {
            let from = part.get(kind);
            if !from.is_set() {
                continue;
            }
            count += 1;
            from.get("name").present(c);
            for item in from.get("items").items() {
                key_to_path(&item, c);
                let path = item.get("path").text();
                if !path.is_empty() && seen.iter().any(|known| known == path) {
                    source.invalid_as(c, &from.get("name").shown(), "conflicting duplicate paths");
                }
                seen.push(path.to_owned());
            }
        }
        let from = part.get("downwardAPI");
        if from.is_set() {
            count += 1;
            for file in from.get("items").items() {
                let file = At {
                    value: file.value,
                    path: from.path.clone(),
                };
                downward_file(&file, c);
                let path = file.get("path");
                if !path.text().is_empty() && seen.iter().any(|known| known == path.text()) {
                    source.invalid_as(c, &path.shown(), "conflicting duplicate paths");
                }
                seen.push(path.text().to_owned());
            }
        }
        let token = part.get("serviceAccountToken");
        if token.is_set() {
            count += 1;
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
        if count > 1 {
            let per = if c.since(31) { " per source" } else { "" };
            part.forbidden(c, &format!("may not specify more than 1 volume type{per}"));
        }
    }
}

fn downward_file(file: &At<'_>, c: &mut Check) {
    const PATHS: [&str; 5] = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
    ];
    let path = file.get("path");
    path.present(c);
    non_reserved(&path, c);
    let (field, resource) = (file.get("fieldRef"), file.get("resourceFieldRef"));
    if field.is_set() {
        references::object_field(&field, &PATHS, c);
        if resource.is_set() {
            let problem = "fieldRef and resourceFieldRef can not be specified simultaneously";
            file.invalid_as(c, "\"resource\"", problem);
        }
    } else if resource.is_set() {
        references::resource_field(&resource, true, c);
    } else {
        file.required(c, "one of fieldRef and resourceFieldRef is required");
    }
    mode(&file.get("mode"), c);
}

fn key_to_path(item: &At<'_>, c: &mut Check) {
    item.get("key").present(c);
    item.get("path").present(c);
    non_reserved(&item.get("path"), c);
    mode(&item.get("mode"), c);
}

fn mode(at: &At<'_>, c: &mut Check) {
    if !(0..=0o777).contains(&at.number()) {
        at.invalid(c, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// `validateLocalNonReservedPath`.
fn non_reserved(at: &At<'_>, c: &mut Check) {
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
