//! Access reviews, rules of the test, token requests.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::Method;
use kubegc_testkit::RequestMatcher;
use serde_json::{Value, json};

use crate::world::{World, at_version, text, world};

const SELF: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const OTHER: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const LOCAL: &str = "/apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const SELF_SUBJECT: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

#[test]
fn without_rules_everything_is_allowed_and_reviews_are_not_stored() {
    let mut world = world();
    let before = world.server.revision();
    let attributes = json!({"verb": "delete", "resource": "pods", "namespace": "shop"});
    let own = json!({"resourceAttributes": attributes});
    let of_a = json!({"user": "a", "resourceAttributes": attributes});
    let user = "/status/userInfo/username";
    for (url, spec, pointer, expected) in [
        (SELF, own, "/status/allowed", json!(true)),
        (OTHER, of_a.clone(), "/status/allowed", json!(true)),
        (LOCAL, of_a, "/status/allowed", json!(true)),
        (
            RULES,
            json!({"namespace": "shop"}),
            "/status/incomplete",
            json!(false),
        ),
        (SELF_SUBJECT, json!({}), user, json!("kubernetes-admin")),
        (
            TOKEN_REVIEWS,
            json!({"token": "secret"}),
            "/status/error",
            json!("invalid bearer token"),
        ),
    ] {
        let reply = world.post(url, &json!({"spec": spec}));
        let body = reply.json();
        assert_eq!(reply.code, 201, "{url}");
        assert_eq!(body.pointer(pointer), Some(&expected), "{url}");
        let is_returned = url != RULES;
        assert_eq!(body["spec"], if is_returned { spec } else { json!({}) });
        assert_eq!(world.post(url, &json!([])).code, 400, "{url}");
    }
    // The token of the request is that of its user.
    let headers = [("authorization", "Bearer secret")];
    let review = json!({"spec": {"token": "secret"}});
    let own = world.send(Method::POST, TOKEN_REVIEWS, &headers, &review).json();
    assert_eq!(own["status"]["user"]["username"], "kubernetes-admin");
    assert_eq!(world.server.revision(), before);
    assert_eq!(at_version("1.27").post(SELF_SUBJECT, &json!({})).code, 404);
}

