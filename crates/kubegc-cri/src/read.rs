//! Reads what a runtime lists as facts.
