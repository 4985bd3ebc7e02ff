//! The cases of upstream's controller, one test each.

use kubegc_core::{PatchType, Planner, Preconditions, StoreError};
use kubegc_lifecycle::{
    object::{Act, Call, Change, Condition, Form, Live, Wire},
    pod::{Count, Facts, LiveNodes, Node, Reason, Settings, Tally},
};

use crate::support::{
    answered, at, calls, evicted, gone, in_short, kept, out_of_service, pass, pass_by, pod, release,
    terminating, with_threshold,
};

/// Facts after 40 s of quarantine of `gone`, with this answer of the live read.
fn served(mut facts: Facts, answer: Live<()>) -> Facts {
    pass_by(&Settings::default(), &mut facts, at(-40));
    answered(facts, "gone", answer, at(0))
}

#[test]
fn t_1_1_the_oldest_over_the_threshold_goes_without_a_patch() {
    let pods = vec![
        pod("young", "Failed", "", 1),
        pod("old", "Failed", "", 3),
        pod("middle", "Failed", "", 2),
    ];
    let plan = with_threshold(2).plan(&Facts::new(pods, Vec::new()), at(0));
    assert_eq!(calls(&plan), ["delete old grace 0"]);
    let rest = "3 pods are terminated, 2 may stay, and others go first";
    assert_eq!(kept(&plan), [format!("middle: {rest}"), format!("young: {rest}")]);
    assert_eq!((plan.summary.terminated, plan.next_at), (3, None));
}

#[test]
fn t_1_2_no_threshold_takes_nothing() {
    for threshold in [0, -1, i32::MIN] {
        let pods = (0..5).map(|n| pod(&n.to_string(), "Succeeded", "", n)).collect();
        let plan = with_threshold(threshold).plan(&Facts::new(pods, Vec::new()), at(0));
        assert_eq!(gone(&plan), [""; 0]);
        assert!(plan.kept.iter().all(|kept| kept.reason == Reason::NoThreshold));
    }
    assert_eq!(Settings::threshold_of_file(0), 12_500);
    assert_eq!(Settings::threshold_of_file(-1), -1);
    assert_eq!(Settings::threshold_of_file(7), 7);
}

#[test]
fn the_threshold_itself_may_stay() {
    for (count, threshold, goes) in [(1, 2, 0), (2, 2, 0), (3, 2, 1), (5, 2, 3), (2, 1, 1)] {
        let pods = (0..count)
            .map(|n| pod(&n.to_string(), "Succeeded", "", n))
            .collect();
        let plan = with_threshold(threshold).plan(&Facts::new(pods, Vec::new()), at(0));
        assert_eq!(plan.actions.len(), goes, "{count} pods, {threshold} may stay");
    }
}

#[test]
fn t_1_3_the_evicted_one_goes_first() {
    let pods = vec![
        pod("older-1", "Succeeded", "", 9),
        pod("older-2", "Succeeded", "", 8),
        evicted(pod("evicted", "Failed", "", 1)),
    ];
    let facts = Facts::new(pods, Vec::new());
    assert_eq!(gone(&with_threshold(2).plan(&facts, at(0))), ["evicted"]);
    // Before that rule the oldest goes.
    for (text, first) in [("1.26", "older-1"), ("1.27", "evicted")] {
        let mut settings = release(text);
        settings.terminated_threshold = 2;
        assert_eq!(gone(&settings.plan(&facts, at(0))), [first], "{text}");
    }
}

#[test]
fn evicted_means_failed_with_that_reason() {
    let mut succeeded = evicted(pod("b", "Failed", "", 1));
    if let Some(status) = &mut succeeded.status {
        status.phase = "Succeeded".into();
    }
    let pods = vec![pod("a", "Failed", "", 2), succeeded];
    let plan = with_threshold(1).plan(&Facts::new(pods, Vec::new()), at(0));
    assert_eq!(gone(&plan), ["a"]);
}

