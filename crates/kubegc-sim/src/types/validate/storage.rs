//! Volumes, claims, storage classes.
//!
//! # Upstream
//! `ValidatePersistentVolume*` in `pkg/apis/core/validation`, and `pkg/apis/storage/validation`, 1.20.2.

use kubegc_core::{Behavior, Quantity};
use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::{
    go_syntax,
    selector::{label_selector, node_selector},
    volumes::{driver_name, no_backsteps, shared_source},
};
use crate::{
    formats,
    status::{POINTER, quoted},
};

type Object = Map<String, Value>;

/// The sources of persistent volumes, in the order of their validation: the field, its name in paths, its
/// name where there are several.
const SOURCES: [(&str, &str, &str); 22] = [
    ("hostPath", "hostPath", "hostPath"),
    ("gcePersistentDisk", "persistentDisk", "gcePersistentDisk"),
    (
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        "awsElasticBlockStore",
    ),
    ("glusterfs", "glusterfs", "glusterfs"),
    ("flocker", "flocker", "flocker"),
    ("nfs", "nfs", "nfs"),
    ("rbd", "rbd", "rbd"),
    ("quobyte", "quobyte", "quobyte"),
    ("cephfs", "cephfs", "cephFS"),
    ("iscsi", "iscsi", "iscsi"),
    ("cinder", "cinder", "cinder"),
    ("fc", "fc", "fc"),
    ("flexVolume", "flexVolume", "flexVolume"),
    ("azureFile", "azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume"),
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "photonPersistentDisk",
    ),
    ("portworxVolume", "portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk", "azureDisk"),
    ("scaleIO", "scaleIO", "scaleIO"),
    ("local", "local", "local"),
    ("storageos", "storageos", "storageos"),
    ("csi", "csi", "csi"),
];

const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

fn access_modes(at: &At<'_>, c: &mut Check) {
    let mut modes = vec!["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce"];
    if c.since(27) {
        modes.push("ReadWriteOncePod");
    }
    for mode in at.items() {
        if !modes.contains(&mode.text()) {
            let at = At {
                value: mode.value,
                path: at.path.clone(),
            };
            at.unsupported(c, &modes);
        }
    }
    let alone = |mode: &At<'_>| mode.text() == "ReadWriteOncePod";
    if modes.len() > 3 && at.items().any(|mode| alone(&mode)) && !at.items().all(|mode| alone(&mode)) {
        at.forbidden(c, "may not use ReadWriteOncePod with other access modes");
    }
}

fn class_name(at: &At<'_>, c: &mut Check) {
    if !at.text().is_empty() {
        at.subdomain(c);
    }
}

/// The name of a class of volume attributes, which only drivers have.
fn attributes_class_name(spec: &At<'_>, is_volume: bool, c: &mut Check) {
    let name = spec.get("volumeAttributesClassName");
    if !name.is_set() {
        return;
    }
    if is_volume && name.text().is_empty() {
        name.required(c, "an empty string is disallowed");
    }
    class_name(&name, c);
    if is_volume && !spec.get("csi").is_set() {
        spec.get("csi")
            .required(c, "has to be specified when using volumeAttributesClassName");
    }
}

/// `ValidatePersistentVolume`.
pub(super) fn volume(body: &Object, c: &mut Check) {
    volume_spec(&At::root(body, "spec"), c);
}

/// `ValidatePersistentVolumeSpec` of a volume in an attachment.
pub(super) fn inline_volume_spec(spec: &At<'_>, c: &mut Check) {
    const CONTEXT: &str = "in the context of inline volumes";
    for key in ["claimRef", "capacity"] {
        let field = spec.get(key);
        if field.is_set() && !(key == "capacity" && field.is_empty()) {
            field.forbidden(c, &format!("may not be specified {CONTEXT}"));
        }
    }
    if !spec.get("csi").is_set() {
        spec.get("csi")
            .required(c, &format!("has to be specified {CONTEXT}"));
    }
    let modes = spec.get("accessModes");
    if modes.is_empty() {
        modes.required(c, "");
    }
    access_modes(&modes, c);
    let policy = spec.get("persistentVolumeReclaimPolicy");
    if !matches!(policy.text(), "" | "Retain") {
        policy.forbidden(c, &format!("may only be Retain {CONTEXT}"));
    }
    affinity_and_source(spec, c);
    if !spec.get("storageClassName").text().is_empty() {
        spec.get("storageClassName")
            .forbidden(c, &format!("may not be specified {CONTEXT}"));
    }
    let mode = spec.get("volumeMode");
    if mode.is_set() && mode.text() != "Filesystem" {
        mode.forbidden(
            c,
            &format!("may not specify volumeMode other than Filesystem {CONTEXT}"),
        );
    }
}

