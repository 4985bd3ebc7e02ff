//! The messages and the server's side of CRI, from the bindings that the repository keeps.
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

include!("../generated/server.rs");
