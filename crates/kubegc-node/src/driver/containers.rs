//! Container runs: removal of dead containers, sandboxes and logs ([N2.3](crate::rules#n2-3)).

use std::sync::Arc;

use kubegc_core::{
    LogDirectory, Planner, RuntimeError,
    node_facts::{Container, ContainerStatus},
};

use super::{ContainersReport, Node, NodeAction, Outcome, Performed, with_pods};
use crate::{
    Event, Inventory, Unlisted, container,
    container::{EvictUnits, Mode},
    log, sandbox,
    sandbox::EvictSandboxes,
};

/// Upstream's event message for a container in the state unknown.
const KILLING: &str = "Container is in unknown state, try killing it before removal";

impl Node<'_> {
    /// Removes dead containers, then sandboxes, then logs. Each stage lists again. If a stage fails, the next
    /// one still runs.
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

    /// Performs only the first stage: `evictContainers`. A container is removed only if it could be stopped
    /// ([N2.17](crate::rules#n2-17) to [N2.19](crate::rules#n2-19)). Every action of the plan is performed in
    /// order ([N2.53](crate::rules#n2-53)).
    pub async fn collect_dead_containers(&self, mode: Mode, report: &mut ContainersReport) {
        let containers = self.containers().await;
        if let Err(error) = &containers {
            report.errors.push(error.to_string());
        }
        let inventory = Inventory {
            containers,
            ..with_pods(self.pods(&mut report.errors).await)
        };
        let policy = EvictUnits {
            mode,
            ..self.settings.container
        };
        report.containers = policy.plan(&inventory, self.environment.clock.now());
        for action in report.containers.actions.clone() {
            let container::Action {
                container,
                stop_first,
                ..
            } = action.clone();
            let events = &mut report.events;
            let removal = async {
                if let Some(grace_seconds) = stop_first {
                    events.push((Arc::clone(&container), Event::normal("Killing", KILLING)));
                    let runtime = self.environment.runtime;
                    if let Err(error) = runtime.stop_container(&container.id, grace_seconds).await {
                        // No other container is removed instead.
                        return Outcome::NotStopped(error);
                    }
                }
                removal_outcome(self.remove_container(&container).await)
            };
            let performed = self.perform(NodeAction::Container(action), removal).await;
            report.performed.push(performed);
        }
    }

    /// Performs an action, unless it is withheld.
    async fn perform(&self, action: NodeAction, removal: impl Future<Output = Outcome>) -> Performed {
        let outcome = match self.withheld(&action) {
            Some(withheld) => withheld,
            None => removal.await,
        };
        Performed { action, outcome }
    }

    /// [N2.52](crate::rules#n2-52): removes the log files of a container, its link, then the container. Stops
    /// at the first error. The path of the link is derived from the listing; upstream reads the labels again.
    async fn remove_container(&self, container: &Container) -> Result<(), RuntimeError> {
        let runtime = self.environment.runtime;
        if let Some(logs) = self.environment.logs {
            // Without a status the log path is unknown, so neither the log nor its link is removed.
            if let Some(status) = runtime.container_status(&container.id).await? {
                remove_logs(logs, container, &status).await?;
            }
        }
        runtime.remove_container(&container.id).await
    }

    /// Performs only the second stage: `evictSandboxes`.
    pub async fn collect_sandboxes(&self, mode: Mode, report: &mut ContainersReport) {
        let containers = self.containers().await;
        let sandboxes = if containers.is_ok() {
            self.environment.runtime.sandboxes().await.map_err(Unlisted::from)
        } else {
            Err(Unlisted::NotRequested)
        };
        let failed = [containers.as_ref().err(), sandboxes.as_ref().err()];
        if let Some(error) = failed.into_iter().flatten().next() {
            report.errors.push(error.to_string());
        }
        let inventory = Inventory {
            containers,
            sandboxes,
            ..with_pods(self.pods(&mut report.errors).await)
        };
        let policy = EvictSandboxes {
            mode,
            ..self.settings.sandbox
        };
        report.sandboxes = policy.plan(&inventory, self.environment.clock.now());
        for action in &report.sandboxes.actions {
            let sandbox::Action { sandbox, .. } = action;
            let removal = async {
                let runtime = self.environment.runtime;
                match runtime.stop_sandbox(&sandbox.id).await {
                    Ok(()) => removal_outcome(runtime.remove_sandbox(&sandbox.id).await),
                    Err(error) => Outcome::NotStopped(error),
                }
            };
            let performed = self.perform(NodeAction::Sandbox(action.clone()), removal).await;
            report.performed.push(performed);
        }
    }

    /// Performs only the third stage: `evictPodLogsDirectories`. Links are read after directories were
    /// removed, because removing a directory can make links dangle.
    ///
    /// As upstream, pods are read again right before a directory is removed. If the directory can no longer
    /// be removed, or the pod source fails, it is [kept](Outcome::Kept).
    pub async fn collect_logs(&self, report: &mut ContainersReport) {
        let Some(logs) = self.environment.logs else { return };
        let entries = logs.pod_entries().await.map_err(Unlisted::from);
        let mut inventory = with_pods(self.pods(&mut report.errors).await);
        let now = self.environment.clock.now();
        // Unless all pod sources are ready, upstream does not read the directory, so reading cannot fail.
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
        // As upstream, an error is ignored, and no links are removed.
        inventory.log_links = logs.container_links().await.map_err(Unlisted::from);
        let links = self.settings.log.plan(&inventory, now);
        self.perform_logs(&links.actions, report).await;
        report.logs.actions.extend(links.actions);
        report.logs.kept.extend(links.kept);
        report.logs.findings = links.findings;
    }

    async fn perform_logs(&self, actions: &[log::Action], report: &mut ContainersReport) {
        let Some(logs) = self.environment.logs else { return };
        for action in actions {
            let errors = &mut report.errors;
            let removal = async {
                match action {
                    log::Action::RemoveDirectory { entry, .. } => {
                        match self.check_removable(entry, errors).await {
                            Ok(()) => removal_outcome(logs.remove_pod_entry(entry).await),
                            Err(reason) => Outcome::Kept(reason),
                        }
                    }
                    log::Action::RemoveLink { path, .. } => {
                        removal_outcome(logs.remove_container_link(path).await)
                    }
                    log::Action::ResolveLink { path, container_id } => {
                        let status = self.environment.runtime.container_status(container_id).await;
                        match self.settings.log.link(&status) {
                            Ok(()) => removal_outcome(logs.remove_container_link(path).await),
                            Err(reason) => Outcome::Kept(reason),
                        }
                    }
                }
            };
            let performed = self.perform(NodeAction::Log(action.clone()), removal).await;
            report.performed.push(performed);
        }
    }

    /// Reads the pods again, and returns the reason if a directory can no longer be removed: its pod may have
    /// started after the plan. Adds an error of the pod source unless it is reported already.
    async fn check_removable(&self, entry: &Arc<str>, errors: &mut Vec<String>) -> Result<(), log::Reason> {
        let mut failed = Vec::new();
        let mut inventory = with_pods(self.pods(&mut failed).await);
        failed.retain(|error| !errors.contains(error));
        errors.append(&mut failed);
        inventory.log_entries = Ok(vec![Arc::clone(entry)]);
        let plan = self.settings.log.plan(&inventory, self.environment.clock.now());
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

pub(super) fn removal_outcome(result: Result<(), RuntimeError>) -> Outcome {
    result.map_or_else(Outcome::NotRemoved, |()| Outcome::Done)
}
