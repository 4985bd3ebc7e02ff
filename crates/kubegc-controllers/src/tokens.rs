//! Token Secrets of ServiceAccounts: those of accounts that no longer exist, and those that were created
//! automatically and are no longer used.

use kubegc_core::{Date, record::Secret};

use crate::prelude::*;

const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const NAME_ANNOTATION: &str = "the annotation kubernetes.io/service-account.name";
const UID_ANNOTATION: &str = "the annotation kubernetes.io/service-account.uid";

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

/// The part of the ServiceAccount tokens controller that deletes the token Secrets of ServiceAccounts that no
/// longer exist, and removes references to deleted token Secrets.
///
/// - a Secret of type `kubernetes.io/service-account-token` without the annotation
///   `kubernetes.io/service-account.name`: it is kept.
/// - one whose ServiceAccount exists with the uid of the annotation `kubernetes.io/service-account.uid`, or
///   with any uid if that is empty: it is kept.
/// - one whose ServiceAccount does not exist, or has another uid: it is deleted, with its uid as
///   precondition.
/// - a live ServiceAccount that references a token Secret which was deleted: the reference is removed from
///   `secrets`.
///
/// A ServiceAccount that is not in the cache is read from the API server first. NotFound and Conflict of the
/// delete end the work. References are only removed when the deletion of the Secret is observed: a name that
/// never existed stays. Creating and filling tokens is not covered.
///
/// # Upstream
/// [`syncSecret`, `syncServiceAccount`, `deleteToken`,
/// `removeSecretReference`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/serviceaccount/tokens_controller.go)
/// in `tokens_controller.go`. The same in all releases.
pub static SERVICE_ACCOUNT_TOKENS: Rule = Rule {
    info: Info {
        name: "serviceaccount-token-controller",
        summary: "deletes the token Secrets of ServiceAccounts that no longer exist",
        resources: &[Resource::Secrets, Resource::ServiceAccounts],
        indexes: &[&TOKENS_BY_ACCOUNT],
        permissions: &[
            (Resource::Secrets, "", &["delete"]),
            (Resource::ServiceAccounts, "", &["update"]),
        ],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/serviceaccount/tokens_controller.go",
        ..Info::BASE
    },
    // A key is that of a Secret, or the name of an account and of a deleted Secret with a slash between them.
    affected: Some(|_, cache, change, keys| match change.resource {
        Resource::ServiceAccounts => keys.extend(cache.indexed(&TOKENS_BY_ACCOUNT, change.key)),
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
        None => cx.about(Resource::Secrets, key, |id, record| decide_token(cx, id, record)),
    }),
    ..Rule::BASE
};

fn decide_token(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
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
    Ok(Steps::of(id, (id.clone(), key, Arc::clone(uid), options), delete_token).into())
}

/// Returns whether an account has the uid of a token, if that has one.
fn is_same(account: &Record, uid: &str) -> bool {
    uid.is_empty() || account.meta.uid == *uid
}

