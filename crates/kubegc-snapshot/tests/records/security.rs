//! Certificate requests, Secrets, ServiceAccounts, and the ConfigMap that tracks legacy tokens.

use kubegc_core::{
    Timestamp,
    record::{
        Body, Certificate, CertificateSigningRequest, Condition, ConfigMap, Field, Resource, Secret,
        ServiceAccount,
    },
};
use serde_json::{Value, json};

use crate::common::{at, check, condition, live, snapshot};

/// In base64, in PEM: valid until 2027-03-01T12:00:00Z. OpenSSL made it.
const CERTIFICATE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJHRENCeXdJVVdrZTkvVkdzbjF6eTRrYVl2SGFYVWZGYXB6Y3dCUVlESzJWd01DOHhGVEFUQmdOVkJBb00KREhONWMzUmxiVHB1YjJSbGN6RVdNQlFHQTFVRUF3d05jM2x6ZEdWdE9tNXZaR1U2WVRBZUZ3MHlOakF6TURFeApNakF3TURCYUZ3MHlOekF6TURFeE1qQXdNREJhTUM4eEZUQVRCZ05WQkFvTURITjVjM1JsYlRwdWIyUmxjekVXCk1CUUdBMVVFQXd3TmMzbHpkR1Z0T201dlpHVTZZVEFxTUFVR0F5dGxjQU1oQUo2dVVnWEp1bGtBOHpJK2JQTmsKeXNCOG8xeU0yTldpRDZKZUtKRHkrMVhoTUFVR0F5dGxjQU5CQVBjMkVwOG5JYWtGcGtxMUU2ak04OTFUTlEzSgp3akpFeFgvZmszWUNaTXFJU2lQVmI3K0xoZ0ttNjNwQ2loQU1ibXdhRlhuZ1o1U1FVVjhjOEhBelRRVT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

fn request(conditions: Field<Vec<Condition>>, certificate: Field<Certificate>) -> Body {
    Body::CertificateSigningRequest(CertificateSigningRequest {
        conditions,
        certificate,
    })
}

#[test]
fn certificate_requests() {
    let approved = Condition {
        reason: "AutoApproved".into(),
        message: "by the kubelet's approver".into(),
        last_update_time: Some(at(1)),
        last_transition_time: Some(at(2)),
        ..condition("Approved", "True")
    };
    let until = Timestamp::parse("2027-03-01T12:00:00Z").expect("a date");
    let issued = |certificate| request(Field::default(), Field::Known(certificate));
    let malformed = |text: &str| issued(Certificate::Malformed(text.into()));
    check(
        Resource::CertificateSigningRequests,
        [
            (
                json!({ "spec": { "username": 7 }, "status": {
                    "certificate": CERTIFICATE,
                    "conditions": [
                        { "type": "Approved", "status": "True", "reason": "AutoApproved", "message": "by the kubelet's approver",
                          "lastUpdateTime": "2026-03-01T12:00:01Z", "lastTransitionTime": "2026-03-01T12:00:02Z" },
                        { "type": "Odd" },
                    ],
                } }),
                request(
                    vec![approved, condition("Odd", "")].into(),
                    Certificate::NotAfter(until).into(),
                ),
                &[],
            ),
            (json!({}), Body::Unread, &[]),
            (
                json!({ "spec": { "username": "a" }, "status": null }),
                Body::Unread,
                &[],
            ),
            (json!({ "status": {} }), issued(Certificate::Absent), &[]),
            (
                json!({ "status": { "certificate": null } }),
                issued(Certificate::Absent),
                &[],
            ),
            (
                json!({ "status": { "certificate": "" } }),
                issued(Certificate::Empty),
                &[],
            ),
            (
                json!({ "status": { "certificate": "<gone>" } }),
                request(Field::default(), Field::Unread),
                &["status.certificate: is not base64"],
            ),
            (
                json!({ "status": { "certificate": "Z2FyYmFnZQ==" } }),
                malformed("expected the certificate associated with the CSR to be PEM encoded"),
                &[],
            ),
            (
                json!({ "status": { "certificate": "LS0tLS1CRUdJTiBYLS0tLS0KLS0tLS1FTkQgWC0tLS0tCg==" } }),
                malformed("no certificates found"),
                &[],
            ),
            (
                json!({ "status": { "certificate": "LS0tLS1CRUdJTiBYLS0tLS0KWm05dgotLS0tLUVORCBYLS0tLS0K" } }),
                malformed("unable to parse certificate data: x509: malformed certificate"),
                &[],
            ),
            (
                json!({ "status": { "certificate": 7, "conditions": [{ "type": "Denied", "lastUpdateTime": "never" }] } }),
                request(Field::Unread, Field::Unread),
                &[
                    "status.certificate: expected a string, found a number",
                    "status.conditions[0].lastUpdateTime: \"never\" is not a date",
                ],
            ),
            (
                json!({ "status": [] }),
                request(Field::Unread, Field::Unread),
                &["status: expected a map, found a list"],
            ),
            (
                json!({ "status": { "conditions": [null] } }),
                request(Field::Unread, Certificate::Absent.into()),
                &["status.conditions[0]: expected a map, found null"],
            ),
        ],
    );
    let whole = live(Resource::CertificateSigningRequests, json!({}));
    assert_eq!(whole, issued(Certificate::Absent));
}

