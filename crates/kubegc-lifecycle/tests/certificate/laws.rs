//! What holds for all requests, and upstream's table of rules said once more, naively.

use std::{collections::BTreeSet, time::Duration};

use kubegc_core::{ObjectMeta, Planner, Timestamp, Uid};
use kubegc_lifecycle::{
    certificate::{Certificate, Facts, Request, Settings},
    object::{Act, Condition, Object, Resource},
};
use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::{DAY, HOUR, at, release, shifted};

/// Times around the deadlines, so that they are met exactly.
fn times() -> impl Strategy<Value = i64> {
    select(vec![
        0,
        1,
        HOUR - 1,
        HOUR,
        HOUR + 1,
        DAY - 1,
        DAY,
        DAY + HOUR,
        2 * DAY,
    ])
}

fn conditions() -> impl Strategy<Value = Vec<Condition>> {
    let kind = select(vec!["Approved", "Denied", "Failed", "Example"]);
    let one = (kind, option::of(times())).prop_map(|(kind, updated)| Condition {
        last_update_time: updated.map(at),
        ..Condition::new(kind, "True")
    });
    vec(one, 0..3)
}

fn certificate() -> impl Strategy<Value = Certificate> {
    prop_oneof![
        Just(Certificate::Unknown),
        Just(Certificate::None),
        Just(Certificate::Empty),
        Just(Certificate::Unread),
        Just(Certificate::Bad("no certificates found".into())),
        times().prop_map(|end| Certificate::NotAfter(at(end))),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let name = select(vec!["a", "b", "c", "d", "e", "f"]);
    let created = option::weighted(0.9, times());
    let conditions = option::weighted(0.9, conditions());
    (name, any::<u8>(), created, conditions, certificate()).prop_map(
        |(name, odds, created, conditions, certificate)| {
            let mut meta = ObjectMeta::new("", name, name);
            meta.creation_timestamp = created.map(at);
            meta.deletion_timestamp = (odds < 20).then_some(at(0));
            if odds > 235 {
                meta.uid = Uid::new("");
            }
            Request {
                meta,
                conditions,
                certificate,
            }
        },
    )
}

fn facts() -> impl Strategy<Value = Facts> {
    vec(request(), 0..6).prop_map(|requests| Facts { requests })
}

fn settings() -> impl Strategy<Value = Settings> {
    let unissued_age = option::of(Just(Duration::from_secs(24 * 3_600)));
    (select(vec!["1.18", "1.20", "1.22", "1.36"]), unissued_age).prop_map(|(text, unissued_age)| {
        let mut settings = release(text);
        settings.unissued_age = unissued_age;
        settings
    })
}

fn now() -> impl Strategy<Value = Timestamp> {
    (times(), times(), -1..2_i64).prop_map(|(one, other, nanos)| shifted(one + other, nanos))
}

/// Whether any row of the table holds, where everything is known.
fn holds(settings: &Settings, request: &Request, now: Timestamp) -> bool {
    let older = |time: Option<Timestamp>, seconds: i64| {
        time.is_some_and(|time| now.as_nanos() - time.as_nanos() > seconds * 1_000_000_000)
    };
    let conditions = request.conditions.clone().unwrap_or_default();
    let any = |kind: &str, seconds| {
        conditions
            .iter()
            .any(|one| &*one.kind == kind && older(one.last_update_time, seconds))
    };
    let approved = conditions.iter().any(|one| &*one.kind == "Approved");
    let is_bad = matches!(request.certificate, Certificate::Bad(_))
        || request.certificate == Certificate::Empty && settings.empty_is_issued;
    let issued = match request.certificate {
        Certificate::None => false,
        Certificate::Empty => settings.empty_is_issued,
        _ => true,
    };
    let expired = matches!(request.certificate, Certificate::NotAfter(end) if now > end);
    if is_bad && settings.bad_certificate_keeps {
        return false;
    }
    any("Approved", HOUR) && issued
        || any("Denied", HOUR)
        || any("Failed", HOUR) && settings.failed_age.is_some()
        || conditions.is_empty() && older(request.meta.creation_timestamp, DAY)
        || approved && issued && expired
        || any("Approved", DAY) && !issued && settings.unissued_age.is_some()
}

proptest! {
    #[test]
    fn the_table_is_kept(settings in settings(), mut request in request(), now in now()) {
        // The table speaks of what is known and there.
        request.meta.deletion_timestamp = None;
        request.meta.uid = Uid::new("uid");
        request.conditions = Some(request.conditions.unwrap_or_default());
        if matches!(request.certificate, Certificate::Unknown | Certificate::Unread) {
            request.certificate = Certificate::NotAfter(at(HOUR));
        }
        let facts = Facts { requests: vec![request.clone()] };
        let is_deleted = !settings.plan(&facts, now).actions.is_empty();
        prop_assert_eq!(is_deleted, holds(&settings, &request, now));
    }

    #[test]
    fn order_means_nothing_and_everything_is_accounted_for_once(
        settings in settings(), facts in facts(), now in now(),
    ) {
        let plan = settings.plan(&facts, now);
        let mut turned = facts.clone();
        turned.requests.reverse();
        prop_assert_eq!(settings.plan(&turned, now), plan.clone());

        let of = |request: &Request| Object::new(Resource::CertificateSigningRequests, &request.meta);
        let all: BTreeSet<Object> = facts.requests.iter().map(of).collect();
        let acted_on = plan.actions.iter().map(|action| action.object().clone());
        let told: Vec<Object> = acted_on.chain(plan.kept.into_iter().map(|kept| kept.object)).collect();
        prop_assert_eq!(told.len(), all.len());
        prop_assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn what_is_done_is_not_planned_again(settings in settings(), facts in facts(), now in now()) {
        // What is deleted is gone, or, if something holds it, marked.
        let plan = settings.plan(&facts, now);
        let is_deleted = |request: &Request| {
            plan.actions.iter().any(|action| action.object().uid == request.meta.uid)
        };
        let mut gone = facts.clone();
        gone.requests.retain(|request| !is_deleted(request));
        prop_assert_eq!(settings.plan(&gone, now).actions, []);
        let mut marked = facts.clone();
        for request in &mut marked.requests {
            if is_deleted(request) {
                request.meta.deletion_timestamp = Some(now);
            }
        }
        prop_assert_eq!(settings.plan(&marked, now).actions, []);
    }

    #[test]
    fn the_next_time_is_exact(settings in settings(), facts in facts(), now in now()) {
        let plan = settings.plan(&facts, now);
        let Some(next_at) = plan.next_at else {
            prop_assert_eq!(settings.plan(&facts, Timestamp::from_nanos(i64::MAX)), plan);
            return Ok(());
        };
        prop_assert!(next_at > now);
        let before = Timestamp::from_nanos(next_at.as_nanos() - 1);
        prop_assert_eq!(settings.plan(&facts, before), plan.clone());
        prop_assert_ne!(settings.plan(&facts, next_at), plan);
        // Upstream's look finds it within the hour.
        let pass = settings.pass_at(now, next_at);
        prop_assert!(pass >= next_at && pass.since(next_at) < settings.pass_period);
    }
}
