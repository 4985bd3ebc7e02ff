//! CSI drivers and nodes, storage capacities, attachments.
//!
//! # Upstream
//! [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/storage/validation/validation.go).

use kubegc_core::{Behavior, Quantity};
use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::{go_syntax, selector::label_selector, storage::inline_volume_spec, volumes::driver_name};
use crate::{formats, status::quoted};

type Object = Map<String, Value>;

/// `ValidateCSIDriver`.
pub(super) fn driver(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    for (key, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
    ] {
        if !spec.get(key).is_set() {
            spec.get(shown).required(c, "");
        }
    }
    let policy = spec.get("fsGroupPolicy");
    const POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
    if policy.is_set() && !POLICIES.contains(&policy.text()) {
        policy.unsupported(c, &POLICIES);
    }
    tokens(&spec.get("tokenRequests"), c);
    let modes = spec.get("volumeLifecycleModes");
    for mode in modes.items() {
        if !matches!(mode.text(), "Persistent" | "Ephemeral") {
            let mode = At {
                value: mode.value,
                path: modes.path.clone(),
            };
            mode.unsupported(c, &["Persistent", "Ephemeral"]);
        }
    }
    let period = spec.get("nodeAllocatableUpdatePeriodSeconds");
    if period.is_set() && period.number() < 10 {
        period.invalid(c, "must be greater than or equal to 10 seconds");
    }
    let in_secrets = spec.get("serviceAccountTokenInSecrets");
    if in_secrets.is_set() && spec.get("tokenRequests").is_empty() {
        in_secrets.invalid(
            c,
            "serviceAccountTokenInSecrets is set but no tokenRequests are specified",
        );
    }
}

fn tokens(at: &At<'_>, c: &mut Check) {
    let mut audiences: Vec<&str> = Vec::new();
    for request in at.items() {
        let (audience, seconds) = (request.get("audience"), request.get("expirationSeconds"));
        if audiences.contains(&audience.text()) {
            audience.duplicate(c);
            continue;
        }
        audiences.push(audience.text());
        if seconds.is_set() && seconds.number() < 600 {
            seconds.invalid(c, "may not specify a duration less than 10 minutes");
        }
        if seconds.number() > 1 << 32 {
            seconds.invalid(c, "may not specify a duration larger than 2^32 seconds");
        }
    }
}

/// `ValidateCSIDriverUpdate`.
pub(super) fn driver_updated(body: &Object, old: &Object, c: &mut Check) {
    let (spec, old) = (At::root(body, "spec"), At::root(old, "spec"));
    if !c.since(21) {
        if spec.value != old.value {
            let shown = go_syntax::value(c.version, spec.value, "storage.CSIDriverSpec");
            spec.invalid_as(c, &shown, "field is immutable");
        }
        return;
    }
    for (key, shown) in [
        ("attachRequired", "attachedRequired"),
        ("fsGroupPolicy", "fsGroupPolicy"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("volumeLifecycleModes", "volumeLifecycleModes"),
        ("storageCapacity", "storageCapacity"),
    ] {
        let may_change = match key {
            "fsGroupPolicy" | "podInfoOnMount" => c.since(30),
            "storageCapacity" => c.since(23),
            _ => false,
        };
        let (new, old) = (spec.get(key), old.get(key));
        if !may_change && new.value != old.value {
            let shown_value = match key {
                "volumeLifecycleModes" => {
                    go_syntax::value(c.version, new.value, "[]storage.VolumeLifecycleMode")
                }
                _ => new.shown(),
            };
            spec.get(shown).invalid_as(c, &shown_value, "field is immutable");
        }
    }
}

/// `ValidateCSINode`.
pub(super) fn node(body: &Object, c: &mut Check) {
    let mut names: Vec<&str> = Vec::new();
    for driver in At::root(body, "spec").get("drivers").items() {
        let (name, id) = (driver.get("name"), driver.get("nodeID"));
        driver_name(&name, c);
        let max = if c.since(22) { 256 } else { 192 };
        if id.text().is_empty() {
            id.required(c, "");
        } else if id.text().len() > max {
            id.invalid(c, &format!("must be {max} characters or less"));
        }
        driver.get("allocatable").get("count").not_negative(c);
        if names.contains(&name.text()) {
            name.duplicate(c);
        }
        names.push(name.text());
        let mut keys: Vec<&str> = Vec::new();
        for key in driver.get("topologyKeys").items() {
            if key.text().is_empty() {
                driver.required(c, "");
            }
            if keys.contains(&key.text()) {
                driver.duplicate_as(c, &key.shown());
            }
            keys.push(key.text());
            for problem in formats::qualified_name(c.version, key.text()) {
                driver.invalid_as(c, &key.shown(), &problem);
            }
        }
    }
}

/// The allocatable volumes of a driver may change.
const ALLOCATABLE_IS_MUTABLE: Behavior =
    Behavior::since(35, 0, "the feature gate MutableCSINodeAllocatableCount is on");

/// `ValidateCSINodeUpdate`, except `ValidateCSINode`.
pub(super) fn node_updated(body: &Object, old: &Object, c: &mut Check) {
    let drivers = |body| At::root(body, "spec").get("drivers");
    let pinned = if c.since(33) {
        drivers(body)
    } else {
        At::root(body, "CSINodeDriver")
    };
    let is_mutable = c.version.has(ALLOCATABLE_IS_MUTABLE);
    let fixed = |driver: &At<'_>| {
        let mut driver = driver.value.clone();
        if is_mutable && let Some(fields) = driver.as_object_mut() {
            fields.remove("allocatable");
        }
        driver
    };
    for before in drivers(old).items() {
        for after in drivers(body).items() {
            let is_same = before.get("name").text() == after.get("name").text();
            if is_same && fixed(&before) != fixed(&after) {
                let shown = go_syntax::value(c.version, &fixed(&after), "storage.CSINodeDriver");
                pinned.invalid_as(c, &shown, "field is immutable");
            }
        }
    }
}

