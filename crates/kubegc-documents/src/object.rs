//! Reads one object of JSON, with `serde_json`.

use std::str;

use serde::de::{DeserializeSeed, IgnoredAny};
use serde_json::de::Read;

use crate::item::{Item, ItemSeed};

/// Reads an object that is the whole text. After an error the item has the fields that were read before it.
pub fn whole_object<'t>(
    text: &'t str,
    hint: Option<(&str, &str)>,
) -> (Item<'t>, Result<(), serde_json::Error>) {
    let mut parser = serde_json::Deserializer::from_str(text);
    let (item, read) = read(&mut parser, hint);
    if item.is_misled() {
        return whole_object(text, None);
    }
    (item, read.and_then(|()| parser.end()))
}

/// Reads the object at the beginning of some bytes, as [`whole_object`] reads its text. Returns it with its
/// text; `None` if it is not valid, or not all of it is there.
pub fn first_object<'t>(bytes: &'t [u8], hint: Option<(&str, &str)>) -> Option<(Item<'t>, &'t str)> {
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let (item, read) = read(&mut parser, hint);
    read.ok()?;
    let length = parser.into_iter::<IgnoredAny>().byte_offset();
    // The parser does not check strings that are not read.
    let text = str::from_utf8(&bytes[..length]).ok()?;
    if item.is_misled() {
        return first_object(bytes, None);
    }
    Some((item, text))
}

fn read<'t, R: Read<'t>>(
    parser: &mut serde_json::Deserializer<R>,
    hint: Option<(&str, &str)>,
) -> (Item<'t>, Result<(), serde_json::Error>) {
    let mut item = Item::default();
    let seed = ItemSeed {
        item: &mut item,
        hint,
    };
    let read = seed.deserialize(parser);
    (item, read)
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::Index};

    use super::*;

    /// Objects of several kinds, with what makes the readers of a pod read more of it.
    const OBJECTS: [&str; 7] = [
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop","uid":"1","labels":{"app":"web"}},
            "spec":{"nodeName":"n","containers":[{"name":"c","env":[{"valueFrom":{"secretKeyRef":{"name":"s"}}}]}]},
            "status":{"phase":"Running","containerStatuses":[{"restartCount":2,"state":{"waiting":{}}}]}}"#,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"},
            "spec":{"containers":[{"args":["\u0041\n\"","\\"],"ports":[{"containerPort":80,"x":-1.5e3}]}],"volumes":[]},
            "status":{"conditions":[{"type":"DisruptionTarget","status":"True","message":"say \"no\""}]}}"#,
        r#"{"metadata":{"name":"é","annotations":{"k":"{\"a\":[1]}","pv.kubernetes.io/migrated-to":"x"},
            "managedFields":[{"fieldsV1":{"f:a":{}}}]},"spec":{"containers":[null,true,{}]},"items":[]}"#,
        r#"{"spec":{"replicas":3,"template":{"spec":{"restartPolicy":"Always","x":[0,0.5,-7]}}},"kind":"Deployment",
            "apiVersion":"apps/v1","metadata":{"name":"d","generation":18446744073709551615,
            "ownerReferences":[{"uid":"u","controller":true,"blockOwnerDeletion":null}]}}"#,
        r#"{"apiVersion":"v1","data":{"a":"YQ=="},"kind":"Secret","metadata":{"name":"s","finalizers":["f",1]},"type":"Opaque"}"#,
        r#"{"status":{"phase":"Running"},"spec":{"nodeName":"n"},"metadata":{"name":"late"},"kind":"Pod","apiVersion":"v1"}"#,
        r#"{"apiVersion":"apps/v1","spec":{"template":{"spec":{}}},"metadata":{"name":"d"},"kind":"Deployment"}"#,
    ];
    const HINTS: [Option<(&str, &str)>; 3] = [None, Some(("v1", "Pod")), Some(("apps/v1", "Deployment"))];

    /// Pieces to put into an object, separated by spaces.
    const DAMAGE: &[u8] = b"} ] { [ , : \" \\ \\u00 0 - e \t \n \x01 \xc3 \xff \xc3\xa9 null 1e999 {}, secretRef \"spec\":1, \"kind\":\"Pod\", ";

    fn damage() -> Vec<&'static [u8]> {
        DAMAGE.split(|byte| *byte == b' ').collect()
    }

    #[test]
    fn an_object_reads_alike_alone_and_before_other_bytes() {
        for object in OBJECTS {
            let followed = format!("{object},");
            for hint in HINTS {
                let (item, text) = first_object(followed.as_bytes(), hint).expect(object);
                let (expected, parsed) = whole_object(object, hint);
                parsed.expect(object);
                assert_eq!((format!("{item:?}"), text), (format!("{expected:?}"), object));
                if !item.kind_str().is_empty() {
                    let (alone, _) = whole_object(object, None);
                    assert_eq!(
                        format!("{item:?}"),
                        format!("{alone:?}"),
                        "with the hint {hint:?}"
                    );
                }
            }
            for end in 0..object.len() {
                assert!(
                    first_object(&object.as_bytes()[..end], None).is_none(),
                    "{object} cut at {end}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

        #[test]
        fn a_damaged_object_is_read_as_its_text_or_not_at_all(object in prop::sample::select(&OBJECTS[..]),
                hint in prop::sample::select(&HINTS[..]), at in any::<Index>(), dropped in 0_usize..3,
                with in prop::sample::select(damage())) {
            let mut bytes = object.as_bytes().to_vec();
            let at = at.index(bytes.len());
            let end = (at + dropped).min(bytes.len());
            bytes.splice(at..end, with.iter().copied());
            if let Some((item, text)) = first_object(&bytes, hint) {
                let (expected, parsed) = whole_object(text, hint);
                prop_assert!(parsed.is_ok(), "{}: {:?}", text, parsed);
                if !item.kind_str().is_empty() {
                    let (alone, _) = whole_object(text, None);
                    prop_assert_eq!(format!("{item:?}"), format!("{alone:?}"), "the hint matters");
                }
                prop_assert_eq!(format!("{item:?}"), format!("{expected:?}"));
            }
        }
    }
}
