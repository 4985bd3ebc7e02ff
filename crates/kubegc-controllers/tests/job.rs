//! The Job controller: tracking finalizers and active pods.

use crate::support::{Change as _, cache, object, plan, run, secs, version};
use kubegc_controllers::{Cache, JobTracking, job::TRACKING_FINALIZER};
use kubegc_core::{
    StoreError, Uid,
    record::{Body, Condition, Field, Job, JobCounts, Pod, Record, Resource},
};

fn job(job: Job) -> (Resource, Record) {
    (Resource::Jobs, object("shop", "j", Body::Job(job)))
}

fn pod(name: &str, phase: &str) -> Record {
    let pod = Pod {
        phase: Field::Known(phase.into()),
        ..Pod::default()
    };
    let record = object("shop", name, Body::Pod(pod));
    record
        .owned_by("batch/v1", "Job", "j")
        .finalizer(TRACKING_FINALIZER)
}

fn pods(of: impl IntoIterator<Item = Record>) -> Vec<(Resource, Record)> {
    of.into_iter().map(|record| (Resource::Pods, record)).collect()
}

fn three() -> Job {
    Job {
        completions: Some(3).into(),
        parallelism: Some(3).into(),
        ..Job::default()
    }
}

fn condition(kind: &str) -> Field<Vec<Condition>> {
    vec![Condition::new(kind, "True")].into()
}

fn with(first: (Resource, Record), of: impl IntoIterator<Item = Record>) -> Vec<(Resource, Record)> {
    let mut all = pods(of);
    all.push(first);
    all
}

#[test]
fn orphans_lose_the_finalizer() {
    let controller = JobTracking::new(version(34));
    let without_owner = object("shop", "bare", Body::Pod(Pod::default())).finalizer(TRACKING_FINALIZER);
    let other = object("shop", "other", Body::Pod(Pod::default()))
        .finalizer(TRACKING_FINALIZER)
        .owned_by("example.com/v1", "Job", "j");
    let unlisted = |cache: &mut Cache| {
        cache.set_listed(Resource::Jobs, Err(StoreError::Unlisted));
    };
    let objects = || pods([without_owner.clone(), other.clone(), pod("gone", "Running")]);
    let mut known = cache(&controller, objects());
    assert_eq!(
        plan(&controller, &known, secs(0)),
        [
            "patch pod/bare -n shop: NoJob",
            "patch pod/gone -n shop: JobDeleted",
            "keep pod/other -n shop: ControlledByOther"
        ]
    );
    unlisted(&mut known);
    assert_eq!(
        plan(&controller, &known, secs(0)),
        [
            "patch pod/bare -n shop: NoJob",
            "unknown pod/gone -n shop: ListMissing",
            "keep pod/other -n shop: ControlledByOther"
        ]
    );
    let old = JobTracking::new(version(30));
    let known = cache(&old, objects());
    assert_eq!(plan(&old, &known, secs(0))[2], "patch pod/other -n shop: NoJob");
    let ancient = JobTracking::new(version(20));
    let known = cache(&ancient, objects());
    assert_eq!(
        plan(&ancient, &known, secs(0))[1],
        "keep pod/gone -n shop: FinalizerUnknown"
    );
}

