//! Jobs that outlived their time: the controller's cases one by one, the handling of one job step by step, and the laws of its plans.

mod attempts;
mod laws;

use kubegc_core::{KubernetesVersion, ObjectMeta, Planner, Preconditions, ResourceVersion, Timestamp, Uid};
use kubegc_lifecycle::{
    job::{Action, Facts, Job, Reason, Settings, State, Ttl},
    object::{Act, Call, Condition, Live, Object, Reads, Resource, Wire},
};

/// The time of most tests.
const NOW: i64 = 1_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

fn condition(kind: &str, status: &str, changed_at: Option<i64>) -> Condition {
    Condition {
        last_transition_time: changed_at.map(at),
        ..Condition::new(kind, status)
    }
}

/// A job with these conditions.
fn job(ttl: Option<i32>, conditions: &[Condition]) -> Job {
    Job {
        meta: ObjectMeta::new("shop", "report", "uid-1"),
        ttl: ttl.map_or(Ttl::Unset, Ttl::Seconds),
        conditions: Some(conditions.to_vec()),
    }
}

/// A job that was completed this many seconds ago.
fn completed(ttl: i32, seconds_ago: i64) -> Job {
    job(
        Some(ttl),
        &[condition("Complete", "True", Some(NOW - seconds_ago))],
    )
}

fn listed(job: Job) -> Facts {
    Facts {
        jobs: vec![job],
        reads: Reads::AsListed,
    }
}

fn read(job: Job, live: Live<Job>) -> Facts {
    let object = Object::new(Resource::Jobs, &job.meta);
    Facts {
        jobs: vec![job],
        reads: Reads::Of([(object, live)].into()),
    }
}

/// What a plan says of the only job: `Ok` with the uid of what is deleted, `Err` with the reason to keep it; and when to look again.
fn verdict_at(facts: &Facts, now: Timestamp) -> (Result<Uid, Reason>, Option<Timestamp>) {
    let plan = Settings::default().plan(facts, now);
    let verdict = match (&*plan.actions, &*plan.kept) {
        ([action], []) => Ok(action.object().uid.clone()),
        ([], [kept]) => Err(kept.reason.clone()),
        other => panic!("one job, one verdict: {other:?}"),
    };
    (verdict, plan.next_at)
}

fn verdict(facts: &Facts) -> (Result<Uid, Reason>, Option<Timestamp>) {
    verdict_at(facts, at(NOW))
}

const fn kept(state: State) -> (Result<Uid, Reason>, Option<Timestamp>) {
    (Err(Reason::AsListed(state)), None)
}

fn deleted(uid: &str) -> (Result<Uid, Reason>, Option<Timestamp>) {
    (Ok(Uid::new(uid)), None)
}

fn not_expired(finished: i64, expires: i64) -> State {
    State::NotExpired {
        finished_at: at(finished),
        expires_at: at(expires),
    }
}

#[test]
fn t_2_1_an_expired_job_is_deleted_in_the_foreground_by_its_uid() {
    let mut job = completed(100, 100);
    job.meta.resource_version = ResourceVersion::new("7");
    let plan = Settings::default().plan(&listed(job.clone()), at(NOW));
    assert!(plan.kept.is_empty() && plan.findings.is_empty() && plan.next_at.is_none());
    let [Action::Delete { object, expect, .. }] = &*plan.actions else {
        panic!("one deletion: {plan:?}");
    };
    assert_eq!(*object, Object::new(Resource::Jobs, &job.meta));
    let all = Preconditions {
        uid: Some(Uid::new("uid-1")),
        resource_version: Some(ResourceVersion::new("7")),
    };
    assert_eq!(*expect, all);

    let as_upstream = Preconditions::uid(Uid::new("uid-1"));
    for (wire, preconditions) in [(Wire::AsUpstream, as_upstream), (Wire::Strict, all)] {
        let calls = plan.actions[0].calls(wire);
        let [
            Call::Delete {
                object: target,
                options,
            },
        ] = &*calls
        else {
            panic!("one call: {calls:?}");
        };
        assert_eq!((target, &options.preconditions), (object, &preconditions));
        assert_eq!(options.grace_period_seconds, None);
        let policy = kubegc_core::PropagationPolicy::Foreground;
        let propagation = kubegc_core::deletion::Propagation::Policy(policy);
        assert_eq!(options.propagation, Some(propagation));
    }
}

