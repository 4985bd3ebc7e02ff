//! Completeness that known layouts prove, and what revokes it.

use kubegc_snapshot::{Coverage, Problem, Proof, Snapshot};

use crate::{
    bundles::both,
    common::{findings, reader},
};

const INFERRED: Coverage = Coverage::Complete(Proof::Inferred);

/// A list as the API server writes it.
fn list(api_version: &str, kind: &str, items: &[String]) -> String {
    let items = items.join(",");
    format!(
        r#"{{"apiVersion":"{api_version}","kind":"{kind}List","metadata":{{"resourceVersion":"9"}},"items":[{items}]}}"#
    ) + "\n"
}

/// An object without kind, with an owner of this kind.
fn item(namespace: &str, name: &str, owner: Option<(&str, &str, &str)>) -> String {
    let namespace = match namespace {
        "" => String::new(),
        namespace => format!(r#""namespace":"{namespace}","#),
    };
    let owners = owner.map_or(String::new(), |(api_version, kind, owner)| {
        format!(
            r#","ownerReferences":[{{"apiVersion":"{api_version}","kind":"{kind}","name":"{owner}","uid":"uid-{owner}","controller":true}}]"#
        )
    });
    let uid = format!("uid-{name}");
    format!(r#"{{"metadata":{{{namespace}"name":"{name}","uid":"{uid}"{owners}}}}}"#)
}

fn of_problem(snapshot: &Snapshot, problem: Problem) -> Vec<String> {
    let start = format!("{problem}: ");
    let findings = findings(snapshot).into_iter();
    let of_problem = findings.filter_map(|finding| finding.strip_prefix(&start).map(str::to_owned));
    of_problem.collect()
}

/// The files that `kubectl cluster-info dump` writes for a namespace, in its order.
fn dumped(namespace: &str, pods: &[String], replica_sets: &[String]) -> Vec<(String, String)> {
    let of = |file: &str, api_version: &str, kind: &str, items: &[String]| {
        (
            format!("dump/{namespace}/{file}.json"),
            list(api_version, kind, items),
        )
    };
    vec![
        of("events", "v1", "Event", &[]),
        of("replication-controllers", "v1", "ReplicationController", &[]),
        of("services", "v1", "Service", &[]),
        of("daemonsets", "apps/v1", "DaemonSet", &[]),
        of("deployments", "apps/v1", "Deployment", &[]),
        of("replicasets", "apps/v1", "ReplicaSet", replica_sets),
        of("pods", "v1", "Pod", pods),
    ]
}

fn read_files(files: &[(String, String)]) -> Snapshot {
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    both(&files)
}

fn shop() -> (Vec<String>, Vec<String>) {
    let pods = [item("shop", "web-1", Some(("apps/v1", "ReplicaSet", "web")))];
    (pods.to_vec(), vec![item("shop", "web", None)])
}

#[test]
fn a_cluster_info_dump_is_complete_for_its_kinds_and_namespaces() {
    let (pods, sets) = shop();
    let nodes = || {
        (
            "dump/nodes.json".to_owned(),
            list("v1", "Node", &[item("", "n", None)]),
        )
    };
    let mut files = dumped("shop", &pods, &sets);
    files.extend(dumped("empty", &[], &[]));
    files.push(nodes());
    let of_directory = read_files(&files);
    // The standard output has the same lists, with logs behind those of a namespace.
    let logs = "==== START logs for container a of pod shop/web-1 ====\n{\n==== END logs for container a of pod shop/web-1 ====\n";
    let mut text = nodes().1;
    for (_, list) in dumped("shop", &pods, &sets)
        .iter()
        .chain(&dumped("empty", &[], &[]))
    {
        text.push_str(list);
        if list.contains("PodList") {
            text.push_str(logs);
        }
    }
    let of_stream = crate::common::read("standard input", text.as_bytes()).expect("a dump");
    for (snapshot, is_stream) in [(of_directory, false), (of_stream, true)] {
        let completeness = &snapshot.completeness;
        assert_eq!(completeness.of("", "Node"), INFERRED);
        for (group, kind) in [
            ("", "Pod"),
            ("apps", "ReplicaSet"),
            ("", "Event"),
            ("apps", "DaemonSet"),
        ] {
            assert_eq!(completeness.in_namespace(group, kind, "shop"), INFERRED, "{kind}");
            assert!(!completeness.of(group, kind).is_complete(), "{kind}");
            // A stream does not name a namespace without objects.
            let is_complete = completeness.in_namespace(group, kind, "empty").is_complete();
            assert_eq!(is_complete, !is_stream, "{kind}");
        }
        for (group, kind) in [("batch", "Job"), ("apps", "StatefulSet"), ("", "Secret")] {
            assert!(
                !completeness.in_namespace(group, kind, "shop").is_complete(),
                "{kind} is never dumped"
            );
        }
    }
    // Files that any script may have written prove nothing.
    for missing in 0..8 {
        let mut files = dumped("shop", &pods, &sets);
        files.push(nodes());
        files.remove(missing);
        let snapshot = read_files(&files);
        assert_eq!(
            of_problem(&snapshot, Problem::InferredComplete),
            [""; 0],
            "{missing}"
        );
    }
}

#[test]
fn an_incomplete_list_of_the_api_server_proves_nothing() {
    let pods = list("v1", "Pod", &[item("shop", "a", None)]);
    let path = "must-gather/namespaces/shop/core/pods.yaml";
    let whole = |text: &str| {
        let mut reader = reader().lenient(true);
        let archive = crate::pack::tar(&[(path, text.as_bytes())]);
        reader.read("dump.tar", &*archive).expect("lenient");
        let snapshot = reader.finish().expect("read");
        snapshot
            .completeness
            .in_namespace("", "Pod", "shop")
            .is_complete()
    };
    assert!(whole(&pods));
    for (text, why) in [
        (
            pods.replace(r#""resourceVersion":"9""#, r#""resourceVersion":"""#),
            "as kubectl get prints it",
        ),
        (
            pods.replace(
                r#""resourceVersion":"9""#,
                r#""resourceVersion":"9","continue":"x""#,
            ),
            "it continues",
        ),
        (pods[..pods.len() - 3].to_owned(), "it is cut off"),
        (format!("{pods}error: the server is gone\n"), "kubectl failed"),
        (
            pods.replace(r#""uid":"uid-a""#, r#""resourceVersion":"5""#),
            "an object without uid",
        ),
        (pods.replace("PodList", "List"), "a mixed list"),
    ] {
        assert!(!whole(&text), "{why}");
    }
    // The declaration does not change.
    let mut declared = reader().complete("pods@shop");
    let archive = crate::pack::tar(&[(path, pods.as_bytes())]);
    declared.read("dump.tar", &*archive).expect("a list");
    let snapshot = declared.finish().expect("read");
    assert_eq!(
        snapshot.completeness.in_namespace("", "Pod", "shop"),
        Coverage::Complete(Proof::Declared)
    );
    assert_eq!(of_problem(&snapshot, Problem::InferredComplete), [""; 0]);
}