#[test]
fn a_job_decides_on_its_pods() {
    let all = || {
        [
            pod("a", "Running"),
            pod("b", "Succeeded"),
            pod("c", "Failed"),
            pod("d", "Running").terminating(1),
        ]
    };
    let lost = |pod: &str, code: &str| format!("patch pod/{pod} -n shop: {code}");
    let keep = |pod: &str, code: &str| format!("keep pod/{pod} -n shop: {code}");
    let update = || "update status of job.batch/j -n shop: PodsCounted".to_owned();
    let delete = |pod: &str, code: &str| {
        let event =
            format!("record event SuccessfulDelete for job.batch/j -n shop: Deleted pod: {pod}: {code}");
        [format!("delete pod/{pod} -n shop: {code}"), event]
    };
    let with_limit = |limit: i32| Job {
        backoff_limit: Some(limit).into(),
        ..three()
    };
    let latest = |job: Job, deleting: bool| {
        let controller = JobTracking::new(version(34));
        let mut record = self::job(job);
        if deleting {
            record.1 = record.1.terminating(5);
        }
        plan(&controller, &cache(&controller, with(record, all())), secs(100))
    };
    // A live Job: finished pods, and terminating ones that have not finished.
    assert_eq!(
        latest(with_limit(2), false),
        [
            update(),
            lost("b", "PodSucceeded"),
            lost("c", "PodFailed"),
            lost("d", "PodFailed"),
            update(),
            keep("a", "PodNotFinished")
        ]
    );
    let waiting = Job {
        pod_replacement_policy: Field::Known("Failed".into()),
        ..with_limit(2)
    };
    assert_eq!(
        latest(waiting, false),
        [
            update(),
            lost("b", "PodSucceeded"),
            lost("c", "PodFailed"),
            update(),
            keep("a", "PodNotFinished"),
            keep("d", "PodNotFinished")
        ]
    );
    // A Job that is being deleted.
    let terminating = |pod| lost(pod, "JobTerminating");
    assert_eq!(
        latest(with_limit(2), true),
        [
            update(),
            terminating("a"),
            terminating("b"),
            terminating("c"),
            terminating("d"),
            update()
        ]
    );
    // A suspended Job.
    let suspended = Job {
        is_suspended: true.into(),
        ..with_limit(2)
    };
    let lines = latest(suspended, false);
    assert_eq!(lines[0], lost("a", "JobSuspended"));
    assert_eq!(lines[1..3], delete("a", "JobSuspended"));
    // A Job that fails: by its limit, by its deadline, by a condition.
    let late = Job {
        active_deadline_seconds: Some(60).into(),
        start_time: Some(secs(40)).into(),
        ..with_limit(9)
    };
    let failing = Job {
        conditions: condition("FailureTarget"),
        ..with_limit(9)
    };
    for job in [with_limit(1), late.clone(), failing] {
        let lines = latest(job, false);
        assert_eq!(lines[0..2], delete("a", "JobFinishing"));
        assert_eq!(lines[2], update());
        assert_eq!(lines.len(), 8, "{lines:?}");
    }
    let early = Job {
        start_time: Some(secs(41)).into(),
        ..late
    };
    assert_eq!(
        latest(early, false).last().map(String::as_str),
        Some("next at 101")
    );
    // Finished Jobs and Jobs of other controllers.
    let finished = Job {
        conditions: condition("Complete"),
        ..three()
    };
    assert_eq!(
        latest(finished, false),
        [
            lost("a", "JobFinished"),
            lost("b", "JobFinished"),
            lost("c", "JobFinished"),
            lost("d", "JobFinished"),
            "keep job.batch/j -n shop: Finished".to_owned()
        ]
    );
    let managed = Job {
        managed_by: Field::Known("example.com/c".into()),
        ..three()
    };
    assert!(
        latest(managed, true)
            .iter()
            .all(|line| line.ends_with("ManagedByOther"))
    );
}

#[test]
fn unknown_facts_make_the_outcome_undetermined() {
    let controller = JobTracking::new(version(34));
    let lines = |job: Job, deleting: bool, of: Vec<Record>| {
        let mut record = self::job(job);
        if deleting {
            record.1 = record.1.terminating(5);
        }
        plan(&controller, &cache(&controller, with(record, of)), secs(100))
    };
    let policy = || Job {
        has_pod_failure_policy: true.into(),
        ..three()
    };
    let two = || vec![pod("a", "Running"), pod("b", "Failed")];
    let unknown = |pod: &str, code: &str| format!("unknown pod/{pod} -n shop: {code}");
    assert_eq!(
        lines(policy(), false, two()),
        [unknown("b", "OutsideUnknown"), unknown("a", "OutsideUnknown")]
    );
    assert_eq!(lines(policy(), true, two()).len(), 4);
    // One of two active pods is surplus.
    let one = Job {
        completions: Some(1).into(),
        ..Job::default()
    };
    let both = vec![pod("a", "Running"), pod("b", "Running")];
    assert_eq!(
        lines(one, false, both),
        [unknown("a", "OutsideUnknown"), unknown("b", "OutsideUnknown")]
    );
    // A phase that was not read leaves it undetermined whether the Job ends; a succeeded pod loses the
    // finalizer anyway.
    let mut unread = pod("a", "");
    *unread.body_mut() = Body::Unread;
    let of = vec![unread, pod("b", "Succeeded"), pod("c", "Running")];
    assert_eq!(
        lines(three(), false, of.clone()),
        [
            "update status of job.batch/j -n shop: PodsCounted".to_owned(),
            "patch pod/b -n shop: PodSucceeded".to_owned(),
            "update status of job.batch/j -n shop: PodsCounted".to_owned(),
            unknown("a", "ObjectUnread"),
            unknown("c", "ObjectUnread")
        ]
    );
    assert_eq!(
        lines(three(), true, of)
            .iter()
            .filter(|line| line.starts_with("patch"))
            .count(),
        3
    );
    let no_meta = Record::unreadable(pod("a", "Running").meta);
    assert_eq!(
        lines(three(), false, vec![no_meta]),
        [
            unknown("a", "MetadataUnread"),
            "unknown job.batch/j -n shop: MetadataUnread".to_owned()
        ]
    );
    for job in [
        three(),
        policy(),
        Job {
            is_suspended: true.into(),
            ..three()
        },
    ] {
        let of = [
            pod("a", "Running"),
            pod("b", "Failed"),
            pod("c", "Succeeded"),
            pod("d", "").terminating(1),
        ];
        crate::support::assert_cautious(&controller, &with(self::job(job), of), secs(1));
    }
}

