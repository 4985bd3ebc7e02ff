//! A file that lists the pods of a node, read anew each time, beside what runs.

use std::{fs, path::Path, sync::Arc, time::Duration};

use futures_util::FutureExt;
use kubegc_core::{
    PodSource, RuntimeError, Timestamp, Uid,
    node_facts::{PodState, Pods},
};
use kubegc_node::{
    Node, Policy, PolicySpec, World,
    container::Occasion,
    driver::{NodeAction, Settings},
};
use kubegc_sim::{
    ContainerSpec, FaultyRuntime, ImageSpec, NodeSettings, PodSpec, SimClock, SimNode,
    runtime::{Fault, FaultPlan, Operation, Rule},
};
use kubegc_snapshot::PodsFile;

use crate::common::{bundled, bundled_text};

/// What a simulated node answers, which it does at once.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("a simulated node answers at once")
}

/// A node on which nothing runs, with an image.
pub(crate) fn sim() -> SimNode {
    let node = SimNode::new(
        SimClock::new(Timestamp::from_secs(1_000_000)),
        NodeSettings::default(),
    );
    node.pull(&ImageSpec::new("web:1").layer("web", 10))
        .expect("there is room");
    node
}

/// Runs a pod of one container.
pub(crate) fn run(node: &SimNode, namespace: &str, name: &str, uid: &str) -> kubegc_sim::runtime::RunningPod {
    node.clock().advance(Duration::from_secs(1));
    let container = ContainerSpec {
        log_bytes: 1,
        ..ContainerSpec::new("main", "web:1")
    };
    let pod = PodSpec {
        uid: Some(Uid::new(uid)),
        ..PodSpec::new(namespace, name).container(container)
    };
    node.run_pod(&pod).expect("it runs")
}

/// One runtime that fails at this operation.
pub(crate) fn failing(node: &SimNode, operation: Operation) -> FaultyRuntime<SimNode> {
    let refusal = Fault::Refuse(RuntimeError::refused("device busy"));
    let plan = FaultPlan {
        rules: vec![Rule::always(operation, refusal)],
        ..FaultPlan::default()
    };
    FaultyRuntime::new(node.clone(), plan)
}

/// A pass over containers, sandboxes and logs by what a source knows; the names of what went.
pub(crate) fn collect(node: &SimNode, pods: &dyn PodSource) -> Vec<String> {
    let policy = Policy::new(&PolicySpec::default(), "1.36.0".parse().expect("a version")).expect("valid");
    let clock = node.clock().clone();
    let world = World {
        runtime: node,
        logs: Some(node),
        pods,
        clock: &clock,
    };
    let report = now(Node::new(world, Settings::from(&policy)).collect_containers(Occasion::Periodic));
    assert_eq!(report.errors, [""; 0]);
    let name = |action: &NodeAction| match action {
        NodeAction::Container(kubegc_node::container::Action::Remove { container, .. }) => {
            format!("container of {}", container.pod.uid)
        }
        NodeAction::Sandbox(kubegc_node::sandbox::Action::Remove { sandbox, .. }) => {
            format!("sandbox of {}", sandbox.pod.uid)
        }
        NodeAction::Log(kubegc_node::log::Action::RemoveDirectory { entry, .. }) => format!("logs {entry}"),
        other => format!("{other:?}"),
    };
    let mut gone: Vec<_> = report.performed.iter().map(|one| name(&one.action)).collect();
    gone.sort();
    gone
}

fn source(path: &Path, node: &SimNode) -> PodsFile {
    PodsFile::new(path, Arc::new(node.clone()))
}

fn list(pods: &[(&str, &str)]) -> String {
    let pods = pods.iter().map(|(uid, phase)| {
        format!(
            r#"{{"kind":"Pod","metadata":{{"namespace":"shop","name":"{uid}","uid":"{uid}"}},"status":{{"phase":"{phase}"}}}}"#
        )
    });
    let pods: Vec<_> = pods.collect();
    format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[{}],"metadata":{{}}}}"#,
        pods.join(",")
    )
}

