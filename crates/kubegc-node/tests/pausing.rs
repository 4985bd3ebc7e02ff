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
use kubegc_sim::SimClock;

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

#[async_trait]
impl<R: Runtime> Runtime for Pausing<R> {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        self.clock.advance(self.listing_takes);
        self.around(self.inner.containers()).await
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        self.around(self.inner.sandboxes()).await
    }

    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        self.around(self.inner.images()).await
    }

    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        self.around(self.inner.image_file_system()).await
    }

    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        self.around(self.inner.container_status(id)).await
    }

    async fn image_id(&self, reference: &str) -> Result<Option<Arc<str>>, RuntimeError> {
        self.around(self.inner.image_id(reference)).await
    }

    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
        self.around(self.inner.stop_container(id, grace_seconds)).await
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        self.around(self.inner.remove_container(id)).await
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.around(self.inner.stop_sandbox(id)).await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.around(self.inner.remove_sandbox(id)).await
    }

    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        self.around(self.inner.remove_image(id, runtime_handler)).await
    }
}

#[async_trait]
impl<R: LogDirectory> LogDirectory for Pausing<R> {
    async fn pod_entries(&self) -> Result<Vec<Arc<str>>, RuntimeError> {
        self.around(self.inner.pod_entries()).await
    }

    async fn container_links(&self) -> Result<Vec<LogLink>, RuntimeError> {
        self.around(self.inner.container_links()).await
    }

    async fn remove_pod_entry(&self, entry: &str) -> Result<(), RuntimeError> {
        self.around(self.inner.remove_pod_entry(entry)).await
    }

    async fn remove_container_link(&self, path: &str) -> Result<(), RuntimeError> {
        self.around(self.inner.remove_container_link(path)).await
    }

    async fn remove_container_logs(&self, log_path: &str) -> Result<(), RuntimeError> {
        self.around(self.inner.remove_container_logs(log_path)).await
    }
}

#[async_trait]
impl<R: PodSource> PodSource for Pausing<R> {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        self.around(self.inner.pods()).await
    }
}
