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

fn pod_on(node: &str, name: &str) -> String {
    let pod = item("shop", name, None);
    format!(r#"{},"spec":{{"nodeName":"{node}"}}}}"#, &pod[..pod.len() - 1])
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
fn a_must_gather_lists_kinds_of_a_namespace_completely() {
    let pods = list(
        "v1",
        "Pod",
        &[item("shop", "a", Some(("batch/v1", "Job", "once")))],
    );
    let jobs = list("batch/v1", "Job", &[item("shop", "once", None)]);
    let machines = list(
        "config.openshift.io/v1",
        "Infrastructure",
        &[item("", "cluster", None)],
    );
    let path = |rest: &str| format!("must-gather/quay-io/{rest}");
    let snapshot = read_files(&[
        (path("namespaces/shop/core/pods.yaml"), pods),
        (path("namespaces/shop/batch/jobs.yaml"), jobs),
        (
            path("namespaces/shop/core/services.yaml"),
            list("v1", "Service", &[]),
        ),
        (
            path("cluster-scoped-resources/config.openshift.io/infrastructures.yaml"),
            machines,
        ),
        // Of single objects there may be others.
        (
            path("namespaces/shop/apps/deployments/web.yaml"),
            item("shop", "web", None).replacen('{', r#"{"apiVersion":"apps/v1","kind":"Deployment","#, 1),
        ),
    ]);
    let completeness = &snapshot.completeness;
    for (group, kind) in [("", "Pod"), ("batch", "Job"), ("", "Service")] {
        assert_eq!(completeness.in_namespace(group, kind, "shop"), INFERRED, "{kind}");
        assert!(
            !completeness.in_namespace(group, kind, "blog").is_complete(),
            "{kind}"
        );
        assert!(!completeness.of(group, kind).is_complete(), "{kind}");
    }
    assert_eq!(completeness.of("config.openshift.io", "Infrastructure"), INFERRED);
    assert!(
        !completeness
            .in_namespace("apps", "Deployment", "shop")
            .is_complete()
    );
    assert_eq!(
        of_problem(&snapshot, Problem::InferredComplete),
        [
            "Job: taken as complete in namespace shop: a must-gather lists all of them there",
            "Infrastructure: taken as complete: a must-gather lists all of them",
            "Pod: taken as complete in namespace shop: a must-gather lists all of them there",
            "Service: taken as complete in namespace shop: a must-gather lists all of them there",
        ]
    );
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
fn a_support_bundle_is_complete_in_each_namespace() {
    let path = |rest: &str| format!("bundle/cluster-resources/{rest}.json");
    let files = |namespaces: String| {
        let (pods, sets) = shop();
        vec![
            (path("namespaces"), namespaces),
            (path("nodes"), list("v1", "Node", &[item("", "n", None)])),
            (path("pods/shop"), list("v1", "Pod", &pods)),
            (path("pods/blog"), list("v1", "Pod", &[])),
            (path("replicasets/shop"), list("apps/v1", "ReplicaSet", &sets)),
        ]
    };
    let namespaces = [item("", "blog", None), item("", "shop", None)];
    let all = read_files(&files(list("v1", "Namespace", &namespaces)));
    let completeness = &all.completeness;
    for (group, kind) in [("", "Namespace"), ("", "Node"), ("", "Pod")] {
        assert_eq!(completeness.of(group, kind), INFERRED, "{kind}");
    }
    assert_eq!(completeness.in_namespace("apps", "ReplicaSet", "shop"), INFERRED);
    assert!(
        !completeness.of("apps", "ReplicaSet").is_complete(),
        "not of blog"
    );
    assert_eq!(
        of_problem(&all, Problem::InferredComplete),
        [
            "ReplicaSet: taken as complete in namespace shop: a support bundle lists all of them there",
            "Namespace: taken as complete: a support bundle lists all of them",
            "Node: taken as complete: a support bundle lists all of them",
            "Pod: taken as complete: a support bundle lists all of them in each namespace",
        ]
    );
    // A collector that was limited to namespaces writes an array of these.
    let some = read_files(&files(format!("[{}]", namespaces.join(","))));
    assert!(!some.completeness.of("", "Namespace").is_complete());
    assert!(!some.completeness.of("", "Pod").is_complete());
    assert_eq!(some.completeness.in_namespace("", "Pod", "blog"), INFERRED);
}

#[test]
fn contradictions_win_over_a_layout() {
    let gather = |files: &[(&str, String)]| {
        let files: Vec<(String, String)> = files
            .iter()
            .map(|(path, text)| (format!("must-gather/{path}"), text.clone()))
            .collect();
        read_files(&files)
    };
    let owned: Vec<String> = (0..7)
        .map(|number| item("shop", &format!("p{number}"), Some(("batch/v1", "Job", "once"))))
        .collect();
    let pods = ("namespaces/shop/core/pods.yaml", list("v1", "Pod", &owned));
    let jobs = ("namespaces/shop/batch/jobs.yaml", list("batch/v1", "Job", &[]));
    let snapshot = gather(&[pods, jobs.clone()]);
    assert!(
        !snapshot
            .completeness
            .in_namespace("batch", "Job", "shop")
            .is_complete()
    );
    assert_eq!(snapshot.completeness.in_namespace("", "Pod", "shop"), INFERRED);
    assert_eq!(
        of_problem(&snapshot, Problem::ListContradicted),
        [
            "Job: not taken as complete in namespace shop, although a must-gather lists all of them: \
             7 objects name a Job as owner that the list lacks"
        ]
    );
    // An object that only another file has.
    let single = item("shop", "once", None).replacen('{', r#"{"apiVersion":"batch/v1","kind":"Job","#, 1);
    let snapshot = gather(&[jobs.clone(), ("namespaces/shop/batch/jobs/once.yaml", single)]);
    assert!(
        !snapshot
            .completeness
            .in_namespace("batch", "Job", "shop")
            .is_complete()
    );
    assert_eq!(
        of_problem(&snapshot, Problem::ListContradicted),
        [
            "Job: not taken as complete in namespace shop, although a must-gather lists all of them: \
             1 of them is elsewhere in the dump"
        ]
    );
    // A list of another namespace than its path says.
    let snapshot = gather(&[(
        "namespaces/shop/batch/jobs.yaml",
        list("batch/v1", "Job", &[item("blog", "once", None)]),
    )]);
    assert_eq!(of_problem(&snapshot, Problem::InferredComplete), [""; 0]);
    // Pods on nodes that do not exist.
    let nodes = ("cluster-resources/nodes.json", list("v1", "Node", &[]));
    let pods = [pod_on("n1", "a"), pod_on("n2", "b")];
    let snapshot = gather(&[
        nodes,
        ("cluster-resources/pods/shop.json", list("v1", "Pod", &pods)),
    ]);
    assert!(!snapshot.completeness.of("", "Node").is_complete());
    assert_eq!(
        of_problem(&snapshot, Problem::ListContradicted),
        [
            "Node: not taken as complete, although a support bundle lists all of them: 2 pods run on nodes that the list lacks"
        ]
    );
}

#[test]
fn an_incomplete_list_of_the_api_server_proves_nothing() {
    let pods = list("v1", "Pod", &[item("shop", "a", None)]);
    let path = "must-gather/namespaces/shop/core/pods.yaml";
    let whole = |text: &str| {
        let mut reader = reader().lenient(true);
        let archive = crate::packed::tar(&[(path, text.as_bytes())]);
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
    let archive = crate::packed::tar(&[(path, pods.as_bytes())]);
    declared.read("dump.tar", &*archive).expect("a list");
    let snapshot = declared.finish().expect("read");
    assert_eq!(
        snapshot.completeness.in_namespace("", "Pod", "shop"),
        Coverage::Complete(Proof::Declared)
    );
    assert_eq!(of_problem(&snapshot, Problem::InferredComplete), [""; 0]);
}