fn whole(known: &[(&str, PodState)]) -> Pods {
    Pods {
        known: known.iter().map(|&(uid, state)| (Uid::new(uid), state)).collect(),
        sources_ready: true,
        synced: true,
    }
}

#[test]
fn a_file_that_is_replaced_counts_from_the_next_call_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pods.json");
    let node = sim();
    let source = source(&path, &node);
    assert!(now(source.pods()).is_err(), "it is not there yet");
    fs::write(&path, list(&[("a", "Running"), ("b", "Succeeded")])).expect("written");
    assert_eq!(
        now(source.pods()),
        Ok(whole(&[("a", PodState::LIVING), ("b", PodState::COMPLETED)]))
    );
    let next = folder.path().join("next");
    fs::write(&next, list(&[("c", "Pending")])).expect("written");
    fs::rename(&next, &path).expect("replaced");
    assert_eq!(now(source.pods()), Ok(whole(&[("c", PodState::LIVING)])));
    fs::write(&path, list(&[("c", "Pending")]).replace("]", "")).expect("written");
    assert!(
        now(source.pods()).is_err(),
        "what was known before does not count"
    );
    let yaml = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: d, uid: d}\n";
    fs::write(&path, yaml).expect("written");
    assert_eq!(now(source.pods()), Ok(whole(&[("d", PodState::LIVING)])));
    fs::remove_file(&path).expect("removed");
    assert!(now(source.pods()).is_err());
}

#[test]
fn n2_61_whatever_leaves_a_pod_unknown_is_an_error_that_says_why() {
    let pod = list(&[("a", "Running")]);
    let cases: [(&str, String, &str); 17] = [
        ("empty", String::new(), "pods: holds no document"),
        ("blank", "\n# nothing\n".to_owned(), "pods: holds no document"),
        (
            "cut JSON",
            pod.trim_end_matches('}').to_owned(),
            "pods, document 1: the input ends in the middle of the document, at line 1",
        ),
        (
            "cut YAML",
            "items:\n- metadata: {uid: a}\nkind: PodList".to_owned(),
            "pods, document 1: may be cut off",
        ),
        (
            "cut YAML whose kind comes first",
            "kind: PodList\nitems:\n- metadata: {uid: a}".to_owned(),
            "pods, document 1: may be cut off",
        ),
        (
            "no list",
            "5\n".to_owned(),
            "pods: looks like no document of a node",
        ),
        (
            "another kind",
            r#"{"kind":"DeploymentList","items":[{"metadata":{"uid":"d"}}]}"#.to_owned(),
            "pods: looks like no document of a node",
        ),
        (
            "a list without kind",
            r#"{"apiVersion":"v1","items":[{"metadata":{"uid":"d"}}]}"#.to_owned(),
            "pods: looks like no document of a node",
        ),
        (
            "nothing in it",
            r#"{"kind":"List","items":[]}"#.to_owned(),
            "pods: no document lists the pods",
        ),
        (
            "other things in it",
            r#"{"kind":"List","items":[{"kind":"Service"}]}"#.to_owned(),
            "pods: no document lists the pods",
        ),
        (
            "containers instead",
            r#"{"containers":[]}"#.to_owned(),
            "pods: no document lists the pods",
        ),
        (
            "sandboxes instead",
            r#"{"items":[]}"#.to_owned(),
            "pods: no document lists the pods",
        ),
        (
            "it goes on",
            r#"{"kind":"PodList","metadata":{"continue":"next"},"items":[]}"#.to_owned(),
            "pods, document 1: metadata.continue: the list goes on",
        ),
        (
            "a pod without uid",
            r#"{"kind":"PodList","items":[{"metadata":{"uid":"a"}},{"metadata":{"name":"b"}}]}"#.to_owned(),
            "pods, document 1: items[1].metadata.uid: missing",
        ),
        (
            "a pod with an odd phase",
            r#"{"kind":"Pod","metadata":{"uid":"a"},"status":{"phase":7}}"#.to_owned(),
            "pods, document 1: status.phase: expected a string, found a number",
        ),
        (
            "no items",
            r#"{"kind":"PodList"}"#.to_owned(),
            "pods, document 1: items: missing",
        ),
        (
            "a table",
            "NAME   READY   STATUS\nweb    1/1     Running\n".to_owned(),
            "pods: looks like a table of kubectl get",
        ),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text, expected) in cases {
        let path = folder.path().join("pods");
        fs::write(&path, &text).expect("written");
        let node = sim();
        run(&node, "shop", "web", "w");
        node.end_sandbox(&node.all_sandboxes()[0].id)
            .expect("there is one");
        let error = now(source(&path, &node).pods()).expect_err(name);
        let RuntimeError::Refused { message } = &error else {
            panic!("{name}: {error:?}");
        };
        let expected = format!("{}/{expected}", folder.path().display());
        assert!(message.starts_with(&expected), "{name}: {message}");
        assert_eq!(node.calls().len(), 0, "{name}: the runtime is not asked in vain");
    }
}

