//! The controller of all mechanisms: when it looks, what it hands out, and what it makes of how that ends.

mod cadence;
mod endings;
mod known;
mod laws;
mod support;
