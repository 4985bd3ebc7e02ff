//! Forecasts and diagnoses for people and programs: text, JSON and DOT.

mod answer;
pub mod comparison;
mod diagnosis;
pub mod document;
mod events;
mod page;
mod question;
mod rows;
mod text;

pub use text::Detail;
