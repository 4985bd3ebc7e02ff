//! Token requests of service accounts, and the tokens that they issue.
//!
//! Tokens are JSON Web Tokens with the claims of upstream and without a signature (`alg: none`).
//!
//! # Upstream
//! `TokenREST.Create` in `pkg/registry/core/serviceaccount/storage/token.go`, `ValidateTokenRequest` in
//! `pkg/apis/authentication/validation/validation.go`, and `Claims` in `pkg/serviceaccount/claims.go`,
//! 1.20.2.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use kubegc_core::{Behavior, Timestamp};
use kubegc_sim::{ApiServer, StoredObject};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    Call,
    problem::{self, Cause, Refusal},
    reply::Reply,
    target::core_object,
};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const EXPIRATION_DEFAULT_S: i64 = 60 * 60;
const EXPIRATION_MIN_S: i64 = 10 * 60;
const EXPIRATION_MAX_S: i64 = 1 << 32;
/// A token of a pod that is requested with this lifetime is valid for a year, and warns after the lifetime.
const EXPIRATION_OF_PROJECTED_S: i64 = 60 * 60 + 7;
const EXPIRATION_EXTENDED_S: i64 = 365 * 24 * 60 * 60;
/// Allowed difference between clocks.
const LEEWAY: Duration = Duration::from_secs(60);

/// Tokens of pods with the lifetime of projected volumes are extended.
const PROJECTED_TOKENS_ARE_EXTENDED: Behavior =
    Behavior::since(21, 0, "--service-account-extend-token-expiration");
/// Tokens have an identifier of their own.
const TOKENS_HAVE_IDS: Behavior = Behavior::since(30, 0, "ServiceAccountTokenJTI, beta");

/// The name and the namespace of a request are those of its service account.
const NAMES_ARE_CHECKED: Behavior = Behavior::since(24, 0, "kubernetes #107880");
/// The UID of a request is that of its service account.
const UIDS_ARE_CHECKED: Behavior = Behavior::since(34, 0, "TokenRequestServiceAccountUIDValidation");

/// Performs a token request.
///
/// # Errors
/// 422 and 409 if its metadata is not that of the service account, 404 if the service account or the object
/// that the token is bound to does not exist, 422 for a lifetime out of bounds, 400 and 409 for an object
/// that the token cannot be bound to.
pub(super) fn respond(server: &ApiServer, call: &Call, request: Value) -> Result<Reply, Refusal> {
    let sent = |key: &str| request["metadata"][key].as_str().filter(|sent| !sent.is_empty());
    let is_other = |key: &str, expected: &str| sent(key).filter(|sent| *sent != expected);
    for (key, expected) in [("name", &call.name), ("namespace", &call.namespace)] {
        if server.version().has(NAMES_ARE_CHECKED)
            && let Some(other) = is_other(key, expected)
        {
            let why = format!("must match the service account {key} if specified");
            let cause = Cause::invalid(format!("metadata.{key}"), &format!("{other:?}"), &why);
            return Err(problem::invalid(GROUP, KIND, &call.name, &[cause]));
        }
    }
    let account = core_object(server, "serviceaccounts", &call.namespace, &call.name)?;
    let uid = account.meta.uid.to_string();
    // The request may be for an earlier service account of the same name.
    if server.version().has(UIDS_ARE_CHECKED)
        && let Some(other) = is_other("uid", &uid)
    {
        let why = format!(
            "the UID in the token request ({other}) does not match the UID of the service account ({uid})"
        );
        return Err(problem::conflict(GROUP, KIND, &call.name, &why));
    }
    let spec = request.get("spec").cloned().unwrap_or(Value::Null);
    let seconds = match spec.get("expirationSeconds") {
        None | Some(Value::Null) => EXPIRATION_DEFAULT_S,
        Some(seconds) => seconds.as_i64().ok_or_else(|| {
            problem::bad_request("TokenRequest in version \"v1\" cannot be handled as a TokenRequest: spec.expirationSeconds is not a number")
        })?,
    };
    let bound = match &spec["boundObjectRef"] {
        reference @ Value::Object(_) => Some(bound_object(server, call, reference)?),
        _ => None,
    };
    check_expiration(seconds)?;
    let issuer = &*server.settings().service_account_issuer;
    let audiences = match spec.get("audiences").and_then(Value::as_array) {
        Some(audiences) if !audiences.is_empty() => audiences.clone(),
        _ => vec![issuer.into()],
    };
    let now = server.now().truncate_to_secs();
    let mut kubernetes = json!({"namespace": &*account.meta.namespace, "serviceaccount": reference(account)});
    let mut lifetime = seconds;
    if let Some((key, object)) = &bound {
        kubernetes[*key] = reference(object);
        let extends = server.version().has(PROJECTED_TOKENS_ARE_EXTENDED);
        if extends
            && *key == "pod"
            && seconds == EXPIRATION_OF_PROJECTED_S
            && audiences == [Value::from(issuer)]
        {
            kubernetes["warnafter"] = (now.as_secs() + seconds).into();
            lifetime = EXPIRATION_EXTENDED_S;
        }
    }
    let (namespace, name) = (&account.meta.namespace, &account.meta.name);
    let mut claims = json!({
        "aud": audiences,
        "exp": now.as_secs() + lifetime,
        "iat": now.as_secs(),
        "iss": issuer,
        "kubernetes.io": kubernetes,
        "nbf": now.as_secs(),
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
    });
    if server.version().has(TOKENS_HAVE_IDS) {
        claims["jti"] = identifier(&claims, server.now()).into();
    }
    let expiry = now.saturating_add(Duration::from_secs(seconds.unsigned_abs()));
    let mut response = request;
    response["apiVersion"] = "authentication.k8s.io/v1".into();
    response["kind"] = "TokenRequest".into();
    response["metadata"] = json!({
        "name": &*account.meta.name,
        "namespace": &*account.meta.namespace,
        "creationTimestamp": now.to_string(),
    });
    if server.version().has(UIDS_ARE_CHECKED) {
        response["metadata"]["uid"] = uid.into();
    }
    response["spec"]["audiences"] = audiences.into();
    response["spec"]["expirationSeconds"] = seconds.into();
    if response["spec"].get("boundObjectRef").is_none() {
        response["spec"]["boundObjectRef"] = Value::Null;
    }
    response["status"] = json!({"token": write(&claims), "expirationTimestamp": expiry.to_string()});
    Ok(Reply::object(201, response))
}

