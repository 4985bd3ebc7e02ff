//! The record of calls to a node, and the calls that it reports as harmful.

use kubegc_core::{
    LogDirectory, PodSource, Runtime,
    node_facts::{ContainerState, LogTarget, PodState},
};
use kubegc_sim::{
    ContainerSpec, ImageSpec, PodSpec, SimNode,
    runtime::{Operation, RunningPod},
};

use crate::node::{JOB, MISSING, WEB, node, now, run};

#[test]
fn every_call_is_recorded_with_its_result() {
    use Operation::*;
    let node = node();
    now(node.containers()).unwrap();
    now(node.sandboxes()).unwrap();
    now(node.images()).unwrap();
    now(node.image_file_system()).unwrap();
    now(node.container_status(MISSING)).unwrap_err();
    now(node.image_id(WEB)).unwrap();
    now(node.stop_container(MISSING, 30)).unwrap();
    now(node.remove_container(MISSING)).unwrap();
    now(node.stop_sandbox(MISSING)).unwrap();
    now(node.remove_sandbox(MISSING)).unwrap();
    now(node.remove_image("x", "kata")).unwrap();
    now(node.pod_entries()).unwrap();
    now(node.container_links()).unwrap();
    now(node.remove_pod_entry("e")).unwrap();
    now(node.remove_container_link("/l")).unwrap_err();
    now(node.remove_container_logs("/p")).unwrap();
    now(node.pods()).unwrap();

    let calls = node.calls();
    let keys: Vec<_> = calls.iter().map(|call| call.key()).collect();
    assert_eq!(
        keys,
        [
            (Containers, ""),
            (Sandboxes, ""),
            (Images, ""),
            (ImageFileSystem, ""),
            (ContainerStatus, MISSING),
            (ImageId, WEB),
            (StopContainer, MISSING),
            (RemoveContainer, MISSING),
            (StopSandbox, MISSING),
            (RemoveSandbox, MISSING),
            (RemoveImage, "x"),
            (PodEntries, ""),
            (ContainerLinks, ""),
            (RemovePodEntry, "e"),
            (RemoveContainerLink, "/l"),
            (RemoveContainerLogs, "/p"),
            (Pods, ""),
        ]
    );
    let failed: Vec<_> = calls
        .iter()
        .filter(|call| call.outcome.is_err())
        .map(|call| call.operation)
        .collect();
    assert_eq!(failed, [ContainerStatus, RemoveContainerLink]);
    assert_eq!(node.changes().len(), 8);
    let of_runtime = calls.iter().filter(|call| call.operation.is_of_runtime());
    assert_eq!(of_runtime.count(), 11);
    let lines: Vec<_> = calls.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines[6],
        format!("1970-01-12T13:46:40Z StopContainer {MISSING} (30 s)")
    );
    assert_eq!(lines[10], "1970-01-12T13:46:40Z RemoveImage x (kata)");
    assert_eq!(
        lines[14],
        "1970-01-12T13:46:40Z RemoveContainerLink /l: not found"
    );
    assert_eq!(node.take_calls(), calls);
    assert!(node.calls().is_empty());
    // Operations of the test are not recorded as calls.
    run(&node, "web", WEB);
    let _ = node.all_containers();
    assert!(node.calls().is_empty() && node.violations().is_empty());
}

struct Case {
    node: SimNode,
    pod: RunningPod,
}

impl Case {
    fn new() -> Self {
        let node = node();
        let spec = ContainerSpec {
            image_volumes: vec![JOB.into()],
            ..ContainerSpec::new("app", WEB)
        };
        let pod = node
            .run_pod(&PodSpec::new("shop", "web").container(spec))
            .unwrap();
        Self { node, pod }
    }

    fn id(&self) -> &str {
        &self.pod.container_ids[0]
    }

    fn set(&self, state: ContainerState) {
        self.node.set_container_state(self.id(), state).unwrap();
    }

    fn pin(&self) {
        let web = ImageSpec::new(WEB).layer("base", 300).layer("web", 200);
        self.node.pull(&web.pinned()).unwrap();
    }
}

