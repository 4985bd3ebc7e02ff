//! The history of cron jobs: the cases of upstream's controller, how a plan is carried out, and what holds for all jobs.

mod laws;
mod pass;

use std::collections::BTreeMap;

use kubegc_core::{
    ObjectMeta, OwnerReference, PlanOf, Planner, Preconditions, PropagationPolicy, StoreError, Timestamp,
    Uid, deletion::Propagation,
};
use kubegc_lifecycle::{
    history::{Action, Class, CronJob, Facts, Job, Limit, Reason, Settings, StartTime, Status},
    object::{Act, Call, Condition, Form, Wire},
};

type HistoryPlan = PlanOf<Settings>;

fn meta(name: &str) -> ObjectMeta {
    let mut meta = ObjectMeta::new("ns", name, name);
    meta.resource_version = "7".into();
    meta
}

fn cron_job(successful: i32, failed: i32) -> CronJob {
    CronJob {
        successful_limit: Limit::Jobs(successful),
        failed_limit: Limit::Jobs(failed),
        ..CronJob::new(meta("cron"))
    }
}

fn owned(meta: &mut ObjectMeta, kind: &str, name: &str, uid: &str, controller: Option<bool>) {
    meta.owner_references.push(OwnerReference {
        api_version: "batch/v1".into(),
        kind: kind.into(),
        name: name.into(),
        uid: uid.into(),
        controller,
        block_owner_deletion: Some(true),
    });
}

/// A job of `cron` that started at this second, with a true condition of this type unless it is empty.
fn job(name: &str, condition: &str, start: Option<i64>) -> Job {
    let mut meta = meta(name);
    owned(&mut meta, "CronJob", "cron", "cron", Some(true));
    let conditions = if condition.is_empty() {
        Vec::new()
    } else {
        vec![Condition::new(condition, "True")]
    };
    let status = Status {
        conditions,
        start_time: start.map_or(StartTime::Unset, |start| {
            StartTime::At(Timestamp::from_secs(start))
        }),
    };
    Job {
        meta,
        status: Some(status),
    }
}

fn jobs(condition: &str, count: i64) -> Vec<Job> {
    let prefix = condition.to_lowercase();
    (0..count)
        .map(|at| job(&format!("{prefix}-{at}"), condition, Some(at)))
        .collect()
}

fn plan_of(cron_job: CronJob, jobs: Vec<Job>) -> HistoryPlan {
    Settings::default().plan(&Facts::new(vec![cron_job], jobs), Timestamp::EPOCH)
}

/// The names of the jobs that go, in order.
fn gone(plan: &HistoryPlan) -> Vec<&str> {
    let deleted = plan.actions.iter().filter_map(|action| match action {
        Action::Delete { object, .. } => Some(&*object.name),
        Action::UpdateStatus { .. } => None,
    });
    deleted.collect()
}

fn why_kept<'a>(plan: &'a HistoryPlan, name: &str) -> Option<&'a Reason> {
    let kept = plan.kept.iter().find(|kept| &*kept.object.name == name);
    kept.map(|kept| &kept.reason)
}

#[test]
fn t_3_1_and_2_the_oldest_over_the_default_limits_go() {
    let cron_job = CronJob::new(meta("cron"));
    let plan = plan_of(cron_job.clone(), jobs("Complete", 5));
    assert_eq!(gone(&plan), ["complete-0", "complete-1"]);
    assert_eq!(plan.next_at, None);
    let plan = plan_of(cron_job, jobs("Failed", 3));
    assert_eq!(gone(&plan), ["failed-0", "failed-1"]);
}

#[test]
fn limits_are_inclusive() {
    for (count, limit, goes) in [(2, 3, 0), (3, 3, 0), (4, 3, 1), (1, 0, 1), (0, 0, 0)] {
        let plan = plan_of(cron_job(limit, 0), jobs("Complete", count));
        assert_eq!(gone(&plan).len(), goes, "{count} jobs, {limit} may stay");
    }
}

