//! One run over dead containers, sandboxes and logs ([N2.3](crate::rules#n2-3)).

use std::sync::Arc;

use kubegc_core::{
    LogDirectory, Planner, RuntimeError,
    node_facts::{Container, ContainerStatus},
};

use super::{ContainersReport, Node, NodeAction, Outcome, Performed, with_pods};
use crate::{
    Inventory, Unlisted, container,
    container::Mode,
    event::{self, Event},
    log, sandbox,
};

/// Upstream's message for a container that may still run.
const KILLING: &str = "Container is in unknown state, try killing it before removal";

impl Node<'_> {
    /// Removes dead containers, then sandboxes, then logs, each stage with a new listing. A stage that fails
    /// does not stop the next one.
    ///
    /// # Upstream
    /// `GarbageCollect` and `DeleteAllUnusedContainers` of
    /// [`container/container_gc.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/container/container_gc.go).
    pub async fn collect_containers(&self, mode: Mode) -> ContainersReport {
        let mut report = ContainersReport::default();
        self.collect_dead_containers(mode, &mut report).await;
        self.collect_sandboxes(mode, &mut report).await;
        self.collect_logs(&mut report).await;
        report
    }

    /// The first stage alone: `evictContainers`.
    pub async fn collect_dead_containers(&self, mode: Mode, report: &mut ContainersReport) {
        let containers = self.containers().await;
        if let Err(why) = &containers {
            report.errors.push(why.to_string());
        }
        let inventory = Inventory {
            containers,
            ..with_pods(self.pods(&mut report.errors).await)
        };
        let policy = self.settings.container.with_mode(mode);
        report.containers = policy.plan(&inventory, self.world.clock.now());
        if self.settings.dry_run {
            let actions = report.containers.actions.iter().cloned();
            return report
                .performed
                .extend(actions.map(|action| dry(NodeAction::Container(action))));
        }
        let mut run = container::Run::new(report.containers.clone());
        let mut response = None;
        // Terminates: at most two steps for each action of the plan.
        loop {
            response = match run.next(response) {
                container::Step::Stop {
                    container,
                    grace_seconds,
                } => {
                    let event = Event::normal(event::reason::KILLING, KILLING);
                    report.events.push((Arc::clone(&container), event));
                    Some(
                        self.world
                            .runtime
                            .stop_container(&container.id, grace_seconds)
                            .await,
                    )
                }
                container::Step::Remove { container } => Some(self.remove_container(&container).await),
                container::Step::Done => break,
            };
        }
        let (plan, failed) = run.finish();
        let mut failed = failed.into_iter().peekable();
        for action in plan.actions {
            let outcome = match failed.next_if(|failed| failed.action == action) {
                None => Outcome::Done,
                Some(failed) if failed.stop_failed => Outcome::NotStopped(failed.error),
                Some(failed) => Outcome::NotRemoved(failed.error),
            };
            report.performed.push(Performed {
                action: NodeAction::Container(action),
                outcome,
            });
        }
    }

    /// [N2.52](crate::rules#n2-52): removes its log files, its link, then the container itself. A failure
    /// ends it. The link is derived from the listing, not from labels that are read again.
    async fn remove_container(&self, container: &Container) -> Result<(), RuntimeError> {
        let runtime = self.world.runtime;
        if let Some(logs) = self.world.logs {
            // An empty status names no log, so neither the log nor its link is removed.
            if let Some(status) = runtime.container_status(&container.id).await? {
                remove_logs(logs, container, &status).await?;
            }
        }
        runtime.remove_container(&container.id).await
    }

    /// The second stage alone: `evictSandboxes`.
    pub async fn collect_sandboxes(&self, mode: Mode, report: &mut ContainersReport) {
        let containers = self.containers().await;
        let sandboxes = if containers.is_ok() {
            self.world.runtime.sandboxes().await.map_err(Unlisted::from)
        } else {
            Err(Unlisted::NotRequested)
        };
        let failed = [containers.as_ref().err(), sandboxes.as_ref().err()];
        if let Some(why) = failed.into_iter().flatten().next() {
            report.errors.push(why.to_string());
        }
        let inventory = Inventory {
            containers,
            sandboxes,
            ..with_pods(self.pods(&mut report.errors).await)
        };
        let policy = self.settings.sandbox.with_mode(mode);
        report.sandboxes = policy.plan(&inventory, self.world.clock.now());
        for action in &report.sandboxes.actions {
            let sandbox::Action::Remove { sandbox, .. } = action;
            let outcome = if self.settings.dry_run {
                Outcome::DryRun
            } else if let Err(error) = self.world.runtime.stop_sandbox(&sandbox.id).await {
                Outcome::NotStopped(error)
            } else {
                removal(self.world.runtime.remove_sandbox(&sandbox.id).await)
            };
            report.performed.push(Performed {
                action: NodeAction::Sandbox(action.clone()),
                outcome,
            });
        }
    }

    /// The third stage alone: `evictPodLogsDirectories`. Links are read after directories were removed,
    /// because some dangle only then.
    ///
    /// Right before a directory is removed, pods are read again, as upstream does: if it can no longer be
    /// removed, or the pods are unknown, it [stays](Outcome::Kept).
    pub async fn collect_logs(&self, report: &mut ContainersReport) {
        let Some(logs) = self.world.logs else { return };
        let entries = logs.pod_entries().await.map_err(Unlisted::from);
        let mut inventory = with_pods(self.pods(&mut report.errors).await);
        let now = self.world.clock.now();
        // If sources are missing upstream does not read the directory, so it cannot fail.
        inventory.log_entries = if inventory.pods.sources_ready {
            entries
        } else {
            Ok(Vec::new())
        };
        if let Err(Unlisted::Failed(error)) = &inventory.log_entries {
            let directory = &self.settings.pod_logs_directory;
            report
                .errors
                .push(self.settings.log.unreadable_text(directory, error));
        }
        let directories = self.settings.log.plan(&inventory, now);
        self.perform_logs(&directories.actions, report).await;
        report.logs = directories;
        if inventory.log_entries.is_err() {
            return;
        }
        inventory.log_entries = Ok(Vec::new());
        // As upstream, an error is ignored: then there are no links.
        inventory.log_links = logs.container_links().await.map_err(Unlisted::from);
        let links = self.settings.log.plan(&inventory, now);
        self.perform_logs(&links.actions, report).await;
        report.logs.actions.extend(links.actions);
        report.logs.kept.extend(links.kept);
        report.logs.findings = links.findings;
    }

    async fn perform_logs(&self, actions: &[log::Action], report: &mut ContainersReport) {
        let Some(logs) = self.world.logs else { return };
        for action in actions {
            let outcome = match action {
                _ if self.settings.dry_run => Outcome::DryRun,
                log::Action::RemoveDirectory { entry, .. } => {
                    match self.still_removable(entry, &mut report.errors).await {
                        Ok(()) => removal(logs.remove_pod_entry(entry).await),
                        Err(reason) => Outcome::Kept(reason),
                    }
                }
                log::Action::RemoveLink { path, .. } => removal(logs.remove_container_link(path).await),
                log::Action::ResolveLink { path, container_id } => {
                    let status = self.world.runtime.container_status(container_id).await;
                    match self.settings.log.link(&status) {
                        Ok(_) => removal(logs.remove_container_link(path).await),
                        Err(reason) => Outcome::Kept(reason),
                    }
                }
            };
            report.performed.push(Performed {
                action: NodeAction::Log(action.clone()),
                outcome,
            });
        }
    }

    /// Returns whether a directory can still be removed with the pods known now: one may have started since
    /// the plan. An error is reported once.
    async fn still_removable(&self, entry: &Arc<str>, errors: &mut Vec<String>) -> Result<(), log::Reason> {
        let mut failed = Vec::new();
        let mut inventory = with_pods(self.pods(&mut failed).await);
        failed.retain(|error| !errors.contains(error));
        errors.append(&mut failed);
        inventory.log_entries = Ok(vec![Arc::clone(entry)]);
        let plan = self.settings.log.plan(&inventory, self.world.clock.now());
        let kept = plan.kept.into_iter().next().map(|kept| kept.reason);
        kept.map_or(Ok(()), Err)
    }
}

/// Removes the log files of a container, then the link to them, if there is one.
async fn remove_logs(
    logs: &dyn LogDirectory,
    container: &Container,
    status: &ContainerStatus,
) -> Result<(), RuntimeError> {
    if !status.log_path.is_empty() {
        logs.remove_container_logs(&status.log_path).await?;
    }
    let Some(path) = log::link_path(container) else {
        return Ok(());
    };
    match logs.remove_container_link(&path).await {
        Ok(()) | Err(RuntimeError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

fn removal(result: Result<(), RuntimeError>) -> Outcome {
    result.map_or_else(Outcome::NotRemoved, |()| Outcome::Done)
}

const fn dry(action: NodeAction) -> Performed {
    Performed {
        action,
        outcome: Outcome::DryRun,
    }
}