#[test]
fn t_1_4_equal_times_go_by_name() {
    let pods = vec![pod("b", "Failed", "", 1), pod("a", "Failed", "", 1)];
    let plan = with_threshold(1).plan(&Facts::new(pods, Vec::new()), at(0));
    assert_eq!(gone(&plan), ["a"]);
}

#[test]
fn names_come_before_namespaces() {
    let mut other = pod("a", "Failed", "", 1);
    other.meta.namespace = "z".into();
    let pods = vec![pod("b", "Failed", "", 1), other];
    let plan = with_threshold(1).plan(&Facts::new(pods, Vec::new()), at(0));
    assert_eq!(gone(&plan), ["a"]);
}

#[test]
fn a_pod_of_unknown_age_leaves_open_who_goes_where_that_hangs_on_it() {
    let timeless = || {
        let mut timeless = pod("timeless", "Succeeded", "", 0);
        timeless.meta.creation_timestamp = None;
        timeless
    };
    let pods = vec![
        pod("old", "Succeeded", "", 3),
        pod("middle", "Succeeded", "", 2),
        pod("young", "Succeeded", "", 1),
        timeless(),
    ];
    let open = |name, unread, threshold| {
        let known = format!("4 pods are terminated, {threshold} may stay");
        format!("{name}: {known}, and which ones go hangs on {unread} that were not read in full")
    };
    let others =
        |name, threshold| format!("{name}: 4 pods are terminated, {threshold} may stay, and others go first");
    let facts = Facts::new(pods.clone(), Vec::new());
    // Two go: the oldest in any case, then the next one or the one of unknown age.
    let plan = with_threshold(2).plan(&facts, at(0));
    assert_eq!(gone(&plan), ["old"]);
    assert_eq!(
        kept(&plan),
        [open("middle", 1, 2), open("timeless", 1, 2), others("young", 2)]
    );
    // One goes, and nobody knows which.
    let plan = with_threshold(3).plan(&facts, at(0));
    assert_eq!(gone(&plan), [""; 0]);
    assert_eq!(
        kept(&plan),
        [
            others("middle", 3),
            open("old", 1, 3),
            open("timeless", 1, 3),
            others("young", 3)
        ]
    );
    assert!(
        kept(&with_threshold(4).plan(&facts, at(0)))
            .iter()
            .all(|text| !text.contains("hangs"))
    );
    // Those that were evicted go first, whatever the age of the others, and those that were not go last.
    let mut with_evicted = pods.clone();
    with_evicted[1] = evicted(pod("middle", "Failed", "", 2));
    let plan = with_threshold(3).plan(&Facts::new(with_evicted, Vec::new()), at(0));
    assert_eq!(gone(&plan), ["middle"]);
    assert_eq!(
        kept(&plan),
        [others("old", 3), others("timeless", 3), others("young", 3)]
    );
    let mut with_evicted = pods;
    with_evicted[3] = evicted(timeless());
    let plan = with_threshold(2).plan(&Facts::new(with_evicted, Vec::new()), at(0));
    assert_eq!(gone(&plan), ["timeless", "old"]);
    assert_eq!(kept(&plan), [others("middle", 2), others("young", 2)]);
}

#[test]
fn a_pod_of_which_too_little_is_known_leaves_open_whether_one_more_goes() {
    let ended = |name: &str, created: i64| pod(name, "Succeeded", "", created);
    let unread = || {
        let mut unread = pod("unread", "", "", 0);
        unread.status = None;
        unread
    };
    let mut nameless = ended("unread", 0);
    nameless.meta.uid = "".into();
    let alive = pod("unread", "Running", "", 0);
    let mut nameless_and_alive = alive.clone();
    nameless_and_alive.meta.uid = "".into();
    for (others, reason, counts) in [
        (vec![unread()], Reason::StatusUnknown, 1),
        (vec![nameless], Reason::IdentityUnknown, 1),
        (vec![nameless_and_alive], Reason::IdentityUnknown, 0),
        (vec![alive, unread()], Reason::ListedTwice, 1),
    ] {
        let mut pods = vec![ended("old", 3), ended("middle", 2), ended("young", 1)];
        pods.extend(others);
        let facts = Facts::new(pods, Vec::new());
        let is_open = |reason: &Reason| matches!(reason, Reason::PlaceInLineUnknown { unread: 1, .. });
        for (threshold, goes, open) in [
            (1, &["old", "middle"][..], &["young"][..]),
            (2, &["old"], &["middle"]),
            (3, &[], &["old"]),
            (4, &[], &[]),
        ] {
            let plan = with_threshold(threshold).plan(&facts, at(0));
            assert_eq!(gone(&plan), goes, "{threshold}");
            let found = plan.kept.iter().filter(|kept| is_open(&kept.reason));
            let found: Vec<&str> = found.map(|kept| &*kept.object.name).collect();
            assert_eq!(found, &open[..open.len().min(counts)], "{threshold}, {reason}");
            let unread = plan.kept.iter().find(|kept| &*kept.object.name == "unread");
            assert_eq!(unread.map(|kept| &kept.reason), Some(&reason));
        }
    }
}

