//! What else Kubernetes calls garbage collection, as pure planners: the cleaners beside the owner graph and the kubelet.
//!
//! Each module is one upstream controller: facts, settings and a time in, actions with reasons out. Where upstream's next call
//! depends on how the last one went, the module also has a resumable face.
//!
//! | module | what goes, or lets go | upstream |
//! |---|---|---|
//! | [`pod`] | pods that have ended, lost their node, or were never scheduled | `podgc` |
//! | [`job`] | finished jobs whose time is up | `ttlafterfinished` |
//! | [`history`] | jobs of a cron job beyond its limits | `cronjob` |
//! | [`certificate`] | certificate requests that were answered, denied, or left alone | `certificates/cleaner` |
//! | [`volume`] | released volumes; finalizers that protect volumes and claims in use | `volume/persistentvolume`, `pvprotection`, `pvcprotection` |
//! | [`statefulset`] | claims of a stateful set, by owner references | `statefulset` |
//! | [`node`] | nodes that the cloud no longer has | `cloud-provider/controllers/nodelifecycle` |
//! | [`lease`] | leases of nodes that are gone, by owner references | `garbagecollector` |
//! | [`token`] | unused tokens of service accounts, expired bootstrap tokens | `serviceaccount`, `bootstrap` |
//! | [`namespace`] | all content of a deleted namespace, in order | `namespace/deletion` |
//!
//! What plans speak of and what goes over the wire is common to all but the last: [`object`].
//!
//! `Plan::next_at` is when the same facts give another plan, not when upstream's next pass happens to look.
//!
//! All of them run as controllers by [`controller`], which says what to do and when, and [`driver`], which does it over an API server.
//!
//! **Invariant.** No item here performs I/O, reads a clock or draws entropy by itself: drivers do through the traits that they are given.

pub mod certificate;
pub mod controller;
pub mod driver;
pub mod fields;
pub mod history;
pub mod job;
pub mod lease;
pub mod namespace;
pub mod node;
pub mod object;
mod period;
pub mod pod;
pub mod statefulset;
pub mod token;
pub mod volume;
