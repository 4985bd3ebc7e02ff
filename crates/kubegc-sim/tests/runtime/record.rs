//! The record of calls to a node, and the calls that it reports as harmful.

use kubegc_core::{
    LogDirectory, PodSource, Runtime,
    node_facts::{ContainerState, LogTarget, PodState},
};
use kubegc_sim::{
    ContainerSpec, ImageSpec, PodSpec, SimNode,
    runtime::{Harm, Operation, RunningPod},
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

    fn end(&self) {
        self.node.end_sandbox(&self.pod.sandbox_id).unwrap();
    }

    fn link(&self) -> String {
        now(self.node.container_links()).unwrap()[0].path.to_string()
    }

    fn entry(&self) -> String {
        format!("shop_web_{}", self.pod.pod.uid)
    }

    fn log(&self) -> String {
        self.node.log_path(self.id()).unwrap().to_string()
    }
}

type Calls = fn(&Case);
/// A name, the calls, and the harm that they do.
type Row<'a> = (&'static str, Calls, &'a [fn(&Case) -> Harm]);

fn check(name: &str, calls: Calls, expected: &[fn(&Case) -> Harm]) {
    let case = Case::new();
    let harms: Vec<_> = expected.iter().map(|harm| harm(&case)).collect();
    calls(&case);
    let violations = case.node.violations();
    let reported: Vec<_> = violations
        .iter()
        .map(|violation| violation.harm.clone())
        .collect();
    assert_eq!(reported, harms, "{name}");
}

#[test]
fn faults_of_containers_and_sandboxes_are_reported() {
    let stopped: fn(&Case) -> Harm = |case| Harm::RunningContainerStopped {
        container_id: case.id().into(),
    };
    let removed: fn(&Case) -> Harm = |case| Harm::RunningContainerRemoved {
        container_id: case.id().into(),
    };
    let unknown: fn(&Case) -> Harm = |case| Harm::UnknownContainerRemoved {
        container_id: case.id().into(),
    };
    let cases: [Row<'_>; 9] = [
        (
            "stop running",
            |case| now(case.node.stop_container(case.id(), 2)).unwrap(),
            &[stopped],
        ),
        (
            "remove running",
            |case| now(case.node.remove_container(case.id())).unwrap(),
            &[removed],
        ),
        (
            "stop, then remove",
            |case| {
                now(case.node.stop_container(case.id(), 2)).unwrap();
                now(case.node.remove_container(case.id())).unwrap();
            },
            &[stopped],
        ),
        (
            "remove unknown",
            |case| {
                case.set(ContainerState::Unknown);
                now(case.node.remove_container(case.id())).unwrap();
            },
            &[unknown],
        ),
        (
            "stop unknown, then remove",
            |case| {
                case.set(ContainerState::Unknown);
                now(case.node.stop_container(case.id(), 2)).unwrap();
                now(case.node.remove_container(case.id())).unwrap();
            },
            &[],
        ),
        (
            "remove created",
            |case| {
                case.set(ContainerState::Created);
                now(case.node.remove_container(case.id())).unwrap();
            },
            &[],
        ),
        (
            "stop a ready sandbox",
            |case| now(case.node.stop_sandbox(&case.pod.sandbox_id)).unwrap(),
            &[|_| Harm::ReadySandboxStopped, stopped],
        ),
        (
            "remove a ready sandbox",
            |case| now(case.node.remove_sandbox(&case.pod.sandbox_id)).unwrap(),
            &[|_| Harm::ReadySandboxRemoved, removed],
        ),
        (
            "stop and remove a sandbox that ended",
            |case| {
                case.end();
                now(case.node.stop_sandbox(&case.pod.sandbox_id)).unwrap();
                now(case.node.remove_sandbox(&case.pod.sandbox_id)).unwrap();
            },
            &[],
        ),
    ];
    for (name, calls, expected) in cases {
        check(name, calls, expected);
    }
}

