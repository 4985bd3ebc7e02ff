//! The quarantine of missing nodes, undetermined terminated pods, and the changes that matter.

use std::{sync::Arc, time::Duration};

use crate::common::{affected, at, cache, context, object, play, record};
use kubegc_controllers::{
    Cache, Context, Controller as _, Deadlines, Decision, Input, Key, Manager, Output, PodGc, Request,
    Response, Wire,
};
use kubegc_core::{KubernetesVersion, StoreError, Timestamp, record::Resource};

fn latest() -> PodGc {
    PodGc::new(KubernetesVersion::LATEST)
}

/// A time this many seconds after the first sync.
fn second(seconds: i64) -> Timestamp {
    Timestamp::from_secs(at("12:00").as_secs() + seconds)
}

const OUT: &str = r#"v1 Node n spec.taints=[{"key":"node.kubernetes.io/out-of-service","effect":"NoSchedule"}]
    status.conditions=[{"type":"Ready","status":"False"}]"#;
const READY: &str = r#"v1 Node n spec.taints=[] status.conditions=[{"type":"Ready","status":"True"}]"#;
const ORPHAN: &str = "v1 Pod shop/web spec.nodeName=gone status.phase=Running";

/// Syncs one after another, with their quarantine.
#[derive(Debug)]
struct Syncs {
    controller: PodGc,
    cache: Cache,
    deadlines: Deadlines,
}

impl Syncs {
    fn new(controller: PodGc, objects: &[&str]) -> Self {
        let objects: Vec<_> = objects.iter().map(|line| object(line)).collect();
        Self {
            controller,
            cache: cache(&controller, &objects),
            deadlines: Deadlines::new(),
        }
    }

    fn decide(&self, now: Timestamp) -> Decision {
        let cx = Context {
            deadlines: &self.deadlines,
            ..context(&self.cache, now, Wire::AsUpstream)
        };
        self.controller.reconcile(&cx, &Key::cluster(""))
    }

    /// The number of requests of a sync; live reads get this response.
    fn sync(&mut self, now: Timestamp, node: &Response) -> usize {
        let decision = self.decide(now);
        self.deadlines = decision.deadlines.clone().unwrap_or_default();
        let respond = |request: &Request| match request {
            Request::Get { .. } => node.clone(),
            _ => Response::Done,
        };
        decision.actions.len() + decision.steps.map_or(0, |steps| play(&steps, respond).len() - 1)
    }
}

fn gone() -> Response {
    Response::Failed(StoreError::NotFound)
}

/// Recordings have the passes; they do not have the time of the next one.
#[test]
fn l1_10_a_quarantine_ends_at_its_first_end_and_does_not_overflow() {
    let mut syncs = Syncs::new(latest(), &[ORPHAN]);
    for seconds in [0, 20, 39] {
        assert_eq!(syncs.sync(second(seconds), &gone()), 0);
        assert_eq!(syncs.decide(second(seconds)).requeue_at, Some(second(40)));
    }
    // The longest quarantine does not overflow. At the last instant every quarantine is over.
    for nanos in [i64::MIN, -1, 0, i64::MAX - 1, i64::MAX] {
        let mut syncs = Syncs::new(latest(), &[ORPHAN]);
        syncs.controller.quarantine = Duration::MAX;
        let now = Timestamp::from_nanos(nanos);
        assert_eq!(syncs.sync(now, &gone()) == 0, nanos != i64::MAX, "{nanos}");
    }
}

#[test]
fn an_incomplete_list_leaves_the_quarantine() {
    for resource in [Resource::Pods, Resource::Nodes] {
        let mut syncs = Syncs::new(latest(), &[ORPHAN]);
        syncs.sync(second(0), &gone());
        syncs.cache.set_listed(resource, Err(StoreError::Unlisted));
        let decision = syncs.decide(second(60));
        assert!(decision.actions.is_empty() && decision.steps.is_none() && decision.deadlines.is_none());
    }
}

