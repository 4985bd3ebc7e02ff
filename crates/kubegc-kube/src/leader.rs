//! Leader election by a Lease.

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select};
use k8s_openapi::{
    api::coordination::v1::Lease as LeaseObject,
    jiff::{self, SignedDuration},
};
use kube::{Api, Client};
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::{Error, retry};

/// Wait time after the lease could not be read or renewed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

const READ_WITHIN: Duration = Duration::from_secs(5);

/// A Lease that selects one of several instances as the leader.
///
/// The lease is renewed `grace_seconds` before it ends. An instance that fails to renew it for that long
/// gives up leadership until it reads that it holds the lease again. Two instances collect at the same time
/// only if the clocks of their machines differ, or if a renewal never ends: use a client with timeouts
/// shorter than the lease. Even then the only effect is that preconditions of writes fail.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Namespace of the Lease. Default: `kube-system`.
    pub namespace: String,
    /// Name of the Lease. Default: `kubegc`.
    pub name: String,
    /// Identity of this instance; must differ between instances. Pods use their name.
    pub identity: String,
    /// Duration of a lease, in seconds. Default: 15, as upstream's. With a shorter one, other instances take
    /// over sooner, and the load of the API server increases.
    pub duration_seconds: u64,
    /// Time before the end of the lease at which it is renewed, in seconds. Default: 10, as upstream's
    /// renewal after 5 of 15 seconds.
    pub grace_seconds: u64,
}

impl LeaderElection {
    /// An election for the Lease `kubegc` in `kube-system`.
    pub fn new(identity: &str) -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            name: "kubegc".to_owned(),
            identity: identity.to_owned(),
            duration_seconds: 15,
            grace_seconds: 10,
        }
    }

    /// An election for the Lease `kubegc-controllers` in `kube-system`, so that a collector and controllers
    /// in different programs do not wait for each other.
    pub fn for_controllers(identity: &str) -> Self {
        Self {
            name: "kubegc-controllers".to_owned(),
            ..Self::new(identity)
        }
    }

    fn check(&self) -> Result<(), Error> {
        let bad = |message: &str| {
            let message = message.to_owned();
            Err(Error::Lease { message })
        };
        // kube-lease-manager panics otherwise.
        if self.grace_seconds == 0 || self.grace_seconds >= self.duration_seconds {
            return bad("the grace period must be greater than zero and less than the duration");
        }
        if self.identity.is_empty() {
            return bad("the identity is empty");
        }
        Ok(())
    }

    /// Reads the Lease, and creates it if it does not exist.
    async fn lease(&self, client: Client) -> Result<LeaseManager, LeaseManagerError> {
        let builder = LeaseManagerBuilder::new(client, &self.name)
            .with_namespace(&self.namespace)
            .with_identity(&self.identity)
            .with_field_manager(format!("kubegc-{}", self.identity))
            // The longer duration first: the builder checks duration and grace against each other.
            .with_duration(
                self.duration_seconds
                    .max(kube_lease_manager::DEFAULT_LEASE_DURATION_SECONDS),
            )
            .with_grace(self.grace_seconds)
            .with_duration(self.duration_seconds);
        builder.build().await
    }
}

pub(crate) struct Lease {
    client: Client,
    election: LeaderElection,
    lease: LeaseManager,
}

impl Lease {
    /// Reads the Lease, with retries; `None` if `stop` is ready before.
    pub(crate) async fn read(
        client: &Client,
        election: LeaderElection,
        stop: &mut (impl Future<Output = ()> + Unpin),
    ) -> Result<Option<Self>, Error> {
        election.check()?;
        // As in upstream's leader election, a refused request for the Lease is repeated: the roles may not
        // exist yet.
        let reading = retry::with_backoff(
            "reading the Lease",
            |_| true,
            async || election.lease(client.clone()).await,
        );
        let lease = match select(stop, pin!(reading)).await {
            Either::Left(_) => return Ok(None),
            Either::Right((lease, _)) => lease.map_err(|error| Error::Lease {
                message: error.to_string(),
            })?,
        };
        Ok(Some(Self {
            client: client.clone(),
            election,
            lease,
        }))
    }

    /// Renews the Lease and reports whether it is held until `work` ends, then releases it.
    pub(crate) async fn lead<T>(self, leads: &watch::Sender<bool>, work: impl Future<Output = T>) -> T {
        let grace = Duration::from_secs(self.election.grace_seconds);
        let ours = || is_ours(&self.client, &self.election);
        let electing = pin!(elect(&self.lease, grace, leads, ours));
        let result = match select(pin!(work), electing).await {
            Either::Left((result, _)) => result,
            Either::Right((never, _)) => match never {},
        };
        if let Err(error) = self.lease.release().await {
            tracing::warn!(%error, "the lease could not be released; it will expire");
        }
        result
    }
}

/// Renews the Lease until it is dropped, and sends whether it is held.
async fn elect<F: Future<Output = bool>>(
    lease: &LeaseManager,
    grace: Duration,
    leads: &watch::Sender<bool>,
    ours: impl Fn() -> F,
) -> std::convert::Infallible {
    let mut held = false;
    let mut failing_since: Option<Instant> = None;
    loop {
        let mut changed = pin!(lease.changed());
        let step = loop {
            if failing_since.is_none() {
                break changed.await;
            }
            // The lease manager does not report that renewals work again or that one blocks, so the Lease is
            // read.
            match timeout(RETRY_AFTER, &mut changed).await {
                Ok(step) => break step,
                Err(_) if held && ours().await => {
                    failing_since = None;
                    leads.send_replace(true);
                }
                Err(_) => give_up(failing_since, grace, leads),
            }
        };
        match step {
            Ok(now_held) => {
                tracing::info!(leads = now_held, "leadership changed");
                held = now_held;
                failing_since = None;
                leads.send_replace(held);
            }
            Err(error) => {
                tracing::warn!(%error, "the lease cannot be renewed");
                failing_since.get_or_insert_with(Instant::now);
                give_up(failing_since, grace, leads);
                sleep(RETRY_AFTER).await;
            }
        }
    }
}

/// Gives up leadership if the lease could not be renewed for the whole grace period.
fn give_up(failing_since: Option<Instant>, grace: Duration, leads: &watch::Sender<bool>) {
    if failing_since.is_some_and(|since| since.elapsed() >= grace) {
        leads.send_replace(false);
    }
}

/// Whether this instance holds the current lease and it has not expired.
async fn is_ours(client: &Client, election: &LeaderElection) -> bool {
    let leases: Api<LeaseObject> = Api::namespaced(client.clone(), &election.namespace);
    let Ok(Ok(lease)) = timeout(READ_WITHIN, leases.get(&election.name)).await else {
        return false;
    };
    let Some(spec) = lease.spec else { return false };
    let lasts = SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or(0).into());
    let ends = spec
        .renew_time
        .and_then(|renewed| renewed.0.checked_add(lasts).ok());
    spec.holder_identity.as_deref() == Some(&election.identity)
        && ends.is_some_and(|ends| ends > jiff::Timestamp::now())
}
