//! What holds for all cron jobs and jobs.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_core::{Planner, Timestamp, Uid};
use kubegc_lifecycle::{
    history::{Action, CronJob, Facts, Limit, Reason, Settings, StartTime, Status},
    object::{Act, Object, Resource},
};
use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::{job, meta, owned};

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
    let one = (0..14_u8, condition, start, owner, 0..16_u8);
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
            match unknown {
                0 => job.status = None,
                1 => job
                    .status
                    .iter_mut()
                    .for_each(|status| status.start_time = StartTime::Unknown),
                2 => job.meta.uid = Uid::new(""),
                _ => {}
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
    fn every_object_is_acted_on_or_kept_once(facts in facts(), text in select(vec!["1.20", "1.36"])) {
        let plan = Settings::new(text.parse().expect("a release in range")).plan(&facts, Timestamp::EPOCH);
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
                let job = facts.jobs.iter().flatten().find(|job| {
                    !job.meta.uid.is_empty() && job.meta.uid == kept.object.uid
                });
                job.is_some_and(|job| {
                    job.controller().is_some_and(|controller| controller.name == name)
                        && job.status.as_ref().and_then(Status::class) == Some(class)
                })
            });
            prop_assert_eq!(i32::try_from(kept.count()), Ok(limit));
        }
    }
}