fn secret(secret_type: Field<&str>, account: [Field<&str>; 2], expiration: Field<&str>) -> Body {
    let [service_account_name, service_account_uid] = account.map(|text| text.map(Into::into));
    Body::Secret(Secret {
        secret_type: secret_type.map(Into::into),
        service_account_name,
        service_account_uid,
        expiration: expiration.map(Into::into),
    })
}

#[test]
fn secrets() {
    let (name, uid) = (
        "kubernetes.io/service-account.name",
        "kubernetes.io/service-account.uid",
    );
    let token_type = "bootstrap.kubernetes.io/token";
    let of_type = |secret_type, expiration| secret(secret_type, [Field::default(); 2], expiration);
    let token = |expiration| of_type(Field::Known(token_type), expiration);
    let unread = Field::Unread;
    check(
        Resource::Secrets,
        [
            (
                json!({ "type": token_type, "data": { "expiration": "MjAyNi0wMy0wMVQxMjowMDowMFo=", "token-secret": 7 } }),
                token("2026-03-01T12:00:00Z".into()),
                &[],
            ),
            (
                json!({ "metadata": { "annotations": { (name): "builder", (uid): "u-1" } }, "type": "kubernetes.io/service-account-token" }),
                secret(
                    "kubernetes.io/service-account-token".into(),
                    ["builder".into(), "u-1".into()],
                    unread,
                ),
                &[],
            ),
            (json!({}), of_type(unread, unread), &[]),
            (json!({ "type": "" }), of_type("".into(), unread), &[]),
            (
                json!({ "data": { "expiration": "MjAy" } }),
                of_type(unread, unread),
                &[],
            ),
            // A token has data: without any, they were stripped.
            (json!({ "type": token_type, "data": null }), token(unread), &[]),
            (
                json!({ "type": token_type, "data": {}, "stringData": {} }),
                token(unread),
                &[],
            ),
            (
                json!({ "type": token_type, "data": { "token-id": "YWJjZGVm" } }),
                token("".into()),
                &[],
            ),
            (
                json!({ "type": token_type, "stringData": { "token-id": "abcdef" } }),
                token("".into()),
                &[],
            ),
            // The data of other secrets are not read.
            (
                json!({ "type": "Opaque", "data": { "expiration": "MjAy" }, "stringData": 7 }),
                of_type("Opaque".into(), unread),
                &[],
            ),
            (
                json!({ "type": token_type, "data": { "expiration": "" } }),
                token("".into()),
                &[],
            ),
            (
                json!({ "type": token_type, "data": { "expiration": "MjAy" }, "stringData": { "expiration": "plain" } }),
                token("plain".into()),
                &[],
            ),
            (
                json!({ "type": token_type, "data": { "expiration": "/////w==" } }),
                token("\u{fffd}\u{fffd}\u{fffd}\u{fffd}".into()),
                &[],
            ),
            (
                json!({ "type": token_type, "data": { "expiration": "?" } }),
                token(unread),
                &["data.expiration: is not base64"],
            ),
            (
                json!({ "type": token_type, "data": { "expiration": 7 } }),
                token(unread),
                &["data.expiration: expected a string, found a number"],
            ),
            (
                json!({ "type": 7, "data": "x", "metadata": { "annotations": [] } }),
                secret(unread, [unread; 2], unread),
                &[
                    "metadata.annotations: expected a map, found a list",
                    "type: expected a string, found a number",
                ],
            ),
            (
                json!({ "type": "Opaque", "metadata": { "annotations": { (name): 7, (uid): "u" } } }),
                secret("Opaque".into(), [unread, "u".into()], unread),
                &[
                    "metadata.annotations[kubernetes.io/service-account.name]: expected a string, found a number",
                ],
            ),
            (
                json!({ "type": token_type, "stringData": 7, "data": { "expiration": "MjAy" } }),
                token(unread),
                &["stringData: expected a map, found a number"],
            ),
        ],
    );
    assert_eq!(live(Resource::Secrets, json!({})), of_type("".into(), unread));
    assert_eq!(
        live(Resource::Secrets, json!({ "type": token_type })),
        token("".into())
    );
}

