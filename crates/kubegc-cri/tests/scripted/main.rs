//! The client against scripted runtimes, which fail on demand as a real one does not.

#[path = "../../../kubegc-node/tests/busy.rs"]
mod busy;
mod calls;
mod connecting;
mod convert;
mod crictl;
mod deadlines;
mod interrupted;
mod reading;
mod reopening;
mod round_trip;
mod server;
mod sim;
mod statuses;
mod tables;
#[path = "../wire.rs"]
mod wire;
mod world;
