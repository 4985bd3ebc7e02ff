//! The types of built-in kinds.

pub(crate) mod schema;

pub(crate) use schema::StructId;
