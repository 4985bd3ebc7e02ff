//! The pending work of an idle cluster.

use kubegc_core::{ObjectRef, Timestamp};
use kubegc_objects::{Collector, graph::NodeId};
use kubegc_sim::ApiServer;

use super::{Inner, control::Idle};
use crate::fate::names;

/// The pending work of an idle cluster.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Rest {
    /// Nothing is pending: the state stays the same until the next write.
    #[display("quiet")]
    Quiet,
    /// Something certainly happens when time passes.
    #[display("waiting until {until} for {}", who.join(", "))]
    Waiting {
        until: Timestamp,
        /// The events, or the actors.
        who: Vec<String>,
    },
    /// The control plane only retries failed work.
    #[display("trying again at {at}{}{}", if objects.is_empty() { "" } else { ": " }, names(objects))]
    Retrying {
        at: Timestamp,
        /// The objects that the collector retries.
        objects: Vec<ObjectRef>,
    },
}

impl Inner {
    pub(super) fn rest(&self, idle: Idle) -> Rest {
        self.shared.with(|server| {
            let state = self.state.lock();
            let now = server.now();
            let held = state.requests.values().flatten().copied();
            let held = held.filter(|until| *until > now).min();
            let asleep = self.clock.next_wake();
            let certain = [idle.certain_at(), held, asleep].into_iter().flatten().min();
            if let Some(until) = certain {
                let mut who = Vec::new();
                if idle.certain_at() == Some(until) {
                    who.extend(ending(server, until));
                }
                if held == Some(until) {
                    who.push("a request that is held back".to_owned());
                }
                if asleep == Some(until) && held != Some(until) {
                    who.push("a task that sleeps by the cluster's clock".to_owned());
                }
                return Rest::Waiting { until, who };
            }
            match idle.next.retry_at {
                Some(at) => Rest::Retrying {
                    at,
                    objects: retried(state.plane.control.collector()),
                },
                None => Rest::Quiet,
            }
        })
    }
}

/// Pods whose grace is over then, or the namespace controller.
fn ending(server: &ApiServer, at: Timestamp) -> Vec<String> {
    let pods = server.catalog().mapping("v1", "Pod");
    let pods = pods
        .map_or_else(Vec::new, |pods| server.objects(pods, None))
        .into_iter();
    let ending = pods.filter(|pod| pod.meta.deletion_timestamp == Some(at));
    let ends = ending.map(|pod| format!("the end of {}/Pod/{}", pod.meta.namespace, pod.meta.name));
    let mut ends: Vec<String> = ends.collect();
    if ends.is_empty() {
        ends.push("the control plane".to_owned());
    }
    ends
}

/// The objects that the collector has requeued.
fn retried(collector: &Collector) -> Vec<ObjectRef> {
    let graph = collector.graph();
    let is_retried = |&node: &NodeId| collector.retry(&graph.uid(node)).is_some();
    graph.identities(graph.nodes().filter(is_retried))
}
