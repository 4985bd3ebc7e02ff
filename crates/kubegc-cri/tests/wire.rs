//! The messages of CRI, from the committed bindings of the library, which are private there.
#![allow(
    dead_code,
    unnameable_types,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::use_self,
    reason = "generated"
)]

include!("../generated/messages.rs");
