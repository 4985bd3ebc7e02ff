//! Controllers that create workloads, a scheduler and kubelets, for tests of operators.
//!
//! The other controllers of a [`ControlPlane`] only delete objects, remove finalizers and adopt. With
//! [`Settings::workloads`](crate::Settings::workloads) these act as well, on the same server and in the same
//! loop:
//!
//! | actor in the trace | in this module | in `kubegc-controllers` |
//! |---|---|---|
//! | `deployment-controller` | creates the new ReplicaSet, scales it up, sets revisions, writes the status | adopts, releases, scales down, deletes old ReplicaSets |
//! | `replicaset-controller` | creates pods, writes the status | adopts, releases and deletes pods |
//! | `statefulset-controller` | creates, deletes, adopts and releases pods, creates claims and revisions, writes the status | sets owners of claims, deletes old revisions |
//! | `daemonset-controller` | creates, deletes, adopts and releases pods, creates revisions, writes the status | adopts and deletes revisions |
//! | `job-controller` | creates pods; writes `active`, `ready`, the times and `Suspended` | counts pods, removes finalizers, deletes active pods, ends Jobs |
//! | `disruption-controller` | writes the status of PodDisruptionBudgets | |
//! | `node-lifecycle-controller` | `NoSchedule` taints, pods of lost nodes are not ready | `NoExecute` taints |
//! | `default-scheduler` | binds pods to nodes | |
//! | `kubelet` | reports nodes, runs pods by the rules of the test | ends deleted pods ([`Assumptions::pods_end`](crate::Assumptions::pods_end)) |
//! | `persistentvolume-binder-controller` | provisions and binds claims by the rules of the test | releases and deletes volumes |
//!
//! They act only when the garbage collector and the other controllers have nothing to do at this time, so
//! that a pod is adopted, counted or deleted before it is replaced.
//!
//! Each sync is a function from the objects on the server, the rules and the time to a list of writes. The
//! only state is a queue of keys: the history of a pod is read from its status.
//!
//! # Where it differs from Kubernetes
//! - Hashes are deterministic, change with the template and use the alphabet `bcdfghjklmnpqrstvwxz2456789`;
//!   their values are not those of a real cluster.
//! - No Events are recorded. The reasons of steps are those of upstream's Events.
//! - All containers of a pod start, end and restart together. Times in a status have whole seconds.
//! - The scheduler respects `nodeName`, `nodeSelector`, required node affinity, taints, `spec.unschedulable`,
//!   scheduling gates and unbound claims, and chooses the node with the fewest pods. Resources, inter-pod
//!   affinity and topology spread do not count.
//! - Deployments that are scaled during a rollout are not scaled in proportion: the rollout continues to the
//!   new size.
//! - StatefulSets and DaemonSets are rolled out with `maxUnavailable`, without `maxSurge`; an absent
//!   `rollingUpdate` of a StatefulSet counts as partition 0.
//! - Pods of Jobs are found by their controller reference. Pod failure policies and success policies are not
//!   evaluated.
//! - CronJobs have no schedule: see [`create_job_from`].
//!
//! # Upstream
//! [`pkg/controller`](https://github.com/kubernetes/kubernetes/tree/v1.34.0/pkg/controller): `deployment`,
//! `replicaset`, `statefulset`, `daemon`, `job`, `disruption`, `nodelifecycle` and `history`.
//!
//! [`ControlPlane`]: crate::ControlPlane

mod claims;
mod daemonset;
mod deployment;
mod disruption;
mod job;
mod nodes;
mod plan;
mod pods;
mod queue;
mod replicaset;
mod revisions;
mod rules;
mod scheduler;
mod statefulset;
#[cfg(test)]
mod tests;

pub(crate) use claims::DRIVER;
pub use nodes::ready_node;
pub(crate) use queue::WorkloadQueue;
pub use queue::create_job_from;
pub use rules::{ClaimFate, PodFate, Subject, Workloads};
