//! Access reviews, rules of the test, token requests.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::Method;
use kubegc_testkit::http::AccessRule;
use serde_json::{Value, json};

use crate::world::{World, at_version, request, text, world};

const SELF: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const OTHER: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const LOCAL: &str = "/apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

#[test]
fn without_rules_everything_is_allowed_and_reviews_are_not_stored() {
    let mut world = world();
    let before = world.server.revision();
    let attributes = json!({"verb": "delete", "resource": "pods", "namespace": "shop"});
    for (url, spec, pointer, expected) in [
        (
            SELF,
            json!({"resourceAttributes": attributes}),
            "/status/allowed",
            json!(true),
        ),
        (
            OTHER,
            json!({"user": "a", "resourceAttributes": attributes}),
            "/status/allowed",
            json!(true),
        ),
        (
            LOCAL,
            json!({"user": "a", "resourceAttributes": attributes}),
            "/status/allowed",
            json!(true),
        ),
        (
            RULES,
            json!({"namespace": "shop"}),
            "/status/incomplete",
            json!(false),
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            json!({}),
            "/status/userInfo/username",
            json!("kubernetes-admin"),
        ),
        (
            TOKEN_REVIEWS,
            json!({"token": "secret"}),
            "/status/authenticated",
            json!(true),
        ),
    ] {
        let reply = world.post(url, &json!({"spec": spec}));
        let body = reply.json();
        assert_eq!(
            (reply.code, body.pointer(pointer)),
            (201, Some(&expected)),
            "{url}"
        );
        assert_eq!(body["spec"], spec);
        assert_eq!(world.post(url, &json!([])).code, 400, "{url}");
    }
    assert_eq!(world.server.revision(), before);
    let old = at_version("1.27").post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({}));
    assert_eq!(old.code, 404);
}

#[test]
fn empty_reviews_are_refused() {
    let mut world = world();
    let pods = json!({"verb": "get", "resource": "pods", "namespace": "bank"});
    let path = json!({"verb": "get", "path": "/healthz"});
    for (url, spec, code, message) in [
        (
            SELF,
            json!({}),
            422,
            "SelfSubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: \"null\": \
             exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            SELF,
            json!({"resourceAttributes": pods, "nonResourceAttributes": path}),
            422,
            "SelfSubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: \
             authorization.NonResourceAttributes{Path:\"/healthz\", Verb:\"get\"}: cannot be specified in combination with \
             resourceAttributes",
        ),
        (
            OTHER,
            json!({"resourceAttributes": pods}),
            422,
            "SubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or \
             group must be specified",
        ),
        (
            LOCAL,
            json!({"user": "a", "resourceAttributes": pods}),
            422,
            "LocalSubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \
             \"bank\": must match metadata.namespace",
        ),
        (RULES, json!({}), 400, "no namespace on request"),
        (
            TOKEN_REVIEWS,
            json!({}),
            400,
            "token is required for TokenReview in authentication",
        ),
    ] {
        let reply = world.post(url, &json!({"spec": spec}));
        assert_eq!((reply.code, reply.message()), (code, message.to_owned()), "{url}");
    }
}

#[test]
fn rules_decide_reviews_and_requests_alike() {
    let mut world = world();
    world.create(
        "/api/v1/namespaces/shop/configmaps",
        &json!({"metadata": {"name": "kept"}}),
    );
    let user = || AccessRule::new().user("kubernetes-admin");
    world
        .rules
        .allow(user().verb("get").resource("", "configmaps").name("kept"));
    world.rules.deny(
        user()
            .verb("get")
            .verb("list")
            .resource("", "configmaps")
            .namespace("shop"),
    );
    world.rules.deny(user().resource("*", "*/scale"));
    world.rules.deny(user().resource("", "nodes"));
    world.rules.deny(user().path("/healthz/*"));
    let shop = "/api/v1/namespaces/shop";
    for (url, message) in [
        (format!("{shop}/configmaps/kept"), None),
        (
            format!("{shop}/configmaps/other"),
            Some(
                "configmaps \"other\" is forbidden: User \"kubernetes-admin\" cannot get resource \"configmaps\" in API group \
                 \"\" in the namespace \"shop\"",
            ),
        ),
        (
            format!("{shop}/configmaps"),
            Some(
                "configmaps is forbidden: User \"kubernetes-admin\" cannot list resource \"configmaps\" in API group \"\" in \
                 the namespace \"shop\"",
            ),
        ),
        ("/api/v1/namespaces/bank/configmaps".to_owned(), None),
        (
            "/apis/apps/v1/namespaces/shop/deployments/web/scale".to_owned(),
            Some(
                "deployments.apps \"web\" is forbidden: User \"kubernetes-admin\" cannot get resource \"deployments/scale\" in \
                 API group \"apps\" in the namespace \"shop\"",
            ),
        ),
        (
            "/api/v1/nodes".to_owned(),
            Some(
                "nodes is forbidden: User \"kubernetes-admin\" cannot list resource \"nodes\" in API group \"\" at the cluster \
                 scope",
            ),
        ),
        (
            "/healthz/etcd".to_owned(),
            Some("forbidden: User \"kubernetes-admin\" cannot get path \"/healthz/etcd\""),
        ),
        ("/healthz".to_owned(), None),
    ] {
        let reply = world.get(&url);
        match message {
            Some(message) => {
                assert_eq!((reply.code, reply.message()), (403, message.to_owned()), "{url}");
                assert_eq!(reply.json()["reason"], "Forbidden");
            }
            None => assert_eq!(reply.code, 200, "{url}: {}", reply.text),
        }
    }
    for (spec, allowed) in [
        (
            json!({"verb": "get", "resource": "configmaps", "namespace": "shop", "name": "kept"}),
            true,
        ),
        (
            json!({"verb": "get", "resource": "configmaps", "namespace": "shop"}),
            false,
        ),
        (
            json!({"verb": "update", "resource": "configmaps", "namespace": "shop"}),
            true,
        ),
        (
            json!({"verb": "update", "group": "apps", "resource": "deployments", "subresource": "scale"}),
            false,
        ),
        (
            json!({"verb": "update", "group": "apps", "resource": "deployments"}),
            true,
        ),
    ] {
        let own = world
            .post(SELF, &json!({"spec": {"resourceAttributes": spec}}))
            .json();
        assert_eq!(own["status"]["allowed"], allowed, "{spec}");
        let other = json!({"spec": {"user": "other", "resourceAttributes": spec}});
        assert_eq!(
            world.post(OTHER, &other).json()["status"]["allowed"],
            true,
            "{spec}"
        );
    }
    let path = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/healthz/ping"}}});
    assert_eq!(world.post(SELF, &path).json()["status"]["allowed"], false);
}

