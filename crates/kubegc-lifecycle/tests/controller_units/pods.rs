//! Pods that have ended, where too little is known of others.

use std::time::Duration;

use kubegc_core::Timestamp;
use kubegc_lifecycle::{
    controller::Mechanism,
    fields::{Fields, Node, Record},
    object::Resource::{Nodes, Pods},
    pod::Status,
};

use crate::support::{Cluster, Run, only, pod, record, unread};

/// A pod that ended, created so many seconds after the beginning of all times.
fn ended(name: &str, created: i64) -> Record {
    let mut pod = pod(name, &[]);
    pod.meta.creation_timestamp = Some(Timestamp::from_secs(created));
    if let Fields::Pod(fields) = &mut pod.fields {
        fields.status = Some(Status::new("Succeeded"));
    }
    pod
}

fn run(threshold: i32, pods: impl IntoIterator<Item = Record>) -> Run {
    let mut settings = only(Mechanism::Pods);
    if let Some(pods) = &mut settings.pods {
        pods.terminated_threshold = threshold;
    }
    let node = Node::default();
    let cluster = Cluster::default()
        .with(Nodes, [record("", "node", Fields::Node(node))])
        .with(Pods, pods);
    Run::new(settings, &cluster)
}

#[test]
fn pods_that_may_have_ended_may_be_one_too_many() {
    let pods = [ended("a", 1), ended("b", 2), unread(&ended("c", 3))];
    let of = |name: &str, reason: &str| format!("Pod shop/{name}: {reason}");
    let open = "2 pods are terminated, 2 may stay, and which ones go hangs on 1 that were not read in full";
    let mut over = run(2, pods.clone());
    let undecided = vec![of("a", open), of("c", "its node is not known")];
    assert_eq!(over.outcome(), (vec![], undecided));
    let mut under = run(3, pods);
    assert_eq!(under.outcome(), (vec![], vec![of("c", "its node is not known")]));
    // Read, it is: the next pass sees it.
    over.apply(Pods, &ended("c", 3));
    over.now = over.now.saturating_add(Duration::from_secs(20));
    assert_eq!(over.works(), ["delete a"]);
}
