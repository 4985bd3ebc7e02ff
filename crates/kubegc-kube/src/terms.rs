//! The terms of leadership: each lasts from when leadership is gained to when it is lost or the run is
//! stopped.

use std::pin::{Pin, pin};

use futures_util::{
    FutureExt as _,
    future::{Either, Fuse, FusedFuture, select},
};
use kube::Client;
use kubegc_core::KubernetesVersion;
use tokio::sync::watch;

#[cfg(feature = "leader-election")]
pub(crate) use crate::LeaderElection as Election;
use crate::{Error, metrics, retry};

/// No election can be configured without the feature.
#[cfg(not(feature = "leader-election"))]
pub(crate) type Election = std::convert::Infallible;

/// Performs `work` with leadership by the Lease of an election; without one it leads from the beginning.
/// Returns the default if `stop` is ready before the Lease was read.
#[cfg_attr(
    not(feature = "leader-election"),
    expect(unused_variables, reason = "the client reads the Lease")
)]
pub(crate) async fn elect<S: Future<Output = ()>, T: Default, W: Future<Output = Result<T, Error>>>(
    client: &Client,
    election: Option<Election>,
    stop: S,
    work: impl FnOnce(watch::Receiver<bool>, Pin<Box<Fuse<S>>>) -> W,
) -> Result<T, Error> {
    match election {
        None => {
            let (_leads, leading) = watch::channel(true);
            work(leading, Box::pin(stop.fuse())).await
        }
        #[cfg(feature = "leader-election")]
        Some(election) => {
            let mut stop = Box::pin(stop.fuse());
            let Some(lease) = crate::leader::Lease::read(client, election, &mut stop).await? else {
                return Ok(T::default());
            };
            let (leads, leading) = watch::channel(false);
            lease.lead(&leads, work(leading, stop)).await
        }
    }
}

pub(crate) struct Terms<S> {
    leading: watch::Receiver<bool>,
    stop: Pin<Box<Fuse<S>>>,
}

impl<S: Future<Output = ()>> Terms<S> {
    /// Reads the version to emulate, unless it is given; `None` if `stop` is ready before.
    pub(crate) async fn prepare(
        client: &Client,
        version: Option<KubernetesVersion>,
        leading: watch::Receiver<bool>,
        stop: S,
    ) -> Result<Option<(Self, KubernetesVersion)>, Error> {
        metrics::describe();
        let mut stop = Box::pin(stop.fuse());
        let version = match select(&mut stop, pin!(retry::version(client, version))).await {
            Either::Left(_) => return Ok(None),
            Either::Right((version, _)) => version?,
        };
        Ok(Some((Self { leading, stop }, version)))
    }

    /// Waits until a term begins; `false` if none begins any more.
    pub(crate) async fn begins(&mut self) -> bool {
        if self.stop.is_terminated() {
            return false;
        }
        let led = self.leading.wait_for(|&leads| leads);
        match select(&mut self.stop, pin!(led)).await {
            Either::Right((led, _)) => led.is_ok(),
            Either::Left(_) => false,
        }
    }

    pub(crate) async fn ends(&mut self) {
        let lost = async {
            // A sender that is dropped while it leads leads to the end.
            if self.leading.wait_for(|&leads| !leads).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        select(&mut self.stop, pin!(lost)).await;
    }
}
