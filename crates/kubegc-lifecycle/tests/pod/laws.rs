//! What holds for every set of pods and nodes.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{Planner, Timestamp};
use kubegc_lifecycle::{
    object::{Act, Live, Object, Resource},
    pod::{Facts, LiveNodes, Node, Pod, Quarantine, Reason, Settings},
};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::support::{at, evicted, out_of_service, pod, release, terminating, with_threshold};

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
                _ => {}
            }
            pods.push(pod);
        }
        pods
    })
}

fn answers() -> impl Strategy<Value = Live<()>> {
    select(vec![
        Live::NotAsked,
        Live::NotFound,
        Live::Found(()),
        Live::Failed("timeout".into()),
    ])
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
        if let Ok(pods) = &mut after.pods {
            pods.retain(|pod| !done.contains(&Object::new(Resource::Pods, &pod.meta)));
        }
        let rest: Vec<Object> = settings.plan(&after, at(0)).actions.iter().map(|action| action.object().clone()).collect();
        let planned: Vec<Object> = whole.actions.iter().skip(cut).map(|action| action.object().clone()).collect();
        prop_assert_eq!(rest, planned);
    }

    #[test]
    fn until_next_at_nothing_changes_and_then_something_does(facts in facts(), settings in settings()) {
        let first = settings.plan(&facts, at(0));
        let mut carried = facts;
        carried.quarantine = first.summary.quarantine.clone();
        let gone: BTreeSet<&Object> = first.actions.iter().map(Act::object).collect();
        if let Ok(pods) = &mut carried.pods {
            pods.retain(|pod| !gone.contains(&Object::new(Resource::Pods, &pod.meta)));
        }
        let waits = first.summary.quarantine.next_after(at(0));
        prop_assert!(first.next_at <= waits || waits.is_none());
        if let Some(next) = first.next_at.filter(|&next| Some(next) == waits) {
            let just_before = Timestamp::from_nanos(next.as_nanos() - 1);
            let (now, before, then) =
                (settings.plan(&carried, at(0)), settings.plan(&carried, just_before), settings.plan(&carried, next));
            // A node that left the quarantine while pods of it stay enters it again whenever the next pass is.
            let left = first.kept.iter().any(|kept| {
                matches!(kept.reason, Reason::NodeFound { .. } | Reason::NodeLookupFailed { .. } | Reason::StatusUnknown)
            });
            if !left {
                prop_assert_eq!(&now, &before);
            }
            prop_assert_ne!(before, then);
        }
    }

    #[test]
    fn nobody_goes_for_a_node_that_was_not_proved_gone(facts in facts(), settings in settings()) {
        let plan = settings.plan(&facts, at(0));
        for action in &plan.actions {
            if let Reason::Orphaned { node } = action.reason() {
                let LiveNodes::Of(reads) = &facts.live_nodes else { unreachable!("reads are given") };
                prop_assert_eq!(reads.get(node), Some(&Live::NotFound));
                prop_assert!(facts.quarantine.ready_at.get(node).is_some_and(|&ready_at| ready_at <= at(0)));
            }
        }
    }

    #[test]
    fn unknown_pods_only_ever_spare_others(facts in facts(), threshold in 1..4) {
        // What is known of a pod later takes no known pod out of the line that was in it.
        let settings = with_threshold(threshold);
        let mut known = facts.clone();
        if let Ok(pods) = &mut known.pods {
            for pod in pods.iter_mut().filter(|pod| pod.status.is_none()) {
                pod.status = Some(kubegc_lifecycle::pod::Status::new("Failed"));
            }
        }
        let line = |facts: &Facts| -> BTreeSet<Object> {
            let plan = settings.plan(facts, at(0));
            let line = plan.actions.iter().filter(|action| matches!(action.reason(), Reason::Terminated { .. }));
            line.map(|action| action.object().clone()).collect()
        };
        prop_assert!(line(&known).is_superset(&line(&facts)));
    }
}
