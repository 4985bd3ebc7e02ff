//! What holds for every set of pods and nodes.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{Planner, Timestamp};
use kubegc_lifecycle::{
    object::{Act, Live, Object, Resource},
    pod::{Action, Facts, LiveNode, LiveNodes, Node, Pod, Quarantine, Reason, Settings, Status},
};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::support::{PodPlan, at, evicted, out_of_service, pod, release, terminating};

fn pods() -> impl Strategy<Value = Vec<Pod>> {
    let phase = select(vec![
        "",
        "Pending",
        "Running",
        "Unknown",
        "Succeeded",
        "Failed",
        "Odd",
    ]);
    let node = select(vec!["", "here", "out", "gone", "lost"]);
    let one = (0..12_u8, phase, node, 0..4_i64, any::<[bool; 2]>(), 0..12_u8);
    vec(one, 0..14).prop_map(|seeds| {
        let mut names = BTreeSet::new();
        let mut pods = Vec::new();
        for (name, phase, node, age, [is_deleting, is_evicted], unknown) in seeds {
            if !names.insert(name) {
                continue;
            }
            let mut pod = pod(&format!("p{name}"), phase, node, age);
            if is_evicted {
                pod = evicted(pod);
            }
            if is_deleting {
                pod = terminating(pod);
            }
            match unknown {
                0 => pod.status = None,
                1 => pod.node_name = None,
                2 => pod.meta.creation_timestamp = None,
                3 => pod.meta.namespace = "other".into(),
                4 => pod.meta.uid = "".into(),
                _ => {}
            }
            pods.push(pod);
        }
        pods
    })
}

fn answers() -> impl Strategy<Value = LiveNode> {
    let answer = select(vec![
        Live::NotAsked,
        Live::NotFound,
        Live::NotFound,
        Live::Found(()),
        Live::Failed("timeout".into()),
    ]);
    (answer, -60..5_i64).prop_map(|(answer, seconds)| LiveNode {
        read_at: at(seconds),
        answer,
    })
}

