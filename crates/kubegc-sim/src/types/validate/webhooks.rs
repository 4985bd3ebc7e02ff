//! Webhook configurations.
//!
//! # Upstream
//! [`pkg/apis/admissionregistration/validation`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/apis/admissionregistration/validation/validation.go).

use kubegc_core::Behavior;
use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::{go_syntax, selector::label_selector};
use crate::{formats, status::quoted};

type Object = Map<String, Value>;

const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
pub(super) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
pub(super) const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];

/// `ValidateValidatingWebhookConfiguration` and `ValidateMutatingWebhookConfiguration`: stricter checks are
/// skipped if the stored configuration already fails them.
pub(super) fn configuration(body: &Object, old: Option<&Object>, is_beta: bool, c: &mut Check) {
    let before: Option<Vec<At<'_>>> = old.map(|old| At::root(old, "webhooks").items().collect());
    let all_were =
        |test: &dyn Fn(&At<'_>) -> bool| before.as_ref().is_none_or(|hooks| hooks.iter().all(test));
    let no_side_effects =
        !is_beta && all_were(&|hook| NO_SIDE_EFFECTS.contains(&hook.get("sideEffects").text()));
    let recognized_version = all_were(&|hook| {
        let versions = hook.get("admissionReviewVersions");
        versions.is_empty() || versions.items().any(|version| VERSIONS.contains(&version.text()))
    });
    let were_unique = before.as_ref().is_none_or(|hooks| {
        let mut names: Vec<&str> = hooks.iter().map(|hook| hook.get("name").text()).collect();
        names.sort_unstable();
        names.windows(2).all(|pair| pair[0] != pair[1])
    });
    let mut names: Vec<&str> = Vec::new();
    for hook in At::root(body, "webhooks").items() {
        webhook(&hook, no_side_effects, c);
        review_versions(&hook.get("admissionReviewVersions"), recognized_version, c);
        let name = hook.get("name");
        if !is_beta && were_unique && !name.text().is_empty() {
            if names.contains(&name.text()) {
                name.duplicate(c);
            }
            names.push(name.text());
        }
    }
}

fn webhook(hook: &At<'_>, no_side_effects: bool, c: &mut Check) {
    let name = hook.get("name");
    let problems = formats::subdomain(c.version, name.text());
    if name.text().is_empty() {
        name.required(c, "");
    } else if !problems.is_empty() {
        name.invalid(c, &problems.join(","));
    } else if name.text().split('.').count() < 3 {
        name.invalid(
            c,
            "should be a domain with at least three segments separated by dots",
        );
    }
    for rule in hook.get("rules").items() {
        self::rule(&rule, c);
    }
    for (key, supported) in [
        ("failurePolicy", &FAILURE_POLICIES),
        ("matchPolicy", &MATCH_POLICIES),
        ("reinvocationPolicy", &REINVOCATION_POLICIES),
    ] {
        let policy = hook.get(key);
        if policy.is_set() && !supported.contains(&policy.text()) {
            policy.unsupported(c, supported);
        }
    }
    let allowed: &[&str] = if no_side_effects {
        &NO_SIDE_EFFECTS
    } else {
        &["None", "NoneOnDryRun", "Some", "Unknown"]
    };
    let effects = hook.get("sideEffects");
    if !effects.is_set() {
        effects.required(c, &format!("must specify one of {}", allowed.join(", ")));
    } else if !allowed.contains(&effects.text()) {
        effects.unsupported(c, allowed);
    }
    let timeout = hook.get("timeoutSeconds");
    if timeout.is_set() && !(1..=30).contains(&timeout.number()) {
        timeout.invalid(c, "the timeout value must be between 1 and 30 seconds");
    }
    label_selector(&hook.get("namespaceSelector"), c);
    label_selector(&hook.get("objectSelector"), c);
    match_conditions(&hook.get("matchConditions"), c);
    let client = hook.get("clientConfig");
    let (url, service) = (client.get("url"), client.get("service"));
    if url.is_set() == service.is_set() {
        client.required(c, "exactly one of url or service is required");
    } else if url.is_set() {
        client_url(&url, c);
    } else {
        client_service(&service, c);
    }
}

/// `validateMatchConditions`, 1.30; the API server compiles the expressions.
pub(super) fn match_conditions(conditions: &At<'_>, c: &mut Check) {
    const CONDITIONS_MAX: usize = 64;
    if conditions.len() > CONDITIONS_MAX {
        conditions.too_many(c, conditions.len(), CONDITIONS_MAX);
    }
    let mut names: Vec<&str> = Vec::new();
    for condition in conditions.items() {
        let (expression, name) = (condition.get("expression"), condition.get("name"));
        if expression.text().trim().is_empty() {
            expression.required(c, "");
        }
        if name.text().is_empty() {
            name.required(c, "");
            continue;
        }
        name.problems(c, formats::qualified_name(c.version, name.text()));
        if names.contains(&name.text()) {
            name.duplicate(c);
        }
        names.push(name.text());
    }
}

pub(super) fn rule(rule: &At<'_>, c: &mut Check) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let has_wildcard = |at: &At<'_>| at.len() > 1 && at.items().any(|item| item.text() == "*");
    let operations = rule.get("operations");
    if operations.is_empty() {
        operations.required(c, "");
    }
    if has_wildcard(&operations) {
        let shown = go_syntax::value(
            c.version,
            operations.value,
            "[]admissionregistration.OperationType",
        );
        operations.invalid_as(c, &shown, "if '*' is present, must not specify other operations");
    }
    for operation in operations.items() {
        if !OPERATIONS.contains(&operation.text()) {
            operation.unsupported(c, &OPERATIONS);
        }
    }
    for (key, described) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let list = rule.get(key);
        if list.is_empty() {
            list.required(c, "");
        }
        if has_wildcard(&list) {
            let problem = format!("if '*' is present, must not specify other {described}");
            list.invalid_typed(c, "[]string", &problem);
        }
        for item in list
            .items()
            .filter(|item| key == "apiVersions" && item.text().is_empty())
        {
            item.required(c, "");
        }
    }
    resources(&rule.get("resources"), c);
    const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
    let scope = rule.get("scope");
    if scope.is_set() && !SCOPES.contains(&scope.text()) {
        scope.unsupported(c, &SCOPES);
    }
}

