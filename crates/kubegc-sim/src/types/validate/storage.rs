//! Volumes, claims, storage classes, CSI drivers and attachments.
//!
//! # Upstream
//! `ValidatePersistentVolume*` in `pkg/apis/core/validation`, and `pkg/apis/storage/validation`, 1.20.2.

use std::collections::BTreeSet;

use kubegc_core::{Behavior, Quantity};
use serde_json::Value;

use super::super::{
    field::{At, Check},
    go_syntax,
};
use crate::formats;

/// Whether the affinity of a volume changes, except from the former names of labels to their stable ones.
///
/// # Upstream
/// `validatePvNodeAffinity`.
pub(super) fn affinity_differs(_: &At<'_>, c: &Check<'_>) -> bool {
    /// The former names of labels, and the domains of their stable names.
    const RENAMED: [&str; 5] = [
        "beta.kubernetes.io/arch kubernetes.io/",
        "beta.kubernetes.io/os kubernetes.io/",
        "beta.kubernetes.io/instance-type node.kubernetes.io/",
        "failure-domain.beta.kubernetes.io/region topology.kubernetes.io/",
        "failure-domain.beta.kubernetes.io/zone topology.kubernetes.io/",
    ];
    let [new, old] = [c.root(), c.old()].map(|volume| volume.get("spec").get("nodeAffinity"));
    let mut affinity = old.value.clone();
    let terms = affinity.pointer_mut("/required/nodeSelectorTerms");
    let old_terms = terms.and_then(Value::as_array_mut).into_iter().flatten();
    let new_terms = new.get("required").get("nodeSelectorTerms").items();
    for (term, new_term) in old_terms.zip(new_terms) {
        let expressions = term.get_mut("matchExpressions").and_then(Value::as_array_mut);
        let expressions = expressions.into_iter().flatten();
        for (expression, new) in expressions.zip(new_term.get("matchExpressions").items()) {
            let key = expression["key"].as_str().unwrap_or_default();
            // Upstream renames a label without a new name to "".
            let mut renamed = RENAMED.iter().filter_map(|line| line.split_once(' '));
            let renamed = renamed.find(|(before, _)| *before == key);
            let name = key.rsplit('/').next().unwrap_or_default();
            let stable = renamed.map_or(String::new(), |(_, domain)| format!("{domain}{name}"));
            if stable == new.get("key").text() {
                expression["key"] = stable.into();
            }
        }
    }
    !c.since(27) || affinity != *new.value
}

/// The requested size of a claim does not shrink.
pub(super) fn size_updated(claim: &At<'_>, c: &mut Check) {
    fn requests<'v>(claim: &At<'v>) -> At<'v> {
        claim.get("spec").get("resources").get("requests")
    }
    let amount = |at: At<'_>| Quantity::parse(at.text()).unwrap_or_default();
    let size = amount(requests(claim).key("storage"));
    if size >= amount(requests(&c.old()).key("storage")) {
        return;
    }
    // The feature gate `RecoverVolumeExpansionFailure` is on since 1.32.
    let capacity = amount(claim.get("status").get("capacity").key("storage"));
    let field = requests(claim).get("storage");
    if !c.since(32) {
        field.forbidden(c, "field can not be less than previous value");
    } else if size <= capacity {
        field.forbidden(c, "field can not be less than status.capacity");
    }
}

/// The name of a provisioner or driver, in lower case.
pub(super) fn provisioner(provisioner: &At<'_>, c: &mut Check) {
    let name = provisioner.text().to_lowercase();
    let shown = if c.since(23) { &name } else { provisioner.text() };
    provisioner.problems_of(c, shown, formats::qualified_name(c.version, &name));
}

/// A topology that a class allows, which differs from those before it.
pub(super) fn topology(term: &At<'_>, c: &mut Check) {
    fn keys<'v>(term: &At<'v>) -> Vec<(&'v str, BTreeSet<&'v str>)> {
        let requirements = term.get("matchLabelExpressions").items();
        let keys = requirements.map(|of| (of.get("key").text(), of.get("values").texts()));
        let mut keys: Vec<_> = keys
            .map(|(key, values)| (key, values.into_iter().collect()))
            .collect();
        keys.sort();
        keys
    }
    let (all, own) = (c.root().get("allowedTopologies"), keys(term));
    let earlier = all
        .items()
        .take_while(|other| !std::ptr::eq(other.value, term.value));
    let same = earlier.filter(|other| keys(other) == own).count();
    // Upstream compares each term with as many empty ones as there are terms.
    let empty = if own.is_empty() { all.len() } else { 0 };
    for _ in 0..same + empty {
        term.get("matchLabelExpressions").duplicate_as(c, "\"\"");
    }
}

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
