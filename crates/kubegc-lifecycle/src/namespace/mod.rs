//! Empties a namespace that was deleted, and lets it go when nothing is left in it.
//!
//! [`Pass`] is one visit of upstream's controller as a state machine that asks and is answered: it decides what to list, what to
//! delete, which conditions to write and whether to remove the namespace's own finalizer. [`Settings`] is the [`Planner`]
//! that foresees such a visit from a picture of the namespace, under the assumption that every call succeeds.
//!
//! # Guarantees
//! The finalizer is removed only after a visit without any error in which every listable resource was seen empty: what
//! could not be listed, or not be discovered, keeps the namespace. A visit repeats harmlessly after any prefix of its calls.
//! As upstream does, every visit asks again for the deletion of what is already being deleted, so a plan is empty only for
//! a namespace that is not deleted or has no finalizer left.
//!
//! # Order
//! Upstream walks the resources in the order of a hash map. Here they come sorted by group, version and resource, pods first
//! where [`Settings::pods_go_first`] says so; items that are deleted one by one come as they were listed. The outcome does not
//! depend on the order, except for which of several errors is named first.
//!
//! # Upstream
//! `pkg/controller/namespace/deletion/namespaced_resources_deleter.go`, `status_condition_utils.go` and
//! `pkg/controller/namespace/namespace_controller.go`. Left out:
//! - The controller's queue: ten workers, a resync every five minutes, and the limit of ten retries a second for all namespaces together.
//! - Old releases (before about 1.17, not verified) also send a DELETE for the namespace after its last finalizer; here the API server removes it, as it does since.
//! - Older releases remember across visits that a resource answered 405 (until when is not verified); here each visit finds out for itself.
//!
//! # Examples
//! ```
//! use kubegc_core::{Catalog, Planner, Timestamp};
//! use kubegc_lifecycle::namespace::{Action, Content, Discovery, Facts, Item, Namespace, Settings};
//!
//! let version = "1.36".parse()?;
//! let deleted_at = Timestamp::from_secs(1_000);
//! let mut namespace = Namespace::new("shop", "uid-of-shop");
//! namespace.deletion_timestamp = Some(deleted_at);
//! let discovery = Discovery::from(&Catalog::builtin(version));
//! let contents = discovery.resources.iter().map(|resource| Content::empty(resource.id.clone())).collect();
//! let mut facts = Facts::new(namespace, discovery, contents);
//!
//! let plan = Settings::new(version).plan(&facts, deleted_at);
//! assert!(matches!(plan.actions.last(), Some(Action::Finalize { finalizers, .. }) if finalizers.is_empty()));
//!
//! // A ConfigMap that someone holds: the namespace stays, and the plan says who holds it.
//! let config = facts.contents.iter_mut().find(|content| &*content.resource.resource == "configmaps").unwrap();
//! config.items.push(Item::new("settings", "uid-1").held_by("example.com/archive"));
//! let plan = Settings::new(version).plan(&facts, deleted_at);
//! assert!(!plan.actions.iter().any(|action| matches!(action, Action::Finalize { .. })));
//! assert_eq!(&*plan.kept[0].object.name, "settings");
//! assert_eq!(plan.kept[0].reason.to_string(), "held by example.com/archive");
//! // 15 s are allowed for a finalizer: the next visit is half of that and a second later.
//! assert_eq!(plan.next_at, Some(Timestamp::from_secs(1_008)));
//! # Ok::<(), kubegc_core::FieldError>(())
//! ```
//!
//! [`Planner`]: kubegc_core::Planner

mod condition;
mod content;
mod emptying;
mod facts;
mod outcome;
mod pass;
mod plan;
mod reason;
mod settings;
mod step;

pub use condition::{Condition, ConditionStatus};
pub use facts::{
    Content, Discovery, DiscoveryFailure, Facts, GroupVersionResource, Item, Namespace, Pod, Resource,
};
pub use outcome::{Ending, Error, Finding, Outcome};
pub use pass::Pass;
pub use reason::{Object, Reason};
pub use settings::{FINALIZER_KUBERNETES, Settings};
pub use step::{Action, Answer, ListPurpose, Step};