fn facts() -> impl Strategy<Value = Facts> {
    let nodes = select(vec![0_u8, 1, 2]);
    let waiting = vec((select(vec!["gone", "lost", "here"]), -50..50_i64), 0..3);
    (pods(), nodes, waiting, answers(), answers()).prop_map(|(pods, nodes, waiting, gone, lost)| {
        let mut facts = Facts::new(pods, vec![Node::new("here", nodes > 0)]);
        if let (true, Ok(all)) = (nodes > 1, &mut facts.nodes) {
            all.push(out_of_service(Node::new("out", false), "NoExecute"));
        }
        let mut quarantine = Quarantine::default();
        for (name, seconds) in waiting {
            quarantine.add(&name.into(), at(seconds));
        }
        facts.quarantine = quarantine;
        let reads: [(Arc<str>, _); 2] = [("gone".into(), gone), ("lost".into(), lost)];
        facts.live_nodes = LiveNodes::Of(reads.into());
        facts
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    (select(vec!["1.20", "1.26", "1.36"]), -1..4).prop_map(|(text, threshold)| {
        let mut settings = release(text);
        settings.terminated_threshold = threshold;
        settings
    })
}

fn objects(facts: &Facts) -> Vec<Object> {
    let pods = facts.pods.iter().flatten();
    let mut all: Vec<Object> = pods.map(|pod| Object::new(Resource::Pods, &pod.meta)).collect();
    all.sort();
    all
}

/// When a pass at 0 s asks for the next one, and whether a node left the quarantine: pod by pod, by the words of the contract.
fn next_pass(facts: &Facts, settings: &Settings) -> (Option<Timestamp>, bool) {
    let LiveNodes::Of(reads) = &facts.live_nodes else {
        unreachable!("reads are given")
    };
    let (mut next, mut has_left) = (None, false);
    for pod in facts.pods.iter().flatten() {
        let is_listed = |name: &str| facts.nodes.iter().flatten().any(|node| &*node.name == name);
        let name = pod.node_name.as_deref().unwrap_or_default();
        if name.is_empty() || is_listed(name) || pod.meta.uid.is_empty() {
            continue;
        }
        let before = facts.quarantine.ready_at.get(name).copied();
        let ends_at = before.map_or(at(40), |ends_at| ends_at.min(at(40)));
        let is_read =
            |read: &&LiveNode| read.read_at.as_nanos() >= ends_at.as_nanos() && read.answer != Live::NotAsked;
        let asks_at = if ends_at > at(0) {
            ends_at
        } else if reads.get(name).filter(is_read).is_some() {
            has_left = true;
            at(0).saturating_add(settings.period)
        } else {
            continue;
        };
        next = Some(next.map_or(asks_at, |next: Timestamp| next.min(asks_at)));
    }
    (next, has_left)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn every_pod_goes_or_stays_once(facts in facts(), settings in settings()) {
        let plan = settings.plan(&facts, at(0));
        let gone = plan.actions.iter().map(|action| action.object().clone());
        let mut all: Vec<Object> = gone.chain(plan.kept.iter().map(|kept| kept.object.clone())).collect();
        all.sort();
        prop_assert_eq!(all, objects(&facts));
        prop_assert!(plan.actions.iter().all(|action| action.expect().uid.is_some()));
    }

    #[test]
    fn the_order_of_facts_means_nothing(facts in facts(), settings in settings(), by in 0..20_usize) {
        let plan = settings.plan(&facts, at(0));
        let mut other = facts;
        if let (Ok(pods), Ok(nodes)) = (&mut other.pods, &mut other.nodes) {
            let by = by.checked_rem(pods.len()).unwrap_or(0);
            pods.rotate_left(by);
            pods.reverse();
            nodes.reverse();
        }
        prop_assert_eq!(settings.plan(&other, at(0)), plan);
    }

    #[test]
    fn once_carried_out_nothing_is_left_to_do(facts in facts(), settings in settings()) {
        let plan = settings.plan(&facts, at(0));
        // A world in which pods that are deleted go.
        let gone: BTreeSet<&Object> = plan.actions.iter().map(Act::object).collect();
        let mut after = facts.clone();
        if let Ok(pods) = &mut after.pods {
            pods.retain(|pod| !gone.contains(&Object::new(Resource::Pods, &pod.meta)));
        }
        after.quarantine = plan.summary.quarantine;
        prop_assert_eq!(settings.plan(&after, at(0)).actions, []);
    }

    #[test]
    fn any_prefix_is_safe(facts in facts(), settings in settings(), cut in 0..14_usize) {
        let whole = settings.plan(&facts, at(0));
        let done: BTreeSet<&Object> = whole.actions.iter().take(cut).map(Act::object).collect();
        let mut after = facts.clone();
        after.quarantine = whole.summary.quarantine.clone();
        if let Ok(pods) = &mut after.pods {
            pods.retain(|pod| !done.contains(&Object::new(Resource::Pods, &pod.meta)));
        }
        let rest: Vec<Object> = settings.plan(&after, at(0)).actions.iter().map(|action| action.object().clone()).collect();
        // The nodes of orphans have left the quarantine: what is left of these waits for the end of another one.
        let is_orphan = |action: &&Action| matches!(action.reason(), Reason::Orphaned { .. });
        let left = whole.actions.iter().skip(cut).filter(|action| !is_orphan(action));
        prop_assert_eq!(rest, left.map(|action| action.object().clone()).collect::<Vec<_>>());
    }

    #[test]
    fn until_next_at_nothing_changes_and_then_something_does(facts in facts(), settings in settings()) {
        let first = settings.plan(&facts, at(0));
        let (next_at, has_left) = next_pass(&facts, &settings);
        prop_assert_eq!(first.next_at, next_at);
        // A node that left the quarantine while pods are on it enters it again whenever the next pass is.
        if let Some(next) = next_at.filter(|_| !has_left) {
            let mut later = facts;
            later.quarantine = first.summary.quarantine;
            // What else waits in quarantine is no part of what is planned.
            let plan_at = |now| {
                let mut plan = settings.plan(&later, now);
                plan.summary.quarantine = Quarantine::default();
                plan
            };
            let just_before = plan_at(Timestamp::from_nanos(next.as_nanos() - 1));
            prop_assert_eq!(&plan_at(at(0)), &just_before);
            prop_assert_ne!(&plan_at(next), &just_before);
        }
    }

    #[test]
    fn nobody_goes_for_a_node_that_was_not_proved_gone(facts in facts(), settings in settings()) {
        let plan = settings.plan(&facts, at(0));
        for action in &plan.actions {
            if let Reason::Orphaned { node } = action.reason() {
                let LiveNodes::Of(reads) = &facts.live_nodes else { unreachable!("reads are given") };
                let ready_at = facts.quarantine.ready_at.get(node).copied();
                let read = reads.get(node).filter(|read| ready_at.is_some_and(|ready_at| read.read_at >= ready_at));
                prop_assert_eq!(read.map(|read| &read.answer), Some(&Live::NotFound));
                prop_assert!(ready_at.is_some_and(|ready_at| ready_at <= at(0)));
            }
        }
    }

    #[test]
    fn what_is_known_later_changes_nothing_that_was_decided(
        facts in facts(),
        settings in settings(),
        later in vec((select(vec!["Running", "Failed", "Evicted"]), -1..5_i64), 14),
    ) {
        let mut known = facts.clone();
        for (pod, (phase, age)) in known.pods.iter_mut().flatten().zip(later) {
            pod.meta.creation_timestamp.get_or_insert(at(-age));
            pod.status.get_or_insert_with(|| {
                let mut status = Status::new(if phase == "Evicted" { "Failed" } else { phase });
                status.reason = phase.into();
                status
            });
        }
        let (before, after) = (settings.plan(&facts, at(0)), settings.plan(&known, at(0)));
        let line = |plan: &PodPlan| -> BTreeSet<Object> {
            let line = plan.actions.iter().filter(|action| matches!(action.reason(), Reason::Terminated { .. }));
            line.map(|action| action.object().clone()).collect()
        };
        prop_assert!(line(&after).is_superset(&line(&before)));
        let stays = |reason: &Reason| matches!(reason, Reason::NoThreshold | Reason::UnderThreshold { .. } | Reason::OthersGoFirst { .. });
        let stay: BTreeSet<Object> = before.kept.iter().filter(|kept| stays(&kept.reason)).map(|kept| kept.object.clone()).collect();
        prop_assert!(line(&after).is_disjoint(&stay));
        // Nothing is left open that is all known.
        let is_open = |plan: &PodPlan| plan.kept.iter().any(|kept| matches!(kept.reason, Reason::PlaceInLineUnknown { .. }));
        let is_apart = |reason: &Reason| matches!(reason, Reason::ListedTwice | Reason::IdentityUnknown);
        prop_assert!(!is_open(&after) || after.kept.iter().any(|kept| is_apart(&kept.reason)));
    }
}
