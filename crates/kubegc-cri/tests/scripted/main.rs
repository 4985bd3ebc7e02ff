//! The client against scripted runtimes, which fail on demand as a real one does not.

#[path = "../wire.rs"]
mod bindings;
mod calls;
mod connecting;
mod convert;
#[path = "../crictl.rs"]
#[expect(dead_code, reason = "this program does not use the other half of the module")]
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
mod warnings;
mod world;

use bindings::cri as wire;
