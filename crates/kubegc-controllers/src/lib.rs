//! The controllers of Kubernetes that delete objects or remove finalizers, beside the garbage collector.
//!
//! Each controller is one module, named after upstream's package, and implements [`Controller`]. Its [`reconcile`](Controller::reconcile) decides about one key from
//! a [`Cache`] and a time, and is the only place that decides:
//!
//! | caller | for |
//! |---|---|
//! | [`BatchPlanner`] | a plan over all objects, without requests |
//! | [`Manager`] | a control plane: list and watch events in, tasks out |
//!
//! A decision consists of [`Action`]s or, where the next request depends on the last response, of [`Steps`]. Facts that are not known are
//! [`Missing`], and nothing is decided on them.
//!
//! **Invariant.** No item here performs I/O, reads a clock or draws entropy by itself.

pub mod action;
pub mod cache;
pub mod controller;
pub mod endpoints;
pub mod endpointslicemirroring;
pub mod job;
pub mod manager;
mod owner;
pub mod planner;
pub mod podgroup;
pub mod reason;
pub mod request;
pub mod resourceclaim;
pub mod sequence;
pub mod serviceaccounttokens;
pub mod servicecidr;
pub mod ttlafterfinished;
pub mod volumeattributesclass;

pub use action::{Action, FailureEvent, OnError, Read};
pub use cache::{Cache, Change, Index, Key};
pub use controller::{
    Cloud, CloudAnswer, CloudQuery, Context, Controller, Deadlines, Decision, Info, Subject, Timing,
};
pub use endpoints::EndpointsOfServices;
pub use endpointslicemirroring::EndpointSliceMirroring;
pub use job::JobTracking;
pub use manager::{Input, Manager, Output, Task, TaskId, Work};
pub use planner::{BatchPlanner, Judgement};
pub use podgroup::PodGroupProtection;
pub use reason::{Missing, Reason};
pub use request::{
    EventRequest, FieldChange, Form, Guard, Operated, Operation, Plugin, Request, Response, Sent, Wire, Write,
};
pub use resourceclaim::ResourceClaims;
pub use sequence::{End, Found, Port, Sequence, Step, Steps};
pub use serviceaccounttokens::ServiceAccountTokens;
pub use servicecidr::ServiceCidrs;
pub use ttlafterfinished::TtlAfterFinished;
pub use volumeattributesclass::VolumeAttributesClassProtection;
