//! The gRPC bindings of `proto/cri.proto`. tonic's generator made them; they are kept in the repository, so
//! that a build needs no `protoc`.
//!
//! What lies below `generated/` is exempt from the rules of the house, as to lints, documentation and how a
//! source file begins: the test `bindings` compares it with what the generator writes, letter by letter.
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
