//! Webhook configurations, admission policies and their bindings.
//!
//! # Upstream
//! [`pkg/apis/admissionregistration/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/admissionregistration/validation/validation.go).

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use crate::{formats, status::quoted};

/// Whether an earlier webhook has the name of this one, unless stored ones had equal names.
pub(super) fn repeated_name(hook: &At<'_>, c: &Check<'_>) -> bool {
    let mut known = Vec::new();
    let repeats = c.old().get("webhooks").items().any(|hook| {
        let name = hook.get("name").text();
        let is_known = known.contains(&name);
        known.push(name);
        is_known
    });
    let hooks = c.root().get("webhooks");
    let mut earlier = hooks
        .items()
        .take_while(|other| !std::ptr::eq(other.value, hook.value));
    !repeats && earlier.any(|other| other.get("name").text() == hook.get("name").text())
}

/// Whether no version is one that the API server sends, although every stored webhook had one of them.
pub(super) fn unrecognized_versions(list: &At<'_>, c: &Check<'_>) -> bool {
    let is_recognized = |list: &At<'_>| {
        list.items()
            .any(|version| matches!(version.text(), "v1" | "v1beta1"))
    };
    let mut stored = c
        .old()
        .get("webhooks")
        .items()
        .map(|hook| hook.get("admissionReviewVersions"));
    !is_recognized(list) && stored.all(|list| list.is_empty() || is_recognized(&list))
}

/// The message for a URL without a host names it a missing specification.
const HOSTS_ARE_SPECIFIED: Behavior = Behavior::since_about(32, "between 1.20 and 1.32");

/// `ValidateWebhookURL`.
pub(super) fn client_url(url: &At<'_>, c: &mut Check) {
    const FORM: &str = "; desired format: https://host[/path]";
    let text = url.text();
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (text, query) = text.split_once('?').unwrap_or((text, ""));
    let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
    let authority = rest
        .strip_prefix("//")
        .map_or("", |rest| rest.split('/').next().unwrap_or_default());
    let (user, host) = authority
        .rsplit_once('@')
        .map_or((None, authority), |(user, host)| (Some(user), host));
    if scheme != "https" {
        let problem = format!("'https' is the only allowed URL scheme{FORM}");
        url.invalid_as(c, &quoted(scheme), &problem);
    }
    if host.is_empty() {
        let problem = match c.version.has(HOSTS_ARE_SPECIFIED) {
            true => format!("host must be specified{FORM}"),
            false => format!("host must be provided{FORM}"),
        };
        url.invalid_as(c, &quoted(host), &problem);
    }
    if let Some(user) = user {
        url.invalid_as(c, &quoted(user), "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        url.invalid_as(c, &quoted(fragment), "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        url.invalid_as(c, &quoted(query), "query parameters are not permitted in the URL");
    }
}

/// The path of `ValidateWebhookService`.
pub(super) fn path(path: &At<'_>, c: &mut Check) {
    match path.text() {
        "" | "/" => return,
        "//" => {
            path.invalid(c, "segment[0] may not be empty");
            return;
        }
        text if !text.starts_with('/') => path.invalid(c, "must start with a '/'"),
        _ => {}
    }
    let mut letters = path.text().chars();
    letters.next();
    let rest = letters.as_str();
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (index, step) in rest.split('/').enumerate() {
        if step.is_empty() {
            path.invalid(c, &format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in formats::subdomain(c.version, step) {
            path.invalid(c, &format!("segment[{index}]: {problem}"));
        }
    }
}

/// The version of the parameters of a policy.
pub(super) fn group_version(version: &At<'_>, c: &mut Check) {
    let (group, number) = version.text().split_once('/').unwrap_or(("", version.text()));
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

/// The kind of the parameters of a policy.
pub(super) fn kind(kind: &At<'_>, c: &mut Check) {
    let problems = formats::dns_1035_label(&kind.text().to_lowercase());
    if !problems.is_empty() {
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
