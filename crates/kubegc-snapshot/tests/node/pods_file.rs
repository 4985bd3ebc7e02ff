//! A pod source that reads a file of pods on each call and adds the running pods.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::FutureExt;
use kubegc_core::{
    PodSource, Runtime as _, RuntimeError, Timestamp, Uid,
    node_facts::{PodState, Pods},
};
use kubegc_fixtures::check_transcript;
use kubegc_sim::{
    ContainerSpec, FaultyRuntime, ImageSpec, NodeSettings, PodSpec, SimClock, SimNode,
    runtime::{Fault, FaultPlan, Operation, Rule},
};
use kubegc_snapshot::{PodManifests, PodsFile, read_all_pods};

use crate::{
    common::{api_list, api_pod, bundled, bundled_text},
    escapes::unescaped,
};

/// The response of a simulated node, which is immediate.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("a simulated node responds at once")
}

/// A node without pods, with one image.
pub(crate) fn sim() -> SimNode {
    let node = SimNode::new(
        SimClock::new(Timestamp::from_secs(1_000_000)),
        NodeSettings::default(),
    );
    node.pull(&ImageSpec::new("web:1").layer("web", 10))
        .expect("there is room");
    node
}

/// The order of calls that misses no pod that starts meanwhile.
pub(crate) const LISTED: [Operation; 2] = [Operation::Containers, Operation::Sandboxes];

