//! The client against scripted runtimes, which fail on demand as a real one does not.

#[path = "../../../kubegc-node/tests/busy.rs"]
mod busy;
mod calls;
mod connecting;
mod convert;
mod crictl;
mod file_systems;
mod interrupted;
mod responses;
mod round_trip;
mod server;
mod sim;
mod tables;
#[path = "../wire.rs"]
mod wire;
#[path = "../../../kubegc-node/tests/words.rs"]
mod words;
