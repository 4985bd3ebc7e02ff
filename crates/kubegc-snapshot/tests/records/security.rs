//! Certificate requests, secrets, service accounts, and the config map that tracks the uses of tokens.

use kubegc_lifecycle::{
    certificate::Certificate,
    fields::{CertificateSigningRequest, ConfigMap, Fields, Secret, ServiceAccount},
    object::{Condition, Resource},
    token::bootstrap::Expiration,
};
use serde_json::{Value, json};

use crate::common::{at, condition, read, snapshot};

/// In base64, in PEM: valid until 2027-03-01T12:00:00Z. OpenSSL made it.
const CERTIFICATE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJHRENCeXdJVVdrZTkvVkdzbjF6eTRrYVl2SGFYVWZGYXB6Y3dCUVlESzJWd01DOHhGVEFUQmdOVkJBb00KREhONWMzUmxiVHB1YjJSbGN6RVdNQlFHQTFVRUF3d05jM2x6ZEdWdE9tNXZaR1U2WVRBZUZ3MHlOakF6TURFeApNakF3TURCYUZ3MHlOekF6TURFeE1qQXdNREJhTUM4eEZUQVRCZ05WQkFvTURITjVjM1JsYlRwdWIyUmxjekVXCk1CUUdBMVVFQXd3TmMzbHpkR1Z0T201dlpHVTZZVEFxTUFVR0F5dGxjQU1oQUo2dVVnWEp1bGtBOHpJK2JQTmsKeXNCOG8xeU0yTldpRDZKZUtKRHkrMVhoTUFVR0F5dGxjQU5CQVBjMkVwOG5JYWtGcGtxMUU2ak04OTFUTlEzSgp3akpFeFgvZmszWUNaTXFJU2lQVmI3K0xoZ0ttNjNwQ2loQU1ibXdhRlhuZ1o1U1FVVjhjOEhBelRRVT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