async fn delete_token(work: Arc<(ObjectId, Key, Arc<str>, DeleteOptions)>, port: Port) -> End {
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

/// The feature gate `LegacyServiceAccountTokenCleanUp`: alpha and off in 1.28, beta and on from 1.29.
const CLEAN_UP: Behavior = Behavior::since(29, 0, "feature gate LegacyServiceAccountTokenCleanUp is beta");

const DAY: Duration = Duration::from_secs(24 * 3_600);
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// The ConfigMap with the date since which uses are tracked.
const TRACKING: [&str; 2] = [
    "kube-system",
    "kube-apiserver-legacy-service-account-token-tracking",
];

/// The cleaner of legacy ServiceAccount tokens: those that were created automatically as Secrets and are no
/// longer used.
///
/// An unused token is first labelled as invalid since today; the API server then refuses it. After a further
/// period it is deleted. Until then removing the label makes it valid again.
///
/// The rules are [L11.1](crate::rules#l11-1) to [L11.8](crate::rules#l11-8).
///
/// Labels contain days in UTC. A period counts from the end of its day.
///
/// # Upstream
/// [`evaluateSATokens`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go)
/// in `legacy_serviceaccount_token_cleaner.go`. Upstream reads the tracking ConfigMap once a sync; here the
/// cached one decides, and it is read before each write.
#[derive(Clone, Copy, Debug)]
pub struct LegacyTokenCleaner {
    is_enabled: bool,
    clean_up_period: Duration,
}

impl LegacyTokenCleaner {
    /// Upstream's default in a release: a period of 8760 h, on since 1.29.
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            is_enabled: version.has(CLEAN_UP),
            clean_up_period: Duration::from_secs(365 * 24 * 3_600),
        }
    }

    /// The same with another `--legacy-service-account-token-clean-up-period`: how long a token must be
    /// unused before it is labelled, and labelled before it is deleted.
    ///
    /// # Errors
    /// The period is zero.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use kubegc_controllers::LegacyTokenCleaner;
    /// use kubegc_core::KubernetesVersion;
    /// let cleaner = LegacyTokenCleaner::new(KubernetesVersion::LATEST);
    /// assert!(cleaner.with_clean_up_period(Duration::from_secs(86_400)).is_ok());
    /// let error = cleaner.with_clean_up_period(Duration::ZERO).unwrap_err();
    /// assert_eq!(error.to_string(), "invalid CleanUpPeriod: 0s");
    /// ```
    pub const fn with_clean_up_period(self, clean_up_period: Duration) -> Result<Self, InvalidCleanUpPeriod> {
        if clean_up_period.is_zero() {
            return Err(InvalidCleanUpPeriod);
        }
        Ok(Self {
            clean_up_period,
            ..self
        })
    }

    /// The end of the clean-up period that follows a day.
    fn after_day(self, day: Date) -> Option<Timestamp> {
        self.after((i128::from(day.days_since_epoch()) + 1) * NANOS_PER_DAY)
    }

    /// The end of the clean-up period that starts at this many nanoseconds since the epoch; `None` beyond
    /// what a [`Timestamp`] can represent.
    fn after(self, nanos: i128) -> Option<Timestamp> {
        let period = i128::try_from(self.clean_up_period.as_nanos()).ok()?;
        let nanos = nanos.saturating_add(period).max(i64::MIN.into());
        i64::try_from(nanos).ok().map(Timestamp::from_nanos)
    }
}

const NANOS_PER_DAY: i128 = 86_400_000_000_000;

#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("invalid CleanUpPeriod: 0s")]
pub struct InvalidCleanUpPeriod;

/// The tracking ConfigMap and the day on which tracking started, or why nothing is done.
fn tracking(cache: &Cache) -> Result<Result<(&Record, Date), Reason>, Missing> {
    let [namespace, name] = TRACKING;
    let Some(record) = cache.find(Resource::ConfigMaps, &Key::new(namespace, name))? else {
        let message = "the ConfigMap kube-apiserver-legacy-service-account-token-tracking does not exist";
        return Ok(Err(Reason::new("NotTracked", message)));
    };
    let (id, config_map) = read_as(Resource::ConfigMaps, record, Record::config_map)?;
    let Some(text) = id.read(&config_map.since, "data.since")? else {
        let message = "the tracking ConfigMap has no data.since";
        return Ok(Err(Reason::new("NotTracked", message)));
    };
    let since = Date::parse(text).map(|since| (record, since));
    Ok(since.ok_or_else(|| {
        let message = format!("data.since of the tracking ConfigMap is {text:?}, which is not a date");
        Reason::new("InvalidTracking", message)
    }))
}

/// The reason why a Secret does not count as created automatically ([L11.4](crate::rules#l11-4)); `None` if
/// it does.
fn not_created_automatically(
    cache: &Cache,
    id: &ObjectId,
    secret: &Secret,
) -> Result<Option<Reason>, Missing> {
    let keep = |message: &'static str| Ok(Some(Reason::new("NotCreatedAutomatically", message)));
    let path = "annotation kubernetes.io/service-account.name";
    let name = id.read(&secret.service_account_name, path)?;
    if name.is_empty() {
        return keep("it names no ServiceAccount");
    }
    let key = Key::new(Arc::clone(&id.namespace), Arc::clone(name));
    let Some(account) = cache.find(Resource::ServiceAccounts, &key)? else {
        return keep("its ServiceAccount does not exist");
    };
    let account_id = account.id(Resource::ServiceAccounts);
    let path = "annotation kubernetes.io/service-account.uid";
    let uid = id.read(&secret.service_account_uid, path)?;
    if !uid.is_empty() {
        if account.meta.uid.is_empty() {
            return Err(Missing::metadata(Resource::ServiceAccounts, account));
        }
        if account.meta.uid != **uid {
            return keep("its ServiceAccount was replaced by another with the same name");
        }
    }
    let body = account_id.body(account, Record::service_account)?;
    account_id.read(&body.secrets, "secrets")?;
    let listing = cache.indexed(&ACCOUNTS_BY_SECRET, &Key::from(id));
    if listing.iter().all(|account| account.name != *name) {
        return keep("its ServiceAccount does not list it, so it was created by hand");
    }
    Ok(None)
}