/// `ValidatePersistentVolumeSpec`.
fn volume_spec(spec: &At<'_>, c: &mut Check) {
    let (modes, capacity) = (spec.get("accessModes"), spec.get("capacity"));
    if modes.is_empty() {
        modes.required(c, "");
    }
    access_modes(&modes, c);
    if capacity.is_empty() {
        capacity.required(c, "");
    }
    if !capacity.key("storage").is_set() || capacity.len() > 1 {
        let shown = go_syntax::value(c.version, capacity.decoded(c), "core.ResourceList");
        capacity.unsupported_as(c, &shown, &["storage"]);
    }
    for (_, amount) in capacity.entries() {
        let value = Quantity::parse(amount.text());
        if value.is_some_and(Quantity::is_negative) {
            amount.invalid_as(c, amount.text(), "must be a valid resource quantity");
        }
        if value.is_some_and(|value| value.is_negative() || value.is_zero()) {
            amount.invalid(c, "must be greater than zero");
        }
    }
    const POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
    let policy = spec.get("persistentVolumeReclaimPolicy");
    if !policy.text().is_empty() && !POLICIES.contains(&policy.text()) {
        policy.unsupported(c, &POLICIES);
    }
    affinity_and_source(spec, c);
    let path = spec.get("hostPath").get("path");
    let is_root = path.text().starts_with('/') && path.text().trim_matches('/').is_empty();
    if is_root && policy.text() == "Recycle" {
        policy.forbidden(c, "may not be 'recycle' for a hostPath mount of '/'");
    }
    class_name(&spec.get("storageClassName"), c);
    let mode = spec.get("volumeMode");
    if mode.is_set() && !VOLUME_MODES.contains(&mode.text()) {
        mode.unsupported(c, &VOLUME_MODES);
    }
    attributes_class_name(spec, true, c);
}

fn affinity_and_source(spec: &At<'_>, c: &mut Check) {
    let affinity = spec.get("nodeAffinity");
    if affinity.is_set() {
        let required = affinity.get("required");
        if required.is_set() {
            node_selector(&required, c);
        } else {
            required.required(c, "must specify required node constraints");
        }
    }
    let mut is_first = true;
    for (field, path, other) in SOURCES {
        let source = spec.get(field);
        if !source.is_set() {
            continue;
        }
        if !is_first && field != "flexVolume" {
            spec.get(other)
                .forbidden(c, "may not specify more than 1 volume type");
            continue;
        }
        is_first = false;
        let source = At {
            value: source.value,
            path: spec.get(path).path,
        };
        own_source(spec, field, &source, c);
    }
    if is_first {
        spec.required(c, "must specify a volume type");
    }
}

fn own_source(spec: &At<'_>, field: &str, source: &At<'_>, c: &mut Check) {
    shared_source(field, source, c);
    let secret = |key: &str, c: &mut Check| {
        let reference = source.get(key);
        if reference.is_set() {
            reference.get("name").present(c);
            if field != "iscsi" {
                reference.get("namespace").present(c);
            }
        }
    };
    match field {
        "glusterfs" => {
            let namespace = source.get("endpointsNamespace");
            if namespace.is_set() && namespace.text().is_empty() {
                let problem = "if the endpointnamespace is set, it must be a valid namespace name";
                namespace.invalid(c, problem);
            } else if namespace.is_set() {
                namespace.label(c);
            }
        }
        "cinder" | "storageos" | "iscsi" => secret("secretRef", c),
        "azureFile" => {
            let namespace = source.get("secretNamespace");
            if namespace.is_set() && namespace.text().is_empty() {
                namespace.required(c, "");
            }
        }
        "local" => {
            let path = source.get("path");
            if path.present(c) {
                no_backsteps(&path, c);
            }
            if !spec.get("nodeAffinity").get("required").is_set() {
                spec.get("nodeAffinity")
                    .required(c, "Local volume requires node affinity");
            }
        }
        "csi" => csi(source, c),
        _ => {}
    }
}

