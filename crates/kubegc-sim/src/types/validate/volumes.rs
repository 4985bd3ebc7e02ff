//! Volumes of pods and sources of persistent volumes.
//!
//! # Upstream
//! `ValidateVolumes` and its callees in `pkg/apis/core/validation/validation.go`, 1.20.2.

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use super::rules;
use crate::formats;

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
