//! Large inputs with small limits: one object is in memory at a time, and limits cause clear errors.

use std::{
    io::{self, Read},
    iter,
};

use kubegc_snapshot::{Reader, Snapshot, SnapshotError};

use crate::common::{reader, render};

/// A stream made while it is read: a head, `count` times the middle, a tail. It counts the requested bytes.
struct Made<'a> {
    texts: Box<dyn Iterator<Item = String> + 'a>,
    left: Vec<u8>,
    given: &'a mut u64,
}

impl<'a> Made<'a> {
    fn new(head: &'a str, middle: fn(u64) -> String, count: u64, tail: &'a str, given: &'a mut u64) -> Self {
        let middles = (0..count).map(middle);
        let texts = iter::once(head.to_owned())
            .chain(middles)
            .chain(iter::once(tail.to_owned()));
        Made {
            texts: Box::new(texts),
            left: Vec::new(),
            given,
        }
    }
}

impl Read for Made<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() {
            let Some(text) = self.texts.next() else {
                return Ok(0);
            };
            self.left = text.into_bytes();
        }
        let count = self.left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.left[..count]);
        self.left.drain(..count);
        *self.given += count as u64;
        Ok(count)
    }
}

fn pod(number: u64) -> String {
    let comma = if number == 0 { "" } else { "," };
    format!(
        "{comma}\n{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"p{number}\",\"namespace\":\"n{}\",\"uid\":\"{number}\",\
         \"labels\":{{\"app\":\"web\"}}}},\"spec\":{{\"text\":\"{}\"}},\"status\":{{\"phase\":\"Running\"}}}}",
        number % 7,
        "]}\\\"".repeat(200)
    )
}

fn yaml_pod(number: u64) -> String {
    format!(
        "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p{number}\n    namespace: n{}\n    uid: \"{number}\"\n    labels:\n      app: web\n  spec: {{}}\n  status:\n    phase: Running\n",
        number % 7
    )
}

/// Reads with room for 64 kB, so that anything kept beyond one object would be refused.
fn read(made: Made<'_>) -> Result<Snapshot, SnapshotError> {
    let mut reader: Reader = reader().object_bytes_max(64 * 1024);
    reader.read("made", made)?;
    reader.finish()
}

#[test]
fn lists_far_beyond_the_limit_of_an_object_are_read() {
    let mut given = 0;
    let json = Made::new(
        "{\"apiVersion\":\"v1\",\"items\":[",
        pod,
        3_000,
        "],\"kind\":\"List\"}",
        &mut given,
    );
    let json = read(json).expect("a list");
    assert_eq!(json.len(), 3_000);
    assert!(given > 2_000_000);
    let mut given = 0;
    let yaml = Made::new(
        "apiVersion: v1\nitems:\n",
        yaml_pod,
        3_000,
        "kind: List\n",
        &mut given,
    );
    let yaml = read(yaml).expect("a list");
    assert!(given > 400_000);
    assert_eq!(render(&yaml), render(&json));
}

#[test]
fn input_beyond_the_limit_is_refused_before_it_is_read() {
    let long = |_| "x".repeat(10_000);
    let spaces = |_| " ".repeat(10_000);
    let members = |number| format!("\"m{number}\":\"{}\",", "x".repeat(10_000));
    type Middle = fn(u64) -> String;
    let cases: [(&str, &str, Middle, &str); 7] = [
        (
            "a string in an item",
            "{\"items\":[{},{\"a\":\"",
            long,
            "made, document 1, items[1]: line 1",
        ),
        (
            "a word in an item",
            "{\"items\":[",
            long,
            "made, document 1, items[0]: line 1",
        ),
        (
            "a document",
            "{\"kind\":\"Pod\",",
            members,
            "made, document 1: line 1",
        ),
        (
            "outside the items",
            "{\"items\":[],\n",
            members,
            "made, document 1, items[0]: line ",
        ),
        ("a line of garbage", "x", long, "made, document 1: line 1"),
        (
            "a line in a list",
            "kind: List\nitems:\n- kind: Pod\n- ",
            long,
            "made, document 1, items[0]: line 3",
        ),
        ("space", "\n\n", spaces, "made, document 1: line 1"),
    ];
    for (name, head, middle, expected) in cases {
        let mut given = 0;
        let error = read(Made::new(head, middle, 100_000, "", &mut given)).expect_err(name);
        assert!(error.to_string().starts_with(expected), "{name}: {error}");
        assert!(
            error
                .to_string()
                .ends_with("larger than the limit of 65536 bytes for one object"),
            "{name}: {error}"
        );
        assert!(given < 1_000_000, "{name}: {given} of a billion bytes were read");
    }
}

#[test]
fn a_failing_input_is_an_error() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk was removed"))
        }
    }
    let error = reader()
        .read("made", b"{\"items\":[".chain(Fails))
        .expect_err("fails");
    assert_eq!(error.full_text(), "made: cannot be read: the disk was removed");
}

#[test]
fn deep_nesting_is_an_error_or_skipped() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    for (text, expected) in [
        (
            deep("[", "]"),
            "f, document 1, items[0]: line 1, column 129: not valid JSON: recursion limit exceeded",
        ),
        (
            format!("{{\"metadata\":{}}}", deep("[", "]")),
            "f, document 1: not an API object: it has neither apiVersion nor kind",
        ),
    ] {
        let error = crate::common::read("f", text.as_bytes()).expect_err("deep");
        assert_eq!(error.full_text(), expected);
    }
    let ignored = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"a\",\"namespace\":\"b\",\"uid\":\"c\"}},\"data\":{}}}",
        deep("{\"a\":", "}").replacen("}", "1}", 1)
    );
    assert_eq!(
        crate::common::read("f", ignored.as_bytes())
            .map(|snapshot| snapshot.len())
            .ok(),
        Some(1)
    );
    let yaml = format!("kind: Pod\napiVersion: v1\nspec: {}\n", deep("[", "]"));
    let error = crate::common::read("f", yaml.as_bytes()).expect_err("deep");
    assert!(
        error.to_string().starts_with("f, document 1: line 3, column "),
        "{error}"
    );
    let blocks = "- ".repeat(100_000);
    crate::common::read("f", blocks.as_bytes()).expect_err("deep");
}

#[test]
fn after_an_error_there_is_no_snapshot() {
    let mut reader = reader();
    let good = br#"{"kind":"List","apiVersion":"v1","items":[]}"#;
    reader.read("good", &good[..]).expect("good");
    reader.read("bad", &b"{"[..]).expect_err("cut off");
    let error = reader.finish().expect_err("short");
    assert_eq!(
        error.to_string(),
        "bad, document 1: was not read to its end, so there is no snapshot"
    );
}

#[test]
fn progress_is_reported_by_the_megabyte() {
    use std::sync::{Arc, Mutex};

    let text = "# a comment of some length, to fill the file\n".repeat(60_000);
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop, uid: u1}\n";
    let reports = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&reports);
    let mut reader = reader().on_progress(move |bytes| seen.lock().expect("one thread").push(bytes));
    reader
        .read("dump.yaml", format!("{text}{object}").as_bytes())
        .expect("YAML");
    assert_eq!(reader.finish().expect("whole").len(), 1);
    let reports = reports.lock().expect("one thread");
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert!(reports.is_sorted() && reports.iter().all(|bytes| *bytes >= 1 << 20));
}
