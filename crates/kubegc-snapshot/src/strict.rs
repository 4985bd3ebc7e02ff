//! Reads one object of JSON, with the fast parser if it accepts the text.

use serde::de::DeserializeSeed;

use crate::{
    item::{Item, ItemSeed},
    json,
    mentions::Mentions,
};

/// Reads an object strictly; the error contains the part that was read.
pub(crate) fn strict<'t>(
    text: &'t str,
    hint: Option<(&str, &str)>,
) -> (Item<'t>, Result<(), serde_json::Error>) {
    match plain(text.as_bytes(), true, hint) {
        Some((item, read)) if text[read.len()..].trim_matches(SPACE).is_empty() => (item, Ok(())),
        _ => exact(text, hint),
    }
}

/// Reads an object as `serde_json` does.
fn exact<'t>(text: &'t str, hint: Option<(&str, &str)>) -> (Item<'t>, Result<(), serde_json::Error>) {
    let mut item = Item::default();
    let mut parser = serde_json::Deserializer::from_str(text);
    let seed = ItemSeed {
        item: &mut item,
        text: Some(text.as_bytes()),
        hint,
    };
    let parsed = seed.deserialize(&mut parser).and_then(|()| parser.end());
    if item.depends_on_hint && !item.kind_str().is_empty() {
        return exact(text, None);
    }
    item.search_mentions(text.as_bytes());
    (item, parsed)
}

/// Reads the object at the beginning of some bytes, as [`exact`] reads its text; `None` if only that can.
/// `is_text`: whether the bytes end with it.
pub(crate) fn plain<'t>(
    bytes: &'t [u8],
    is_text: bool,
    hint: Option<(&str, &str)>,
) -> Option<(Item<'t>, &'t [u8])> {
    let parse = |mentions| {
        let mut item = Item {
            mentions,
            ..Item::default()
        };
        let mut parser = json::Parser::new(bytes);
        let seed = ItemSeed {
            item: &mut item,
            text: is_text.then_some(bytes),
            hint,
        };
        seed.deserialize(&mut parser).ok()?;
        let length = bytes.len() - parser.rest().len();
        Some((item, &bytes[..length]))
    };
    // A text cannot be searched before its end is known. Most pods mention none of the names.
    let (mut item, text) = parse(Mentions::NONE)?;
    if item.depends_on_hint && !item.kind_str().is_empty() {
        return plain(bytes, is_text, None);
    }
    let assumed = item.mentions;
    item.search_mentions(text);
    if item.depends_on_mentions && item.mentions != assumed {
        return parse(item.mentions);
    }
    Some((item, text))
}

/// White space between the tokens of JSON.
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::Index};

    use super::*;

    /// Objects of several kinds, with what makes the readers of a pod read more of it.
    const OBJECTS: [&str; 6] = [
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
    ];
    const HINTS: [Option<(&str, &str)>; 3] = [None, Some(("v1", "Pod")), Some(("apps/v1", "Deployment"))];

    /// What is put into an object, separated by spaces.
    const DAMAGE: &[u8] = b"} ] { [ , : \" \\ \\u00 0 - e \t \n \x01 \xc3 \xff \xc3\xa9 null 1e999 {}, secretRef \"spec\":1, \"kind\":\"Pod\", ";

    fn damage() -> Vec<&'static [u8]> {
        DAMAGE.split(|byte| *byte == b' ').collect()
    }

    #[test]
    fn objects_are_plain_and_read_as_serde_json_reads_them() {
        for object in OBJECTS {
            let followed = format!("{object},");
            for hint in HINTS {
                let (item, text) = plain(followed.as_bytes(), false, hint).expect(object);
                let (whole, _) = plain(object.as_bytes(), true, hint).expect(object);
                let (expected, parsed) = exact(object, hint);
                parsed.expect(object);
                assert_eq!(format!("{whole:?}"), format!("{expected:?}"));
                assert_eq!(
                    (format!("{item:?}"), text),
                    (format!("{expected:?}"), object.as_bytes())
                );
            }
            for end in 0..object.len() {
                assert!(
                    plain(&object.as_bytes()[..end], false, None).is_none(),
                    "{object} cut at {end}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

        #[test]
        fn a_damaged_object_is_read_as_serde_json_reads_it_or_left_to_it(object in prop::sample::select(&OBJECTS[..]),
                hint in prop::sample::select(&HINTS[..]), at in any::<Index>(), dropped in 0_usize..3,
                with in prop::sample::select(damage())) {
            let mut bytes = object.as_bytes().to_vec();
            let at = at.index(bytes.len());
            let end = (at + dropped).min(bytes.len());
            bytes.splice(at..end, with.iter().copied());
            if let Some((item, text)) = plain(&bytes, false, hint) {
                let text = str::from_utf8(text).expect("the parser checks it");
                let (expected, parsed) = exact(text, hint);
                prop_assert!(parsed.is_ok(), "{}: {:?}", text, parsed);
                prop_assert_eq!(format!("{item:?}"), format!("{expected:?}"));
            }
        }
    }
}
