//! Namespace deletion against a tiny API server: upstream's visits case by case, and the laws that hold for all of them.

mod laws;
mod support;
mod visits;