#[test]
fn t_1_5_a_pod_without_phase_is_marked_then_deleted() {
    for phase in ["", "Lost", "succeeded"] {
        let pods = vec![pod("odd", phase, "", 2), pod("done", "Succeeded", "", 1)];
        let plan = with_threshold(1).plan(&Facts::new(pods, Vec::new()), at(0));
        assert_eq!(
            calls(&plan),
            ["patch odd Failed", "delete odd grace 0"],
            "{phase:?}"
        );
    }
    for phase in ["Pending", "Running", "Unknown"] {
        let pods = vec![pod("alive", phase, "", 2), pod("done", "Succeeded", "", 1)];
        let plan = with_threshold(1).plan(&Facts::new(pods, Vec::new()), at(0));
        let expected = ["alive: has not ended", "done: 1 pods are terminated, 1 may stay"];
        assert_eq!(kept(&plan), expected, "{phase}");
    }
}

#[test]
fn terminated_pods_that_are_being_deleted_count_and_may_go_again() {
    let pods = vec![
        terminating(pod("a", "Failed", "n", 2)),
        pod("b", "Failed", "n", 1),
    ];
    let facts = Facts::new(pods, vec![Node::new("n", true)]);
    assert_eq!(gone(&with_threshold(1).plan(&facts, at(0))), ["a"]);
}

#[test]
fn t_1_6_an_orphan_goes_after_the_quarantine() {
    let settings = Settings::default();
    let mut facts = Facts::new(vec![pod("web", "Running", "gone", 1)], Vec::new());
    for seconds in [0, 20] {
        assert_eq!(gone(&pass(&settings, &mut facts, at(seconds))), [""; 0]);
    }
    let mut facts = answered(facts, "gone", Live::NotFound, at(40));
    let plan = pass(&settings, &mut facts, at(40));
    assert_eq!(
        calls(&plan),
        ["patch web Failed DisruptionTarget", "delete web grace 0"]
    );
    assert!(facts.quarantine.ready_at.is_empty());
    let condition = Condition {
        reason: "DeletionByPodGC".into(),
        message: "PodGC: node no longer exists".into(),
        last_transition_time: Some(at(40)),
        ..Condition::new("DisruptionTarget", "True")
    };
    let Call::Change { changes, .. } = &plan.actions[0].calls(Wire::Strict)[0] else {
        panic!("a patch comes first");
    };
    assert_eq!(
        changes,
        &[Change::Phase("Failed".into()), Change::Condition(condition)]
    );
}

#[test]
fn t_1_7_a_node_that_a_live_read_finds_begins_anew() {
    let settings = Settings::default();
    let pods = vec![pod("web", "Running", "gone", 1)];
    let mut facts = served(Facts::new(pods, Vec::new()), Live::Found(()));
    let plan = pass(&settings, &mut facts, at(0));
    assert_eq!(kept(&plan), ["web: node gone was found by a live read"]);
    assert!(facts.quarantine.ready_at.is_empty());
    assert_eq!(plan.next_at, Some(at(20)));
    pass_by(&settings, &mut facts, at(20));
    assert_eq!(facts.quarantine.ready_at.get("gone"), Some(&at(60)));
}

