//! Runs the control plane in the background, for tests that cannot call [`Cluster::settle`]: other processes,
//! other collectors.

use super::{Cluster, Inner, control::ClusterStep};

/// A control plane that runs in the background until this is dropped. Made by [`Cluster::run`].
#[derive(Debug)]
#[must_use = "the control plane stops when this is dropped"]
pub struct Running {
    task: tokio::task::JoinHandle<()>,
}

impl Cluster {
    /// Runs the control plane in the background: after each write, and when work is due by the cluster's
    /// clock.
    ///
    /// It does not advance the time and does not poll. [`settle`](Self::settle) can be used at the same time.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Examples
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use k8s_openapi::api::core::v1::Secret;
    /// use kubegc_testkit::Cluster;
    /// let cluster = Cluster::builder()
    ///     .yaml("{apiVersion: v1, kind: Secret, metadata: {name: s, ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: gone}]}}")
    ///     .build()?;
    /// let running = cluster.run();
    /// while cluster.find::<Secret>("default", "s").is_some() {
    ///     tokio::task::yield_now().await;
    /// }
    /// drop(running);
    /// # Ok::<(), kubegc_testkit::BuildError>(()) }).unwrap();
    /// ```
    pub fn run(&self) -> Running {
        let cluster = self.clone();
        let task = tokio::spawn(async move { cluster.inner.work().await });
        Running { task }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Inner {
    /// Works until it is dropped.
    async fn work(&self) {
        loop {
            let seen = self.pulse.count();
            let idle = match self.step() {
                ClusterStep::Idle(idle) => idle,
                ClusterStep::Requested(_) | ClusterStep::Worked => {
                    // Other tasks run between any two steps.
                    tokio::task::yield_now().await;
                    continue;
                }
            };
            tokio::select! {
                _ = self.shared.changed(idle.revision) => {}
                () = self.pulse.after(seen) => {}
                () = self.clock.sleep_in_background_until(idle.next.next_at()) => {}
            }
        }
    }
}
