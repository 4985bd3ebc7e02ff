//! Laws: order changes nothing, no bytes panic, every truncation is detected.

use std::io::{self, Read};

use proptest::prelude::*;

use kubegc_snapshot::Snapshot;

use crate::common::{bytes, read, reader, render};
use crate::pack::{gzip, tar, zip};

/// The facts that must not depend on the order of documents.
fn contents(snapshot: &Snapshot) -> (String, String) {
    let complete: Vec<String> = snapshot
        .completeness
        .iter()
        .map(|(kind, coverage)| format!("{kind} {coverage:?}"))
        .collect();
    (
        render(snapshot),
        format!("{:?} {complete:?}", snapshot.finding_counts),
    )
}

/// An input that gives at most this many bytes at a time.
struct Steps<'t>(&'t [u8], usize);

impl Read for Steps<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let step = buffer.len().min(self.1);
        self.0.read(&mut buffer[..step])
    }
}

fn documents() -> Vec<String> {
    let text = String::from_utf8(bytes("stream.json")).expect("text");
    let mut documents: Vec<String> = text.lines().map(str::to_owned).collect();
    // Other states of the same objects, one newer, one that cannot be ordered, one equal.
    documents.push(
        documents[4]
            .replace("\"103\"", "\"120\"")
            .replace("Running", "Failed"),
    );
    documents.push(documents[5].replace("example.com/hold", "example.com/other"));
    documents.push(documents[2].clone());
    documents.push(documents[2].replace("\"101\"", "\"x\""));
    documents.push(
        documents[7]
            .replace("\"node-1\"", "\"node-2\"")
            .replace("000008", "000007"),
    );
    documents
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_order_of_documents_changes_nothing(order in Just(documents()).prop_shuffle(), cut in 0_usize..13) {
        let plain = read("f", documents().join("\n").as_bytes()).expect("documents");
        let mut reader = reader();
        let (one, two) = order.split_at(cut.min(order.len()));
        for part in [one, two] {
            if !part.is_empty() {
                reader.read("g", part.join("\n---\n").as_bytes()).expect("documents");
            }
        }
        prop_assert_eq!(contents(&reader.finish().expect("read")), contents(&plain));
    }

    #[test]
    fn no_bytes_panic(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        for lenient in [false, true] {
            let mut reader = reader().lenient(lenient);
            let read = reader.read("f", noise.as_slice());
            prop_assert!(!lenient || read.is_ok());
            prop_assert_eq!(reader.finish().is_ok(), read.is_ok());
        }
    }

    #[test]
    fn damaged_input_does_not_panic(name in prop::sample::select(vec!["list.json", "list.yaml", "stream.yaml", "pods-raw.json"]),
            at in any::<prop::sample::Index>(), with in any::<u8>(), drop in 0_usize..40) {
        let mut text = bytes(name);
        let at = at.index(text.len());
        let end = (at + drop).min(text.len());
        text.splice(at..end, [with]);
        for lenient in [false, true] {
            let mut reader = reader().lenient(lenient);
            let read = reader.read("f", text.as_slice());
            prop_assert_eq!(reader.finish().is_ok(), read.is_ok());
        }
    }

    // A NUL is left out: it makes an input binary if the first read shows it.
    #[test]
    fn the_sizes_of_reads_change_nothing(name in prop::sample::select(vec!["list.json", "stream.json", "pods-raw.json"]),
            at in any::<prop::sample::Index>(), with in 1..=u8::MAX, drop in 0_usize..3, step in 1_usize..2_000) {
        let mut text = bytes(name);
        let at = at.index(text.len());
        let end = (at + drop).min(text.len());
        text.splice(at..end, [with]);
        for lenient in [false, true] {
            let read = |input: &mut dyn Read| {
                let mut reader = reader().lenient(lenient);
                let read = reader.read("f", input).map(|()| reader.finish());
                match read.and_then(|snapshot| snapshot) {
                    Ok(snapshot) => format!("{:?} {:?}", contents(&snapshot), snapshot.findings),
                    Err(error) => error.full_text(),
                }
            };
            prop_assert_eq!(read(&mut Steps(&text, step)), read(&mut text.as_slice()));
        }
    }

    #[test]
    fn damaged_archives_do_not_panic(kind in 0_usize..4, at in any::<prop::sample::Index>(), with in any::<u8>(), drop in 0_usize..40) {
        let mut packed = packed().swap_remove(kind).1;
        let at = at.index(packed.len());
        let end = (at + drop).min(packed.len());
        packed.splice(at..end, [with]);
        for lenient in [false, true] {
            let mut reader = reader().lenient(lenient);
            let read = reader.read("f", packed.as_slice());
            prop_assert!(!lenient || read.is_ok());
            prop_assert_eq!(reader.finish().is_ok(), read.is_ok());
        }
    }

    #[test]
    fn random_tokens_do_not_panic(words in prop::collection::vec(prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"items\"", "\"kind\"", "\"PodList\"", "\"List\"", "\"apiVersion\"", "\"v1\"", "\"metadata\"", "\"name\"", "null",
        "\"Items\"", "==== START logs for a ====\n", "==== END logs for a ====", "error: x", "Server Version: ", "items:", "\n", "\n- ", "\n  - ", "\n---\n", "kind: List", "apiVersion: v1", "metadata:", "  name: a", "  uid: b", "&a", "*a", "\\", "\"", "7",
    ]), 0..40)) {
        let text = words.concat();
        let mut reader = reader().lenient(true);
        prop_assert!(reader.read("f", text.as_bytes()).is_ok());
        prop_assert!(reader.finish().is_ok());
    }
}