#[test]
fn t_3_3_zero_keeps_no_finished_job_and_successful_ones_go_first() {
    let all = jobs("Failed", 2).into_iter().chain(jobs("Complete", 2));
    let plan = plan_of(cron_job(0, 0), all.chain([job("runs", "", Some(-9))]).collect());
    let expected = ["complete-0", "complete-1", "failed-0", "failed-1"];
    assert_eq!(gone(&plan), expected);
    let Some(Action::UpdateStatus { object, jobs, .. }) = plan.actions.last() else {
        panic!("the status comes last: {:?}", plan.actions);
    };
    assert_eq!(object.to_string(), "CronJob ns/cron");
    assert_eq!(*jobs, expected.map(Uid::new));
    assert_eq!(plan.summary.deleted, 4);
}

#[test]
fn t_3_4_an_unfinished_job_is_never_touched() {
    let mut suspended = job("suspended", "Suspended", Some(-9));
    let mut undone = job("undone", "Complete", Some(-9));
    for job in [&mut suspended, &mut undone] {
        for condition in job.status.iter_mut().flat_map(|status| &mut status.conditions) {
            if &*condition.kind == "Complete" {
                condition.status = "False".into();
            }
        }
    }
    let criteria = job("criteria", "SuccessCriteriaMet", Some(-9));
    let plan = plan_of(
        cron_job(0, 0),
        vec![job("runs", "", Some(-9)), suspended, undone, criteria],
    );
    assert_eq!(gone(&plan), [""; 0]);
    for name in ["runs", "suspended", "undone", "criteria"] {
        assert_eq!(why_kept(&plan, name), Some(&Reason::Unfinished), "{name}");
    }
    assert_eq!(why_kept(&plan, "cron"), Some(&Reason::NothingToPrune));
}

#[test]
fn the_first_true_condition_of_an_end_decides() {
    let conditions = |list: &[(&str, &str)]| Status {
        conditions: list
            .iter()
            .map(|(kind, status)| Condition::new(kind, status))
            .collect(),
        start_time: StartTime::Unset,
    };
    for (list, class) in [
        (
            &[("Complete", "False"), ("Failed", "True")][..],
            Some(Class::Failed),
        ),
        (
            &[("Complete", "True"), ("Failed", "True")],
            Some(Class::Successful),
        ),
        (&[("Failed", "True"), ("Complete", "True")], Some(Class::Failed)),
        (&[("FailureTarget", "True")], None),
        (&[("Complete", "Unknown")], None),
    ] {
        assert_eq!(conditions(list).class(), class, "{list:?}");
    }
}

#[test]
fn t_3_5_a_job_that_never_started_goes_last() {
    let all = vec![
        job("a-never", "Complete", None),
        job("late", "Complete", Some(2)),
        job("early", "Complete", Some(1)),
    ];
    for (limit, expected) in [
        (2, &["early"][..]),
        (1, &["early", "late"]),
        (0, &["early", "late", "a-never"]),
    ] {
        assert_eq!(gone(&plan_of(cron_job(limit, 0), all.clone())), expected);
    }
}

#[test]
fn an_unknown_start_leaves_its_class_alone_while_there_are_too_many() {
    let mut all = jobs("Complete", 3);
    all.extend(jobs("Failed", 2));
    for job in &mut all {
        if &*job.meta.name == "complete-2" {
            job.status
                .iter_mut()
                .for_each(|status| status.start_time = StartTime::Unknown);
        }
    }
    for limit in [0, 2] {
        let plan = plan_of(cron_job(limit, 1), all.clone());
        assert_eq!(gone(&plan), ["failed-0"], "the other class is as ever");
        let reason = Reason::StartTimeUnknown {
            class: Class::Successful,
            finished: 3,
            limit,
        };
        for name in ["complete-0", "complete-1", "complete-2"] {
            assert_eq!(why_kept(&plan, name), Some(&reason), "{name}");
        }
        let text = format!("3 successful jobs, {limit} may stay, and when one of them started is not known");
        assert_eq!(reason.to_string(), text);
    }
    let reason = Reason::WithinLimit {
        class: Class::Successful,
        finished: 3,
        limit: 3,
    };
    assert_eq!(
        why_kept(&plan_of(cron_job(3, 1), all), "complete-2"),
        Some(&reason)
    );
}

