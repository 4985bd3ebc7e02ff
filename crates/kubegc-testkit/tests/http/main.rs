//! The HTTP layer, by requests and responses.

mod deletes;
mod discovery;
mod negotiation;
mod nodes;
mod pages;
mod paths;
mod properties;
mod protobuf;
#[cfg(feature = "cel")]
mod real;
mod reviews;
mod watches;
mod world;
mod writes;