#[test]
fn faults_of_images_are_reported() {
    let used: fn(&Case) -> Harm = |case| Harm::UsedImageRemoved {
        container_id: case.id().into(),
    };
    let mounted: fn(&Case) -> Harm = |case| Harm::MountedImageRemoved {
        container_id: case.id().into(),
    };
    let cases: [Row<'_>; 6] = [
        (
            "used",
            |case| now(case.node.remove_image(WEB, "")).unwrap(),
            &[used],
        ),
        (
            "used by one that ended",
            |case| {
                case.end();
                now(case.node.remove_image(WEB, "")).unwrap();
            },
            &[used],
        ),
        (
            "mounted",
            |case| now(case.node.remove_image(JOB, "")).unwrap(),
            &[mounted],
        ),
        (
            "pinned and used",
            |case| {
                case.pin();
                now(case.node.remove_image(WEB, "")).unwrap();
            },
            &[|_| Harm::PinnedImageRemoved, used],
        ),
        (
            "for another handler",
            |case| now(case.node.remove_image(WEB, "kata")).unwrap(),
            &[],
        ),
        (
            "no longer used",
            |case| {
                case.end();
                now(case.node.remove_container(case.id())).unwrap();
                now(case.node.remove_image(WEB, "")).unwrap();
                now(case.node.remove_image(JOB, "")).unwrap();
            },
            &[],
        ),
    ];
    for (name, calls, expected) in cases {
        check(name, calls, expected);
    }
}

#[test]
fn faults_of_logs_are_reported() {
    let running: fn(&Case) -> Harm = |case| Harm::RunningContainerLogsRemoved {
        container_id: case.id().into(),
    };
    let cases: [Row<'_>; 9] = [
        (
            "entry of a living pod",
            |case| now(case.node.remove_pod_entry(&case.entry())).unwrap(),
            &[|_| Harm::LivingPodLogsRemoved],
        ),
        (
            "n2_62 entry of a completed pod",
            |case| {
                case.node.complete_pod(&case.pod.pod.uid).unwrap();
                now(case.node.remove_pod_entry(&case.entry())).unwrap();
            },
            &[|_| Harm::LivingPodLogsRemoved],
        ),
        (
            "entry of a pod that is being deleted",
            |case| {
                let deleting = PodState {
                    deleted: true,
                    ..PodState::ACTIVE
                };
                case.node.set_pod(&case.pod.pod.uid, deleting);
                now(case.node.remove_pod_entry(&case.entry())).unwrap();
            },
            &[|_| Harm::LivingPodLogsRemoved],
        ),
        (
            "entry of an evicted pod",
            |case| {
                case.node.evict_pod(&case.pod.pod.uid).unwrap();
                now(case.node.remove_pod_entry(&case.entry())).unwrap();
            },
            &[],
        ),
        (
            "entry of a pod that is no longer known",
            |case| {
                case.node.forget_pod(&case.pod.pod.uid);
                now(case.node.remove_pod_entry(&case.entry())).unwrap();
            },
            &[],
        ),
        (
            "log and link of a running container",
            |case| {
                let link = case.link();
                now(case.node.remove_container_logs(&case.log())).unwrap();
                now(case.node.remove_container_link(&link)).unwrap();
            },
            &[running, |_| Harm::LiveLinkRemoved],
        ),
        (
            "link of a container that ended, whose log exists",
            |case| {
                case.end();
                now(case.node.remove_container_link(&case.link())).unwrap();
            },
            &[|_| Harm::LiveLinkRemoved],
        ),
        (
            "log, then link, of a container that ended",
            |case| {
                case.end();
                now(case.node.remove_container_logs(&case.log())).unwrap();
                now(case.node.remove_container_link(&case.link())).unwrap();
            },
            &[],
        ),
        (
            "links without a container",
            |case| {
                case.node
                    .insert_log_link("/var/log/containers/a.log", LogTarget::Missing);
                case.node
                    .insert_log_link("/var/log/containers/b.log", LogTarget::Exists);
                now(case.node.remove_container_link("/var/log/containers/a.log")).unwrap();
                now(case.node.remove_container_link("/var/log/containers/b.log")).unwrap();
            },
            &[|_| Harm::LiveLinkRemoved],
        ),
    ];
    for (name, calls, expected) in cases {
        check(name, calls, expected);
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