#[test]
fn t_1_8_a_failed_read_proves_nothing() {
    let pods = vec![pod("web", "Running", "gone", 1)];
    let mut facts = served(Facts::new(pods, Vec::new()), Live::Failed("timeout".into()));
    let plan = pass(&Settings::default(), &mut facts, at(0));
    assert_eq!(kept(&plan), ["web: node gone could not be looked up: timeout"]);
    assert_eq!(calls(&plan), [""; 0]);
    assert!(facts.quarantine.ready_at.is_empty());
}

#[test]
fn t_1_9_a_node_that_comes_back_spares_its_pods() {
    let settings = Settings::default();
    // Neither matters a live read that says otherwise, nor is one asked for.
    for answer in [Live::NotFound, Live::NotAsked] {
        let mut facts = Facts::new(vec![pod("web", "Running", "gone", 1)], Vec::new());
        pass_by(&settings, &mut facts, at(0));
        facts.nodes = Ok(vec![Node::new("gone", true)]);
        facts = answered(facts, "gone", answer, at(40));
        for seconds in [39, 40, 60] {
            let plan = pass(&settings, &mut facts, at(seconds));
            assert_eq!(kept(&plan), ["web: has not ended"], "{seconds} s");
            assert!(plan.summary.lookups.is_empty());
        }
        assert!(facts.quarantine.ready_at.is_empty());
    }
}

#[test]
fn t_1_10_a_terminating_pod_on_a_node_out_of_service_goes_untold() {
    for effect in ["NoExecute", "NoSchedule", ""] {
        let mut unready = out_of_service(Node::new("n", false), effect);
        for conditions in [unready.conditions.clone(), Some(Vec::new())] {
            unready.conditions = conditions;
            let pods = vec![
                terminating(pod("web", "Running", "n", 1)),
                pod("stays", "Running", "n", 1),
            ];
            let plan = Settings::default().plan(&Facts::new(pods, vec![unready.clone()]), at(0));
            assert_eq!(calls(&plan), ["patch web Failed", "delete web grace 0"]);
            assert_eq!(kept(&plan), ["stays: has not ended"]);
        }
    }
}

#[test]
fn t_1_11_a_ready_node_ends_its_pods_itself() {
    let pods = vec![terminating(pod("web", "Running", "n", 1))];
    for (node, why) in [
        (
            out_of_service(Node::new("n", true), "NoExecute"),
            "terminating on node n, which is ready",
        ),
        (
            Node::new("n", false),
            "terminating on node n, which is not marked as out of service",
        ),
    ] {
        let plan = Settings::default().plan(&Facts::new(pods.clone(), vec![node]), at(0));
        assert_eq!(kept(&plan), [format!("web: {why}")]);
    }
}

#[test]
fn only_the_first_ready_condition_counts() {
    let mut node = out_of_service(Node::new("n", false), "NoExecute");
    node.conditions
        .get_or_insert_default()
        .push(Condition::new("Ready", "True"));
    let pods = vec![terminating(pod("web", "Running", "n", 1))];
    let plan = Settings::default().plan(&Facts::new(pods, vec![node]), at(0));
    assert_eq!(gone(&plan), ["web"]);
}

#[test]
fn t_1_12_a_terminating_pod_of_an_unknown_node_is_an_orphan() {
    let pods = vec![terminating(pod("web", "Running", "gone", 1))];
    let facts = served(Facts::new(pods, Vec::new()), Live::NotFound);
    let plan = Settings::default().plan(&facts, at(0));
    assert_eq!(
        plan.actions[0].reason(),
        &Reason::Orphaned { node: "gone".into() }
    );
}

#[test]
fn t_1_13_a_terminating_pod_without_a_node_goes() {
    let pods = vec![
        terminating(pod("web", "Pending", "", 1)),
        pod("waits", "Pending", "", 1),
    ];
    let plan = Settings::default().plan(&Facts::new(pods, Vec::new()), at(0));
    assert_eq!(calls(&plan), ["patch web Failed", "delete web grace 0"]);
    assert_eq!(plan.actions[0].reason(), &Reason::Unscheduled);
}

