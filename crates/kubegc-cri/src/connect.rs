//! Opens a connection to a runtime, and decides whether it speaks the interface that kubegc needs.
