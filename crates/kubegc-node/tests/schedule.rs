//! The times of a collector's loops, and the failures that cause an event.

use std::time::Duration;

use kubegc_core::Timestamp;
use kubegc_node::{
    EventKind, LoopHealth,
    schedule::{Loop, Next, NotRunning, Schedule},
};
use proptest::prelude::*;

use crate::world::at;

#[test]
fn n1_1_to_n1_5_periods() {
    let periods: Vec<_> = Loop::ALL.iter().map(|which| which.period().as_secs()).collect();
    assert_eq!(periods, [60, 300, 300, 30, 10]);
}

#[test]
fn n1_2_collection_starts_once_with_the_first_run_of_the_image_loop() {
    let mut schedule = Schedule::new([Loop::Images, Loop::Containers], at(5));
    assert_eq!(schedule.began_gc(), None);
    assert_eq!(schedule.next(at(7)), Next::Run(Loop::Containers));
    assert_eq!(schedule.began_gc(), None);
    assert_eq!(schedule.next(at(8)), Next::Run(Loop::Images));
    assert_eq!(schedule.began_gc(), Some(at(8)));
    assert_eq!(schedule.finished(Loop::Images, at(9)), Ok(()));
    assert_eq!(schedule.next(at(900)), Next::Run(Loop::Images));
    assert_eq!(schedule.began_gc(), Some(at(8)), "fixed");

    let mut without = Schedule::new([Loop::Detection], at(5));
    assert_eq!(without.next(at(5)), Next::Run(Loop::Detection));
    assert_eq!(without.began_gc(), None);
}

#[test]
fn the_loop_that_is_due_for_longest_runs_first_and_equals_in_the_order_of_the_loops() {
    let mut schedule = Schedule::new(
        [Loop::Detection, Loop::Images, Loop::Containers, Loop::Images],
        at(0),
    );
    let order: Vec<Next> = (0..4).map(|_| schedule.next(at(0))).collect();
    assert_eq!(
        order,
        [
            Next::Run(Loop::Containers),
            Next::Run(Loop::Images),
            Next::Run(Loop::Detection),
            Next::Busy
        ]
    );
    for (which, end) in [(Loop::Images, 10), (Loop::Detection, 5), (Loop::Containers, 300)] {
        assert_eq!(schedule.finished(which, at(end)), Ok(()));
    }
    assert_eq!(schedule.next(at(1_000)), Next::Run(Loop::Detection), "due at 305");
    assert_eq!(schedule.next(at(1_000)), Next::Run(Loop::Images), "due at 310");
    assert_eq!(
        schedule.next(at(1_000)),
        Next::Run(Loop::Containers),
        "due at 360"
    );
    assert_eq!(Schedule::new([], at(0)).next(at(0)), Next::Busy);
}

#[test]
fn an_end_without_a_run_is_refused_and_changes_nothing() {
    let mut schedule = Schedule::new([Loop::Containers], at(0));
    let before = schedule.clone();
    for which in [Loop::Containers, Loop::Images] {
        let refused = schedule.finished(which, at(1));
        assert_eq!(refused.map_err(|NotRunning { which, .. }| which), Err(which));
    }
    assert_eq!(schedule, before);
}

#[test]
fn n1_11_n1_12_every_container_failure_has_an_event_and_a_success_reports_whether_it_recovered() {
    let mut health = LoopHealth::default();
    for (error, recovered) in [
        (None, false),
        (Some("e"), false),
        (Some("e"), false),
        (None, true),
        (None, false),
    ] {
        let report = health.containers_finished(error);
        assert_eq!(report.recovered, recovered, "{error:?}");
        let event = report
            .event
            .map(|event| (event.kind, event.reason, event.message));
        let expected = error.map(|text| (EventKind::Warning, "ContainerGCFailed", text.to_owned()));
        assert_eq!(event, expected);
    }
}

#[test]
fn n1_13_to_n1_15_an_image_failure_has_an_event_from_the_second_consecutive_one_on() {
    let mut health = LoopHealth::default();
    for (step, (error, expected, recovered)) in [
        (Some("first"), None, false),
        (Some("second"), Some("second"), false),
        (Some("third"), Some("third"), false),
        (None, None, true),
        (None, None, false),
        (Some("fourth"), None, false),
        (None, None, true),
        (Some("fifth"), None, false),
        (Some("sixth"), Some("sixth"), false),
    ]
    .into_iter()
    .enumerate()
    {
        // The other loop has its own state.
        assert!(health.containers_finished(Some("always")).event.is_some());
        let report = health.images_finished(error);
        let event = report
            .event
            .map(|event| (event.kind, event.reason, event.message));
        let expected = expected.map(|text| (EventKind::Warning, "ImageGCFailed", text.to_owned()));
        assert_eq!(event, expected, "step {step}");
        assert_eq!(report.recovered, recovered, "step {step}");
    }
}

proptest! {
    /// Time passes, loops run and end in any order: none starts before one period has passed since its end,
    /// none runs twice at once, and none that is due is skipped.
    #[test]
    fn no_loop_starts_before_one_period_after_its_end(
        steps in prop::collection::vec((0_u64..120, prop::option::of(0_usize..5)), 1..200),
    ) {
        let mut now = at(0);
        let mut schedule = Schedule::new(Loop::ALL.iter().copied(), now);
        let mut ended = [None; 5];
        let mut running = [false; 5];
        for (passed, end) in steps {
            now = now.saturating_add(Duration::from_secs(passed));
            if let Some(position) = end {
                let which = Loop::ALL[position];
                prop_assert_eq!(schedule.finished(which, now).is_ok(), running[position]);
                if running[position] {
                    running[position] = false;
                    ended[position] = Some(now);
                }
            }
            let may_start = |position: usize, now: Timestamp| {
                let period = Loop::ALL[position].period();
                !running[position] && ended[position].is_none_or(|end: Timestamp| now >= end.saturating_add(period))
            };
            let due = (0..5).any(|position| may_start(position, now));
            match schedule.next(now) {
                Next::Run(which) => {
                    let position = Loop::ALL.iter().position(|other| *other == which).expect("one of them");
                    prop_assert!(may_start(position, now), "{which} at {now}");
                    running[position] = true;
                }
                Next::WaitUntil(until) => {
                    prop_assert!(!due);
                    prop_assert!(until > now);
                    prop_assert!((0..5).any(|position| may_start(position, until)));
                }
                Next::Busy => prop_assert_eq!(running, [true; 5]),
            }
        }
    }
}
