//! CRI for tests, from the committed bindings: messages and the server's side,
//! and the calls that start sandboxes and containers.
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
    include!("../generated/client.rs");
}

/// The other side of these calls. It finds their messages at `crate::bindings::cri`: this file is the module
/// `bindings` of every test that takes it.
pub(crate) mod served {
    include!("generated/server.rs");
}

/// The calls that start sandboxes and containers, and their messages.
pub(crate) mod build {
    include!("generated/build.rs");
}
