//! The world in memory: an API server that deletes exactly as Kubernetes does, a clock that is moved by hand, faults.
//!
//! Nothing here collects garbage. A collector meets this world as it meets a real one: through
//! [`ObjectStore`](kubegc_core::ObjectStore) ([`SharedApiServer`]), or by typed requests and a log of changes ([`ApiServer`]).
//!
//! - [`api_server`]: requests in, answers out, revisions and events behind them.
//! - [`clock`]: [`SimClock`], time that passes when it is told to.
//! - [`shared`]: the server behind a lock, as an `ObjectStore` with watches.
//! - [`fault`]: a decorator over any `ObjectStore` that refuses, loses answers, delays and repeats.
//! - [`schedule`]: in which order and how late the changes of different resources reach a watcher.
//! - [`runtime`]: a node with containers, sandboxes, images on shared layers, logs and disks that fill ([`SimNode`]), and its faults.

pub mod api_server;
pub mod clock;
pub mod fault;
pub mod fields;
mod formats;
mod go;
pub mod object;
pub mod rng;
pub mod runtime;
pub mod schedule;
pub mod selector;
pub mod shared;
pub mod status;
mod types;

pub use api_server::{
    Admission, AdmissionHook, AdmissionWebhook, ApiServer, ApplyOptions, Change, Converter, CrdCleaner,
    CrdRegistration, CrdStep, Event, EventType, ObjectList, PendingRemoval, RegistrationStep, Response,
    ResponseBody, Settings, Subresource,
};
pub use clock::SimClock;
pub use fault::{FaultPlan, Faulty};
pub use fields::{FieldSelector, Filter};
pub use go::{json_kind, json_syntax_error};
pub use object::{Body, Manifest, StoredObject};
pub use runtime::{ContainerSpec, FaultyRuntime, ImageSpec, NodeSettings, PodSpec, SimNode};
pub use schedule::Schedule;
pub use selector::{Selector, label_selector};
pub use shared::SharedApiServer;
pub use status::{Cause, Details, Status};
pub use types::has_type;