/// The operations on the node.
pub(crate) fn operations(node: &SimNode) -> Vec<Operation> {
    node.calls().iter().map(|call| call.operation).collect()
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

/// A runtime that fails at this operation.
fn failing(node: &SimNode, operation: Operation) -> FaultyRuntime<SimNode> {
    let refusal = Fault::Refuse(RuntimeError::refused("device busy"));
    let plan = FaultPlan {
        rules: vec![Rule::always(operation, refusal)],
        ..FaultPlan::default()
    };
    FaultyRuntime::new(node.clone(), plan)
}

fn source(path: &Path, node: &SimNode) -> PodsFile {
    PodsFile::new(path, Arc::new(node.clone()))
}

fn list(pods: &[(&str, &str)]) -> String {
    let pods = pods
        .iter()
        .map(|(uid, phase)| api_pod(uid, "", &format!(r#""phase":"{phase}""#)));
    api_list(&pods.collect::<Vec<_>>())
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
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pods.json");
    let node = sim();
    let source = source(&path, &node);
    assert!(now(source.pods()).is_err(), "it is not there yet");
    fs::write(&path, list(&[("a", "Running"), ("b", "Succeeded")])).expect("written");
    assert_eq!(
        now(source.pods()),
        Ok(whole(&[("a", PodState::ACTIVE), ("b", PodState::COMPLETED)]))
    );
    assert_eq!(operations(&node), LISTED);
    let next = directory.path().join("next");
    fs::write(&next, list(&[("c", "Pending")])).expect("written");
    fs::rename(&next, &path).expect("replaced");
    assert_eq!(now(source.pods()), Ok(whole(&[("c", PodState::ACTIVE)])));
    fs::write(&path, list(&[("c", "Pending")]).replace("]", "")).expect("written");
    assert!(
        now(source.pods()).is_err(),
        "the pods of the last call do not count"
    );
    let yaml = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: d, uid: d}\n";
    fs::write(&path, yaml).expect("written");
    assert_eq!(now(source.pods()), Ok(whole(&[("d", PodState::ACTIVE)])));
    fs::remove_file(&path).expect("removed");
    assert!(now(source.pods()).is_err());
}

/// A list is known as a whole, or it is an error with the reason, from a file as from any text.
#[test]
fn n2_61_a_list_is_whole_or_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pods");
    let prefix = format!("{}/", directory.path().display());
    check_transcript("tests/node/pods_file.txt", |input| {
        let text = unescaped(input.trim_start_matches('>').trim_start_matches(' '));
        let pods = read_all_pods("pods", &*text);
        fs::write(&path, &text).expect("written");
        let node = sim();
        let of_file = now(source(&path, &node).pods()).map_err(|error| match error {
            RuntimeError::Refused { message } => RuntimeError::refused(message.replace(&prefix, "")),
            error => error,
        });
        assert_eq!(of_file, pods);
        match pods {
            Ok(pods) => {
                assert!(pods.sources_ready && pods.synced);
                let known = pods.known.iter().map(|(uid, state)| format!("{uid}: {state:?}"));
                known
                    .chain(["no others".to_owned()])
                    .collect::<Vec<_>>()
                    .join("\n")
            }
            Err(error) => {
                assert_eq!(node.calls(), [], "an error needs no call of the runtime");
                error.to_string()
            }
        }
    });
    let mut one_by_one = kubegc_snapshot::NodeReader::new().pods_are_whole();
    let pod = br#"{"kind":"Pod","metadata":{"uid":"a"}}"#;
    one_by_one.read("pod", &pod[..]).expect("read");
    assert!(
        one_by_one.finish().expect("read").inventory.pods.synced,
        "pods declared complete may be separate documents"
    );
}

#[test]
fn a_pod_younger_than_the_file_does_not_count_as_deleted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pods.json");
    let node = sim();
    let names = [
        "before",
        "in-time",
        "later",
        "finished",
        "sandbox-only",
        "container-only",
    ];
    let mut of_pods = Vec::new();
    for name in names {
        // One second passes for each pod, the first begins at 1,000,001.
        let pod = run(&node, "shop", name, name);
        node.end_sandbox(&pod.sandbox_id).expect("there is one");
        of_pods.push((pod.sandbox_id, Arc::clone(&pod.container_ids[0])));
    }
    let [.., (_, of_sandbox_only), (of_container_only, _)] = &of_pods[..] else {
        panic!("six pods")
    };
    now(node.remove_container(of_sandbox_only)).expect("removed");
    let old = Timestamp::from_secs(1);
    node.edit_sandbox(of_container_only, |sandbox| sandbox.created_at = old)
        .expect("there is one");
    let source = source(&path, &node);
    let write = |modified: SystemTime| {
        fs::write(&path, list(&[("finished", "Succeeded")])).expect("written");
        let file = fs::File::options().write(true).open(&path).expect("there");
        file.set_modified(modified).expect("set");
    };
    let all = |from: usize| {
        let mut known: Vec<_> = names[from..]
            .iter()
            .map(|&name| (name, PodState::ACTIVE))
            .collect();
        known.retain(|(name, _)| *name != "finished");
        known.push(("finished", PodState::COMPLETED));
        Ok(whole(&known))
    };
    for (modified_seconds, from) in [
        (0, 0),
        (1_000_000, 0),
        (1_000_011, 0),
        (1_000_012, 1),
        (1_000_013, 2),
        (1_000_014, 3),
        (1_000_017, 6),
        (2_000_000, 6),
    ] {
        write(UNIX_EPOCH + Duration::from_secs(modified_seconds));
        assert_eq!(now(source.pods()), all(from), "{modified_seconds}");
    }
    write(UNIX_EPOCH - Duration::from_secs(5));
    assert_eq!(now(source.pods()), all(0), "an impossible time protects all");
}

#[test]
fn a_path_that_is_no_file_is_not_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = sim();
    let loops = directory.path().join("loop");
    std::os::unix::fs::symlink(&loops, &loops).expect("a link");
    for path in [directory.path(), &loops, Path::new("/dev/null"), Path::new("")] {
        let error = now(source(path, &node).pods()).expect_err("no file").to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("pods.json", &link).expect("a link");
    fs::write(directory.path().join("pods.json"), list(&[("a", "Running")])).expect("written");
    assert_eq!(
        now(source(&link, &node).pods()),
        Ok(whole(&[("a", PodState::ACTIVE)])),
        "a link to a file is"
    );
}

#[test]
fn without_a_listing_of_the_runtime_the_pods_are_unknown() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pods.json");
    fs::write(&path, list(&[("a", "Running")])).expect("written");
    let manifest =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","uid":"w"},"spec":{"containers":[{}]}}"#;
    let manifests = directory.path().join("web.json");
    fs::write(&manifests, manifest).expect("written");
    for operation in [Operation::Containers, Operation::Sandboxes] {
        let runtime = || Arc::new(failing(&sim(), operation));
        let refused = Err(RuntimeError::refused("device busy"));
        assert_eq!(
            now(PodsFile::new(&path, runtime()).pods()),
            refused,
            "{operation:?}"
        );
        let source = PodManifests::new(&manifests, "node-1", runtime());
        assert_eq!(now(source.pods()), refused, "{operation:?}");
    }
}

#[test]
fn n2_60_running_pods_are_known_whatever_an_outdated_file_has() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pods.json");
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
            ("done", PodState::ACTIVE),
            ("listed", PodState::ACTIVE),
            ("new", PodState::ACTIVE)
        ]))
    );
}

#[test]
fn the_pods_of_the_bundled_node_are_those_that_its_reader_knows() {
    let source = PodsFile::new(bundled().join("kubectl-pods.json"), Arc::new(sim()));
    let from_file = now(source.pods()).expect("read");
    let mut reader = kubegc_snapshot::NodeReader::new().pods_are_whole();
    reader
        .read("pods", bundled_text("kubectl-pods.json").as_bytes())
        .expect("read");
    assert_eq!(from_file, reader.finish().expect("read").inventory.pods);
    assert!(from_file.synced && !from_file.known.is_empty());
}
