//! Forecasts and diagnoses for people and programs: text, JSON and DOT.

mod answer;
mod comparison;
mod diagnosis;
pub mod document;
mod dot;
mod entries;
mod events;
mod fates;
mod names;
mod notes;
mod page;
mod question;
mod reasons;
mod sarif;
mod text;
mod timeline;
mod tree;

#[cfg(feature = "schemars")]
pub(crate) use entries::WaitDocument;
pub(crate) use fates::sentence;
pub use text::Detail;
