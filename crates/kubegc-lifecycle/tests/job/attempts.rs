//! One job, handled step by step.

use std::time::Duration;

use kubegc_core::{StoreError, Uid};
use kubegc_lifecycle::{
    job::{Action, Answer, Attempt, Ending, Job, Reason, Settings, State, Step},
    object::{Act, Failure, Object, Resource},
};

use crate::{NOW, at, completed, condition, job};

fn found(job: Job) -> Option<Answer> {
    Some(Answer::Job(Box::new(job)))
}

fn failed(error: StoreError) -> Option<Answer> {
    Some(Answer::Failed(error))
}

/// An attempt that has asked for the live job.
fn reading() -> Attempt {
    let listed = completed(10, 50);
    let object = Object::new(Resource::Jobs, &listed.meta);
    let mut attempt = Attempt::new(Settings::default(), listed);
    assert_eq!(attempt.next(None, at(NOW)), Step::Get(object));
    attempt
}

/// An attempt that has asked for the deletion.
fn deleting() -> Attempt {
    let mut attempt = reading();
    let Step::Perform(action) = attempt.next(found(completed(20, 50)), at(NOW)) else {
        panic!("the live job has expired");
    };
    assert_eq!(action.object().uid, Uid::new("uid-1"));
    attempt
}

fn ending(step: Step) -> Ending {
    match step {
        Step::Done(ending) => ending,
        other => panic!("not over: {other:?}"),
    }
}

#[test]
fn t_2_1_listed_read_deleted() {
    let mut attempt = deleting();
    let end = ending(attempt.next(Some(Answer::Done), at(NOW + 2)));
    // The time to live of the live job counts.
    let expired_at = at(NOW - 30);
    let delay = Duration::from_secs(32);
    assert_eq!(end, Ending::Deleted { expired_at, delay });
    // Over is over.
    assert_eq!(ending(attempt.next(Some(Answer::Done), at(NOW + 9))), end);
}

#[test]
fn a_live_job_without_a_uid_is_not_deleted() {
    let mut nameless = completed(20, 50);
    nameless.meta.uid = Uid::new("");
    let field = "metadata.uid";
    assert_eq!(
        ending(reading().next(found(nameless), at(NOW))),
        Ending::Kept(Reason::AsRead(State::NotKnown { field }))
    );
}

#[test]
fn t_2_2_and_9_what_has_time_is_requeued_for_its_expiry() {
    let mut attempt = Attempt::new(Settings::default(), completed(101, 100));
    let Ending::Requeued { at: again, .. } = ending(attempt.next(None, at(NOW))) else {
        panic!("not expired");
    };
    assert_eq!(again, at(NOW + 1));

    let Ending::Requeued { at: again, reason } = ending(reading().next(found(completed(60, 50)), at(NOW)))
    else {
        panic!("not expired when read");
    };
    assert_eq!(again, at(NOW + 10));
    assert!(matches!(reason, Reason::AsRead(State::NotExpired { .. })));
}

#[test]
fn the_second_judgement_is_made_at_its_own_time() {
    let longer = completed(52, 50);
    let Ending::Requeued { at: again, .. } = ending(reading().next(found(longer.clone()), at(NOW + 1)))
    else {
        panic!("a second is left");
    };
    assert_eq!(again, at(NOW + 2));
    assert!(matches!(
        reading().next(found(longer), at(NOW + 2)),
        Step::Perform(Action::Delete { .. })
    ));
}

#[test]
fn t_2_7_without_a_time_it_is_tried_again() {
    let timeless = job(Some(0), &[condition("Complete", "True", None)]);
    let mut attempt = Attempt::new(Settings::default(), timeless.clone());
    let message = "unable to find the time when the Job shop/report finished".to_owned();
    let retry = Ending::Retry { message };
    assert_eq!(ending(attempt.next(None, at(NOW))), retry);
    assert_eq!(ending(reading().next(found(timeless), at(NOW))), retry);
}

#[test]
fn t_2_10_and_12_another_job_or_none() {
    let mut other = job(Some(10), &[]);
    other.meta.uid = Uid::new("uid-2");
    let kept = Ending::Kept(Reason::AsRead(State::NotFinished));
    assert_eq!(ending(reading().next(found(other), at(NOW))), kept);
    assert_eq!(
        ending(reading().next(failed(StoreError::NotFound), at(NOW))),
        Ending::Gone
    );
}

#[test]
fn l2_8_every_failed_deletion_is_tried_again() {
    let message = "gone".to_owned();
    for error in [StoreError::NotFound, StoreError::Conflict { message }] {
        assert_eq!(Action::failure(&error), Failure::Retried);
        let message = error.to_string();
        let end = ending(deleting().next(failed(error), at(NOW)));
        assert_eq!(end, Ending::Retry { message });
    }
}

#[test]
fn answers_that_do_not_fit_delete_nothing() {
    for answer in [None, Some(Answer::Done)] {
        assert!(matches!(
            ending(reading().next(answer, at(NOW))),
            Ending::Retry { .. }
        ));
    }
    for answer in [None, found(completed(10, 50))] {
        assert!(matches!(
            ending(deleting().next(answer, at(NOW))),
            Ending::Retry { .. }
        ));
    }
}

#[test]
fn where_the_controller_does_not_run_nothing_is_asked() {
    let old = Settings::new("1.20".parse().expect("a release in range"));
    let mut attempt = Attempt::new(old, completed(10, 50));
    assert_eq!(
        ending(attempt.next(None, at(NOW))),
        Ending::Kept(Reason::Disabled)
    );
}
