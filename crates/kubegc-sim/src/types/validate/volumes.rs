//! Volumes of pods and sources of persistent volumes.
//!
//! # Upstream
//! `ValidateVolumes` and its callees in `pkg/apis/core/validation/validation.go`, 1.20.2.

use super::super::field::{At, Check};

/// Begins the validation of a pod or template: none of its volumes is valid so far.
pub(super) fn begin(_: &At<'_>, c: &mut Check) {
    c.volumes.clear();
}

/// Adds a valid volume.
pub(super) fn add(volume: &At<'_>, c: &mut Check) {
    let sources = volume.fields(["persistentVolumeClaim", "ephemeral"]);
    let may_be_device = sources.iter().any(At::is_set);
    c.volumes
        .push((volume.get("name").text().to_owned(), may_be_device));
}

/// Whether the valid volume of this name, if there is one, may be a block device.
fn find(name: &At<'_>, c: &Check) -> Option<bool> {
    let found = c.volumes.iter().find(|(known, _)| known == name.text());
    found.map(|(_, may_be_device)| *may_be_device)
}

/// No valid volume has this name.
pub(super) fn unique(name: &At<'_>, c: &mut Check) {
    if find(name, c).is_some() {
        name.duplicate(c);
    }
}

/// A valid volume has this name.
pub(super) fn known(name: &At<'_>, c: &mut Check) {
    if find(name, c).is_none() {
        name.not_found(c, "");
    }
}

/// A valid volume that may be a block device has this name.
pub(super) fn device(name: &At<'_>, c: &mut Check) {
    known(name, c);
    if find(name, c) == Some(false) {
        let or = if c.since(22) { " or Ephemeral" } else { "" };
        let problem = format!("can only use volume source type of PersistentVolumeClaim{or} for block mode");
        name.invalid(c, &problem);
    }
}
