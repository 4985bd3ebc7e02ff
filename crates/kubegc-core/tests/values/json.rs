//! Fields that may have wrong types.

use std::borrow::Cow;

use kubegc_core::{
    ObjectMeta, OwnerReference, Timestamp, Uid,
    json::{JsonType, Labels, MetaFields, Soft, Text, WrongType},
};
use serde::{
    Deserialize, Deserializer,
    de::{
        IntoDeserializer, Visitor,
        value::{
            BytesDeserializer, Error, I64Deserializer, I128Deserializer, StringDeserializer, U64Deserializer,
            U128Deserializer, UnitDeserializer,
        },
    },
    forward_to_deserialize_any,
};

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> T {
    serde_json::from_str(text).expect("valid JSON")
}

/// The JSON of a value.
fn written<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("keys are texts")
}

#[test]
fn a_value_has_the_type_or_names_its_own() {
    use JsonType::{Boolean, List, Map, Null, Number, String};
    for (text, found, number) in [
        ("7", Number, Some(7)),
        ("-7", Number, Some(-7)),
        ("0", Number, Some(0)),
        ("9223372036854775807", Number, Some(i64::MAX)),
        ("9223372036854775808", Number, None),
        ("99999999999999999999999", Number, None),
        ("1.0", Number, None),
        ("\"7\"", String, None),
        ("\"\\u0037\"", String, None),
        ("[7, {\"a\": []}]", List, None),
        ("{\"a\": 7}", Map, None),
        ("false", Boolean, None),
    ] {
        let expected = number.map_or(Soft::Wrong(found), Soft::Is);
        assert_eq!(read::<Soft<i64>>(text), expected, "{text}");
        if found != Boolean {
            assert_eq!(read::<Soft<bool>>(text), Soft::Wrong(found), "{text}");
        }
        if found != String {
            assert_eq!(read::<Soft<Text<'_>>>(text), Soft::Wrong(found), "{text}");
        }
        let map = if found == Map {
            Soft::Is(Labels(vec![(Text("a".into()), Soft::Wrong(Number))]))
        } else {
            Soft::Wrong(found)
        };
        assert_eq!(read::<Soft<Labels<'_>>>(text), map, "{text}");
        if found != List {
            assert_eq!(read::<Soft<Vec<Soft<i64>>>>(text), Soft::Wrong(found), "{text}");
        }
    }
    assert_eq!(read::<Soft<i64>>("null"), Soft::Absent);
    assert_eq!(
        (read::<Soft<bool>>("true"), read::<Soft<bool>>("false")),
        (Soft::Is(true), Soft::Is(false))
    );
    let list = vec![Soft::Is(1), Soft::Absent, Soft::Wrong(String)];
    assert_eq!(read::<Soft<Vec<Soft<i64>>>>("[1, null, \"a\"]"), Soft::Is(list));
    let names = [Null, Boolean, Number, String, List, Map].map(JsonType::name);
    assert_eq!(
        names,
        ["null", "a boolean", "a number", "a string", "a list", "a map"]
    );
}

#[test]
fn values_come_from_other_formats_too() {
    let number: Soft<i64> = Deserialize::deserialize(U64Deserializer::<Error>::new(7)).expect("a number");
    assert_eq!(number, Soft::Is(7));
    let large: Soft<i64> = Deserialize::deserialize(U64Deserializer::<Error>::new(u64::MAX)).expect("read");
    assert_eq!(large, Soft::Wrong(JsonType::Number));
    let negative: Soft<i64> = Deserialize::deserialize(I64Deserializer::<Error>::new(-7)).expect("a number");
    assert_eq!(negative, Soft::Is(-7));
    let owned: StringDeserializer<Error> = "a".to_owned().into_deserializer();
    let text: Soft<Text<'_>> = Deserialize::deserialize(owned).expect("a text");
    assert_eq!(text.as_str(), "a");
    let option = serde_json::from_str::<Option<Soft<i64>>>("7").expect("valid JSON");
    assert_eq!(option, Some(Soft::Is(7)));
    let owned: StringDeserializer<Error> = "a".to_owned().into_deserializer();
    assert_eq!(Text::deserialize(owned), Ok(Text("a".into())));
    let wide = I128Deserializer::<Error>::new(7);
    assert_eq!(Soft::<i64>::deserialize(wide), Ok(Soft::Wrong(JsonType::Number)));
    let wide = U128Deserializer::<Error>::new(7);
    assert_eq!(Soft::<i64>::deserialize(wide), Ok(Soft::Wrong(JsonType::Number)));
    let absent = UnitDeserializer::<Error>::new();
    assert_eq!(Soft::<i64>::deserialize(absent), Ok(Soft::Absent));
    for (optional, expected) in [(None, Soft::Absent), (Some(7), Soft::Is(7))] {
        assert_eq!(Soft::<i64>::deserialize(Optional(optional)), Ok(expected));
    }
    let bytes = Soft::<i64>::deserialize(BytesDeserializer::<Error>::new(b"a"));
    assert_eq!(
        bytes.expect_err("no format of Kubernetes has bytes").to_string(),
        "invalid type: byte array, expected a whole number"
    );
    let error = serde_json::from_str::<Text<'_>>("true").expect_err("not a text");
    assert_eq!(
        error.to_string(),
        "invalid type: boolean `true`, expected a string at line 1 column 4"
    );
}

/// A value of a format that marks optional values.
struct Optional(Option<i64>);

impl<'de> Deserializer<'de> for Optional {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            None => visitor.visit_none(),
            Some(number) => visitor.visit_some(I64Deserializer::new(number)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[test]
fn uids_and_times_are_texts_in_json() {
    let uuid = "0b5f9a3e-58a1-4b0e-9f0a-7c2d4e6f8a9b";
    for text in [uuid, "u1", ""] {
        assert_eq!(written(&Uid::new(text)), format!("{text:?}"));
        assert_eq!(read::<Uid>(&format!("{text:?}")), Uid::new(text));
    }
    let second = Timestamp::from_secs(1);
    assert_eq!(written(&second), "\"1970-01-01T00:00:01Z\"");
    assert_eq!(read::<Timestamp>("\"1970-01-01T00:00:01Z\""), second);
    let error = serde_json::from_str::<Timestamp>("\"soon\"").expect_err("not a date");
    assert!(error.to_string().contains("not an RFC 3339 date"), "{error}");
}

#[test]
fn texts_are_borrowed_unless_they_have_escapes() {
    let Text(plain) = read::<Text<'_>>("\"web\"");
    assert!(matches!(plain, Cow::Borrowed("web")));
    let Text(escaped) = read::<Text<'_>>("\"w\\u0065b\"");
    assert!(matches!(escaped, Cow::Owned(ref text) if text == "web"));
    assert!(serde_json::from_str::<Text<'_>>("7").is_err());
    let soft = read::<Soft<Text<'_>>>("\"web\"");
    assert_eq!(soft.as_str(), "web");
    let wrong = read::<Soft<Text<'_>>>("7");
    assert_eq!(
        (wrong.as_str(), wrong.is_absent(), wrong.get()),
        ("", false, None)
    );
    assert!(Soft::<Text<'_>>::Absent.is_absent());
    let meta = read::<Soft<MetaFields<'_>>>(r#"{"name": "web"}"#);
    assert_eq!(meta.get().map(|meta| meta.name.as_str()), Some("web"));
    let wrong = read::<Soft<MetaFields<'_>>>("[]");
    assert!(matches!(wrong, Soft::Wrong(JsonType::List)));
}

#[test]
fn labels_have_their_order_and_no_key_twice() {
    let Soft::Is(labels) = read::<Soft<Labels<'_>>>(r#"{"b": "1", "a": null, "c": 3}"#) else {
        panic!("a map");
    };
    let keys: Vec<&str> = labels.0.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["b", "a", "c"]);
    assert_eq!(labels.0[2].1, Soft::Wrong(JsonType::Number));
    for count in [2, 15, 16, 17, 18, 40] {
        let keys = |last: usize| {
            let keys = (0..count - 1).chain([last]).map(|key| format!(r#""{key}":"v""#));
            format!("{{{}}}", keys.collect::<Vec<_>>().join(","))
        };
        assert!(
            serde_json::from_str::<Soft<Labels<'_>>>(&keys(count)).is_ok(),
            "{count}"
        );
        for same in [0, (count - 2) / 2, count - 2] {
            assert!(
                serde_json::from_str::<Soft<Labels<'_>>>(&keys(same)).is_err(),
                "{count}, {same}"
            );
        }
    }
}

#[test]
fn all_fields_of_metadata_are_read() {
    let fields: MetaFields<'_, HasAnnotations> = read(
        r#"{"namespace": "shop", "name": "web", "uid": "u1", "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "1970-01-01T00:00:01Z", "deletionTimestamp": "1970-01-01T00:00:02Z",
            "deletionGracePeriodSeconds": 30, "finalizers": ["a", "b"], "labels": {"k": "v", "none": null},
            "annotations": {"x": "y"}, "managedFields": [1],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "o",
                "controller": true, "blockOwnerDeletion": false}]}"#,
    );
    assert!(fields.wrong().is_empty());
    assert!(fields.annotations.0);
    let mut shared = Vec::new();
    let meta = fields.to_meta(|text| {
        shared.push(text.to_owned());
        text.into()
    });
    let mut expected = ObjectMeta::new("shop", "web", "u1");
    expected.resource_version = "7".into();
    expected.generation = 2;
    expected.creation_timestamp = Some(Timestamp::from_secs(1));
    expected.deletion_timestamp = Some(Timestamp::from_secs(2));
    expected.deletion_grace_period_seconds = Some(30);
    expected.finalizers = vec!["a".into(), "b".into()];
    expected.labels = [("k", "v"), ("none", "")]
        .map(|(key, value)| (key.into(), value.into()))
        .into();
    expected.owner_references.push(OwnerReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: "p".into(),
        uid: Uid::new("o"),
        controller: Some(true),
        block_owner_deletion: Some(false),
    });
    assert_eq!(meta, Ok(expected));
    shared.sort_unstable();
    assert_eq!(shared, ["Pod", "a", "b", "k", "none", "shop", "v1"]);
    let empty = read::<MetaFields<'_>>("{}").to_meta(|text| text.into());
    assert_eq!(empty, Ok(ObjectMeta::new("", "", "")));
    let soon = read::<MetaFields<'_>>(r#"{"creationTimestamp": "soon"}"#).to_meta(|text| text.into());
    assert_eq!(soon.expect_err("no date").field(), "metadata.creationTimestamp");
    let soon = read::<MetaFields<'_>>(r#"{"deletionTimestamp": "soon"}"#).to_meta(|text| text.into());
    assert_eq!(
        soon.expect_err("no date").to_string(),
        "metadata.deletionTimestamp: Invalid value: \"soon\": must be an RFC 3339 date"
    );
    let partial = read::<MetaFields<'_>>(r#"{"finalizers": ["orphan", 1]}"#).to_meta(|text| text.into());
    assert_eq!(partial.expect("no date is wrong").finalizers, ["orphan".into()]);
}

/// Whether the metadata has annotations.
#[derive(Default)]
struct HasAnnotations(bool);

impl<'de> Deserialize<'de> for HasAnnotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Soft::<Labels<'de>>::deserialize(deserializer).map(|map| Self(map.get().is_some()))
    }
}

