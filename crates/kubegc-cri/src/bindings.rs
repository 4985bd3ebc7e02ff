//! The gRPC bindings of `proto/cri.proto`. tonic's generator made them; they are kept in the repository, so
//! that a build needs no `protoc`.
//!
//! The files below `generated/` are exempt from the house rules for lints, documentation and file headers:
//! the test `bindings` compares them with the generator's output, letter by letter.
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

include!("../generated/client.rs");
