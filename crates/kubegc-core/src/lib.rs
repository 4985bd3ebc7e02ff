//! Common types of all kubegc crates: object identity and metadata, delete options, the catalog of kinds,
//! time, records of objects, and plans.
//!
//! This crate does not decide what is garbage. It defines the types (identity, metadata, delete options, the
//! catalog of kinds, node facts), the three traits of outside systems ([`ObjectStore`], [`Runtime`],
//! [`Clock`]) and the form of results ([`Planner`], [`Plan`]).
//!
//! **Invariant.** No item here performs I/O, reads a clock or draws entropy.

pub mod admission;
pub mod backoff;
mod catalog;
mod clock;
#[cfg(feature = "kube")]
mod convert;
pub mod deletion;
mod error;
pub mod identity;
#[cfg(feature = "serde")]
pub mod json;
mod matcher;
pub mod metadata;
pub mod node_facts;
pub mod planner;
mod printable;
mod quantity;
pub mod record;
pub mod reflector;
pub mod runtime;
mod selector;
pub mod store;
mod time;
pub mod version;

pub use catalog::{ApiResource, Catalog, DefaultDeletion, KindId, Scope, Verbs};
pub use clock::Clock;
pub use deletion::{DeleteOptions, Preconditions, PropagationPolicy};
pub use error::{FieldError, StoreError};
pub use identity::{ObjectRef, Uid};
pub use matcher::{RequestAttributes, RequestMatcher};
pub use metadata::{ObjectMeta, OwnerReference, PartialObjectMetadata, ResourceVersion, SharedMeta};
pub use planner::{Kept, Plan, PlanOf, PlannedAction, Planner, Withheld};
pub use printable::printable;
pub use quantity::{Quantity, QuantityFormat};
pub use runtime::{LogDirectory, PodSource, Runtime, RuntimeError};
pub use selector::{LabelRequirement, LabelSelector};
pub use store::{ObjectStore, PatchType, WatchStream};
pub use time::{Date, Timestamp};
pub use version::{Behavior, KubernetesVersion};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