fn check_expiration(seconds: i64) -> Result<(), Refusal> {
    let why = if seconds < EXPIRATION_MIN_S {
        "may not specify a duration less than 10 minutes"
    } else if seconds > EXPIRATION_MAX_S {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    let cause = Cause::invalid("spec.expirationSeconds", &seconds.to_string(), why);
    Err(problem::invalid(GROUP, KIND, "", &[cause]))
}

/// The object that a token is bound to, with its key among the claims.
fn bound_object<'s>(
    server: &'s ApiServer,
    call: &Call,
    reference: &Value,
) -> Result<(&'static str, &'s StoredObject), Refusal> {
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    let (api_version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
    let (key, resource) = match (api_version, kind) {
        ("v1", "Pod") => ("pod", "pods"),
        ("v1", "Secret") => ("secret", "secrets"),
        _ => {
            let (group, version) = kubegc_core::identity::split_api_version(api_version);
            let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(problem::bad_request(message));
        }
    };
    let object: &StoredObject = core_object(server, resource, &call.namespace, name)?;
    if key == "pod" {
        let account = match object.text_at(&["spec", "serviceAccountName"]) {
            "" => "default",
            named => named,
        };
        if account != call.name {
            return Err(problem::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                call.name
            )));
        }
    }
    let uid = text("uid");
    if !uid.is_empty() && *uid != *object.meta.uid.to_string() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(problem::conflict("", kind, name, &why));
    }
    Ok((key, object))
}

fn reference(object: &StoredObject) -> Value {
    json!({"name": &*object.meta.name, "uid": object.meta.uid.to_string()})
}

/// A UUID that the claims and the time determine, so that equal runs give equal tokens.
fn identifier(claims: &Value, now: Timestamp) -> String {
    let hash = Sha256::digest(format!("{claims}{now:?}"));
    let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let [first, second, third, fourth, last] =
        [0..8, 8..12, 13..16, 17..20, 20..32].map(|range| hex.get(range).unwrap_or_default());
    format!("{first}-{second}-4{third}-8{fourth}-{last}")
}

fn write(claims: &Value) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let header = part(&json!({"alg": "none", "typ": "JWT"}));
    format!("{header}.{}.", part(claims))
}

/// The claims of a token that a token request issued; `None` for any other text.
pub(super) fn read(server: &ApiServer, token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    if !signature.is_empty() || parts.next().is_some() {
        return None;
    }
    let claims: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    (claims["iss"] == *server.settings().service_account_issuer).then_some(claims)
}

/// The status of a review of a token with these claims.
pub(super) fn review(server: &ApiServer, claims: &Value, requested: &[&str]) -> Value {
    let refused = |why: &str| json!({"user": {}, "error": format!("[invalid bearer token, {why}]")});
    let time = |key: &str| Timestamp::from_secs(claims[key].as_i64().unwrap_or_default());
    if server.now() > time("exp").saturating_add(LEEWAY) {
        return refused("Token has expired.");
    }
    let audiences = claims["aud"].as_array().map_or(&[][..], Vec::as_slice);
    let default = [&*server.settings().service_account_issuer];
    let requested = if requested.is_empty() {
        &default[..]
    } else {
        requested
    };
    let is_shared = |wanted: &&str| audiences.iter().any(|audience| audience == *wanted);
    let shared: Vec<&str> = requested.iter().copied().filter(is_shared).collect();
    if shared.is_empty() {
        let of_token: Vec<&str> = audiences.iter().filter_map(Value::as_str).collect();
        return refused(&format!(
            "token audiences {of_token:?} is invalid for the target audiences {requested:?}"
        ));
    }
    let kubernetes = &claims["kubernetes.io"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, account) = (text(&kubernetes["namespace"]), &kubernetes["serviceaccount"]);
    let name = text(&account["name"]);
    let exists = |resource: &str, reference: &Value| {
        let object = core_object(server, resource, &namespace, reference["name"].as_str()?).ok()?;
        (reference["uid"] == *object.meta.uid.to_string()).then_some(())
    };
    if exists("serviceaccounts", account).is_none() {
        return refused(&format!("serviceaccounts {name:?} not found"));
    }
    for (key, resource) in [("pod", "pods"), ("secret", "secrets")] {
        if let Some(bound) = kubernetes.get(key)
            && exists(resource, bound).is_none()
        {
            return refused("Token has been invalidated");
        }
    }
    let mut user = json!({
        "username": claims["sub"],
        "uid": account["uid"],
        "groups": [
            "system:serviceaccounts",
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated",
        ],
    });
    if let Some(pod) = kubernetes.get("pod") {
        user["extra"] = json!({
            "authentication.kubernetes.io/pod-name": [pod["name"]],
            "authentication.kubernetes.io/pod-uid": [pod["uid"]],
        });
    }
    json!({"authenticated": true, "user": user, "audiences": shared})
}