fn resources(list: &At<'_>, c: &mut Check) {
    if list.is_empty() {
        list.required(c, "");
    }
    let (mut of_resource, mut of_subresource): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut has_plain = false;
    for item in list.items() {
        let text = item.text();
        if text.is_empty() {
            item.required(c, "");
            continue;
        }
        let Some((resource, subresource)) = text.split_once('/') else {
            has_plain = text != "*";
            continue;
        };
        if of_resource.contains(&resource) {
            item.invalid(
                c,
                &format!("if '{resource}/*' is present, must not specify {text}"),
            );
        }
        if of_subresource.contains(&subresource) {
            item.invalid(
                c,
                &format!("if '*/{subresource}' is present, must not specify {text}"),
            );
        }
        if subresource == "*" {
            of_resource.push(resource);
        }
        if resource == "*" {
            of_subresource.push(subresource);
        }
    }
    let has = |text: &str| list.items().any(|item| item.text() == text);
    if list.len() > 1 && has("*/*") {
        let problem = "if '*/*' is present, must not specify other resources";
        list.invalid_typed(c, "[]string", problem);
    }
    if has("*") && has_plain {
        let problem = "if '*' is present, must not specify other resources without subresources";
        list.invalid_typed(c, "[]string", problem);
    }
}

fn review_versions(list: &At<'_>, must_be_recognized: bool, c: &mut Check) {
    if list.is_empty() {
        list.required(c, &format!("must specify one of {}", VERSIONS.join(", ")));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for version in list.items() {
        if seen.contains(&version.text()) {
            version.invalid(c, "duplicate version");
            continue;
        }
        seen.push(version.text());
        version.problems(c, formats::dns_1035_label(version.text()));
    }
    if must_be_recognized && !seen.iter().any(|version| VERSIONS.contains(version)) {
        let problem = format!("must include at least one of {}", VERSIONS.join(", "));
        list.invalid_typed(c, "[]string", &problem);
    }
}

/// The message for a URL without a host names it a missing specification.
const HOSTS_ARE_SPECIFIED: Behavior = Behavior::since_about(32, "between 1.20 and 1.32");

/// `ValidateWebhookURL`.
fn client_url(url: &At<'_>, c: &mut Check) {
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

/// `ValidateWebhookService`; upstream swaps its arguments name and namespace.
fn client_service(service: &At<'_>, c: &mut Check) {
    if service.get("namespace").text().is_empty() {
        service.get("name").required(c, "service name is required");
    }
    if service.get("name").text().is_empty() {
        service
            .get("namespace")
            .required(c, "service namespace is required");
    }
    let port = service.get("port");
    let problems = formats::port_number(port.number());
    if !problems.is_empty() {
        port.invalid(c, &format!("port is not valid: {}", problems.join(", ")));
    }
    let path = service.get("path");
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
