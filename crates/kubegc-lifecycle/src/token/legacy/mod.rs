//! Deletes the tokens that service accounts were once given as secrets, after nobody has used them for a long time.
//!
//! A token that passes all checks is first marked as invalid, with the date of the day; the API server then refuses it. One period later it is
//! deleted. Whoever still needs it has that long to take the mark away, which makes it valid again.
//!
//! # Guarantees
//! A token goes only if everything that could speak for it is known and does not: when it was last used, its account, and all pods of its namespace.
//! Nothing is marked or deleted before uses have been tracked for a whole period.
//!
//! # Dates
//! Labels hold dates, and dates are those of UTC. A date protects until its day has been over for a whole period.
//!
//! # Upstream
//! `pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go`. Secrets come here in the order of namespace and name, there as the cache lists them.
//!
//! # Examples
//! ```
//! use kubegc_core::{ObjectMeta, Planner, Timestamp};
//! use kubegc_lifecycle::token::legacy::{Action, Facts, Policy, SECRET_TYPE, Secret, ServiceAccount, Tracking};
//!
//! let mut meta = ObjectMeta::new("shop", "till-token-x", "uid-1");
//! meta.creation_timestamp = Some(Timestamp::parse("2023-01-10T00:00:00Z")?);
//! let facts = Facts {
//!     tracking: Tracking::Since("2024-01-01".into()),
//!     secrets: vec![Secret {
//!         meta,
//!         secret_type: Some(SECRET_TYPE.into()),
//!         account_name: Some("till".into()),
//!         account_uid: Some("".into()),
//!     }],
//!     accounts: Ok(vec![ServiceAccount {
//!         meta: ObjectMeta::new("shop", "till", "uid-2"),
//!         secrets: Some(vec!["till-token-x".into()]),
//!     }]),
//!     pods: Ok(Vec::new()),
//! };
//! // Tracked from the second of January on, for 365 days.
//! let next_at = Policy::default().plan(&facts, Timestamp::parse("2024-06-01T00:00:00Z")?).next_at;
//! assert_eq!(next_at, Some(Timestamp::parse("2025-01-01T00:00:00Z")?));
//! let plan = Policy::default().plan(&facts, Timestamp::parse("2025-01-01T00:00:00Z")?);
//! assert!(matches!(&plan.actions[..], [Action::Mark { date, .. }] if date.to_string() == "2025-01-01"));
//! # Ok::<(), kubegc_core::FieldError>(())
//! ```

mod action;
mod facts;
mod plan;
mod policy;
mod reason;

pub use action::Action;
pub use facts::{Facts, Pod, Secret, ServiceAccount, Tracking};
pub use plan::Summary;
pub use policy::{Policy, PolicyError};
pub use reason::Reason;

/// The type of the secrets.
pub const SECRET_TYPE: &str = "kubernetes.io/service-account-token";
/// The label that says when a token was last used.
pub const LABEL_LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// The label that says since when a token is invalid.
pub const LABEL_INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
