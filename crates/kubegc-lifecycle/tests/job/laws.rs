//! What holds for all jobs: order means nothing, nothing is planned twice, and `next_at` is exact.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_core::{ObjectMeta, PlanOf, Planner, Timestamp};
use kubegc_lifecycle::{
    job::{Facts, Job, Settings, Ttl},
    object::{Act, Condition, Live, Object, Reads, Resource},
};
use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::at;

fn conditions() -> impl Strategy<Value = Vec<Condition>> {
    let kind = select(vec!["Complete", "Failed", "Suspended"]);
    let status = select(vec!["True", "False"]);
    let one = (kind, status, option::of(-5..15_i64)).prop_map(|(kind, status, changed)| Condition {
        last_transition_time: changed.map(at),
        ..Condition::new(kind, status)
    });
    vec(one, 0..3)
}

fn job() -> impl Strategy<Value = Job> {
    let ttl = prop_oneof![
        1 => Just(Ttl::Unknown),
        1 => Just(Ttl::Unset),
        6 => (0..12_i32).prop_map(Ttl::Seconds),
    ];
    let name = select(vec!["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]);
    let uid = select(vec!["", "1", "1", "1", "1", "1", "1", "2"]);
    (name, uid, any::<u8>(), ttl, option::weighted(0.9, conditions())).prop_map(
        |(name, uid, odds, ttl, conditions)| {
            let mut meta = ObjectMeta::new("shop", name, uid);
            meta.deletion_timestamp = (odds < 25).then_some(at(1));
            Job {
                meta,
                ttl,
                conditions,
            }
        },
    )
}

fn live() -> impl Strategy<Value = Live<Job>> {
    prop_oneof![
        1 => Just(Live::NotAsked),
        1 => Just(Live::NotFound),
        1 => Just(Live::Failed("timeout".into())),
        5 => job().prop_map(Live::Found),
    ]
}

prop_compose! {
    fn facts()(jobs in vec((job(), live()), 0..8), as_listed in any::<bool>()) -> Facts {
        let of = |(job, live): &(Job, Live<Job>)| (Object::new(Resource::Jobs, &job.meta), live.clone());
        let reads: BTreeMap<_, _> = jobs.iter().map(of).collect();
        Facts {
            reads: if as_listed { Reads::AsListed } else { Reads::Of(reads) },
            jobs: jobs.into_iter().map(|(job, _)| job).collect(),
        }
    }
}

fn plan(facts: &Facts, now: Timestamp) -> PlanOf<Settings> {
    Settings::default().plan(facts, now)
}

/// What a plan decides, without the findings, which come and go with the clock.
fn decided(facts: &Facts, now: Timestamp) -> impl PartialEq + std::fmt::Debug {
    let plan = plan(facts, now);
    (plan.actions, plan.kept)
}

/// The cluster after the deletions: what was deleted is there, marked, until what it owns is gone.
fn carried_out(facts: &Facts, plan: &PlanOf<Settings>, now: Timestamp) -> Facts {
    let deleted: BTreeSet<&Object> = plan.actions.iter().map(Act::object).collect();
    let mark = |job: &mut Job| {
        if deleted.contains(&Object::new(Resource::Jobs, &job.meta)) {
            job.meta.deletion_timestamp = Some(now);
        }
    };
    let mut after = facts.clone();
    after.jobs.iter_mut().for_each(mark);
    if let Reads::Of(reads) = &mut after.reads {
        for live in reads.values_mut() {
            if let Live::Found(job) = live {
                mark(job);
            }
        }
    }
    after
}

proptest! {
    #[test]
    fn order_means_nothing(facts in facts(), seconds in 0..30_i64, by in 0..8_usize) {
        let mut turned = facts.clone();
        if !turned.jobs.is_empty() {
            let by = by % turned.jobs.len();
            turned.jobs.rotate_left(by);
            turned.jobs[by..].reverse();
        }
        prop_assert_eq!(plan(&facts, at(seconds)), plan(&turned, at(seconds)));
    }

    #[test]
    fn everything_is_accounted_for_once(facts in facts(), seconds in 0..30_i64) {
        let plan = plan(&facts, at(seconds));
        let acted_on: BTreeSet<&Object> = plan.actions.iter().map(Act::object).collect();
        prop_assert_eq!(acted_on.len(), plan.actions.len());
        let identities: BTreeSet<Object> =
            facts.jobs.iter().map(|job| Object::new(Resource::Jobs, &job.meta)).collect();
        prop_assert_eq!(plan.actions.len() + plan.kept.len(), identities.len());
        prop_assert!(plan.kept.iter().all(|kept| identities.contains(&kept.object)));
        if facts.reads == Reads::AsListed {
            let kept = plan.kept.iter().map(|kept| &kept.object);
            let all: BTreeSet<&Object> = kept.chain(acted_on).collect();
            prop_assert_eq!(all, identities.iter().collect::<BTreeSet<_>>());
        }
    }

    #[test]
    fn what_is_done_is_not_planned_again(facts in facts(), seconds in 0..30_i64) {
        let now = at(seconds);
        let after = carried_out(&facts, &plan(&facts, now), now);
        prop_assert_eq!(plan(&after, now).actions, []);
    }

    #[test]
    fn the_next_time_is_exact(facts in facts(), seconds in -20..30_i64) {
        let now = at(seconds);
        let Some(next_at) = plan(&facts, now).next_at else {
            let end = Timestamp::from_nanos(i64::MAX);
            prop_assert_eq!(decided(&facts, now), decided(&facts, end));
            return Ok(());
        };
        prop_assert!(next_at > now);
        let before = Timestamp::from_nanos(next_at.as_nanos() - 1);
        prop_assert_eq!(decided(&facts, now), decided(&facts, before));
        prop_assert_ne!(decided(&facts, now), decided(&facts, next_at));
    }
}
