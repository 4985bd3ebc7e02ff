//! The values of kubegc-core through its public interface.

mod catalog;
mod interfaces;
#[cfg(feature = "serde")]
mod json;
mod names;
mod plans;
mod records;
mod requests;
