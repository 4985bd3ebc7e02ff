//! Output of kubectl around the objects, and output of old releases.

use crate::{
    bundles::both,
    common::{bytes, findings, read, reader, render},
};
use kubegc_snapshot::{Snapshot, Why};

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop","uid":"1"},"status":{"phase":"Running"}}"#;
const LINE: &str = "shop/Pod/a uid=1 rv= details=?/Running/?\n";

/// Reads a text with all kinds declared complete.
fn complete(name: &str, text: &str) -> Snapshot {
    let mut reader = reader().complete("all");
    reader
        .read(name, text.as_bytes())
        .unwrap_or_else(|error| panic!("{name}: {}", error.full_text()));
    reader.finish().expect(name)
}

#[test]
fn a_cluster_info_dump_to_standard_output_is_read() {
    let files: [&[u8]; 4] = [
        include_bytes!("../data/cluster-info/nodes.json"),
        include_bytes!("../data/cluster-info/shop/pods.json"),
        include_bytes!("../data/cluster-info/shop/deployments.json"),
        include_bytes!("../data/cluster-info/shop/replicasets.json"),
    ];
    let logs = [
        "==== START logs for container web of pod shop/web ====\n",
        "{\"level\": \"info\"}\n---\nkind: Pod\n==== END logs for container other of pod shop/web ====\n",
        "no line break==== END logs for container web of pod shop/web ====\n",
        "==== START logs for container empty of pod shop/web ====\n",
        "==== END logs for container empty of pod shop/web ====\n",
    ]
    .concat();
    let text = [
        files[0],
        logs.as_bytes(),
        files[1],
        files[2],
        logs.as_bytes(),
        files[3],
        logs.as_bytes(),
    ]
    .concat();
    let mut of_directory = reader();
    of_directory
        .read_path(&crate::common::data("cluster-info"))
        .expect("a directory");
    let of_directory = render(&of_directory.finish().expect("read"));
    let of_stream = read("dump", &text).unwrap_or_else(|error| panic!("{}", error.full_text()));
    assert_eq!(render(&of_stream), of_directory);
    assert_eq!(findings(&of_stream), [""; 0]);
    // Saved as .txt, in a directory of other texts.
    let text = String::from_utf8(text).expect("text");
    let of_file = both(&[
        ("dump.txt", &text),
        ("logs.txt", &logs),
        ("notes.txt", "see dump.txt\n"),
    ]);
    assert_eq!(render(&of_file), of_directory);
}

#[test]
fn logs_without_an_end_are_cut_off() {
    let text = format!(
        "{POD}\n==== START logs for container a of pod b/c ====\nline\n==== END logs for container a of pod b/"
    );
    let error = read("f", text.as_bytes()).expect_err("cut off");
    assert_eq!(
        error.to_string(),
        "f, document 2: the input ends in the middle of the document, at line 4"
    );
    let only =
        "==== START logs for container a of pod b/c ====\n==== END logs for container a of pod b/c ====\n";
    let error = read("f", only.as_bytes()).expect_err("no objects");
    assert_eq!(
        error.to_string(),
        "f: holds no document, only logs or messages of kubectl"
    );
}

const ERRORS: [&str; 4] = [
    "error: the server doesn't have a resource type \"pds\"",
    "Error from server (Forbidden): pods is forbidden: User \"x\" cannot list resource",
    "Unable to connect to the server: net/http: TLS handshake timeout",
    "E1123 11:19:44.123456   12345 memcache.go:265] couldn't get current server API group list",
];
const MESSAGES: [&str; 3] = [
    "Warning: v1 ComponentStatus is deprecated in v1.19+",
    "W1123 11:19:44.123456   12345 warnings.go:70] policy/v1beta1 PodSecurityPolicy is deprecated",
    "No resources found in default namespace.",
];

#[test]
fn messages_of_kubectl_are_findings() {
    let yaml = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: shop\n  uid: '1'\nstatus:\n  phase: Running\n";
    let list = format!("apiVersion: v1\nitems:\n- {POD}\nkind: List\n");
    for (name, dump) in [
        ("JSON", format!("{POD}\n")),
        ("YAML", yaml.to_owned()),
        ("a YAML list", list),
    ] {
        let errors = ERRORS.map(|message| (message, "KubectlError", true));
        let others = MESSAGES.map(|message| (message, "KubectlMessage", false));
        for (message, problem, is_error) in errors.into_iter().chain(others) {
            for (text, document) in [
                (format!("{dump}{message}\n"), ", document 1"),
                (format!("{dump}{message}"), ", document 1"),
                (format!("{message}\n{dump}"), ""),
            ] {
                let snapshot = complete(name, &text);
                assert_eq!(render(&snapshot), LINE, "{name} {message}");
                assert_eq!(
                    findings(&snapshot),
                    [format!("{problem}: {name}{document}: {message}")]
                );
                assert_eq!(
                    snapshot.completeness.of("", "Node").is_complete(),
                    !is_error,
                    "{message}"
                );
            }
        }
    }
    let snapshot = complete("f", &format!("{POD}\nerror: \u{1b}[2J{}\n", "x".repeat(1_000)));
    assert!(findings(&snapshot)[0].starts_with("KubectlError: f, document 1: error: \\u{1b}[2Jxxx"));
    assert!(findings(&snapshot)[0].len() < 400);
    let error = read("f", b"error: the server doesn't have a resource type \"pds\"\n").expect_err("nothing");
    assert_eq!(
        error.to_string(),
        "f: holds no document, only logs or messages of kubectl"
    );
}