#[test]
fn t_2_2_a_job_one_second_short_is_looked_at_in_a_second() {
    let facts = listed(completed(101, 100));
    let (verdict, next_at) = verdict(&facts);
    assert_eq!(verdict, Err(Reason::AsListed(not_expired(NOW - 100, NOW + 1))));
    assert_eq!(next_at, Some(at(NOW + 1)));
}

#[test]
fn t_2_2_the_instant_of_expiry_is_exact() {
    let facts = listed(completed(10, 0));
    let expiry = at(NOW + 10);
    for (nanos, is_deleted) in [(-1, false), (0, true), (1, true)] {
        let now = Timestamp::from_nanos(expiry.as_nanos() + nanos);
        assert_eq!(verdict_at(&facts, now).0.is_ok(), is_deleted, "{nanos} ns");
    }
}

#[test]
fn t_2_3_without_time_to_live_it_goes_at_once() {
    assert_eq!(verdict(&listed(completed(0, 0))), deleted("uid-1"));
}

#[test]
fn t_2_4_and_5_and_11_what_is_no_candidate_is_ignored() {
    let done = condition("Complete", "True", Some(NOW - 500));
    let mut deleting = completed(10, 500);
    deleting.meta.deletion_timestamp = Some(at(NOW - 5));
    for (job, state) in [
        (job(None, std::slice::from_ref(&done)), State::NoTtl),
        (job(Some(10), &[]), State::NotFinished),
        (
            job(Some(10), &[condition("Complete", "False", Some(0))]),
            State::NotFinished,
        ),
        (
            job(Some(10), &[condition("Failed", "Unknown", Some(0))]),
            State::NotFinished,
        ),
        // Steps on the way to the end do not count.
        (
            job(Some(10), &[condition("SuccessCriteriaMet", "True", Some(0))]),
            State::NotFinished,
        ),
        (
            job(Some(10), &[condition("FailureTarget", "True", Some(0))]),
            State::NotFinished,
        ),
        (
            job(Some(10), &[condition("Suspended", "True", Some(0))]),
            State::NotFinished,
        ),
        (deleting, State::Deleting),
    ] {
        assert_eq!(verdict(&listed(job)), kept(state));
    }
}

#[test]
fn t_2_6_the_first_condition_that_is_true_says_when() {
    for (conditions, finished) in [
        (
            [
                condition("Complete", "False", Some(NOW - 900)),
                condition("Failed", "True", Some(NOW - 5)),
            ],
            NOW - 5,
        ),
        (
            [
                condition("Failed", "True", Some(NOW - 3)),
                condition("Complete", "True", Some(NOW - 900)),
            ],
            NOW - 3,
        ),
    ] {
        let (verdict, next_at) = verdict(&listed(job(Some(10), &conditions)));
        assert_eq!(
            verdict,
            Err(Reason::AsListed(not_expired(finished, finished + 10)))
        );
        assert_eq!(next_at, Some(at(finished + 10)));
    }
}

#[test]
fn t_2_7_without_a_time_nothing_is_deleted_and_the_error_is_upstreams() {
    let conditions = [
        condition("Complete", "True", None),
        condition("Failed", "True", Some(0)),
    ];
    let (verdict, next_at) = verdict(&listed(job(Some(0), &conditions)));
    let reason = verdict.expect_err("no time, no deletion");
    assert_eq!(
        reason.to_string(),
        "unable to find the time when the Job shop/report finished"
    );
    assert_eq!(next_at, None);
}

#[test]
fn t_2_8_a_finish_in_the_future_only_delays() {
    let facts = listed(completed(10, -30));
    let plan = Settings::default().plan(&facts, at(NOW));
    assert!(plan.actions.is_empty());
    assert_eq!(plan.next_at, Some(at(NOW + 40)));
    let finished_at = at(NOW + 30);
    assert_eq!(plan.findings.len(), 1);
    assert_eq!(plan.findings[0].reason, Reason::FinishedAhead { finished_at });
    // The finding goes when that time has come; the job stays.
    let plan = Settings::default().plan(&facts, finished_at);
    assert!(plan.actions.is_empty() && plan.findings.is_empty());
}

