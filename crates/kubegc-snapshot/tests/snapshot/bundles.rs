//! Layouts whose paths contain the kinds of their files: Velero backups, support bundles, Insights archives.
//!
//! The inputs of `bundles.txt` are paths, each with its text; an archive and a directory of them give the same.

use crate::{
    common::{findings, read, reader, render, write},
    escapes::unescaped,
    pack::{gzip, tar, zip},
};
use kubegc_fixtures::check_transcript;
use kubegc_snapshot::{Problem, Snapshot};

/// The same members as an archive, as a file whose name does not show its format, and as a directory; all must
/// give the same.
pub(crate) fn both(members: &[(&str, &str)]) -> Snapshot {
    let packed: Vec<(&str, &[u8])> = members
        .iter()
        .map(|(path, text)| (*path, text.as_bytes()))
        .collect();
    let of_archive =
        read("dump.tar.gz", &gzip(&tar(&packed))).unwrap_or_else(|error| panic!("{}", error.full_text()));
    let root = tempfile::tempdir().expect("a directory");
    let (directory, file) = (root.path().join("directory"), root.path().join("file"));
    write(&directory, &packed);
    std::fs::write(&file, zip(&packed)).expect("a file");
    for path in [directory, file] {
        let mut reader = reader();
        let read = reader.read_path(&path);
        read.unwrap_or_else(|error| panic!("{}", error.full_text()));
        let of_path = reader.finish().expect("read");
        assert_eq!(render(&of_archive), render(&of_path), "{path:?}");
        assert_eq!(of_archive.finding_counts, of_path.finding_counts, "{path:?}");
    }
    of_archive
}

/// The objects and the findings, or the error, of the files of a case.
fn output(input: &str) -> String {
    let members: Vec<(&str, Vec<u8>)> = input
        .lines()
        .map(|line| {
            let (path, text) = line.split_once(' ').unwrap_or((line, ""));
            (path, unescaped(text))
        })
        .collect();
    let members: Vec<(&str, &[u8])> = members.iter().map(|(path, text)| (*path, &**text)).collect();
    let archive = tar(&members);
    let mut complete = reader().complete("all");
    if let Err(error) = complete.read("dump.tar", &*archive) {
        let mut lenient = reader().lenient(true);
        lenient.read("dump.tar", &*archive).expect("a finding instead");
        let counts = lenient.finish().expect("read").finding_counts;
        assert_eq!(counts[&Problem::Unread], 1, "{input}");
        return error.full_text().lines().collect::<Vec<_>>().join(" ");
    }
    let texts: Vec<(&str, &str)> = members
        .iter()
        .map(|(path, text)| (*path, std::str::from_utf8(text).expect("UTF-8")))
        .collect();
    let snapshot = both(&texts);
    let objects = snapshot.objects().map(|object| object.api_version().to_string());
    let render = render(&snapshot);
    let mut lines: Vec<String> = objects
        .zip(render.lines())
        .map(|(version, line)| format!("{version} {line}"))
        .collect();
    lines.extend(findings(&snapshot));
    let complete = complete.finish().expect("read");
    if !complete.completeness.of("", "Node").is_complete() {
        lines.push("every kind is incomplete".to_owned());
    }
    lines.join("\n")
}

#[test]
fn layouts_have_these_objects_and_findings() {
    check_transcript("tests/snapshot/bundles.txt", output);
}

fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> String {
    let namespace = if namespace.is_empty() {
        String::new()
    } else {
        format!(r#""namespace":"{namespace}","#)
    };
    format!(
        r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{{namespace}"name":"{name}","uid":"{kind}-{name}"}},"status":{{"phase":"Running"}}}}"#
    )
}