#[test]
fn whose_place_hangs_on_jobs_that_were_not_read_is_open() {
    let unread = |name: &str| Job {
        status: None,
        ..job(name, "", None)
    };
    let nameless = |kind: &str| {
        let mut nameless = job("nameless", kind, None);
        nameless.meta.uid = Uid::new("");
        nameless
    };
    let twice = [job("twice", "Complete", None), job("twice", "", None)];
    for (others, unread, limit, goes, open) in [
        (vec![], 0, 3, 0, 0),
        (vec![unread("x")], 1, 4, 0, 0),
        (vec![unread("x")], 1, 3, 0, 1),
        (vec![unread("x"), unread("y")], 2, 3, 0, 2),
        (vec![unread("x")], 1, 2, 1, 1),
        (vec![unread("x"), unread("y")], 2, 1, 2, 1),
        (vec![unread("x")], 1, 0, 3, 0),
        (vec![nameless("Complete")], 1, 3, 0, 1),
        // Of the other class.
        (vec![nameless("Failed")], 0, 3, 0, 0),
        (twice.to_vec(), 1, 3, 0, 1),
    ] {
        let mut all = jobs("Complete", 3);
        all.extend(others);
        let plan = plan_of(cron_job(limit, 9), all);
        let names = ["complete-0", "complete-1", "complete-2"];
        assert_eq!(gone(&plan), names[..goes], "{limit} may stay, {unread} unread");
        for (at, name) in names.into_iter().enumerate().skip(goes) {
            let (class, finished) = (Class::Successful, 3);
            let expected = if at < goes + open {
                Reason::PlaceUnknown {
                    class,
                    finished,
                    unread,
                    limit,
                }
            } else {
                Reason::WithinLimit {
                    class,
                    finished,
                    limit,
                }
            };
            assert_eq!(why_kept(&plan, name), Some(&expected), "{name}");
        }
    }
    let reason = Reason::PlaceUnknown {
        class: Class::Failed,
        finished: 3,
        unread: 1,
        limit: 3,
    };
    assert_eq!(
        reason.to_string(),
        "3 failed jobs, 3 may stay, and whether this one does hangs on 1 that was not read in full"
    );
}

#[test]
fn a_job_without_a_uid_stays_and_does_not_count() {
    let mut all = jobs("Complete", 3);
    all[0].meta.uid = Uid::new("");
    let plan = plan_of(cron_job(1, 0), all);
    assert_eq!(gone(&plan), ["complete-1"]);
    assert_eq!(why_kept(&plan, "complete-0"), Some(&Reason::UidUnknown));
    for action in &plan.actions {
        assert!(action.expect().uid.is_some(), "{action:?}");
    }
}

#[test]
fn a_cron_job_that_could_only_be_written_blindly_keeps_its_history() {
    let mut nameless = cron_job(0, 0);
    nameless.meta.uid = Uid::new("");
    let mut unversioned = cron_job(0, 0);
    unversioned.meta.resource_version = "".into();
    for (cron_job, reason) in [
        (nameless, Reason::UidUnknown),
        (unversioned, Reason::VersionUnknown),
    ] {
        for text in ["1.20", "1.36"] {
            let settings = Settings::new(text.parse().expect("a release in range"));
            let facts = Facts::new(vec![cron_job.clone()], jobs("Complete", 1));
            let plan = settings.plan(&facts, Timestamp::EPOCH);
            assert_eq!(plan.actions, [], "{text}");
            assert_eq!(why_kept(&plan, "cron"), Some(&reason), "{text}");
            assert_eq!(why_kept(&plan, "complete-0"), Some(&Reason::CronJobUnknown));
        }
    }
}