#[test]
fn empty_reviews_are_refused() {
    world().transcript(
        r#"
POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews {"spec":{}} -> 422 .authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified
POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews {"spec":{"resourceAttributes":{"verb":"get"},"nonResourceAttributes":{"verb":"get","path":"/healthz"}}} -> 422 .authorization.k8s.io "" is invalid: spec.nonResourceAttributes: Invalid value: {"Path":"/healthz","Verb":"get"}: cannot be specified in combination with resourceAttributes
POST /apis/authorization.k8s.io/v1/subjectaccessreviews {"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}} -> 422 .authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at least one of user or group must be specified
POST /apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews {"spec":{"user":"a","resourceAttributes":{"namespace":"bank"}}} -> 422 .authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "bank": must match metadata.namespace
POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews {"spec":{}} -> 400 no namespace on request
POST /apis/authentication.k8s.io/v1/tokenreviews {"spec":{}} -> 400 token is required for TokenReview in authentication
GET /apis/authentication.k8s.io/v1/tokenreviews -> 405 the server does not allow this method on the requested resource
"#,
    );
}

#[test]
fn rules_decide_reviews_and_requests_alike() {
    let mut world = world();
    world.config_maps("shop", &["kept"]);
    let user = || RequestMatcher::new().user("kubernetes-admin");
    let kept = user().verb("get").resource("", "configmaps").name("kept");
    world.rules.allow(kept);
    let reads = user().verb("get").verb("list").resource("", "configmaps");
    world.rules.deny(reads.namespace("shop"));
    world.rules.deny(user().resource("*", "*/scale"));
    world.rules.deny(user().resource("", "nodes"));
    world.rules.deny(user().path("/healthz/*"));
    world.transcript(
        r#"
GET /api/v1/namespaces/shop/configmaps/kept -> 200
GET /api/v1/namespaces/shop/configmaps/other -> 403 configmaps "other" is forbidden: User "kubernetes-admin" cannot get resource "configmaps" in API group "" in the namespace "shop"
GET /api/v1/namespaces/shop/configmaps -> 403 configmaps is forbidden: User "kubernetes-admin" cannot list resource "configmaps" in API group "" in the namespace "shop"
GET /api/v1/namespaces/bank/configmaps -> 200
GET /apis/apps/v1/namespaces/shop/deployments/web/scale -> 403 deployments.apps "web" is forbidden: User "kubernetes-admin" cannot get resource "deployments/scale" in API group "apps" in the namespace "shop"
GET /api/v1/nodes -> 403 nodes is forbidden: User "kubernetes-admin" cannot list resource "nodes" in API group "" at the cluster scope
GET /healthz/etcd -> 403 forbidden: User "kubernetes-admin" cannot get path "/healthz/etcd"
GET /healthz -> 200 ok
"#,
    );
    let reply = world.get("/api/v1/nodes").json();
    assert_eq!(reply["reason"], "Forbidden");
    for (verb, resource, name, allowed) in [
        ("get", "configmaps", "kept", true),
        ("get", "configmaps", "", false),
        ("update", "configmaps", "", true),
        ("update", "deployments/scale", "", false),
        ("update", "deployments", "", true),
    ] {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let spec = json!({
            "verb": verb, "resource": resource, "subresource": subresource, "namespace": "shop", "name": name,
        });
        let mut allows = |url: &str, user: &str| {
            let review = json!({"spec": {"user": user, "resourceAttributes": spec}});
            world.post(url, &review).json()["status"]["allowed"].clone()
        };
        assert_eq!(allows(SELF, ""), allowed, "{spec}");
        assert_eq!(allows(OTHER, "other"), true, "{spec}");
    }
    let path = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/healthz/ping"}}});
    assert_eq!(world.post(SELF, &path).json()["status"]["allowed"], false);
}

#[test]
fn a_role_is_listed_by_a_rules_review() {
    let mut world = world();
    let requests = RequestMatcher::new;
    let reviews = requests().verb("create").resource("authorization.k8s.io", "*");
    world.rules.allow(reviews);
    let reads = requests()
        .verb("get")
        .verb("list")
        .resource("apps", "deployments");
    world.rules.allow(reads.namespace("shop"));
    world.rules.allow(requests().verb("get").path("/healthz"));
    world.rules.deny(RequestMatcher::new());
    let mut rules_in = |namespace: &str| {
        let spec = json!({"namespace": namespace});
        let review = world.post(RULES, &json!({"spec": spec})).json();
        assert_eq!(review["status"]["incomplete"], false);
        assert_eq!(
            review["status"]["nonResourceRules"],
            json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}])
        );
        review["status"]["resourceRules"].clone()
    };
    let reviews = json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["*"]});
    assert_eq!(rules_in("bank"), json!([reviews]));
    assert_eq!(
        rules_in("shop"),
        json!([reviews, {"verbs": ["get", "list"], "apiGroups": ["apps"], "resources": ["deployments"]}])
    );
    assert_eq!(world.get("/apis/apps/v1/namespaces/shop/deployments").code, 200);
    assert_eq!(world.get("/apis/apps/v1/namespaces/bank/deployments").code, 403);
}

const ACCOUNTS: &str = "/api/v1/namespaces/shop/serviceaccounts";

fn with_account(version: &str) -> World {
    let mut world = at_version(version);
    world.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}}));
    world
}

fn claims(token: &Value) -> Value {
    let token = text(token);
    let parts: Vec<&str> = token.split('.').collect();
    assert_eq!((parts.len(), parts[2]), (3, ""));
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap()
}

