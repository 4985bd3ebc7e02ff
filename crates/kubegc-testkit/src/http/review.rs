//! Access, rules, token and subject reviews. They are not stored.
//!
//! # Upstream
//! `pkg/registry/authorization/*/rest.go`, `pkg/apis/authorization/validation/validation.go` and
//! `pkg/registry/authentication/tokenreview/storage.go`, 1.20.2.

use kubegc_core::{ApiResource, KubernetesVersion, RequestAttributes, version::behavior};
use kubegc_sim::ApiServer;
use serde_json::{Value, json};

use super::{
    access::Requester,
    problem::{self, Cause, Refusal},
    reply::Reply,
    token,
};

/// Performs a review: returns it with a status. `bearer`: the token of the request, which is that of the
/// requester.
///
/// # Errors
/// 400 if the body is not an object or reviews nothing, 422 if it contradicts itself.
pub(super) fn respond(
    server: &ApiServer,
    resource: &ApiResource,
    namespace: &str,
    mut review: Value,
    requester: Requester<'_>,
    bearer: Option<&str>,
) -> Result<Reply, Refusal> {
    let Value::Object(fields) = &mut review else {
        return Err(problem::bad_request(format!(
            "the object provided is unrecognized (must be of type {})",
            resource.kind
        )));
    };
    let spec = fields.get("spec").cloned().unwrap_or(Value::Null);
    let status = match &*resource.kind {
        "SelfSubjectReview" => json!({"userInfo": server.user_info(requester.user)}),
        "TokenReview" => token_review(server, &spec, requester, bearer)?,
        "SelfSubjectRulesReview" => rules_review(&spec, requester)?,
        kind => access_review(server.version(), kind, namespace, &spec, requester)?,
    };
    fields.insert("apiVersion".to_owned(), resource.api_version().into());
    fields.insert("kind".to_owned(), (&*resource.kind).into());
    let metadata = if &*resource.kind == "SelfSubjectReview" {
        json!({"creationTimestamp": server.now().truncate_to_secs().to_string()})
    } else if server.version().has(behavior::ZERO_TIMESTAMPS_ARE_OMITTED) {
        json!({})
    } else {
        json!({"creationTimestamp": null})
    };
    match &*resource.kind {
        // The response is a new object.
        "SelfSubjectReview" => {
            fields.insert("metadata".to_owned(), metadata);
        }
        "SelfSubjectRulesReview" => {
            fields.insert("metadata".to_owned(), metadata);
            fields.insert("spec".to_owned(), json!({}));
        }
        _ => {
            fields.entry("metadata").or_insert(metadata);
        }
    }
    fields.insert("status".to_owned(), status);
    Ok(Reply::object(201, review))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn access_review(
    version: KubernetesVersion,
    kind: &str,
    namespace: &str,
    spec: &Value,
    requester: Requester<'_>,
) -> Result<Value, Refusal> {
    let part = |key: &str| spec.get(key).filter(|part| part.is_object());
    let (resource, path) = (part("resourceAttributes"), part("nonResourceAttributes"));
    let is_self = kind == "SelfSubjectAccessReview";
    let mut causes = Vec::new();
    let mut invalid = |field: &'static str, shown: String, why: &str| {
        causes.push(Cause::invalid(field, &shown, why));
    };
    if let (Some(_), Some(path)) = (resource, path) {
        let why = "cannot be specified in combination with resourceAttributes";
        invalid("spec.nonResourceAttributes", shown(version, path), why);
    }
    if resource.is_none() && path.is_none() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let nil = match version.has(behavior::VALUES_ARE_JSON) {
            true => "null",
            false => "\"null\"",
        };
        invalid("spec.resourceAttributes", nil.to_owned(), why);
    }
    let groups = spec.get("groups").and_then(Value::as_array).map_or(0, Vec::len);
    if !is_self && text(spec, "user").is_empty() && groups == 0 {
        let why = "at least one of user or group must be specified";
        invalid("spec.user", "\"\"".to_owned(), why);
    }
    if kind == "LocalSubjectAccessReview" {
        let requested = resource.map(|resource| text(resource, "namespace"));
        if let Some(requested) = requested.filter(|requested| *requested != namespace) {
            let field = "spec.resourceAttributes.namespace";
            invalid(field, format!("{requested:?}"), "must match metadata.namespace");
        }
        if let Some(path) = path {
            let why = "disallowed on this kind of request";
            invalid("spec.nonResourceAttributes", shown(version, path), why);
        }
    }
    if !causes.is_empty() {
        // Upstream names the kind of the internal object, which has none.
        return Err(problem::invalid("authorization.k8s.io", "", "", &causes));
    }
    let user = if is_self {
        requester.user
    } else {
        text(spec, "user")
    };
    let of = |key: &str| resource.map_or("", |resource| text(resource, key));
    let attributes = RequestAttributes {
        user,
        verb: text(resource.or(path).unwrap_or(spec), "verb"),
        group: of("group"),
        resource: of("resource"),
        subresource: of("subresource"),
        namespace: of("namespace"),
        name: of("name"),
        path: path.map(|path| text(path, "path")),
        ..RequestAttributes::default()
    };
    Ok(json!({"allowed": requester.rules.allows(&attributes)}))
}

