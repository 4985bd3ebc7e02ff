//! Recognises inputs that are not dumps by their first bytes or words, with advice for each.

use crate::{Place, SnapshotError};

/// Number of bytes at the beginning that are inspected.
pub(crate) const BYTES: usize = 4096;

/// First bytes of formats that are not read: position, bytes, name, advice.
const FORMATS: [(usize, &[u8], &str, &str); 4] = [
    (0, b"BZh", "bzip2", UNPACK),
    (257, b"ustar", "a tar archive", UNPACK),
    (
        16,
        b"\xed\xda\x0c\xed",
        "an etcd snapshot",
        "export the objects as YAML with auger, or dump them with kubectl get -o json",
    ),
    (
        0,
        b"k8s\0",
        "an object in protobuf",
        "export it as YAML with auger, or dump it with kubectl get -o json",
    ),
];

const UNPACK: &str = "unpack it and give the directory";

/// Refuses binary formats.
pub(crate) fn refuse(beginning: &[u8], place: &Place) -> Result<(), SnapshotError> {
    for (at, magic, looks_like, advice) in FORMATS {
        if beginning.get(at..).is_some_and(|rest| rest.starts_with(magic)) {
            return refused(place, looks_like, advice);
        }
    }
    if beginning.contains(&0) {
        let before = beginning.iter().take_while(|&&byte| byte != 0);
        return Err(SnapshotError::NotText {
            place: place.clone(),
            line: before.filter(|&&byte| byte == b'\n').count() as u64 + 1,
            problem: "a NUL byte",
        });
    }
    match std::str::from_utf8(beginning) {
        Ok(text) => refuse_text(text, place),
        Err(_) => refuse_text(&String::from_utf8_lossy(beginning), place),
    }
}

/// Refuses texts that people mistake for dumps.
pub(crate) fn refuse_text(text: &str, place: &Place) -> Result<(), SnapshotError> {
    let first = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let is_head = |word: &&str| {
        word.bytes()
            .all(|byte| byte.is_ascii_uppercase() || b"-()/".contains(&byte))
    };
    if words.len() > 1
        && words.iter().all(is_head)
        && words.iter().any(|word| matches!(*word, "NAME" | "REASON"))
    {
        if words.contains(&"NAMESPACED") {
            return refused(
                place,
                "the output of kubectl api-resources",
                "give it to api_resources",
            );
        }
        return refused(place, "a table of kubectl get", "list again with -o json");
    }
    if first.starts_with("Name:  ") {
        return refused(place, "the output of kubectl describe", "use kubectl get -o json");
    }
    if first.starts_with("NAME: ") && text.contains("\nLAST DEPLOYED: ") {
        return refused(
            place,
            "the output of helm get all, status or install",
            "save the manifests alone with helm get manifest, or dump the objects with kubectl get -o json",
        );
    }
    if first.starts_with("{{") {
        return refuse_template(place);
    }
    Ok(())
}

/// Refuses the source of a template. The output of `helm template` is manifests, and is read.
pub(crate) fn refuse_template(place: &Place) -> Result<(), SnapshotError> {
    refused(place, "a Helm template", RENDER)
}

/// The advice for charts and their templates.
pub(crate) const RENDER: &str =
    "render it with helm template, or dump the objects from the cluster with kubectl get -o json";

fn refused(place: &Place, looks_like: &'static str, advice: &'static str) -> Result<(), SnapshotError> {
    Err(SnapshotError::refused(&place.file, looks_like, advice))
}
