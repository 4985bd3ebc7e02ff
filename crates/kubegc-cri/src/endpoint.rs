//! Says which socket a runtime listens on.
