//! Drivers over the API server in memory: each mechanism from the list to the last call, and what happens when something goes wrong on the way.

mod calls;
mod claims;
mod faults;
mod idle;
mod laws;

mod mechanisms;
mod outside;
mod stale;
mod stores;
mod support;
mod volumes;
mod watches;