#[test]
fn t_3_6_equal_times_go_by_name() {
    for start in [Some(1), None] {
        let all = vec![job("b", "Failed", start), job("a", "Failed", start)];
        assert_eq!(gone(&plan_of(cron_job(0, 1), all)), ["a"], "{start:?}");
    }
}

#[test]
fn t_3_7_a_cron_job_that_is_being_deleted_is_still_pruned() {
    // Whether it is suspended, and what its schedule is, are no facts at all: neither can matter.
    let mut cron_job = cron_job(0, 0);
    cron_job.meta.deletion_timestamp = Some(Timestamp::EPOCH);
    assert_eq!(gone(&plan_of(cron_job, jobs("Complete", 1))), ["complete-0"]);
}

#[test]
fn jobs_that_are_being_deleted_count_and_may_go_again() {
    let mut all = jobs("Complete", 2);
    all[0].meta.deletion_timestamp = Some(Timestamp::EPOCH);
    assert_eq!(gone(&plan_of(cron_job(1, 0), all)), ["complete-0"]);
}

#[test]
fn t_3_9_a_class_without_a_limit_is_not_pruned() {
    let all = || jobs("Complete", 9).into_iter().chain(jobs("Failed", 3)).collect();
    let class = Class::Successful;
    for (limit, reason) in [
        (Limit::Unset, Reason::LimitUnset { class }),
        (Limit::Unknown, Reason::LimitUnknown { class }),
        (Limit::Jobs(-1), Reason::LimitInvalid { class, limit: -1 }),
    ] {
        let cron_job = CronJob {
            successful_limit: limit,
            ..cron_job(3, 1)
        };
        let plan = plan_of(cron_job, all());
        assert_eq!(gone(&plan), ["failed-0", "failed-1"], "{limit:?}");
        assert_eq!(why_kept(&plan, "complete-0"), Some(&reason));
    }
    let unset = CronJob {
        successful_limit: Limit::Unset,
        failed_limit: Limit::Unset,
        ..cron_job(0, 0)
    };
    assert_eq!(plan_of(unset, all()).actions, []);
}

#[test]
fn t_3_10_only_the_name_of_the_controller_counts() {
    let of = |kind: &str, name: &str, uid: &str, controller| {
        let mut job = job("j", "Failed", None);
        job.meta.owner_references.clear();
        owned(&mut job.meta, kind, name, uid, controller);
        job
    };
    let own = of("CronJob", "cron", "cron", Some(true));
    let mut elsewhere = own.clone();
    elsewhere.meta.namespace = "other".into();
    let mut second = of("CronJob", "other", "other", Some(true));
    owned(&mut second.meta, "CronJob", "cron", "cron", Some(true));
    let differs = Some(Reason::ControllerDiffers);
    for (case, job, goes, finding) in [
        ("own", own, true, None),
        (
            "another uid",
            of("CronJob", "cron", "old", Some(true)),
            true,
            differs.clone(),
        ),
        (
            "another kind",
            of("ReplicaSet", "cron", "cron", Some(true)),
            true,
            differs,
        ),
        (
            "another name",
            of("CronJob", "other", "cron", Some(true)),
            false,
            None,
        ),
        ("no controller", of("CronJob", "cron", "cron", None), false, None),
        (
            "not the controller",
            of("CronJob", "cron", "cron", Some(false)),
            false,
            None,
        ),
        ("another namespace", elsewhere, false, None),
        ("the second controller", second, false, None),
    ] {
        let plan = plan_of(cron_job(0, 0), vec![job]);
        assert_eq!(!gone(&plan).is_empty(), goes, "{case}");
        let findings: Vec<_> = plan.findings.iter().map(|found| found.reason.clone()).collect();
        assert_eq!(findings, Vec::from_iter(finding), "{case}");
        if !goes {
            assert_eq!(why_kept(&plan, "j"), Some(&Reason::NotOfCronJob), "{case}");
        }
    }
}

