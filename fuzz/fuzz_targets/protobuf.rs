//! Sends any bytes as an object in protobuf to a small server: no panic, and what is created can be read
//! again.
#![no_main]

use std::sync::LazyLock;

use bytes::Bytes;
use http::{Method, Request, Response, header};
use kubegc_core::{Catalog, KubernetesVersion};
use kubegc_fuzz::Choices;
use kubegc_sim::{ApiServer, Settings};
use kubegc_testkit::http::{ApiResponse, read_call, respond};
use libfuzzer_sys::fuzz_target;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The URL of a collection, API version and kind.
const KINDS: [(&str, &str, &str); 6] = [
    ("/api/v1/namespaces/shop/configmaps", "v1", "ConfigMap"),
    ("/api/v1/namespaces/shop/pods", "v1", "Pod"),
    ("/api/v1/namespaces/shop/services", "v1", "Service"),
    (
        "/apis/apps/v1/namespaces/shop/deployments",
        "apps/v1",
        "Deployment",
    ),
    (
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "authorization.k8s.io/v1",
        "SubjectAccessReview",
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    ),
];

static SERVER: LazyLock<ApiServer> = LazyLock::new(|| {
    let settings = Settings {
        namespaces_must_exist: false,
        ..Settings::default()
    };
    let version = KubernetesVersion::LATEST;
    ApiServer::new(version, Catalog::builtin(version)).with_settings(settings)
});

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let (url, api_version, kind) = *choices.of(&KINDS);
    let flags = choices.byte();
    let body = if flags & 1 == 0 {
        let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [b"k8s\0".to_vec(), field(1, &meta), field(2, choices.0)].concat()
    } else {
        choices.0.to_vec()
    };
    let settings = Settings {
        namespaces_must_exist: false,
        types: flags & 2 == 2,
        ..Settings::default()
    };
    let mut server = SERVER.clone().with_settings(settings);
    let before = server.revision();
    let created = send(&mut server, Method::POST, url, body);
    let code = created.status().as_u16();
    assert!(matches!(code, 201 | 400 | 403 | 404 | 409 | 422), "{code}");
    if code != 201 {
        assert_eq!(server.revision(), before);
        return;
    }
    if server.revision() > before {
        let list = send(&mut server, Method::GET, url, Vec::new());
        assert_eq!(list.status(), 200);
    }
    // What was created is an object in protobuf, too.
    let again = send(&mut server, Method::POST, url, created.body().to_vec());
    assert!(matches!(
        again.status().as_u16(),
        201 | 400 | 403 | 404 | 409 | 422
    ));
});

fn send(server: &mut ApiServer, method: Method, url: &str, body: Vec<u8>) -> Response<Bytes> {
    let request = Request::builder()
        .method(method)
        .uri(url)
        .header(header::ACCEPT, PROTOBUF)
        .header(header::CONTENT_TYPE, PROTOBUF)
        .body(Bytes::from(body))
        .expect("a valid request");
    let call = read_call(server, &request);
    let ApiResponse::Whole(response) = respond(server, &call, &request) else {
        panic!("{url} is a collection");
    };
    assert_eq!(response.headers()[header::CONTENT_TYPE], PROTOBUF);
    assert!(response.body().starts_with(b"k8s\0"));
    response
}

/// A field with bytes.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut field = vec![(number << 3) | 2];
    let mut length = value.len();
    while length >= 0x80 {
        field.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend(value);
    field
}
