//! The rules of the API server, one table or one test a rule, named by the rule's number in the specification.

mod crd;
mod create;
mod delete;
mod delete_pods;
mod faults;
mod namespaces;
mod patch;
mod properties;
mod store;
mod update;
mod versions;
mod watch;
mod world;