#[test]
fn t_1_14_a_failed_patch_spares_the_pod_and_counts_twice() {
    let pods = vec![terminating(pod("web", "Pending", "", 1))];
    let plan = Settings::default().plan(&Facts::new(pods, Vec::new()), at(0));
    let action = &plan.actions[0];
    // Each call is made only if the one before succeeded: nothing but the patch comes first, and the deletion is never alone.
    for wire in [Wire::AsUpstream, Wire::Strict] {
        let calls: Vec<String> = action.calls(wire).iter().map(in_short).collect();
        assert_eq!(calls, ["patch web Failed", "delete web grace 0"], "{wire:?}");
    }
    let mut tally = Tally::default();
    tally.record(action, false);
    let key = ("ns".into(), "unscheduled");
    assert_eq!(
        tally.counts.get(&key),
        Some(&Count {
            attempts: 1,
            errors: 1
        })
    );
    tally.record(action, true);
    assert_eq!(
        tally.counts.get(&key),
        Some(&Count {
            attempts: 2,
            errors: 1
        })
    );
}

#[test]
fn t_1_15_an_orphan_that_failed_before_is_only_deleted() {
    for phase in ["Failed", "Succeeded"] {
        let pods = vec![pod("web", phase, "gone", 1)];
        let facts = served(Facts::new(pods, Vec::new()), Live::NotFound);
        let plan = Settings::default().plan(&facts, at(0));
        assert_eq!(calls(&plan), ["delete web grace 0"], "{phase}");
    }
}

#[test]
fn upstream_guards_the_patch_by_uid_and_the_deletion_by_nothing() {
    let uid = Preconditions::uid("web".into());
    let all = Preconditions {
        resource_version: Some("7".into()),
        ..uid.clone()
    };
    let none = Preconditions::default();
    let of = |calls: Vec<Call>| -> Vec<Preconditions> {
        let expect = calls.into_iter().map(|call| match call {
            Call::Delete { options, .. } => options.preconditions,
            Call::Change {
                expect,
                form,
                subresource,
                ..
            } => {
                assert_eq!((form, subresource), (Form::Patch(PatchType::Strategic), "status"));
                expect
            }
            other => panic!("{other:?}"),
        });
        expect.collect()
    };
    for (phase, upstream, strict) in [
        ("Pending", vec![uid.clone(), none.clone()], vec![all.clone(), uid]),
        ("Failed", vec![none], vec![all.clone()]),
    ] {
        let pods = vec![terminating(pod("web", phase, "", 1))];
        let plan = Settings::default().plan(&Facts::new(pods, Vec::new()), at(0));
        let action = &plan.actions[0];
        assert_eq!(action.expect(), &all);
        assert_eq!(of(action.calls(Wire::AsUpstream)), upstream, "{phase}");
        assert_eq!(of(action.calls(Wire::Strict)), strict, "{phase}");
    }
}

#[test]
fn a_condition_that_was_true_keeps_its_time() {
    for (before, since) in [
        (None, at(0)),
        (Some("False"), at(0)),
        (Some("Unknown"), at(0)),
        (Some("True"), at(-500)),
    ] {
        let mut orphan = pod("web", "Running", "gone", 1);
        if let (Some(status), Some(before)) = (&mut orphan.status, before) {
            let mut condition = Condition::new("DisruptionTarget", before);
            condition.last_transition_time = Some(at(-500));
            status.conditions = vec![condition];
        }
        let facts = served(Facts::new(vec![orphan], Vec::new()), Live::NotFound);
        let plan = Settings::default().plan(&facts, at(0));
        let Call::Change { changes, .. } = &plan.actions[0].calls(Wire::Strict)[0] else {
            panic!("a patch comes first");
        };
        let Change::Condition(condition) = &changes[1] else {
            panic!("a condition comes second");
        };
        assert_eq!(condition.last_transition_time, Some(since), "{before:?}");
    }
}