#[test]
fn a_truncated_dump_is_an_error_or_a_finding() {
    // Every byte of the small ones; the large one is the first in another format.
    for (name, step) in [("list.json", 13), ("list.yaml", 1), ("pods-raw.json", 1)] {
        let text = bytes(name);
        let whole = render(&read(name, &text).expect(name));
        for end in (0..text.len()).step_by(step) {
            match read(name, &text[..end]) {
                Err(error) => assert!(!error.full_text().is_empty()),
                Ok(snapshot) if snapshot.finding_counts.is_empty() => {
                    assert_eq!(render(&snapshot), whole, "{name} cut at {end}");
                }
                // Found: nothing of it may count as complete.
                Ok(snapshot) => assert!(!snapshot.findings.is_empty(), "{name} cut at {end}"),
            }
            let mut lenient = reader().lenient(true).complete("all");
            lenient.read(name, &text[..end]).expect("lenient");
            let Ok(snapshot) = lenient.finish() else {
                panic!("{name} cut at {end}: lenient reading always returns a snapshot");
            };
            if render(&snapshot) != whole {
                let complete = snapshot.completeness.of("", "Pod").is_complete()
                    && snapshot.find("", "Pod", "shop", "web-7d9f8b6c5d-x2x4z").is_none();
                assert!(!complete, "{name} cut at {end}: a pod is missing and not unknown");
            }
        }
    }
}

#[test]
fn what_is_not_text_outside_of_items_is_in_the_line_of_the_end_of_a_list() {
    let text = b"{\"items\": [],\n\"kind\": \"\x80\"\n}\n\n";
    for step in [1, text.len()] {
        let error = reader().read("f", Steps(text, step)).expect_err("not UTF-8");
        assert_eq!(error.full_text(), "f, document 1: line 3: not text: not UTF-8");
    }
}

/// The same objects in each container.
fn packed() -> Vec<(&'static str, Vec<u8>)> {
    let (list, stream) = (bytes("list.json"), bytes("stream.yaml"));
    let members: &[(&str, &[u8])] = &[("a/list.json", &list), ("b/stream.yaml", &stream)];
    vec![
        ("tar", tar(members)),
        ("tar.gz", gzip(&tar(members))),
        ("zip", zip(members)),
        ("gzip", gzip(&stream)),
    ]
}

#[test]
fn a_truncated_archive_is_an_error_or_a_finding() {
    for (name, packed) in packed() {
        read(name, &packed).expect(name);
        for end in (0..packed.len()).step_by(7) {
            // The padding behind the end mark of a tar archive may be missing.
            if let Ok(snapshot) = read(name, &packed[..end]) {
                assert!(name == "tar" && end >= packed.len() - 512, "{name} cut at {end}");
                assert_eq!(render(&snapshot), render(&read(name, &packed).expect(name)));
            }
        }
    }
}

#[test]
fn truncated_single_yaml_objects_are_reported() {
    let text = bytes(
        "must-gather/quay-io-one/namespaces/shop/core/../pods/web-7d9f8b6c5d-x2x4z/web-7d9f8b6c5d-x2x4z.yaml",
    );
    let whole = render(&read("pod", &text).expect("a pod"));
    for end in 0..text.len() {
        if let Ok(snapshot) = read("pod", &text[..end]) {
            assert!(
                !snapshot.finding_counts.is_empty() || render(&snapshot) == whole,
                "cut at {end}"
            );
        }
    }
}