/// The reason why a Secret counts as used by a pod ([L11.5](crate::rules#l11-5)); `None` if it does not.
fn used_by_pod(cache: &Cache, id: &ObjectId) -> Result<Option<Reason>, Missing> {
    if let Some(pod) = cache.first_indexed(&PODS_BY_SECRET, &Key::from(id)) {
        let message = format!("pod/{} references it", pod.meta.name);
        return Ok(Some(Reason::new("UsedByPod", message)));
    }
    cache.require_in(Resource::Pods, &id.namespace)?;
    cache.require_read(&PODS_BY_SECRET, &id.namespace, "its references to Secrets")?;
    Ok(None)
}

/// Returns whether a Secret is, or may be, a token of a ServiceAccount.
fn is_token(secret: &Record) -> bool {
    let known = secret.secret().and_then(|secret| secret.secret_type.known());
    known.is_none_or(|text| **text == *TOKEN_TYPE)
}

static TOKENS_BY_ACCOUNT: Index = Index::new(Resource::Secrets, |record, keys| {
    let name = record
        .secret()
        .and_then(|secret| secret.service_account_name.known());
    if let Some(name) = name.filter(|name| is_token(record) && !name.is_empty()) {
        keys.push(Key::new(Arc::clone(&record.meta.namespace), Arc::clone(name)));
    }
});

static ACCOUNTS_BY_SECRET: Index = Index::new(Resource::ServiceAccounts, |record, keys| {
    let secrets = record
        .service_account()
        .and_then(|account| account.secrets.known());
    let key = |secret: &Arc<str>| Key::new(Arc::clone(&record.meta.namespace), Arc::clone(secret));
    keys.extend(secrets.into_iter().flatten().map(key));
});

/// Pods that may reference any Secret are found under the empty name.
static PODS_BY_SECRET: Index = Index::new(Resource::Pods, |record, keys| {
    let key = |secret: Arc<str>| Key::new(Arc::clone(&record.meta.namespace), secret);
    match record.pod().and_then(|pod| pod.secrets.known()) {
        Some(secrets) => {
            let named = secrets.iter().filter(|secret| !secret.is_empty());
            keys.extend(named.cloned().map(key));
        }
        None => keys.push(key("".into())),
    }
});

static LEGACY_TOKENS: Info = Info {
    name: "legacy-serviceaccount-token-cleaner-controller",
    summary: "labels and deletes unused legacy ServiceAccount tokens",
    resources: &[
        Resource::Secrets,
        Resource::ServiceAccounts,
        Resource::Pods,
        Resource::ConfigMaps,
    ],
    indexes: &[&TOKENS_BY_ACCOUNT, &ACCOUNTS_BY_SECRET, &PODS_BY_SECRET],
    timing: Timing::every(DAY),
    permissions: &[(Resource::Secrets, "", &["patch", "delete"])],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go",
    ..Info::BASE
};