#[test]
fn terminated_pods_are_unknown_if_they_depend_on_unread_pods() {
    let known = [
        "v1 Pod shop/old status.phase=Failed metadata.creationTimestamp=10:01:00",
        "v1 Pod shop/middle status.phase=Failed metadata.creationTimestamp=10:02:00",
        "v1 Pod shop/young status.phase=Failed metadata.creationTimestamp=10:03:00",
    ];
    for (fields, fact) in [
        ("status.phase=?", "status.phase could not be read"),
        (
            "status.phase=Failed status.reason=?",
            "status.reason could not be read",
        ),
        (
            "status.phase=Failed metadata.creationTimestamp=null",
            "metadata.creationTimestamp could not be read",
        ),
        (
            "status.phase=Failed metadata.uid=\"\"",
            "its metadata could not be read in full",
        ),
    ] {
        let hidden = format!("v1 Pod shop/hidden {fields}");
        let fact = format!("pod/hidden -n shop: {fact}");
        for (threshold, deleted, undetermined) in [
            (1, "old middle", "young"),
            (2, "old", "middle"),
            (3, "", "old"),
            (4, "", ""),
        ] {
            let mut controller = latest();
            controller.terminated_pod_threshold = threshold;
            let decision = Syncs::new(controller, &[&known[..], &[&*hidden]].concat()).decide(second(0));
            let found = decision
                .actions
                .iter()
                .map(|action| action.object.name.to_string());
            assert_eq!(found.collect::<Vec<_>>().join(" "), deleted, "{threshold} {fact}");
            let mut unknown = Vec::new();
            let mut is_unknown = false;
            for found in &decision.unknown {
                if &*found.object.name == "hidden" {
                    is_unknown = true;
                } else {
                    assert_eq!(found.reason.to_string(), fact);
                    unknown.push(found.object.name.to_string());
                }
            }
            assert_eq!(unknown.join(" "), undetermined, "{threshold} {fact}");
            // Its own outcome is known where no more pods have terminated than are retained.
            let is_expected = threshold < 4 || fact.contains("in full");
            assert_eq!(is_unknown, is_expected, "{threshold} {fact}");
        }
    }
}

#[test]
fn only_relevant_changes_cause_a_sync() {
    let unknown = "v1 Node n spec.taints=? status.conditions=[]";
    let running = "v1 Pod shop/p spec.nodeName=n status.phase=Running";
    let labelled = "v1 Pod shop/p label:a=b spec.nodeName=n status.phase=Running";
    let ended = "v1 Pod shop/p spec.nodeName=n status.phase=Succeeded";
    let terminating = "v1 Pod shop/p deleted:11:59:55 spec.nodeName=n status.phase=Running";
    let hidden = "v1 Pod shop/p spec.nodeName=n status.phase=?";
    let pending = "v1 Pod shop/p status.phase=Pending";
    let ending = "v1 Pod shop/p deleted:11:59:55 status.phase=Pending";
    for (node, old, new, expected) in [
        (READY, "", running, false),
        (READY, running, labelled, false),
        (READY, running, terminating, false),
        (READY, terminating, "", false),
        (READY, running, ended, true),
        (READY, ended, "", false),
        (READY, "", pending, false),
        (READY, pending, ending, true),
        (READY, "", ORPHAN, true),
        (READY, running, hidden, true),
        (READY, hidden, running, true),
        (READY, hidden, "", true),
        (OUT, running, terminating, true),
        (unknown, running, terminating, true),
        (OUT, "", running, false),
        (READY, "", READY, false),
        (READY, READY, &*format!("{READY} label:a=b"), false),
        (OUT, READY, OUT, true),
        (OUT, OUT, &*format!("{OUT} label:a=b"), false),
        (READY, OUT, READY, false),
        (unknown, READY, unknown, true),
        (READY, unknown, READY, true),
        (READY, "v1 Node m spec.taints=[]", "", true),
    ] {
        let states = [old, new].map(|line| (!line.is_empty()).then(|| record(object(line))));
        let resource = states.iter().flatten().next().expect("an object").0;
        let [old_record, new_record] = [0, 1].map(|at: usize| states[at].as_ref().map(|(_, record)| record));
        let cache = cache(&latest(), &[object(node)]);
        let keys = affected(&latest(), &cache, resource, old_record, new_record);
        assert_eq!(!keys.is_empty(), expected, "{old} -> {new}");
    }
}

#[test]
fn other_pods_do_not_matter_to_a_pod_on_a_known_node() {
    let mut manager = Manager::new(vec![Arc::new(latest())], Wire::Strict, second(0));
    for resource in [Resource::Pods, Resource::Nodes] {
        let records = Err(StoreError::Unlisted);
        manager.handle(second(0), Input::Listed { resource, records });
    }
    for (position, (line, expected)) in [
        ("v1 Node here spec.taints=[] status.conditions=[]", ""),
        ("v1 Pod shop/running spec.nodeName=here status.phase=Running", ""),
        (
            "v1 Pod shop/ended spec.nodeName=here status.phase=Succeeded",
            "ended",
        ),
        (
            "v1 Pod shop/orphan spec.nodeName=elsewhere status.phase=Running",
            "ended orphan",
        ),
        ("v1 Node elsewhere spec.taints=[] status.conditions=[]", "ended"),
        (
            "v1 Pod shop/running spec.nodeName=here status.phase=Failed",
            "ended running",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (resource, record) = record(object(line));
        let now = 20 * i64::try_from(position).expect("small");
        let record = Box::new(record);
        manager.handle(second(now), Input::Applied { resource, record });
        assert!(matches!(
            manager.poll_output(second(now + 20)),
            Output::Wait { .. }
        ));
        let unknown = manager.unknown();
        let mut names: Vec<String> = unknown.map(|(_, object, ..)| object.name.to_string()).collect();
        names.sort();
        assert_eq!(names.join(" "), expected, "{line}");
    }
}