#[test]
fn releases_differ_in_marks_and_in_what_they_look_at() {
    let node = out_of_service(Node::new("n", false), "NoExecute");
    let pods = vec![
        terminating(pod("out", "Running", "n", 1)),
        pod("orphan", "Running", "gone", 1),
        terminating(pod("loose", "Pending", "", 1)),
    ];
    let facts = served(Facts::new(pods, vec![node]), Live::NotFound);
    let all = [
        "patch out Failed",
        "delete out grace 0",
        "patch orphan Failed DisruptionTarget",
        "delete orphan grace 0",
        "patch loose Failed",
        "delete loose grace 0",
    ];
    let old = ["delete orphan grace 0", "delete loose grace 0"];
    for (text, expected) in [
        ("1.20.2", &old[..]),
        ("1.25", &old[..]),
        ("1.26", &all[..]),
        ("1.36", &all[..]),
    ] {
        let plan = release(text).plan(&facts, at(0));
        assert_eq!(calls(&plan), expected, "{text}");
        if text < "1.26" {
            assert_eq!(kept(&plan), ["out: terminating, and left to node n"]);
        }
    }
    let mut untold = Settings::default();
    untold.tells_disruption = false;
    assert_eq!(calls(&untold.plan(&facts, at(0)))[2], "patch orphan Failed");
}

#[test]
fn a_pod_that_several_sub_passes_choose_is_planned_once_for_the_first_reason() {
    let node = out_of_service(Node::new("n", false), "NoExecute");
    let pods = vec![
        // Terminated and out of service.
        terminating(pod("a", "", "n", 9)),
        // Terminated and orphaned.
        pod("b", "", "gone", 8),
        // Terminated and unscheduled.
        terminating(pod("c", "", "", 7)),
        pod("d", "Succeeded", "n", 1),
    ];
    let facts = served(Facts::new(pods, vec![node]), Live::NotFound);
    let plan = with_threshold(1).plan(&facts, at(0));
    assert_eq!(gone(&plan), ["a", "b", "c"]);
    let labels: Vec<_> = plan
        .actions
        .iter()
        .filter_map(|action| action.reason().label())
        .collect();
    assert_eq!(labels, ["terminated"; 3]);
}

#[test]
fn missing_lists_end_the_pass() {
    let settings = with_threshold(1);
    let pods = vec![
        pod("a", "Failed", "gone", 2),
        terminating(pod("b", "Failed", "", 1)),
    ];
    let mut facts = Facts::new(pods, Vec::new());
    pass_by(&settings, &mut facts, at(-100));
    let facts = answered(facts, "gone", Live::NotFound, at(0));
    assert!(!settings.plan(&facts, at(0)).actions.is_empty());

    let without_nodes = Facts {
        nodes: Err(StoreError::Unlisted),
        ..facts.clone()
    };
    let plan = settings.plan(&without_nodes, at(0));
    assert_eq!(
        kept(&plan),
        ["a: nodes were not listed", "b: nodes were not listed"]
    );
    assert_eq!(plan.summary.quarantine, facts.quarantine);

    let without_pods = Facts {
        pods: Err(StoreError::Unlisted),
        ..facts.clone()
    };
    let plan = settings.plan(&without_pods, at(0));
    assert_eq!(plan.summary.error, Some(StoreError::Unlisted));
    assert_eq!(plan.summary.quarantine, facts.quarantine);
    assert_eq!((plan.actions.len(), plan.kept.len()), (0, 0));
}

#[test]
fn what_is_not_known_of_a_pod_keeps_it() {
    let mut no_status = pod("no-status", "", "gone", 3);
    no_status.status = None;
    let mut no_node = terminating(pod("no-node", "Running", "", 3));
    no_node.node_name = None;
    let mut old = terminating(no_status.clone());
    old.meta.name = "loose".into();
    old.node_name = Some("".into());
    let pods = vec![
        no_status,
        no_node,
        old,
        pod("a", "Failed", "", 2),
        pod("b", "Failed", "", 1),
    ];
    let facts = served(Facts::new(pods, Vec::new()), Live::NotFound);
    let plan = with_threshold(1).plan(&facts, at(0));
    assert_eq!(gone(&plan), ["a"]);
    let unknown = [
        "b: 2 pods are terminated, 1 may stay, and which ones go hangs on 2 that were not read in full",
        "loose: its status is not known",
        "no-node: its node is not known",
        "no-status: its status is not known",
    ];
    assert_eq!(kept(&plan), unknown);
    // Before pods were marked, their phase did not matter to orphans.
    assert_eq!(gone(&release("1.20").plan(&facts, at(0))), ["no-status", "loose"]);
}