#[test]
fn what_is_no_file_is_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = sim();
    let loops = folder.path().join("loop");
    std::os::unix::fs::symlink(&loops, &loops).expect("a link");
    for path in [folder.path(), &loops, Path::new("/dev/null"), Path::new("")] {
        let error = now(source(path, &node).pods()).expect_err("no file").to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("pods.json", &link).expect("a link");
    fs::write(folder.path().join("pods.json"), list(&[("a", "Running")])).expect("written");
    assert_eq!(
        now(source(&link, &node).pods()),
        Ok(whole(&[("a", PodState::LIVING)])),
        "a link to a file is"
    );
}

#[test]
fn where_the_runtime_does_not_list_what_runs_nothing_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pods.json");
    fs::write(&path, list(&[("a", "Running")])).expect("written");
    for operation in [Operation::Containers, Operation::Sandboxes] {
        let source = PodsFile::new(&path, Arc::new(failing(&sim(), operation)));
        assert_eq!(
            now(source.pods()),
            Err(RuntimeError::refused("device busy")),
            "{operation:?}"
        );
    }
}

#[test]
fn n2_60_a_file_that_is_behind_costs_no_running_pod_anything() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pods.json");
    let node = sim();
    run(&node, "shop", "new", "new");
    run(&node, "shop", "done", "done");
    for ended in ["ended", "listed"] {
        let pod = run(&node, "shop", ended, ended);
        node.end_sandbox(&pod.sandbox_id).expect("there is one");
    }
    fs::write(&path, list(&[("listed", "Running"), ("done", "Succeeded")])).expect("written");
    let source = source(&path, &node);
    assert_eq!(
        now(source.pods()),
        Ok(whole(&[
            ("done", PodState::LIVING),
            ("listed", PodState::LIVING),
            ("new", PodState::LIVING)
        ]))
    );
    assert_eq!(
        collect(&node, &source),
        ["container of ended", "logs shop_ended_ended", "sandbox of ended"]
    );
    assert_eq!(collect(&node, &source), [""; 0]);
}

#[test]
fn the_pods_of_the_bundled_node_are_those_that_its_reader_knows() {
    let source = PodsFile::new(bundled().join("kubectl-pods.json"), Arc::new(sim()));
    let told = now(source.pods()).expect("read");
    let mut reader = kubegc_snapshot::NodeReader::new().pods_are_whole();
    reader
        .read("pods", bundled_text("kubectl-pods.json").as_bytes())
        .expect("read");
    assert_eq!(told, reader.finish().expect("read").inventory.pods);
    assert!(told.synced && !told.known.is_empty());
}
