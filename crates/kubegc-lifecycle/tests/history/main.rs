//! The history of cron jobs: the cases of upstream's controller, how a plan is carried out, and what holds for all jobs.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_core::{
    ObjectMeta, OwnerReference, PlanOf, Planner, Preconditions, PropagationPolicy, StoreError, Timestamp,
    Uid, deletion::Propagation,
};
use kubegc_lifecycle::{
    history::{Action, Class, CronJob, Facts, Job, Limit, Pass, Reason, Settings, Status, Step},
    object::{Act, Call, Change, Condition, Form, Object, Resource, Wire},
};
use proptest::{collection::vec, option, prelude::*, sample::select};

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
        start_time: start.map(Timestamp::from_secs),
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
        start_time: None,
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

/// Lets a pass run on a server that fails at these jobs; gives what was done and told.
fn carried_out(settings: &Settings, plan: &HistoryPlan, failing: &[&str]) -> Vec<String> {
    let mut pass = Pass::new(settings, plan.actions.clone());
    let mut log = Vec::new();
    let mut step = pass.next(None);
    for _ in 0..1_000 {
        assert_eq!(pass.next(None), step, "without an answer the step is repeated");
        let mut answer = Ok(());
        match &step {
            Step::Done => return log,
            Step::Tell(Call::Event {
                is_warning,
                reason,
                message,
                ..
            }) => {
                log.push(format!("{is_warning} {reason} {message}"));
                answer = Err("events may fail".to_owned());
            }
            Step::Tell(other) => panic!("{other:?}"),
            Step::Perform(action) => {
                for call in action.calls(Wire::AsUpstream) {
                    match call {
                        Call::Delete { object, .. } if failing.contains(&&*object.name) => {
                            answer = Err("forbidden".to_owned());
                            break;
                        }
                        Call::Delete { object, .. } => log.push(format!("delete {}", object.name)),
                        Call::Event { reason, message, .. } => log.push(format!("{reason} {message}")),
                        Call::Change {
                            object,
                            changes,
                            subresource,
                            ..
                        } => {
                            let jobs = changes.iter().map(|change| match change {
                                Change::RemoveActive(uid) => uid.to_string(),
                                other => format!("{other:?}"),
                            });
                            let jobs: Vec<_> = jobs.collect();
                            log.push(format!("{subresource} {} {}", object.name, jobs.join(" ")));
                        }
                        Call::Outside { .. } => panic!("jobs need nobody else"),
                    }
                }
            }
        }
        step = pass.next(Some(answer));
    }
    panic!("a pass ends")
}

#[test]
fn t_3_8_a_failed_deletion_is_told_and_the_others_go_on() {
    let settings = Settings::default();
    let plan = plan_of(cron_job(0, 0), jobs("Complete", 3));
    let expected = [
        "delete complete-0",
        "SuccessfulDelete Deleted job complete-0",
        "true FailedDelete Deleted job: forbidden",
        "delete complete-2",
        "SuccessfulDelete Deleted job complete-2",
        "status cron complete-0 complete-2",
    ];
    assert_eq!(carried_out(&settings, &plan, &["complete-1"]), expected);
}

#[test]
fn the_status_is_written_only_where_a_job_was_deleted_since_about_1_22() {
    let plan = plan_of(cron_job(0, 0), jobs("Complete", 1));
    let told = "true FailedDelete Deleted job: forbidden";
    for (text, expected) in [("1.20", &[told, "status cron "][..]), ("1.36", &[told])] {
        let settings = Settings::new(text.parse().expect("a release in range"));
        assert_eq!(carried_out(&settings, &plan, &["complete-0"]), expected, "{text}");
    }
}

