//! Sorts what a runtime answers into failures that a collector can act on.