#[test]
fn a_wrong_type_has_a_field_and_a_problem() {
    let wrong = WrongType::of(&Soft::<bool>::Wrong(JsonType::List), "spec.a").expect("it is wrong");
    assert_eq!(wrong.problem(), "expected true or false, found a list");
    assert_eq!(wrong.to_string(), "spec.a: expected true or false, found a list");
    assert_eq!(WrongType::of(&Soft::<bool>::Absent, "spec.a"), None);
    assert_eq!(WrongType::of(&Soft::Is(true), "spec.a"), None);
}

#[test]
fn each_value_of_a_wrong_type_is_named() {
    let fields: MetaFields<'_> = read(
        r#"{"namespace": 1, "name": 1, "uid": 1, "resourceVersion": 1, "generation": 1.5,
            "creationTimestamp": 1, "deletionTimestamp": [], "deletionGracePeriodSeconds": "1",
            "finalizers": ["a", 2, null], "labels": {"a": null, "b": {}},
            "ownerReferences": [{"apiVersion": 1, "kind": 1, "name": 1, "uid": true, "controller": "yes",
                "blockOwnerDeletion": 1}, "web", null]}"#,
    );
    let lines: Vec<String> = fields.wrong().iter().map(|wrong| format!("{wrong}\n")).collect();
    let expected = "\
metadata.namespace: expected a string, found a number
metadata.name: expected a string, found a number
metadata.uid: expected a string, found a number
metadata.resourceVersion: expected a string, found a number
metadata.creationTimestamp: expected a string, found a number
metadata.deletionTimestamp: expected a string, found a list
metadata.generation: expected a whole number, found a number
metadata.deletionGracePeriodSeconds: expected a whole number, found a string
metadata.finalizers[1]: expected a string, found a number
metadata.finalizers[2]: expected a string, found null
metadata.ownerReferences[0].apiVersion: expected a string, found a number
metadata.ownerReferences[0].kind: expected a string, found a number
metadata.ownerReferences[0].name: expected a string, found a number
metadata.ownerReferences[0].uid: expected a string, found a boolean
metadata.ownerReferences[0].controller: expected true or false, found a string
metadata.ownerReferences[0].blockOwnerDeletion: expected true or false, found a number
metadata.ownerReferences[1]: expected a map, found a string
metadata.ownerReferences[2]: expected a map, found null
metadata.labels[b]: expected a string, found a map
";
    assert_eq!(lines.concat(), expected);
    let fields = read::<MetaFields<'_>>(r#"{"finalizers": {}, "labels": [], "ownerReferences": "x"}"#);
    assert_eq!(fields.wrong().len(), 3);
    let fields = read::<MetaFields<'_>>(r#"{"name": "a", "uid": null, "finalizers": null, "labels": null}"#);
    assert!(fields.wrong().is_empty());
}
