//! Decides who owns the claims of a stateful set, so that the collector of owners deletes them when the set's policy says so.
//!
//! Nothing is deleted here: a claim that is to go with its set, or with a pod that is scaled away, gets a reference to it, and loses it
//! again when that is over. A claim that still waits for its collection keeps a new pod of its ordinal from being created.
//!
//! # Guarantees
//! References to others stay, in their order. A claim that belongs to a former set or pod of the same name is not touched, and one that somebody
//! else controls gets no reference. What is not known keeps the claim as it is.
//!
//! # Order
//! Set by set; in each, the claims of pods that are scaled away come first, so that none of those pods is deleted before its claims are right.
//!
//! # Upstream
//! `pkg/controller/statefulset/stateful_set_utils.go` and `stateful_pod_control.go`. Deviations:
//! - Upstream comes to a pod of an ordered set only after those before it are ready. Here the claims of all pods are looked at.
//! - A reference with our uid under another name can never be put right; upstream writes the same references at each look, here the claim is kept
//!   as [`Reason::Stuck`].
//! - A claim that names its set or pod and, behind that, a former one of the same name loses both references first, with a warning, as upstream
//!   has it ([`Reason::FormerOwner`]). So a second plan, after the first is carried out, is not always empty: it puts the right one back.
//! - What has no uid or version, or a set or pod without uid, is left alone.
//! - Two sets whose claims share a name would undo each other's references. Here the first set has the claim, and a finding tells of the other.
//! - A policy that nobody knows counts as Retain in every respect; upstream still warns of foreign controllers then.
//!
//! Left out: the creation and deletion of pods and claims, and the adoption of pods.
//!
//! # Examples
//! ```
//! use kubegc_core::{ObjectMeta, OwnerReference, Planner, Timestamp};
//! use kubegc_lifecycle::statefulset::{Action, Facts, Retention, Settings, StatefulSet};
//!
//! let mut set = StatefulSet::new("shop", "web", "uid-set", 1);
//! set.templates = vec!["data".into()];
//! let mut pod = ObjectMeta::new("shop", "web-0", "uid-pod");
//! pod.owner_references.push(set.controller_reference());
//! let mut claim = ObjectMeta::new("shop", "data-web-0", "uid-claim");
//! claim.resource_version = "7".into();
//! let mut facts = Facts { sets: vec![set], pods: Ok(vec![pod]), claims: Ok(vec![claim]), failed_claims: [].into() };
//!
//! let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
//! assert_eq!(plan.kept[0].reason.to_string(), "its owners are as they should be");
//!
//! facts.sets[0].when_deleted = Retention::Delete;
//! let plan = Settings::default().plan(&facts, Timestamp::EPOCH);
//! assert!(matches!(&plan.actions[..], [Action::SetOwners { references, .. }] if references[0].uid == *"uid-set"));
//! ```

mod action;
mod facts;
mod owners;
mod plan;
mod reason;
mod settings;

pub use action::Action;
pub use facts::{Facts, Retention, StatefulSet};
pub use plan::{Blocked, Summary};
pub use reason::Reason;
pub use settings::Settings;
