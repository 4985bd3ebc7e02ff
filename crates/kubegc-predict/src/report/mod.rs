//! Forecasts and diagnoses for people and programs: text, JSON and DOT.

mod answer;
pub mod comparison;
mod diagnosis;
pub mod document;
mod events;
mod fates;
mod notes;
mod page;
mod question;
mod text;
mod timeline;
mod tree;

pub use text::Detail;
