//! Reads any bytes as a dump, strictly and leniently, whole and in small pieces: no panic, and always the same answer.
#![no_main]

use std::io::Read;

use kubegc_core::KubernetesVersion;
use kubegc_fuzz::Choices;
use kubegc_snapshot::{Reader, Snapshot};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let flags = choices.byte();
    let piece = 1 + usize::from(flags >> 4);
    let bytes = choices.0;
    if flags & 15 == 15 {
        if let Ok(listing) = str::from_utf8(bytes)
            && let Ok(reader) = reader(false).api_resources(listing)
        {
            let _snapshot = reader.finish();
        }
        return;
    }
    let strict = read(false, flags, bytes);
    let lenient = read(true, flags, bytes);
    if let Ok(strict) = &strict {
        // Only lenient reading passes documents over: what is fine strictly is the same leniently.
        let lenient = lenient
            .as_ref()
            .expect("what can be read strictly can be read leniently");
        assert_eq!(describe(strict), describe(lenient));
    }
    let in_pieces = read(flags & 8 == 8, flags, Pieces { bytes, piece });
    let whole = if flags & 8 == 8 { &lenient } else { &strict };
    match (whole, &in_pieces) {
        (Ok(whole), Ok(in_pieces)) => assert_eq!(describe(whole), describe(in_pieces)),
        (Err(whole), Err(in_pieces)) => assert_eq!(whole, in_pieces),
        (whole, in_pieces) => panic!(
            "whole: {:?}; in pieces: {:?}",
            whole.as_ref().err(),
            in_pieces.as_ref().err()
        ),
    }
});

fn reader(lenient: bool) -> Reader {
    Reader::new(KubernetesVersion::LATEST)
        .lenient(lenient)
        .complete("all")
        .object_bytes_max(4096)
}

fn read(lenient: bool, flags: u8, input: impl Read) -> Result<Snapshot, String> {
    let mut reader = reader(lenient);
    let read = if flags & 1 == 1 {
        reader.read_as("dump", "v1", "ConfigMap", input)
    } else {
        reader.read("dump", input)
    };
    match (read, reader.finish()) {
        (Ok(()), Ok(snapshot)) => {
            check(&snapshot);
            Ok(snapshot)
        }
        (Ok(()), Err(error)) | (Err(error), Err(_)) => Err(error.full_text()),
        (Err(error), Ok(_)) => panic!("a snapshot after the error {error}"),
    }
}

/// Objects are sorted, unique, and found by their names.
fn check(snapshot: &Snapshot) {
    let mut last = None;
    for object in snapshot.objects() {
        let reference = object.object_ref();
        let key = (
            reference.group().to_owned(),
            reference.kind.clone(),
            reference.namespace.clone(),
            reference.name.clone(),
        );
        let found = snapshot.find(&key.0, &key.1, &key.2, &key.3);
        assert_eq!(format!("{found:?}"), format!("{:?}", Some(object)));
        assert!(last < Some(key.clone()), "{key:?} after {last:?}");
        last = Some(key);
    }
    for finding in &snapshot.findings {
        assert!(!finding.to_string().is_empty());
    }
}

fn describe(snapshot: &Snapshot) -> (Vec<String>, Vec<String>, &kubegc_snapshot::Completeness) {
    let findings = snapshot.findings.iter().map(ToString::to_string);
    (
        snapshot.objects().map(|object| format!("{object:?}")).collect(),
        findings.collect(),
        &snapshot.completeness,
    )
}

/// A stream that gives a few bytes at a time.
struct Pieces<'a> {
    bytes: &'a [u8],
    piece: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.piece.min(buffer.len()).min(self.bytes.len());
        let (taken, rest) = self.bytes.split_at(length);
        buffer[..length].copy_from_slice(taken);
        self.bytes = rest;
        Ok(length)
    }
}
