//! A runtime, log directory and source of pods that yield before and after each call, so that a test can drop
//! the caller there.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use kubegc_core::{
    LogDirectory, PodSource, Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, LogLink, Pods, Sandbox},
};
use kubegc_sim::{SimClock, SimNode};

/// Yields before and after every call of `inner`. Each listing of containers advances the clock.
pub(crate) struct Pausing<R> {
    pub(crate) inner: R,
    pub(crate) clock: SimClock,
    pub(crate) listing_takes: Duration,
}

/// Is ready when polled a second time.
struct Pause(bool);

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Pausing<SimNode> {
    pub(crate) fn new(node: &SimNode, clock: &SimClock) -> Self {
        Self {
            inner: node.clone(),
            clock: clock.clone(),
            listing_takes: Duration::ZERO,
        }
    }
}

impl<R> Pausing<R> {
    async fn around<T>(&self, work: impl Future<Output = T> + Send) -> T
    where
        T: Send,
        R: Sync,
    {
        Pause(false).await;
        let response = work.await;
        Pause(false).await;
        response
    }
}

/// Implements a trait. The methods after its own body call `inner` with the same texts.
macro_rules! pausing {
    ($implemented:ident { $($own:tt)* } $($method:ident($($text:ident),*) -> $ok:ty;)*) => {
        #[async_trait]
        impl<R: $implemented> $implemented for Pausing<R> {
            $($own)*

            $(async fn $method(&self, $($text: &str),*) -> Result<$ok, RuntimeError> {
                self.around(self.inner.$method($($text),*)).await
            })*
        }
    };
}

pausing! {
    Runtime {
        async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
            self.clock.advance(self.listing_takes);
            self.around(self.inner.containers()).await
        }

        async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
            self.around(self.inner.stop_container(id, grace_seconds)).await
        }
    }
    sandboxes() -> Vec<Arc<Sandbox>>;
    images() -> Vec<Arc<Image>>;
    image_file_system() -> FileSystem;
    container_status(id) -> Option<ContainerStatus>;
    image_id(reference) -> Option<Arc<str>>;
    remove_container(id) -> ();
    stop_sandbox(id) -> ();
    remove_sandbox(id) -> ();
    remove_image(id, runtime_handler) -> ();
}

pausing! {
    LogDirectory {}
    pod_entries() -> Vec<Arc<str>>;
    container_links() -> Vec<LogLink>;
    remove_pod_entry(entry) -> ();
    remove_container_link(path) -> ();
    remove_container_logs(log_path) -> ();
}

pausing! {
    PodSource {}
    pods() -> Pods;
}
