//! Forecasts as people and programs read them: text, JSON and DOT.

mod dot;
mod json;
mod text;

pub use text::Detail;
