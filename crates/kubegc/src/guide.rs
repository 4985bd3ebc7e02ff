//! The guide: the architecture of kubegc, and how to use it.
//!
//! - [`architecture`]: the crates and the data that flows between them.
//! - [`examples`]: the examples of the repository.
//! - [`predicting`]: forecasts from dumps.
//! - [`asking_in_json`]: questions and answers in JSON, for hosts in other languages and for scripts.
//! - [`cleaning_up`]: the controllers that delete objects for other reasons than owner references.
//! - [`driving_the_collector`]: the garbage collector as a state machine.
//! - [`collecting_on_a_node`]: the kubelet's garbage collection.
//! - [`clusters`]: simulated clusters in tests, and live clusters.
//! - [`migrating`]: from other ways to test an operator.
//! - [`performance`]: costs, measurements, and what bounds them.
//! - [`versions`]: behaviour by Kubernetes version.
//! - [`support`]: supported versions of Rust, Kubernetes, kube and CRI.
//! - [`security`]: treatment of untrusted input, and reports of vulnerabilities.
//! - [`testing`]: recordings, laws, soak, fuzzing and mutants.
//! - [`changelog`]: the releases of kubegc.

#[doc = include_str!("../guide/architecture.md")]
pub mod architecture {}

#[doc = include_str!("../guide/examples.md")]
pub mod examples {}

#[doc = include_str!("../guide/predicting.md")]
pub mod predicting {}

#[doc = include_str!("../guide/asking_in_json.md")]
pub mod asking_in_json {}

#[doc = include_str!("../guide/cleaning_up.md")]
pub mod cleaning_up {}

#[doc = include_str!("../guide/driving_the_collector.md")]
pub mod driving_the_collector {}

#[doc = include_str!("../guide/collecting_on_a_node.md")]
pub mod collecting_on_a_node {}

#[doc = include_str!("../guide/clusters.md")]
pub mod clusters {}

#[doc = include_str!("../guide/migrating.md")]
pub mod migrating {}

#[doc = include_str!("../guide/performance.md")]
pub mod performance {}

#[doc = include_str!("../guide/versions.md")]
pub mod versions {}

#[doc = include_str!("../guide/support.md")]
pub mod support {}

#[doc = include_str!("../guide/security.md")]
pub mod security {}

#[doc = include_str!("../guide/testing.md")]
pub mod testing {}

#[doc = include_str!("../CHANGELOG.md")]
pub mod changelog {}
