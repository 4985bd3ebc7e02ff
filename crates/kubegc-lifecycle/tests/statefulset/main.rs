//! Stateful sets: who owns their claims, case by case and law by law.

mod cases;
mod laws;
mod support;