#[test]
fn t_2_9_a_longer_time_to_live_is_seen_by_the_read() {
    let (verdict, next_at) = verdict(&read(completed(10, 50), Live::Found(completed(60, 50))));
    assert_eq!(verdict, Err(Reason::AsRead(not_expired(NOW - 50, NOW + 10))));
    assert_eq!(next_at, Some(at(NOW + 10)));
}

#[test]
fn t_2_10_another_job_of_the_name_is_judged_by_itself() {
    let mut other = job(Some(10), &[]);
    other.meta.uid = Uid::new("uid-2");
    let facts = read(completed(10, 50), Live::Found(other.clone()));
    let plan = Settings::default().plan(&facts, at(NOW));
    assert!(plan.actions.is_empty());
    assert_eq!(plan.kept[0].reason, Reason::AsRead(State::NotFinished));
    let uid = Uid::new("uid-2");
    assert_eq!(plan.findings[0].reason, Reason::Replaced { uid });

    // Were it expired, it would go, by its own uid.
    other.conditions = completed(10, 50).conditions;
    assert_eq!(
        verdict(&read(completed(10, 50), Live::Found(other))),
        deleted("uid-2")
    );
}

#[test]
fn t_2_12_what_is_gone_is_no_failure_and_what_was_not_read_stays() {
    let expired_at = at(NOW - 40);
    let message = "connection refused".into();
    for (live, reason) in [
        (Live::NotFound, Reason::Gone),
        (Live::NotAsked, Reason::NotRead { expired_at }),
        (
            Live::Failed("connection refused".into()),
            Reason::ReadFailed { message },
        ),
    ] {
        let facts = read(completed(10, 50), live);
        assert_eq!(verdict(&facts), (Err(reason), None));
    }
    let plan = Settings::default().plan(&read(completed(10, 50), Live::NotAsked), at(NOW));
    assert_eq!(plan.summary.to_read, [plan.kept[0].object.clone()]);
    // A read is not needed while the listed job has time.
    let plan = Settings::default().plan(&read(completed(60, 50), Live::NotAsked), at(NOW));
    assert_eq!(plan.summary.to_read, []);
}

#[test]
fn what_is_not_known_decides_nothing() {
    let finished = completed(10, 50);
    let field = |field| State::NotKnown { field };
    let without_conditions = Job {
        conditions: None,
        ..finished.clone()
    };
    let without_ttl = Job {
        ttl: Ttl::Unknown,
        ..finished
    };
    assert_eq!(
        verdict(&listed(without_conditions.clone())),
        kept(field("status.conditions"))
    );
    assert_eq!(
        verdict(&listed(without_ttl)),
        kept(field("spec.ttlSecondsAfterFinished"))
    );
    // What is known to rule a deletion out is enough.
    let unset = Job {
        ttl: Ttl::Unset,
        ..without_conditions
    };
    assert_eq!(verdict(&listed(unset)), kept(State::NoTtl));
    let running = Job {
        ttl: Ttl::Unknown,
        ..job(None, &[])
    };
    assert_eq!(verdict(&listed(running)), kept(State::NotFinished));
}

#[test]
fn the_ends_of_time_break_nothing() {
    let with_time = |ttl, nanos| {
        let mut done = condition("Complete", "True", None);
        done.last_transition_time = Some(Timestamp::from_nanos(nanos));
        listed(job(Some(ttl), &[done]))
    };
    let end = Timestamp::from_nanos(i64::MAX);
    let late = with_time(i32::MAX, i64::MAX);
    assert_eq!(
        verdict_at(&late, end),
        kept(State::NeverExpires { finished_at: end })
    );
    assert!(verdict_at(&with_time(0, i64::MAX), end).0.is_ok());
    assert!(
        verdict_at(&with_time(i32::MIN, i64::MIN), Timestamp::EPOCH)
            .0
            .is_ok()
    );
    assert!(
        verdict_at(&with_time(i32::MAX, i64::MIN), Timestamp::EPOCH)
            .0
            .is_ok()
    );
    // A negative time to live, which the API server refuses, counts as it stands.
    assert!(verdict(&listed(completed(-10, -10))).0.is_ok());
    assert!(verdict(&listed(completed(-10, -11))).0.is_err());
}

