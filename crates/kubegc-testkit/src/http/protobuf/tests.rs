//! The bytes of Go, round trips, and what is refused.

use kubegc_core::Catalog;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::http::resources;

/// A ConfigMap with the name `a` and the entry `k: v`, field by field.
fn config_map() -> (Value, Vec<u8>) {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {"k": "v"},
    });
    let bytes = [
        // The prefix, and the type: field 1, 15 bytes, with two strings.
        b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap".as_slice(),
        // The object: field 2, 27 bytes.
        b"\x12\x1b",
        // Its metadata: field 1, 17 bytes. The name, then the fields that are no pointers: strings 2 to 6,
        // the generation and the time of creation.
        b"\x0a\x11\x0a\x01a\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0",
        // Its data: field 2, one entry of 6 bytes, with key and value.
        b"\x12\x06\x0a\x01k\x12\x01v",
        // Encoding and type of the content.
        b"\x1a\0\x22\0",
    ];
    (object, bytes.concat())
}

#[test]
fn a_config_map_has_the_bytes_of_go() {
    let (object, bytes) = config_map();
    assert_eq!(encode(&object), Ok(bytes.clone()));
    assert_eq!(decode(&bytes, ("", "")), Ok(object.clone()));
    // A client may leave out the type.
    let (_, untyped) = bytes.split_at(21);
    let untyped = [PREFIX, untyped].concat();
    assert_eq!(decode(&untyped, ("v1", "ConfigMap")), Ok(object.clone()));
    let event = encode_event("ADDED", &object).expect("it can be encoded");
    let length = u8::try_from(bytes.len()).expect("it is short");
    // A length of four bytes; the type; an extension with the object.
    let head = [0, 0, 0, length + 11, 0x0a, 5];
    let expected = [&head[..], b"ADDED", &[0x12, length + 2, 0x0a, length], &bytes].concat();
    assert_eq!(event, expected);
}

#[test]
fn every_kind_that_a_server_has_by_default_has_a_message() {
    for version in ["1.13", "1.16", "1.20", "1.24", "1.28", "1.32", "1.36"] {
        let version = version.parse().expect("a release that kubegc knows");
        for (_, resource) in Catalog::builtin(version).iter() {
            let (api_version, kind) = (resource.api_version(), &*resource.kind);
            // One kind only lends its name to a subresource.
            let is_served = !resources::verbs(resource).is_empty();
            assert_eq!(has_message(&api_version, kind), is_served, "{api_version} {kind}");
            if resource.verbs.list {
                assert!(
                    has_message(&api_version, &format!("{kind}List")),
                    "{api_version} {kind}"
                );
            }
        }
    }
}

#[test]
fn json_shows_zero_values_only_of_pointers_and_of_fields_that_are_always_written() {
    for (object, expected) in [
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 0, "paused": false}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "status": {}, "spec": {
                "replicas": 0, "strategy": {}, "template": {"metadata": {}, "spec": {}},
            }}),
        ),
        (
            json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"targetPort": "http"}, {}]}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {}, "status": {"loadBalancer": {}},
                "spec": {"ports": [{"port": 0, "targetPort": "http"}, {"port": 0, "targetPort": 0}]},
            }),
        ),
        (
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "dryRun": []}),
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}),
        ),
    ] {
        let decoded = decode(&encode(&object).expect("it can be encoded"), ("", ""));
        assert_eq!(decoded, Ok(expected));
    }
}

#[test]
fn what_is_no_object_is_refused_with_message_and_field() {
    let map = |raw: &[u8]| envelope("v1", "ConfigMap", raw);
    let schema = Message::of("apiextensions.k8s.io/v1", "JSONSchemaProps").expect("it is in the table");
    let not = schema
        .fields()
        .iter()
        .find(|field| field.name == "not")
        .expect("it has the field");
    let deep = (0..300).fold(Vec::new(), |inner, _| {
        let mut outer = Vec::new();
        put_bytes(&mut outer, not.number, &inner);
        outer
    });
    for (body, problem) in [
        (Vec::new(), "empty data"),
        (
            b"{}".to_vec(),
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
        (PREFIX.to_vec(), "empty body"),
        (
            b"k8s\0\x12\xff\xff\xff\xff\x0f".to_vec(),
            "Unknown: the message is truncated",
        ),
        (b"k8s\0\x10\x01".to_vec(), "Unknown: wrong wire type"),
        (
            b"k8s\0\x12\0".to_vec(),
            "no kind \"\" is registered for version \"\"",
        ),
        (map(b"\x08\x01"), "ConfigMap.metadata: wrong wire type"),
        (map(b"\x0a\x02\x0a\x05"), "ObjectMeta: the message is truncated"),
        (map(b"\x0a\x01"), "ConfigMap: the message is truncated"),
        (
            map(b"\x0a\x04\x42\x02\x0a\0"),
            "ObjectMeta.creationTimestamp: wrong wire type",
        ),
        (map(b"\x12\x02\x08\x01"), "ConfigMap.data: wrong wire type"),
        (map(&[0xff; 11]), "ConfigMap: a varint has more than 10 bytes"),
        (map(b"\x07"), "ConfigMap: a field number is out of range"),
        (map(b"\x37"), "ConfigMap: a field has an unknown wire type"),
        (map(b"\x73\x73\x74"), "ConfigMap: the message is truncated"),
        (
            envelope("apps/v1", "ControllerRevision", b"\x12\x03\x0a\x01{"),
            "ControllerRevision.data: not JSON",
        ),
        (
            envelope("apiextensions.k8s.io/v1", "JSONSchemaProps", &deep),
            "JSONSchemaProps: more than 100 messages in each other",
        ),
    ] {
        let found = decode(&body, ("", "")).expect_err(problem);
        assert_eq!(found.problem, problem);
    }
    // Fields that the message does not have are skipped: a number, fixed ones, a text, nested groups.
    let unknown =
        b"\x70\x05\x71\x01\x02\x03\x04\x05\x06\x07\x08\x75\x01\x02\x03\x04\x72\x01x\x73\x70\x01\x73\x74\x74";
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    assert_eq!(decode(&map(unknown), ("", "")), Ok(expected));
}

/// Objects with the problem of encoding them.
const UNENCODABLE: &str = r#"
{"apiVersion": "example.com/v1", "kind": "Widget"} => no kind "Widget" is registered for version "example.com/v1"
{"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": 1}} => ConfigMap.data: of another type
{"apiVersion": "v1", "kind": "ConfigMap", "data": []} => ConfigMap.data: not an object
{"apiVersion": "v1", "kind": "Secret", "data": {"a": "?"}} => Secret.data: not in base64
{"apiVersion": "v1", "kind": "Pod", "metadata": "a"} => ObjectMeta: not an object
{"apiVersion": "v1", "kind": "Pod", "spec": {"priority": 5000000000}} => PodSpec.priority: not a whole number of the field's size
"#;