impl Controller for LegacyTokenCleaner {
    fn info(&self) -> &'static Info {
        &LEGACY_TOKENS
    }

    fn affected(&self, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        let is_token_known = |key: &Key| cache.get(Resource::Secrets, key).is_some_and(is_token);
        match change.resource {
            Resource::Secrets if change.old.into_iter().chain(change.new).any(is_token) => {
                keys.push(change.key.clone());
            }
            Resource::ServiceAccounts => {
                keys.extend(cache.indexed(&TOKENS_BY_ACCOUNT, change.key));
            }
            Resource::ConfigMaps if [&*change.key.namespace, &*change.key.name] == TRACKING => {
                self.keys(cache, keys);
            }
            Resource::Pods => {
                let keys_of = |record: Option<&Record>| record.map(|record| PODS_BY_SECRET.keys_of(record));
                let (old, new) = (keys_of(change.old), keys_of(change.new));
                if old == new {
                    return;
                }
                for key in old.into_iter().chain(new).flatten() {
                    if key.name.is_empty() {
                        let secrets = cache.in_namespace(Resource::Secrets, &key.namespace);
                        let tokens = secrets.filter(|secret| is_token(secret));
                        keys.extend(tokens.map(|token| Key::from(&token.meta)));
                    } else if is_token_known(&key) {
                        keys.push(key);
                    }
                }
            }
            _ => {}
        }
    }

    fn keys(&self, cache: &Cache, keys: &mut Vec<Key>) {
        let tokens = cache.records(Resource::Secrets).filter(|secret| is_token(secret));
        keys.extend(tokens.map(|token| Key::from(&token.meta)));
    }

    /// # Complexity
    /// O(log n).
    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        let secret_type = record.secret().and_then(|secret| secret.secret_type.known());
        if secret_type.is_some_and(|text| **text != *TOKEN_TYPE) {
            return id.keep("NotServiceAccountToken", "it is not a token of a ServiceAccount");
        }
        if !self.is_enabled {
            return id.keep(
                "Disabled",
                "the feature gate LegacyServiceAccountTokenCleanUp is off",
            );
        }
        let (tracking, tracked_since) = match tracking(cx.cache)? {
            Ok(tracking) => tracking,
            Err(reason) => return Ok(Decision::keep(id.clone(), reason)),
        };
        // Whether the token is kept until a time, or forever.
        let is_ahead = |end: &Option<Timestamp>| end.is_none_or(|end| end > cx.now);
        let keep_until = |end: Option<Timestamp>, code, message: String| {
            let kept = Decision::keep(id.clone(), Reason::new(code, message));
            Ok(end.into_iter().fold(kept, Decision::requeue_at))
        };
        if let Some(end) = Some(self.after_day(tracked_since)).filter(is_ahead) {
            let message = format!("its uses are tracked only since {tracked_since}");
            return keep_until(end, "TrackedTooShortly", message);
        }
        let secret = id.body(record, Record::secret)?;
        id.read(&secret.secret_type, "type")?;
        // An object without a time is older than any other, as upstream's zero time is.
        if let Some(created) = record.meta.creation_timestamp {
            let end = self.after(i128::from(created.as_nanos()) + 1);
            if is_ahead(&end) {
                let message = format!("it was created at {created}, less than a clean-up period ago");
                return keep_until(end, "Young", message);
            }
        }
        if record.meta.is_deleting() {
            return id.keep("Terminating", "it is being deleted");
        }
        let label = |key| record.meta.labels.get(key);
        if let Some(text) = label(LAST_USED) {
            let Some(last_used) = Date::parse(text) else {
                return id.keep("InvalidLastUse", "its label of the last use is not a date");
            };
            if let Some(end) = Some(self.after_day(last_used)).filter(is_ahead) {
                return keep_until(end, "Used", format!("it was used on {last_used}"));
            }
        }
        if let Some(reason) = not_created_automatically(cx.cache, id, secret)? {
            return Ok(Decision::keep(id.clone(), reason));
        }
        if let Some(reason) = used_by_pod(cx.cache, id)? {
            return Ok(Decision::keep(id.clone(), reason));
        }
        let Some(invalid_since) = label(INVALID_SINCE).and_then(|text| Date::parse(text)) else {
            let today = cx.now.utc_date();
            let message = match label(LAST_USED) {
                Some(day) => format!("it was last used on {day}"),
                None => format!("it was not used since {tracked_since}, when tracking began"),
            };
            let change = FieldChange::Label {
                key: INVALID_SINCE,
                value: today.to_string(),
            };
            let form = Form::Patch(PatchType::Merge);
            let reason = Reason::new("TokenUnused", message);
            let action = Action::new(Resource::Secrets, &record.meta, reason)
                .after_reading(Read::unchanged(Resource::ConfigMaps, tracking))
                .write(cx.wire, Sent::Uid, form, "", vec![change])
                .on_error(OnError::Report);
            // The label has the current day, so the decision changes at midnight.
            let midnight = today.tomorrow().and_then(Timestamp::start_of);
            return Ok(midnight.into_iter().fold(action.into(), Decision::requeue_at));
        };
        let message = format!("it is invalid since {invalid_since}");
        if let Some(end) = Some(self.after_day(invalid_since)).filter(is_ahead) {
            return keep_until(end, "LabelledInvalid", message);
        }
        require_version(id, &record.meta)?;
        let reason = Reason::new("Invalid", message);
        let on_error = OnError::ReportUnlessNotFoundOrConflict;
        let action = cx.delete(id, record, reason, Sent::ResourceVersion, on_error);
        Ok(action
            .after_reading(Read::unchanged(Resource::ConfigMaps, tracking))
            .into())
    }
}