#[test]
fn a_cut_off_last_document_is_a_finding_of_a_lenient_reader() {
    for text in [
        format!("{POD}\n{}", &POD[..60]),
        format!(
            "{POD}\n{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{}",
            &POD[..60]
        ),
    ] {
        let mut lenient = reader().lenient(true).complete("all");
        lenient.read("f", text.as_bytes()).expect("lenient");
        let snapshot = lenient.finish().expect("read");
        assert_eq!(render(&snapshot), LINE);
        let found = findings(&snapshot);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("Unread: f, document 2")
                && found[0].ends_with("the input ends in the middle of the document, at line 2"),
            "{found:?}"
        );
        assert!(matches!(
            snapshot.completeness.of("", "Pod"),
            kubegc_snapshot::Coverage::Incomplete(Why::Unread(_))
        ));
        let error = read("f", text.as_bytes()).expect_err("cut off");
        assert!(
            error
                .to_string()
                .ends_with("the input ends in the middle of the document, at line 2")
        );
    }
}

#[test]
fn lists_of_kubectl_before_1_14_are_read_as_metadata() {
    let object = |name: &str, namespace: &str| {
        format!(
            r#"{{"name":"{name}","namespace":"{namespace}","uid":"{name}","resourceVersion":"7","creationTimestamp":"2018-05-03T13:47:41Z",
            "ownerReferences":[{{"apiVersion":"extensions/v1beta1","kind":"ReplicaSet","name":"r","uid":"r","controller":true,"blockOwnerDeletion":true}}],
            "Spec":{{"NodeName":"n","Volumes":null}},"Status":{{"Phase":"Running"}}}}"#
        )
    };
    let nodes = r#"{"selfLink":"/api/v1/nodes","resourceVersion":"9","Items":[{"name":"n","selfLink":"/api/v1/nodes/n","uid":"n","Spec":{},"Status":{}}]}"#;
    let pods = format!(
        r#"{{"resourceVersion":"9","Items":[{},{}]}}"#,
        object("a", "shop"),
        object("b", "shop")
    );
    let snapshot = both(&[
        ("nodes.json", nodes),
        ("shop/pods.json", &pods),
        (
            "shop/replication-controllers.json",
            r#"{"resourceVersion":"9","Items":null}"#,
        ),
        ("shop/events.json", r#"{"resourceVersion":"9","Items":[]}"#),
    ]);
    let pod =
        |name: &str| format!("shop/Pod/{name} uid={name} rv=7 owners=ReplicaSet:r:Some(true):Some(true)\n");
    assert_eq!(
        render(&snapshot),
        format!("Node/n uid=n rv=\n{}{}", pod("a"), pod("b"))
    );
    assert_eq!(findings(&snapshot), [""; 0]);
    let found = snapshot.find("", "Pod", "shop", "a").expect("a pod");
    assert_eq!(found.details(), None, "fields unknown to the API are unread");
    // In a stream the selfLink contains the kind; without a link, an unknown kind is an error.
    assert_eq!(
        render(&read("dump", nodes.as_bytes()).expect("nodes")),
        "Node/n uid=n rv=\n"
    );
    let error = read("dump", pods.as_bytes()).expect_err("no kind");
    assert_eq!(
        error.to_string(),
        "dump, document 1: not an API object: neither the list nor its items have a kind; give it with read_as"
    );
    let odd = read(
        "nodes.json",
        br#"{"Items":[{"name":7}, 5, {"name":"n","uid":"n"}]}"#,
    )
    .expect("findings");
    assert_eq!(odd.len(), 1);
    assert_eq!(odd.finding_counts[&kubegc_snapshot::Problem::Unreadable], 2);
}

#[test]
fn the_version_of_the_cluster_is_detected_in_a_bundle() {
    let server = r#"{"major":"1","minor":"28+","gitVersion":"v1.28.3-gke.100"}"#;
    let bundled = both(&[
        (
            "cluster-info/cluster_version.json",
            &format!(r#"{{"info":{server}}}"#),
        ),
        ("cluster-info/errors.json", "null"),
        (
            "cluster-resources/pods/shop.json",
            std::str::from_utf8(&bytes("pods-raw.json")).expect("text"),
        ),
    ]);
    assert_eq!(
        bundled.detected_version().map(|one| one.version.minor()),
        Some(28)
    );
}
