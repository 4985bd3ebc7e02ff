//! A daemon that is killed during a run: errors, no wrong removals, and the next run of the same client
//! finishes.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kubegc_core::{
    Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, PodState, Sandbox},
};
use kubegc_cri::{CriRuntime, HostLogs, TokioClock};
use kubegc_node::{
    Environment, Node,
    container::Mode,
    driver::{Outcome, Performed},
};

use crate::{
    collector::{Known, client, container, reported, settings},
    daemon::{Daemon, PAUSE},
    host::{Host, RUNS, pod},
};

/// When the daemon is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Before the request is sent.
    Before,
    /// After the request is sent, before the response.
    During,
}

/// A runtime whose daemon is killed at one of its writes.
struct Killed<'h> {
    runtime: CriRuntime,
    daemon: &'h Daemon,
    moment: Moment,
    /// The number of that write, counted from one.
    nth: usize,
    writes: AtomicUsize,
}

impl Killed<'_> {
    async fn write<F>(&self, call: F) -> Result<(), RuntimeError>
    where
        F: Future<Output = Result<(), RuntimeError>> + Send,
    {
        let is_now = self.writes.fetch_add(1, Ordering::Relaxed) + 1 == self.nth;
        match self.moment {
            Moment::Before if is_now => self.daemon.kill(),
            Moment::During if is_now => {
                // The first poll sends the request; how much of it the daemon performs before it is killed
                // varies.
                let mut call = std::pin::pin!(call);
                let response = tokio::time::timeout(Duration::from_millis(2), call.as_mut()).await;
                self.daemon.kill();
                return match response {
                    Ok(response) => response,
                    Err(_) => call.await,
                };
            }
            Moment::Before | Moment::During => {}
        }
        call.await
    }
}

#[async_trait]
impl Runtime for Killed<'_> {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        self.runtime.containers().await
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        self.runtime.sandboxes().await
    }

    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        self.runtime.images().await
    }

    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        self.runtime.image_file_system().await
    }

    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        self.runtime.container_status(id).await
    }

    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
        self.write(self.runtime.stop_container(id, grace_seconds)).await
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        self.write(self.runtime.remove_container(id)).await
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.write(self.runtime.stop_sandbox(id)).await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.write(self.runtime.remove_sandbox(id)).await
    }

    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        self.write(self.runtime.remove_image(id, runtime_handler)).await
    }
}

/// Failed removals, whose errors say that the daemon does not run.
fn failures(performed: &[Performed]) -> usize {
    let failed = performed.iter().filter_map(|one| match &one.outcome {
        Outcome::NotRemoved(error) | Outcome::NotStopped(error) => Some(error),
        _ => None,
    });
    failed
        .inspect(|error| assert!(error.to_string().contains("code = Unavailable"), "{error}"))
        .count()
}

