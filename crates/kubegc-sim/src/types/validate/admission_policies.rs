//! Admission policies and their bindings.
//!
//! # Upstream
//! [`pkg/apis/admissionregistration/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/admissionregistration/validation/validation.go).

use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::{
    selector::label_selector,
    webhooks::{FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, match_conditions, rule},
};
use crate::{StoredObject, formats, status::quoted};

type Object = Map<String, Value>;

/// `ValidateValidatingAdmissionPolicy`, except the compilation of expressions.
pub(super) fn validating(policy: &StoredObject, body: &Object, old: Option<&Object>, c: &mut Check) {
    let spec = At::root(body, "spec");
    common(&spec, old, false, c);
    for variable in spec.get("variables").items() {
        self::variable(&variable, c);
    }
    let (validations, annotations) = (spec.get("validations"), spec.get("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        for list in [&validations, &annotations] {
            list.required(
                c,
                "validations or auditAnnotations must contain at least one item",
            );
        }
        return;
    }
    for validation in validations.items() {
        self::validation(&validation, c);
    }
    audit_annotations(&annotations, &policy.meta.name, c);
}

/// `ValidateValidatingAdmissionPolicyStatusUpdate`, except conditions.
pub(super) fn status(body: &Object, c: &mut Check) {
    let warnings = At::root(body, "status")
        .get("typeChecking")
        .get("expressionWarnings");
    for warning in warnings.items() {
        for key in ["warning", "fieldRef"] {
            let field = warning.get(key);
            if field.text().is_empty() {
                field.required(c, "");
            }
        }
    }
}

/// `ValidateMutatingAdmissionPolicy`, without the compilation of expressions.
pub(super) fn mutating(body: &Object, old: Option<&Object>, c: &mut Check) {
    let spec = At::root(body, "spec");
    common(&spec, old, true, c);
    for variable in spec.get("variables").items() {
        self::variable(&variable, c);
    }
    let mutations = spec.get("mutations");
    if mutations.is_empty() {
        mutations.required(c, "mutations must contain at least one item");
    }
    for mutation in mutations.items() {
        self::mutation(&mutation, c);
    }
    spec.get("reinvocationPolicy").one_of(c, &REINVOCATION_POLICIES);
}

/// Validates the fields that both kinds of policies share, except for variables.
fn common(spec: &At<'_>, old: Option<&Object>, is_mutating: bool, c: &mut Check) {
    present_one_of(&spec.get("failurePolicy"), &FAILURE_POLICIES, c);
    let param = spec.get("paramKind");
    if param.is_set() {
        param_kind(&param, c);
    }
    let constraints = spec.get("matchConstraints");
    if constraints.is_set() {
        match_resources(&constraints, c);
        let rules = constraints.get("resourceRules");
        if rules.is_empty() {
            rules.required(c, "");
        }
        if is_mutating {
            no_deletes(&constraints, c);
        }
    } else {
        constraints.required(c, "");
    }
    let conditions = spec.get("matchConditions");
    let before = old.map(|old| At::root(old, "spec").get("matchConditions").value);
    if before != Some(conditions.value) {
        match_conditions(&conditions, c);
    }
}

/// One of these values; an empty one is not a missing one.
fn present_one_of(at: &At<'_>, supported: &[&str], c: &mut Check) {
    if !at.is_set() {
        at.required(c, "");
    } else if !supported.contains(&at.text()) {
        at.unsupported(c, supported);
    }
}

