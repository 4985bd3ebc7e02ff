//! Says how much there is of the file systems that a runtime names.
