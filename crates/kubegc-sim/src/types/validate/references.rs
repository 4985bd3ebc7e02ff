//! References from pods to fields, resources, keys: of variables and of volumes.
//!
//! # Upstream
//! `validateObjectFieldSelector`, `validateContainerResourceFieldSelector` and related functions in
//! `pkg/apis/core/validation/validation.go`, 1.20.2.

use kubegc_core::Quantity;

use super::super::field::{At, Check};
use crate::formats;

/// `validateObjectFieldSelector`, except that rows name the supported fields.
pub(super) fn object_field(at: &At<'_>, c: &mut Check) {
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
    const KNOWN: [&str; 15] = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.host",
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
    if !KNOWN.contains(&text) {
        let problem = format!("error converting fieldPath: field label not supported: {text}");
        path.invalid(c, &problem);
    }
}

/// The divisor of a resource: a unit that the resource has.
pub(super) fn divisor(at: &At<'_>, c: &mut Check) {
    let [divisor, resource] = at.fields(["divisor", "resource"]);
    const UNITS: [&str; 13] = [
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    if Quantity::parse(divisor.text()).is_none_or(Quantity::is_zero) {
        return;
    }
    let of = resource.text().split_once('.').map_or("", |(_, of)| of);
    let (units, described) = match of {
        "cpu" => (&["1m", "1"][..], "cpu"),
        "memory" => (&UNITS[..], "memory"),
        "ephemeral-storage" => (&UNITS[..], "local ephemeral storage"),
        _ if of.starts_with("hugepages-") => (&UNITS[..], "hugepages"),
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
