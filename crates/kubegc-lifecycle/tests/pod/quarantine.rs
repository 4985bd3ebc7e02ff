//! Quarantines: to the nanosecond, with clocks that go wrong, and at the ends of time.

use std::time::Duration;

use kubegc_core::{Planner, Timestamp};
use kubegc_lifecycle::{
    object::Live,
    pod::{Facts, Node, Reason, Settings},
};

use crate::support::{answered, at, gone, kept, pass, pass_by, pod};

fn orphan() -> Facts {
    Facts::new(vec![pod("web", "Running", "gone", 1)], Vec::new())
}

#[test]
fn it_ends_to_the_nanosecond() {
    let settings = Settings::default();
    for (nanos, goes) in [(-1, 0), (0, 1), (1, 1)] {
        let mut facts = answered(orphan(), "gone", Live::NotFound, at(40));
        let plan = pass(&settings, &mut facts, at(0));
        assert_eq!(plan.next_at, Some(at(40)));
        let now = Timestamp::from_nanos(at(40).as_nanos() + nanos);
        assert_eq!(settings.plan(&facts, now).actions.len(), goes, "{nanos} ns");
    }
}

#[test]
fn a_second_look_keeps_the_first_end() {
    let settings = Settings::default();
    let mut facts = orphan();
    for seconds in [0, 10, 39] {
        pass_by(&settings, &mut facts, at(seconds));
        assert_eq!(facts.quarantine.ready_at.get("gone"), Some(&at(40)));
    }
    // A clock that was set back shortens it.
    pass_by(&settings, &mut facts, at(-100));
    assert_eq!(facts.quarantine.ready_at.get("gone"), Some(&at(-60)));
}

#[test]
fn without_one_the_same_pass_decides() {
    let mut settings = Settings::default();
    settings.quarantine = Duration::ZERO;
    let facts = answered(orphan(), "gone", Live::NotFound, at(0));
    let plan = settings.plan(&facts, at(0));
    assert_eq!(gone(&plan), ["web"]);
    assert!(plan.summary.quarantine.ready_at.is_empty());
}

#[test]
fn who_was_not_looked_up_waits_for_the_answer() {
    let settings = Settings::default();
    let mut facts = orphan();
    pass_by(&settings, &mut facts, at(0));
    for seconds in [40, 60] {
        let plan = pass(&settings, &mut facts, at(seconds));
        assert_eq!(kept(&plan), ["web: node gone is missing and has to be looked up"]);
        assert_eq!(plan.summary.lookups, ["gone".into()]);
        assert_eq!(plan.next_at, None);
        assert_eq!(facts.quarantine.ready_at.get("gone"), Some(&at(40)));
    }
    let mut facts = answered(facts, "gone", Live::NotFound, at(60));
    assert_eq!(gone(&pass(&settings, &mut facts, at(61))), ["web"]);
}

#[test]
fn an_early_answer_does_not_shorten_it() {
    let facts = answered(orphan(), "gone", Live::NotFound, at(0));
    let plan = Settings::default().plan(&facts, at(0));
    let (node, until) = ("gone".into(), at(40));
    assert_eq!(plan.kept[0].reason, Reason::InQuarantine { node, until });
}

#[test]
fn an_answer_from_before_its_end_proves_nothing() {
    let settings = Settings::default();
    for answer in [Live::NotFound, Live::Found(()), Live::Failed("timeout".into())] {
        for (nanos, counts) in [(-1, false), (0, true), (1, true)] {
            let read_at = Timestamp::from_nanos(at(40).as_nanos() + nanos);
            let mut facts = answered(orphan(), "gone", answer.clone(), read_at);
            pass_by(&settings, &mut facts, at(0));
            let plan = settings.plan(&facts, at(60));
            let is_asked_for = plan.summary.lookups == ["gone".into()];
            assert_eq!(is_asked_for, !counts, "{nanos} ns: {answer:?}");
            let waits = plan.summary.quarantine.ready_at.get("gone") == Some(&at(40));
            assert_eq!(waits, !counts, "{nanos} ns: {answer:?}");
            let goes = counts && answer == Live::NotFound;
            assert_eq!(plan.actions.len(), usize::from(goes), "{nanos} ns: {answer:?}");
        }
    }
}

#[test]
fn where_orphans_go_the_next_pass_looks_again() {
    let settings = Settings::default();
    let mut facts = orphan();
    pass_by(&settings, &mut facts, at(0));
    let mut facts = answered(facts, "gone", Live::NotFound, at(40));
    let plan = pass(&settings, &mut facts, at(40));
    assert_eq!((gone(&plan), plan.next_at), (vec!["web"], Some(at(60))));
    // Where that failed, the node is in quarantine anew, and the old answer is not good enough for its end.
    let plan = pass(&settings, &mut facts, at(60));
    assert_eq!(plan.next_at, Some(at(100)));
    let plan = pass(&settings, &mut facts, at(100));
    assert_eq!(plan.summary.lookups, ["gone".into()]);
    assert_eq!(gone(&plan), [""; 0]);
}

#[test]
fn a_node_without_pods_leaves_it_silently() {
    let settings = Settings::default();
    let mut facts = orphan();
    pass_by(&settings, &mut facts, at(0));
    facts.pods = Ok(Vec::new());
    // No pod asks for another pass, nor for an answer.
    let plan = pass(&settings, &mut facts, at(39));
    assert_eq!(plan.next_at, None);
    assert_eq!(facts.quarantine.ready_at.get("gone"), Some(&at(40)));
    let plan = pass(&settings, &mut facts, at(40));
    assert!(facts.quarantine.ready_at.is_empty());
    assert!(plan.summary.lookups.is_empty());
    assert_eq!(plan.next_at, None);
}

#[test]
fn the_end_for_a_node_that_is_back_asks_for_no_pass() {
    let settings = Settings::default();
    let mut facts = orphan();
    pass_by(&settings, &mut facts, at(0));
    facts.nodes = Ok(vec![Node::new("gone", true)]);
    let plan = pass(&settings, &mut facts, at(20));
    assert_eq!(plan.next_at, None);
    // It is remembered all the same: a node that vanishes again keeps the earlier end.
    facts.nodes = Ok(Vec::new());
    assert_eq!(pass(&settings, &mut facts, at(30)).next_at, Some(at(40)));
}

#[test]
fn several_nodes_end_each_at_its_time() {
    let settings = Settings::default();
    let mut facts = orphan();
    pass_by(&settings, &mut facts, at(0));
    if let Ok(pods) = &mut facts.pods {
        pods.push(pod("db", "Running", "lost", 1));
    }
    let plan = pass(&settings, &mut facts, at(15));
    assert_eq!(plan.next_at, Some(at(40)));
    let plan = pass(&settings, &mut facts, at(40));
    assert_eq!(plan.next_at, Some(at(55)));
    assert_eq!(plan.summary.lookups, ["gone".into()]);
}

#[test]
fn the_ends_of_time_panic_nobody() {
    for nanos in [i64::MIN, -1, 0, i64::MAX - 1, i64::MAX] {
        let now = Timestamp::from_nanos(nanos);
        let mut facts = answered(orphan(), "gone", Live::NotFound, now);
        if let Ok(pods) = &mut facts.pods {
            pods[0].meta.creation_timestamp = Some(Timestamp::from_nanos(i64::MIN));
        }
        let mut settings = Settings::default();
        settings.quarantine = Duration::MAX;
        let plan = pass(&settings, &mut facts, now);
        // At the last instant every quarantine is over.
        assert_eq!(plan.actions.len(), usize::from(nanos == i64::MAX));
    }
}
