//! The simulated node: responses like containerd's, its disk, the record of calls, and the faults in front of
//! it.

mod lifecycle;
mod node;
mod properties;
mod record;
mod scenes;
