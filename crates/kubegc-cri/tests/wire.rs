//! CRI as the tests speak it, from the bindings that the repository keeps: messages and the server's side, and the calls that start sandboxes and containers.
#![allow(
    dead_code,
    missing_docs,
    unnameable_types,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    clippy::use_self,
    reason = "generated"
)]

/// The calls that a collector makes, and their messages.
pub(crate) mod cri {
    include!("generated/server.rs");
}

/// The calls that start sandboxes and containers, and their messages.
pub(crate) mod build {
    include!("generated/build.rs");
}
