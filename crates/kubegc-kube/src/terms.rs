//! The terms of leadership: each lasts from when leadership is gained to when it is lost or the run is
//! stopped.

use std::pin::Pin;

use futures_util::{
    FutureExt as _,
    future::{Either, Fuse, FusedFuture, select},
};
use kube::Client;
use tokio::sync::watch;

use crate::Error;
#[cfg(feature = "leader-election")]
pub(crate) use crate::LeaderElection as Election;

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

pub(crate) struct Terms<'s, S> {
    leading: watch::Receiver<bool>,
    stop: Pin<&'s mut S>,
}

impl<'s, S: FusedFuture<Output = ()>> Terms<'s, S> {
    pub(crate) const fn new(leading: watch::Receiver<bool>, stop: Pin<&'s mut S>) -> Self {
        Self { leading, stop }
    }

    /// Waits until a term begins; `false` if none begins any more.
    pub(crate) async fn begins(&mut self) -> bool {
        if self.stop.is_terminated() {
            return false;
        }
        let led = self.leading.wait_for(|&leads| leads);
        match select(&mut self.stop, std::pin::pin!(led)).await {
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
        select(&mut self.stop, std::pin::pin!(lost)).await;
    }
}