#[test]
fn a_token_has_the_claims_of_a_service_account_and_is_recognised_until_it_expires() {
    let mut world = with_account("1.36");
    let url = format!("{ACCOUNTS}/robot/token");
    let before = world.server.revision();
    let spec = json!({"audiences": ["vault"], "expirationSeconds": 600});
    let reply = world.post(&url, &json!({"spec": spec}));
    let body = reply.json();
    assert_eq!(reply.code, 201, "{body}");
    assert_eq!(body["kind"], "TokenRequest");
    assert_eq!(body["metadata"]["name"], "robot");
    assert_eq!(body["status"]["expirationTimestamp"], "1970-01-12T13:56:40Z");
    assert_eq!(world.server.revision(), before);
    let uid = world.get(&format!("{ACCOUNTS}/robot")).json()["metadata"]["uid"].clone();
    let mut claims = claims(&body["status"]["token"]);
    assert_eq!(text(&claims["jti"]).len(), 36);
    claims.as_object_mut().unwrap().remove("jti");
    assert_eq!(
        claims,
        json!({
            "aud": ["vault"],
            "exp": 1_000_600,
            "iat": 1_000_000,
            "iss": "https://kubernetes.default.svc.cluster.local",
            "kubernetes.io": {"namespace": "shop", "serviceaccount": {"name": "robot", "uid": uid}},
            "nbf": 1_000_000,
            "sub": "system:serviceaccount:shop:robot",
        })
    );
    let review = |world: &mut World, audiences: Value| {
        let spec = json!({"token": body["status"]["token"], "audiences": audiences});
        world.post(TOKEN_REVIEWS, &json!({"spec": spec})).json()["status"].clone()
    };
    let known = review(&mut world, json!(["vault", "other"]));
    assert_eq!(known["authenticated"], true);
    assert_eq!(known["audiences"], json!(["vault"]));
    assert_eq!(known["user"]["username"], "system:serviceaccount:shop:robot");
    assert!(text(&review(&mut world, json!(["other"]))["error"]).contains("audiences"));
    world.advance_s(661);
    assert!(text(&review(&mut world, json!(["vault"]))["error"]).contains("expired"));
}

#[test]
fn token_requests_are_checked() {
    let mut world = with_account("1.20.2");
    for (name, account) in [("web", "robot"), ("other", "default")] {
        let pod = json!({"metadata": {"name": name}, "spec": {"serviceAccountName": account}});
        world.create("/api/v1/namespaces/shop/pods", &pod);
    }
    world.transcript(
        r#"
POST /api/v1/namespaces/shop/serviceaccounts/robot/token {"spec":{"expirationSeconds":599}} -> 422 TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes
POST /api/v1/namespaces/shop/serviceaccounts/robot/token {"spec":{"expirationSeconds":4294967297}} -> 422 TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds
POST /api/v1/namespaces/shop/serviceaccounts/missing/token {"spec":{}} -> 404 serviceaccounts "missing" not found
POST /api/v1/namespaces/shop/serviceaccounts/robot/token {"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"missing"}}} -> 404 pods "missing" not found
POST /api/v1/namespaces/shop/serviceaccounts/robot/token {"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"other"}}} -> 400 cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.
POST /api/v1/namespaces/shop/serviceaccounts/robot/token {"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"web","uid":"wrong"}}} -> 409 Operation cannot be fulfilled on Pod "web": the UID in the bound object reference (wrong) does not match the UID in record. The object might have been deleted and then recreated
GET /api/v1/namespaces/shop/serviceaccounts/robot/token -> 405 the server does not allow this method on the requested resource
"#,
    );
    let spec = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web"}});
    let request = json!({"spec": spec});
    let bound = world.post(&format!("{ACCOUNTS}/robot/token"), &request).json();
    let claims = claims(&bound["status"]["token"]);
    assert_eq!(claims["kubernetes.io"]["pod"]["name"], "web");
    assert_eq!((&claims["exp"], claims.get("jti")), (&json!(1_003_600), None));
}
