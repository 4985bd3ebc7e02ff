//! What holds for all tokens of service accounts, and upstream's checks said once more, by strings.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubegc_core::{ObjectMeta, Planner, StoreError, Timestamp};
use kubegc_lifecycle::{
    object::{Act, Object, Resource},
    token::legacy::{
        Action, Facts, LABEL_INVALID_SINCE, LABEL_LAST_USED, Pod, Policy, Secret, ServiceAccount, Tracking,
    },
};
use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::{date, legacy::token, shifted};

const DAYS: &[&str] = &[
    "2026-01-01",
    "2026-01-02",
    "2026-01-03",
    "2026-01-04",
    "2026-01-05",
    "garbage",
];

/// Two days, so that all deadlines lie close together.
fn policy() -> Policy {
    let two_days = Duration::from_secs(48 * 3_600);
    Policy::default()
        .with_clean_up_period(two_days)
        .expect("some time")
}

fn now() -> impl Strategy<Value = Timestamp> {
    (0..10_i64, select(vec![0, 6]), -1..2_i64).prop_map(|(days, hours, nanos)| {
        let seconds = (days * 24 + hours) * 3_600;
        shifted(date("2026-01-01T00:00:00Z"), seconds * 1_000_000_000 + nanos)
    })
}

fn days() -> impl Strategy<Value = Option<&'static str>> {
    option::of(select(DAYS))
}

fn secret() -> impl Strategy<Value = Secret> {
    let account = select(vec!["a", "b", ""]);
    (0..8_u8, 0..12_u8, account, days(), days(), 0..8_i64).prop_map(
        |(name, odds, account, used, invalid, created)| {
            let mut secret = token();
            secret.meta.name = format!("token-{name}").into();
            secret.meta.uid = format!("uid-{name}").into();
            let created = date("2025-12-31T06:00:00Z")
                .saturating_add(Duration::from_secs(created.unsigned_abs() * 21_600));
            secret.meta.creation_timestamp = Some(created);
            secret.account_name = Some(account.into());
            secret.account_uid = Some("".into());
            for (key, day) in [(LABEL_LAST_USED, used), (LABEL_INVALID_SINCE, invalid)] {
                let day = day.map(|day| (key.into(), day.into()));
                secret.meta.labels.extend(day);
            }
            match odds {
                0 => secret.secret_type = Some("Opaque".into()),
                1 => secret.meta.deletion_timestamp = Some(Timestamp::EPOCH),
                2 => secret.account_uid = Some("uid-of-another".into()),
                _ => {}
            }
            secret
        },
    )
}

fn names() -> impl Strategy<Value = Vec<Arc<str>>> {
    let name = |number: u8| format!("token-{number}").into();
    vec((0..8_u8).prop_map(name), 0..8)
}

prop_compose! {
    fn facts()(
        since in select(DAYS),
        mut secrets in vec(secret(), 0..8),
        made_for in names(),
        mentioned in names(),
    ) -> Facts {
        // Each name once: what is listed twice is told elsewhere.
        let mut seen = BTreeSet::new();
        secrets.retain(|secret| seen.insert(secret.meta.name.clone()));
        let account = ServiceAccount { meta: ObjectMeta::new("shop", "a", "uid-a"), secrets: Some(made_for) };
        let pod = Pod { meta: ObjectMeta::new("shop", "pod", "uid-p"), secrets: Some(mentioned.into_iter().take(2).collect()) };
        Facts { tracking: Tracking::Since(since.into()), secrets, accounts: Ok(vec![account]), pods: Ok(vec![pod]) }
    }
}

