//! Logs: entries of pods, files of containers, links that may dangle.

use kubegc_core::{LogDirectory, Runtime, RuntimeError, node_facts::LogTarget};
use kubegc_sim::{ContainerSpec, PodSpec, SimNode, runtime::RunningPod};

use crate::node::{WEB, free, node, now, texts};

fn logging(node: &SimNode, name: &str) -> RunningPod {
    let spec = ContainerSpec {
        log_bytes: 30,
        ..ContainerSpec::new("app", WEB)
    };
    node.run_pod(&PodSpec::new("shop", name).container(spec)).unwrap()
}

fn entry_of(pod: &RunningPod) -> String {
    format!("shop_{}_{}", pod.pod.name, pod.pod.uid)
}

/// The bytes of logs on a node with both images.
fn logs_bytes(node: &SimNode) -> u64 {
    400 - free(node)
}

fn targets(node: &SimNode) -> Vec<LogTarget> {
    now(node.container_links())
        .unwrap()
        .iter()
        .map(|link| link.target)
        .collect()
}

#[test]
fn a_started_container_has_a_log_and_a_link_to_it() {
    let node = node();
    let pod = logging(&node, "web");
    let (id, uid) = (&pod.container_ids[0], &pod.pod.uid);
    let entry = format!("shop_web_{uid}");
    assert_eq!(texts(&now(node.pod_entries()).unwrap()), [entry.as_str()]);
    let status = now(node.container_status(id)).unwrap().unwrap();
    assert_eq!(*status.log_path, *format!("/var/log/pods/{entry}/app/0.log"));
    assert_eq!(node.log_path(id), Some(status.log_path));
    let links = now(node.container_links()).unwrap();
    assert_eq!(
        *links[0].path,
        *format!("/var/log/containers/web_shop_app-{id}.log")
    );
    assert_eq!((links.len(), links[0].target), (1, LogTarget::Exists));
    // One that was never started has neither.
    node.create_container(&pod.sandbox_id, &ContainerSpec::new("late", WEB))
        .unwrap();
    assert_eq!(now(node.container_links()).unwrap().len(), 1);
    assert_eq!(logs_bytes(&node), 30);
}

#[test]
fn logs_outlive_their_container_until_they_are_removed() {
    let node = node();
    let pod = logging(&node, "web");
    let id = &pod.container_ids[0];
    let path = node.log_path(id).unwrap();
    node.write_log(id, 3).unwrap();
    now(node.remove_sandbox(&pod.sandbox_id)).unwrap();
    assert_eq!((logs_bytes(&node), targets(&node)), (33, vec![LogTarget::Exists]));
    assert_eq!(now(node.remove_container_logs(&path)), Ok(()));
    assert_eq!((logs_bytes(&node), targets(&node)), (0, vec![LogTarget::Missing]));
    assert_eq!(now(node.remove_container_logs(&path)), Ok(()), "again");
    let link = now(node.container_links()).unwrap()[0].path.clone();
    assert_eq!(now(node.remove_container_link(&link)), Ok(()));
    assert_eq!(
        now(node.remove_container_link(&link)),
        Err(RuntimeError::NotFound)
    );
    assert_eq!(now(node.pod_entries()).unwrap().len(), 1, "the entry stays");
}

#[test]
fn removing_logs_by_path_keeps_the_logs_of_other_containers() {
    let node = node();
    let pod = logging(&node, "web");
    let mut last = pod.container_ids[0].clone();
    for _ in 0..10 {
        last = node.restart_container(&last).unwrap();
    }
    assert_eq!(logs_bytes(&node), 330);
    now(node.remove_container_logs("")).unwrap();
    assert_eq!(logs_bytes(&node), 330, "an empty path is not a prefix");
    // 1.log, not 10.log.
    let path = node.log_path(&node.all_containers()[1].id).unwrap();
    now(node.remove_container_logs(&path)).unwrap();
    assert_eq!(logs_bytes(&node), 300);
}

#[test]
fn removing_an_entry_removes_all_below_it_and_nothing_else() {
    let node = node();
    let (web, other) = (logging(&node, "web"), logging(&node, "other"));
    node.insert_log_entry("shop_web", 11).unwrap();
    let entry = entry_of(&web);
    for _ in 0..2 {
        assert_eq!(now(node.remove_pod_entry(&entry)), Ok(()));
        assert_eq!(logs_bytes(&node), 41);
    }
    assert_eq!(
        texts(&now(node.pod_entries()).unwrap()),
        [entry_of(&other).as_str(), "shop_web"]
    );
    // A running container logs to a deleted file, and its next attempt has no log directory.
    assert_eq!(node.write_log(&web.container_ids[0], 5), Ok(0));
    let next = node.restart_container(&web.container_ids[0]).unwrap();
    assert_eq!((node.write_log(&next, 5), logs_bytes(&node)), (Ok(0), 41));
    assert_eq!(
        targets(&node)
            .iter()
            .filter(|target| **target == LogTarget::Missing)
            .count(),
        2
    );
}

#[test]
fn n6_2_names_outside_the_directory_are_refused() {
    let node = node();
    logging(&node, "web");
    for entry in ["", ".", "..", "../pods", "a/b", "/var/log/pods"] {
        let answer = now(node.remove_pod_entry(entry));
        assert!(matches!(answer, Err(RuntimeError::Refused { .. })), "{entry:?}");
    }
    assert_eq!(logs_bytes(&node), 30);
}

#[test]
fn n2_44_only_links_that_match_the_pattern_are_listed() {
    let node = node();
    let path = |name: &str| format!("/var/log/containers/{name}");
    let links = [
        ("b-123456.log", LogTarget::Unknown),
        ("a.log", LogTarget::Missing),
        ("c.txt", LogTarget::Missing),
        ("deep/d.log", LogTarget::Missing),
    ];
    for (name, target) in links {
        node.insert_log_link(&path(name), target);
    }
    node.insert_log_link("/elsewhere/e.log", LogTarget::Missing);
    let listed = now(node.container_links()).unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|link| (link.path.to_string(), link.target))
        .collect();
    assert_eq!(
        listed,
        [
            (path("a.log"), LogTarget::Missing),
            (path("b-123456.log"), LogTarget::Unknown)
        ]
    );
}
