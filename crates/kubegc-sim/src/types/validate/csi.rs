//! CSI drivers and nodes, attachments.
//!
//! # Upstream
//! [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/storage/validation/validation.go).

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use super::go_syntax;
use crate::formats;

/// The allocatable volumes of a driver may change.
const ALLOCATABLE_IS_MUTABLE: Behavior =
    Behavior::since(35, 0, "the feature gate MutableCSINodeAllocatableCount is on");

/// `ValidateCSINodeUpdate`, except `ValidateCSINode`.
pub(super) fn drivers_updated(drivers: &At<'_>, c: &mut Check) {
    let shown_at = match c.since(33) {
        true => drivers.clone(),
        false => c.root().get("CSINodeDriver"),
    };
    let is_mutable = c.version.has(ALLOCATABLE_IS_MUTABLE);
    let fixed = |driver: &At<'_>| {
        let mut driver = driver.value.clone();
        if is_mutable && let Some(fields) = driver.as_object_mut() {
            fields.remove("allocatable");
        }
        driver
    };
    for before in c.old().get("spec").get("drivers").items() {
        for after in drivers.items() {
            let is_same = before.get("name").text() == after.get("name").text();
            if is_same && fixed(&before) != fixed(&after) {
                let shown = go_syntax::value(c.version, &fixed(&after), "storage.CSINodeDriver");
                shown_at.invalid_as(c, &shown, "field is immutable");
            }
        }
    }
}

/// `validateVolumeAttachmentStatus`.
pub(super) fn attachment_status(status: &At<'_>, c: &mut Check) {
    const MESSAGE_MAX: usize = 1024;
    const METADATA_MAX: usize = 256 * 1024;
    let metadata = status.get("attachmentMetadata");
    let sizes = metadata
        .entries()
        .map(|(key, value)| key.len() + value.text().len());
    if sizes.sum::<usize>() > METADATA_MAX {
        metadata.too_long(c, METADATA_MAX);
    }
    for error in status.fields(["attachError", "detachError"]) {
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
