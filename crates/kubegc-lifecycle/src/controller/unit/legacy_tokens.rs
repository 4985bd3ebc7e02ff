//! Looks at one token of a service account at a time. Other secrets are none of its units.

use std::sync::Arc;

use kubegc_core::{Planner, StoreError, Timestamp};

use super::{Look, OnFailure};
use crate::{
    controller::{
        Basis, Reason, Work,
        index::{Kind, is_token, moved},
        table::Key,
        tables::{Change, Tables},
    },
    fields::{self, Fields, Record},
    object::{Call, Failure, Object, Resource, Wire},
    token::legacy::{Action, Facts, Pod, Policy, Secret, ServiceAccount, Tracking},
};

/// Namespace and name of what says since when uses are tracked.
const TRACKING: (&str, &str) = (
    "kube-system",
    "kube-apiserver-legacy-service-account-token-tracking",
);

pub(in crate::controller) fn concerned(
    policy: &Policy,
    tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    match change.resource {
        Resource::Secrets if change.old.into_iter().chain(change.new).any(is_token) => {
            keys.push(change.key.clone());
        }
        Resource::ServiceAccounts => {
            let tokens = tables.names(Kind::TokenOfAccount).of(change.key);
            keys.extend(tokens.map(|name| (Arc::clone(&change.key.0), Arc::clone(name))));
        }
        Resource::ConfigMaps if (&*change.key.0, &*change.key.1) == TRACKING => all(policy, tables, keys),
        // Of the pods that mention a token, and of those of which that is not known, the first by name decides.
        Resource::Pods => {
            let pod = &change.key.1;
            let is_token_known = |key: &Key| tables.get(Resource::Secrets, key).is_some_and(is_token);
            let mut mentioned = moved(Kind::PodOfSecret, change);
            mentioned.retain(is_token_known);
            mentioned.retain(|key| tables.names(Kind::PodOfSecret).has_none_before(key, pod));
            keys.extend(mentioned);
            for key in moved(Kind::PodSecretsUnread, change) {
                let mut tokens = tables.names(Kind::Token).within(&key.0).peekable();
                let unread = tables.names(Kind::PodSecretsUnread);
                if tokens.peek().is_some() && unread.has_none_before(&key, pod) {
                    keys.extend(tokens.map(|name| (Arc::clone(&key.0), Arc::clone(name))));
                }
            }
        }
        _ => {}
    }
}

pub(in crate::controller) fn all(_policy: &Policy, tables: &Tables, keys: &mut Vec<Key>) {
    let tokens = tables.names(Kind::Token).all();
    keys.extend(tokens.map(|(namespace, _, name)| (Arc::clone(namespace), Arc::clone(name))));
}

/// Of all accounts and pods the planner is told of those that could speak for the token: its account, the first pod that mentions it, and the first of
/// its namespace of which it is not known what it mentions.
pub(in crate::controller) fn look(
    policy: &Policy,
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Look {
    let Some(record) = tables
        .get(Resource::Secrets, key)
        .filter(|record| is_token(record))
    else {
        return Look::default();
    };
    if let Some(reason) = tables.not_listed(Resource::Secrets) {
        return Look::undecided(Object::new(Resource::Secrets, &record.meta), reason);
    }
    let secret = secret(record);
    let facts = Facts {
        tracking: tracking(tables),
        accounts: accounts(&secret, tables),
        pods: pods(key, tables),
        secrets: vec![secret],
    };
    let plan = policy.plan(&facts, now);
    let mut look = Look {
        next_at: plan.next_at,
        ..Look::default()
    };
    look.keep(plan.kept, Reason::LegacyToken);
    for action in &plan.actions {
        let (Action::Mark { reason, .. } | Action::Delete { reason, .. }) = action;
        let accounts = facts.accounts.iter().flatten();
        let rests_on = accounts.map(|account| Basis::same(Resource::ServiceAccounts, &account.meta));
        look.act(
            action,
            Reason::LegacyToken(reason.clone()),
            wire,
            rests_on.collect(),
        );
    }
    look
}

/// As [`Action::failure`] has it.
pub(in crate::controller) fn on_failure(work: &Work) -> OnFailure {
    const fn of_mark(_error: &StoreError) -> Failure {
        Failure::Told
    }
    const fn of_deletion(error: &StoreError) -> Failure {
        Failure::unless_gone_or_changed(error)
    }
    match work {
        Work::Act(planned) if matches!(planned.calls.first(), Some(Call::Delete { .. })) => of_deletion,
        _ => of_mark,
    }
}

fn tracking(tables: &Tables) -> Tracking {
    let table = tables.of(Resource::ConfigMaps);
    if table.listed.is_err() {
        return Tracking::Unknown;
    }
    let (namespace, name) = TRACKING;
    match table
        .get(&namespace.into(), &name.into())
        .map(|record| &record.fields)
    {
        None => Tracking::Missing,
        Some(Fields::ConfigMap(fields)) => fields.since.clone().map_or(Tracking::NoDate, Tracking::Since),
        Some(_) => Tracking::Unknown,
    }
}

fn secret(record: &Record) -> Secret {
    let unread = fields::Secret::default();
    let fields = match &record.fields {
        Fields::Secret(fields) => fields,
        _ => &unread,
    };
    Secret {
        meta: record.meta.clone(),
        secret_type: fields.secret_type.clone(),
        account_name: fields.account_name.clone(),
        account_uid: fields.account_uid.clone(),
    }
}

/// The account that a token names, where there is one.
fn accounts(secret: &Secret, tables: &Tables) -> Result<Vec<ServiceAccount>, StoreError> {
    let table = tables.of(Resource::ServiceAccounts);
    table.listed.clone()?;
    let name = secret.account_name.as_ref();
    let record = name.and_then(|name| table.get(&secret.meta.namespace, name));
    let account = |record: &Record| ServiceAccount {
        meta: record.meta.clone(),
        secrets: match &record.fields {
            Fields::ServiceAccount(fields) => fields.secrets.clone(),
            _ => None,
        },
    };
    Ok(record.map(account).into_iter().collect())
}

fn pods(token: &Key, tables: &Tables) -> Result<Vec<Pod>, StoreError> {
    let table = tables.of(Resource::Pods);
    table.listed.clone()?;
    let mentioning = tables.names(Kind::PodOfSecret).of(token).take(1);
    let unread = tables.names(Kind::PodSecretsUnread).within(&token.0).take(1);
    let records = mentioning
        .chain(unread)
        .filter_map(|name| table.get(&token.0, name));
    let pod = |record: &Record| Pod {
        meta: record.meta.clone(),
        secrets: match &record.fields {
            Fields::Pod(fields) => fields.secrets.clone(),
            _ => None,
        },
    };
    Ok(records.map(pod).collect())
}
