//! What becomes of a unit when a task of it ends, in whatever way.

use std::time::Duration;

use kubegc_core::{StoreError, Timestamp};
use kubegc_lifecycle::{
    controller::{Controller, Ended, Mechanism, Task, TaskId},
    object::{Resource, Wire},
};

use crate::support::*;

const HOUR: i64 = 3_600;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn failed() -> Ended {
    Ended::Failed(refused())
}

/// A controller of jobs, and the task that deletes one at 100 s.
fn deleting_a_job() -> (Controller, Task) {
    let mut controller = controller(Mechanism::Jobs);
    controller.handle(at(0), listed(Resource::Jobs, [job("a", 0, 100)]));
    let task = one(&mut controller, at(100));
    (controller, task)
}

#[test]
fn a_unit_whose_task_is_out_is_not_looked_at() {
    let (mut controller, task) = deleting_a_job();
    let changed = touched(job("a", 0, 50));
    controller.handle(at(101), applied(Resource::Jobs, &changed));
    assert_eq!(told(&mut controller, at(102)), (vec![], None));
    // Others are.
    controller.handle(at(103), applied(Resource::Jobs, &job("b", 0, 50)));
    assert_eq!(one_text(&mut controller, at(103)), "delete Job shop/b");
    // What changed meanwhile is looked at after the end.
    controller.handle(at(110), ended(task.id, Ended::Done));
    assert_eq!(controller.next_at(), Some(at(101)));
    assert_eq!(one_text(&mut controller, at(110)), "delete Job shop/a");
}

#[test]
fn what_is_done_is_looked_at_when_it_changes() {
    let (mut controller, task) = deleting_a_job();
    controller.handle(at(100), ended(task.id, Ended::Done));
    assert_eq!(told(&mut controller, at(10_000)), (vec![], None));
    controller.handle(at(10_000), applied(Resource::Jobs, &touched(job("a", 0, 20_000))));
    assert_eq!(told(&mut controller, at(10_000)), (vec![], Some(at(20_000))));
}

#[test]
fn what_is_stale_comes_again_with_the_change_or_after_a_second() {
    let (mut controller, task) = deleting_a_job();
    controller.handle(at(100), ended(task.id, Ended::Stale));
    let mut late = controller.clone();
    assert_first(&mut late, at(101), &["delete Job shop/a"]);

    let now = at(100).saturating_add(millis(300));
    let changed = touched(job("a", 0, 200));
    controller.handle(now, applied(Resource::Jobs, &changed));
    assert_eq!(told(&mut controller, now), (vec![], Some(at(200))));
}

#[test]
fn what_is_stale_comes_again_in_the_next_pass() {
    let mut controller = controller(Mechanism::Pods);
    controller.handle(at(0), listed(Resource::Nodes, []));
    controller.handle(
        at(0),
        listed(Resource::Pods, [deleting(pod("a", "", "Pending"), 0)]),
    );
    let task = one(&mut controller, at(0));
    controller.handle(at(1), ended(task.id, Ended::Stale));
    let delete = ["delete Pod shop/a"];
    let task = assert_first(&mut controller, at(20), &delete).remove(0);
    // Also when the pass has not yet passed.
    controller.handle(at(20), ended(task.id, Ended::Stale));
    assert_first(&mut controller, at(40), &delete);
}

#[test]
fn l2_8_a_job_is_tried_again_after_waits_that_double_and_begin_anew() {
    let (mut controller, mut task) = deleting_a_job();
    let mut now = at(100);
    let mut fail = |controller: &mut Controller, task: &mut Task, wait| {
        controller.handle(now, ended(task.id, failed()));
        now = now.saturating_add(millis(wait));
        *task = assert_first(controller, now, &["delete Job shop/a"]).remove(0);
        now
    };
    for wait in [5, 10, 20, 40, 80] {
        fail(&mut controller, &mut task, wait);
    }
    // A change is looked at without a wait, and the next failure still has its own.
    controller.handle(at(101), ended(task.id, failed()));
    controller.handle(at(101), applied(Resource::Jobs, &touched(job("a", 0, 90))));
    task = one(&mut controller, at(101));
    controller.handle(at(101), ended(task.id, failed()));
    let now = at(101).saturating_add(millis(320));
    task = assert_first(&mut controller, now, &["delete Job shop/a"]).remove(0);
    // A success ends the row.
    controller.handle(now, ended(task.id, Ended::Done));
    assert_eq!(told(&mut controller, now), (vec![], None));
    controller.handle(at(102), applied(Resource::Jobs, &job("a", 0, 80)));
    task = one(&mut controller, at(102));
    controller.handle(at(102), ended(task.id, failed()));
    assert_eq!(controller.next_at(), Some(at(102).saturating_add(millis(5))));
    // So does a look that finds nothing to do.
    controller.handle(at(102), applied(Resource::Jobs, &touched(job("a", 0, 200))));
    assert_eq!(told(&mut controller, at(102)), (vec![], Some(at(200))));
    task = one(&mut controller, at(200));
    controller.handle(at(200), ended(task.id, failed()));
    assert_eq!(controller.next_at(), Some(at(200).saturating_add(millis(5))));
}

