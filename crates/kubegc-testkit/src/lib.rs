//! A Kubernetes cluster in a test: a `kube::Client` over the simulated API server, with the real collector's behaviour.

pub mod http;
