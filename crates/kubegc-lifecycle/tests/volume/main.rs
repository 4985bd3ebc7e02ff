//! Volumes and claims: what becomes of them, case by case and law by law.

mod external;
mod laws;
mod passes;
mod protection;
mod reclaim;
mod support;