fn param_kind(at: &At<'_>, c: &mut Check) {
    let (version, kind) = (at.get("apiVersion"), at.get("kind"));
    let mut steps = version.text().split('/');
    match (steps.next(), steps.next(), steps.next()) {
        _ if version.text().is_empty() => version.required(c, ""),
        (_, _, Some(_)) => {
            let problem = format!("unexpected GroupVersion string: {}", version.text());
            version.invalid(c, &problem);
        }
        (first, second, None) => {
            let (group, number) = match (first, second) {
                (Some(group), Some(number)) => (group, number),
                (number, _) => ("", number.unwrap_or_default()),
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
    }
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

/// `validateMatchResources`.
fn match_resources(at: &At<'_>, c: &mut Check) {
    present_one_of(&at.get("matchPolicy"), &MATCH_POLICIES, c);
    for key in ["namespaceSelector", "objectSelector"] {
        let selector = at.get(key);
        if selector.is_set() {
            label_selector(&selector, c);
        } else {
            selector.required(c, "");
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for named in at.get(list).items() {
            let mut seen: Vec<&str> = Vec::new();
            for name in named.get("resourceNames").items() {
                name.problems(c, formats::path_segment(name.text()));
                if seen.contains(&name.text()) {
                    name.duplicate(c);
                }
                seen.push(name.text());
            }
            rule(&named, c);
        }
    }
}

/// Refuses the operation DELETE in the rules of a mutating policy.
fn no_deletes(resources: &At<'_>, c: &mut Check) {
    const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
    let named = resources.get("resourceRules").get("operations");
    for rule in resources.get("resourceRules").items() {
        for operation in rule.get("operations").items() {
            if !OPERATIONS.contains(&operation.text()) {
                named.unsupported_as(c, &operation.shown(), &OPERATIONS);
            }
        }
    }
}

/// An expression that is not blank.
fn expression(at: &At<'_>, problem: &str, c: &mut Check) {
    if at.text().trim().is_empty() {
        at.required(c, problem);
    }
}

fn variable(at: &At<'_>, c: &mut Check) {
    const RESERVED: &str = "true false null in as break const continue else for function if import let loop package \
                            namespace return var void while";
    let name = at.get("name");
    let starts = name
        .text()
        .starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    let fits = name.text().chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    if name.text().trim().is_empty() {
        name.required(c, "name is not specified");
    } else if !starts || !fits || RESERVED.split(' ').any(|word| word == name.text()) {
        let problem = match c.since(34) {
            true => "must be a valid CEL identifier",
            false => "name is not a valid CEL identifier",
        };
        name.invalid(c, problem);
    }
    expression(&at.get("expression"), "expression is not specified", c);
}

fn validation(at: &At<'_>, c: &mut Check) {
    const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    const EMPTY: &str = "must be non-empty if specified";
    expression(&at.get("expression"), "expression is not specified", c);
    let (computed, message) = (at.get("messageExpression"), at.get("message"));
    let is_blank = |at: &At<'_>| !at.text().is_empty() && at.text().trim().is_empty();
    if is_blank(&computed) {
        computed.invalid(c, EMPTY);
    }
    let named = if c.since(34) { "" } else { "message " };
    if is_blank(&message) {
        message.invalid(c, &format!("{named}{EMPTY}"));
    } else if message.text().trim().contains(['\n', '\r']) {
        message.invalid(c, &format!("{named}must not contain line breaks"));
    }
    let reason = at.get("reason");
    if reason.is_set() && !REASONS.contains(&reason.text()) {
        reason.unsupported(c, &REASONS);
    }
}

fn audit_annotations(list: &At<'_>, policy: &str, c: &mut Check) {
    const BYTES_MAX: usize = 5 * 1024;
    const COUNT_MAX: usize = 20;
    if list.len() > COUNT_MAX {
        let problem = format!("must not have more than {COUNT_MAX} auditAnnotations");
        list.invalid_typed(c, "[]admissionregistration.AuditAnnotation", &problem);
    }
    let mut seen: Vec<&str> = Vec::new();
    for annotation in list.items() {
        let (key, value) = (annotation.get("key"), annotation.get("valueExpression"));
        if policy.is_empty() {
            key.invalid(c, "requires metadata.name be non-empty");
        } else {
            let name = format!("{policy}/{}", key.text());
            for problem in formats::qualified_name(c.version, &name) {
                key.invalid_as(c, &quoted(&name), &problem);
            }
        }
        expression(&value, "valueExpression is not specified", c);
        if value.text().trim().len() > BYTES_MAX {
            value.required(c, &format!("must not exceed {BYTES_MAX} bytes in length"));
        }
        if seen.contains(&key.text()) {
            key.duplicate(c);
        }
        seen.push(key.text());
    }
}

fn mutation(at: &At<'_>, c: &mut Check) {
    const TYPES: [(&str, &str); 2] = [
        ("ApplyConfiguration", "applyConfiguration"),
        ("JSONPatch", "jsonPatch"),
    ];
    let kind = at.get("patchType");
    let Some((_, own)) = TYPES.iter().find(|(known, _)| *known == kind.text()) else {
        kind.one_of(c, &TYPES.map(|(known, _)| known));
        return;
    };
    let patch = at.get(own);
    if patch.is_set() {
        expression(&patch.get("expression"), "", c);
    } else {
        patch.required(c, &format!("must be specified when patchType is {}", kind.text()));
    }
    for (_, other) in TYPES.iter().filter(|(_, other)| other != own) {
        if at.get(other).is_set() {
            let problem = format!("must not be specified when patchType is {}", kind.text());
            at.get(other)
                .invalid_as(c, &quoted(&format!("{{{other}}}")), &problem);
        }
    }
}

/// `ValidateValidatingAdmissionPolicyBinding` and `ValidateMutatingAdmissionPolicyBinding`.
pub(super) fn binding(body: &Object, is_mutating: bool, c: &mut Check) {
    let spec = At::root(body, "spec");
    let policy = spec.get("policyName");
    if policy.present(c) {
        policy.subdomain(c);
    }
    let param = spec.get("paramRef");
    if param.is_set() {
        param_reference(&param, c);
    }
    let resources = spec.get("matchResources");
    if resources.is_set() {
        match_resources(&resources, c);
    }
    if is_mutating {
        no_deletes(&resources, c);
    } else {
        actions(&spec.get("validationActions"), c);
    }
}

fn param_reference(at: &At<'_>, c: &mut Check) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (name, selector) = (at.get("name"), at.get("selector"));
    let has_name = !name.text().is_empty();
    if has_name {
        name.problems(c, formats::path_segment(name.text()));
    }
    if has_name && selector.is_set() {
        name.forbidden(c, EXCLUSIVE);
    }
    label_selector(&selector, c);
    if has_name && selector.is_set() {
        selector.forbidden(c, EXCLUSIVE);
    }
    if !has_name && !selector.is_set() {
        at.required(c, "one of name or selector must be specified");
    }
    at.get("parameterNotFoundAction").one_of(c, &["Deny", "Allow"]);
}

fn actions(list: &At<'_>, c: &mut Check) {
    const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
    let mut seen: Vec<&str> = Vec::new();
    for action in list.items() {
        if !ACTIONS.contains(&action.text()) {
            action.unsupported(c, &ACTIONS);
        }
        if seen.contains(&action.text()) {
            action.duplicate(c);
        }
        seen.push(action.text());
    }
    if seen.contains(&"Deny") && seen.contains(&"Warn") {
        let problem = "must not contain both Deny and Warn (repeating the same validation failure information in the \
                       API response and headers serves no purpose)";
        list.invalid_typed(c, "[]admissionregistration.ValidationAction", problem);
    }
    if seen.is_empty() {
        list.required(c, "at least one validation action is required");
    }
}