/// Each secret that a driver gets is validated in the same way.
const SECRETS_OF_DRIVERS_ARE_VALIDATED_ALIKE: Behavior =
    Behavior::since(25, 0, "validateCSIPersistentVolumeSource of 1.25");
/// A claim without a class may get one.
const CLAIMS_GET_CLASSES: Behavior =
    Behavior::since(26, 0, "the feature gate RetroactiveDefaultStorageClass is on");
/// A bound claim may get another class of volume attributes.
const BOUND_CLAIMS_CHANGE_ATTRIBUTES: Behavior =
    Behavior::since(34, 0, "the feature gate VolumeAttributesClass is on");

fn csi(source: &At<'_>, c: &mut Check) {
    driver_name(&source.get("driver"), c);
    source.get("volumeHandle").present(c);
    if c.version.has(SECRETS_OF_DRIVERS_ARE_VALIDATED_ALIKE) {
        for key in [
            "controllerPublishSecretRef",
            "controllerExpandSecretRef",
            "nodePublishSecretRef",
            "nodeExpandSecretRef",
        ] {
            let (name, namespace) = (source.get(key).get("name"), source.get(key).get("namespace"));
            if !source.get(key).is_set() {
                continue;
            }
            if name.present(c) {
                name.subdomain(c);
            }
            if namespace.present(c) {
                namespace.label(c);
            }
        }
        return;
    }
    for (key, shown) in [
        ("controllerPublishSecretRef", "controllerPublishSecretRef"),
        ("controllerExpandSecretRef", "controllerExpandSecretRef"),
        // The name ends with a blank.
        ("nodePublishSecretRef", "nodePublishSecretRef "),
    ] {
        let reference = source.get(key);
        if !reference.is_set() {
            continue;
        }
        for part in ["name", "namespace"] {
            let text = reference.get(part);
            if text.text().is_empty() {
                source.get(shown).get(part).required(c, "");
            } else {
                let named = At {
                    value: text.value,
                    path: source.get(part).path,
                };
                named.label(c);
            }
        }
    }
}

/// `ValidatePersistentVolumeUpdate`, except `ValidatePersistentVolume`.
pub(super) fn volume_updated(body: &Object, old: &Object, c: &mut Check) {
    let (spec, old) = (At::root(body, "spec"), At::root(old, "spec"));
    let source = |spec: &At<'_>| {
        let mut source: Vec<(&str, Value)> = Vec::new();
        for (field, ..) in SOURCES {
            source.push((field, spec.get(field).value.clone()));
        }
        source
    };
    let (mut new_source, old_source) = (source(&spec), source(&old));
    let secret = "controllerExpandSecretRef";
    if old.get("csi").is_set() && !old.get("csi").get(secret).is_set() {
        for (field, value) in &mut new_source {
            if *field == "csi"
                && let Some(csi) = value.as_object_mut()
            {
                csi.remove(secret);
            }
        }
    }
    if new_source != old_source {
        let problem = "spec.persistentvolumesource is immutable after creation\n";
        spec.get("persistentvolumesource").forbidden(c, problem);
    }
    pinned_at(&spec, &old, "volumeMode", body, "string", c);
    if old.get("nodeAffinity").is_set() && !is_renamed_affinity(&spec, &old, c) {
        let before = c.causes.len();
        pinned_at(&spec, &old, "nodeAffinity", body, "core.VolumeNodeAffinity", c);
        if c.since(27) {
            for cause in c.causes.iter_mut().skip(before) {
                cause
                    .message
                    .push_str(", except for updating from beta label to GA");
            }
        }
    }
    let name = spec.get("volumeAttributesClassName");
    if old.get("volumeAttributesClassName").is_set() && !name.is_set() {
        name.forbidden(c, "update from non-nil value to nil is forbidden");
    }
}