#[test]
fn a_job_runs_to_its_end() {
    let counts = JobCounts {
        succeeded: 1,
        uncounted_succeeded: vec![Uid::new("u-counted")],
        ..JobCounts::default()
    };
    let job = Job {
        counts: counts.into(),
        ..three()
    };
    let controller = JobTracking::new(version(34));
    let of = [pod("a", "Succeeded"), pod("b", "Failed")];
    let mut cluster = cache(&controller, with(self::job(job.clone()), of));
    assert_eq!(
        run(&controller, &mut cluster, secs(9)),
        [
            "update status of job.batch/j -n shop 2+1 succeeded, 0+1 failed, SuccessCriteriaMet=True ",
            "patch pod/a -n shop -batch.kubernetes.io/job-tracking",
            "patch pod/b -n shop -batch.kubernetes.io/job-tracking",
            "update status of job.batch/j -n shop 3+0 succeeded, 1+0 failed, Complete=True ",
        ]
    );
    let indexed = Job {
        completion_mode: Field::Known("Indexed".into()),
        counts: JobCounts {
            completed_indexes: "0".into(),
            ..JobCounts::default()
        }
        .into(),
        ..three()
    };
    let at = |name: &str, index: i32| {
        let mut record = pod(name, "Succeeded");
        if let Body::Pod(pod) = record.body_mut() {
            pod.completion_index = Some(index).into();
        }
        record
    };
    let of = [at("a", 1), at("b", 0), at("c", 2), at("d", 7)];
    let mut cluster = cache(&controller, with(self::job(indexed), of));
    let requests = run(&controller, &mut cluster, secs(9));
    assert_eq!(
        requests[0],
        "update status of job.batch/j -n shop 3+0 succeeded, 0+0 failed, indexes 0-2, SuccessCriteriaMet=True "
    );
    // A deadline deletes the pods and keeps the Job, which ends once they no longer exist.
    let late = Job {
        active_deadline_seconds: Some(1).into(),
        start_time: Some(secs(1)).into(),
        ..three()
    };
    for (minor, conditions) in [
        (
            34,
            vec![
                "FailureTarget=True DeadlineExceeded",
                "Failed=True DeadlineExceeded",
            ],
        ),
        (20, vec!["Failed=True DeadlineExceeded"]),
    ] {
        let controller = JobTracking::new(version(minor));
        let mut running = pod("a", "Running");
        if minor == 20 {
            running.meta.finalizers.clear();
        }
        let mut cluster = cache(&controller, with(self::job(late.clone()), [running]));
        let requests = run(&controller, &mut cluster, secs(9));
        assert_eq!(requests[0], "delete pod/a -n shop");
        let written: Vec<&str> = conditions
            .iter()
            .copied()
            .filter(|condition| requests.iter().any(|request| request.contains(condition)))
            .collect();
        assert_eq!(written, conditions, "{requests:?}");
        assert!(cluster.records(Resource::Pods).next().is_none());
    }
}

#[test]
fn one_sync_counts_500_pods() {
    let controller = JobTracking::new(version(34));
    let of = (0..700).map(|at| pod(&format!("p-{at:03}"), "Succeeded"));
    let job = Job {
        completions: Some(1_000).into(),
        ..Job::default()
    };
    let mut cluster = cache(&controller, with(self::job(job), of));
    let lines = plan(&controller, &cluster, secs(1));
    let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!((count("patch"), count("keep")), (500, 200));
    let requests = run(&controller, &mut cluster, secs(1));
    assert_eq!(requests.len(), 704);
    assert_eq!(
        requests.last().map(String::as_str),
        Some("update status of job.batch/j -n shop 700+0 succeeded, 0+0 failed")
    );
}

#[test]
fn jobs_that_are_not_tracked_free_all_pods() {
    let annotated = |is: bool| Job {
        has_tracking_annotation: is.into(),
        ..three()
    };
    for (minor, annotation, running, succeeded) in [
        (23, true, "", "PodSucceeded"),
        (24, true, "NotTracked", "NotTracked"),
        (26, false, "NotTracked", "NotTracked"),
        (26, true, "", "PodSucceeded"),
        (27, false, "", "PodSucceeded"),
    ] {
        let controller = JobTracking::new(version(minor));
        let of = [pod("a", "Running"), pod("b", "Succeeded")];
        let lines = plan(
            &controller,
            &cache(&controller, with(job(annotated(annotation)), of)),
            secs(1),
        );
        let has = |pod: &str, code: &str| lines.contains(&format!("patch pod/{pod} -n shop: {code}"));
        assert!(has("b", succeeded), "{minor} {annotation}: {lines:?}");
        assert_eq!(
            has("a", running),
            !running.is_empty(),
            "{minor} {annotation}: {lines:?}"
        );
    }
}
