//! The cluster as test authors use it: through clients, and through its reports.

mod assertions;
mod audit;
mod builder;
#[cfg(feature = "cel")]
mod definitions;
mod faults;
mod forecast;
#[cfg(feature = "loopback")]
mod loopback;
mod names;
mod nodes;
mod operators;
mod rest;
mod support;
mod time;
mod watches;
mod webhooks;
mod workloads;
