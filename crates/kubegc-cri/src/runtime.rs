//! The runtime as a collector uses it.
