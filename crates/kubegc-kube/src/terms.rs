//! The terms of leadership: each lasts from when leadership is gained to when it is lost or the run is
//! stopped.

use std::pin::Pin;

use futures_util::future::{Either, FusedFuture, select};
use tokio::sync::watch;

/// The terms of one run.
pub(crate) struct Terms<'s, S> {
    leading: watch::Receiver<bool>,
    stop: Pin<&'s mut S>,
}

impl<'s, S: FusedFuture<Output = ()>> Terms<'s, S> {
    pub(crate) const fn new(leading: watch::Receiver<bool>, stop: Pin<&'s mut S>) -> Self {
        Self { leading, stop }
    }

    /// Waits until a term begins; `false` where none begins any more.
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

    /// Waits until the term ends.
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
