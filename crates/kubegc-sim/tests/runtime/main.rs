//! The node in memory: what it answers as containerd does, how its disks fill, what it writes down, and the
//! faults before it.

mod disks;
mod faults;
mod images;
mod lifecycle;
mod logs;
mod node;
mod properties;
mod record;
