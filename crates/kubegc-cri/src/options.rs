//! How long to wait for a runtime, and how much to take from it.