#[test]
fn odd_lists_delete_nothing_twice() {
    let expired = completed(10, 50);
    let other_state = completed(10, 60);
    let facts = Facts {
        jobs: vec![expired.clone(), other_state, expired.clone()],
        reads: Reads::AsListed,
    };
    assert_eq!(verdict(&facts), (Err(Reason::ListedTwice), None));
    let facts = Facts {
        jobs: vec![expired.clone(), expired.clone()],
        reads: Reads::AsListed,
    };
    assert_eq!(verdict(&facts), deleted("uid-1"));

    // One name has one job at a time: which of two uids is there is not known.
    let mut second = expired.clone();
    second.meta.uid = Uid::new("uid-2");
    let facts = Facts {
        jobs: vec![expired.clone(), second.clone()],
        reads: Reads::AsListed,
    };
    let plan = Settings::default().plan(&facts, at(NOW));
    assert_eq!((plan.actions.len(), plan.kept.len()), (0, 2));
    assert!(plan.kept.iter().all(|kept| kept.reason == Reason::ListedTwice));

    // The reads of two names find the same job.
    second.meta.name = "report-2".into();
    let reads = [&expired, &second].map(|job| {
        let object = Object::new(Resource::Jobs, &job.meta);
        (object, Live::Found(second.clone()))
    });
    let facts = Facts {
        jobs: vec![expired, second],
        reads: Reads::Of(reads.into()),
    };
    let plan = Settings::default().plan(&facts, at(NOW));
    assert_eq!(plan.actions.len(), 1);
    assert_eq!(plan.actions[0].object().uid, Uid::new("uid-2"));
    assert_eq!(plan.kept.len(), 1);
    assert_eq!(plan.kept[0].reason, Reason::PlannedAlready);
}

#[test]
fn a_job_without_a_uid_stays() {
    let mut nameless = completed(10, 50);
    nameless.meta.uid = Uid::new("");
    let unknown = State::NotKnown {
        field: "metadata.uid",
    };
    assert_eq!(verdict(&listed(nameless.clone())), kept(unknown.clone()));
    // Neither does a read without one delete what was listed with one.
    let facts = read(completed(10, 50), Live::Found(nameless));
    assert_eq!(verdict(&facts), (Err(Reason::AsRead(unknown)), None));
}

#[test]
fn l2_10_the_controller_runs_since_1_21() {
    let facts = listed(completed(10, 50));
    for (release, is_deleted) in [("1.13", false), ("1.20", false), ("1.21", true), ("1.36", true)] {
        let version: KubernetesVersion = release.parse().expect("a release in range");
        let plan = Settings::new(version).plan(&facts, at(NOW));
        assert_eq!(plan.actions.len(), usize::from(is_deleted), "{release}");
        let reason = plan.kept.first().map(|kept| kept.reason.clone());
        assert_eq!(reason, (!is_deleted).then_some(Reason::Disabled), "{release}");
    }
}

#[test]
fn reasons_are_told_in_words() {
    let finished_at = at(0);
    for (reason, text) in [
        (Reason::Disabled, "finished jobs are not deleted"),
        (Reason::ListedTwice, "listed twice, and not alike"),
        (Reason::AsListed(State::Deleting), "is being deleted"),
        (
            Reason::AsRead(State::NoTtl),
            "when read again, has no time to live",
        ),
        (
            Reason::NotRead { expired_at: at(0) },
            "expired at 1970-01-01T00:00:00Z and must be read again first",
        ),
        (
            Reason::ReadFailed {
                message: "timeout".into(),
            },
            "could not be read again: timeout",
        ),
        (Reason::Gone, "is gone"),
        (
            Reason::FinishedAhead { finished_at },
            "finished in the future, at 1970-01-01T00:00:00Z: clocks differ",
        ),
        (
            Reason::Replaced { uid: Uid::new("u") },
            "its name is now that of another job (uid u)",
        ),
    ] {
        assert_eq!(reason.to_string(), text);
    }
}
