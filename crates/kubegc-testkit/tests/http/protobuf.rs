//! Objects, lists, watches, discovery and refusals in protobuf, byte by byte.

use bytes::Bytes;
use http::Method;
use serde_json::json;

use crate::world::{World, request, widgets, world};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

/// A field with bytes, shorter than 128.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).expect("it is short");
    [[(number << 3) | 2, length].as_slice(), value].concat()
}

/// An object in the message `Unknown`, after the prefix.
fn object(api_version: &str, kind: &str, fields: &[Vec<u8>]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, &fields.concat())].concat()
}

/// A ConfigMap with an entry: metadata with the name, and data with key and value.
fn config_map(name: &str) -> Vec<u8> {
    let entry = [field(1, b"a"), field(2, b"1")].concat();
    let fields = [field(1, &field(1, name.as_bytes())), field(2, &entry)];
    object("v1", "ConfigMap", &fields)
}

fn has(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

impl World {
    fn binary(&mut self, method: Method, url: &str, body: Vec<u8>) -> (u16, Bytes) {
        let headers = [("content-type", PROTOBUF), ("accept", PROTOBUF)];
        let reply = self.perform(&request(method, url, &headers, body));
        assert_eq!(reply.content_type, PROTOBUF, "{url}: {}", reply.text);
        (reply.code, reply.body)
    }
}

#[test]
fn objects_are_created_read_listed_and_deleted() {
    let mut world = world();
    let (code, created) = world.binary(Method::POST, MAPS, config_map("a"));
    assert_eq!(code, 201);
    let stored = world.get(&format!("{MAPS}/a")).json();
    assert_eq!(stored["data"], json!({"a": "1"}));
    // The whole response: its prefix and type, and the namespace that the server added.
    assert!(created.starts_with(b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12"));
    assert!(has(&created, b"\x0a\x01a\x12\0\x1a\x04shop"));
    let (code, read) = world.binary(Method::GET, &format!("{MAPS}/a"), Vec::new());
    assert_eq!((code, read), (200, created));
    let (code, list) = world.binary(Method::GET, MAPS, Vec::new());
    assert_eq!(code, 200);
    assert!(has(&list, b"\x0a\x02v1\x12\x0dConfigMapList") && has(&list, b"\x1a\x04shop"));
    // `metadata.uid` of the preconditions: field 1 of field 2 of the options.
    let options = |uid: &str| object("v1", "DeleteOptions", &[field(2, &field(1, uid.as_bytes()))]);
    let (code, status) = world.binary(Method::DELETE, &format!("{MAPS}/a"), options("another"));
    assert_eq!(code, 409);
    assert!(status.starts_with(b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status") && has(&status, b"Conflict"));
    let uid = stored["metadata"]["uid"].as_str().expect("a uid");
    let (code, _) = world.binary(Method::DELETE, &format!("{MAPS}/a"), options(uid));
    assert_eq!(code, 200);
    assert_eq!(world.get(&format!("{MAPS}/a")).code, 404);
}

#[test]
fn discovery_and_metadata_are_in_protobuf_and_tables_are_not() {
    let mut world = world();
    world.config_maps("shop", &["a"]);
    let form = |kind: &str, of: &str| format!("{PROTOBUF};as={kind};{of}");
    let meta = "g=meta.k8s.io;v=v1";
    let discovery = "APIGroupDiscoveryList";
    let (partial, partials) = ("PartialObjectMetadata", "PartialObjectMetadataList");
    let aggregated = format!("{PROTOBUF};g=apidiscovery.k8s.io;v=v2;as={discovery}");
    let one = format!("{MAPS}/a");
    for (url, accept, content_type, kind) in [
        ("/api", PROTOBUF.to_owned(), PROTOBUF, "APIVersions"),
        ("/apis", PROTOBUF.to_owned(), PROTOBUF, "APIGroupList"),
        ("/apis/apps", PROTOBUF.to_owned(), PROTOBUF, "APIGroup"),
        ("/apis/apps/v1", PROTOBUF.to_owned(), PROTOBUF, "APIResourceList"),
        ("/api/v1", PROTOBUF.to_owned(), PROTOBUF, "APIResourceList"),
        ("/apis", aggregated.clone(), &*aggregated, discovery),
        (&*one, form(partial, meta), PROTOBUF, partial),
        (MAPS, form(partials, meta), PROTOBUF, partials),
    ] {
        let reply = world.get_as(url, &accept);
        assert_eq!(reply.code, 200, "{url}: {}", reply.text);
        assert_eq!(reply.content_type, content_type, "{url}");
        let head = reply.body.get(..80).unwrap_or(&reply.body);
        assert!(has(head, &field(2, kind.as_bytes())), "{url}: {}", reply.text);
    }
    let table = form("Table", meta);
    let refused = world.get_as(MAPS, &table);
    assert_eq!((refused.code, &*refused.content_type), (406, "application/json"));
    let fallback = world.get_as(MAPS, &format!("{table},application/json;as=Table;{meta}"));
    assert_eq!(fallback.json()["kind"], "Table");
}

#[test]
fn custom_resources_have_only_their_metadata_in_protobuf() {
    let mut world = world();
    world.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &widgets(),
    );
    let url = "/apis/example.com/v1/namespaces/shop/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
    world.create(url, &widget);
    let one = format!("{url}/a");
    let refused = world.get_as(&one, PROTOBUF);
    assert_eq!(refused.code, 406);
    assert!(has(
        &refused.body,
        b"only the following media types are accepted: application/json, application/yaml, \
          application/vnd.kubernetes.protobuf"
    ));
    let both = world.get_as(&one, &format!("{PROTOBUF},application/json"));
    assert_eq!(both.json()["kind"], "Widget");
    let metadata = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    assert!(has(&world.get_as(&one, &metadata).body, b"PartialObjectMetadata"));
    let body = object("example.com/v1", "Widget", &[]);
    let reply = world.perform(&request(Method::POST, url, &[("content-type", PROTOBUF)], body));
    assert_eq!(reply.code, 400);
    assert_eq!(
        reply.message(),
        "Widget in version \"v1\" cannot be handled as a Widget: object *unstructured.Unstructured does not \
         implement the protobuf marshalling interface and cannot be encoded to a protobuf message"
    );
}