#[test]
fn certificate_requests() {
    let approved = Condition {
        reason: "AutoApproved".into(),
        message: "by the kubelet's approver".into(),
        last_update_time: Some(at(1)),
        last_transition_time: Some(at(2)),
        ..condition("Approved", "True")
    };
    let until = kubegc_core::Timestamp::parse("2027-03-01T12:00:00Z").expect("a date");
    let bad = |text: &str| Certificate::Bad(text.into());
    type Row<'a> = (Value, Option<Vec<Condition>>, Certificate, &'a [&'a str]);
    let cases: [Row<'_>; 13] = [
        (
            json!({ "spec": { "username": 7 }, "status": {
                "certificate": CERTIFICATE,
                "conditions": [
                    { "type": "Approved", "status": "True", "reason": "AutoApproved", "message": "by the kubelet's approver",
                      "lastUpdateTime": "2026-03-01T12:00:01Z", "lastTransitionTime": "2026-03-01T12:00:02Z" },
                    { "type": "Odd" },
                ],
            } }),
            Some(vec![approved, condition("Odd", "")]),
            Certificate::NotAfter(until),
            &[],
        ),
        (json!({}), None, Certificate::Unknown, &[]),
        (json!({ "status": null }), None, Certificate::Unknown, &[]),
        (json!({ "status": {} }), Some(vec![]), Certificate::None, &[]),
        (
            json!({ "status": { "certificate": null } }),
            Some(vec![]),
            Certificate::None,
            &[],
        ),
        (
            json!({ "status": { "certificate": "" } }),
            Some(vec![]),
            Certificate::Empty,
            &[],
        ),
        (
            json!({ "status": { "certificate": "<gone>" } }),
            Some(vec![]),
            Certificate::Unread,
            &["status.certificate: is not base64"],
        ),
        (
            json!({ "status": { "certificate": "Z2FyYmFnZQ==" } }),
            Some(vec![]),
            bad("expected the certificate associated with the CSR to be PEM encoded"),
            &[],
        ),
        (
            json!({ "status": { "certificate": "LS0tLS1CRUdJTiBYLS0tLS0KLS0tLS1FTkQgWC0tLS0tCg==" } }),
            Some(vec![]),
            bad("no certificates found"),
            &[],
        ),
        (
            json!({ "status": { "certificate": "LS0tLS1CRUdJTiBYLS0tLS0KWm05dgotLS0tLUVORCBYLS0tLS0K" } }),
            Some(vec![]),
            bad("unable to parse certificate data: x509: malformed certificate"),
            &[],
        ),
        (
            json!({ "status": { "certificate": 7, "conditions": [{ "type": "Denied", "lastUpdateTime": "never" }] } }),
            None,
            Certificate::Unknown,
            &[
                "status.certificate: expected a string, found a number",
                "status.conditions[0].lastUpdateTime: \"never\" is no date",
            ],
        ),
        (
            json!({ "status": [] }),
            None,
            Certificate::Unknown,
            &["status: expected a map, found a list"],
        ),
        (
            json!({ "status": { "conditions": [null] } }),
            None,
            Certificate::None,
            &["status.conditions[0]: expected a map, found null"],
        ),
    ];
    for (body, conditions, certificate, flaws) in cases {
        let (found, named) = read(Resource::CertificateSigningRequests, body.clone());
        let expected = CertificateSigningRequest {
            conditions,
            certificate,
        };
        assert_eq!(found, Fields::CertificateSigningRequest(expected), "{body}");
        assert_eq!(named, flaws, "{body}");
    }
}

#[test]
fn secrets() {
    let (name, uid) = (
        "kubernetes.io/service-account.name",
        "kubernetes.io/service-account.uid",
    );
    let token = "bootstrap.kubernetes.io/token";
    let text = |text: &str| Expiration::Text(text.into());
    type Known<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>, Expiration);
    let cases: [(Value, Known<'_>, &[&str]); 18] = [
        (
            json!({ "type": token, "data": { "expiration": "MjAyNi0wMy0wMVQxMjowMDowMFo=", "token-secret": 7 } }),
            (Some(token), Some(""), Some(""), text("2026-03-01T12:00:00Z")),
            &[],
        ),
        (
            json!({ "metadata": { "annotations": { (name): "builder", (uid): "u-1" } }, "type": "kubernetes.io/service-account-token" }),
            (
                Some("kubernetes.io/service-account-token"),
                Some("builder"),
                Some("u-1"),
                Expiration::Unknown,
            ),
            &[],
        ),
        (json!({}), (None, Some(""), Some(""), Expiration::Unknown), &[]),
        (
            json!({ "type": "" }),
            (None, Some(""), Some(""), Expiration::Unknown),
            &[],
        ),
        (
            json!({ "data": { "expiration": "MjAy" } }),
            (None, Some(""), Some(""), Expiration::Unknown),
            &[],
        ),
        // A token has data: what has none was read without them.
        (
            json!({ "type": token, "data": null }),
            (Some(token), Some(""), Some(""), Expiration::Unknown),
            &[],
        ),
        (
            json!({ "type": token, "data": {}, "stringData": {} }),
            (Some(token), Some(""), Some(""), Expiration::Unknown),
            &[],
        ),
        (
            json!({ "type": token, "data": { "token-id": "YWJjZGVm" } }),
            (Some(token), Some(""), Some(""), Expiration::Absent),
            &[],
        ),
        (
            json!({ "type": token, "stringData": { "token-id": "abcdef" } }),
            (Some(token), Some(""), Some(""), Expiration::Absent),
            &[],
        ),
        // No other secret is looked into.
        (
            json!({ "type": "Opaque", "data": { "expiration": "MjAy" }, "stringData": 7 }),
            (Some("Opaque"), Some(""), Some(""), Expiration::Unknown),
            &[],
        ),
        (
            json!({ "type": token, "data": { "expiration": "" } }),
            (Some(token), Some(""), Some(""), text("")),
            &[],
        ),
        (
            json!({ "type": token, "data": { "expiration": "MjAy" }, "stringData": { "expiration": "plain" } }),
            (Some(token), Some(""), Some(""), text("plain")),
            &[],
        ),
        (
            json!({ "type": token, "data": { "expiration": "/////w==" } }),
            (
                Some(token),
                Some(""),
                Some(""),
                text("\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            ),
            &[],
        ),
        (
            json!({ "type": token, "data": { "expiration": "?" } }),
            (Some(token), Some(""), Some(""), Expiration::Unknown),
            &["data.expiration: is not base64"],
        ),
        (
            json!({ "type": token, "data": { "expiration": 7 } }),
            (Some(token), Some(""), Some(""), Expiration::Unknown),
            &["data.expiration: expected a string, found a number"],
        ),
        (
            json!({ "type": 7, "data": "x", "metadata": { "annotations": [] } }),
            (None, None, None, Expiration::Unknown),
            &[
                "metadata.annotations: expected a map, found a list",
                "type: expected a string, found a number",
            ],
        ),
        (
            json!({ "type": token, "metadata": { "annotations": { (name): 7, (uid): "u" } } }),
            (Some(token), None, Some("u"), Expiration::Unknown),
            &["metadata.annotations[kubernetes.io/service-account.name]: expected a string, found a number"],
        ),
        (
            json!({ "type": token, "stringData": 7, "data": { "expiration": "MjAy" } }),
            (Some(token), Some(""), Some(""), Expiration::Unknown),
            &["stringData: expected a map, found a number"],
        ),
    ];
    for (body, (secret_type, account_name, account_uid, expiration), flaws) in cases {
        let (found, named) = read(Resource::Secrets, body.clone());
        let expected = Secret {
            secret_type: secret_type.map(Into::into),
            account_name: account_name.map(Into::into),
            account_uid: account_uid.map(Into::into),
            expiration,
        };
        assert_eq!(found, Fields::Secret(expected), "{body}");
        assert_eq!(named, flaws, "{body}");
    }
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
    assert!(kept.contains("Text(\"202\")"));
    assert!(
        !kept.contains("hunter2") && !kept.contains("aHVudGVyMg=="),
        "{kept}"
    );
}

#[test]
fn service_accounts() {
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).into()).collect());
    type Row<'a> = (Value, Option<Vec<std::sync::Arc<str>>>, &'a [&'a str]);
    let cases: [Row<'_>; 6] = [
        (
            json!({ "secrets": [{ "name": "b" }, { "name": "a", "namespace": 7 }] }),
            names(&["b", "a"]),
            &[],
        ),
        (json!({}), names(&[]), &[]),
        (json!({ "secrets": null, "imagePullSecrets": 7 }), names(&[]), &[]),
        (json!({ "secrets": [{}] }), names(&[""]), &[]),
        (
            json!({ "secrets": {} }),
            None,
            &["secrets: expected a list, found a map"],
        ),
        (
            json!({ "secrets": [{ "name": "a" }, { "name": 1 }, "b"] }),
            None,
            &[
                "secrets[1].name: expected a string, found a number",
                "secrets[2]: expected a map, found a string",
            ],
        ),
    ];
    for (body, secrets, flaws) in cases {
        let (found, named) = read(Resource::ServiceAccounts, body.clone());
        assert_eq!(
            found,
            Fields::ServiceAccount(ServiceAccount { secrets }),
            "{body}"
        );
        assert_eq!(named, flaws, "{body}");
    }
}

#[test]
fn config_maps() {
    let since = |since: Option<&str>| {
        Fields::ConfigMap(ConfigMap {
            since: since.map(Into::into),
        })
    };
    let cases: [(Value, Fields, &[&str]); 7] = [
        (
            json!({ "data": { "since": "2026-03-01", "other": 7 } }),
            since(Some("2026-03-01")),
            &[],
        ),
        (json!({ "data": { "since": "" } }), since(Some("")), &[]),
        (json!({ "data": {} }), since(None), &[]),
        (json!({}), since(None), &[]),
        (json!({ "data": null, "binaryData": 7 }), since(None), &[]),
        (
            json!({ "data": [] }),
            Fields::Unread,
            &["data: expected a map, found a list"],
        ),
        (
            json!({ "data": { "since": 7 } }),
            Fields::Unread,
            &["data.since: expected a string, found a number"],
        ),
    ];
    for (body, expected, flaws) in cases {
        let (found, named) = read(Resource::ConfigMaps, body.clone());
        assert_eq!(found, expected, "{body}");
        assert_eq!(named, flaws, "{body}");
    }
}
