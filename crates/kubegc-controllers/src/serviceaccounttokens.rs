//! Deletes the token Secrets of ServiceAccounts that no longer exist, and removes references to deleted token
//! Secrets.
//!
//! - a Secret of type `kubernetes.io/service-account-token` without the annotation
//!   `kubernetes.io/service-account.name`: it is kept.
//! - one whose ServiceAccount exists with the uid of the annotation `kubernetes.io/service-account.uid`, or
//!   with any uid if that is empty: it is kept.
//! - one whose ServiceAccount does not exist, or has another uid: it is deleted, with its uid as
//!   precondition.
//! - a live ServiceAccount that references a token Secret which was deleted: the reference is removed from
//!   `secrets`.
//!
//! A ServiceAccount that is not in the cache is read from the API server first. NotFound and Conflict of the
//! delete end the work. References are only removed when the deletion of the Secret is observed: a name that
//! never existed stays. Creating and filling tokens is not covered.
//!
//! # Upstream
//! [`syncSecret`, `syncServiceAccount`, `deleteToken`,
//! `removeSecretReference`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/serviceaccount/tokens_controller.go)
//! in `tokens_controller.go`. The same in all releases.

use std::sync::Arc;

use kubegc_core::{
    DeleteOptions, StoreError,
    record::{ObjectId, Record, Resource},
};

use crate::{
    Context, Decision, End, FieldChange, Index, Info, Key, Missing, Port, Reason, Rule, Sent, Steps, Wire,
    Write, controller::Reads as _, rule::RuleContext,
};

const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const NAME_ANNOTATION: &str = "the annotation kubernetes.io/service-account.name";
const UID_ANNOTATION: &str = "the annotation kubernetes.io/service-account.uid";

/// Token Secrets by their ServiceAccount.
static TOKENS: Index = Index::new(Resource::Secrets, |record, keys| {
    keys.extend(account_of(record));
});

/// The ServiceAccount that a token Secret names.
fn account_of(record: &Record) -> Option<Key> {
    let secret = record.secret()?;
    let name = secret.service_account_name.known()?;
    let is_token = secret
        .secret_type
        .known()
        .is_some_and(|kind| **kind == *TOKEN_TYPE);
    (is_token && !name.is_empty()).then(|| Key::new(Arc::clone(&record.meta.namespace), Arc::clone(name)))
}

/// The key of the reference of an account to a Secret. No name has a slash.
fn reference_key(namespace: &Arc<str>, account: &str, secret: &str) -> Key {
    Key::new(Arc::clone(namespace), format!("{account}/{secret}"))
}

/// Removes the reference of an account to a Secret that does not exist.
fn unlink(cx: &Context<'_>, namespace: &Arc<str>, account: &str, secret: &str) -> Decision {
    let key = |name: &str| Key::new(Arc::clone(namespace), name);
    cx.about(Resource::ServiceAccounts, &key(account), |id, _| {
        if cx.cache.find(Resource::Secrets, &key(secret))?.is_some() {
            return Ok(Decision::default());
        }
        let work = (id.clone(), Arc::from(secret), cx.wire);
        Ok(Steps::of(id, work, remove_reference).into())
    })
}

async fn remove_reference(work: Arc<(ObjectId, Arc<str>, Wire)>, port: Port) -> Result<End, End> {
    let (id, secret, wire) = &*work;
    let account = match port.reread(id).await {
        Ok(account) => account,
        Err(StoreError::NotFound) => return Ok(End::Done),
        Err(error) => return Err(error.into()),
    };
    let references = account
        .service_account()
        .and_then(|account| account.secrets.known());
    let references = references.ok_or_else(|| Missing::field(id, "secrets"))?;
    if account.meta.uid != id.uid || !references.contains(secret) {
        return Ok(End::Done);
    }
    let message = format!("its token {secret} was deleted");
    port.set_reason(Reason::new("TokenDeleted", message));
    let precondition = wire.preconditions(&account.meta, Sent::ResourceVersion);
    let changes = vec![FieldChange::RemoveSecretReference(Arc::clone(secret))];
    match port.write(Write::update(id, "", precondition, changes)).await {
        Ok(_) | Err(StoreError::NotFound) => Ok(End::Done),
        Err(error) => Err(error.into()),
    }
}

