//! The controllers of Kubernetes, other than the garbage collector, that delete objects or change finalizers
//! and owner references.
//!
//! Each controller implements [`Controller`], in a module that is named after upstream's package or after its
//! family. Its [`reconcile`](Controller::reconcile) makes all decisions about one key from a [`Cache`] and a
//! time:
//!
//! | caller | for |
//! |---|---|
//! | [`BatchPlanner`] | a plan over all objects, without requests |
//! | [`Manager`] | all controllers as one state machine: list and watch events in, tasks out |
//! | [`driver::Driver`] | a live API server |
//!
//! A decision consists of [`Action`]s or, if the next request depends on the last response, of [`Steps`].
//! Unknown facts are [`Missing`], and no decision depends on them. The rules are listed, with links to
//! upstream, in [`rules`].
//!
//! Most are judged by recordings of their own decisions or of whole control planes. [`apiserverleases`] and
//! [`volumeattachment`] follow upstream's source by rule alone. `not_covered.md` next to this file lists what
//! is omitted.
//!
//! **Invariant.** No item here performs I/O, reads a clock or draws entropy by itself.

mod action;
pub mod apiserverleases;
mod cache;
pub mod certificates;
mod controller;
pub mod controllerrevisions;
pub mod cronjob;
pub mod deployment;
mod documents;
pub mod driver;
pub mod externalprovisioner;
pub mod job;
mod manager;
pub mod namespace;
pub mod nodes;
mod owner;
pub mod persistentvolume;
mod planner;
pub mod podgc;
mod prelude;
pub mod protection;
pub mod pvcprotection;
mod reason;
pub mod replicaset;
mod request;
pub mod resourceclaim;
mod rule;
#[doc = include_str!("../RULES.md")]
pub mod rules {}
mod select;
mod sequence;
pub mod services;
pub mod statefulset;
mod storage;
pub mod tokencleaner;
pub mod tokens;
pub mod ttlafterfinished;
pub mod volumeattachment;

pub use action::{Action, OnError, Read};
pub use cache::{Cache, Change, Index, Key};
pub use certificates::{CsrCleaner, PodCertificateRequestCleaner};
pub use controller::{Context, Controller, Deadlines, Decision, Info, MayChange, Timing};
pub use cronjob::CronJobHistory;
pub use documents::{DocumentError, Documents};
pub use externalprovisioner::ExternalProvisioner;
pub use manager::{Cause, Input, Manager, Output, Task, TaskId, Work};
pub use namespace::NamespaceController;
pub use nodes::{CloudNodeLifecycle, NodeLifecycle};
pub use persistentvolume::{Migration, PersistentVolumeBinder, Storage};
pub use planner::{BatchPlanner, Judgement, protected_by_label};
pub use podgc::PodGc;
pub use pvcprotection::PvcProtection;
pub use reason::{Missing, Reason};
pub use request::{
    Cloud, CloudResponse, EventRequest, FieldChange, Form, Guard, Operated, Operation, Plugin, Request,
    Response, Sent, Wire, Write, preconditions,
};
pub use rule::{ByRelease, Rule};
pub use select::{UnknownController, default_controllers, select_controllers};
pub use sequence::{End, Found, Port, Sequence, Step, Steps};
pub use storage::{FINALIZER_EXTERNAL, FINALIZER_IN_TREE, is_in_tree};
pub use tokencleaner::TokenCleaner;
pub use tokens::{InvalidCleanUpPeriod, LegacyTokenCleaner};
pub use ttlafterfinished::TtlAfterFinished;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
