//! Reads objects of Kubernetes from their JSON, tolerantly, and renders the patches that change them.
//!
//! [`JsonDocuments`] converts single objects to the records that controllers read. `kubegc-snapshot` reads
//! the objects of dumps with the same parts.
//!
//! # Guarantees
//! - **Unread is not absent.** A field that cannot be read is
//!   [unread](kubegc_core::record::Field::Unread); an object whose metadata cannot be read is an error.
//! - **No I/O**, and no archives, YAML or streams.

#![expect(
    clippy::len_without_is_empty,
    reason = "the hidden modules are parts of kubegc-snapshot, and of the same release"
)]

#[doc(hidden)]
pub mod body;
#[doc(hidden)]
pub mod details;
mod documents;
mod encoding;
mod fields;
#[doc(hidden)]
pub mod item;
#[doc(hidden)]
pub mod metadata;
mod name;
#[doc(hidden)]
pub mod object;
#[doc(hidden)]
pub mod store;
mod template;
#[doc(hidden)]
pub mod texts;
#[doc(hidden)]
pub mod tree;
mod x509;

pub use details::{
    ApiServiceDetails, CrdConverter, CrdDetails, CrdVersion, Details, EventDetails, QuotaDetails,
};
pub use documents::JsonDocuments;
pub use name::ObjectName;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
