//! Cron jobs and their jobs.

use kubegc_core::Timestamp;
use kubegc_lifecycle::{
    controller::Mechanism,
    fields::{self, Fields, Record},
    history::{Limit, StartTime, Status},
    job::Ttl,
    object::{
        Condition,
        Resource::{CronJobs, Jobs},
    },
};

use crate::support::{Cluster, Run, changed, controlled_by, nothing_but, only, record, unread};

fn cron_job(name: &str) -> Record {
    let fields = fields::CronJob {
        successful_limit: Limit::Jobs(1),
        failed_limit: Limit::Jobs(1),
        template_labels: Some([].into()),
    };
    record("shop", name, Fields::CronJob(fields))
}

/// A job that ended so, or not at all.
fn job(name: &str, cron_job: &str, end: Option<&str>) -> Record {
    let started: i64 = name.bytes().map(i64::from).sum();
    let status = Status {
        conditions: end.map(|end| Condition::new(end, "True")).into_iter().collect(),
        start_time: StartTime::At(Timestamp::from_secs(started)),
    };
    let fields = fields::Job {
        ttl: Ttl::Unset,
        status: Some(status),
    };
    let mut record = record("shop", name, Fields::Job(fields));
    record
        .meta
        .owner_references
        .push(controlled_by("CronJob", cron_job));
    record
}

fn complete(name: &str, cron_job: &str) -> Record {
    job(name, cron_job, Some("Complete"))
}

fn run(cron_jobs: impl IntoIterator<Item = Record>, jobs: impl IntoIterator<Item = Record>) -> Run {
    let cluster = Cluster::default().with(CronJobs, cron_jobs).with(Jobs, jobs);
    Run::new(only(Mechanism::Histories), &cluster)
}

#[test]
fn the_oldest_jobs_of_each_cron_job_go_in_one_task() {
    let jobs = ["a1", "a2", "a3"].map(|name| complete(name, "a"));
    let others = [
        complete("b1", "b"),
        job("b2", "b", Some("Failed")),
        job("b3", "b", None),
    ];
    let mut run = run([cron_job("a"), cron_job("b")], jobs.into_iter().chain(others));
    let works = ["delete a1; delete a2; a -uid-a1 -uid-a2"];
    assert_eq!(run.works(), works);
    assert!(run.is_quiet());
}

#[test]
fn what_was_not_read_is_undecided() {
    let known = [complete("a1", "a"), complete("a2", "a")];
    let mut unknown_start = complete("a1", "a");
    if let Fields::Job(fields) = &mut unknown_start.fields
        && let Some(status) = &mut fields.status
    {
        status.start_time = StartTime::Unknown;
    }
    let mut without_uid = complete("a2", "a");
    without_uid.meta.uid = "".into();
    let both = |reason: &str| [format!("Job shop/a1: {reason}"), format!("Job shop/a2: {reason}")];
    let open = "Job shop/a1: 1 successful jobs, 1 may stay, and whether this one does hangs on 1 that was not read in full";
    let start = "2 successful jobs, 1 may stay, and when one of them started is not known";
    for (cron_job, jobs, expected) in [
        (
            unread(&cron_job("a")),
            known.clone(),
            both("how many successful jobs may stay is not known").to_vec(),
        ),
        (
            cron_job("a"),
            [complete("a1", "a"), unread(&complete("a2", "a"))],
            vec![open.into(), "Job shop/a2: its status is not known".into()],
        ),
        (
            cron_job("a"),
            [unknown_start, complete("a2", "a")],
            both(start).to_vec(),
        ),
        (
            cron_job("a"),
            [complete("a1", "a"), without_uid],
            vec![open.into(), "Job shop/a2: its uid is not known".into()],
        ),
    ] {
        assert_eq!(run([cron_job], jobs).outcome(), (vec![], expected));
    }
}

#[test]
fn a_job_of_which_it_was_not_read_who_controls_it_may_be_of_any_cron_job_there() {
    let stray = |mut job: Record| {
        job.meta.owner_references.clear();
        Record::unread_metadata(job.meta)
    };
    let mut elsewhere = cron_job("c");
    elsewhere.meta.namespace = "depot".into();
    let jobs = [
        stray(complete("a1", "a")),
        complete("a2", "a"),
        complete("a3", "a"),
        complete("b1", "b"),
    ];
    let cron_jobs = [cron_job("a"), cron_job("b"), elsewhere];
    let run = || run(cron_jobs.clone(), jobs.clone());
    let mut read = run();
    let reason = "the jobs are not known: who controls a1 was not read";
    let of = |object: &str| format!("{object}: {reason}");
    let undecided = vec![
        of("CronJob shop/a"),
        of("CronJob shop/b"),
        "Job shop/a1: nothing but its metadata was read".to_owned(),
        of("Job shop/a2"),
        of("Job shop/a3"),
        of("Job shop/b1"),
    ];
    assert_eq!(read.outcome(), (vec![], undecided));
    // Once it is read, or gone, all is known.
    read.apply(Jobs, &complete("a1", "b"));
    assert_eq!(read.works(), ["delete a2; a -uid-a2", "delete a1; b -uid-a1"]);
    let mut gone = run();
    gone.gone(Jobs, &jobs[0]);
    assert_eq!(gone.works(), ["delete a2; a -uid-a2"]);
    // One that says that nobody controls it is of no cron job, be it read otherwise or not.
    let mut alone = run();
    let mut job = complete("a1", "a");
    job.meta.owner_references.clear();
    alone.apply(Jobs, &unread(&job));
    assert_eq!(alone.works(), ["delete a2; a -uid-a2"]);
    let mut own = run();
    let mut job = complete("a1", "a");
    job.meta.owner_references.clear();
    own.apply(Jobs, &job);
    assert_eq!(own.works(), ["delete a2; a -uid-a2"]);
}