#[test]
fn values_of_another_type_are_not_encoded() {
    for row in UNENCODABLE.trim().lines() {
        let (object, problem) = row.split_once(" => ").expect("a problem");
        let object = serde_json::from_str(object).expect("JSON");
        assert_eq!(encode(&object), Err(problem.to_owned()));
    }
}

/// An object with a value in each field of its message.
fn filled(message: &'static Message, depth: usize) -> Map<String, Value> {
    let mut object = Map::new();
    for field in message.fields() {
        let value = value(field.ty, field.number, depth);
        let value = match (field.shape, value) {
            (Shape::One, Value::Object(embedded)) if field.name.is_empty() => {
                object.extend(embedded);
                continue;
            }
            (Shape::One, value) => value,
            (Shape::List, value) => json!([value, value]),
            (Shape::Map, value) => json!({"k": value}),
        };
        object.insert(field.name.to_owned(), value);
    }
    object
}

fn value(ty: Type, number: u32, depth: usize) -> Value {
    let at = |of: usize| number as usize % of;
    match ty {
        Type::String => ["a", "é", "x\ny"][at(3)].into(),
        Type::Bool => true.into(),
        Type::Int32 => [1, -1, i32::MAX][at(3)].into(),
        Type::Int64 => [1, -1, i64::MIN][at(3)].into(),
        Type::Double => [json!(2), json!(0.5), json!(-1e300)][at(3)].clone(),
        Type::Bytes => "AQI=".into(),
        Type::Quantity => "100m".into(),
        Type::IntOrString => [json!(80), json!(0), json!("http")][at(3)].clone(),
        Type::Time => "2026-03-01T00:00:00Z".into(),
        Type::MicroTime => "1969-12-31T23:59:59.000001Z".into(),
        Type::Strings => json!(["a", ""]),
        Type::Json => json!({"a": [1, null]}),
        Type::Message(_) if depth == 0 => json!({}),
        Type::Message(message) if message.is_choice() => {
            let field = &message.fields()[at(message.fields().len())];
            let value = value(field.ty, number, depth - 1);
            if field.shape == Shape::List {
                json!([value])
            } else {
                value
            }
        }
        Type::Message(message) => Value::Object(filled(message, depth - 1)),
    }
}

/// Whether a value has everything of another one.
fn has(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, part)| whole.get(key).is_some_and(|whole| has(whole, part))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| has(whole, part))
        }
        _ => whole == part,
    }
}

#[test]
fn all_messages_survive_a_round_trip() {
    let messages = table::MESSAGES
        .by_name
        .values()
        .flat_map(|package| package.values());
    for message in messages.filter(|message| !message.is_choice()) {
        let object = Value::Object(filled(message, 2));
        let written = |object: &Value| {
            let mut bytes = Vec::new();
            write_message(message, object, DEPTH_MAX, &mut bytes).map(|()| bytes)
        };
        let bytes = written(&object).expect("its values have the types of its fields");
        let mut read = Map::new();
        read_message(message, &bytes, DEPTH_MAX, &mut read).expect("just written");
        let read = Value::Object(read);
        assert!(
            has(&read, &object),
            "{}: {read} lacks some of {object}",
            message.name
        );
        assert_eq!(written(&read), Ok(bytes), "{}", message.name);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(
        raw in proptest::collection::vec(any::<u8>(), 0..60), cut in 0_usize..90,
    ) {
        for (api_version, kind) in [("v1", "Pod"), ("apiextensions.k8s.io/v1", "JSONSchemaProps")] {
            if let Ok(object) = decode(&envelope(api_version, kind, &raw), ("", "")) {
                let bytes = encode(&object).expect("just decoded");
                let again = decode(&bytes, ("", "")).expect("just encoded");
                prop_assert!(has(&again, &object), "{} lacks some of {}", again, object);
                prop_assert_eq!(encode(&again), Ok(bytes));
            }
        }
        let (_, bytes) = config_map();
        let _decoded_or_refused = decode(&bytes[..cut.min(bytes.len())], ("", ""));
    }
}