#[test]
fn labels_matter_until_about_1_23() {
    let labels = |value: &str| BTreeMap::from([("app".into(), value.into())]);
    let mut matching = job("matching", "Failed", None);
    matching.meta.labels = labels("report");
    matching.meta.labels.insert("more".into(), "1".into());
    let mut changed = job("changed", "Failed", None);
    changed.meta.labels = labels("old");
    let template = |labels| CronJob {
        template_labels: labels,
        ..cron_job(0, 0)
    };
    let known = template(Some(labels("report")));
    for (text, cron_job, expected) in [
        ("1.20", &known, &["matching"][..]),
        ("1.23", &known, &["matching"]),
        ("1.24", &known, &["changed", "matching"]),
        ("1.36", &known, &["changed", "matching"]),
        ("1.20", &template(None), &[]),
        ("1.36", &template(None), &["changed", "matching"]),
        ("1.20", &cron_job(0, 0), &["changed", "matching"]),
    ] {
        let facts = Facts::new(vec![cron_job.clone()], vec![matching.clone(), changed.clone()]);
        let settings = Settings::new(text.parse().expect("a release in range"));
        assert_eq!(gone(&settings.plan(&facts, Timestamp::EPOCH)), expected, "{text}");
    }
}

#[test]
fn upstream_deletes_in_the_background_and_expects_nothing() {
    let plan = plan_of(cron_job(0, 0), vec![job("j", "Failed", None)]);
    let all = Preconditions {
        uid: Some("j".into()),
        resource_version: Some("7".into()),
    };
    for (wire, expected) in [(Wire::AsUpstream, Preconditions::default()), (Wire::Strict, all)] {
        let Call::Delete { options, .. } = &plan.actions[0].calls(wire)[0] else {
            panic!("the deletion comes first");
        };
        let background = Propagation::Policy(PropagationPolicy::Background);
        assert_eq!(options.propagation, Some(background));
        assert_eq!(options.preconditions, expected);
        let update = &plan.actions[1].calls(wire)[..];
        let [
            Call::Change {
                form: Form::Replace,
                expect,
                ..
            },
        ] = update
        else {
            panic!("{update:?}");
        };
        assert_eq!(expect.resource_version, Some("7".into()));
    }
}

#[test]
fn missing_lists_and_unknown_states_delete_nothing() {
    let facts = Facts::new(vec![cron_job(0, 0)], jobs("Complete", 1));
    let no_jobs = Facts {
        jobs: Err(StoreError::Unlisted),
        ..facts.clone()
    };
    let no_cron_jobs = Facts {
        cron_jobs: Err(StoreError::Unlisted),
        ..facts.clone()
    };
    for (facts, name) in [(no_jobs, "cron"), (no_cron_jobs, "complete-0")] {
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        assert_eq!(plan.actions, []);
        assert_eq!(why_kept(&plan, name), Some(&Reason::NotListed));
        assert_eq!(plan.summary.error, Some(StoreError::Unlisted));
    }
    let unknown = Job {
        status: None,
        ..job("unknown", "", None)
    };
    let plan = plan_of(cron_job(0, 0), vec![unknown]);
    assert_eq!(why_kept(&plan, "unknown"), Some(&Reason::StatusUnknown));
}

#[test]
fn what_is_listed_twice_and_not_alike_stays() {
    let twice = vec![job("j", "Failed", None), job("j", "", None)];
    assert_eq!(
        why_kept(&plan_of(cron_job(0, 0), twice), "j"),
        Some(&Reason::ListedTwice)
    );
    let mut namesake = cron_job(0, 0);
    namesake.meta.uid = "namesake".into();
    for other in [cron_job(1, 1), namesake] {
        let facts = Facts::new(vec![cron_job(0, 0), other], vec![job("j", "Failed", None)]);
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        assert_eq!(why_kept(&plan, "j"), Some(&Reason::CronJobListedTwice));
        assert_eq!(why_kept(&plan, "cron"), Some(&Reason::ListedTwice));
        assert_eq!(plan.actions, []);
    }
}
