//! The client against scripted runtimes, which fail on demand as a real one does not.

mod asking;
#[path = "../wire.rs"]
mod bindings;
mod calls;
mod connecting;
mod convert;
#[path = "../crictl.rs"]
#[expect(dead_code, reason = "this program does not use the other half of the module")]
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
