//! Plans one pass over all tokens.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kubegc_core::{Kept, PlanOf, Planner, StoreError, Timestamp, time::Date};

use super::{
    Action, Facts, LABEL_INVALID_SINCE, LABEL_LAST_USED, Pod, Policy, Reason, SECRET_TYPE, Secret,
    ServiceAccount, Tracking,
};
use crate::object::{Object, Resource, by_identity, by_key, expected};

/// What a plan amounts to.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// Why the whole pass is skipped; `None` where it is not.
    pub skipped: Option<Reason>,
}

impl Planner for Policy {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans one pass, in the order of namespaces and names.
    ///
    /// `next_at` is when a token loses what protects it, not when upstream's next pass is: see [`Policy::pass_at`]. While a plan marks tokens, it is at
    /// the next midnight at the latest, because a mark is the date of its day.
    ///
    /// # Complexity
    /// O(n log n) in the number of secrets, accounts, pods and the secrets that these mention.
    fn plan(&self, facts: &Facts, now: Timestamp) -> PlanOf<Self> {
        let mut plan = PlanOf::<Self>::default();
        let skipped = self.skips(&facts.tracking, now);
        plan.next_at = skipped.as_ref().and_then(Reason::ends_at);
        let world = World::new(facts);
        for (object, secret) in by_identity(Resource::Secrets, &facts.secrets, |secret| &secret.meta) {
            let fate = match (secret, &skipped) {
                (_, Some(reason)) => Err(reason.clone()),
                (None, None) => Err(Reason::ListedTwice),
                (Some(secret), None) => self.fate(secret, &world, now).map(|reason| (secret, reason)),
            };
            match fate {
                Ok((secret, reason)) => {
                    let expect = expected(&secret.meta);
                    let date = now.utc_date();
                    plan.actions.push(match reason {
                        Reason::Unused { .. } => {
                            plan.next_at = plan.next_at.into_iter().chain(date.next().midnight()).min();
                            Action::Mark {
                                object,
                                expect,
                                date,
                                reason,
                            }
                        }
                        _ => Action::Delete {
                            object,
                            expect,
                            reason,
                        },
                    });
                }
                Err(reason) => {
                    plan.next_at = plan.next_at.into_iter().chain(reason.ends_at()).min();
                    plan.kept.push(Kept { object, reason });
                }
            }
        }
        plan.summary = Summary { skipped };
        plan
    }
}

impl Policy {
    /// Why the whole pass is skipped.
    fn skips(&self, tracking: &Tracking, now: Timestamp) -> Option<Reason> {
        if !self.is_enabled() {
            return Some(Reason::Disabled);
        }
        let text = match tracking {
            Tracking::Unknown => return Some(Reason::TrackingNotKnown),
            Tracking::Missing => return Some(Reason::NotTracked),
            Tracking::NoDate => return Some(Reason::TrackingWithoutDate),
            Tracking::Since(text) => text,
        };
        let Some(since) = Date::parse(text) else {
            let text = Arc::clone(text);
            return Some(Reason::TrackingDateBad { text });
        };
        let from = self.over_for_a_period(since);
        is_ahead(from, now).then_some(Reason::TrackedTooShortly { since, from })
    }

    /// `Ok` with the reason to mark or to delete, `Err` with the reason to keep. The order of the checks is upstream's.
    fn fate(&self, secret: &Secret, world: &World<'_>, now: Timestamp) -> Result<Reason, Reason> {
        let meta = &secret.meta;
        let not_known = |field| Reason::NotKnown { field };
        match secret.secret_type.as_deref() {
            Some(SECRET_TYPE) => {}
            Some(_) => return Err(Reason::OtherType),
            None => return Err(not_known("type")),
        }
        let created = meta
            .creation_timestamp
            .ok_or_else(|| not_known("metadata.creationTimestamp"))?;
        // Strictly older than a period.
        let from = after(created.as_nanos().into(), self.clean_up_period())
            .and_then(|same_age| same_age.checked_add(Duration::from_nanos(1)));
        if is_ahead(from, now) {
            return Err(Reason::TooYoung { from });
        }
        if meta.is_deleting() {
            return Err(Reason::Deleting);
        }
        let last_used = match meta.labels.get(LABEL_LAST_USED) {
            None => None,
            Some(text) => {
                let text = Arc::clone(text);
                Some(Date::parse(&text).ok_or(Reason::LastUseBad { text })?)
            }
        };
        if let Some(last_used) = last_used {
            let from = self.over_for_a_period(last_used);
            if is_ahead(from, now) {
                return Err(Reason::UsedLately { last_used, from });
            }
        }
        world.is_made_for_its_account(secret)?;
        world.is_not_mentioned(secret)?;
        // What is sent has to expect something: a mark the uid, a deletion the version as well.
        if meta.uid.is_empty() {
            return Err(not_known("metadata.uid"));
        }
        let invalid_since = meta.labels.get(LABEL_INVALID_SINCE);
        let Some(since) = invalid_since.and_then(|text| Date::parse(text)) else {
            return Ok(Reason::Unused { last_used });
        };
        let from = self.over_for_a_period(since);
        if is_ahead(from, now) {
            return Err(Reason::MarkedLately { since, from });
        }
        if meta.resource_version.is_empty() {
            return Err(not_known("metadata.resourceVersion"));
        }
        Ok(Reason::Invalid { since })
    }