#[test]
fn no_secret_data_is_kept() {
    let text = r#"{"kind":"List","apiVersion":"v1","items":[
        {"data":{"password":"aHVudGVyMg==","expiration":"MjAy"},"metadata":{"name":"a","namespace":"b","uid":"c"},"apiVersion":"v1","kind":"Secret","type":"bootstrap.kubernetes.io/token"},
        {"data":{"expiration":"aHVudGVyMg=="},"metadata":{"name":"f","namespace":"b","uid":"g"},"apiVersion":"v1","kind":"Secret","type":"Opaque"},
        {"apiVersion":"v1","kind":"Secret","stringData":{"expiration":"hunter2"},"metadata":{"name":"h","namespace":"b","uid":"i"}},
        {"stringData":{"password":"hunter2"},"metadata":{"name":"d","namespace":"b","uid":"e"},"apiVersion":"v1","kind":"Secret"}]}"#;
    let snapshot = snapshot(text);
    let kept = format!("{:?}", snapshot.objects().collect::<Vec<_>>());
    assert!(kept.contains("Known(\"202\")"));
    assert!(
        !kept.contains("hunter2") && !kept.contains("aHVudGVyMg=="),
        "{kept}"
    );
}

#[test]
fn service_accounts() {
    let account = |names: Field<&[&str]>| {
        Body::ServiceAccount(ServiceAccount {
            secrets: names.map(|names| names.iter().map(|name| (*name).into()).collect()),
        })
    };
    let none = || Body::ServiceAccount(ServiceAccount::default());
    check(
        Resource::ServiceAccounts,
        [
            (
                json!({ "secrets": [{ "name": "b" }, { "name": "a", "namespace": 7 }] }),
                account(Field::Known(&["b", "a"])),
                &[],
            ),
            (json!({}), none(), &[]),
            (json!({ "secrets": null, "imagePullSecrets": 7 }), none(), &[]),
            (json!({ "secrets": [{}] }), account(Field::Known(&[""])), &[]),
            (
                json!({ "secrets": {} }),
                account(Field::Unread),
                &["secrets: expected a list, found a map"],
            ),
            (
                json!({ "secrets": [{ "name": "a" }, { "name": 1 }, "b"] }),
                account(Field::Unread),
                &[
                    "secrets[1].name: expected a string, found a number",
                    "secrets[2]: expected a map, found a string",
                ],
            ),
        ],
    );
}

#[test]
fn config_maps() {
    let since = |since: Field<Option<&str>>| {
        Body::ConfigMap(ConfigMap {
            since: since.map(|since| since.map(Into::into)),
        })
    };
    let cases: [(Value, Body, &[&str]); 7] = [
        (
            json!({ "data": { "since": "2026-03-01", "other": 7 } }),
            since(Some("2026-03-01").into()),
            &[],
        ),
        (json!({ "data": { "since": "" } }), since(Some("").into()), &[]),
        (json!({ "data": {} }), since(None.into()), &[]),
        (json!({}), since(None.into()), &[]),
        (json!({ "data": null, "binaryData": 7 }), since(None.into()), &[]),
        (
            json!({ "data": [] }),
            since(Field::Unread),
            &["data: expected a map, found a list"],
        ),
        (
            json!({ "data": { "since": 7 } }),
            since(Field::Unread),
            &["data.since: expected a string, found a number"],
        ),
    ];
    check(Resource::ConfigMaps, cases);
}
