//! An in-memory cluster: an API server with the deletion semantics of Kubernetes, a manually advanced clock,
//! and faults.
//!
//! This crate collects no garbage. A collector uses it like a real cluster: through
//! [`ObjectStore`](kubegc_core::ObjectStore) ([`SharedApiServer`]), or by typed requests and a log of changes
//! ([`ApiServer`]).
//!
//! - [`ApiServer`]: requests and responses, with revisions and watch events.
//! - [`SimClock`]: a manually advanced clock.
//! - [`SharedApiServer`]: the server behind a lock, as an `ObjectStore` with watches.
//! - [`fault`]: a decorator of any `ObjectStore` that refuses calls, loses responses, and delays and repeats
//!   changes. [`RequestMatcher`](kubegc_core::RequestMatcher) selects the requests of rules.
//! - [`runtime`]: a node with containers, sandboxes, images on shared layers, logs and a limited disk
//!   ([`SimNode`]), and its faults.

mod api_server;
mod clock;
pub mod fault;
mod formats;
mod go;
mod object;
pub mod rng;
pub mod runtime;
mod selector;
mod shared;
pub mod status;
mod types;

pub use api_server::{
    Admission, AdmissionHook, AdmissionWebhook, ApiServer, ApplyOptions, Change, ConversionWebhook,
    Converter, CrdCleaner, CrdRegistration, CrdStep, Event, EventType, ObjectList, RegistrationStep,
    Response, ResponseBody, Settings, Subresource, UndecidedRequest, service_not_found, version_priority,
};
pub use clock::SimClock;
pub use fault::{FaultPlan, Faulty};
pub use go::{json_kind, json_syntax_error};
pub use object::{Body, Manifest, StoredObject};
pub use runtime::{ContainerSpec, FaultyRuntime, ImageSpec, NodeSettings, PodSpec, SimNode};
pub use selector::{FieldSelector, Filter, Selector, label_selector};
pub use shared::SharedApiServer;
pub use status::{Cause, Details, RefusedBy, Status};
pub use types::has_type;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
