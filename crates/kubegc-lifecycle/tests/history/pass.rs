//! How a plan is carried out: what is told, and when the status of a cron job is written.

use kubegc_core::{Planner, Preconditions, Timestamp};
use kubegc_lifecycle::{
    history::{Action, CronJob, Facts, Limit, Pass, Reason, Settings, Step},
    object::{Act, Call, Change, Object, Resource, Wire},
};

use crate::{HistoryPlan, cron_job, gone, job, jobs, meta, owned, plan_of, why_kept};

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
fn l3_7_the_status_was_always_written_where_there_is_a_limit() {
    let limited = |successful_limit, failed_limit| CronJob {
        successful_limit,
        failed_limit,
        ..cron_job(0, 0)
    };
    let (unset, unknown) = (Limit::Unset, Limit::Unknown);
    for (cron_job, is_written) in [
        (limited(Limit::Jobs(3), Limit::Jobs(1)), true),
        (limited(unset, Limit::Jobs(0)), true),
        (limited(Limit::Jobs(0), unknown), true),
        (limited(unset, unset), false),
        (limited(unknown, unset), false),
        (limited(Limit::Jobs(-1), unset), false),
    ] {
        let facts = Facts::new(vec![cron_job.clone()], vec![job("runs", "", Some(0))]);
        for (text, is_written) in [("1.20", is_written), ("1.22", false), ("1.36", false)] {
            let settings = Settings::new(text.parse().expect("a release in range"));
            let plan = settings.plan(&facts, Timestamp::EPOCH);
            let expected = Action::UpdateStatus {
                object: Object::new(Resource::CronJobs, &cron_job.meta),
                expect: Preconditions {
                    uid: Some("cron".into()),
                    resource_version: Some("7".into()),
                },
                jobs: Vec::new(),
                reason: Reason::AlwaysWritten,
            };
            let expected = if is_written { vec![expected] } else { Vec::new() };
            assert_eq!(plan.actions, expected, "{text} {cron_job:?}");
            assert_eq!(
                why_kept(&plan, "cron").is_none(),
                is_written,
                "{text} {cron_job:?}"
            );
            let log = if is_written {
                vec!["status cron "]
            } else {
                Vec::new()
            };
            assert_eq!(carried_out(&settings, &plan, &[]), log, "{text} {cron_job:?}");
        }
    }
}