/// Whether the affinity of a volume changes only from the former names of labels to their stable ones.
///
/// # Upstream
/// `validatePvNodeAffinity`.
fn is_renamed_affinity(new: &At<'_>, old: &At<'_>, c: &Check) -> bool {
    const RENAMED: [(&str, &str); 5] = [
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        (
            "beta.kubernetes.io/instance-type",
            "node.kubernetes.io/instance-type",
        ),
        (
            "failure-domain.beta.kubernetes.io/region",
            "topology.kubernetes.io/region",
        ),
        (
            "failure-domain.beta.kubernetes.io/zone",
            "topology.kubernetes.io/zone",
        ),
    ];
    let mut affinity = old.get("nodeAffinity").value.clone();
    let terms = affinity.pointer_mut("/required/nodeSelectorTerms");
    let (old_terms, new_terms) = (
        terms.and_then(Value::as_array_mut).into_iter().flatten(),
        new.get("nodeAffinity")
            .get("required")
            .get("nodeSelectorTerms")
            .items(),
    );
    for (term, new_term) in old_terms.zip(new_terms) {
        let expressions = term.get_mut("matchExpressions").and_then(Value::as_array_mut);
        let expressions = expressions.into_iter().flatten();
        for (expression, new) in expressions.zip(new_term.get("matchExpressions").items()) {
            let key = expression["key"].as_str().unwrap_or_default();
            let renamed = RENAMED.iter().find(|(before, _)| *before == key);
            if let Some((_, stable)) = renamed.filter(|(_, stable)| *stable == new.get("key").text()) {
                expression["key"] = (*stable).into();
            }
        }
    }
    c.since(27) && affinity == *new.get("nodeAffinity").value
}

/// An immutable field of the spec; upstream omits `spec` from its path.
fn pinned_at(spec: &At<'_>, old: &At<'_>, key: &str, body: &Object, ty: &str, c: &mut Check) {
    let (new, old) = (spec.get(key), old.get(key));
    if new.value != old.value {
        let shown = if new.is_set() {
            go_syntax::value(c.version, new.value, ty)
        } else if c.version.has(super::VALUES_ARE_JSON) {
            "null".to_owned()
        } else {
            "\"null\"".to_owned()
        };
        At::root(body, key).invalid_as(c, &shown, "field is immutable");
    }
}

/// `ValidatePersistentVolumeClaimSpec`.
pub(super) fn claim(body: &Object, c: &mut Check) {
    claim_spec(&At::root(body, "spec"), c);
}

/// The specification of a claim, or of the template of one.
pub(super) fn claim_spec(spec: &At<'_>, c: &mut Check) {
    let modes = spec.get("accessModes");
    if modes.is_empty() {
        modes.required(c, "at least 1 access mode is required");
    }
    if spec.get("selector").is_set() {
        label_selector(&spec.get("selector"), c);
    }
    access_modes(&modes, c);
    let storage = spec.get("resources").get("requests").key("storage");
    let named = At {
        value: storage.value,
        path: spec.get("resources").key("storage").path,
    };
    match Quantity::parse(named.text()) {
        None => named.required(c, ""),
        Some(amount) if amount.is_negative() || amount.is_zero() => {
            named.invalid(c, "must be greater than zero");
        }
        Some(_) => {}
    }
    class_name(&spec.get("storageClassName"), c);
    let mode = spec.get("volumeMode");
    if mode.is_set() && !VOLUME_MODES.contains(&mode.text()) {
        mode.unsupported(c, &VOLUME_MODES);
    }
    for key in ["dataSource", "dataSourceRef"] {
        let source = spec.get(key);
        if source.is_set() {
            source.get("name").present(c);
            source.get("kind").present(c);
            let kind = source.get("kind");
            let group = source.get("apiGroup");
            if group.text().is_empty() && kind.text() != "PersistentVolumeClaim" {
                let problem = match c.since(26) {
                    true => "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                    false => "",
                };
                source.invalid_as(c, &quoted(kind.text()), problem);
            }
            if !group.text().is_empty() && c.version.has(GROUPS_OF_SOURCES_ARE_VALIDATED) {
                group.subdomain(c);
            }
        }
    }
    let (source, reference) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    let is_other = ["apiGroup", "kind", "name"]
        .into_iter()
        .any(|key| source.get(key).value != reference.get(key).value);
    if c.since(24) && source.is_set() && reference.is_set() && is_other {
        let shown = match c.version.has(super::VALUES_ARE_JSON) {
            true => "{}".to_owned(),
            false => {
                format!("field.Path{{name:\"dataSource\", index:\"\", parent:(*field.Path)({POINTER})}}")
            }
        };
        spec.invalid_as(c, &shown, "must match dataSourceRef");
    }
    attributes_class_name(spec, false, c);
}