/// `ValidateCSIStorageCapacity`.
pub(super) fn capacity(body: &Object, c: &mut Check) {
    label_selector(&At::root(body, "nodeTopology"), c);
    At::root(body, "storageClassName").subdomain(c);
    let capacity = At::root(body, "capacity");
    if Quantity::parse(capacity.text()).is_some_and(Quantity::is_negative) {
        capacity.invalid(c, "must be greater than or equal to 0");
    }
}

/// `ValidateCSIStorageCapacityUpdate`.
pub(super) fn capacity_updated(body: &Object, old: &Object, c: &mut Check) {
    const PROBLEM: &str = "field is immutable";
    if body.get("nodeTopology") != old.get("nodeTopology") {
        At::root(body, "nodeTopology").invalid_typed(c, "v1.LabelSelector", PROBLEM);
    }
    if body.get("storageClassName") != old.get("storageClassName") {
        let class = At::root(body, "storageClassName");
        class.invalid_as(c, &quoted(class.text()), PROBLEM);
    }
}

/// Attachments are validated alike whether they are new or not.
const ATTACHMENTS_ARE_VALIDATED_ONCE: Behavior =
    Behavior::since_about(36, "ValidateVolumeAttachment of 1.36");

/// `ValidateVolumeAttachment`, and `ValidateVolumeAttachmentV1` of new ones.
pub(super) fn attachment(body: &Object, is_new: bool, c: &mut Check) {
    let spec = At::root(body, "spec");
    let is_once = c.version.has(ATTACHMENTS_ARE_VALIDATED_ONCE);
    let attacher = spec.get("attacher");
    if is_once {
        driver_name(&attacher, c);
    } else {
        attacher.present(c);
    }
    let source = spec.get("source");
    let (name, inline) = (source.get("persistentVolumeName"), source.get("inlineVolumeSpec"));
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (name.is_set(), inline.is_set()) {
        (false, false) => source.required(c, ONE),
        (true, true) => source.forbidden(c, ONE),
        (true, false) if name.text().is_empty() => {
            name.required(c, "must specify non empty persistentVolumeName");
        }
        (true, false) => {}
        (false, true) => inline_volume_spec(&inline, c),
    }
    spec.get("nodeName").subdomain(c);
    if !is_once && is_new {
        driver_name(&attacher, c);
    }
    if name.is_set() && (is_once || is_new) {
        name.subdomain(c);
    }
}

/// `validateVolumeAttachmentStatus`.
pub(super) fn attachment_status(body: &Object, c: &mut Check) {
    const MESSAGE_MAX: usize = 1024;
    const METADATA_MAX: usize = 256 * 1024;
    let status = At::root(body, "status");
    let metadata = status.get("attachmentMetadata");
    let sizes = metadata
        .entries()
        .map(|(key, value)| key.len() + value.text().len());
    if sizes.sum::<usize>() > METADATA_MAX {
        metadata.too_long(c, METADATA_MAX);
    }
    for key in ["attachError", "detachError"] {
        let error = status.get(key);
        if error.get("message").text().len() > MESSAGE_MAX {
            // Upstream names the other limit.
            error.get("message").too_long(c, METADATA_MAX);
        }
        let code = error.get("errorCode");
        if code.number() < 0 {
            code.problems(c, formats::in_range(code.number(), 0, i32::MAX.into()));
        }
    }
}

/// `ValidateVolumeAttachmentUpdate`.
pub(super) fn attachment_updated(body: &Object, old: &Object, c: &mut Check) {
    if body.get("spec") != old.get("spec") {
        let spec = At::root(body, "spec");
        spec.invalid_typed(c, "storage.VolumeAttachmentSpec", "field is immutable");
    }
}