#[test]
fn a_role_is_listed_by_a_rules_review() {
    let mut world = world();
    world.rules.allow(
        AccessRule::new()
            .verb("create")
            .resource("authorization.k8s.io", "*"),
    );
    world.rules.allow(
        AccessRule::new()
            .verb("get")
            .verb("list")
            .resource("apps", "deployments")
            .namespace("shop"),
    );
    world.rules.allow(AccessRule::new().verb("get").path("/healthz"));
    world.rules.deny(AccessRule::new());
    let mut rules_in = |namespace: &str| {
        let review = world
            .post(RULES, &json!({"spec": {"namespace": namespace}}))
            .json();
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
    let reply = world.post(
        &url,
        &json!({"spec": {"audiences": ["vault"], "expirationSeconds": 600}}),
    );
    let body = reply.json();
    assert_eq!(
        (reply.code, &body["kind"]),
        (201, &json!("TokenRequest")),
        "{body}"
    );
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
    assert_eq!(
        (&known["authenticated"], &known["audiences"]),
        (&json!(true), &json!(["vault"]))
    );
    assert_eq!(known["user"]["username"], "system:serviceaccount:shop:robot");
    assert!(text(&review(&mut world, json!(["other"]))["error"]).contains("audiences"));
    world.advance_s(661);
    assert!(text(&review(&mut world, json!(["vault"]))["error"]).contains("expired"));
}

#[test]
fn token_requests_are_checked() {
    let mut world = with_account("1.20.2");
    world.create(
        "/api/v1/namespaces/shop/pods",
        &json!({"metadata": {"name": "web"}, "spec": {"serviceAccountName": "robot"}}),
    );
    world.create(
        "/api/v1/namespaces/shop/pods",
        &json!({"metadata": {"name": "other"}, "spec": {"serviceAccountName": "default"}}),
    );
    let url = format!("{ACCOUNTS}/robot/token");
    let pod = |name: &str, uid: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}});
    for (url, spec, code, message) in [
        (
            &url,
            json!({"expirationSeconds": 599}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a \
             duration less than 10 minutes",
        ),
        (
            &url,
            json!({"expirationSeconds": 4_294_967_297_i64}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not \
             specify a duration larger than 2^32 seconds",
        ),
        (
            &format!("{ACCOUNTS}/missing/token"),
            json!({}),
            404,
            "serviceaccounts \"missing\" not found",
        ),
        (&url, pod("missing", ""), 404, "pods \"missing\" not found"),
        (
            &url,
            pod("other", ""),
            400,
            "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name.",
        ),
        (
            &url,
            pod("web", "wrong"),
            409,
            "Operation cannot be fulfilled on Pod \"web\": the UID in the bound object reference (wrong) does not match the UID \
             in record. The object might have been deleted and then recreated",
        ),
    ] {
        let reply = world.post(url, &json!({"spec": spec}));
        assert_eq!(
            (reply.code, reply.message()),
            (code, message.to_owned()),
            "{spec}"
        );
    }
    let bound = world.post(&url, &json!({"spec": pod("web", "")})).json();
    let claims = claims(&bound["status"]["token"]);
    assert_eq!(claims["kubernetes.io"]["pod"]["name"], "web");
    assert_eq!((&claims["exp"], claims.get("jti")), (&json!(1_003_600), None));
    assert_eq!(world.get(&url).code, 405);
}

#[test]
fn a_body_in_protobuf_is_refused_with_a_hint() {
    let mut world = world();
    let headers = [("content-type", "application/vnd.kubernetes.protobuf")];
    let reply = world.perform(&request(
        Method::POST,
        "/api/v1/namespaces/shop/configmaps",
        &headers,
        "k8s\0",
    ));
    assert_eq!(reply.code, 415);
    assert!(reply.message().starts_with(
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml \
         (the test cluster does not decode protobuf: send JSON, with `kubectl create -f FILE`"
    ));
}
