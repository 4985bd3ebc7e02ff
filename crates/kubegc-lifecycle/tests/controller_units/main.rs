//! What the controller looks at for histories, pods, storage, stateful sets and tokens: that it does what the planners say, does nothing on what was not read or
//! listed, and looks again at what a change concerns, and at nothing else.

mod clusters;
mod external_volumes;
mod histories;
mod laws;
mod legacy_tokens;
mod pods;
mod protection;
mod stateful_sets;
mod support;
mod volumes;
mod whole;
