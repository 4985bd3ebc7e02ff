//! The collector under test, and its reports in a form that a test can compare.

use std::collections::BTreeMap;

use async_trait::async_trait;
use kubegc_core::{
    KubernetesVersion, PodSource, RuntimeError,
    node_facts::{Container, PodIdentity, PodState, Pods, Sandbox},
};
use kubegc_cri::{CriRuntime, Endpoint, Options};
use kubegc_node::{
    GoDuration, Policy, PolicySpec, container,
    driver::{NodeAction, Outcome, Performed, Settings},
    image, log, sandbox,
};

use crate::daemon::SOCKET;

/// A connection of the client under test.
pub(crate) async fn client() -> CriRuntime {
    let connected = CriRuntime::connect(&Endpoint::unix(SOCKET), Options::default()).await;
    connected.expect("the daemon responds")
}

/// Settings of the newest version, with the changes of the test.
pub(crate) fn settings(change: impl FnOnce(&mut PolicySpec)) -> Settings {
    settings_of(KubernetesVersion::LATEST, change)
}

/// Settings of one version.
pub(crate) fn settings_of(version: KubernetesVersion, change: impl FnOnce(&mut PolicySpec)) -> Settings {
    let mut spec = PolicySpec {
        image_minimum_gc_age: GoDuration::from_secs(60),
        ..PolicySpec::default()
    };
    change(&mut spec);
    Settings::from(&Policy::new(&spec, version).expect("the test's settings make sense"))
}

/// A source of pods that returns the pods of the test.
#[derive(Clone, Debug)]
pub(crate) struct Known(pub(crate) Pods);

impl Known {
    /// All pods that the node should run.
    pub(crate) fn all<'p>(pods: impl IntoIterator<Item = (&'p PodIdentity, PodState)>) -> Self {
        let known: BTreeMap<_, _> = pods
            .into_iter()
            .map(|(pod, state)| (pod.uid.clone(), state))
            .collect();
        Self(Pods {
            known,
            sources_ready: true,
            synced: true,
        })
    }
}

#[async_trait]
impl PodSource for Known {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        Ok(self.0.clone())
    }
}

/// A container as `pod/name#attempt`.
pub(crate) fn container(container: &Container) -> String {
    let name = container.name.as_deref().unwrap_or("?");
    format!("{}/{name}#{}", container.pod.name, container.attempt)
}

/// A sandbox as `pod#attempt`.
pub(crate) fn sandbox(sandbox: &Sandbox) -> String {
    format!("{}#{}", sandbox.pod.name, sandbox.attempt)
}

/// The performed actions, in order, each with the error if it failed.
pub(crate) fn reported(performed: &[Performed]) -> Vec<String> {
    let one = |one: &Performed| {
        let action = match &one.action {
            NodeAction::Container(container::Action {
                container: removed, ..
            }) => {
                format!("container {}", container(removed))
            }
            NodeAction::Sandbox(sandbox::Action { sandbox: removed, .. }) => {
                format!("sandbox {}", sandbox(removed))
            }
            NodeAction::Log(log::Action::RemoveDirectory { entry, .. }) => format!("logs {entry}"),
            NodeAction::Log(log::Action::ResolveLink { path, .. } | log::Action::RemoveLink { path, .. }) => {
                format!("link {path}")
            }
            NodeAction::Image(image::Action { image, .. }) => format!("image {}", image.name()),
        };
        match &one.outcome {
            Outcome::Done => action,
            other => format!("{action}: {other:?}"),
        }
    };
    performed.iter().map(one).collect()
}
