//! The client against runtimes that a test scripts: what a real one does not do on demand.

mod asking;
#[path = "../wire.rs"]
mod bindings;
mod calls;
mod connecting;
mod convert;
#[path = "../crictl.rs"]
#[expect(dead_code, reason = "what is not listed is not printed here")]
mod crictl;
mod deadlines;
mod passes;
mod reading;
mod reopening;
mod server;
mod sim;
mod tables;
mod through;
mod warnings;
mod world;

use bindings::cri as wire;
