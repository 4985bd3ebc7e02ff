//! Decides what reviews answer: everything is allowed, and the client is an administrator. They are not stored.

use kubegc_core::ApiResource;
use serde_json::{Value, json};

use super::{
    problem::{self, Refusal},
    reply::Reply,
};

/// Whether the resource takes questions instead of objects.
pub(super) fn is_review(resource: &ApiResource) -> bool {
    matches!(&*resource.group, "authorization.k8s.io" | "authentication.k8s.io")
}

/// Answers a question: it is sent back with a status.
///
/// # Errors
/// 400 where the body is no object.
pub(super) fn answer(resource: &ApiResource, mut question: Value) -> Result<Reply, Refusal> {
    let Value::Object(fields) = &mut question else {
        return Err(problem::bad_request(format!(
            "the object provided is unrecognized (must be of type {})",
            resource.kind
        )));
    };
    fields.insert("apiVersion".to_owned(), resource.api_version().into());
    fields.insert("kind".to_owned(), (&*resource.kind).into());
    fields
        .entry("metadata")
        .or_insert_with(|| json!({"creationTimestamp": null}));
    fields.insert("status".to_owned(), status(&resource.kind));
    Ok(Reply::json(201, &question))
}

fn status(kind: &str) -> Value {
    let user = json!({"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]});
    match kind {
        "SelfSubjectReview" => json!({"userInfo": user}),
        "TokenReview" => json!({"authenticated": true, "user": user}),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"allowed": true}),
    }
}
