//! The client against runtimes that a test scripts: what a real one does not do on demand.

mod asking;
mod calls;
mod connecting;
mod convert;
mod deadlines;
mod passes;
mod reading;
mod server;
mod sim;
mod tables;
mod through;
mod warnings;
mod wire;
mod world;
