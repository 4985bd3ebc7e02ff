//! The record of calls to a node.

use kubegc_core::{LogDirectory, PodSource, Runtime};
use kubegc_sim::runtime::Operation;

use crate::node::{MISSING, WEB, node, now, run};

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