    /// When a day has been over for a period: from then on, the date of a period ago is a later one.
    fn over_for_a_period(&self, date: Date) -> Option<Timestamp> {
        const NANOS_PER_DAY: i128 = 86_400_000_000_000;
        let end = i128::from(date.next().days_since_epoch()) * NANOS_PER_DAY;
        after(end, self.clean_up_period())
    }
}

/// The instant a period after another one; `None` beyond what can be told, the beginning of time where it lies before that.
fn after(nanos: i128, period: Duration) -> Option<Timestamp> {
    let period = i128::try_from(period.as_nanos()).ok()?;
    let nanos = nanos.saturating_add(period);
    if nanos < 0 {
        return Some(Timestamp::from_nanos(i64::try_from(nanos).unwrap_or(i64::MIN)));
    }
    i64::try_from(nanos).ok().map(Timestamp::from_nanos)
}

/// Whether an instant is still to come.
fn is_ahead(from: Option<Timestamp>, now: Timestamp) -> bool {
    from.is_none_or(|from| from > now)
}

/// Namespace and name.
type Key<'a> = (&'a str, &'a str);

/// Accounts by name, and who mentions which secret.
struct World<'a> {
    /// `None` where two have the name.
    accounts: Result<BTreeMap<Key<'a>, Option<&'a ServiceAccount>>, &'a StoreError>,
    /// Namespace, account and secret, for each secret that an account lists.
    made_for: BTreeSet<(&'a str, &'a str, &'a str)>,
    pods: Result<Mentions<'a>, &'a StoreError>,
}

/// Who mentions which secret: the first pod by name.
#[derive(Default)]
struct Mentions<'a> {
    of_secret: BTreeMap<Key<'a>, &'a Arc<str>>,
    /// By namespace, a pod of which it is not known what it mentions.
    unknown: BTreeMap<&'a str, &'a Arc<str>>,
}

impl<'a> World<'a> {
    fn new(facts: &'a Facts) -> Self {
        let mut made_for = BTreeSet::new();
        let accounts = facts.accounts.as_ref().map(|accounts| {
            let key = |account: &'a ServiceAccount| (&*account.meta.namespace, &*account.meta.name);
            for account in accounts {
                let (namespace, name) = key(account);
                let secrets = account.secrets.iter().flatten();
                made_for.extend(secrets.map(|secret| (namespace, name, &**secret)));
            }
            by_key(accounts, key)
        });
        let pods = facts.pods.as_ref().map(|pods| Mentions::new(pods));
        Self {
            accounts,
            made_for,
            pods,
        }
    }

    /// Whether the account of a token lists it; otherwise why it stays.
    fn is_made_for_its_account(&self, secret: &Secret) -> Result<(), Reason> {
        let not_known = |field| Reason::NotKnown { field };
        let name = secret
            .account_name
            .as_ref()
            .ok_or_else(|| not_known("annotation kubernetes.io/service-account.name"))?;
        if name.is_empty() {
            return Err(Reason::NoAccount);
        }
        let account = Arc::clone(name);
        let accounts = self
            .accounts
            .as_ref()
            .map_err(|error| Reason::AccountsNotListed {
                message: error.to_string().into(),
            })?;
        let found = match accounts.get(&(&*secret.meta.namespace, &**name)) {
            None => return Err(Reason::AccountGone { account }),
            Some(None) => return Err(Reason::AccountListedTwice { account }),
            Some(Some(found)) => found,
        };
        let uid = secret
            .account_uid
            .as_ref()
            .ok_or_else(|| not_known("annotation kubernetes.io/service-account.uid"))?;
        if !uid.is_empty() && found.meta.uid != **uid {
            return Err(Reason::AccountReplaced { account });
        }
        if found.secrets.is_none() {
            return Err(Reason::AccountNotKnown { account });
        }
        let made = (&*secret.meta.namespace, &*account, &*secret.meta.name);
        if !self.made_for.contains(&made) {
            return Err(Reason::MadeByHand { account });
        }
        Ok(())
    }

    /// Whether no pod mentions a token; otherwise why it stays.
    fn is_not_mentioned(&self, secret: &Secret) -> Result<(), Reason> {
        let mentions = self.pods.as_ref().map_err(|error| Reason::PodsNotListed {
            message: error.to_string().into(),
        })?;
        let namespace = &*secret.meta.namespace;
        if let Some(pod) = mentions.of_secret.get(&(namespace, &*secret.meta.name)) {
            let pod = Arc::clone(pod);
            return Err(Reason::InUse { pod });
        }
        match mentions.unknown.get(namespace) {
            None => Ok(()),
            Some(pod) => Err(Reason::PodNotKnown { pod: Arc::clone(pod) }),
        }
    }
}

impl<'a> Mentions<'a> {
    fn new(pods: &'a [Pod]) -> Self {
        let mut mentions = Self::default();
        for pod in pods {
            let (namespace, name) = (&*pod.meta.namespace, &pod.meta.name);
            match &pod.secrets {
                None => {
                    let first = mentions.unknown.entry(namespace).or_insert(name);
                    *first = name.min(first);
                }
                Some(secrets) => {
                    for secret in secrets {
                        let first = mentions.of_secret.entry((namespace, secret)).or_insert(name);
                        *first = name.min(first);
                    }
                }
            }
        }
        mentions
    }
}
