//! The log files of containers on this machine.