#[test]
fn waits_grow_up_to_a_thousand_seconds() {
    let (mut controller, mut task) = deleting_a_job();
    let mut now = at(100);
    for _ in 0..25 {
        controller.handle(now, ended(task.id, failed()));
        now = controller.next_at().expect("it is tried again");
        task = one(&mut controller, now);
    }
    controller.handle(now, ended(task.id, failed()));
    assert_eq!(controller.next_at(), Some(now.saturating_add(millis(1_000_000))));
}

#[test]
fn l10_9_a_visit_that_fails_is_repeated_after_waits_of_its_own() {
    let mut controller = controller(Mechanism::Namespaces);
    let goes = deleting(namespace("goes"), 0);
    controller.handle(at(0), listed(Resource::Namespaces, [goes]));
    let mut now = at(5);
    for (failures, wait) in [(0, 5), (1, 10), (2, 20)] {
        let visit = format!("visit goes after {failures} failures");
        let tasks = assert_first(&mut controller, now, &[&visit]);
        controller.handle(now, ended(tasks[0].id, failed()));
        now = now.saturating_add(millis(wait));
    }
    // A visit that left something does not end the row: upstream's queue forgets failures only when a visit was the last.
    let tasks = assert_first(&mut controller, now, &["visit goes after 3 failures"]);
    controller.handle(now, ended(tasks[0].id, Ended::Again(millis(8_000))));
    let now = now.saturating_add(millis(8_000));
    let tasks = assert_first(&mut controller, now, &["visit goes after 3 failures"]);
    controller.handle(now, ended(tasks[0].id, Ended::Done));
    controller.handle(
        now,
        applied(Resource::Namespaces, &touched(deleting(namespace("goes"), 0))),
    );
    let now = now.saturating_add(millis(5_000));
    assert_first(&mut controller, now, &["visit goes after 0 failures"]);
}

#[test]
fn a_lease_that_is_gone_is_done_and_another_failure_is_tried_again() {
    let conflict = StoreError::Conflict {
        message: "changed".to_owned(),
    };
    for (error, again) in [(StoreError::NotFound, None), (conflict, Some(5))] {
        let mut controller = controller(Mechanism::Leases);
        controller.handle(at(0), listed(Resource::Nodes, []));
        controller.handle(at(0), listed(Resource::Leases, [lease("a")]));
        let task = one(&mut controller, at(0));
        controller.handle(at(1), ended(task.id, Ended::Failed(error)));
        let again = again.map(|wait| at(1).saturating_add(millis(wait)));
        assert_eq!(controller.next_at(), again);
    }
}

/// Mechanism, what is listed of what, when it is done, how that fails, and when it is tried again.
type Case = (
    Mechanism,
    Resource,
    kubegc_lifecycle::fields::Record,
    i64,
    StoreError,
    Option<i64>,
);