/// The part of the ServiceAccount tokens controller that deletes Secrets.
pub static RULE: Rule = Rule {
    info: Info {
        name: "serviceaccount-token-controller",
        summary: "deletes the token Secrets of ServiceAccounts that no longer exist",
        resources: &[Resource::Secrets, Resource::ServiceAccounts],
        indexes: &[&TOKENS],
        permissions: &[
            (Resource::Secrets, "", &["delete"]),
            (Resource::ServiceAccounts, "", &["update"]),
        ],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/serviceaccount/tokens_controller.go",
        ..Info::BASE
    },
    // A key is that of a Secret, or the name of an account and of a deleted Secret with a slash between them.
    affected: Some(|_, cache, change, keys| match change.resource {
        Resource::ServiceAccounts => keys.extend(cache.indexed(&TOKENS, change.key)),
        Resource::Secrets if change.new.is_some() => keys.push(change.key.clone()),
        Resource::Secrets => {
            let account = change.old.and_then(account_of);
            let key = |account: Key| reference_key(&account.namespace, &account.name, &change.key.name);
            keys.extend(account.map(key));
        }
        _ => {}
    }),
    reconcile: Some(|cx, key| match key.name.split_once('/') {
        Some((account, secret)) => unlink(cx, &key.namespace, account, secret),
        None => cx.about(Resource::Secrets, key, |id, record| decide(cx, id, record)),
    }),
    ..Rule::BASE
};

fn decide(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    let secret = id.body(record, Record::secret)?;
    if **id.read(&secret.secret_type, "type")? != *TOKEN_TYPE {
        return Ok(Decision::default());
    }
    if record.meta.is_deleting() {
        return id.keep("Terminating", "it is being deleted");
    }
    let name = id.read(&secret.service_account_name, NAME_ANNOTATION)?;
    if name.is_empty() {
        return id.keep("NoAccount", "it names no ServiceAccount");
    }
    let uid = id.read(&secret.service_account_uid, UID_ANNOTATION)?;
    let key = Key::new(Arc::clone(&id.namespace), Arc::clone(name));
    match cx.cache.find(Resource::ServiceAccounts, &key)? {
        Some(account) if !uid.is_empty() && account.meta.uid.is_empty() => {
            return Err(Missing::metadata(Resource::ServiceAccounts, account));
        }
        Some(account) if is_same(account, uid) => {
            return id.keep("AccountExists", "its ServiceAccount exists");
        }
        _ => {}
    }
    let options = cx.wire.options(DeleteOptions::default(), &record.meta, Sent::Uid);
    Ok(Steps::of(id, (id.clone(), key, Arc::clone(uid), options), delete).into())
}

/// Returns whether an account has the uid of a token, if that has one.
fn is_same(account: &Record, uid: &str) -> bool {
    uid.is_empty() || account.meta.uid == *uid
}

async fn delete(work: Arc<(ObjectId, Key, Arc<str>, DeleteOptions)>, port: Port) -> End {
    let (id, account, uid, options) = &*work;
    match port.get(Resource::ServiceAccounts, account.clone()).await {
        Ok(account) if is_same(&account, uid) => {
            return End::Kept(Reason::new("AccountExists", "its ServiceAccount exists"));
        }
        Ok(_) | Err(StoreError::NotFound) => {}
        Err(error) => return End::failed(error),
    }
    port.set_reason(Reason::new("AccountDeleted", "its ServiceAccount does not exist"));
    match port.delete(id.clone(), options.clone()).await {
        Ok(()) | Err(StoreError::NotFound | StoreError::Conflict { .. }) => End::Done,
        Err(error) => End::failed(error),
    }
}