#[test]
fn a_cron_job_that_cannot_be_written_is_undecided() {
    let mut unversioned = cron_job("a");
    unversioned.meta.resource_version = "".into();
    let jobs = [complete("a1", "a"), complete("a2", "a")];
    let (works, undecided) = run([unversioned], jobs).outcome();
    assert_eq!(works, Vec::<String>::new());
    assert_eq!(
        undecided[0],
        "CronJob shop/a: the version in which it was read is not known"
    );
}

#[test]
fn what_was_not_listed_is_undecided() {
    let jobs = || [complete("a1", "a"), complete("a2", "a"), job("a3", "a", None)];
    for (resource, plural) in [(CronJobs, "cronjobs"), (Jobs, "jobs")] {
        let mut run = run([cron_job("a")], jobs());
        run.unlist(resource);
        let reason = format!("the {plural} are not known: refused with 403: forbidden");
        let objects = ["CronJob shop/a", "Job shop/a1", "Job shop/a2"];
        let expected = objects.map(|object| format!("{object}: {reason}")).to_vec();
        assert_eq!(run.outcome(), (vec![], expected));
    }
    // Cron jobs that were never listed.
    let mut run = run([], jobs());
    run.unlist(CronJobs);
    assert_eq!(run.outcome().1.len(), 2);
    // Now it is known that there are none.
    let listed = kubegc_lifecycle::controller::Input::Listed {
        resource: CronJobs,
        records: Ok(Vec::new()),
    };
    run.controller.handle(run.now, listed);
    assert_eq!(run.outcome(), nothing_but(&[]));
}

#[test]
fn only_jobs_that_have_finished_make_their_cron_job_due() {
    let mut run = run(
        [cron_job("a"), cron_job("b")],
        [complete("a1", "a"), complete("b1", "b")],
    );
    assert_eq!(run.outcome(), nothing_but(&[]));
    let running = job("a2", "a", None);
    for record in [running.clone(), changed(&running), job("c1", "", None)] {
        run.apply(Jobs, &record);
        assert!(run.is_quiet());
    }
    run.gone(Jobs, &running);
    assert!(run.is_quiet());
    run.apply(Jobs, &complete("a2", "a"));
    assert!(!run.is_quiet());
    assert_eq!(run.works(), ["delete a1; a -uid-a1"]);
}

#[test]
fn a_job_that_changes_its_controller_counts_for_the_other() {
    let mut run = run(
        [cron_job("a"), cron_job("b")],
        [complete("a1", "a"), complete("b1", "b")],
    );
    assert_eq!(run.outcome(), nothing_but(&[]));
    run.apply(Jobs, &complete("a1", "b"));
    assert_eq!(run.works(), ["delete a1; b -uid-a1"]);
    run.apply(Jobs, &complete("a1", "a"));
    assert_eq!(run.outcome(), nothing_but(&[]));
}

#[test]
fn a_limit_that_changes_makes_its_cron_job_due() {
    let mut run = run([cron_job("a")], [complete("a1", "a")]);
    assert_eq!(run.outcome(), nothing_but(&[]));
    let mut strict = cron_job("a");
    if let Fields::CronJob(fields) = &mut strict.fields {
        fields.successful_limit = Limit::Jobs(0);
    }
    run.apply(CronJobs, &strict);
    assert_eq!(run.works(), ["delete a1; a -uid-a1"]);
}

#[test]
fn old_releases_write_the_status_at_every_look_and_ask_for_labels() {
    let mut settings = only(Mechanism::Histories);
    if let Some(histories) = &mut settings.histories {
        histories.always_writes_status = true;
        histories.template_labels_must_match = true;
    }
    let cluster = Cluster::default()
        .with(CronJobs, [cron_job("a")])
        .with(Jobs, [complete("a1", "a")]);
    assert_eq!(Run::new(settings.clone(), &cluster).works(), ["a "]);
    let mut bare = cron_job("a");
    if let Fields::CronJob(fields) = &mut bare.fields {
        fields.template_labels = None;
    }
    if let Some(histories) = &mut settings.histories {
        histories.always_writes_status = false;
    }
    let cluster = Cluster::default()
        .with(CronJobs, [bare])
        .with(Jobs, [complete("a1", "a")]);
    let expected = nothing_but(&["Job shop/a1: the template of its cron job is not known"]);
    assert_eq!(Run::new(settings, &cluster).outcome(), expected);
}