/// Runs over containers, sandboxes and logs.
pub(crate) async fn a_container_run_continues_after_the_runtime_was_killed(host: &Host) {
    let (web, gone) = (pod("web"), pod("gone"));
    let (in_web, in_gone) = (host.sandbox(&web, 0).await, host.sandbox(&gone, 0).await);
    for attempt in 0..4 {
        host.ended(&in_web, "app", attempt, PAUSE).await;
        host.ended(&in_gone, "job", attempt, PAUSE).await;
    }
    host.run(&in_web, "app", 4, PAUSE, &RUNS).await;
    host.stop(&in_gone).await;
    let stays = ["web/app#3 exited", "web/app#4 running"];

    let runtime = client().await;
    let pods = Known::all([(&web, PodState::ACTIVE)]);
    let (logs, clock) = (HostLogs::default(), TokioClock::new());
    let collect = async |runtime: &dyn Runtime| {
        let world = Environment {
            runtime,
            logs: Some(&logs),
            pods: &pods,
            clock: &clock,
        };
        Node::new(world, settings(|_| {}))
            .collect_containers(Mode::Periodic)
            .await
    };

    // The run removes seven containers, then stops and removes a sandbox.
    let mut left = host.left().await;
    for (moment, containers_are_removed, nth) in [
        (Moment::Before, false, 2),
        (Moment::During, false, 1),
        (Moment::Before, false, 1),
        (Moment::During, false, 2),
        (Moment::During, true, 1),
        (Moment::Before, true, 2),
    ] {
        let dead = left.len() - stays.len();
        let nth = if containers_are_removed { dead + nth } else { nth };
        let killed = Killed {
            runtime: runtime.clone(),
            daemon: &host.daemon,
            moment,
            nth,
            writes: AtomicUsize::new(0),
        };
        let report = collect(&killed).await;
        assert!(
            killed.writes.load(Ordering::Relaxed) >= nth,
            "{moment:?} {nth}: {left:?}"
        );
        let planned: BTreeSet<String> = report
            .containers
            .actions
            .iter()
            .map(|action| format!("{} exited", container(&action.container)))
            .collect();
        assert_eq!(planned.len(), dead);
        let reported = reported(&report.performed);
        if nth <= dead {
            // Without a listing no sandbox is planned.
            assert!(
                report
                    .error()
                    .is_some_and(|error| error.contains("code = Unavailable")),
                "{:?}",
                report.errors
            );
            assert_eq!(report.sandboxes.actions, []);
            assert!(failures(&report.performed) >= dead - nth, "{reported:?}");
        }

        host.daemon.start_again();
        host.wait_until_ready().await;
        let now = host.left().await;
        let went: BTreeSet<String> = left.iter().filter(|one| !now.contains(one)).cloned().collect();
        assert!(
            now.iter().all(|one| left.contains(one)),
            "nothing was created or changed: {left:?} {now:?}"
        );
        assert!(
            went.is_subset(&planned),
            "{moment:?}: {went:?} were removed, {planned:?} were planned"
        );
        // Each action that was reported as done was performed. The responses of requests in flight may be
        // lost.
        let done = planned
            .iter()
            .filter(|one| reported.contains(&format!("container {}", one.replace(" exited", ""))));
        let done: BTreeSet<String> = done.cloned().collect();
        assert!(done.is_subset(&went), "{done:?} {went:?}");
        let under_way = usize::from(moment == Moment::During);
        assert!(went.len() <= done.len() + under_way, "{done:?} {went:?}");
        assert!(
            stays.iter().all(|one| now.iter().any(|left| left == one)),
            "{now:?}"
        );
        assert_eq!(host.sandboxes_left().await, ["gone#0 not ready", "web#0 ready"]);
        left = now;
    }
    assert_eq!(left, stays);

    let last = collect(&runtime).await;
    assert_eq!((last.errors.len(), failures(&last.performed)), (0, 0), "{last:?}");
    assert_eq!(host.left().await, stays);
    assert_eq!(host.sandboxes_left().await, ["web#0 ready"]);
    let again = collect(&runtime).await;
    assert_eq!((reported(&again.performed), again.errors.len()), (vec![], 0));
}

/// All processes are killed, as when a machine loses its power, and only the daemon is started again.
pub(crate) async fn containers_are_dead_after_all_processes_were_killed(host: &Host) {
    let web = pod("web");
    let sandbox = host.sandbox(&web, 0).await;
    host.ended(&sandbox, "app", 0, PAUSE).await;
    host.run(&sandbox, "app", 1, PAUSE, &RUNS).await;
    let runtime = client().await;
    host.daemon.kill_all();
    host.daemon.start_again();
    host.wait_until_ready().await;
    assert_eq!(host.left().await, ["web/app#0 exited", "web/app#1 exited"]);
    assert_eq!(host.sandboxes_left().await, ["web#0 not ready"]);

    let (pods, clock) = (Known::all([(&web, PodState::ACTIVE)]), TokioClock::new());
    let world = Environment {
        runtime: &runtime,
        logs: None,
        pods: &pods,
        clock: &clock,
    };
    let node = Node::new(world, settings(|_| {}));
    // The pod keeps its last container and its sandbox.
    for expected in [&["container web/app#0"][..], &[]] {
        let report = node.collect_containers(Mode::Periodic).await;
        assert_eq!(reported(&report.performed), expected);
    }
}
