//! The namespace controller, one sync at a time against a small API server.

mod laws;
mod rules;
mod server;
