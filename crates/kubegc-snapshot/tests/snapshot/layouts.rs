//! Every layout that is read gives the same objects.

use crate::common::{bytes, data, findings, read, reader, render, write};
use kubegc_snapshot::{Coverage, Problem, Why};

const UID: &str = "0b5f9a3e-58a1-4b0e-9f0a-00000000000";

fn expected(kinds: &[&str]) -> String {
    // The order is that of group, kind, namespace, name.
    let all = [
        (
            "ConfigMap",
            "shop/ConfigMap/settings uid=4 rv=104 deleting=2026-03-02T08:30:00Z grace=0 finalizers=example.com/hold owners=Widget:blue:None:None",
        ),
        (
            "Namespace",
            "Namespace/shop uid=7 rv=80 labels=kubernetes.io/metadata.name:shop details=Active/kubernetes",
        ),
        ("Node", "Node/node-1 uid=8 rv=70"),
        (
            "Pod",
            "shop/Pod/web-7d9f8b6c5d-x2x4z uid=3 rv=103 owners=ReplicaSet:web-7d9f8b6c5d:Some(true):Some(true) labels=app:web,pod-template-hash:7d9f8b6c5d details=node-1/Running/Some(30)",
        ),
        (
            "Succeeded",
            "shop/Pod/web-7d9f8b6c5d-x2x4z uid=3 rv=110 owners=ReplicaSet:web-7d9f8b6c5d:Some(true):Some(true) labels=app:web,pod-template-hash:7d9f8b6c5d details=node-1/Succeeded/Some(30)",
        ),
        (
            "CustomResourceDefinition",
            "CustomResourceDefinition/widgets.example.com uid=5 rv=90 gen=1 details=Widget/v1beta1,v1,v1alpha1/v1",
        ),
        (
            "Deployment",
            "shop/Deployment/web uid=1 rv=101 gen=2 labels=app:web",
        ),
        (
            "ReplicaSet",
            "shop/ReplicaSet/web-7d9f8b6c5d uid=2 rv=102 gen=1 owners=Deployment:web:Some(true):Some(true) labels=app:web,pod-template-hash:7d9f8b6c5d",
        ),
        ("Widget", "shop/Widget/blue uid=6 rv=105"),
    ];
    let wanted = all.iter().filter(|(kind, _)| kinds.contains(kind));
    let lines = wanted.map(|(_, line)| line.replacen("uid=", &format!("uid={UID}"), 1) + "\n");
    lines.collect()
}

const ALL: [&str; 8] = [
    "ConfigMap",
    "Namespace",
    "Node",
    "Pod",
    "CustomResourceDefinition",
    "Deployment",
    "ReplicaSet",
    "Widget",
];

#[test]
fn streams_of_either_format_hold_the_same_objects() {
    for name in ["list.json", "list.yaml", "stream.json", "stream.yaml"] {
        let snapshot = read(name, &bytes(name)).expect(name);
        assert_eq!(render(&snapshot), expected(&ALL), "{name}");
        assert_eq!(findings(&snapshot), [""; 0], "{name}");
        let widget = snapshot
            .catalog
            .mapping("example.com/v1", "Widget")
            .expect("defined in the dump");
        assert!(snapshot.catalog[widget].preferred && snapshot.catalog[widget].custom);
        let beta = snapshot
            .catalog
            .mapping("example.com/v1beta1", "Widget")
            .expect("served");
        assert!(!snapshot.catalog[beta].preferred);
        assert_eq!(
            snapshot.catalog.mapping("example.com/v1alpha1", "Widget"),
            None,
            "not served"
        );
        let found = snapshot
            .find("apps", "ReplicaSet", "shop", "web-7d9f8b6c5d")
            .expect("there");
        assert_eq!(found.place().item.is_some(), name.starts_with("list"));
        assert!(snapshot.find("apps", "ReplicaSet", "shop", "web").is_none());
    }
}

#[test]
fn items_take_the_kind_of_their_list() {
    let snapshot = read("pods-raw.json", &bytes("pods-raw.json")).expect("a typed list");
    assert_eq!(render(&snapshot), expected(&["Pod"]));
    // The same with the kind behind the items, as printers sort it.
    let text = String::from_utf8(bytes("pods-raw.json")).expect("text");
    let text = text.replacen("\"kind\": \"PodList\", ", "", 1);
    let text = format!("{}, \"kind\": \"PodList\"}}", &text[..text.len() - 1]);
    let snapshot = read("pods.json", text.as_bytes()).expect("a typed list");
    assert_eq!(render(&snapshot), expected(&["Pod"]));
}

