//! Deletes secrets that hold tokens nobody uses any more: those of service accounts, and those that nodes join with.

pub mod bootstrap;
pub mod legacy;