/// Attributes as errors print them: as JSON, and before as `%#v`.
fn shown(version: KubernetesVersion, attributes: &Value) -> String {
    let (path, verb) = (text(attributes, "path"), text(attributes, "verb"));
    if version.has(behavior::VALUES_ARE_JSON) {
        format!("{{\"Path\":{path:?},\"Verb\":{verb:?}}}")
    } else {
        format!("authorization.NonResourceAttributes{{Path:{path:?}, Verb:{verb:?}}}")
    }
}

/// The rules of the test as far as lists of allowed requests can express them.
fn rules_review(spec: &Value, requester: Requester<'_>) -> Result<Value, Refusal> {
    let namespace = text(spec, "namespace");
    if namespace.is_empty() {
        return Err(problem::bad_request("no namespace on request"));
    }
    let (mut resources, mut paths, mut incomplete) = (Vec::new(), Vec::new(), false);
    let mut rest_is_allowed = true;
    for (is_allowed, rule) in requester.rules.of(requester.user, namespace) {
        let names_nothing = rule.resources.is_empty() && rule.paths.is_empty();
        let is_for_all_verbs = rule.verbs.is_empty();
        if names_nothing && is_for_all_verbs && rule.name.is_none() {
            rest_is_allowed = *is_allowed;
            break;
        }
        if !is_allowed {
            incomplete = true;
            continue;
        }
        let verbs = match is_for_all_verbs {
            true => json!(["*"]),
            false => json!(rule.verbs),
        };
        if !rule.paths.is_empty() {
            paths.push(json!({"verbs": verbs, "nonResourceURLs": rule.paths}));
        }
        let any = [("*".into(), "*".into())];
        let named = if names_nothing { &any[..] } else { &rule.resources };
        for (group, resource) in named {
            let mut granted = json!({"verbs": verbs, "apiGroups": [group], "resources": [resource]});
            if let Some(name) = &rule.name {
                granted["resourceNames"] = json!([name]);
            }
            resources.push(granted);
        }
    }
    if rest_is_allowed {
        resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    // Denials before allowances cannot be listed.
    incomplete &= !resources.is_empty();
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": incomplete});
    if incomplete {
        status["evaluationError"] = "rules that deny requests cannot be listed".into();
    }
    Ok(status)
}

fn token_review(
    server: &ApiServer,
    spec: &Value,
    requester: Requester<'_>,
    bearer: Option<&str>,
) -> Result<Value, Refusal> {
    let sent = text(spec, "token");
    if sent.is_empty() {
        let why = "token is required for TokenReview in authentication";
        return Err(problem::bad_request(why));
    }
    let requested = spec["audiences"].as_array().into_iter().flatten();
    let requested: Vec<&str> = requested.filter_map(Value::as_str).collect();
    Ok(match token::read(server, sent) {
        Some(claims) => token::review(server, &claims, &requested),
        None if bearer == Some(sent) => {
            json!({"authenticated": true, "user": server.user_info(requester.user)})
        }
        None => json!({"user": {}, "error": "invalid bearer token"}),
    })
}
