//! Deletes bootstrap tokens that have expired.
//!
//! # Guarantees
//! A token without an expiry stays. One whose expiry cannot be read goes, as upstream has it: the text is read just as Go reads RFC 3339,
//! odd forms and years up to 9999 included, so that no token goes that upstream keeps.
//!
//! # Upstream
//! `pkg/controller/bootstrap/tokencleaner.go` and the utilities of `cluster-bootstrap`. The name of the secret is not looked at, and other users of
//! such tokens refuse expired ones by themselves. Two deviations: what is being deleted already is not deleted again, and a secret without a uid stays,
//! for nothing would guard the next one of its name.
//!
//! # Examples
//! ```
//! use kubegc_core::{ObjectMeta, Planner, Timestamp};
//! use kubegc_lifecycle::token::bootstrap::{Expiration, Facts, SECRET_TYPE, Secret, Settings};
//!
//! let secret = Secret {
//!     meta: ObjectMeta::new("kube-system", "bootstrap-token-abcdef", "uid-1"),
//!     secret_type: Some(SECRET_TYPE.into()),
//!     expiration: Expiration::Text("2026-03-01T13:00:00+01:00".into()),
//! };
//! let facts = Facts { secrets: vec![secret] };
//! let noon = Timestamp::parse("2026-03-01T12:00:00Z")?;
//!
//! let before = Timestamp::from_nanos(noon.as_nanos() - 1);
//! let plan = Settings::default().plan(&facts, before);
//! assert_eq!(plan.kept[0].reason.to_string(), "stays until 2026-03-01T12:00:00Z");
//! assert_eq!(plan.next_at, Some(noon));
//! assert_eq!(Settings::default().plan(&facts, noon).actions.len(), 1);
//! # Ok::<(), kubegc_core::FieldError>(())
//! ```

mod expiry;
mod plan;

pub use plan::{Action, Expiration, Facts, NAMESPACE, Reason, SECRET_TYPE, Secret, Settings};
