//! Pod garbage collection: the cases of upstream's controller, the ends of quarantines to the nanosecond, and what holds for all pods.

mod cases;
mod laws;
mod quarantine;
mod support;
