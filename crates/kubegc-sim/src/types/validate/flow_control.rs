//! Flow schemas and priority levels.
//!
//! # Upstream
//! [`pkg/apis/flowcontrol/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/flowcontrol/validation/validation.go).
//! The fixed values of mandatory objects are not compared.

use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::go_syntax;
use crate::{StoredObject, formats};

type Object = Map<String, Value>;

/// `ValidateFlowSchema`.
pub(super) fn schema(schema: &StoredObject, body: &Object, c: &mut Check) {
    const PRECEDENCE_MAX: i64 = 10_000;
    let spec = At::root(body, "spec");
    let precedence = spec.get("matchingPrecedence");
    if precedence.number() <= 0 {
        precedence.invalid(c, "must be a positive value");
    }
    if precedence.number() > PRECEDENCE_MAX {
        precedence.invalid(c, &format!("must not be greater than {PRECEDENCE_MAX}"));
    }
    if precedence.number() == 1 && &*schema.meta.name != "exempt" {
        precedence.invalid(c, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
    let method = spec.get("distinguisherMethod");
    if method.is_set() && !matches!(method.get("type").text(), "ByNamespace" | "ByUser") {
        let shown = go_syntax::value(c.version, method.value, "flowcontrol.FlowDistinguisherMethod");
        let kind = method.get("type");
        kind.unsupported_as(c, &shown, &["ByNamespace", "ByUser"]);
    }
    let level = spec.get("priorityLevelConfiguration").get("name");
    if level.text().is_empty() {
        level.required(c, "must reference a priority level");
    } else {
        level.subdomain(c);
    }
    for rule in spec.get("rules").items() {
        self::rule(&rule, c);
    }
    conditions(body, c);
}

fn rule(rule: &At<'_>, c: &mut Check) {
    let subjects = rule.get("subjects");
    if subjects.is_empty() {
        subjects.required(c, "subjects must contain at least one value");
    }
    for subject in subjects.items() {
        self::subject(&subject, c);
    }
    let (resources, others) = (rule.get("resourceRules"), rule.get("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let problem = "at least one of resourceRules and nonResourceRules has to be non-empty";
        rule.required(c, problem);
    }
    for rule in resources.items() {
        verbs(&rule, c);
        for (key, singular, plural) in [
            ("apiGroups", "api group", "api groups"),
            ("resources", "resource", "resources"),
        ] {
            let list = rule.get(key);
            if list.is_empty() {
                list.required(c, &format!("resource rules must supply at least one {singular}"));
            } else {
                only_wildcard(&list, plural, c);
            }
        }
        namespaces(&rule, c);
    }
    for rule in others.items() {
        verbs(&rule, c);
        let urls = rule.get("nonResourceURLs");
        if urls.is_empty() {
            urls.required(c, "nonResourceURLs must contain at least one value");
        } else if !only_wildcard(&urls, "non-resource URLs", c) {
            for url in urls.items() {
                self::url(&url, c);
            }
        }
    }
}

fn subject(subject: &At<'_>, c: &mut Check) {
    /// Kinds of subjects and their fields, in the order in which the fields of others are refused.
    const KINDS: [(&str, &str); 3] = [
        ("ServiceAccount", "serviceAccount"),
        ("User", "user"),
        ("Group", "group"),
    ];
    let kind = subject.get("kind");
    let Some((name, field)) = KINDS.iter().find(|(known, _)| *known == kind.text()) else {
        kind.unsupported(c, &["Group", "ServiceAccount", "User"]);
        return;
    };
    let own = subject.get(field);
    if !own.is_set() {
        own.required(c, &format!("{field} is required when subject kind is '{name}'"));
    } else if own.get("name").present(c) && *name == "ServiceAccount" && own.get("name").text() != "*" {
        own.get("name").subdomain(c);
    }
    if own.is_set() && *name == "ServiceAccount" {
        let namespace = own.get("namespace");
        if namespace.text().is_empty() {
            namespace.required(c, "must specify namespace for service account");
        } else {
            namespace.label(c);
        }
    }
    for (other, field) in KINDS.iter().filter(|(other, _)| other != name) {
        if subject.get(field).is_set() {
            let problem = format!("{field} is forbidden when subject kind is not '{other}'");
            subject.get(field).forbidden(c, &problem);
        }
    }
}

fn has_wildcard(list: &At<'_>) -> bool {
    list.items().any(|item| item.text() == "*")
}

/// Whether a list has a wildcard, which has to be alone.
fn only_wildcard(list: &At<'_>, plural: &str, c: &mut Check) -> bool {
    let has = has_wildcard(list);
    if has && list.len() > 1 {
        let problem = format!("if '*' is present, must not specify other {plural}");
        list.invalid_typed(c, "[]string", &problem);
    }
    has
}

fn verbs(rule: &At<'_>, c: &mut Check) {
    const VERBS: [&str; 9] = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "proxy",
        "update",
        "watch",
    ];
    let verbs = rule.get("verbs");
    if verbs.is_empty() {
        verbs.required(c, "verbs must contain at least one value");
    } else if !only_wildcard(&verbs, "verbs", c) && !verbs.items().all(|verb| VERBS.contains(&verb.text())) {
        let texts: Vec<&str> = verbs.items().map(|verb| verb.text()).collect();
        verbs.unsupported_as(c, &super::go_strings(c.version, &texts), &VERBS);
    }
}

fn namespaces(rule: &At<'_>, c: &mut Check) {
    let list = rule.get("namespaces");
    if list.is_empty() && !rule.get("clusterScope").flag() {
        let problem = "resource rules that are not cluster scoped must supply at least one namespace";
        list.required(c, problem);
    } else if !only_wildcard(&list, "namespaces", c) {
        for namespace in list.items() {
            for problem in formats::label(c.version, namespace.text()) {
                let problem = format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
                namespace.invalid(c, &problem);
            }
        }
    }
}

/// `ValidateNonResourceURLPath`.
fn url(url: &At<'_>, c: &mut Check) {
    let text = url.text();
    let problem = match text {
        "" => "must not be empty",
        "/" => return,
        _ if !text.starts_with('/') => "must start with slash",
        _ if text.contains(' ') => "must not contain white-space",
        _ if text.contains("//") => "must not contain double slash",
        _ => match text.find('*') {
            Some(position) if position + 1 != text.len() || !text.ends_with("/*") => {
                "wildcard can only do suffix matching"
            }
            _ => return,
        },
    };
    url.invalid(c, problem);
}

/// `ValidatePriorityLevelConfiguration`. Requests of older versions call the shares differently.
pub(super) fn level(level: &StoredObject, body: &Object, version: &str, c: &mut Check) {
    let spec = At::root(body, "spec");
    let (kind, limited, exempt) = (spec.get("type"), spec.get("limited"), spec.get("exempt"));
    if (&*level.meta.name == "exempt") != (kind.text() == "Exempt") {
        let text = Value::from(kind.text());
        let kind = At {
            value: &text,
            path: kind.path.clone(),
        };
        let problem = match c.since(34) {
            true => "must be 'Exempt' if and only if `name` is 'exempt'",
            false => "type must be 'Exempt' if and only if name is 'exempt'",
        };
        kind.invalid(c, problem);
    }
    match kind.text() {
        "Exempt" => {
            if limited.is_set() {
                limited.forbidden(c, "must be nil if the type is not Limited");
            }
            if exempt.is_set() {
                shares(&exempt.get("nominalConcurrencyShares"), c);
                lendable(&exempt, c);
            }
        }
        "Limited" => {
            if exempt.is_set() {
                exempt.forbidden(c, "must be nil if the type is Limited");
            }
            if limited.is_set() {
                limited_level(&limited, version, c);
            } else {
                limited.required(c, "must not be empty when type is Limited");
            }
        }
        _ => kind.unsupported(c, &["Exempt", "Limited"]),
    }
    conditions(body, c);
}

fn shares(at: &At<'_>, c: &mut Check) {
    if at.number() < 0 {
        at.invalid(c, "must be a non-negative integer");
    }
}

fn lendable(at: &At<'_>, c: &mut Check) {
    let percent = at.get("lendablePercent");
    if !(0..=100).contains(&percent.number()) {
        percent.invalid(c, "must be between 0 and 100, inclusive");
    }
}

fn limited_level(limited: &At<'_>, version: &str, c: &mut Check) {
    match version {
        "v1beta1" | "v1beta2" => shares(&limited.get("assuredConcurrencyShares"), c),
        _ => shares(&limited.get("nominalConcurrencyShares"), c),
    }
    let response = limited.get("limitResponse");
    let queuing = response.get("queuing");
    match response.get("type").text() {
        "Reject" => {
            if queuing.is_set() {
                let problem = "must be nil if limited.limitResponse.type is not Limited";
                queuing.forbidden(c, problem);
            }
        }
        "Queue" => {
            if queuing.is_set() {
                self::queuing(&queuing, c);
            } else {
                let problem = "must not be empty if limited.limitResponse.type is Limited";
                queuing.required(c, problem);
            }
        }
        _ => response.get("type").unsupported(c, &["Queue", "Reject"]),
    }
    lendable(limited, c);
    let borrowed = limited.get("borrowingLimitPercent");
    if borrowed.number() < 0 {
        borrowed.invalid(c, "if specified, must be a non-negative integer");
    }
}

fn queuing(queuing: &At<'_>, c: &mut Check) {
    const QUEUES_MAX: i64 = 10_000_000;
    const ENTROPY_MAX: f64 = 60.0;
    let (length, queues, hand) = (
        queuing.get("queueLengthLimit"),
        queuing.get("queues"),
        queuing.get("handSize"),
    );
    for at in [&length, &queues] {
        if at.number() <= 0 {
            at.invalid(c, "must be positive");
        }
    }
    let count = queues.number();
    if count > QUEUES_MAX {
        queues.invalid(c, &format!("must not be greater than {QUEUES_MAX}"));
    }
    if hand.number() <= 0 {
        hand.invalid(c, "must be positive");
    } else if hand.number() > count {
        hand.invalid(c, &format!("should not be greater than queues ({count})"));
    } else if entropy(count, hand.number()) > ENTROPY_MAX {
        let problem = format!(
            "required entropy bits of deckSize {count} and handSize {} should not be greater than {ENTROPY_MAX}",
            hand.number()
        );
        hand.invalid(c, &problem);
    }
}

/// `RequiredEntropyBits`: about the bits that choosing a hand of cards takes.
fn entropy(deck: i64, hand: i64) -> f64 {
    ((deck as f64).log2() * hand as f64).ceil()
}

/// Types of conditions are given once.
fn conditions(body: &Object, c: &mut Check) {
    let mut seen: Vec<&str> = Vec::new();
    for condition in At::root(body, "status").get("conditions").items() {
        let kind = condition.get("type");
        if seen.contains(&kind.text()) {
            kind.duplicate(c);
        }
        seen.push(kind.text());
        if kind.text().is_empty() {
            kind.required(c, if c.since(34) { "" } else { "must not be empty" });
        }
    }
}
