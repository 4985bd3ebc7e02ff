//! The messages of CRI, from the committed bindings.
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

/// The messages of the calls that start sandboxes and containers.
pub(crate) mod build {
    include!("generated/build.rs");
}