/// The API group of a data source is a subdomain.
const GROUPS_OF_SOURCES_ARE_VALIDATED: Behavior = Behavior::since(29, 0, "validateDataSource of 1.29");

/// `ValidatePersistentVolumeClaimUpdate`, except `ValidatePersistentVolumeClaim`.
pub(super) fn claim_updated(body: &Object, old: &Object, c: &mut Check) {
    const ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
    let (spec, old_spec) = (At::root(body, "spec"), At::root(old, "spec"));
    let annotation = |body: &Object| {
        At::root(body, "metadata")
            .get("annotations")
            .key(ANNOTATION)
            .text()
            .to_owned()
    };
    let (new_class, old_class) = (annotation(body), annotation(old));
    if new_class != old_class {
        let at = At::root(body, "metadata").get("annotations").key(ANNOTATION);
        at.invalid_as(c, &quoted(&new_class), "field is immutable");
    }
    let is_bound = At::root(body, "status").get("phase").text() == "Bound";
    let gets_class = c.version.has(CLAIMS_GET_CLASSES)
        && old_class.is_empty()
        && !old_spec.get("storageClassName").is_set()
        && spec.get("storageClassName").is_set();
    let changes_attributes = is_bound && c.version.has(BOUND_CLAIMS_CHANGE_ATTRIBUTES);
    let pinned = |spec: &At<'_>| {
        let mut spec = spec.value.as_object().cloned().unwrap_or_default();
        if old_spec.get("volumeName").text().is_empty() {
            spec.remove("volumeName");
        }
        if gets_class {
            spec.remove("storageClassName");
        }
        if changes_attributes {
            spec.remove("volumeAttributesClassName");
        }
        if is_bound
            && let Some(resources) = spec.get_mut("resources").and_then(Value::as_object_mut)
            && let Some(requests) = resources.get_mut("requests").and_then(Value::as_object_mut)
        {
            requests.remove("storage");
        }
        spec
    };
    if pinned(&spec) != pinned(&old_spec) {
        let problem = match c.since(29) {
            true => {
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                 claims\n"
            }
            false => "spec is immutable after creation except resources.requests for bound claims\n",
        };
        spec.forbidden(c, problem);
    }
    let size = |spec: &At<'_>| Quantity::parse(spec.get("resources").get("requests").key("storage").text());
    let requests = spec.get("resources").get("requests").get("storage");
    let zero = || Quantity::decimal_si(0);
    let (new_size, old_size) = (
        size(&spec).unwrap_or_else(zero),
        size(&old_spec).unwrap_or_else(zero),
    );
    if new_size < old_size {
        // The feature gate `RecoverVolumeExpansionFailure` is on since 1.32.
        let capacity = At::root(body, "status").get("capacity").key("storage");
        let capacity = Quantity::parse(capacity.text()).unwrap_or_else(zero);
        if !c.since(32) {
            requests.forbidden(c, "field can not be less than previous value");
        } else if new_size <= capacity {
            requests.forbidden(c, "field can not be less than status.capacity");
        }
    }
    pinned_at(&spec, &old_spec, "volumeMode", body, "string", c);
    let name = spec.get("volumeAttributesClassName");
    let applied = At::root(old, "status").get("currentVolumeAttributesClassName");
    let differs = name.value != old_spec.get("volumeAttributesClassName").value;
    if changes_attributes && applied.is_set() && differs && name.text().is_empty() {
        let to = if name.is_set() { "empty string" } else { "nil" };
        let problem =
            format!("update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil");
        name.forbidden(c, &problem);
    }
}