#[test]
fn each_cron_job_gets_a_status_of_its_own() {
    let other = CronJob::new(meta("other"));
    let mut all = jobs("Failed", 2);
    for at in 0..3 {
        let mut job = job(&format!("other-{at}"), "Failed", Some(at));
        job.meta.owner_references.clear();
        owned(&mut job.meta, "CronJob", "other", "other", Some(true));
        all.push(job);
    }
    let facts = Facts::new(vec![other, cron_job(3, 1)], all);
    let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
    assert_eq!(gone(&plan), ["failed-0", "other-0", "other-1"]);
    let log = carried_out(&Settings::default(), &plan, &["failed-0", "other-1"]);
    let expected = [
        "true FailedDelete Deleted job: forbidden",
        "delete other-0",
        "SuccessfulDelete Deleted job other-0",
        "true FailedDelete Deleted job: forbidden",
        "status other other-0",
    ];
    assert_eq!(log, expected);
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

fn facts() -> impl Strategy<Value = Facts> {
    let limit = || {
        select(vec![
            Limit::Unknown,
            Limit::Unset,
            Limit::Jobs(-1),
            Limit::Jobs(0),
            Limit::Jobs(1),
            Limit::Jobs(2),
        ])
    };
    let condition = select(vec!["", "Complete", "Failed", "Suspended"]);
    let start = option::of(select(vec![i64::MIN, 0, 1, 2, i64::MAX]));
    let owner = select(vec!["", "cron", "other", "third"]);
    let one = (0..14_u8, condition, start, owner, 0..8_u8);
    ((limit(), limit()), (limit(), limit()), vec(one, 0..14)).prop_map(|(first, second, seeds)| {
        let cron_jobs =
            [("cron", first), ("other", second)].map(|(name, (successful_limit, failed_limit))| CronJob {
                successful_limit,
                failed_limit,
                ..CronJob::new(meta(name))
            });
        let mut names = BTreeSet::new();
        let mut all = Vec::new();
        for (name, condition, start, owner, unknown) in seeds {
            if !names.insert(name) {
                continue;
            }
            let mut job = job(&format!("j{name}"), condition, start);
            job.meta.owner_references.clear();
            if !owner.is_empty() {
                owned(&mut job.meta, "CronJob", owner, owner, Some(true));
            }
            if unknown == 0 {
                job.status = None;
            }
            all.push(job);
        }
        Facts::new(cron_jobs.into(), all)
    })
}

fn objects(facts: &Facts) -> Vec<Object> {
    let cron_jobs = facts.cron_jobs.iter().flatten();
    let jobs = facts.jobs.iter().flatten();
    let cron_jobs = cron_jobs.map(|cron_job| Object::new(Resource::CronJobs, &cron_job.meta));
    let mut all: Vec<Object> = cron_jobs
        .chain(jobs.map(|job| Object::new(Resource::Jobs, &job.meta)))
        .collect();
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn every_object_is_acted_on_or_kept_once(facts in facts()) {
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        let acted = plan.actions.iter().map(|action| action.object().clone());
        let mut all: Vec<Object> = acted.chain(plan.kept.iter().map(|kept| kept.object.clone())).collect();
        all.sort();
        prop_assert_eq!(all, objects(&facts));
    }

    #[test]
    fn neither_order_nor_time_means_anything(facts in facts(), nanos in any::<i64>()) {
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        let mut other = facts;
        if let (Ok(cron_jobs), Ok(jobs)) = (&mut other.cron_jobs, &mut other.jobs) {
            cron_jobs.reverse();
            jobs.reverse();
        }
        prop_assert_eq!(Settings::default().plan(&other, Timestamp::from_nanos(nanos)), plan);
    }

    #[test]
    fn any_prefix_leaves_the_rest_and_the_whole_leaves_nothing(facts in facts(), cut in 0..14_usize) {
        let settings = Settings::default();
        let deletions = |facts: &Facts| -> Vec<Object> {
            let plan = settings.plan(facts, Timestamp::EPOCH);
            let deleted = plan.actions.iter().filter(|action| matches!(action, Action::Delete { .. }));
            deleted.map(|action| action.object().clone()).collect()
        };
        let planned = deletions(&facts);
        let cut = cut.min(planned.len());
        for done in [cut, planned.len()] {
            // A world in which deleted jobs go.
            let mut after = facts.clone();
            if let Ok(jobs) = &mut after.jobs {
                jobs.retain(|job| !planned[..done].contains(&Object::new(Resource::Jobs, &job.meta)));
            }
            prop_assert_eq!(&deletions(&after), &planned[done..]);
        }
    }

    #[test]
    fn as_many_stay_as_may(facts in facts()) {
        let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
        let mut stays = BTreeMap::new();
        for action in &plan.actions {
            if let Action::Delete { cron_job, reason: Reason::OverLimit { class, limit, .. }, .. } = action {
                stays.insert((cron_job.name.clone(), *class), *limit);
            }
        }
        for ((name, class), limit) in stays {
            let kept = plan.kept.iter().filter(|kept| {
                let job = facts.jobs.iter().flatten().find(|job| job.meta.uid == kept.object.uid);
                job.is_some_and(|job| {
                    job.controller().is_some_and(|controller| controller.name == name)
                        && job.status.as_ref().and_then(Status::class) == Some(class)
                })
            });
            prop_assert_eq!(i32::try_from(kept.count()), Ok(limit));
        }
    }
}
