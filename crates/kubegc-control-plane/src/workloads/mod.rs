//! A player of workloads for tests of operators: by rules, owners get pods and claims, and pods become ready,
//! fail, restart and are replaced.
//!
//! The other controllers of a [`ControlPlane`] only delete objects, remove finalizers and adopt. With
//! [`Settings::workloads`](crate::Settings::workloads) the player acts as well, on the same server and in the
//! same loop:
//!
//! | actor in the trace | the player | `kubegc-controllers` |
//! |---|---|---|
//! | `deployment-controller` | creates the ReplicaSet of the template, scales it up | adopts, scales down, deletes old ReplicaSets |
//! | `replicaset-controller` | creates pods | adopts, releases and deletes pods |
//! | `statefulset-controller` | creates claims, creates, replaces, adopts and deletes pods | sets owners of claims |
//! | `daemonset-controller` | creates, replaces, adopts and deletes pods | |
//! | `job-controller` | creates pods; writes `active`, `ready` and the times | counts pods, removes finalizers, ends Jobs |
//! | `node-lifecycle-controller` | | `NoExecute` taints |
//! | `default-scheduler` | binds pods to nodes | |
//! | `kubelet` | reports nodes, runs pods by the rules of the test | |
//! | `persistentvolume-binder-controller` | provisions and binds claims by the rules of the test | releases and deletes volumes |
//!
//! The player acts only when the garbage collector and the other controllers have nothing to do at this time,
//! so that a pod is adopted, counted or deleted before it is replaced.
//!
//! There is one algorithm: a sync compares an object and its dependents with what they should be, and plans
//! the writes that are missing. It depends only on the objects on the server, the rules and the time.
//!
//! # Where it differs from Kubernetes
//! - A new ReplicaSet begins with all replicas; strategies, `maxSurge` and partitions have no effect. Pods of
//!   another template are deleted at once, those of an ordered StatefulSet one at a time, and none with
//!   `OnDelete`.
//! - There are no ControllerRevisions, no revision annotations, no progress deadlines and no
//!   `minReadySeconds`. A paused Deployment is rolled out. Nothing writes the status of PodDisruptionBudgets.
//! - Hashes are deterministic and change with the template; their values are not those of a real cluster.
//! - All containers of a pod start, end and restart together, 10 s after each exit. Init containers have no
//!   status, and readiness gates have no effect.
//! - The scheduler respects `nodeSelector`, `unschedulable` and unbound claims, and chooses the node with the
//!   fewest pods. Taints, affinity and scheduling gates have no effect. A pod without a suitable node has no
//!   condition. Pods of DaemonSets are created with their node.
//! - Indexed Jobs get no pods. CronJobs have no schedule. Before 1.27, failed pods of Jobs are replaced
//!   immediately: there the work queue delays some of them, and many changes reset that delay.
//! - A refused write is tried again when an object or a ResourceQuota changes.
//! - No Events are recorded. Steps have a reason for each verb.
//!
//! # Upstream
//! [`pkg/controller`](https://github.com/kubernetes/kubernetes/tree/v1.34.0/pkg/controller): `deployment`,
//! `replicaset`, `statefulset`, `daemon`, `job` and `nodelifecycle`.
//!
//! [`ControlPlane`]: crate::ControlPlane

mod backoff;
mod owners;
mod player;
mod pods;
mod rules;

pub(crate) use player::Player;
pub(crate) use pods::DRIVER;
pub use pods::ready_node;
pub use rules::{ClaimFate, PodFate, Subject, Workloads};