#[test]
fn hidden_uids_are_findings() {
    let hidden = object("v1", "Pod", "shop", "a")
        .replace("Pod-a", "***HIDDEN***")
        .replace(
            r#""uid""#,
            r#""ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"***HIDDEN***"}],"uid""#,
        );
    let text = format!("{hidden}\n{}", hidden.replace(r#""name":"a""#, r#""name":"b""#));
    let snapshot = read("f", text.as_bytes()).expect("redacted");
    let of = |document: u8, name: &str| {
        [
            format!("NoUid: f, document {document}: Pod shop/{name}: metadata.uid: hidden by a redactor"),
            format!(
                "IncompleteOwner: f, document {document}: Pod shop/{name}: metadata.ownerReferences[0].uid: hidden by a redactor"
            ),
        ]
    };
    let mut expected = [of(1, "a"), of(2, "b")].concat();
    expected.sort_by_key(|finding| !finding.starts_with("NoUid"));
    assert_eq!(findings(&snapshot), expected);
}

#[test]
fn kinds_that_nothing_defines_are_inferred() {
    let policy = |namespace: &str, name: &str| object("example.com/v1", "Policy", namespace, name);
    let infer = |text: &str| {
        let mut reader = reader().complete("all");
        reader.read("f", text.as_bytes()).expect("objects");
        reader.finish().expect("read")
    };
    for (text, resource, is_namespaced) in [
        (policy("shop", "a"), "policies", true),
        (policy("", "a"), "policies", false),
        (object("example.com/v1", "Bus", "shop", "a"), "buses", true),
        (object("example.com/v1", "Widget", "shop", "a"), "widgets", true),
    ] {
        let snapshot = infer(&text);
        let object = snapshot.object(0).expect("read");
        let kind = object.kind_id().expect("inferred");
        assert_eq!(&*snapshot.catalog[kind].resource, resource);
        assert_eq!(snapshot.catalog[kind].is_namespaced(), is_namespaced);
        assert_eq!(snapshot.finding_counts[&Problem::InferredKind], 1);
        assert!(
            !snapshot
                .completeness
                .of("example.com", object.kind())
                .is_complete(),
            "a declaration of all kinds does not include it"
        );
        assert!(snapshot.completeness.of("", "Pod").is_complete());
    }
    let mut declared = reader().complete("policies.example.com");
    declared
        .read("f", policy("shop", "a").as_bytes())
        .expect("an object");
    assert!(
        declared
            .finish()
            .expect("read")
            .completeness
            .of("example.com", "Policy")
            .is_complete()
    );
    // A list without kind is not an object of the API only if no item is one.
    let cut = tar(&[("a.yaml", b"apiVersion: v1\nitems:\n")]);
    let error = read("f", &cut).expect_err("cut off").to_string();
    assert!(
        error.ends_with("it has items and no kind, so it is cut off or no list of objects"),
        "{error}"
    );
    // Nothing is inferred where the objects disagree, or were written by hand.
    for text in [
        format!("{}\n{}", policy("shop", "a"), policy("", "b")),
        policy("", "a").replace(r#""uid""#, r#""generateName""#),
    ] {
        let snapshot = infer(&text);
        assert_eq!(snapshot.finding_counts[&Problem::Unresolvable], 1, "{text}");
        assert!(snapshot.objects().all(|object| object.kind_id().is_none()));
    }
    // Another version of a known kind keeps its resource, for any objects.
    let snapshot = infer(&object("policy/v1beta1", "PodDisruptionBudget", "", "a"));
    let kind = snapshot
        .object(0)
        .and_then(|object| object.kind_id())
        .expect("known");
    assert_eq!(
        snapshot.catalog[kind].to_string(),
        "policy/v1beta1/poddisruptionbudgets"
    );
    assert!(snapshot.catalog[kind].is_namespaced() && !snapshot.catalog[kind].preferred);
    // The path has the name of the resource, where the layout is known.
    for (path, resource) in [
        ("cluster-scoped-resources/example.com/policys/a.json", "policys"),
        ("resources/policys.example.com/cluster/a.json", "policys"),
        (
            "cluster-resources/custom-resources/policys.example.com.json",
            "policys",
        ),
        ("example.com/policy/a.json", "policies"),
        ("example.com/other/a.json", "policies"),
    ] {
        let snapshot = both(&[(path, &policy("", "a"))]);
        let kind = snapshot
            .object(0)
            .and_then(|object| object.kind_id())
            .expect("inferred");
        assert_eq!(&*snapshot.catalog[kind].resource, resource, "{path}");
    }
}
