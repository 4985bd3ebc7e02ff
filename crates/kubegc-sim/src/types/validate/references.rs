//! References from pods to fields, resources, keys: of variables and of volumes.
//!
//! # Upstream
//! `validateObjectFieldSelector`, `validateContainerResourceFieldSelector` and related functions in
//! `pkg/apis/core/validation/validation.go`, 1.20.2.

use kubegc_core::Quantity;

use super::super::field::{At, Check};
use crate::formats;

/// `validateObjectFieldSelector`.
pub(super) fn object_field(at: &At<'_>, supported: &[&str], c: &mut Check) {
    let (version, path) = (at.get("apiVersion"), at.get("fieldPath"));
    if !version.present(c) || !path.present(c) {
        return;
    }
    if version.text() != "v1" {
        let problem = format!(
            "error converting fieldPath: unsupported pod version: {}",
            version.text()
        );
        path.invalid(c, &problem);
        return;
    }
    let text = path.text();
    let subscript = text.strip_suffix("']").and_then(|text| text.split_once("['"));
    if let Some((field, key)) = subscript {
        let key_problems = match field {
            "metadata.annotations" => formats::qualified_name(c.version, &key.to_lowercase()),
            "metadata.labels" => formats::qualified_name(c.version, key),
            _ => {
                let problem =
                    format!("error converting fieldPath: field label does not support subscript: {text}");
                path.invalid(c, &problem);
                return;
            }
        };
        at.problems_of(c, key, key_problems);
        return;
    }
    const KNOWN: [&str; 14] = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.phase",
        "status.podIP",
        "status.podIPs",
    ];
    if text == "spec.host" {
        if !supported.contains(&"spec.nodeName") {
            path.unsupported(c, supported);
        }
    } else if !KNOWN.contains(&text) {
        path.invalid(
            c,
            &format!("error converting fieldPath: field label not supported: {text}"),
        );
    } else if !supported.contains(&text) {
        path.unsupported(c, supported);
    }
}

/// `validateContainerResourceFieldSelector`.
fn resource_field(at: &At<'_>, is_volume: bool, c: &mut Check) {
    const SUPPORTED: [&str; 6] = [
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    const UNITS: [&str; 13] = [
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    let resource = at.get("resource");
    let has_pages = resource
        .text()
        .split_once('.')
        .is_some_and(|(kind, of)| matches!(kind, "limits" | "requests") && of.starts_with("hugepages-"));
    if is_volume && at.get("containerName").text().is_empty() {
        at.get("containerName").required(c, "");
    } else if resource.text().is_empty() {
        resource.required(c, "");
    } else if !(SUPPORTED.contains(&resource.text()) || has_pages && c.since(22)) {
        resource.unsupported(c, &SUPPORTED);
    }
    let divisor = at.get("divisor");
    if Quantity::parse(divisor.text()).is_none_or(Quantity::is_zero) {
        return;
    }
    let of = resource.text().split_once('.').map_or("", |(_, of)| of);
    let (units, described) = match of {
        "cpu" => (&["1m", "1"][..], "cpu"),
        "memory" => (&UNITS[..], "memory"),
        "ephemeral-storage" => (&UNITS[..], "local ephemeral storage"),
        _ if has_pages => (&UNITS[..], "hugepages"),
        _ => return,
    };
    if !units.contains(&divisor.text()) {
        let listed = if of == "cpu" {
            "1m and 1".to_owned()
        } else {
            units.join(", ")
        };
        let problem = format!("only divisor's values {listed} are supported with the {described} resource");
        divisor.invalid_as(c, &resource.shown(), &problem);
    }
}

pub(super) fn resource_field_of_file(at: &At<'_>, c: &mut Check) {
    resource_field(at, true, c);
}

pub(super) fn resource_field_of_variable(at: &At<'_>, c: &mut Check) {
    resource_field(at, false, c);
}