#[test]
fn what_is_not_known_of_a_node_keeps_its_pods() {
    let known = out_of_service(Node::new("n", false), "NoExecute");
    let no_conditions = Node {
        conditions: None,
        ..known.clone()
    };
    let no_taints = Node {
        taints: None,
        ..known.clone()
    };
    let pods = vec![terminating(pod("web", "Running", "n", 1))];
    let why = "web: terminating on node n, whose state is not known";
    for nodes in [
        vec![no_conditions],
        vec![no_taints.clone()],
        vec![no_taints, known],
    ] {
        let plan = Settings::default().plan(&Facts::new(pods.clone(), nodes), at(0));
        assert_eq!(kept(&plan), [why]);
    }
}

#[test]
fn a_pod_that_is_listed_twice_and_not_alike_stays() {
    let same = terminating(pod("same", "Pending", "", 1));
    let pods = vec![
        same.clone(),
        same,
        terminating(pod("two", "Pending", "", 1)),
        pod("two", "Running", "", 1),
    ];
    let plan = Settings::default().plan(&Facts::new(pods, Vec::new()), at(0));
    assert_eq!(gone(&plan), ["same"]);
    assert_eq!(kept(&plan), ["two: listed twice, in two states"]);
}

#[test]
fn a_name_that_is_listed_with_two_uids_stays() {
    // Upstream's deletion says the name only: it would hit whichever of the two is there.
    let old = terminating(pod("web", "Pending", "", 1));
    let mut new = pod("web", "Running", "n", 1);
    new.meta.uid = "new".into();
    for pods in [
        vec![old.clone(), new.clone()],
        vec![new.clone(), old.clone()],
        vec![old.clone(), new, old],
    ] {
        let plan = Settings::default().plan(&Facts::new(pods, vec![Node::new("n", true)]), at(0));
        assert_eq!(gone(&plan), [""; 0]);
        let uids = plan.kept.iter().map(|kept| kept.object.uid.to_string());
        assert_eq!(uids.collect::<Vec<_>>(), ["new", "web"]);
        assert!(plan.kept.iter().all(|kept| kept.reason == Reason::ListedTwice));
    }
}

#[test]
fn a_pod_without_a_uid_stays_and_may_count() {
    let mut pods = vec![
        pod("old", "Failed", "", 3),
        pod("young", "Failed", "", 1),
        terminating(pod("loose", "Pending", "", 1)),
    ];
    assert_eq!(
        gone(&with_threshold(1).plan(&Facts::new(pods.clone(), Vec::new()), at(0))),
        ["old", "loose"]
    );
    for pod in &mut pods {
        if &*pod.meta.name != "young" {
            pod.meta.uid = "".into();
        }
    }
    let plan = with_threshold(1).plan(&Facts::new(pods, Vec::new()), at(0));
    assert_eq!(
        kept(&plan),
        [
            "loose: its uid is not known",
            "old: its uid is not known",
            "young: 1 pods are terminated, 1 may stay, and which ones go hangs on 1 that were not read in full",
        ]
    );
}

#[test]
fn a_forecast_takes_the_list_for_the_live_reads() {
    let mut facts = Facts::new(vec![pod("web", "Running", "gone", 1)], Vec::new());
    facts.live_nodes = LiveNodes::AsListed;
    let settings = Settings::default();
    assert_eq!(gone(&pass(&settings, &mut facts, at(0))), [""; 0]);
    assert_eq!(gone(&pass(&settings, &mut facts, at(40))), ["web"]);
}
