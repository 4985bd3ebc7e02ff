//! The namespace controller, one pass at a time against a small API server.

mod laws;
mod rules;
mod server;