/// `ValidateStorageClass`.
pub(super) fn class(body: &Object, c: &mut Check) {
    let provisioner = At::root(body, "provisioner");
    if provisioner.text().is_empty() {
        provisioner.required(c, "");
    } else {
        let name = provisioner.text().to_lowercase();
        let problems = formats::qualified_name(c.version, &name);
        let shown = if c.since(23) { &name } else { provisioner.text() };
        for problem in problems {
            provisioner.invalid_as(c, &quoted(shown), &problem);
        }
    }
    parameters(&At::root(body, "parameters"), c);
    let policy = At::root(body, "reclaimPolicy");
    if !policy.text().is_empty() && !matches!(policy.text(), "Delete" | "Retain") {
        policy.unsupported(c, &["Delete", "Retain"]);
    }
    const MODES: [&str; 2] = ["Immediate", "WaitForFirstConsumer"];
    let mode = At::root(body, "volumeBindingMode");
    if !mode.is_set() {
        mode.required(c, "");
    } else if !MODES.contains(&mode.text()) {
        mode.unsupported(c, &MODES);
    }
    let topologies = At::root(body, "allowedTopologies");
    // Upstream compares each term with as many empty ones as there are terms.
    let mut terms: Vec<Vec<(String, Vec<String>)>> = vec![Vec::new(); topologies.len()];
    for term in topologies.items() {
        let mut keys: Vec<(String, Vec<String>)> = Vec::new();
        for requirement in term.get("matchLabelExpressions").items() {
            let (key, values) = (requirement.get("key"), requirement.get("values"));
            if values.is_empty() {
                values.required(c, "");
            }
            let mut seen: Vec<String> = Vec::new();
            for value in values.items() {
                if seen.iter().any(|known| known == value.text()) {
                    value.duplicate(c);
                } else {
                    seen.push(value.text().to_owned());
                }
            }
            key.qualified_name(c);
            if keys.iter().any(|(known, _)| known == key.text()) {
                key.duplicate(c);
            }
            seen.sort();
            keys.push((key.text().to_owned(), seen));
        }
        keys.sort();
        for _ in terms.iter().filter(|known| **known == keys) {
            term.get("matchLabelExpressions").duplicate_as(c, "\"\"");
        }
        terms.push(keys);
    }
}

/// `ValidateVolumeAttributesClass`.
pub(super) fn attributes_class(body: &Object, c: &mut Check) {
    let driver = At::root(body, "driverName");
    if driver.text().is_empty() {
        driver.required(c, "");
    } else {
        let name = driver.text().to_lowercase();
        for problem in formats::qualified_name(c.version, &name) {
            driver.invalid_as(c, &quoted(&name), &problem);
        }
    }
    let sent = At::root(body, "parameters");
    if sent.is_empty() {
        sent.required(c, "must contain at least one key/value pair");
    }
    parameters(&sent, c);
}

/// `validateParameters`.
fn parameters(sent: &At<'_>, c: &mut Check) {
    const COUNT_MAX: usize = 512;
    const BYTES_MAX: usize = 256 * 1024;
    if sent.len() > COUNT_MAX {
        sent.too_long(c, COUNT_MAX);
        return;
    }
    let mut bytes = 0;
    for (key, value) in sent.entries() {
        bytes += key.len() + value.text().len();
        if key.is_empty() {
            sent.invalid_as(c, "\"\"", "field can not be empty.");
        }
    }
    if bytes > BYTES_MAX {
        sent.too_long(c, BYTES_MAX);
    }
}

/// `ValidateVolumeAttributesClassUpdate`.
pub(super) fn attributes_class_updated(body: &Object, old: &Object, c: &mut Check) {
    for key in ["driverName", "parameters"] {
        if body.get(key) != old.get(key) {
            At::root(body, key).forbidden(c, &format!("updates to {key} are forbidden."));
        }
    }
}

/// `ValidateStorageClassUpdate`.
pub(super) fn class_updated(body: &Object, old: &Object, c: &mut Check) {
    for key in ["parameters", "provisioner", "reclaimPolicy"] {
        if body.get(key) != old.get(key) {
            let field = At::root(body, key);
            match c.since(36) {
                true => field.invalid(c, "field is immutable"),
                false => field.forbidden(c, &format!("updates to {key} are forbidden.")),
            }
        }
    }
    if body.get("volumeBindingMode") != old.get("volumeBindingMode") {
        At::root(body, "volumeBindingMode").invalid(c, "field is immutable");
    }
}
