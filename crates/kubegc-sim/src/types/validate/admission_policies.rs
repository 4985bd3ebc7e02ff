//! Admission policies and their bindings.
//!
//! # Upstream
//! [`pkg/apis/admissionregistration/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/admissionregistration/validation/validation.go).

use super::super::field::{At, Check};
use crate::{formats, status::quoted};

/// The version of the parameters of a policy.
pub(super) fn group_version(version: &At<'_>, c: &mut Check) {
    let steps: Vec<&str> = version.text().split('/').collect();
    let (group, number) = match steps[..] {
        [""] => {
            version.required(c, "");
            return;
        }
        [number] => ("", number),
        [group, number] => (group, number),
        _ => {
            let problem = format!("unexpected GroupVersion string: {}", version.text());
            version.invalid(c, &problem);
            return;
        }
    };
    let problems = formats::subdomain(c.version, group);
    if !group.is_empty() && !problems.is_empty() {
        version.invalid_as(c, &quoted(group), &problems.join(","));
    }
    let problems = formats::dns_1035_label(number);
    if number.is_empty() {
        version.invalid(c, "version must be specified");
    } else if !problems.is_empty() {
        version.invalid_as(c, &quoted(number), &problems.join(","));
    }
}

pub(super) fn kind(kind: &At<'_>, c: &mut Check) {
    let problems = formats::dns_1035_label(&kind.text().to_lowercase());
    if kind.text().is_empty() {
        kind.required(c, "");
    } else if !problems.is_empty() {
        let problem = format!(
            "may have mixed case, but should otherwise match: {}",
            problems.join(",")
        );
        kind.invalid(c, &problem);
    }
}

/// The key of an annotation, which follows the name of its policy, and the size of its value.
pub(super) fn audit_annotation(annotation: &At<'_>, c: &mut Check) {
    const BYTES_MAX: usize = 5 * 1024;
    let (key, value) = (annotation.get("key"), annotation.get("valueExpression"));
    if !c.name().is_empty() {
        let name = format!("{}/{}", c.name(), key.text());
        key.problems_of(c, &name, formats::qualified_name(c.version, &name));
    }
    if value.text().trim().is_empty() {
        value.required(c, "valueExpression is not specified");
    }
    if value.text().trim().len() > BYTES_MAX {
        value.required(c, &format!("must not exceed {BYTES_MAX} bytes in length"));
    }
}
