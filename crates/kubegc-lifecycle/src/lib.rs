//! What else Kubernetes calls garbage collection, as pure planners: the cleaners beside the owner graph and the kubelet.
//!
//! Each module is one upstream controller: facts, settings and a time in, actions with reasons out. Where upstream's next call
//! depends on how the last one went, the module also has a resumable face. So far there is [`namespace`].
//!
//! **Invariant.** No item here performs I/O, reads a clock or draws entropy.

pub mod namespace;
