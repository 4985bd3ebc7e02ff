//! The rules of the API server that no recording contains: laws, bad input, differences between releases, and
//! states that no API server has. Recordings of API servers prove the others; the tests of `kubegc-conformance`
//! replay them. A number in the name of a test is that of the rule in the specification.

mod admission;
mod apply;
mod apply_lists;
mod apply_properties;
mod apply_tracking;
mod beta_definitions;
#[cfg(feature = "cel")]
mod cel;
mod crd;
mod delete;
mod faults;
mod fields;
mod hooks;
mod kind_rules;
mod namespaces;
mod policies;
mod properties;
mod releases;
mod service_accounts;
mod services;
mod store;
mod subresources;
mod unknown_fields;
mod update;
mod versions;
mod watch;
mod world;
