//! Deletes certificate signing requests that are settled, forgotten or outlived by their certificate.
//!
//! [`Settings`] is the [`Planner`](kubegc_core::Planner) for certificate signing requests; [`pod_request`] is the one for the certificate requests
//! of pods, which has a single rule.
//!
//! # Guarantees
//! Every rule compares strictly: at the very instant of a deadline nothing is deleted, one nanosecond later it is. Rules never become false
//! again as time passes.
//!
//! # When
//! Upstream looks once an hour, and a request stays until the first look after its deadline. A plan knows nothing of looks: its `next_at`
//! is the instant at which a rule becomes true, and [`Settings::pass_at`] gives the look at or after it.
//!
//! # Upstream
//! `pkg/controller/certificates/cleaner/cleaner.go` and `pcrcleaner.go`. The certificate is read by whoever makes the facts: the first PEM block of
//! `status.certificate`, and of that the first certificate.
//!
//! Deviations:
//! - What is being deleted already is not deleted again, which upstream does once an hour and without effect.
//! - What was approved and never issued stays forever (L4.7), as it did upstream until kubernetes #133116, since about 1.35: that change deletes it
//!   once its approval is older than 24 h. Whoever wants that sets [`Settings::unissued_age`].
//! - A request without a uid stays: nothing could tell it from another of its name.
//!
//! # Examples
//! ```
//! use kubegc_core::{ObjectMeta, Planner, Timestamp};
//! use kubegc_lifecycle::certificate::{Certificate, Facts, Request, Settings};
//!
//! let mut meta = ObjectMeta::new("", "csr-7", "uid-7");
//! meta.creation_timestamp = Some(Timestamp::EPOCH);
//! let facts = Facts { requests: vec![Request { meta, conditions: Some(Vec::new()), certificate: Certificate::None }] };
//!
//! // Nobody approved or denied it for a day.
//! let day = Timestamp::from_secs(24 * 3_600);
//! let plan = Settings::default().plan(&facts, day);
//! assert!(plan.actions.is_empty());
//! let next_at = plan.next_at.unwrap();
//! assert_eq!(next_at.as_nanos(), day.as_nanos() + 1);
//! assert_eq!(Settings::default().plan(&facts, next_at).actions.len(), 1);
//! ```

mod facts;
mod plan;
pub mod pod_request;
mod reason;
mod settings;

pub use facts::{Certificate, Facts, Request};
pub use plan::Action;
pub use reason::{Reason, Rule};
pub use settings::Settings;