/// What upstream does to one secret, with its strings: `Some(false)` marks, `Some(true)` deletes.
fn naive(facts: &Facts, secret: &Secret, now: Timestamp) -> Option<bool> {
    let day_of = |time: Timestamp| time.to_string()[..10].to_owned();
    let midnight = |day: &str| Timestamp::parse(&format!("{day}T00:00:00Z")).ok();
    let Tracking::Since(since) = &facts.tracking else {
        return None;
    };
    let day = Duration::from_secs(24 * 3_600);
    if now < midnight(since)?.saturating_add(day).saturating_add(2 * day) {
        return None;
    }
    let cut = now.saturating_sub(2 * day);
    let cut_day = day_of(cut);
    if secret.secret_type.as_deref() == Some("Opaque") || secret.meta.creation_timestamp? >= cut {
        return None;
    }
    if secret.meta.is_deleting() {
        return None;
    }
    if let Some(used) = secret.meta.labels.get(LABEL_LAST_USED)
        && (midnight(used).is_none() || **used >= *cut_day)
    {
        return None;
    }
    let account = facts.accounts.as_ref().ok()?.iter().find(|account| {
        Some(&account.meta.name) == secret.account_name.as_ref() && secret.account_uid.as_deref() == Some("")
    })?;
    let lists = |names: &Option<Vec<Arc<str>>>| names.iter().flatten().any(|name| *name == secret.meta.name);
    if !lists(&account.secrets) || facts.pods.as_ref().ok()?.iter().any(|pod| lists(&pod.secrets)) {
        return None;
    }
    match secret.meta.labels.get(LABEL_INVALID_SINCE) {
        Some(since) if midnight(since).is_some() => (**since < *cut_day).then_some(true),
        _ => Some(false),
    }
}

proptest! {
    #[test]
    fn the_checks_are_upstreams(facts in facts(), now in now()) {
        let plan = policy().plan(&facts, now);
        for secret in &facts.secrets {
            let action = plan.actions.iter().find(|action| action.object().name == secret.meta.name);
            let done = action.map(|action| matches!(action, Action::Delete { .. }));
            prop_assert_eq!(done, naive(&facts, secret, now), "{}", secret.meta.name);
        }
    }

    #[test]
    fn order_means_nothing_and_everything_is_accounted_for_once(facts in facts(), now in now()) {
        let plan = policy().plan(&facts, now);
        let mut turned = facts.clone();
        turned.secrets.reverse();
        prop_assert_eq!(policy().plan(&turned, now), plan.clone());
        let of = |secret: &Secret| Object::new(Resource::Secrets, &secret.meta);
        let all: BTreeSet<Object> = facts.secrets.iter().map(of).collect();
        let acted_on = plan.actions.iter().map(|action| action.object().clone());
        let told: Vec<Object> = acted_on.chain(plan.kept.into_iter().map(|kept| kept.object)).collect();
        prop_assert_eq!(told.len(), all.len());
        prop_assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn what_is_done_is_not_planned_again(facts in facts(), now in now()) {
        let plan = policy().plan(&facts, now);
        let mut after = facts.clone();
        for action in &plan.actions {
            let of = |secret: &Secret| secret.meta.name == action.object().name;
            match action {
                Action::Delete { .. } => after.secrets.retain(|secret| !of(secret)),
                Action::Mark { date, .. } => {
                    for secret in after.secrets.iter_mut().filter(|secret| of(secret)) {
                        let date = date.to_string();
                        secret.meta.labels.insert(LABEL_INVALID_SINCE.into(), date.into());
                    }
                }
            }
        }
        prop_assert_eq!(policy().plan(&after, now).actions, []);
    }

    #[test]
    fn the_next_time_is_exact(facts in facts(), now in now()) {
        let plan = policy().plan(&facts, now);
        let Some(next_at) = plan.next_at else {
            prop_assert_eq!(policy().plan(&facts, Timestamp::from_nanos(i64::MAX)), plan);
            return Ok(());
        };
        prop_assert!(next_at > now);
        prop_assert_eq!(policy().plan(&facts, shifted(next_at, -1)), plan.clone());
        prop_assert_ne!(policy().plan(&facts, next_at), plan);
    }

    #[test]
    fn nothing_is_done_without_accounts_or_pods(facts in facts(), now in now()) {
        let without_pods = Facts { pods: Err(StoreError::Unlisted), ..facts.clone() };
        prop_assert_eq!(policy().plan(&without_pods, now).actions, []);
        let without_accounts = Facts { accounts: Err(StoreError::Unlisted), ..facts };
        prop_assert_eq!(policy().plan(&without_accounts, now).actions, []);
    }
}