#[test]
fn a_must_gather_is_read_from_all_its_roots() {
    let mut reader = reader();
    reader.read_path(&data("must-gather")).expect("a must-gather");
    let snapshot = reader.finish().expect("read");
    let mut kinds = ALL.to_vec();
    kinds.retain(|kind| *kind != "Pod");
    kinds.push("Succeeded");
    assert_eq!(render(&snapshot), expected(&kinds));
    let counts: Vec<(Problem, u64)> = snapshot
        .finding_counts
        .iter()
        .map(|(&problem, &count)| (problem, count))
        .collect();
    assert_eq!(
        counts,
        [
            (Problem::Superseded, 2),
            (Problem::InferredComplete, 4),
            (Problem::SkippedFile, 3)
        ]
    );
    assert_eq!(
        findings(&snapshot)[0],
        "Superseded: must-gather/quay-io-one/namespaces/shop/core/pods.yaml, document 1, items[0]: \
         Pod shop/web-7d9f8b6c5d-x2x4z: resourceVersion 110 replaces 103"
    );
    assert_eq!(
        snapshot.completeness.of("", "Pod"),
        Coverage::Incomplete(Why::OnlyNamespaces(vec!["shop".into()]))
    );
}

#[test]
fn a_part_of_a_cluster_info_dump_is_read_and_proves_nothing() {
    let mut reader = reader();
    reader
        .read_path(&data("cluster-info"))
        .expect("a cluster-info dump");
    let snapshot = reader.finish().expect("read");
    assert_eq!(
        render(&snapshot),
        expected(&["Node", "Pod", "Deployment", "ReplicaSet"])
    );
    assert!(
        snapshot
            .completeness
            .iter()
            .all(|(_, coverage)| !coverage.is_complete())
    );
}

#[test]
fn metadata_lists_need_their_kind() {
    let text = br#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},
        "items":[{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"shop","uid":"1"}}]}"#;
    let mut with_kind = reader();
    with_kind
        .read_as("meta.json", "v1", "Pod", &text[..])
        .expect("the kind is given");
    assert_eq!(
        render(&with_kind.finish().expect("read")),
        "shop/Pod/a uid=1 rv=\n"
    );
    let error = read("meta.json", text).expect_err("no kind");
    assert_eq!(
        error.to_string(),
        "meta.json, document 1, items[0]: not an API object: PartialObjectMetadata does not say the kind of the object; give it with read_as"
    );
}

#[test]
fn layouts_that_are_no_dumps_are_refused() {
    for (name, files, expected) in [
        (
            "helm",
            ["Chart.yaml", "templates/a.yaml"],
            "looks like a Helm chart, which is not read; render it with helm template, or dump the objects from the cluster with kubectl get -o json",
        ),
        (
            "etcd",
            ["member/snap/db", "a.yaml"],
            "looks like the data directory of etcd, which is not read; export the objects as YAML with auger, or dump them with kubectl get -o json",
        ),
        (
            "nothing",
            ["notes.txt", "more/notes.txt"],
            "no .json, .yaml or .yml file in this directory",
        ),
    ] {
        let root = tempfile::tempdir().expect("a directory");
        write(root.path(), &files.map(|file| (file, &b""[..])));
        let mut reader = reader().lenient(true);
        let error = reader.read_path(root.path()).expect_err(name);
        assert_eq!(
            error.to_string(),
            format!("{}: {expected}", root.path().display())
        );
        assert!(reader.finish().is_err(), "{name}");
    }
    let mut none = reader();
    let error = none.read_path(&data("missing")).expect_err("missing");
    assert_eq!(
        error.to_string(),
        format!("{}: cannot be read", data("missing").display())
    );
}

#[test]
fn a_lenient_reader_continues_with_the_next_file() {
    let root = tempfile::tempdir().expect("a directory");
    let files: [(&str, &[u8]); 3] = [
        ("a.json", &bytes("pods-raw.json")),
        ("b.json", b""),
        ("c.json", b"{\"labels\": []}"),
    ];
    write(root.path(), &files);
    let mut reader = reader().lenient(true).complete("all");
    reader.read_path(root.path()).expect("lenient");
    let snapshot = reader.finish().expect("read");
    assert_eq!(render(&snapshot), expected(&["Pod"]));
    let file = |name: &str| root.path().join(name).display().to_string();
    assert_eq!(
        findings(&snapshot),
        [
            format!("Unread: {}: holds no document", file("b.json")),
            format!(
                "NotAnObject: {}, document 1: it has neither apiVersion nor kind",
                file("c.json")
            ),
        ]
    );
    assert!(matches!(
        snapshot.completeness.of("", "Node"),
        Coverage::Incomplete(Why::Unread(_))
    ));
}