#[test]
fn what_fails_comes_again_as_upstream_has_it() {
    let conflict = || StoreError::Conflict {
        message: "changed".to_owned(),
    };
    let secrets = Resource::Secrets;
    let requests = Resource::CertificateSigningRequests;
    let pod_requests = Resource::PodCertificateRequests;
    let cases: [Case; 7] = [
        (
            Mechanism::BootstrapTokens,
            secrets,
            token("a", 7),
            7,
            conflict(),
            None,
        ),
        (
            Mechanism::BootstrapTokens,
            secrets,
            token("a", 7),
            7,
            refused(),
            None,
        ),
        (
            Mechanism::Certificates,
            requests,
            denied("a", -HOUR),
            HOUR,
            refused(),
            Some(2 * HOUR),
        ),
        (
            Mechanism::Certificates,
            requests,
            denied("a", -HOUR),
            HOUR,
            StoreError::NotFound,
            Some(2 * HOUR),
        ),
        (
            Mechanism::PodCertificates,
            pod_requests,
            pod_request("a", 1),
            HOUR,
            refused(),
            Some(2 * HOUR),
        ),
        (
            Mechanism::PodCertificates,
            pod_requests,
            pod_request("a", 1),
            HOUR,
            StoreError::NotFound,
            None,
        ),
        (
            Mechanism::Pods,
            Resource::Pods,
            deleting(pod("a", "", ""), 1),
            20,
            StoreError::NotFound,
            Some(40),
        ),
    ];
    for (mechanism, resource, record, now, error, again) in cases {
        let what = format!("{mechanism}: {error}");
        let mut controller = controller(mechanism);
        for other in controller.resources() {
            controller.handle(at(0), listed(other, []));
        }
        assert_eq!(told(&mut controller, at(0)), (vec![], None), "{what}");
        controller.handle(at(1), applied(resource, &record));
        let task = one(&mut controller, at(now));
        controller.handle(at(now), ended(task.id, Ended::Failed(error)));
        assert_eq!(controller.next_at(), again.map(at), "{what}");
        let (tasks, _) = due(&mut controller, at(again.unwrap_or(now)));
        assert_eq!(tasks.len(), usize::from(again.is_some()), "{what}");
    }
}

#[test]
fn a_pass_whose_tasks_are_out_waits_for_all_of_them() {
    let mut controller = controller(Mechanism::Pods);
    controller.handle(at(0), listed(Resource::Nodes, []));
    let pods = ["a", "b", "c"].map(|name| deleting(pod(name, "", "Pending"), 0));
    controller.handle(at(0), listed(Resource::Pods, pods.clone()));
    let (tasks, until) = due(&mut controller, at(0));
    assert_eq!((tasks.len(), until), (3, None));
    controller.handle(at(1), ended(tasks[0].id, failed()));
    controller.handle(at(2), gone(Resource::Pods, &pods[1]));
    controller.handle(at(2), ended(tasks[1].id, Ended::Done));
    assert_eq!(told(&mut controller, at(30)), (vec![], None));
    controller.handle(at(30), ended(tasks[2].id, Ended::Done));
    // The pass at 20 s comes late. It takes what is still there.
    assert_eq!(
        told(&mut controller, at(30)).0,
        ["delete Pod shop/a", "delete Pod shop/c"]
    );
}

#[test]
fn what_changed_before_it_was_handed_out_is_not_handed_out() {
    let mut controller = controller(Mechanism::Pods);
    controller.handle(at(0), listed(Resource::Nodes, []));
    let pods = ["a", "b", "c", "d"].map(|name| deleting(pod(name, "", "Pending"), 0));
    controller.handle(at(0), listed(Resource::Pods, pods.clone()));
    let kubegc_lifecycle::controller::Output::Perform(first) = controller.poll_output(at(0)) else {
        panic!("a deletion")
    };
    assert_eq!(text(&first), "delete Pod shop/a");
    assert_eq!(controller.next_at(), Some(at(0)), "there is more to do");
    controller.handle(at(1), gone(Resource::Pods, &pods[1]));
    controller.handle(at(1), applied(Resource::Pods, &touched(pods[2].clone())));
    assert_eq!(told(&mut controller, at(1)).0, ["delete Pod shop/d"]);
}

#[test]
fn ends_of_unknown_tasks_mean_nothing() {
    let (mut controller, task) = deleting_a_job();
    controller.handle(at(100), ended(task.id, Ended::Done));
    for again in [failed(), Ended::Stale, Ended::Again(Duration::ZERO)] {
        controller.handle(at(100), ended(task.id, again));
        assert_eq!(controller.next_at(), None);
    }
    let foreign = foreign_id(1_000);
    controller.handle(at(100), ended(foreign, failed()));
    assert_eq!(told(&mut controller, at(100)), (vec![], None));
}

/// An id that a controller gives out after so many others.
fn foreign_id(count: usize) -> TaskId {
    let mut controller = Controller::new(settings([Mechanism::Jobs]), Wire::Strict, at(0));
    let jobs = (0..=count).map(|at| job(&format!("job-{at:06}"), 0, 0));
    controller.handle(at(0), listed(Resource::Jobs, jobs));
    let (tasks, _) = due(&mut controller, Timestamp::EPOCH);
    tasks.last().expect("tasks").id
}