/// Operations of a node, and the harm that is reported for them.
const HARMS: &str = "
stop container => RunningContainerStopped
remove container => RunningContainerRemoved
stop container, remove container => RunningContainerStopped
set unknown, remove container => UnknownContainerRemoved
set unknown, stop container, remove container =>
set created, remove container =>
stop sandbox => ReadySandboxStopped, RunningContainerStopped
remove sandbox => ReadySandboxRemoved, RunningContainerRemoved
end sandbox, stop sandbox, remove sandbox =>
remove web image => UsedImageRemoved
end sandbox, remove web image => UsedImageRemoved
remove job image => MountedImageRemoved
pin web image, remove web image => PinnedImageRemoved, UsedImageRemoved
remove kata image =>
end sandbox, remove container, remove web image, remove job image =>
remove entry => LivingPodLogsRemoved
complete pod, remove entry => LivingPodLogsRemoved
delete pod, remove entry => LivingPodLogsRemoved
evict pod, remove entry =>
forget pod, remove entry =>
remove logs, remove link => RunningContainerLogsRemoved, LiveLinkRemoved
end sandbox, remove link => LiveLinkRemoved
end sandbox, remove logs, remove link =>
remove dangling link =>
remove foreign link => LiveLinkRemoved
";

fn operate(case: &Case, operation: &str) {
    let (node, uid) = (&case.node, &case.pod.pod.uid);
    let insert = |name: &str, target| {
        let path = format!("/var/log/containers/{name}.log");
        node.insert_log_link(&path, target);
        path
    };
    match operation {
        "stop container" => now(node.stop_container(case.id(), 2)).unwrap(),
        "remove container" => now(node.remove_container(case.id())).unwrap(),
        "set unknown" => case.set(ContainerState::Unknown),
        "set created" => case.set(ContainerState::Created),
        "stop sandbox" => now(node.stop_sandbox(&case.pod.sandbox_id)).unwrap(),
        "remove sandbox" => now(node.remove_sandbox(&case.pod.sandbox_id)).unwrap(),
        "end sandbox" => node.end_sandbox(&case.pod.sandbox_id).unwrap(),
        "pin web image" => case.pin(),
        "remove web image" => now(node.remove_image(WEB, "")).unwrap(),
        "remove job image" => now(node.remove_image(JOB, "")).unwrap(),
        "remove kata image" => now(node.remove_image(WEB, "kata")).unwrap(),
        "complete pod" => node.complete_pod(uid).unwrap(),
        "evict pod" => node.evict_pod(uid).unwrap(),
        "forget pod" => node.forget_pod(uid),
        "delete pod" => {
            let deleting = PodState {
                deleted: true,
                ..PodState::ACTIVE
            };
            node.set_pod(uid, deleting);
        }
        "remove entry" => now(node.remove_pod_entry(&format!("shop_web_{uid}"))).unwrap(),
        "remove logs" => {
            let log = node.log_path(case.id()).unwrap();
            now(node.remove_container_logs(&log)).unwrap();
        }
        "remove link" => {
            let link = now(node.container_links()).unwrap()[0].path.clone();
            now(node.remove_container_link(&link)).unwrap();
        }
        "remove dangling link" => {
            now(node.remove_container_link(&insert("a", LogTarget::Missing))).unwrap();
        }
        "remove foreign link" => {
            now(node.remove_container_link(&insert("b", LogTarget::Exists))).unwrap();
        }
        other => panic!("there is no operation {other}"),
    }
}

#[test]
fn harmful_calls_are_reported() {
    for row in HARMS.lines().filter(|row| !row.is_empty()) {
        let (operations, expected) = row.split_once("=>").unwrap();
        let case = Case::new();
        for operation in operations.trim().split(", ") {
            operate(&case, operation);
        }
        let harms = case.node.violations().into_iter().map(|violation| {
            let harm = format!("{:?}", violation.harm);
            if let Some((_, fields)) = harm.split_once(' ') {
                assert_eq!(fields, format!("{{ container_id: {:?} }}", case.id()), "{row}");
            }
            harm.split(' ').next().unwrap().to_owned()
        });
        assert_eq!(harms.collect::<Vec<_>>().join(", "), expected.trim(), "{row}");
    }
}

#[test]
fn a_violation_has_the_time_the_call_and_the_object() {
    let case = Case::new();
    case.pin();
    now(case.node.remove_image(WEB, "")).unwrap();
    let violation = &case.node.violations()[0];
    assert_eq!(
        (violation.operation, &*violation.target),
        (Operation::RemoveImage, WEB)
    );
    assert_eq!(
        violation.to_string(),
        "1970-01-12T13:46:40Z RemoveImage shop/web:1: PinnedImageRemoved"
    );
}
