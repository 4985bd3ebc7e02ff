//! Jobs with a time to live.

use crate::common::{at, cache, from_cache, line, lines, play, reconcile, reconcile_all, record};
use kubegc_controllers::{BatchPlanner, Cache, Response, TtlAfterFinished};
use kubegc_core::{
    KubernetesVersion, Planner, StoreError, Timestamp,
    record::{Body, Condition, Field, Job, Record, Resource},
};
use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};

const NOW: i64 = 1_000_000;

fn latest() -> TtlAfterFinished {
    TtlAfterFinished::new(KubernetesVersion::LATEST)
}

fn seconds(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

/// A condition that changed at this time.
fn condition(kind: &str, status: &str, at: impl Into<Option<i64>>) -> Condition {
    Condition {
        last_transition_time: at.into().map(seconds),
        ..Condition::new(kind, status)
    }
}

fn job(ttl: impl Into<Option<i32>>, conditions: &[Condition]) -> Record {
    let (_, mut record) = record(json!({"kind": "Job", "metadata": {"namespace": "shop", "name": "report"}}));
    *record.body_mut() = Body::Job(Job {
        ttl_seconds_after_finished: ttl.into().into(),
        conditions: conditions.to_vec().into(),
        ..Job::default()
    });
    record
}

/// A Job that completed this many seconds ago.
fn completed(ttl: i32, seconds_ago: i64) -> Record {
    job(ttl, &[condition("Complete", "True", NOW - seconds_ago)])
}

fn cache_of(records: Vec<Record>) -> Cache {
    let mut cache = cache(&latest(), &[]);
    cache.replace(Resource::Jobs, records);
    cache
}

/// The decision about `shop/report`.
fn decision_at(job: Record, now: Timestamp) -> Vec<String> {
    let lines = lines(
        &reconcile(&latest(), &cache_of(vec![job]), "shop/report", now),
        now,
    );
    lines
        .iter()
        .map(|line| line.replace(" job.batch/report -n shop", ""))
        .collect()
}

fn decision(job: Record) -> Vec<String> {
    decision_at(job, seconds(NOW))
}

const DELETED: [&str; 1] = ["delete propagation=Foreground uid=uid-report"];

#[test]
fn l2_3_and_l2_4_a_job_expires_when_no_time_remains() {
    assert_eq!(decision(completed(100, 100)), DELETED);
    assert_eq!(decision(completed(0, 0)), DELETED);
    assert_eq!(
        decision(completed(101, 100)),
        ["keep: TtlNotExpired", "requeue 1"]
    );
    for (nanos, is_deleted) in [(-1, false), (0, true), (1, true)] {
        let now = Timestamp::from_nanos(seconds(NOW + 10).as_nanos() + nanos);
        assert_eq!(
            decision_at(completed(10, 0), now) == DELETED,
            is_deleted,
            "{nanos} ns"
        );
    }
    // L2.5: a finish time in the future only delays.
    assert_eq!(
        decision(completed(10, -30)),
        ["keep: TtlNotExpired", "requeue 40"]
    );
    // A negative TTL, which the API server refuses, is used unchanged.
    assert_eq!(decision(completed(-10, -10)), DELETED);
    assert_eq!(
        decision(completed(-10, -11)),
        ["keep: TtlNotExpired", "requeue 1"]
    );
    let ends = |ttl: i32, nanos: i64| {
        let mut complete = condition("Complete", "True", 0);
        complete.last_transition_time = Some(Timestamp::from_nanos(nanos));
        job(ttl, &[complete])
    };
    let end = Timestamp::from_nanos(i64::MAX);
    assert_eq!(decision_at(ends(i32::MAX, i64::MAX), end), ["keep: NeverExpires"]);
    assert_eq!(decision_at(ends(0, i64::MAX), end), DELETED);
    for ttl in [i32::MIN, i32::MAX] {
        assert_eq!(decision(ends(ttl, i64::MIN)), DELETED);
    }
}

#[test]
fn l2_1_and_l2_2_the_time_is_that_of_the_first_true_end_condition() {
    let old = NOW - 900;
    for (conditions, expected) in [
        (
            vec![
                condition("Complete", "False", old),
                condition("Failed", "True", NOW - 5),
            ],
            "requeue 5",
        ),
        (
            vec![
                condition("Failed", "True", NOW - 3),
                condition("Complete", "True", old),
            ],
            "requeue 7",
        ),
    ] {
        let expected = ["keep: TtlNotExpired", expected];
        assert_eq!(decision(job(10, &conditions)), expected);
    }
    for kind in ["SuccessCriteriaMet", "FailureTarget", "Suspended", "complete"] {
        assert_eq!(
            decision(job(10, &[condition(kind, "True", old)])),
            ["keep: NotFinished"]
        );
    }
    for status in ["False", "Unknown", "", "true"] {
        assert_eq!(
            decision(job(10, &[condition("Complete", status, old)])),
            ["keep: NotFinished"]
        );
    }
    assert_eq!(decision(job(10, &[])), ["keep: NotFinished"]);
    let complete = condition("Complete", "True", old);
    assert_eq!(
        decision(job(None, std::slice::from_ref(&complete))),
        ["keep: NoTtl"]
    );
    let mut terminating = completed(10, 500);
    terminating.meta.deletion_timestamp = Some(seconds(NOW - 5));
    assert_eq!(decision(terminating), ["keep: Terminating"]);
    // Without a time the Job is not deleted, even if a later condition has one.
    let timeless = job(
        0,
        &[
            condition("Complete", "True", None),
            condition("Failed", "True", 0),
        ],
    );
    let decision = reconcile(&latest(), &cache_of(vec![timeless]), "shop/report", seconds(NOW));
    let reason = &decision.kept[0].reason;
    let text = "unable to find the time when the Job shop/report finished";
    assert_eq!(
        (decision.actions.len(), reason.code(), reason.message()),
        (0, "NoFinishTime", text)
    );
}

#[test]
fn unknown_facts_decide_nothing_unless_the_known_ones_suffice() {
    let field = |field: &str| [format!("unknown:: {field} could not be read")];
    let edited = |mut record: Record, edit: fn(&mut Job)| {
        if let Body::Job(job) = record.body_mut() {
            edit(job);
        }
        decision(record)
    };
    let conditions: fn(&mut Job) = |job| job.conditions = Field::Unread;
    let ttl: fn(&mut Job) = |job| job.ttl_seconds_after_finished = Field::Unread;
    assert_eq!(edited(completed(10, 50), conditions), field("status.conditions"));
    assert_eq!(
        edited(completed(10, 50), ttl),
        field("spec.ttlSecondsAfterFinished")
    );
    assert_eq!(edited(job(None, &[]), conditions), ["keep: NoTtl"]);
    assert_eq!(edited(job(10, &[]), ttl), ["keep: NotFinished"]);
    let metadata_only = Record::metadata_only(completed(10, 50).meta);
    assert_eq!(decision(metadata_only), ["unknown:: only its metadata was read"]);
    let mut without_uid = completed(10, 50);
    without_uid.meta.uid = "".into();
    let metadata = ["unknown:: its metadata could not be read in full"];
    assert_eq!(decision(without_uid), metadata);
    // Two states of one name.
    let twice = cache_of(vec![completed(10, 50), completed(10, 60)]);
    let decision = reconcile(&latest(), &twice, "shop/report", seconds(NOW));
    assert_eq!(decision.unknown[0].reason.code(), "MetadataUnread");
}

#[test]
fn l2_6_to_l2_8_the_job_is_read_and_checked_again_before_it_is_deleted() {
    let delete = "delete job.batch/report -n shop propagation=Foreground uid=uid-report";
    let cache = cache_of(vec![completed(10, 50)]);
    let decision = reconcile(&latest(), &cache, "shop/report", seconds(NOW));
    let steps = decision.actions[0].clone().into_steps(true);
    let get = "get job.batch/report -n shop";
    assert_eq!(play(&steps, from_cache(&cache)), [get, delete, "done"]);
    // In a simulation nothing can have changed.
    let unverified = decision.actions[0].clone().into_steps(false);
    assert_eq!(play(&unverified, from_cache(&cache)), [delete, "done"]);
    let mut longer = completed(60, 50);
    longer.meta.resource_version = "2".into();
    let mut another = completed(10, 50);
    another.meta.uid = "uid-2".into();
    for found in [longer, another] {
        let lines = play(&steps, |_| Response::Object(Box::new(found.clone())));
        assert_eq!(lines, [get, "stale: 1 reads differ"]);
    }
    assert_eq!(
        play(&steps, |_| Response::Failed(StoreError::NotFound)),
        [get, "stale: 1 reads differ"]
    );
    // Every error is retried, NotFound of the delete included.
    let message = "injected".to_owned();
    let unknown = StoreError::Unknown { message };
    let lines = play(&steps, |_| Response::Failed(unknown.clone()));
    assert_eq!(lines, [get, "failed, retried=true: unknown outcome: injected"]);
    for (error, text) in [
        (StoreError::NotFound, "not found"),
        (unknown.clone(), "unknown outcome: injected"),
    ] {
        let mut get = from_cache(&cache);
        let lines = play(&steps, |request| match request.is_deletion() {
            true => Response::Failed(error.clone()),
            false => get(request),
        });
        assert_eq!(lines[2], format!("failed, retried=true: {text}"));
    }
    let plan = BatchPlanner::new(latest()).plan(&cache, seconds(NOW));
    assert_eq!(line(&plan.actions[0].requests[0]), format!("{delete} rv=1"));
    let text = "it finished 50s ago, and spec.ttlSecondsAfterFinished is 10";
    assert_eq!(plan.actions[0].reason.message(), text);
}

#[test]
fn l2_10_the_controller_runs_since_1_21() {
    for (release, is_deleted) in [("1.13", false), ("1.20", false), ("1.21", true), ("1.36", true)] {
        let controller = TtlAfterFinished::new(release.parse().expect("a release in range"));
        let decision = reconcile(
            &controller,
            &cache_of(vec![completed(10, 50)]),
            "shop/report",
            seconds(NOW),
        );
        let kept = decision.kept.first().map(|kept| kept.reason.code());
        assert_eq!(
            (decision.actions.len(), kept),
            if is_deleted {
                (1, None)
            } else {
                (0, Some("Disabled"))
            }
        );
    }
}

#[test]
fn decisions_about_jobs_that_are_read_from_json() {
    let controller = latest();
    let job = |name: &str, finished: Value| {
        let complete = json!({"type": "Complete", "status": "True", "lastTransitionTime": finished});
        json!({"kind": "Job", "metadata": {"namespace": "shop", "name": name},
            "spec": {"ttlSecondsAfterFinished": 60}, "status": {"conditions": [complete]}})
    };
    let mut unread = job("c", "2026-03-01T12:00:00Z".into());
    unread["status"]["conditions"] = "hidden".into();
    let (a, b) = (
        job("a", "2026-03-01T12:00:00Z".into()),
        job("b", "2026-03-01T12:00:30Z".into()),
    );
    let expected = [
        "delete job.batch/a -n shop propagation=Foreground uid=uid-a",
        "keep job.batch/b -n shop: TtlNotExpired",
        "requeue 30",
        "unknown job.batch/c -n shop: job.batch/c -n shop: status.conditions could not be read",
        "keep job.batch/d -n shop: NoFinishTime",
    ];
    let cache = cache(&controller, &[a, b, unread, job("d", Value::Null)]);
    assert_eq!(
        reconcile_all(&controller, &cache, at("2026-03-01T12:01:00Z")),
        expected
    );
}

fn jobs() -> impl Strategy<Value = Vec<Record>> {
    let one = (option::of(0..40_i32), 0..40_i64, 0..4_u8, 0..12_u8);
    vec(one, 0..8).prop_map(|jobs| {
        let record = |(at, (ttl, ago, kind, missing)): (usize, (_, i64, u8, u8))| {
            let kind = ["Complete", "Failed", "Suspended", "Complete"][usize::from(kind)];
            let mut record = job(ttl, &[condition(kind, "True", NOW - ago)]);
            record.meta.name = format!("job-{at}").into();
            record.meta.uid = format!("uid-{at}").as_str().into();
            match (missing, record.body_mut()) {
                (0, Body::Job(job)) => job.conditions = Field::Unread,
                (1, Body::Job(job)) => job.ttl_seconds_after_finished = Field::Unread,
                (2, _) => record.meta.uid = "".into(),
                _ => {}
            }
            record
        };
        jobs.into_iter().enumerate().map(record).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_plan_does_not_depend_on_order_and_is_stable_until_its_next_time(jobs in jobs(), later in 0..40_i64, unread in any::<prop::sample::Index>()) {
        let planner = BatchPlanner::new(latest());
        let now = seconds(NOW + later);
        let plan = planner.plan(&cache_of(jobs.clone()), now);
        prop_assert_eq!(plan.actions.len() + plan.kept.len(), jobs.len());

        let mut reversed = jobs.clone();
        reversed.reverse();
        prop_assert_eq!(planner.plan(&cache_of(reversed), now), plan.clone());

        let is_deleted = |job: &Record| plan.actions.iter().any(|action| action.object.name == job.meta.name);
        let after = jobs.iter().filter(|job| !is_deleted(job)).cloned().collect();
        prop_assert_eq!(planner.plan(&cache_of(after), now).actions, []);

        // The plan changes at its next time, and not before.
        let deletions = |now| planner.plan(&cache_of(jobs.clone()), now).actions.len();
        if let Some(next_at) = plan.next_at {
            prop_assert_eq!(deletions(Timestamp::from_nanos(next_at.as_nanos() - 1)), plan.actions.len());
            prop_assert!(deletions(next_at) > plan.actions.len());
        } else {
            prop_assert_eq!(deletions(seconds(NOW + 1_000)), plan.actions.len());
        }

        // An object that is deleted although a fact is unread is deleted with the fact, too.
        if !jobs.is_empty() {
            let mut less = jobs.clone();
            let at = unread.index(less.len());
            if let Body::Job(job) = less[at].body_mut() {
                job.conditions = Field::Unread;
            }
            for action in planner.plan(&cache_of(less), now).actions {
                prop_assert!(plan.actions.contains(&action));
            }
        }
    }
}
